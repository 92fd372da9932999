"""Media as URLs and back. All handling of data URLs is here."""

import base64
import binascii
import mimetypes
from typing import cast

from toolglot.values.messages import Media, MediaKind, Opaque

# The first characters of a file in base64: for images that come without a media type.
_BASE64_SIGNATURES = (
    ("/9j/", "image/jpeg"),
    ("iVBOR", "image/png"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
)
_DEFAULT_TYPES = {
    "image": "image/jpeg",
    "audio": "audio/mpeg",
    "video": "video/mp4",
    "file": "application/pdf",
}


def to_data_url(media: Media) -> str | None:
    """Return the bytes as a data URL, else the URL; None if there is neither."""
    if media.data is not None:
        return f"data:{media.media_type or 'application/octet-stream'};base64,{media.data}"
    return media.url


def media_from_url(kind: MediaKind, url: str, *, name: str = "", extra: Opaque | None = None) -> Media:
    """Decode a data URL, or keep any other URL. `extra` holds fields to send back to the origin."""
    head, comma, data = url.partition(",")
    opaque = {"more": extra} if extra else None
    is_data = head.startswith("data:") and head.endswith(";base64")
    if not is_data or not comma:
        return Media(kind, url=url, name=name, opaque=opaque)
    media_type = head[5:-7]
    if kind == "file":
        kind = media_kind(media_type)
    return Media(kind, media_type, data, name=name, opaque=opaque)


def media_kind(media_type: str) -> MediaKind:
    """Return the kind of a media type."""
    kind = media_type.partition("/")[0]
    if kind not in ("image", "audio", "video"):
        return "file"
    return cast(MediaKind, kind)


def extract_file_text(media: Media) -> str | None:
    """Return the content of a text file, for wires that accept no such file; None if it is not text."""
    is_textual = media.media_type.startswith("text/") or media.media_type in (
        "application/json",
        "application/xml",
    )
    if not is_textual or media.data is None:
        return None
    try:
        text = base64.b64decode(media.data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return f"[file {media.name}]\n{text}" if media.name else text


def guess_media_type(media: Media) -> str:
    """Guess a missing media type from the first bytes, the file name, or the kind."""
    for signature, media_type in _BASE64_SIGNATURES:
        if media.data and media.data.startswith(signature):
            return media_type
    path = (media.url or media.name).partition("?")[0]
    return mimetypes.guess_type(path)[0] or _DEFAULT_TYPES[media.kind]
