"""Walk directories by file descriptor, obeying their ignore files.

A directory is opened beneath its root and a file by its name in an open directory, so that no symbolic link
is followed, even one that replaces a directory during the walk.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from toolglot.builtin.files.descriptors import READ_FLAGS, read_all
from toolglot.builtin.search.globs import to_byte_key
from toolglot.builtin.search.ignore import IgnoreRules, IgnoreScope
from toolglot.confine.confined_open import PATH_ONLY, combine_flags, open_beneath

__all__ = [
    "BINARY_PROBE_SIZE",
    "MAX_FILE_SIZE",
    "VCS_DIRECTORIES",
    "Directory",
    "Walk",
    "has_early_nul",
    "is_ignored",
    "load_extra_scope",
    "read_and_close",
    "read_extra_ignores",
    "read_gitignores",
    "replace_surrogates",
    "stat_beneath",
]

VCS_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""Data of version control systems: not walked unless the walk starts there."""
EXTRA_IGNORE_FILES = (".aiignore", ".geminiignore", ".qwenignore", ".cursorignore", ".ignore")
"""Files in the root that list what models should not see, in the syntax of `.gitignore`."""
MAX_ENTRIES = 2_000_000
MAX_DIRECTORY_ENTRIES = 500_000
MAX_IGNORE_SIZE = 1 << 20
MAX_FILE_SIZE = 100 << 20
BINARY_PROBE_SIZE = 1 << 16  # a NUL byte in the first 64 KB makes a file binary
_GIT_NAMES = frozenset({".git", ".gitignore"})
_OPEN_DIRECTORY = combine_flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW")
_Entries = list[os.DirEntry[str]]


class Directory(NamedTuple):
    """An open directory.

    Valid until the walk continues; subdirectories that are removed from the list are not entered.
    """

    path: str
    fd: int
    files: _Entries
    subdirectories: _Entries
    others: _Entries
    """Links, pipes, sockets, devices."""
    ignored: _Entries


class Walk:
    """The directories below a start directory, in the order of their paths.

    `gitignore`, `extra_ignore`: obey `.gitignore` files and the extra ignore files. `skip_vcs`: leave out
    `VCS_DIRECTORIES`. Directories that cannot be opened are left out. `stopped_early` is True if there were
    too many entries.
    """

    def __init__(
        self,
        root_fd: int,
        start: str,
        *,
        gitignore: bool = True,
        extra_ignore: bool = True,
        skip_vcs: bool = True,
    ) -> None:
        self._root_fd, self._start, self._gitignore = root_fd, start.strip("/"), gitignore
        self._parent_scope = _build_scope(read_gitignores(root_fd, self._start)) if gitignore else None
        self._extra_scope = load_extra_scope(root_fd) if extra_ignore else None
        self._skip_names = VCS_DIRECTORIES if skip_vcs else frozenset[str]()
        self._special_names = self._skip_names | _GIT_NAMES
        self.entry_count, self.stopped_early = 0, False

    def __iter__(self) -> Iterator[Directory]:
        pending: list[tuple[str, IgnoreScope | None]] = [(self._start, self._parent_scope)]
        while pending:
            path, scope = pending.pop()
            try:
                fd = open_beneath(self._root_fd, path, _OPEN_DIRECTORY)
            except OSError:
                continue
            try:
                directory, scope = self._scan(path, fd, scope)
                yield directory
            finally:
                os.close(fd)
            prefix = f"{path}/" if path else ""
            # With the slash, "a-b" sorts before "a/…", as in a list of whole paths.
            names = sorted(
                (entry.name for entry in directory.subdirectories), key=lambda name: name + "/", reverse=True
            )
            pending += [(prefix + name, scope) for name in names]
            if self.entry_count > MAX_ENTRIES:
                self.stopped_early = True
                return

    def _scan(self, path: str, fd: int, scope: IgnoreScope | None) -> tuple[Directory, IgnoreScope | None]:
        """Read a directory; return it with the ignore rules that apply below it."""
        try:
            with os.scandir(fd) as iterator:
                entries = list(islice(iterator, MAX_DIRECTORY_ENTRIES))
                self.stopped_early = self.stopped_early or next(iterator, None) is not None
        except OSError:
            entries = []
        self.entry_count += len(entries)
        names = [entry.name for entry in entries]
        excluded: set[int] = set()
        if not self._special_names.isdisjoint(names):
            excluded = {index for index, name in enumerate(names) if name in self._skip_names}
            if self._gitignore:
                scope = self._enter_scope(path, fd, names, scope)
        self._exclude_ignored(excluded, path, names, entries, scope)
        kept, ignored = entries, _Entries()
        if excluded:
            kept = [entry for index, entry in enumerate(entries) if index not in excluded]
            ignored = [entries[index] for index in sorted(excluded)]
        files = [entry for entry in kept if entry.is_file(follow_symlinks=False)]
        subdirectories, others = _Entries(), _Entries()
        remaining = kept if len(files) < len(kept) else []
        for entry in remaining:
            if entry.is_dir(follow_symlinks=False):
                subdirectories.append(entry)
            elif not entry.is_file(follow_symlinks=False):
                others.append(entry)
        return Directory(path, fd, files, subdirectories, others, ignored), scope

    def _enter_scope(
        self, path: str, fd: int, names: list[str], scope: IgnoreScope | None
    ) -> IgnoreScope | None:
        """Return the rules of a directory that has git's files: its own are added."""
        is_nested_repository = ".git" in names and path != self._start
        if is_nested_repository:  # as in git, it does not see the rules above it
            scope = self._parent_scope
        return _build_scope([(to_byte_key(path), _read_ignore_file(fd, ".gitignore"))], scope)

    def _exclude_ignored(
        self, excluded: set[int], path: str, names: list[str], entries: _Entries, scope: IgnoreScope | None
    ) -> None:
        """Add the indices of the entries that the rules exclude."""
        key = to_byte_key(path)
        prefix = f"{key}/" if key else ""
        if not "".join(names).isascii():
            names = [to_byte_key(name) for name in names]
        for rules in (scope, self._extra_scope):
            if rules is None:
                continue
            # Most names appear in no rule, so candidates are found in bulk first.
            for index in rules.find_candidates(prefix, names) - excluded:
                name = names[index]
                if rules.ignores(prefix + name, name, entries[index].is_dir(follow_symlinks=False)):
                    excluded.add(index)


# ---- ignore files


def read_gitignores(root_fd: int, start: str) -> list[tuple[str, str]]:
    """Return the git ignore files above a directory as (their directory, text), weakest first."""
    texts: list[tuple[str, str]] = []
    names = start.split("/") if start else []
    if text := _read_ignore_file(root_fd, ".git/info/exclude"):
        texts.append(("", text))
    for depth in range(len(names) + 1):
        path = "/".join(names[:depth])
        prefix = f"{path}/" if path else ""
        if path and stat_beneath(root_fd, f"{prefix}.git"):
            texts.clear()
        if depth < len(names) and (text := _read_ignore_file(root_fd, f"{prefix}.gitignore")):
            texts.append((to_byte_key(path), text))
    return texts


def read_extra_ignores(root_fd: int) -> list[tuple[str, str]]:
    """Return the extra ignore files of a root in the same form."""
    return [("", text) for name in EXTRA_IGNORE_FILES if (text := _read_ignore_file(root_fd, name))]


def load_extra_scope(root_fd: int) -> IgnoreScope | None:
    """Return the rules of the extra ignore files of a root."""
    return _build_scope(read_extra_ignores(root_fd))


def is_ignored(root_fd: int, path: str) -> bool:
    """Tell whether git's or the extra ignore files exclude a path below a root, or a directory that it is in."""
    key, extra_scope = to_byte_key(path), load_extra_scope(root_fd)
    texts, parts = read_gitignores(root_fd, path), key.split("/")
    for depth, name in enumerate(parts, 1):
        part = "/".join(parts[:depth])
        scope = _build_scope(
            [(base, text) for base, text in texts if not base or part.startswith(f"{base}/")]
        )
        if name in VCS_DIRECTORIES:
            return True
        is_directory = depth < len(parts)
        if any(
            rules.ignores(part, name, is_directory) for rules in (scope, extra_scope) if rules is not None
        ):
            return True
    return False


def _build_scope(texts: list[tuple[str, str]], scope: IgnoreScope | None = None) -> IgnoreScope | None:
    for base, text in texts:
        if rules := IgnoreRules.parse(text):
            scope = IgnoreScope(rules, base, scope)
    return scope


def _read_ignore_file(root_fd: int, path: str) -> str:
    try:
        return read_and_close(open_beneath(root_fd, path, READ_FLAGS), MAX_IGNORE_SIZE).decode("latin-1")
    except OSError:
        return ""


# ---- files


def stat_beneath(root_fd: int, path: str) -> os.stat_result | None:
    """Return the status of a file below a root; None if it is missing or a link leads to it."""
    try:
        fd = open_beneath(root_fd, path, PATH_ONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def read_and_close(fd: int, max_size: int) -> bytes:
    """Read a regular file; nothing of a larger one. Raises OSError."""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_size:
            return b""
        data = os.read(fd, BINARY_PROBE_SIZE)
        return data if len(data) < BINARY_PROBE_SIZE else data + read_all(fd, max_size)
    finally:
        os.close(fd)


def has_early_nul(data: bytes) -> bool:
    """Tell whether a file has a NUL byte near its start, which makes it binary for ripgrep."""
    return data.find(b"\0", 0, BINARY_PROBE_SIZE) >= 0


def replace_surrogates(text: str) -> str:
    """Replace bytes that could not be decoded (kept as surrogates) by U+FFFD, so that the text can be
    encoded.
    """
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
