"""`toolglot decode`: decode a provider's response into a neutral reply."""

import base64
from pathlib import Path
from typing import Any

import click
import msgspec

from toolglot.cli.jsonl import Record, convert_record, process_lines, read_input
from toolglot.cli.options import INPUT_FILE, JSONL, WIRE
from toolglot.cli.printer import print_json
from toolglot.errors import MalformedData
from toolglot.values.messages import Thinking, ToolCall
from toolglot.wire.codec import create_reader
from toolglot.wire.reader import ReplyReader, error_from_response


class _Exchange(msgspec.Struct):
    """A line of `--jsonl`: a recorded response."""

    response_body: str
    status: int
    streaming: bool = False
    response_content_type: str | None = None
    response_body_encoding: str | None = None


@click.command()
@click.option("--wire", type=WIRE, required=True, help="API format of the response.")
@JSONL
@INPUT_FILE
def decode(wire: str, jsonl: bool, file: Path | None) -> int:
    """Decode a provider's response into a neutral reply.

    The response may be a stream or a complete body. Use - as FILE or omit it to read stdin.

    With --jsonl, each line {"id", "status", "response_body"} is answered by {"id", "reply", "losses"} or
    {"id", "error"}; add "streaming": true for a stream, and "response_body_encoding": "base64" for bytes.
    """
    if jsonl:
        return process_lines(file, lambda record: _decode_exchange(wire, record))
    print_json(_read_reply(create_reader(wire), read_input(file)))
    return 0


def _decode_exchange(wire: str, record: Record) -> Record:
    exchange = convert_record(record, _Exchange)
    if exchange.response_body_encoding == "base64":
        try:
            data = base64.b64decode(exchange.response_body, validate=True)
        except ValueError as e:
            raise MalformedData(f"response_body is not base64: {e}") from None
    else:
        data = exchange.response_body.encode("utf-8", "surrogatepass")
    if exchange.status >= 400:
        raise error_from_response(exchange.status, data)
    content_type = exchange.response_content_type or ""
    return _read_reply(create_reader(wire, streaming=exchange.streaming, content_type=content_type), data)


def _read_reply(reader: ReplyReader, data: bytes) -> Record:
    """Decode a complete response.

    A call always has all of its fields, even if they are null: scripts rely on it.
    """
    reader.feed(data)
    reader.close()
    reply, blocks = reader.reply, list[Any]()
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            call = {
                "type": "tool_call",
                "id": block.id,
                "name": block.name,
                "arguments": block.arguments,
                "raw": block.raw,
            }
            optional = {"freeform": block.freeform, "namespace": block.namespace, "opaque": block.opaque}
            blocks.append(call | {key: value for key, value in optional.items() if value})
        elif isinstance(block, Thinking):
            blocks.append(
                {"type": "thinking", "text": block.text, **({"opaque": block.opaque} if block.opaque else {})}
            )
        else:
            blocks.append(block)
    record: Record = {"blocks": blocks, "stop": reply.stop, "usage": reply.usage}
    if reply.origin and reply.origin.model:
        record["model"] = reply.origin.model
    return {"reply": record, "losses": reader.losses}
