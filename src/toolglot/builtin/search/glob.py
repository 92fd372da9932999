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

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.search.ignore import BatchTest, build_name_tests, build_regex_test, expand_braces, glob_to_regex
from toolglot.builtin.search.search_scope import SearchRoot, open_search_root, start_deadline
from toolglot.builtin.search.walk import Walk, replace_surrogates, stat_beneath
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["GlobResult", "GlobSearch", "glob_tools", "split_absolute_glob", "split_literal_prefix"]

MAX_RESULTS = 10_000
MAX_MATCHES = 500_000
DAY_SECONDS = 24 * 3600
_Entries = list[os.DirEntry[str]]
_WILDCARD = re.compile(r"[*?\[\\]")


class GlobFile(msgspec.Struct, frozen=True):
    """A file that was found. `path`: below the root; `absolute`: the whole real path. `mtime`: seconds."""

    path: str
    absolute: str
    size: int
    mtime: float


class GlobResult(msgspec.Struct, frozen=True, kw_only=True):
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


def split_literal_prefix(pattern: str) -> tuple[str, str]:
    """A glob without braces as the folders that it names plainly, and the rest."""
    *folders, last = pattern.split("/")
    plain = 0
    while plain < len(folders) and folders[plain] and not _WILDCARD.search(folders[plain]):
        plain += 1
    return "/".join(folders[:plain]), "/".join([*folders[plain:], last])


class GlobSearch:
    """One search for paths: a pattern, where it starts, what is obeyed."""

    def __init__(
        self, pattern: str, *, case_sensitive: bool = True, respect_gitignore: bool = True, respect_extra_ignore: bool = True
    ) -> None:
        if not pattern or "\0" in pattern:
            raise ToolError(f"{pattern[:80]!r} is not a glob; give one such as '**/*.py'", kind="validation")
        pattern = re.sub(r"^(?:\./)+", "", pattern)
        if ".." in pattern.split("/"):
            raise ToolError(f"the glob {pattern[:80]!r} leads upwards; give the folder as path", kind="validation")
        self._globs = expand_braces(pattern)
        self._flags = re.DOTALL | (0 if case_sensitive else re.IGNORECASE)
        self.respect_gitignore, self.respect_extra_ignore, self._ignore_case = (
            respect_gitignore,
            respect_extra_ignore,
            not case_sensitive,
        )
        self.paths: list[str] = []
        """Paths below the root."""
        self._status: dict[str, tuple[int, int]] = {}
        self.ignored = self.ignored_folders = self.missed = 0
        self.complete = True

    def start_directory(self) -> str:
        """The folder that all alternatives are in, below where the search is."""
        starts = {split_literal_prefix(glob)[0] for glob in self._globs}
        return starts.pop() if len(starts) == 1 and not self._ignore_case else ""

    def _max_depth(self) -> int | None:
        """How many folders deep a match can be; None: any."""
        return None if any("**" in glob for glob in self._globs) else max(glob.count("/") for glob in self._globs)

    def _build_test(self) -> tuple[bool, BatchTest | None]:
        """What a file's path must pass, None: nothing; and whether its name is enough for that."""
        names = [glob.removeprefix("**/") for glob in self._globs]
        by_name = all(glob.startswith("**/") for glob in self._globs) and not any("/" in name for name in names)
        globs = names if by_name else self._globs
        if "**" in globs or (by_name and "*" in globs):
            return by_name, None
        if by_name and not self._ignore_case and len(tests := build_name_tests(names)) == 1:
            return True, tests[0]
        return by_name, build_regex_test(map(glob_to_regex, globs), self._flags)

    def run(self, search_root: SearchRoot, should_stop: Callable[[int], bool], *, with_times: bool = True) -> None:
        """Looks through a folder."""
        depth, (by_name, test) = self._max_depth(), self._build_test()
        walk = Walk(
            search_root.root_fd,
            "/".join(filter(None, (search_root.relative, self.start_directory()))),
            respect_gitignore=self.respect_gitignore,
            respect_extra_ignore=self.respect_extra_ignore,
        )
        for folder in walk:
            prefix = f"{folder.path}/" if folder.path else ""
            local = "" if by_name else prefix[search_root.prefix_length :]
            if depth is not None and local.count("/") >= depth:
                folder.subdirectories.clear()
            found = _filter_entries(folder.files, local, test)
            if with_times:
                self._record(prefix, found)
            else:
                self.paths += [prefix + entry.name for entry in found]
            ignored = [entry for entry in folder.ignored if not entry.is_dir(follow_symlinks=False)]
            self.ignored_folders += len(folder.ignored) - len(ignored)
            self.ignored += len(_filter_entries(ignored, local, test))
            if should_stop(walk.entry_count) or len(self.paths) >= MAX_MATCHES:
                self.complete = False
                break
        self.missed = walk.missed
        self.complete = self.complete and not walk.stopped_early

    def _record(self, prefix: str, entries: _Entries) -> None:
        for entry in entries:
            with suppress(OSError):  # it has gone meanwhile
                status = entry.stat(follow_symlinks=False)
                self._status[prefix + entry.name] = status.st_size, status.st_mtime_ns
                self.paths.append(prefix + entry.name)

    def rank_files(self, order: str, limit: int | None = None) -> list[tuple[str, int, int]]:
        """The first that were found, in an order: path, size, time of change in ns; 0 where nobody asked for times."""
        if order == "name":
            paths = nsmallest(limit, self.paths) if limit else sorted(self.paths)
        elif order == "mtime":
            paths = sorted(self.paths, key=lambda path: (-self._status[path][1], path))
        else:
            recent = (time.time() - DAY_SECONDS) * 1e9
            changed = {path: changed for path, (_, changed) in self._status.items() if changed >= recent}
            paths = sorted(self.paths, key=lambda path: (path not in changed, -changed.get(path, 0), path))
        return [(path, *self._status.get(path, (0, 0))) for path in paths[:limit]]


def _filter_entries(entries: _Entries, prefix: str, test: BatchTest | None) -> _Entries:
    """The entries of a folder whose paths match; all of them where nothing must."""
    if test is None:
        return entries
    names = [entry.name for entry in entries]
    return list(compress(entries, test([prefix + name for name in names] if prefix else names)))


def split_absolute_glob(state: ToolState, pattern: str) -> tuple[str, str]:
    """A glob that begins at the root of the file system: the folder that it names, and the rest. Raises ToolError."""
    folder, rest = split_literal_prefix(pattern[1:])
    path = f"/{folder}"
    state.workspace.locate(path)
    return path, rest


def glob_tools(state: ToolState) -> list[Tool]:
    """The tool `glob`, for a toolbox."""

    @tool(
        name="glob",
        effects="read",
        idempotent=True,
        target=path_target(state),
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
        check_minimum("max_results", max_results)
        if pattern.startswith("/"):
            path, pattern = split_absolute_glob(state, pattern)
        search = GlobSearch(
            pattern,
            case_sensitive=case_sensitive,
            respect_gitignore=respect_gitignore,
            respect_extra_ignore=respect_extra_ignore,
        )
        with open_search_root(state, path) as place:
            search.run(place, start_deadline(context, "glob"), with_times=order != "name")
            most = min(max_results or MAX_RESULTS, MAX_RESULTS)
            files = [_build_file(place, *one) for one in search.rank_files(order, most)]
        total = len(search.paths)
        found = GlobResult(
            pattern=pattern,
            path=replace_surrogates(place.path),
            order=order,
            files=tuple(files),
            total=total,
            truncated=total > len(files),
            ignored=search.ignored,
            ignored_folders=search.ignored_folders,
            missed=search.missed,
            complete=search.complete,
        )
        return ToolOutput(_render_text(state, found), to_data(found))

    return [glob]


def _build_file(search_root: SearchRoot, path: str, size: int, mtime_ns: int) -> GlobFile:
    if not mtime_ns and (status := stat_beneath(search_root.root_fd, path)) is not None:
        size, mtime_ns = status.st_size, status.st_mtime_ns
    return GlobFile(replace_surrogates(path), replace_surrogates(f"{search_root.root_path}/{path}"), size, mtime_ns / 1e9)


def _render_text(state: ToolState, result: GlobResult) -> str:
    main = str(state.workspace.root)
    inside = result.path == main or result.path.startswith(main.rstrip("/") + "/")
    lines = [one.path if inside else one.absolute for one in result.files]
    if result.truncated:
        lines.append(f"[{len(result.files)} of {result.total} files; narrow the pattern, or raise max_results]")
    if not lines:
        left = f" {result.ignored} that match are ignored." if result.ignored else ""
        lines.append(f"No files match {result.pattern!r} in {result.path!r}.{left}")
    if not result.complete:
        lines.append("[stopped before everything was looked at: search in a folder further down]")
    return "\n".join(lines)
