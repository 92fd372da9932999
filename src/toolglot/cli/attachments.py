"""Find the files that a prompt mentions."""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

_MENTION = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")


class Mention(NamedTuple):
    """A file that a prompt mentions."""

    text: str
    path: Path | None
    """None: it looks like a path, but there is no such file."""
    is_prompt: bool = False
    """The prompt is nothing but the path."""


def find_mentions(text: str) -> list[Mention]:
    """Find the files that a prompt mentions; nothing is read.

    A file is mentioned as `@path`, or by a prompt that is nothing but a path, which is what terminals insert when a file is
    dropped onto them. An `@word` that is not a file stays a word.
    """
    dropped = _parse_dropped_path(text)
    if dropped is not None:
        return [Mention(text.strip(), dropped, is_prompt=True)]
    mentions = [Mention(match[0], _resolve_mention(match[1])) for match in _MENTION.finditer(text)]
    by_path = {mention.path or mention.text: mention for mention in reversed(mentions)}  # the first one of each file
    return [mention for mention in reversed(by_path.values()) if mention.path or re.search(r"[/.]\w", mention.text)]


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
