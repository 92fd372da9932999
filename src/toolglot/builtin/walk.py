"""Looking through folders by handles, and what their ignore files say.

Laws: a folder is opened beneath its root, a file by its name in an open folder, and no link is followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from toolglot.builtin.beneath import PATH_ONLY, open_beneath
from toolglot.builtin.handles import READ, read_all
from toolglot.builtin.ignore import Rules, Scope, as_key

__all__ = [
    "BINARY_HEAD",
    "LARGEST_FILE",
    "VCS",
    "Folder",
    "Walk",
    "extra_rules",
    "extra_texts",
    "ignore_texts",
    "read_beneath",
    "read_small",
    "shown",
    "status_of",
]

VCS = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""What version control keeps for itself: never looked through, unless it is the folder that was asked for."""
EXTRA = (".aiignore", ".geminiignore", ".qwenignore", ".cursorignore", ".ignore")
"""Files at the root that say what models should not be shown, in the language of `.gitignore`."""
_GIT = frozenset({".git", ".gitignore"})
MOST_ENTRIES = 2_000_000
MOST_IN_FOLDER = 500_000
LARGEST_IGNORE = 1 << 20
LARGEST_FILE = 100 << 20
BINARY_HEAD = 1 << 16  # a zero byte in here makes a file binary
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_Entries = list[os.DirEntry[str]]


class Folder(NamedTuple):
    """One folder that is open: what is in it. Entries are good until the walk goes on; folders taken out are not entered."""

    path: str
    handle: int
    files: _Entries
    folders: _Entries
    others: _Entries
    """Links, pipes, sockets, devices."""
    ignored: _Entries


class Walk:
    """The folders below a folder, in the order of their paths. `git`, `extra`: whether ignore files are obeyed.

    `missed`: folders that could not be opened. `ended`: it stopped before the end, for so many entries.
    """

    def __init__(self, root: int, start: str, *, git: bool = True, extra: bool = True, skip: frozenset[str] = VCS) -> None:
        self._root, self._start, self._git, self._skip = root, start.strip("/"), git, skip
        self._above = _scope(ignore_texts(root, self._start)) if git else None
        self._extra = extra_rules(root) if extra else None
        self._special = skip | _GIT
        self.seen = self.missed = 0
        self.ended = False

    def __iter__(self) -> Iterator[Folder]:
        waiting: list[tuple[str, Scope | None]] = [(self._start, self._above)]
        while waiting:
            path, scope = waiting.pop()
            try:
                handle = open_beneath(self._root, path, _DIRECTORY)
            except OSError:
                self.missed += 1
                continue
            try:
                folder, scope = self._looked(path, handle, scope)
                yield folder
            finally:
                os.close(handle)
            prefix = f"{path}/" if path else ""
            waiting += [(prefix + entry.name, scope) for entry in sorted(folder.folders, key=_by_name, reverse=True)]
            if self.seen > MOST_ENTRIES:
                self.ended = True
                return

    def _looked(self, path: str, handle: int, scope: Scope | None) -> tuple[Folder, Scope | None]:
        try:
            with os.scandir(handle) as found:
                entries = list(islice(found, MOST_IN_FOLDER))
        except OSError:
            entries = []
            self.missed += 1
        self.seen += len(entries)
        key = as_key(path)
        names = [entry.name for entry in entries]
        skipped: set[int] = set()
        if not self._special.isdisjoint(names):
            skipped = {number for number, name in enumerate(names) if name in self._skip}
            scope = self._own(handle, key, scope, names) if self._git else scope
        out = skipped | self._ignored(entries, names, f"{key}/" if key else "", [one for one in (scope, self._extra) if one])
        kept, ignored = entries, list[os.DirEntry[str]]()
        if out:
            kept = [entry for number, entry in enumerate(entries) if number not in out]
            ignored = [entries[number] for number in sorted(out)]
        files = [entry for entry in kept if entry.is_file(follow_symlinks=False)]
        folders: _Entries = []
        others: _Entries = []
        if len(files) < len(kept):
            for entry in kept:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry)
                elif not entry.is_file(follow_symlinks=False):
                    others.append(entry)
        return Folder(path, handle, files, folders, others, ignored), scope

    def _ignored(self, entries: _Entries, names: list[str], prefix: str, scopes: list[Scope]) -> set[int]:
        """Which of a folder's entries rules ignore. Few are in any rule: they are found at once."""
        out: set[int] = set()
        if scopes and not "".join(names).isascii():
            names = [as_key(name) for name in names]
        for scope in scopes:
            for number in scope.mentioned(prefix, names) - out:
                name, is_folder = names[number], entries[number].is_dir(follow_symlinks=False)
                if scope.ignores(prefix + name, name, is_folder):
                    out.add(number)
        return out

    def _own(self, handle: int, key: str, scope: Scope | None, names: list[str]) -> Scope | None:
        """The scope in a folder: a repository of its own does not know the rules above it."""
        if ".git" in names and key != as_key(self._start):
            scope = self._above
        if ".gitignore" in names:
            with suppress(OSError):
                rules = Rules.of(read_small(handle, ".gitignore", LARGEST_IGNORE).decode("latin-1"))
                return Scope(rules, key, scope) if rules else scope
        return scope


def _by_name(entry: os.DirEntry[str]) -> str:
    return entry.name + "/"


def ignore_texts(root: int, start: str) -> list[tuple[str, str]]:
    """The git ignore files above a folder: where each is and its text, the weakest first."""
    found: list[tuple[str, str]] = []
    names = start.split("/") if start else []
    if text := _text_at(root, ".git/info/exclude"):
        found.append(("", text))
    for at in range(len(names) + 1):
        path = "/".join(names[:at])
        prefix = f"{path}/" if path else ""
        if path and status_of(root, f"{prefix}.git"):
            found.clear()
        if at < len(names) and (text := _text_at(root, f"{prefix}.gitignore")):
            found.append((as_key(path), text))
    return found


def extra_texts(root: int) -> list[tuple[str, str]]:
    """The extra ignore files of a root, in the same way."""
    return [("", text) for name in EXTRA if (text := _text_at(root, name))]


def extra_rules(root: int) -> Scope | None:
    """What the extra ignore files of a root say."""
    return _scope(extra_texts(root))


def _scope(texts: list[tuple[str, str]]) -> Scope | None:
    scope: Scope | None = None
    for base, text in texts:
        if rules := Rules.of(text):
            scope = Scope(rules, base, scope)
    return scope


def _text_at(root: int, path: str) -> str:
    """An ignore file below a root; "" where there is none."""
    try:
        return read_beneath(root, path, LARGEST_IGNORE).decode("latin-1")
    except OSError:
        return ""


def status_of(root: int, path: str) -> os.stat_result | None:
    """What is known of a file below a root, if it is there and no link leads to it."""
    try:
        handle = open_beneath(root, path, PATH_ONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def read_beneath(root: int, path: str, most: int) -> bytes:
    """The bytes of a regular file below a root; none of one that is larger. Raises OSError."""
    return _read(open_beneath(root, path, READ), most)


def read_small(folder: int, name: str, most: int) -> bytes:
    """The same of one in an open folder, by its name."""
    return _read(os.open(name, READ, dir_fd=folder), most)


def _read(handle: int, most: int) -> bytes:
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return b""
        data = os.read(handle, BINARY_HEAD)
        return data if len(data) < BINARY_HEAD else data + read_all(handle, most)
    finally:
        os.close(handle)


def shown(text: str) -> str:
    """A text with lost bytes as the sign for them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
