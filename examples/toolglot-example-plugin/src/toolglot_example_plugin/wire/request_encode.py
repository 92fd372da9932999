"""Requests as the provider wants them. What it cannot express is reported by the writer."""

from collections.abc import Sequence
from typing import Any

from toolglot import Message, Request
from toolglot.wire.options import encode_sampling
from toolglot.wire.tool_encoding import encode_function, select_tools
from toolglot.wire.writer import Writer

__all__ = ["encode_body", "encode_message"]


def encode_message(message: Message, writer: Writer) -> list[dict[str, Any]]:
    """Return the items of the history for one message."""
    calls = [
        {"id": call.id, "name": writer.map_tool_name(call.name), "text": call.text}
        for call in message.calls
    ]
    results = [{"id": result.call_id, "text": result.text} for result in message.results]
    return [{"role": message.role, "text": message.text, "calls": calls, "results": results}]


def encode_body(
    request: Request, writer: Writer, system: Sequence[Message], items: list[Any]
) -> dict[str, Any]:
    """Return the body; the history comes last, so that what was sent before stays its beginning."""
    functions = [encode_function(tool, writer) for tool in select_tools(request, writer)[0]]
    tools = [
        {"name": function.name, "about": function.description, "schema": function.schema}
        for function in functions
    ]
    return {
        "model": request.model,
        "stream": request.stream,
        "tools": tools,
        **encode_sampling(request.options, writer),
        "messages": items,
    }
