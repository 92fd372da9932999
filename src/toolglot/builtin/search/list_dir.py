"""The tool `list_dir`: the entries of a directory."""

import os
from contextlib import suppress
from typing import Annotated, Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.scopes import path_scope
from toolglot.builtin.search.globs import GlobFilter, invalid_glob_error
from toolglot.builtin.search.search_scope import open_search_root, start_deadline
from toolglot.builtin.search.walk import VCS_DIRECTORIES, Directory, Walk
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.common.textutil import pluralize
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = [
    "MAX_PATTERNS",
    "DirectoryEntry",
    "DirectoryListing",
    "build_excludes",
    "list_dir_tools",
    "list_directory",
]

MAX_SCANNED = 50_000
MAX_ENTRIES = 10_000
MAX_DEPTH = 50
MAX_PATTERNS = 200
EntryKind = Literal["file", "directory", "link", "other"]
_SUFFIXES = {"directory": "/", "link": " -> {0.target}", "file": " ({1})", "other": " (not a regular file)"}


class DirectoryEntry(msgspec.Struct, frozen=True):
    """An entry.

    `path`: relative to the listed directory; `depth`: 1 directly in it; `target`: where a link leads.
    """

    path: str
    name: str
    kind: EntryKind
    size: int
    depth: int
    target: str = ""


class DirectoryListing(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `list_dir`: directories first, each followed by its entries.

    `total`: all entries, shown or not.
    """

    path: str
    entries: tuple[DirectoryEntry, ...]
    total: int
    skip: int
    truncated: bool
    ignored: int
    complete: bool = True
    kind: Literal["directory"] = "directory"

    def render(self) -> str:
        """Return the text for a model."""
        lines = [
            f"{'  ' * (entry.depth - 1)}{entry.name}{_SUFFIXES[entry.kind].format(entry, pluralize(entry.size, 'byte'))}"
            for entry in self.entries
        ]
        if not self.total:
            ignored = f" except for {self.ignored} ignored entries" if self.ignored else ""
            lines.append(f"The directory {self.path!r} is empty{ignored}.")
        elif not self.entries:
            lines.append(f"[there are only {self.total} entries]")
        elif self.truncated:
            end = self.skip + len(self.entries)
            lines.append(f"[showing entries {self.skip + 1}-{end} of {self.total}; continue with skip={end}]")
        if self.total and self.ignored:
            lines.append(f"({self.ignored} ignored)")
        if not self.complete:
            lines.append("[stopped before everything was listed; list a subdirectory or fewer levels]")
        return "\n".join(lines)


def build_excludes(globs: list[str], parameter: str = "exclude") -> GlobFilter:
    """Return a filter that excludes what the globs match. Raises ToolError."""
    if len(globs) > MAX_PATTERNS:
        raise invalid_argument(parameter, f"has {len(globs)} patterns; at most {MAX_PATTERNS} are allowed")
    for glob in globs:
        if not glob or "\0" in glob:
            raise invalid_glob_error(glob, "is not valid; use one such as '*.log'")
    return GlobFilter(f"!{glob.rstrip('/')}" for glob in globs if glob.rstrip("/"))


def list_dir_tools(state: ToolState) -> list[Tool]:
    """Return the tool `list_dir`."""

    @tool(
        name="list_dir",
        effects="read",
        idempotent=True,
        action="read",
        verb="List",
        scope=path_scope(state),
        target=path_target(state),
        examples=[{"path": "src", "depth": 2, "ignore": ["*.pyc"]}],
    )
    def list_dir(  # noqa: D417
        path: str = ".",
        ignore: list[str] | None = None,
        depth: int = 1,
        skip: int = 0,
        limit: int = 500,
        respect_gitignore: bool = True,
        respect_extra_ignore: Annotated[bool, Internal] = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """List a directory: subdirectories first, then files with their sizes, by name. Hidden entries are included.

        Use it for one directory, not to find files by name anywhere below it.

        Args:
            path: Directory to list (default: the workspace).
            ignore: Globs of names or paths to leave out, such as '*.pyc'.
            depth: Levels of directories to list (default 1: only direct entries; at most 50).
            skip: Number of entries to skip, to continue a truncated listing (default 0).
            limit: Maximum number of entries to show (default 500, 0 for the limit of 10000).
            respect_gitignore: Leave out entries ignored by .gitignore (default true).
        """
        return list_directory(
            state, path, ignore, depth, skip, limit, respect_gitignore, respect_extra_ignore, context
        )

    return [list_dir]


def list_directory(
    state: ToolState,
    path: str,
    ignore: list[str] | None = None,
    depth: int = 1,
    skip: int = 0,
    limit: int = 0,
    gitignore: bool = True,
    extra_ignore: bool = True,
    context: Context | None = None,
) -> ToolOutput:
    """List a directory. Raises ToolError."""
    check_minimum("depth", depth, 1)
    limit = min(check_minimum("limit", limit) or MAX_ENTRIES, MAX_ENTRIES)
    check_minimum("skip", skip)
    excludes = build_excludes(ignore or [], "ignore")
    with open_search_root(state, path) as root:
        walk = Walk(
            root.root_fd, root.relative, gitignore=gitignore, extra_ignore=extra_ignore, skip_vcs=False
        )
        tree = _EntryTree(root.prefix_length, excludes, depth)
        should_stop, complete = start_deadline(context), True
        for directory in walk:
            tree.add(directory)
            if should_stop(walk.entry_count) or tree.count > MAX_SCANNED:
                complete = False
                break
    entries = tree.flatten()
    shown = tuple(entries[skip : skip + limit])
    listing = DirectoryListing(
        path=escape_surrogates(root.path),
        entries=shown,
        total=len(entries),
        skip=skip,
        truncated=skip + len(shown) < len(entries),
        ignored=tree.ignored,
        complete=complete and not walk.stopped_early,
    )
    return ToolOutput(listing.render(), to_data(listing))


class _EntryTree:
    """The entries of a directory, and those below it to a depth."""

    def __init__(self, prefix_length: int, excludes: GlobFilter, max_depth: int) -> None:
        self._prefix_length = prefix_length
        self._excludes = excludes
        self._max_depth = min(max_depth, MAX_DEPTH)
        self._children: dict[str, dict[str, DirectoryEntry]] = {}
        """Path of a directory -> its entries by name."""
        self.count = self.ignored = 0

    def add(self, directory: Directory) -> None:
        """Add the entries of a directory; remove subdirectories that are not to be entered from its list."""
        local = directory.path[self._prefix_length :]
        depth = local.count("/") + 2 if local else 1
        children: dict[str, DirectoryEntry] = {}
        kinds: list[tuple[EntryKind, list[os.DirEntry[str]]]]
        kinds = [
            ("directory", directory.subdirectories),
            ("file", directory.files),
            ("other", directory.others),
        ]
        for kind, entries in kinds:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"{local}/{entry.name}" if local else entry.name
                if self._excludes and not self._excludes.admits(path):
                    continue
                entry_kind, size, target = kind, 0, ""
                with suppress(OSError):  # it has gone meanwhile
                    size = entry.stat(follow_symlinks=False).st_size
                    if entry.is_symlink():
                        entry_kind, target = "link", os.readlink(entry.name, dir_fd=directory.fd)
                path, name, target = map(escape_surrogates, (path, entry.name, target))
                children[entry.name] = DirectoryEntry(path, name, entry_kind, size, depth, target)
        self.ignored += len(directory.ignored)
        self.count += len(children)
        self._children[local] = children
        if depth >= self._max_depth:
            directory.subdirectories.clear()
            return
        entered = {name for name, child in children.items() if child.kind == "directory"} - VCS_DIRECTORIES
        directory.subdirectories[:] = [entry for entry in directory.subdirectories if entry.name in entered]

    def flatten(self, directory: str = "") -> list[DirectoryEntry]:
        """Return all entries, each directory followed by its own."""
        entries: list[DirectoryEntry] = []
        prefix = f"{directory}/" if directory else ""
        for name, entry in self._children.get(directory, {}).items():
            entries.append(entry)
            if entry.kind == "directory":
                entries += self.flatten(prefix + name)
        return entries
