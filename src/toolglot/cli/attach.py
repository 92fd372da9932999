"""Files as blocks of a message: text is shown as text, images and documents as media."""

import base64
import mimetypes
import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from toolglot.errors import UsageError
from toolglot.messages import Media, Text

__all__ = ["attached", "attached_in", "missing_in"]

_MOST = 20_000_000  # bytes
_NAMED = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")
_IMAGES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def attached(path: Path) -> Text | Media:
    """A file as a block. Raises UsageError."""
    try:
        found = path.stat()
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"the attachment {str(path)!r} is not a file")
        if found.st_size > _MOST and path.is_file():
            raise UsageError(f"the attachment {str(path)!r} has {found.st_size:,} bytes, more than {_MOST:,}")
        data = path.read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the attachment {str(path)!r}: {getattr(e, 'strerror', e)}") from None
    media_type = mimetypes.guess_type(path.name)[0] or ""
    family = media_type.partition("/")[0]
    if family == "image" and media_type in _IMAGES and not data.startswith(_IMAGES[media_type]):
        raise UsageError(f"the attachment {str(path)!r} is not an image of the kind that its name says")
    if family not in _KINDS and media_type != "application/pdf":
        try:
            return Text(f"[{path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            if family == "text" and b"\0" not in data:
                return Text(f"[{path.name}]\n{data.decode('cp1252', 'replace')}")
    kind = _KINDS.get(family, "file")
    return Media(kind, media_type or "application/octet-stream", base64.b64encode(data).decode(), name=path.name)  # pyright: ignore[reportArgumentType]


def attached_in(text: str) -> tuple[str, list[Text | Media]]:
    """What a prompt says, and the files that it names: `@path` anywhere, or nothing but a path, as a terminal pastes a file.

    An `@word` that is no file is just a word. Raises UsageError.
    """
    if (alone := _only_path(text)) is not None:
        return f"[{alone.name}]", [attached(alone)]
    named = [path for match in _NAMED.finditer(text) if (path := _named(match[1])) is not None]
    return text, [attached(path) for path in dict.fromkeys(named)]


def missing_in(text: str) -> list[str]:
    """Words that look like the paths of files to attach, where there is no such file."""
    words = [match[1] for match in _NAMED.finditer(text)]
    return [word for word in words if re.search(r"[/.]\w", word) and _named(word) is None]


def _named(word: str) -> Path | None:
    """The file that a word names, with or without what may follow a word."""
    bare = word.strip("\"'")
    for name in (bare, bare.rstrip(".,;:!?)]\"'")):
        if _is_file(path := Path(os.path.expanduser(name))):
            return path
    return None


def _only_path(text: str) -> Path | None:
    """Dropped into a terminal, a file becomes its path, quoted or escaped."""
    if "\n" in text.strip() or not text.strip().startswith(("/", "~", "'/", '"/', "./", "file://")):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    path = Path(os.path.expanduser(_local(words[0]))) if len(words) == 1 else None
    return path if path is not None and _is_file(path) else None


def _local(name: str) -> str:
    return unquote(name.removeprefix("file://")) if name.startswith("file://") else name


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
