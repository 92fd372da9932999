"""Files as blocks of a message: text is shown as text, images and documents as media."""

import base64
import mimetypes
import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from toolglot.errors import UsageError
from toolglot.media_types import detect_media
from toolglot.messages import Media, Text

__all__ = ["extract_attachments", "find_missing_files", "load_attachment"]

_MAX_BYTES = 20_000_000  # bytes
_MENTION = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")
_SNIFFED_TYPES = ("image/png", "image/jpeg", "image/gif")
_MEDIA_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def load_attachment(path: Path) -> Text | Media:
    """A file as a block. Raises UsageError."""
    try:
        found = path.stat()
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"the attachment {str(path)!r} is not a file")
        if found.st_size > _MAX_BYTES and path.is_file():
            raise UsageError(f"the attachment {str(path)!r} has {found.st_size:,} bytes, more than {_MAX_BYTES:,}")
        data = path.read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the attachment {str(path)!r}: {getattr(e, 'strerror', e)}") from None
    media_type = mimetypes.guess_type(path.name)[0] or ""
    family = media_type.partition("/")[0]
    if media_type in _SNIFFED_TYPES and detect_media(data) != ("image", media_type):
        raise UsageError(f"the attachment {str(path)!r} is not an image of the kind that its name says")
    if family not in _MEDIA_KINDS and media_type != "application/pdf":
        try:
            return Text(f"[{path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            if family == "text" and b"\0" not in data:
                return Text(f"[{path.name}]\n{data.decode('cp1252', 'replace')}")
    kind = _MEDIA_KINDS.get(family, "file")
    return Media(kind, media_type or "application/octet-stream", base64.b64encode(data).decode(), name=path.name)  # pyright: ignore[reportArgumentType]


def extract_attachments(text: str) -> tuple[str, list[Text | Media]]:
    """What a prompt says, and the files that it names: `@path` anywhere, or nothing but a path, as a terminal pastes a file.

    An `@word` that is no file is just a word. Raises UsageError.
    """
    if (alone := _parse_dropped_path(text)) is not None:
        return f"[{alone.name}]", [load_attachment(alone)]
    named = [path for match in _MENTION.finditer(text) if (path := _resolve_mention(match[1])) is not None]
    return text, [load_attachment(path) for path in dict.fromkeys(named)]


def find_missing_files(text: str) -> list[str]:
    """Words that look like the paths of files to attach, where there is no such file."""
    words = [match[1] for match in _MENTION.finditer(text)]
    return [word for word in words if re.search(r"[/.]\w", word) and _resolve_mention(word) is None]


def _resolve_mention(word: str) -> Path | None:
    """The file that a word names, with or without what may follow a word."""
    bare = word.strip("\"'")
    for name in (bare, bare.rstrip(".,;:!?)]\"'")):
        if _is_file(path := Path(os.path.expanduser(name))):
            return path
    return None


def _parse_dropped_path(text: str) -> Path | None:
    """Dropped into a terminal, a file becomes its path, quoted or escaped."""
    if "\n" in text.strip() or not text.strip().startswith(("/", "~", "'/", '"/', "./", "file://")):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    path = Path(os.path.expanduser(_strip_file_scheme(words[0]))) if len(words) == 1 else None
    return path if path is not None and _is_file(path) else None


def _strip_file_scheme(name: str) -> str:
    return unquote(name.removeprefix("file://")) if name.startswith("file://") else name


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
