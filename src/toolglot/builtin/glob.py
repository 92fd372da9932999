"""The tool `glob`: the files whose paths match a pattern, found by handles. No link is followed; `.git` is not entered."""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from heapq import nsmallest
from itertools import compress
from typing import Literal

import msgspec

from toolglot.builtin.arguments import at_least, looked_into
from toolglot.builtin.ignore import Test, expanded, glob_regex, name_tests, regex_test
from toolglot.builtin.looking import Searched, patience, searched
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.walk import Walk, shown, status_of
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["GlobFound", "Globbing", "absolute_glob", "glob_tools", "literal_start"]

MOST_RESULTS = 10_000
MOST_KEPT = 500_000
DAY = 24 * 3600
_Entries = list[os.DirEntry[str]]
_WILD = re.compile(r"[*?\[\\]")


class GlobFile(msgspec.Struct, frozen=True):
    """A file that was found. `path`: below the root; `absolute`: the whole real path. `mtime`: seconds."""

    path: str
    absolute: str
    size: int
    mtime: float


class GlobFound(msgspec.Struct, frozen=True, kw_only=True):
    """What `glob` found. `total`: all that match, of which the first are in `files`. `ignored`: matching ones left out.

    `ignored_folders` were not looked into. `complete` is False where it was stopped before the end.
    """

    pattern: str
    path: str
    order: str
    files: tuple[GlobFile, ...]
    total: int
    truncated: bool
    ignored: int = 0
    ignored_folders: int = 0
    missed: int = 0
    complete: bool = True


def literal_start(pattern: str) -> tuple[str, str]:
    """A glob without braces as the folders that it names plainly, and the rest."""
    *folders, last = pattern.split("/")
    plain = 0
    while plain < len(folders) and folders[plain] and not _WILD.search(folders[plain]):
        plain += 1
    return "/".join(folders[:plain]), "/".join([*folders[plain:], last])


class Globbing:
    """One search for paths: a pattern, where it starts, what is obeyed."""

    def __init__(self, pattern: str, *, case_sensitive: bool = True, git: bool = True, extra: bool = True) -> None:
        if not pattern or "\0" in pattern:
            raise ToolError(f"{pattern[:80]!r} is not a glob; give one such as '**/*.py'", kind="validation")
        pattern = re.sub(r"^(?:\./)+", "", pattern)
        if ".." in pattern.split("/"):
            raise ToolError(f"the glob {pattern[:80]!r} leads upwards; give the folder as path", kind="validation")
        self._globs = expanded(pattern)
        self._flags = re.DOTALL | (0 if case_sensitive else re.IGNORECASE)
        self.git, self.extra, self._folded = git, extra, not case_sensitive
        self.found: list[str] = []
        """Paths below the root."""
        self._status: dict[str, tuple[int, int]] = {}
        self.ignored = self.ignored_folders = self.missed = 0
        self.complete = True

    def start(self) -> str:
        """The folder that all alternatives are in, below where the search is."""
        starts = {literal_start(glob)[0] for glob in self._globs}
        return starts.pop() if len(starts) == 1 and not self._folded else ""

    def _depth(self) -> int | None:
        """How many folders deep a match can be; None: any."""
        return None if any("**" in glob for glob in self._globs) else max(glob.count("/") for glob in self._globs)

    def _test(self) -> tuple[bool, Test | None]:
        """What a file's path must pass, None: nothing; and whether its name is enough for that."""
        names = [glob.removeprefix("**/") for glob in self._globs]
        by_name = all(glob.startswith("**/") for glob in self._globs) and not any("/" in name for name in names)
        globs = names if by_name else self._globs
        if "**" in globs or (by_name and "*" in globs):
            return by_name, None
        if by_name and not self._folded and len(tests := name_tests(names)) == 1:
            return True, tests[0]
        return by_name, regex_test(map(glob_regex, globs), self._flags)

    def run(self, place: Searched, enough: Callable[[int], bool], *, times: bool = True) -> None:
        """Looks through a folder."""
        depth, (by_name, test) = self._depth(), self._test()
        walk = Walk(place.root, "/".join(filter(None, (place.base, self.start()))), git=self.git, extra=self.extra)
        for folder in walk:
            prefix = f"{folder.path}/" if folder.path else ""
            local = "" if by_name else prefix[place.cut :]
            if depth is not None and local.count("/") >= depth:
                folder.folders.clear()
            found = _matching(folder.files, local, test)
            if times:
                self._keep(prefix, found)
            else:
                self.found += [prefix + entry.name for entry in found]
            ignored = [entry for entry in folder.ignored if not entry.is_dir(follow_symlinks=False)]
            self.ignored_folders += len(folder.ignored) - len(ignored)
            self.ignored += len(_matching(ignored, local, test))
            if enough(walk.seen) or len(self.found) >= MOST_KEPT:
                self.complete = False
                break
        self.missed = walk.missed
        self.complete = self.complete and not walk.ended

    def _keep(self, prefix: str, entries: _Entries) -> None:
        for entry in entries:
            with suppress(OSError):  # it has gone meanwhile
                status = entry.stat(follow_symlinks=False)
                self._status[prefix + entry.name] = status.st_size, status.st_mtime_ns
                self.found.append(prefix + entry.name)

    def sorted(self, order: str, most: int | None = None) -> list[tuple[str, int, int]]:
        """The first that were found, in an order: path, size, time of change in ns; 0 where nobody asked for times."""
        if order == "name":
            paths = nsmallest(most, self.found) if most else sorted(self.found)
        elif order == "mtime":
            paths = sorted(self.found, key=lambda path: (-self._status[path][1], path))
        else:
            recent = (time.time() - DAY) * 1e9
            changed = {path: changed for path, (_, changed) in self._status.items() if changed >= recent}
            paths = sorted(self.found, key=lambda path: (path not in changed, -changed.get(path, 0), path))
        return [(path, *self._status.get(path, (0, 0))) for path in paths[:most]]


def _matching(entries: _Entries, local: str, test: Test | None) -> _Entries:
    """The entries of a folder whose paths match; all of them where nothing must."""
    if test is None:
        return entries
    names = [entry.name for entry in entries]
    return list(compress(entries, test([local + name for name in names] if local else names)))


def absolute_glob(box: Toolbox, pattern: str) -> tuple[str, str]:
    """A glob that begins at the root of the file system: the folder that it names, and the rest. Raises ToolError."""
    folder, rest = literal_start(pattern[1:])
    path = f"/{folder}"
    box.workspace.place(path)
    return path, rest


def glob_tools(box: Toolbox) -> list[Tool]:
    """The tool `glob`, for a toolbox."""

    @tool(
        name="glob",
        effects="read",
        idempotent=True,
        target=looked_into(box),
        examples=[{"pattern": "src/**/*.{ts,tsx}"}, {"pattern": "*.md", "path": "docs", "order": "name"}],
    )
    def glob(  # noqa: D417
        pattern: str,
        path: str = ".",
        case_sensitive: bool = True,
        respect_gitignore: bool = True,
        respect_extra_ignore: bool = True,
        max_results: int = 100,
        order: Literal["mtime", "gemini_recent", "name"] = "mtime",
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Find files by their paths. `*` and `?` stay within a name, `**` is any number of folders, `{a,b}` is a choice.

        Hidden files are found too; folders, links and what version control keeps for itself are not.

        Args:
            pattern: The glob that the path of a file must match, from the folder searched: '**/*.py' looks in all folders.
            path: The folder to search; the workspace without it.
            case_sensitive: Whether case counts.
            respect_gitignore: Leave out what .gitignore files name.
            respect_extra_ignore: Leave out what .aiignore and similar files in the workspace's root name.
            max_results: How many files to list at most; 0 is as many as possible.
            order: mtime is newest first; gemini_recent is the last 24 hours newest first, then by name; name is by name.
        """
        at_least("max_results", max_results)
        if pattern.startswith("/"):
            path, pattern = absolute_glob(box, pattern)
        search = Globbing(pattern, case_sensitive=case_sensitive, git=respect_gitignore, extra=respect_extra_ignore)
        with searched(box, path) as place:
            search.run(place, patience(context, "glob"), times=order != "name")
            most = min(max_results or MOST_RESULTS, MOST_RESULTS)
            files = [_file(place, *one) for one in search.sorted(order, most)]
        total = len(search.found)
        found = GlobFound(
            pattern=pattern,
            path=shown(place.whole),
            order=order,
            files=tuple(files),
            total=total,
            truncated=total > len(files),
            ignored=search.ignored,
            ignored_folders=search.ignored_folders,
            missed=search.missed,
            complete=search.complete,
        )
        return ToolOutput(_text(box, found), built(found))

    return [glob]


def _file(place: Searched, path: str, size: int, changed: int) -> GlobFile:
    if not changed and (status := status_of(place.root, path)) is not None:
        size, changed = status.st_size, status.st_mtime_ns
    return GlobFile(shown(path), shown(f"{place.top}/{path}"), size, changed / 1e9)


def _text(box: Toolbox, found: GlobFound) -> str:
    main = str(box.workspace.root)
    inside = found.path == main or found.path.startswith(main.rstrip("/") + "/")
    lines = [one.path if inside else one.absolute for one in found.files]
    if found.truncated:
        lines.append(f"[{len(found.files)} of {found.total} files; narrow the pattern, or raise max_results]")
    if not lines:
        left = f" {found.ignored} that match are ignored." if found.ignored else ""
        lines.append(f"No files match {found.pattern!r} in {found.path!r}.{left}")
    if not found.complete:
        lines.append("[stopped before everything was looked at: search in a folder further down]")
    return "\n".join(lines)
