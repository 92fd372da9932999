"""`toolglot decode`: decode a provider's response into a neutral reply."""

import base64
from typing import Any

from toolglot.cli.jsonl import Record, required_fields
from toolglot.errors import MalformedData
from toolglot.messages import Reply, Thinking, ToolCall
from toolglot.wire.codec import create_reader
from toolglot.wire.reader import ReplyReader, error_from_response

__all__ = ["decode_line", "read_reply", "reply_record"]


def decode_line(wire: str, record: Record) -> Record:
    """Decode one line of `--jsonl`: a recorded exchange."""
    body, status = required_fields(record, response_body=str, status=int)
    if record.get("response_body_encoding") == "base64":
        try:
            data = base64.b64decode(body, validate=True)
        except ValueError as e:
            raise MalformedData(f"field 'response_body' is not base64: {e}") from None
    else:
        data = body.encode("utf-8", "surrogatepass")
    if status >= 400:
        raise error_from_response(status, data)
    content_type = record.get("response_content_type")
    content_type = content_type if isinstance(content_type, str) else ""
    reply_reader = create_reader(wire, streaming=bool(record.get("streaming")), content_type=content_type)
    return reply_record(read_reply(reply_reader, data), reply_reader)


def read_reply(reply_reader: ReplyReader, data: bytes) -> Reply:
    """Decode a complete response."""
    reply_reader.feed(data)
    reply_reader.close()
    assert reply_reader.reply is not None
    return reply_reader.reply


def reply_record(reply: Reply, reply_reader: ReplyReader) -> Record:
    """Build the output record. A call always has all of its fields, even if they are null: scripts rely on it."""
    blocks: list[Any] = []
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            call: Record = {
                "type": "tool_call",
                "id": block.id,
                "name": block.name,
                "arguments": block.arguments,
                "raw": block.raw,
            }
            optional = {"freeform": block.freeform, "namespace": block.namespace, "opaque": block.opaque}
            blocks.append(call | {key: value for key, value in optional.items() if value})
        elif isinstance(block, Thinking):
            blocks.append({"type": "thinking", "text": block.text, **({"opaque": block.opaque} if block.opaque else {})})
        else:
            blocks.append(block)
    record: Record = {"blocks": blocks, "stop": reply.stop, "usage": reply.usage}
    if reply.origin and reply.origin.model:
        record["model"] = reply.origin.model
    return {"reply": record, "losses": reply_reader.losses}
