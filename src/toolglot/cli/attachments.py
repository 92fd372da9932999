"""Find the files that a prompt mentions."""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

_MENTION = re.compile(r"""(?<![\w@.])@("[^"]+"|'[^']+'|\S+)""")
_MAX_PATHS = 200  # that are offered to complete one


class Mention(NamedTuple):
    """A file that a prompt mentions."""

    text: str
    path: Path | None
    """None: it looks like a path, but there is no such file."""
    is_prompt: bool = False
    """The prompt is nothing but the path."""


def find_mentions(text: str) -> list[Mention]:
    """Find the files that a prompt mentions; nothing is read.

    A file is mentioned as `@path`, or by a prompt that is nothing but a path, which is what terminals insert
    when a file is dropped onto them. An `@word` that is not a file stays a word.
    """
    dropped = _parse_dropped_path(text)
    if dropped is not None:
        return [Mention(text.strip(), dropped, is_prompt=True)]
    mentions = [Mention(match[0], _resolve_mention(match[1])) for match in _MENTION.finditer(text)]
    # the first one of each file
    by_path = {mention.path or mention.text: mention for mention in reversed(mentions)}
    return [
        mention
        for mention in reversed(by_path.values())
        if mention.path or re.search(r"[/.]\w", mention.text)
    ]


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


def complete_mention(text: str) -> list[str]:
    """Return the mentions that can complete one at the end of a text, directory by directory."""
    match = re.search(r"(?<!\S)@(\S*)$", text)
    return [] if match is None else [f"@{path}" for path in complete_path(match[1])]


def complete_path(typed: str) -> list[str]:
    """Return the paths that begin with what was typed.

    Those with blanks are left out: completion ends at a blank.
    """
    directory, slash, start = typed.rpartition("/")
    try:
        entries = sorted(
            os.scandir(os.path.expanduser(directory + slash) or "."), key=lambda entry: entry.name
        )
    except (OSError, ValueError):
        return []
    paths: list[str] = []
    for entry in entries:
        is_hidden = entry.name.startswith(".") and not start
        is_word = entry.name.isprintable() and " " not in entry.name
        if is_word and not is_hidden and entry.name.startswith(start):
            paths.append(directory + slash + entry.name + "/" * entry.is_dir())
    return paths[:_MAX_PATHS]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
