"""A tool, a call and an image for requests, and the subjects of losses."""

from typing import Any

from toolglot.values.messages import Media, Text, ToolCall, ToolResult, tool_results
from toolglot.values.request import ToolDefinition
from toolglot.wire.writer import EncodedRequest

Doc = dict[str, Any]
SCHEMA: Doc = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GET = ToolDefinition("get", "Gets.", SCHEMA)
CALL = ToolCall("c1", "get", {"x": "1"})
DONE = tool_results(ToolResult("c1", (Text("one"),), "get"))
PNG = Media("image", "image/png", "iVBORw0KGgo=")


def lost_subjects(encoded: EncodedRequest) -> list[str]:
    return [loss.subject for loss in encoded.losses]
