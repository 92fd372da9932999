from collections.abc import Sequence
from typing import Any

from toolglot.values.messages import Message
from toolglot.values.request import Request
from toolglot.wire.json_values import Doc
from toolglot.wire.tool_encoding import encode_function, select_tools
from toolglot.wire.writer import Writer


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    calls = [
        {"id": call.id, "name": writer.map_tool_name(call.name), "text": call.text} for call in message.calls
    ]
    results = [{"id": result.call_id, "text": result.text} for result in message.results]
    return [{"role": message.role, "text": message.text, "calls": calls, "results": results}]


def encode_body(request: Request, writer: Writer, system: Sequence[Message], items: list[Any]) -> Doc:
    functions = [encode_function(tool, writer) for tool in select_tools(request, writer)[0]]
    tools = [{"name": function.name, "schema": function.schema} for function in functions]
    return {"model": request.model, "stream": request.stream, "tools": tools, "messages": items}
