"""The tool `glob`: find files by path."""

import os
import re
import time
from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import compress
from typing import Annotated, Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.scopes import path_scope
from toolglot.builtin.search.globs import (
    BatchTest,
    build_name_tests,
    build_regex_test,
    expand_braces,
    glob_to_regex,
    invalid_glob_error,
)
from toolglot.builtin.search.search_scope import SearchRoot, open_search_root, start_deadline
from toolglot.builtin.search.walk import Walk
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool, tool

__all__ = ["GlobResult", "GlobSearch", "glob_tools", "split_absolute_glob", "split_literal_prefix"]

MAX_RESULTS = 10_000
MAX_MATCHES = 500_000
DAY_SECONDS = 24 * 3600
Order = Literal["mtime", "recent_first", "name"]
"""mtime: newest first. recent_first: files changed within a day, newest first, then all others by name."""
_Entries = list[os.DirEntry[str]]
_WILDCARD = re.compile(r"[*?\[\\]")


class GlobFile(msgspec.Struct, frozen=True):
    """A matching file. `path`: relative to its root."""

    path: str
    absolute: str


class GlobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `glob`. `total`: all matches, of which the first are in `files`."""

    pattern: str
    path: str
    files: tuple[GlobFile, ...]
    total: int
    truncated: bool
    ignored: int = 0
    """Matching files that ignore files exclude."""
    complete: bool = True
    """False: the search was stopped before everything was searched."""

    def render(self, state: ToolState) -> str:
        """Return the text for a model."""
        workspace = str(state.workspace.root)
        is_inside = self.path == workspace or self.path.startswith(workspace.rstrip("/") + "/")
        lines = [file.path if is_inside else file.absolute for file in self.files]
        if self.truncated:
            lines.append(
                f"[showing {len(self.files)} of {self.total} files; narrow the pattern or raise max_results]"
            )
        if not lines:
            ignored = f" {self.ignored} matching files are ignored." if self.ignored else ""
            lines.append(f"No files match {self.pattern!r} in {self.path!r}.{ignored}")
        if not self.complete:
            lines.append("[stopped before everything was searched; search a smaller directory]")
        return "\n".join(lines)


def split_literal_prefix(pattern: str) -> tuple[str, str]:
    """Split a glob without braces into the leading directories without wildcards, and everything after them."""
    *directories, last = pattern.split("/")
    count = 0
    while count < len(directories) and directories[count] and not _WILDCARD.search(directories[count]):
        count += 1
    return "/".join(directories[:count]), "/".join([*directories[count:], last])


def split_absolute_glob(state: ToolState, pattern: str) -> tuple[str, str]:
    """Split an absolute glob into the directory that it names and the glob below it. Raises ToolError."""
    directory, glob = split_literal_prefix(pattern[1:])
    path = f"/{directory}"
    state.workspace.locate(path)
    return path, glob


class GlobSearch:
    """One search for paths. Raises ToolError for a glob that cannot be used."""

    def __init__(
        self, pattern: str, *, case_sensitive: bool = True, gitignore: bool = True, extra_ignore: bool = True
    ) -> None:
        if not pattern or "\0" in pattern:
            raise invalid_glob_error(pattern, "is not valid; use one such as '**/*.py'")
        pattern = re.sub(r"^(?:\./)+", "", pattern)
        if ".." in pattern.split("/"):
            raise invalid_glob_error(pattern, "leads to a parent directory; search that directory instead")
        self._globs, self._case_sensitive = expand_braces(pattern), case_sensitive
        self._gitignore, self._extra_ignore = gitignore, extra_ignore
        self._times: dict[str, int] = {}
        """Matches, relative to the root -> when they were modified, in ns; 0 if times do not matter."""
        self.ignored = 0
        self.complete = True

    def run(self, root: SearchRoot, should_stop: Callable[[int], bool], *, with_times: bool = True) -> None:
        """Search a directory."""
        max_depth = None
        if not any("**" in glob for glob in self._globs):
            max_depth = max(glob.count("/") for glob in self._globs)
        by_name, test = self._build_test()
        path = "/".join(filter(None, (root.relative, self._find_start())))
        walk = Walk(root.root_fd, path, gitignore=self._gitignore, extra_ignore=self._extra_ignore)
        for directory in walk:
            prefix = f"{directory.path}/" if directory.path else ""
            local = "" if by_name else prefix[root.prefix_length :]
            if max_depth is not None and local.count("/") >= max_depth:
                directory.subdirectories.clear()
            matches = _filter_entries(directory.files, local, test)
            if with_times:
                self._add_times(prefix, matches)
            else:
                self._times |= {prefix + entry.name: 0 for entry in matches}
            ignored = [entry for entry in directory.ignored if not entry.is_dir(follow_symlinks=False)]
            self.ignored += len(_filter_entries(ignored, local, test))
            if should_stop(walk.entry_count) or len(self._times) >= MAX_MATCHES:
                self.complete = False
                break
        self.complete = self.complete and not walk.stopped_early

    def _add_times(self, prefix: str, entries: _Entries) -> None:
        for entry in entries:
            try:
                self._times[prefix + entry.name] = entry.stat(follow_symlinks=False).st_mtime_ns
            except OSError:  # it has gone meanwhile
                continue

    def _find_start(self) -> str:
        """Return the directory that all globs are for, as nothing else has to be walked; "" if case does not
        matter there.
        """
        starts = {split_literal_prefix(glob)[0] for glob in self._globs}
        return starts.pop() if len(starts) == 1 and self._case_sensitive else ""

    def _build_test(self) -> tuple[bool, BatchTest | None]:
        """Return whether a file's name is enough to test it, and the test; None if everything matches."""
        names = [glob.removeprefix("**/") for glob in self._globs]
        if not all(_is_about_names(glob) for glob in self._globs):
            matches_everything = "**" in self._globs
            return False, None if matches_everything else self._build_path_test(self._globs)
        if "*" in names or "**" in names:
            return True, None
        if self._case_sensitive:
            tests = build_name_tests(names)
            if len(tests) == 1:
                return True, tests[0]
        return True, self._build_path_test(names)

    def _build_path_test(self, globs: Iterable[str]) -> BatchTest:
        flags = re.DOTALL if self._case_sensitive else re.DOTALL | re.IGNORECASE
        return build_regex_test(map(glob_to_regex, globs), flags)

    def rank_files(self, order: Order, limit: int | None = None) -> list[str]:
        """Return the first matches."""
        if order == "name":
            return nsmallest(limit, self._times) if limit else sorted(self._times)
        threshold = (time.time() - DAY_SECONDS) * 1e9 if order == "recent_first" else 0
        times = {path: mtime for path, mtime in self._times.items() if mtime >= threshold}
        return sorted(self._times, key=lambda path: (path not in times, -times.get(path, 0), path))[:limit]

    def build_result(self, pattern: str, root: SearchRoot, order: Order, limit: int) -> GlobResult:
        paths = map(escape_surrogates, self.rank_files(order, limit))
        files = tuple(GlobFile(path, escape_surrogates(f"{root.root_path}/{path}")) for path in paths)
        return GlobResult(
            pattern=pattern,
            path=escape_surrogates(root.path),
            files=files,
            total=len(self._times),
            truncated=len(self._times) > len(files),
            ignored=self.ignored,
            complete=self.complete,
        )


def _is_about_names(glob: str) -> bool:
    """Whether a glob looks only at the name of a file, in any directory."""
    return glob.startswith("**/") and "/" not in glob.removeprefix("**/")


def _filter_entries(entries: _Entries, prefix: str, test: BatchTest | None) -> _Entries:
    if test is None:
        return entries
    names = [entry.name for entry in entries]
    if prefix:
        names = [prefix + name for name in names]
    return list(compress(entries, test(names)))


# ---- the tool


def glob_tools(state: ToolState) -> list[Tool]:
    """Return the tool `glob`."""

    @tool(
        name="glob",
        effects="read",
        idempotent=True,
        action="search",
        verb="Find files",
        scope=path_scope(state),
        target=path_target(state),
        examples=[{"pattern": "src/**/*.{ts,tsx}"}, {"pattern": "*.md", "path": "docs"}],
    )
    def glob(  # noqa: D417
        pattern: str,
        path: str = ".",
        case_sensitive: bool = True,
        respect_gitignore: bool = True,
        max_results: int = 100,
        respect_extra_ignore: Annotated[bool, Internal] = True,
        order: Annotated[Order, Internal] = "mtime",
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Find files by path. Returns paths, most recently modified first.

        `*` and `?` match within a name, `**` matches any number of directories, `{a,b}` matches either. Hidden files are found;
        directories, symbolic links and version control data are not. To search file contents, use grep.

        Args:
            pattern: Glob that the path must match, relative to the searched directory, such as '**/*.py'.
            path: Directory to search (default: the workspace).
            case_sensitive: Match case-sensitively (default true).
            respect_gitignore: Leave out files ignored by .gitignore (default true).
            max_results: Maximum number of files to list (default 100, 0 for the limit of 10000).
        """
        check_minimum("max_results", max_results)
        if pattern.startswith("/"):
            path, pattern = split_absolute_glob(state, pattern)
        extra_ignore = respect_extra_ignore
        search = GlobSearch(
            pattern, case_sensitive=case_sensitive, gitignore=respect_gitignore, extra_ignore=extra_ignore
        )
        with open_search_root(state, path) as root:
            search.run(root, start_deadline(context), with_times=order != "name")
            result = search.build_result(pattern, root, order, min(max_results or MAX_RESULTS, MAX_RESULTS))
        return ToolOutput(result.render(state), to_data(result))

    return [glob]
