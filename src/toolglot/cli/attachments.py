"""Load files as message blocks: text files as text, images and documents as media."""

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

_MAX_BYTES = 20_000_000
_MENTION = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")
_SNIFFED_TYPES = ("image/png", "image/jpeg", "image/gif")
_MEDIA_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def load_attachment(path: Path) -> Text | Media:
    """Load a file as a block. Raises UsageError."""
    try:
        size = path.stat().st_size
        if not path.is_dir() and not path.is_file():  # reading a pipe or a device might never end
            raise UsageError(f"attachment {str(path)!r} is not a regular file")
        if size > _MAX_BYTES and path.is_file():
            raise UsageError(f"attachment {str(path)!r} is too large: {size:,} bytes, the limit is {_MAX_BYTES:,}")
        data = path.read_bytes()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read attachment {str(path)!r}: {getattr(e, 'strerror', e)}") from None
    media_type = mimetypes.guess_type(path.name)[0] or ""
    family = media_type.partition("/")[0]
    if media_type in _SNIFFED_TYPES and detect_media(data) != ("image", media_type):
        raise UsageError(f"attachment {str(path)!r} is not a valid {media_type} file, although its name says so")
    if family not in _MEDIA_KINDS and media_type != "application/pdf":
        try:
            return Text(f"[{path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            if family == "text" and b"\0" not in data:
                return Text(f"[{path.name}]\n{data.decode('cp1252', 'replace')}")
    kind = _MEDIA_KINDS.get(family, "file")
    return Media(kind, media_type or "application/octet-stream", base64.b64encode(data).decode(), name=path.name)  # pyright: ignore[reportArgumentType]


def extract_attachments(text: str) -> tuple[str, list[Text | Media]]:
    """Return a prompt's text and the files it mentions. Raises UsageError.

    A file is mentioned as `@path`, or by a prompt that is nothing but a path, which is what terminals insert when a file is
    dropped onto them. An `@word` that is not a file stays a word.
    """
    if (dropped := _parse_dropped_path(text)) is not None:
        return f"[{dropped.name}]", [load_attachment(dropped)]
    paths = [path for match in _MENTION.finditer(text) if (path := _resolve_mention(match[1])) is not None]
    return text, [load_attachment(path) for path in dict.fromkeys(paths)]


def find_missing_files(text: str) -> list[str]:
    """List mentions that look like paths but do not exist."""
    mentions = [match[1] for match in _MENTION.finditer(text)]
    return [mention for mention in mentions if re.search(r"[/.]\w", mention) and _resolve_mention(mention) is None]


def _resolve_mention(mention: str) -> Path | None:
    bare = mention.strip("\"'")
    for name in (bare, bare.rstrip(".,;:!?)]\"'")):  # punctuation may belong to the sentence
        if _is_file(path := Path(os.path.expanduser(name))):
            return path
    return None


def _parse_dropped_path(text: str) -> Path | None:
    if "\n" in text.strip() or not text.strip().startswith(("/", "~", "'/", '"/', "./", "file://")):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if len(words) != 1:
        return None
    name = unquote(words[0].removeprefix("file://")) if words[0].startswith("file://") else words[0]
    path = Path(os.path.expanduser(name))
    return path if _is_file(path) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
