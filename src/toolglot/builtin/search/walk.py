"""Looking through folders by handles, and what their ignore files say.

Laws: a folder is opened beneath its root, a file by its name in an open folder, and no link is followed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from toolglot.builtin.files.confined_open import PATH_ONLY, open_beneath
from toolglot.builtin.files.descriptors import READ_FLAGS, read_all
from toolglot.builtin.search.ignore import IgnoreRules, IgnoreScope, to_byte_key

__all__ = [
    "BINARY_PROBE_SIZE",
    "MAX_FILE_SIZE",
    "VCS_DIRECTORIES",
    "Directory",
    "Walk",
    "load_extra_scope",
    "read_beneath",
    "read_extra_ignores",
    "read_gitignores",
    "read_in_directory",
    "replace_surrogates",
    "stat_beneath",
]

VCS_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""What version control keeps for itself: never looked through, unless it is the folder that was asked for."""
EXTRA_IGNORE_FILES = (".aiignore", ".geminiignore", ".qwenignore", ".cursorignore", ".ignore")
"""Files at the root that say what models should not be shown, in the language of `.gitignore`."""
_GIT_NAMES = frozenset({".git", ".gitignore"})
MAX_ENTRIES = 2_000_000
MAX_DIRECTORY_ENTRIES = 500_000
MAX_IGNORE_SIZE = 1 << 20
MAX_FILE_SIZE = 100 << 20
BINARY_PROBE_SIZE = 1 << 16  # a zero byte in here makes a file binary
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_Entries = list[os.DirEntry[str]]


class Directory(NamedTuple):
    """One folder that is open: what is in it. Entries are good until the walk goes on; folders taken out are not entered."""

    path: str
    fd: int
    files: _Entries
    subdirectories: _Entries
    others: _Entries
    """Links, pipes, sockets, devices."""
    ignored: _Entries


class Walk:
    """The folders below a folder, in the order of their paths. `git`, `extra`: whether ignore files are obeyed.

    `missed`: folders that could not be opened. `ended`: it stopped before the end, for so many entries.
    """

    def __init__(
        self,
        root_fd: int,
        start: str,
        *,
        respect_gitignore: bool = True,
        respect_extra_ignore: bool = True,
        skip_names: frozenset[str] = VCS_DIRECTORIES,
    ) -> None:
        self._root_fd, self._start, self._respect_gitignore, self._skip_names = (
            root_fd,
            start.strip("/"),
            respect_gitignore,
            skip_names,
        )
        self._parent_scope = _build_scope(read_gitignores(root_fd, self._start)) if respect_gitignore else None
        self._extra_scope = load_extra_scope(root_fd) if respect_extra_ignore else None
        self._special_names = skip_names | _GIT_NAMES
        self.entry_count = self.missed = 0
        self.stopped_early = False

    def __iter__(self) -> Iterator[Directory]:
        waiting: list[tuple[str, IgnoreScope | None]] = [(self._start, self._parent_scope)]
        while waiting:
            path, scope = waiting.pop()
            try:
                handle = open_beneath(self._root_fd, path, _OPEN_DIRECTORY)
            except OSError:
                self.missed += 1
                continue
            try:
                folder, scope = self._scan(path, handle, scope)
                yield folder
            finally:
                os.close(handle)
            prefix = f"{path}/" if path else ""
            waiting += [(prefix + entry.name, scope) for entry in sorted(folder.subdirectories, key=_sort_key, reverse=True)]
            if self.entry_count > MAX_ENTRIES:
                self.stopped_early = True
                return

    def _scan(self, path: str, fd: int, scope: IgnoreScope | None) -> tuple[Directory, IgnoreScope | None]:
        try:
            with os.scandir(fd) as found:
                entries = list(islice(found, MAX_DIRECTORY_ENTRIES))
        except OSError:
            entries = []
            self.missed += 1
        self.entry_count += len(entries)
        key = to_byte_key(path)
        names = [entry.name for entry in entries]
        skipped: set[int] = set()
        if not self._special_names.isdisjoint(names):
            skipped = {number for number, name in enumerate(names) if name in self._skip_names}
            scope = self._nested_scope(fd, key, scope, names) if self._respect_gitignore else scope
        out = skipped | self._find_ignored(
            entries, names, f"{key}/" if key else "", [one for one in (scope, self._extra_scope) if one]
        )
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
        return Directory(path, fd, files, folders, others, ignored), scope

    def _find_ignored(self, entries: _Entries, names: list[str], prefix: str, scopes: list[IgnoreScope]) -> set[int]:
        """Which of a folder's entries rules ignore. Few are in any rule: they are found at once."""
        out: set[int] = set()
        if scopes and not "".join(names).isascii():
            names = [to_byte_key(name) for name in names]
        for scope in scopes:
            for number in scope.find_candidates(prefix, names) - out:
                name, is_folder = names[number], entries[number].is_dir(follow_symlinks=False)
                if scope.ignores(prefix + name, name, is_folder):
                    out.add(number)
        return out

    def _nested_scope(self, fd: int, key: str, scope: IgnoreScope | None, names: list[str]) -> IgnoreScope | None:
        """The scope in a folder: a repository of its own does not know the rules above it."""
        if ".git" in names and key != to_byte_key(self._start):
            scope = self._parent_scope
        if ".gitignore" in names:
            with suppress(OSError):
                rules = IgnoreRules.parse(read_in_directory(fd, ".gitignore", MAX_IGNORE_SIZE).decode("latin-1"))
                return IgnoreScope(rules, key, scope) if rules else scope
        return scope


def _sort_key(entry: os.DirEntry[str]) -> str:
    return entry.name + "/"


def read_gitignores(root_fd: int, start: str) -> list[tuple[str, str]]:
    """The git ignore files above a folder: where each is and its text, the weakest first."""
    found: list[tuple[str, str]] = []
    names = start.split("/") if start else []
    if text := _read_ignore_file(root_fd, ".git/info/exclude"):
        found.append(("", text))
    for at in range(len(names) + 1):
        path = "/".join(names[:at])
        prefix = f"{path}/" if path else ""
        if path and stat_beneath(root_fd, f"{prefix}.git"):
            found.clear()
        if at < len(names) and (text := _read_ignore_file(root_fd, f"{prefix}.gitignore")):
            found.append((to_byte_key(path), text))
    return found


def read_extra_ignores(root_fd: int) -> list[tuple[str, str]]:
    """The extra ignore files of a root, in the same way."""
    return [("", text) for name in EXTRA_IGNORE_FILES if (text := _read_ignore_file(root_fd, name))]


def load_extra_scope(root_fd: int) -> IgnoreScope | None:
    """What the extra ignore files of a root say."""
    return _build_scope(read_extra_ignores(root_fd))


def _build_scope(texts: list[tuple[str, str]]) -> IgnoreScope | None:
    scope: IgnoreScope | None = None
    for base, text in texts:
        if rules := IgnoreRules.parse(text):
            scope = IgnoreScope(rules, base, scope)
    return scope


def _read_ignore_file(root_fd: int, path: str) -> str:
    """An ignore file below a root; "" where there is none."""
    try:
        return read_beneath(root_fd, path, MAX_IGNORE_SIZE).decode("latin-1")
    except OSError:
        return ""


def stat_beneath(root_fd: int, path: str) -> os.stat_result | None:
    """What is known of a file below a root, if it is there and no link leads to it."""
    try:
        handle = open_beneath(root_fd, path, PATH_ONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def read_beneath(root_fd: int, path: str, max_size: int) -> bytes:
    """The bytes of a regular file below a root; none of one that is larger. Raises OSError."""
    return _read_and_close(open_beneath(root_fd, path, READ_FLAGS), max_size)


def read_in_directory(directory_fd: int, name: str, max_size: int) -> bytes:
    """The same of one in an open folder, by its name."""
    return _read_and_close(os.open(name, READ_FLAGS, dir_fd=directory_fd), max_size)


def _read_and_close(fd: int, max_size: int) -> bytes:
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_size:
            return b""
        data = os.read(fd, BINARY_PROBE_SIZE)
        return data if len(data) < BINARY_PROBE_SIZE else data + read_all(fd, max_size)
    finally:
        os.close(fd)


def replace_surrogates(text: str) -> str:
    """A text with lost bytes as the sign for them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
