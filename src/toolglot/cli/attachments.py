"""Find the files that a prompt mentions."""

import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from toolglot.loop.attachments import load_attachment
from toolglot.messages import Media, Text

_MENTION = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")


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
