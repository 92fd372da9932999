"""Recognises images and documents by their first bytes."""

from typing import Literal

__all__ = ["MediaKind", "detect_media"]

MediaKind = Literal["image", "file"]
_SIGNATURES: tuple[tuple[bytes, MediaKind, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image", "image/png"),
    (b"\xff\xd8\xff", "image", "image/jpeg"),
    (b"GIF87a", "image", "image/gif"),
    (b"GIF89a", "image", "image/gif"),
    (b"%PDF-", "file", "application/pdf"),
)


def detect_media(head: bytes) -> tuple[MediaKind, str] | None:
    """Return the kind and media type of data that models can look at, or None.

    The first 16 bytes are enough.
    """
    # RIFF is a container: only its form type tells WebP from sound and video.
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image", "image/webp"
    for signature, kind, media_type in _SIGNATURES:
        if head.startswith(signature):
            return kind, media_type
    return None
