"""The tools `list_dir` and `read_many`: what is in a folder, and many files at once. By handles; no link is followed."""

import os
import stat
from typing import Literal

import msgspec

from toolglot.builtin.arguments import at_least, looked_into
from toolglot.builtin.glob import Globbing, absolute_glob
from toolglot.builtin.handles import read_all
from toolglot.builtin.ignore import Globs
from toolglot.builtin.looking import Searched, patience, searched
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.walk import BINARY_HEAD, VCS, Folder, Walk, shown
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["Listed", "ListedEntry", "ReadFile", "ReadMany", "SkippedFile", "listed", "listing_tools"]

MOST_LISTED = 50_000
MOST_SHOWN = 10_000
DEEPEST = 50
MOST_PATTERNS = 200
MOST_FILES = 200
LARGEST_PART = 256 << 10
LARGEST_ALL = 1 << 20
MOST_SKIPPED = 50
DEFAULT_EXCLUDES = (
    *("node_modules", "bower_components", "vendor", "dist", "build", "target", "coverage", "__pycache__", ".venv", "venv"),
    *(".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".gradle", ".idea", ".vscode", "*.egg-info"),
    *("*.pyc", "*.pyo", "*.o", "*.so", "*.a", "*.dylib", "*.dll", "*.exe", "*.class", "*.jar", "*.min.js", "*.map"),
    ".DS_Store",
)
"""What read_many leaves out unless it is told otherwise: dependencies, builds, caches."""


class ListedEntry(msgspec.Struct, frozen=True):
    """Something in a folder. `path`: from the folder listed; `depth`: 1 directly in it; `target`: where a link leads."""

    path: str
    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    mtime: float
    depth: int
    target: str = ""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What `list_dir` found, folders first, each before what is in it. `total`: all entries, of which `entries` are shown."""

    path: str
    entries: tuple[ListedEntry, ...]
    total: int
    skip: int
    truncated: bool
    ignored: int
    missed: int = 0
    complete: bool = True
    kind: Literal["folder"] = "folder"


class ReadFile(msgspec.Struct, frozen=True):
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


class ReadMany(msgspec.Struct, frozen=True, kw_only=True):
    """What `read_many` read. `matched`: files that were meant; `left_out`: those for which there was no room."""

    files: tuple[ReadFile, ...]
    skipped: tuple[SkippedFile, ...]
    matched: int
    left_out: int


def listing_tools(box: Toolbox) -> list[Tool]:
    """The tools `list_dir` and `read_many`, for a toolbox."""
    return [_list_dir(box), _read_many(box)]


def _negated(globs: list[str]) -> Globs:
    """Globs whose matches are left out."""
    if len(globs) > MOST_PATTERNS:
        raise ToolError(f"there are {len(globs)} patterns; at most {MOST_PATTERNS} are taken", kind="validation")
    for glob in globs:
        if not glob or "\0" in glob:
            raise ToolError(f"{glob[:80]!r} is not a glob; give one such as '*.log'", kind="validation")
    return Globs(f"!{glob.rstrip('/')}" for glob in globs if glob.rstrip("/"))


# ---- list_dir


def _list_dir(box: Toolbox) -> Tool:
    @tool(
        name="list_dir",
        effects="read",
        idempotent=True,
        target=looked_into(box),
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
        at_least("depth", depth, 1)
        most = min(at_least("limit", limit) or MOST_SHOWN, MOST_SHOWN)
        at_least("skip", skip)
        hidden = _negated(ignore or [])
        with searched(box, path) as place:
            walk = Walk(place.root, place.base, git=respect_gitignore, extra=respect_extra_ignore, skip=frozenset())
            return _listed(place, walk, _Tree(place.cut, hidden, min(depth, DEEPEST)), skip, most, context)

    return list_dir


def listed(box: Toolbox, path: str, depth: int, context: Context | None) -> ToolOutput:
    """What is in a folder, so many levels deep. Raises ToolError."""
    with searched(box, path) as place:
        tree = _Tree(place.cut, _negated([]), min(depth, DEEPEST))
        return _listed(place, Walk(place.root, place.base, skip=frozenset()), tree, 0, MOST_SHOWN, context)


def _listed(place: Searched, walk: Walk, tree: "_Tree", skip: int, most: int, context: Context | None) -> ToolOutput:
    enough, complete = patience(context, "list_dir"), True
    for folder in walk:
        tree.add(folder)
        if enough(walk.seen) or tree.count > MOST_LISTED:
            complete = False
            break
    entries = tree.entries()
    part = tuple(_clean(entry) for entry in entries[skip : skip + most])
    found = Listed(
        path=shown(place.whole),
        entries=part,
        total=len(entries),
        skip=skip,
        truncated=skip + len(part) < len(entries),
        ignored=tree.ignored,
        missed=walk.missed,
        complete=complete and not walk.ended,
    )
    return ToolOutput(_listed_text(found), built(found))


class _Tree:
    """The entries of a folder and those below it, so many levels deep."""

    def __init__(self, cut: int, hidden: Globs, depth: int) -> None:
        self._cut, self._hidden, self._depth = cut, hidden, depth
        self._inside: dict[str, list[ListedEntry]] = {}
        self.count = self.ignored = 0

    def add(self, folder: Folder) -> None:
        """Takes what is in one folder; folders that are not to be entered are taken out of it."""
        local = folder.path[self._cut :]
        level = local.count("/") + 2 if local else 1
        found: list[ListedEntry] = []
        for kind, entries in (("folder", folder.folders), ("file", folder.files), ("other", folder.others)):
            for entry in sorted(entries, key=lambda one: one.name):
                path = f"{local}/{entry.name}" if local else entry.name
                if self._hidden and not self._hidden.admits(path):
                    self.ignored += 1
                else:
                    found.append(_entry(folder.handle, entry, path, kind, level))
        self.ignored += len(folder.ignored)
        self.count += len(found)
        self._inside[local] = found
        deeper = {one.name for one in found if one.kind == "folder"} - VCS if level < self._depth else set[str]()
        folder.folders[:] = [entry for entry in folder.folders if entry.name in deeper]

    def entries(self, local: str = "") -> list[ListedEntry]:
        """All of them, each folder before what is in it."""
        found: list[ListedEntry] = []
        for entry in self._inside.get(local, ()):
            found.append(entry)
            if entry.kind == "folder":
                found += self.entries(entry.path)
        return found


def _entry(handle: int, entry: os.DirEntry[str], path: str, kind: str, level: int) -> ListedEntry:
    size, mtime, target = 0, 0.0, ""
    try:
        status = entry.stat(follow_symlinks=False)
        size, mtime = status.st_size, status.st_mtime
        if stat.S_ISLNK(status.st_mode):
            kind, target = "link", os.readlink(entry.name, dir_fd=handle)
    except OSError:
        pass  # it has gone meanwhile
    return ListedEntry(path, entry.name, kind, size, mtime, level, target)  # pyright: ignore[reportArgumentType]


def _clean(entry: ListedEntry) -> ListedEntry:
    if entry.path.isascii() and entry.target.isascii():
        return entry
    return msgspec.structs.replace(entry, path=shown(entry.path), name=shown(entry.name), target=shown(entry.target))


_ENDS = {"folder": "/", "link": " -> {0.target}", "file": " ({0.size} bytes)", "other": " (not a regular file)"}


def _line(entry: ListedEntry) -> str:
    return f"{'  ' * (entry.depth - 1)}{entry.name}{_ENDS[entry.kind].format(entry)}"


def _listed_text(found: Listed) -> str:
    lines = [_line(entry) for entry in found.entries]
    if not found.total:
        left = f" but for {found.ignored} ignored entries" if found.ignored else ""
        lines.append(f"The folder {found.path!r} is empty{left}.")
    elif not found.entries:
        lines.append(f"[there are only {found.total} entries]")
    elif found.truncated:
        end = found.skip + len(found.entries)
        lines.append(f"[entries {found.skip + 1} to {end} of {found.total}; go on with skip={end}]")
    if found.total and found.ignored:
        lines.append(f"({found.ignored} ignored)")
    if not found.complete:
        lines.append("[stopped before everything was listed: list a folder further down, or less deep]")
    return "\n".join(lines)


# ---- read_many


def _read_many(box: Toolbox) -> Tool:
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
        if not include or len(include) > MOST_PATTERNS:
            raise ToolError(f"include holds {len(include)} patterns; give 1 to {MOST_PATTERNS}", kind="validation")
        wanted = _Wanted(box, exclude or [], default_excludes, context)
        for pattern in include:
            wanted.add(pattern)
        if not wanted.paths:
            why = f"; {wanted.skipped[0].path!r}: {wanted.skipped[0].reason}" if wanted.skipped else ""
            raise ToolError(f"no file matches {', '.join(map(repr, include))[:200]}{why}", kind="not_found")
        found = _read(box, wanted, context)
        return ToolOutput(_read_text(found), built(found))

    return read_many


class _Wanted:
    """The files that patterns mean: real paths, in the order in which they are found, each once.

    A file that is named itself is only left out where `exclude` says so.
    """

    def __init__(self, box: Toolbox, exclude: list[str], defaults: bool, context: Context | None) -> None:
        self._box, self._defaults = box, defaults
        self._named = _negated(exclude)
        self._found = _negated([*DEFAULT_EXCLUDES, *exclude]) if defaults else self._named
        self._enough = patience(context, "read_many")
        self.paths: dict[str, None] = {}
        self.skipped: list[SkippedFile] = []

    def add(self, include: str) -> None:
        """A path of a file or a folder, or a glob."""
        path, pattern = absolute_glob(self._box, include) if include.startswith("/") else (".", include)
        if not any(sign in include for sign in "*?[{\\"):
            path, pattern = include, ""
            found = self._box.workspace.look(include)
            if found is None:
                self.skipped.append(SkippedFile(shown(include), "there is no such file"))
                return
            if not stat.S_ISDIR(found.status.st_mode):
                self._take(str(found.path), self._named)
                return
        self._search(path, pattern or "**")

    def _search(self, path: str, pattern: str) -> None:
        search = Globbing(pattern, git=self._defaults, extra=self._defaults)
        with searched(self._box, path) as place:
            search.run(place, self._enough, times=False)
        for found, _, _ in search.sorted("name"):
            self._take(f"{place.top}/{found}", self._found)

    def _take(self, path: str, globs: Globs) -> None:
        root = str(self._box.workspace.root).rstrip("/") + "/"
        if globs.admits(path.removeprefix(root)):
            self.paths.setdefault(path)


def _read_one(box: Toolbox, path: str, room: int) -> ReadFile | SkippedFile:
    """One file, as much of it as there is room for."""
    name = shown(path.removeprefix(str(box.workspace.root).rstrip("/") + "/"))
    try:
        with box.workspace.reading(path) as opened:
            most = min(LARGEST_PART, room)
            data = read_all(opened.handle, most + 1)
            if b"\0" in data[:BINARY_HEAD]:
                return SkippedFile(name, f"a binary file of {opened.status.st_size} bytes")
            if len(data) <= most:
                box.saw(opened.path, opened.version)
            text = data[:most].decode("utf-8", "replace")
            return ReadFile(name, shown(str(opened.path)), opened.status.st_size, text, len(data) > most)
    except ToolError as e:
        return SkippedFile(name, str(e))


def _read(box: Toolbox, wanted: _Wanted, context: Context | None) -> ReadMany:
    """As many of the files as there is room for."""
    files, skipped, room, done = list[ReadFile](), wanted.skipped, LARGEST_ALL, 0
    for path in list(wanted.paths)[:MOST_FILES]:
        if room <= 0 or (context is not None and context.cancelled):
            break
        done += 1
        match _read_one(box, path, room):
            case ReadFile() as file:
                files.append(file)
                room -= len(file.text)
            case skip:
                skipped.append(skip)
    matched = len(wanted.paths)
    return ReadMany(files=tuple(files), skipped=tuple(skipped[:MOST_SKIPPED]), matched=matched, left_out=matched - done)


def _read_text(found: ReadMany) -> str:
    parts: list[str] = []
    for file in found.files:
        cut = (
            f"\n[the first {len(file.text)} characters of {file.size} bytes; read the rest with read]" if file.truncated else ""
        )
        parts.append(f"--- {file.path} ---\n\n{file.text.rstrip(chr(10))}{cut}\n")
    parts += [f"[{skipped.path} was not read: {skipped.reason}]" for skipped in found.skipped]
    if found.left_out:
        parts.append(f"[{found.left_out} more files match, and there is no room for them: include fewer]")
    return "\n".join([*parts, "--- End of content ---"])
