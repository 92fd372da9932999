"""OpenAI Responses: tools, of a request or of an item."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolglot.values.definitions import ToolDefinition
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts, unknown_fields
from toolglot.wire.request_decoding import define_tool
from toolglot.wire.spec import OPENAI_RESPONSES


def decode_tools(items: Any) -> tuple[ToolDefinition, ...]:
    """Decode tools."""
    return tuple(tool for item in iter_dicts(items) for tool in decode_tool(item))


def decode_tool(item: Doc) -> Iterator[ToolDefinition]:
    """Decode a tool. A namespace contains several."""
    deferred = item.get("defer_loading") is True
    known: tuple[str, ...] = ("type", "name", "description")
    if deferred:
        known += ("defer_loading",)
    match item.get("type"):
        case "function" | None:
            opaque = unknown_fields(item, (*known, "parameters", "strict"))
            yield define_tool(item, OPENAI_RESPONSES, opaque, strict=item.get("strict"), deferred=deferred)
        case "custom":
            opaque = unknown_fields(item, (*known, "format"))
            grammar = unknown_fields(as_dict(item.get("format")), ("type",))
            yield define_tool(
                item, OPENAI_RESPONSES, opaque, kind="freeform", grammar=grammar, deferred=deferred
            )
        case "namespace":
            space = unknown_fields(item, ("type", "name", "tools"))
            for inner in iter_dicts(item.get("tools")):
                for tool in decode_tool(inner):
                    opaque = dict(tool.opaque or {})
                    if space:
                        opaque["namespace"] = space
                    yield replace(tool, namespace=as_text(item.get("name")), opaque=opaque or None)
        case "tool_search" if item.get("execution") == "client":
            # the caller runs it: a function with a form of its own
            opaque = unknown_fields(item, ("type", "execution", "description", "parameters"))
            yield define_tool({**item, "name": "tool_search"}, OPENAI_RESPONSES, opaque, finds_tools=True)
        case kind:
            name = name_hosted_tool(item)
            finds_tools = kind == "tool_search"
            yield ToolDefinition(
                name, kind="hosted", wire=OPENAI_RESPONSES, opaque=item, finds_tools=finds_tools
            )


def name_hosted_tool(item: Doc) -> str:
    """Name a hosted tool by its type. There may be several MCP servers, each with a label."""
    kind = as_text(item.get("type"))
    label = as_text(item.get("server_label"))
    return f"{kind}:{label}" if label else kind
