"""Files as blocks of a message: text is shown as text, images and documents as media."""

import base64
import mimetypes
from pathlib import Path

from toolglot.errors import UsageError
from toolglot.messages import Media, Text

__all__ = ["attached"]

_MOST = 20_000_000  # bytes
_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def attached(path: Path) -> Text | Media:
    """A file as a block. Raises UsageError."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read the attachment {str(path)!r}: {e.strerror}") from None
    if len(data) > _MOST:
        raise UsageError(f"the attachment {str(path)!r} has {len(data):,} bytes, more than {_MOST:,}")
    media_type = mimetypes.guess_type(path.name)[0] or ""
    family = media_type.partition("/")[0]
    if family not in _KINDS and media_type != "application/pdf":
        try:
            return Text(f"[{path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            pass
    kind = _KINDS.get(family, "file")
    return Media(kind, media_type or "application/octet-stream", base64.b64encode(data).decode(), name=path.name)  # pyright: ignore[reportArgumentType]
