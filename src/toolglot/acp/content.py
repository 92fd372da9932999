"""Converts the protocol's content blocks to ours and back."""

import os
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from toolglot.errors import UsageError
from toolglot.values.messages import Media, Text

__all__ = ["ContentBlock", "read_prompt", "to_content"]

ContentBlock = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def read_prompt(blocks: Iterable[ContentBlock]) -> list[Text | Media]:
    """Convert a prompt's blocks.

    A link stays a link, which the model opens with its tools. Raises UsageError.
    """
    return [_read_block(block) for block in blocks]


def _read_block(block: ContentBlock) -> Text | Media:
    match block:
        case TextContentBlock():
            return Text(block.text)
        case ImageContentBlock():
            return _read_media(block.data, block.mime_type, _name(block.uri))
        case AudioContentBlock():
            return _read_media(block.data, block.mime_type, "")
        case ResourceContentBlock():
            return Text(f"[{block.title or block.name}]({_path(block.uri)})")
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return Text(f"[{_path(resource.uri)}]\n{resource.text}")
        case EmbeddedResourceContentBlock(resource=resource):
            return _read_media(resource.blob, resource.mime_type or "", _name(resource.uri))


def to_content(block: Any) -> ContentBlock | None:
    """Convert a conversation's block for the editor; None if it cannot be expressed there, or is empty."""
    match block:
        case Text() if block.text:
            return TextContentBlock(type="text", text=block.text)
        case Media(kind="image", data=str() as data):
            return ImageContentBlock(type="image", data=data, mime_type=block.media_type)
        case Media(kind="audio", data=str() as data):
            return AudioContentBlock(type="audio", data=data, mime_type=block.media_type)
        case Media():
            name = block.name or block.media_type or block.kind
            return ResourceContentBlock(
                type="resource_link", name=name, uri=block.url or f"attachment:{name}"
            )
        case _:
            return None


def _read_media(data: str, media_type: str, name: str) -> Media:
    label = repr(name or media_type)
    try:
        return Media.from_bytes(b64decode(data, validate=True), media_type, name=name)
    except Error as e:
        raise UsageError(f"the attachment {label} is not valid base64: {e}") from None
    except UsageError:
        raise UsageError(
            f"the attachment {label} cannot be sent: it is neither text nor a known media type"
        ) from None


def _path(uri: str) -> str:
    """Return the path in a file URI, with its line numbers; any other URI unchanged."""
    parts = _split(uri)
    if parts.scheme != "file":
        return uri
    path = unquote(parts.path)
    if os.name == "nt":
        path = path.removeprefix("/")  # file:///C:/project
    return f"{path}#{parts.fragment}" if parts.fragment else path


def _name(uri: str | None) -> str:
    """Return the name of the file that a URI refers to; "" if there is none."""
    return PurePosixPath(unquote(_split(uri or "").path)).name


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:  # an opening bracket is parsed as the start of an IPv6 address
        return SplitResult("", "", "", "", "")
