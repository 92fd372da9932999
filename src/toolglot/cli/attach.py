"""Files as blocks of a message: text is shown as text, images and documents as media."""

import base64
import mimetypes
import re
import shlex
from pathlib import Path

from toolglot.errors import UsageError
from toolglot.messages import Media, Text

__all__ = ["attached", "attached_in"]

_MOST = 20_000_000  # bytes
_NAMED = re.compile(r"""(?<!\S)@("[^"]+"|'[^']+'|\S+)""")
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


def attached_in(text: str) -> tuple[str, list[Text | Media]]:
    """What a prompt says, and the files that it names: `@path` anywhere, or nothing but a path, as a terminal pastes a file.

    An `@word` that is no file is just a word. Raises UsageError.
    """
    if (alone := _only_path(text)) is not None:
        return f"[{alone.name}]", [attached(alone)]
    found: list[Text | Media] = []
    for match in _NAMED.finditer(text):
        path = Path(match[1].strip("\"'").rstrip(",;:!?)")).expanduser()
        if _is_file(path):
            found.append(attached(path))
    return text, found


def _only_path(text: str) -> Path | None:
    """Dropped into a terminal, a file becomes its path, quoted or escaped."""
    if "\n" in text.strip() or not text.strip().startswith(("/", "~", "'/", '"/', "./", "file://")):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    path = Path(words[0].removeprefix("file://")).expanduser() if len(words) == 1 else None
    return path if path is not None and _is_file(path) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
