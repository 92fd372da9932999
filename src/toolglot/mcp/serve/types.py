"""Converts tools and their results to the protocol's types, for the MCP server. Pure."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

import mcp_types as types

from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_line, quote_lines
from toolglot.common.textutil import truncate
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest, Effect
from toolglot.values.messages import Foreign, Media, Text, ToolResult, ToolsChanged
from toolglot.values.request import ToolDefinition
from toolglot.wire.json_values import as_dict
from toolglot.wire.tool_encoding import FREEFORM_SCHEMA, describe_tool

__all__ = ["approval_form", "legal_name", "to_mcp_result", "to_mcp_tool"]

FREEFORM_PARAMETER = next(iter(FREEFORM_SCHEMA["properties"]))
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_HASH_LENGTH = 8
_MAX_NAME, _MAX_HEADING = 100, 300
"""Characters of a tool's name, and of other text on a line of its own, in a question."""
_CONTENT_TYPES: dict[str, type[types.ContentBlock]] = {
    "text": types.TextContent,
    "image": types.ImageContent,
    "audio": types.AudioContent,
    "resource": types.EmbeddedResource,
    "resource_link": types.ResourceLink,
}


def legal_name(name: str) -> str:
    """Return a tool's name in MCP's alphabet; one that had to be changed ends in a hash of the original."""
    if _LEGAL_NAME.match(name):
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)[: 127 - _HASH_LENGTH]}_{digest}"


def to_mcp_tool(definition: ToolDefinition, tools: Iterable[Tool]) -> types.Tool:
    """Return a tool as clients see it.

    `tools`: the tools that its calls may run, for the hints about its effects.
    """
    qualified_name = definition.qualified_name
    name = legal_name(qualified_name)
    schema = FREEFORM_SCHEMA if definition.kind == "freeform" else definition.parameters or {}
    return types.Tool(
        name=name,
        title=None if name == qualified_name else qualified_name,
        description=describe_tool(definition) or None,
        input_schema={**schema, "type": "object"},
        output_schema=definition.output_schema,
        annotations=_describe_effects([*tools]),
    )


def _describe_effects(tools: list[Tool]) -> types.ToolAnnotations:
    """Return the hints about the effects of tools."""
    effects = frozenset[Effect]().union(*(tool.effects for tool in tools))
    # Clients run read-only tools without asking, so a tool that can reach the network is not marked as one.
    is_read_only = bool(effects) and effects <= {"read"}
    is_idempotent = bool(tools) and all(tool.idempotent for tool in tools)
    return types.ToolAnnotations(
        read_only_hint=is_read_only,
        destructive_hint=bool(effects & {"write", "execute"}),
        idempotent_hint=is_read_only or is_idempotent,
        open_world_hint=bool(effects & {"network", "execute"}),
    )


def to_mcp_result(
    result: ToolResult, *, is_modern: bool, output_schema: dict[str, Any] | None = None
) -> types.CallToolResult:
    """Return the result of a call.

    Structured content must be an object, unless the client uses the newer protocol.

    A result that a facade has rendered is complete as text; its data is for the vendor's own wires.
    """
    content = [*_to_mcp_content(result)]
    data = None if result.is_rendered or result.is_error else result.data
    if not is_modern and not isinstance(data, dict):
        data = None
    is_error = result.is_error
    # a client would reject it without giving a reason
    if output_schema is not None and data is None and not is_error:
        is_error = True
        content.append(
            types.TextContent(text="[The structured output of this call was left out: it was too long.]")
        )
    return types.CallToolResult(content=content, structured_content=data, is_error=is_error)


def _to_mcp_content(result: ToolResult) -> Iterator[types.ContentBlock]:
    for number, block in enumerate(result.content):
        match block:
            case Text():
                yield types.TextContent(text=block.text)
            case Media():
                yield _to_mcp_media(block, f"toolglot://result/{result.call_id}/{number}")
            case ToolsChanged():
                names = [*(tool.qualified_name for tool in block.added), *block.loaded]
                yield types.TextContent(text=f"[loaded {', '.join(names)}]")
            case Foreign():
                yield _to_mcp_foreign(block)


def _to_mcp_media(media: Media, uri: str) -> types.ContentBlock:
    media_type = media.media_type or None
    match media:
        case Media(kind="image", data=str(data)):
            return types.ImageContent(data=data, mime_type=media.media_type)
        case Media(kind="audio", data=str(data)):
            return types.AudioContent(data=data, mime_type=media.media_type)
        case Media(data=str(data)):
            contents = types.BlobResourceContents(uri=uri, mime_type=media_type, blob=data)
            return types.EmbeddedResource(resource=contents)
        case Media(url=str(url)):
            return types.ResourceLink(name=media.name or url, uri=url, mime_type=media_type)
        case _:
            return types.TextContent(
                text=f"[{media.kind} {media.name or media.file_id} is stored at a provider]"
            )


def _to_mcp_foreign(block: Foreign) -> types.ContentBlock:
    """Return content of another MCP server as it was, and any other content as JSON."""
    content_type = _CONTENT_TYPES.get(str(as_dict(block.item).get("type"))) if block.wire == "mcp" else None
    if content_type is not None:
        with suppress(ValueError):  # pydantic's errors are ValueErrors
            return content_type.model_validate(block.item)
    return types.TextContent(text=dumps_text(block.item))


def approval_form(request: ApprovalRequest, *, offers_always: bool = True) -> types.ElicitRequestFormParams:
    """Return the form in which a client asks its user about a call, with everything that the call would do.

    The model wrote most of this text: nothing in it may be hidden or look like another question. So only the
    first line, and lines with a label of ours, are not quoted.
    """
    reason = escape_line(request.reason)
    parts = [f"Allow {truncate(escape_line(request.tool), _MAX_NAME)}? ({truncate(reason, _MAX_HEADING)})"]
    if len(reason) > _MAX_HEADING:  # a server's question, for example, which must be shown in full
        parts.append(quote_lines(request.reason))
    is_previewed = all(line in request.preview for line in request.target.split("\n"))
    if request.target and not is_previewed:
        parts.append(f"Target: {truncate(escape_line(request.target), _MAX_HEADING)}")
    parts.append(quote_lines(request.preview or dumps_text(request.arguments)))
    if request.preview_error:
        parts.append(f"There is no preview: {truncate(escape_line(request.preview_error), _MAX_HEADING)}")
    message = "\n\n".join(parts)
    always = {
        "type": "boolean",
        "title": "Always",
        "description": f"Do not ask about {request.tool} again in this session.",
        "default": False,
    }
    properties = {"always": always} if offers_always and not request.each_time else {}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return types.ElicitRequestFormParams(message=message, requested_schema=schema)
