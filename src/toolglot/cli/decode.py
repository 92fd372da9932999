"""`toolglot decode`: a provider's answer as a neutral reply."""

import base64
from typing import Any

from toolglot.cli.lines import Answer, fields
from toolglot.errors import MalformedData
from toolglot.messages import Reply, Thinking, ToolCall
from toolglot.wire.codec import reader
from toolglot.wire.reader import ReplyReader, error_of

__all__ = ["decode_line", "read_reply", "reply_answer"]


def decode_line(wire: str, given: Answer) -> Answer:
    """One line of `--jsonl`: a recorded exchange."""
    body, status = fields(given, response_body=str, status=int)
    if given.get("response_body_encoding") == "base64":
        try:
            data = base64.b64decode(body, validate=True)
        except ValueError as e:
            raise MalformedData(f"field 'response_body' is not base64: {e}") from None
    else:
        data = body.encode("utf-8", "surrogatepass")
    if status >= 400:
        raise error_of(status, data)
    content_type = given.get("response_content_type")
    streaming = bool(given.get("streaming"))
    found = reader(wire, streaming=streaming, content_type=content_type if isinstance(content_type, str) else "")
    return reply_answer(read_reply(found, data), found)


def read_reply(found: ReplyReader, data: bytes) -> Reply:
    """The reply that the bytes hold."""
    found.feed(data)
    found.close()
    assert found.reply is not None
    return found.reply


def reply_answer(reply: Reply, found: ReplyReader) -> Answer:
    """The contract's form of a reply: every field of a call is there, null or not."""
    blocks: list[Any] = []
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            call: Answer = {
                "type": "tool_call",
                "id": block.id,
                "name": block.name,
                "arguments": block.arguments,
                "raw": block.raw,
            }
            more = {"freeform": block.freeform, "namespace": block.namespace, "opaque": block.opaque}
            blocks.append({**call, **{key: value for key, value in more.items() if value}})
        elif isinstance(block, Thinking):
            blocks.append({"type": "thinking", "text": block.text, **({"opaque": block.opaque} if block.opaque else {})})
        else:
            blocks.append(block)
    said: Answer = {"blocks": blocks, "stop": reply.stop, "usage": reply.usage}
    if reply.origin and reply.origin.model:
        said["model"] = reply.origin.model
    return {"reply": said, "losses": found.losses}
