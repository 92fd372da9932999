"""The tools `list_dir` and `read_many`: what is in a folder, and many files at once. By handles; no link is followed."""

import os
import stat
from typing import Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.files.descriptors import read_all
from toolglot.builtin.search.glob import GlobSearch, split_absolute_glob
from toolglot.builtin.search.ignore import GlobFilter
from toolglot.builtin.search.search_scope import SearchRoot, open_search_root, start_deadline
from toolglot.builtin.search.walk import BINARY_PROBE_SIZE, VCS_DIRECTORIES, Directory, Walk, replace_surrogates
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = [
    "DirectoryEntry",
    "DirectoryListing",
    "FileContent",
    "ReadManyResult",
    "SkippedFile",
    "list_dir_tools",
    "list_directory",
]

MAX_SCANNED = 50_000
MAX_ENTRIES = 10_000
MAX_DEPTH = 50
MAX_PATTERNS = 200
MAX_FILES = 200
MAX_FILE_BYTES = 256 << 10
MAX_TOTAL_BYTES = 1 << 20
MAX_SKIPPED = 50
DEFAULT_EXCLUDES = (
    *("node_modules", "bower_components", "vendor", "dist", "build", "target", "coverage", "__pycache__", ".venv", "venv"),
    *(".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".gradle", ".idea", ".vscode", "*.egg-info"),
    *("*.pyc", "*.pyo", "*.o", "*.so", "*.a", "*.dylib", "*.dll", "*.exe", "*.class", "*.jar", "*.min.js", "*.map"),
    ".DS_Store",
)
"""What read_many leaves out unless it is told otherwise: dependencies, builds, caches."""


class DirectoryEntry(msgspec.Struct, frozen=True):
    """Something in a folder. `path`: from the folder listed; `depth`: 1 directly in it; `target`: where a link leads."""

    path: str
    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    mtime: float
    depth: int
    target: str = ""


class DirectoryListing(msgspec.Struct, frozen=True, kw_only=True):
    """What `list_dir` found, folders first, each before what is in it. `total`: all entries, of which `entries` are shown."""

    path: str
    entries: tuple[DirectoryEntry, ...]
    total: int
    skip: int
    truncated: bool
    ignored: int
    missed: int = 0
    complete: bool = True
    kind: Literal["folder"] = "folder"


class FileContent(msgspec.Struct, frozen=True):
    """A file that was read. `size`: bytes of the whole file; `truncated`: only its beginning is in `text`."""

    path: str
    absolute: str
    size: int
    text: str
    truncated: bool = False


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that was not read, and why."""

    path: str
    reason: str


class ReadManyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `read_many` read. `matched`: files that were meant; `left_out`: those for which there was no room."""

    files: tuple[FileContent, ...]
    skipped: tuple[SkippedFile, ...]
    matched: int
    left_out: int


def list_dir_tools(state: ToolState) -> list[Tool]:
    """The tools `list_dir` and `read_many`, for a toolbox."""
    return [_list_dir_tool(state), _read_many_tool(state)]


def _build_excludes(globs: list[str]) -> GlobFilter:
    """Globs whose matches are left out."""
    if len(globs) > MAX_PATTERNS:
        raise ToolError(f"there are {len(globs)} patterns; at most {MAX_PATTERNS} are taken", kind="validation")
    for glob in globs:
        if not glob or "\0" in glob:
            raise ToolError(f"{glob[:80]!r} is not a glob; give one such as '*.log'", kind="validation")
    return GlobFilter(f"!{glob.rstrip('/')}" for glob in globs if glob.rstrip("/"))


# ---- list_dir


def _list_dir_tool(state: ToolState) -> Tool:
    @tool(
        name="list_dir",
        effects="read",
        idempotent=True,
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
        respect_extra_ignore: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """List what is in a folder: folders first, then files with their sizes, by name. Hidden ones are listed too.

        Args:
            path: The folder; the workspace without it.
            ignore: Globs of names or paths to leave out.
            depth: How many levels of folders to list; 1 is only what is directly in it.
            skip: How many of the first entries to leave out.
            limit: How many entries to show at most; 0 is as many as possible.
            respect_gitignore: Leave out what .gitignore files name.
            respect_extra_ignore: Leave out what .aiignore and similar files in the workspace's root name.
        """
        check_minimum("depth", depth, 1)
        most = min(check_minimum("limit", limit) or MAX_ENTRIES, MAX_ENTRIES)
        check_minimum("skip", skip)
        hidden = _build_excludes(ignore or [])
        with open_search_root(state, path) as place:
            walk = Walk(
                place.root_fd,
                place.relative,
                respect_gitignore=respect_gitignore,
                respect_extra_ignore=respect_extra_ignore,
                skip_names=frozenset(),
            )
            return _build_listing(
                place, walk, _EntryTree(place.prefix_length, hidden, min(depth, MAX_DEPTH)), skip, most, context
            )

    return list_dir


def list_directory(state: ToolState, path: str, depth: int, context: Context | None) -> ToolOutput:
    """What is in a folder, so many levels deep. Raises ToolError."""
    with open_search_root(state, path) as place:
        tree = _EntryTree(place.prefix_length, _build_excludes([]), min(depth, MAX_DEPTH))
        return _build_listing(place, Walk(place.root_fd, place.relative, skip_names=frozenset()), tree, 0, MAX_ENTRIES, context)


def _build_listing(
    search_root: SearchRoot, walk: Walk, tree: "_EntryTree", skip: int, limit: int, context: Context | None
) -> ToolOutput:
    enough, complete = start_deadline(context, "list_dir"), True
    for folder in walk:
        tree.add(folder)
        if enough(walk.entry_count) or tree.count > MAX_SCANNED:
            complete = False
            break
    entries = tree.flatten()
    part = tuple(_make_displayable(entry) for entry in entries[skip : skip + limit])
    found = DirectoryListing(
        path=replace_surrogates(search_root.path),
        entries=part,
        total=len(entries),
        skip=skip,
        truncated=skip + len(part) < len(entries),
        ignored=tree.ignored,
        missed=walk.missed,
        complete=complete and not walk.stopped_early,
    )
    return ToolOutput(_render_listing(found), to_data(found))


class _EntryTree:
    """The entries of a folder and those below it, so many levels deep."""

    def __init__(self, prefix_length: int, excludes: GlobFilter, max_depth: int) -> None:
        self._prefix_length, self._excludes, self._max_depth = prefix_length, excludes, max_depth
        self._children: dict[str, list[DirectoryEntry]] = {}
        self.count = self.ignored = 0

    def add(self, directory: Directory) -> None:
        """Takes what is in one folder; folders that are not to be entered are taken out of it."""
        local = directory.path[self._prefix_length :]
        level = local.count("/") + 2 if local else 1
        found: list[DirectoryEntry] = []
        for kind, entries in (("folder", directory.subdirectories), ("file", directory.files), ("other", directory.others)):
            for entry in sorted(entries, key=lambda one: one.name):
                path = f"{local}/{entry.name}" if local else entry.name
                if self._excludes and not self._excludes.admits(path):
                    self.ignored += 1
                else:
                    found.append(_build_entry(directory.fd, entry, path, kind, level))
        self.ignored += len(directory.ignored)
        self.count += len(found)
        self._children[local] = found
        deeper = (
            {one.name for one in found if one.kind == "folder"} - VCS_DIRECTORIES if level < self._max_depth else set[str]()
        )
        directory.subdirectories[:] = [entry for entry in directory.subdirectories if entry.name in deeper]

    def flatten(self, directory: str = "") -> list[DirectoryEntry]:
        """All of them, each folder before what is in it."""
        found: list[DirectoryEntry] = []
        for entry in self._children.get(directory, ()):
            found.append(entry)
            if entry.kind == "folder":
                found += self.flatten(entry.path)
        return found


def _build_entry(directory_fd: int, entry: os.DirEntry[str], path: str, kind: str, depth: int) -> DirectoryEntry:
    size, mtime, target = 0, 0.0, ""
    try:
        status = entry.stat(follow_symlinks=False)
        size, mtime = status.st_size, status.st_mtime
        if stat.S_ISLNK(status.st_mode):
            kind, target = "link", os.readlink(entry.name, dir_fd=directory_fd)
    except OSError:
        pass  # it has gone meanwhile
    return DirectoryEntry(path, entry.name, kind, size, mtime, depth, target)  # pyright: ignore[reportArgumentType]


def _make_displayable(entry: DirectoryEntry) -> DirectoryEntry:
    if entry.path.isascii() and entry.target.isascii():
        return entry
    return msgspec.structs.replace(
        entry, path=replace_surrogates(entry.path), name=replace_surrogates(entry.name), target=replace_surrogates(entry.target)
    )


_SUFFIXES = {"folder": "/", "link": " -> {0.target}", "file": " ({0.size} bytes)", "other": " (not a regular file)"}


def _render_entry(entry: DirectoryEntry) -> str:
    return f"{'  ' * (entry.depth - 1)}{entry.name}{_SUFFIXES[entry.kind].format(entry)}"


def _render_listing(listing: DirectoryListing) -> str:
    lines = [_render_entry(entry) for entry in listing.entries]
    if not listing.total:
        left = f" but for {listing.ignored} ignored entries" if listing.ignored else ""
        lines.append(f"The folder {listing.path!r} is empty{left}.")
    elif not listing.entries:
        lines.append(f"[there are only {listing.total} entries]")
    elif listing.truncated:
        end = listing.skip + len(listing.entries)
        lines.append(f"[entries {listing.skip + 1} to {end} of {listing.total}; go on with skip={end}]")
    if listing.total and listing.ignored:
        lines.append(f"({listing.ignored} ignored)")
    if not listing.complete:
        lines.append("[stopped before everything was listed: list a folder further down, or less deep]")
    return "\n".join(lines)


# ---- read_many


def _read_many_tool(state: ToolState) -> Tool:
    @tool(
        name="read_many",
        effects="read",
        idempotent=True,
        target=lambda arguments: ", ".join(map(str, arguments.get("include") or ())),
        examples=[{"include": ["README.md", "docs/*.md"]}, {"include": ["src/**/*.py"], "exclude": ["*_test.py"]}],
    )
    def read_many(  # noqa: D417
        include: list[str],
        exclude: list[str] | None = None,
        default_excludes: bool = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Read many text files at once, one after the other, each behind a line with its path. Binary files are only named.

        Args:
            include: Paths of files or folders, or globs such as 'src/**/*.py'.
            exclude: Globs of names or paths to leave out.
            default_excludes: Leave out what ignore files name, and dependencies, builds and caches.
        """
        if not include or len(include) > MAX_PATTERNS:
            raise ToolError(f"include holds {len(include)} patterns; give 1 to {MAX_PATTERNS}", kind="validation")
        wanted = _FileSelection(state, exclude or [], default_excludes, context)
        for pattern in include:
            wanted.add(pattern)
        if not wanted.paths:
            why = f"; {wanted.skipped[0].path!r}: {wanted.skipped[0].reason}" if wanted.skipped else ""
            raise ToolError(f"no file matches {', '.join(map(repr, include))[:200]}{why}", kind="not_found")
        found = _read_files(state, wanted, context)
        return ToolOutput(_render_files(found), to_data(found))

    return read_many


class _FileSelection:
    """The files that patterns mean: real paths, in the order in which they are found, each once.

    A file that is named itself is only left out where `exclude` says so.
    """

    def __init__(self, state: ToolState, exclude: list[str], default_excludes: bool, context: Context | None) -> None:
        self._state, self._default_excludes = state, default_excludes
        self._named_filter = _build_excludes(exclude)
        self._search_filter = _build_excludes([*DEFAULT_EXCLUDES, *exclude]) if default_excludes else self._named_filter
        self._should_stop = start_deadline(context, "read_many")
        self.paths: dict[str, None] = {}
        self.skipped: list[SkippedFile] = []

    def add(self, include: str) -> None:
        """A path of a file or a folder, or a glob."""
        path, pattern = split_absolute_glob(self._state, include) if include.startswith("/") else (".", include)
        if not any(sign in include for sign in "*?[{\\"):
            path, pattern = include, ""
            found = self._state.workspace.inspect(include)
            if found is None:
                self.skipped.append(SkippedFile(replace_surrogates(include), "there is no such file"))
                return
            if not stat.S_ISDIR(found.status.st_mode):
                self._add_path(str(found.path), self._named_filter)
                return
        self._search(path, pattern or "**")

    def _search(self, path: str, pattern: str) -> None:
        search = GlobSearch(pattern, respect_gitignore=self._default_excludes, respect_extra_ignore=self._default_excludes)
        with open_search_root(self._state, path) as place:
            search.run(place, self._should_stop, with_times=False)
        for found, _, _ in search.rank_files("name"):
            self._add_path(f"{place.root_path}/{found}", self._search_filter)

    def _add_path(self, path: str, path_filter: GlobFilter) -> None:
        root = str(self._state.workspace.root).rstrip("/") + "/"
        if path_filter.admits(path.removeprefix(root)):
            self.paths.setdefault(path)


def _read_file(state: ToolState, path: str, remaining: int) -> FileContent | SkippedFile:
    """One file, as much of it as there is room for."""
    name = replace_surrogates(path.removeprefix(str(state.workspace.root).rstrip("/") + "/"))
    try:
        with state.workspace.open_file(path) as opened:
            most = min(MAX_FILE_BYTES, remaining)
            data = read_all(opened.fd, most + 1)
            if b"\0" in data[:BINARY_PROBE_SIZE]:
                return SkippedFile(name, f"a binary file of {opened.status.st_size} bytes")
            if len(data) <= most:
                state.mark_seen(opened.path, opened.version)
            text = data[:most].decode("utf-8", "replace")
            return FileContent(name, replace_surrogates(str(opened.path)), opened.status.st_size, text, len(data) > most)
    except ToolError as e:
        return SkippedFile(name, str(e))


def _read_files(state: ToolState, selection: _FileSelection, context: Context | None) -> ReadManyResult:
    """As many of the files as there is room for."""
    files, skipped, room, done = list[FileContent](), selection.skipped, MAX_TOTAL_BYTES, 0
    for path in list(selection.paths)[:MAX_FILES]:
        if room <= 0 or (context is not None and context.is_cancelled):
            break
        done += 1
        match _read_file(state, path, room):
            case FileContent() as file:
                files.append(file)
                room -= len(file.text)
            case skip:
                skipped.append(skip)
    matched = len(selection.paths)
    return ReadManyResult(files=tuple(files), skipped=tuple(skipped[:MAX_SKIPPED]), matched=matched, left_out=matched - done)


def _render_files(result: ReadManyResult) -> str:
    parts: list[str] = []
    for file in result.files:
        cut = (
            f"\n[the first {len(file.text)} characters of {file.size} bytes; read the rest with read]" if file.truncated else ""
        )
        parts.append(f"--- {file.path} ---\n\n{file.text.rstrip(chr(10))}{cut}\n")
    parts += [f"[{skipped.path} was not read: {skipped.reason}]" for skipped in result.skipped]
    if result.left_out:
        parts.append(f"[{result.left_out} more files match, and there is no room for them: include fewer]")
    return "\n".join([*parts, "--- End of content ---"])
