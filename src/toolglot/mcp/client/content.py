"""Converts what MCP servers return to values that can be sent to every model: text, media, messages."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast, get_args

from toolglot.common.jsontext import dumps_text
from toolglot.common.media_types import detect_media
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.values.messages import Media, MediaKind, Message, Text

if TYPE_CHECKING:
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        PromptMessage,
        TextResourceContents,
    )

__all__ = ["Part", "convert_content", "convert_messages", "convert_resource", "convert_result"]

Part = Text | Media
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


def convert_result(result: "CallToolResult", notes: Iterable[str] = ()) -> ToolOutput:
    """Return the result of a call. `notes`: further information for the model."""
    parts = [convert_content(block) for block in result.content]
    data = result.structured_content
    if data is not None and not parts:
        parts = [Text(dumps_text(data))]
    parts = [*parts[:1], *(separate(part) for part in parts[1:])]
    parts += [Text(f"\n[{escape_surrogates(note)}]") for note in notes]
    error_code = "mcp_error" if result.is_error else ""
    return ToolOutput(
        parts or "The tool returned nothing.", data, is_error=result.is_error, error_code=error_code
    )


def separate(part: Part) -> Part:
    """Return a part that begins on a new line: on most wires, all texts in a result are one string."""
    return Text(f"\n{part.text}") if isinstance(part, Text) and not part.text.startswith("\n") else part


def convert_content(block: "ContentBlock") -> Part:
    """Convert one part of a result or a prompt."""
    match block.type:
        case "text":
            return Text(escape_surrogates(block.text))
        case "image" | "audio":
            return make_media(block.data, block.mime_type, kind=block.type)
        case "resource":
            return convert_resource(block.resource)
        case "resource_link":
            size = f"{block.size} bytes" if block.size is not None else ""
            details = ", ".join(filter(None, [block.mime_type, size]))
            text = f"resource {block.name}: {block.uri}"
            if details:
                text += f" ({details})"
            text = f"[{text}]"
            if block.description:
                text += f" {block.description}"
            return Text(escape_surrogates(text))


def convert_resource(resource: "TextResourceContents | BlobResourceContents") -> Part:
    """Return the contents of a resource, with its URI."""
    if (text := getattr(resource, "text", None)) is not None:
        return Text(escape_surrogates(f"[{resource.uri}]\n{text}"))
    blob = cast("BlobResourceContents", resource).blob
    return make_media(blob, resource.mime_type or "", name=str(resource.uri).rpartition("/")[2])


def convert_messages(messages: "Iterable[PromptMessage]") -> tuple[Message, ...]:
    """Convert a prompt's messages."""
    return tuple(Message(message.role, (convert_content(message.content),)) for message in messages)


def make_media(data: str, media_type: str, *, kind: str = "", name: str = "") -> Part:
    """Return media, or a note in its place.

    The type is detected from the bytes if possible, because providers check it.

    A provider would refuse a request with an invalid image, and every later request in that conversation: it
    is left out.
    """
    media_type = media_type.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(media_type):
        media_type = "application/octet-stream"
    data = "".join(data.split())  # some servers wrap the lines
    reason = ""
    detected: tuple[str, str] | None = None
    try:
        content = b64decode(data, validate=True)
    except (Base64Error, ValueError):
        reason = "its data is not base64"
    else:
        detected = detect_media(content[:16])
        reason = _find_problem(content, kind, media_type, detected)
    if reason:
        return Text(f"[{kind or 'a file'} ({media_type}) was left out: {reason}]")
    if detected:
        media_type = detected[1]
    family = media_type.partition("/")[0]
    if family not in get_args(MediaKind):
        family = kind or "file"
    return Media(cast(MediaKind, family), media_type, data, name=name)


def _find_problem(content: bytes, kind: str, media_type: str, detected: tuple[str, str] | None) -> str:
    """Return why a provider would refuse media, or an empty text.

    `detected`: the family and the type of its bytes.
    """
    if not content:
        return "it is empty"
    if detected is None:
        is_checked = kind == "image" or media_type.startswith("image/") or media_type == "application/pdf"
        return "models cannot view its data (they accept PNG, JPEG, GIF, WebP, PDF)" if is_checked else ""
    family, detected_type = detected
    if kind == "image" and family != "image":
        return f"its data is {detected_type}"
    return ""
