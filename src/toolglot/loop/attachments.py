"""Files as blocks of a prompt."""

import mimetypes
from os import PathLike
from pathlib import Path

from toolglot.common.media_types import detect_media
from toolglot.errors import UsageError
from toolglot.values.messages import Media, Text

__all__ = ["load_attachment"]

_MAX_BYTES = 20_000_000
_SNIFFED_TYPES = ("image/png", "image/jpeg", "image/gif")
_MEDIA_FAMILIES = ("image", "audio", "video")


def load_attachment(path: str | PathLike[str]) -> Text | Media:
    """Load a file as a block of a prompt: a text file as text, anything else as media. Raises UsageError."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_dir() and not path.is_file():  # reading a pipe or a device might never end
            raise UsageError(f"attachment {str(path)!r} is not a regular file")
        if size > _MAX_BYTES and path.is_file():
            raise UsageError(
                f"attachment {str(path)!r} is too large: {size:,} bytes, the limit is {_MAX_BYTES:,}"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read attachment {str(path)!r}: {getattr(e, 'strerror', e)}") from None
    media_type = mimetypes.guess_type(path.name)[0] or ""
    family = media_type.partition("/")[0]
    if media_type in _SNIFFED_TYPES and detect_media(data) != ("image", media_type):
        raise UsageError(
            f"attachment {str(path)!r} is not a valid {media_type} file, although its name says so"
        )
    if family not in _MEDIA_FAMILIES and media_type != "application/pdf":
        try:
            return Text(f"[{path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            if family == "text" and b"\0" not in data:
                return Text(f"[{path.name}]\n{data.decode('cp1252', 'replace')}")
    return Media.from_bytes(data, media_type or "application/octet-stream", name=path.name)
