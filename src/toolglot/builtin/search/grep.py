"""The tool `grep`: lines that match a regex, found by ripgrep where it is there and the kernel can hold it; else by Python.

Laws: both find the same. Every search ends: after seconds, after so much output, or when nobody waits.
"""

import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.files.text import has_lone_surrogate
from toolglot.builtin.search.grep_query import (
    UNLIMITED,
    FileMatches,
    GrepMatches,
    GrepQuery,
    globs_for_type,
    search_with_python,
)
from toolglot.builtin.search.grep_ripgrep import find_ripgrep, search_with_ripgrep
from toolglot.builtin.search.ignore import GlobFilter
from toolglot.builtin.search.search_scope import SearchRoot, open_root_of, start_deadline
from toolglot.builtin.search.walk import BINARY_PROBE_SIZE, MAX_FILE_SIZE, replace_surrogates, stat_beneath
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["GrepFile", "GrepLine", "GrepResult", "grep_tools"]

TIMEOUT_SECONDS = 30.0
MAX_RESULTS = 10_000
MAX_CONTEXT_LINES = 100
MAX_PATTERN_LENGTH = 10_000
MAX_LINE_LENGTH = 2000
GrepEngine = Literal["auto", "ripgrep", "python"]


class GrepLine(msgspec.Struct, frozen=True):
    """A line. `is_match`: it matches; otherwise it is near one. `matches`: what was found in it."""

    line: int
    text: str
    is_match: bool = True
    matches: tuple[str, ...] = ()


class GrepFile(msgspec.Struct, frozen=True):
    """A file with matches. `count`: its matching lines; 1 in mode files. `mtime`: seconds; 0 where it is gone."""

    path: str
    absolute: str
    count: int
    mtime: float = 0.0
    lines: tuple[GrepLine, ...] = ()


class GrepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `grep` found. `total`: matching lines in mode content, files otherwise; at least so many where not `exact`.

    `total_lines`: all matching lines in modes content and count. `complete` is False where it was stopped before the end.
    `engine`: ripgrep or python.
    """

    pattern: str
    path: str
    mode: str
    files: tuple[GrepFile, ...]
    total: int
    total_lines: int
    shown: int
    skip: int
    truncated: bool
    exact: bool = True
    complete: bool = True
    before: int = 0
    after: int = 0
    auto_context: bool = False
    engine: str = ""


# ---- the tool


def grep_tools(state: ToolState, *, engine: GrepEngine = "auto") -> list[Tool]:
    """The tool `grep`, for a toolbox. `engine`: auto takes ripgrep where it can."""

    @tool(
        name="grep",
        effects="read",
        idempotent=True,
        target=path_target(state),
        examples=[
            {"pattern": "def \\w+_tools", "include_glob": "*.py"},
            {"pattern": "TODO", "path": "src", "mode": "files", "ignore_case": True},
        ],
    )
    def grep(  # noqa: D417
        pattern: str,
        path: str = ".",
        include_glob: str = "",
        file_type: str = "",
        exclude_line_regex: str = "",
        mode: Literal["content", "files", "count"] = "content",
        before: int | None = None,
        after: int | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        multiline: bool = False,
        only_matching: bool = False,
        line_numbers: bool = True,
        max_results: int = 250,
        max_per_file: int | None = None,
        skip: int = 0,
        no_ignore: bool = False,
        auto_context: bool = False,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        """Search the contents of files with a regex in ripgrep's syntax: a brace that is meant needs a backslash.

        Hidden files are searched; binary ones, links, what .gitignore names and what version control keeps for itself are not.

        Args:
            pattern: The regex to look for.
            path: The folder or the file to search; the workspace without it.
            include_glob: Only files that match, such as '*.{ts,tsx}' or 'src/**'; '!' before one leaves files out; several
                are separated by commas.
            file_type: Only files of a type, such as py, js, rust.
            exclude_line_regex: Leave out lines that match this regex too.
            mode: content is the lines; files is the paths, newest first; count is how many lines of each file.
            before: Lines to show before each match.
            after: Lines to show after each match.
            ignore_case: Whether case does not count.
            literal: The pattern is plain text, not a regex.
            multiline: A match may go over several lines, and '.' matches line ends.
            only_matching: Show what was found instead of the lines.
            line_numbers: Show the numbers of lines.
            max_results: How many lines, or files, to show at most; 0 is as many as possible.
            max_per_file: How many lines of one file to find at most.
            skip: How many of the first results to leave out.
            no_ignore: Search what ignore files name, too.
            auto_context: Where there are at most three matches, show lines around them.
        """
        _check_pattern(pattern, "pattern", multiline=multiline)
        if exclude_line_regex:
            _check_pattern(exclude_line_regex, "exclude_line_regex", multiline=False)
        page = _Page(
            limit=min(check_minimum("max_results", max_results) or MAX_RESULTS, MAX_RESULTS),
            skip=check_minimum("skip", skip),
            before=min(check_minimum("before", before or 0), MAX_CONTEXT_LINES),
            after=min(check_minimum("after", after or 0), MAX_CONTEXT_LINES),
            auto_context=auto_context and before is None and after is None and mode == "content",
            only_matching=only_matching,
            line_numbers=line_numbers,
        )
        most = check_minimum("max_per_file", max_per_file, 1) if max_per_file is not None else UNLIMITED
        with _open_target(state, path or ".") as (place, is_file):
            query = GrepQuery(
                pattern=pattern,
                root=place.root_fd,
                start="" if is_file else place.relative,
                file=place.relative if is_file else "",
                include=GlobFilter.parse(include_glob),
                kind=file_type,
                kinds=globs_for_type(file_type),
                exclude=exclude_line_regex,
                mode=mode,
                ignore_case=ignore_case,
                literal=literal,
                multiline=multiline,
                git=not no_ignore,
                most=1 if mode == "files" else min(most, page.match_limit) if mode == "content" else most,
                should_stop=start_deadline(context, "grep", TIMEOUT_SECONDS),
            )
            found = _build_result(state, place, query, _run_search(state, query, engine), page)
        return ToolOutput(_render_text(found, page), to_data(found))

    return [grep]


def _check_pattern(pattern: str, name: str, *, multiline: bool) -> None:
    wrong = (
        (has_lone_surrogate(pattern), "holds half a character"),
        (not pattern, "is empty; give the regex to look for"),
        ("\0" in pattern, "holds a zero byte, which no text file has"),
        (len(pattern) > MAX_PATTERN_LENGTH, f"is longer than {MAX_PATTERN_LENGTH} characters"),
        ("\n" in pattern and not multiline, "holds a line end, and a line does not; set multiline to true"),
    )
    for is_so, why in wrong:
        if is_so:
            raise ToolError(f"{name} {why}", kind="validation")


@contextmanager
def _open_target(state: ToolState, path: str) -> Generator[tuple[SearchRoot, bool]]:
    """What is searched, and whether it is a single file; its root is open meanwhile. Raises ToolError."""
    found = state.workspace.inspect(path)
    if found is None:
        raise ToolError(f"there is no {path!r} in the workspace; list its folder to see what is there", kind="not_found")
    is_file = not stat.S_ISDIR(found.status.st_mode)
    if is_file:
        with state.workspace.open_file(path) as opened:
            if opened.status.st_size > MAX_FILE_SIZE:
                raise ToolError(f"{path!r} is larger than {MAX_FILE_SIZE >> 20} MB; read parts of it", kind="limit")
            if b"\0" in os.read(opened.fd, BINARY_PROBE_SIZE):
                raise ToolError(f"{path!r} is a binary file; grep searches text", kind="execution")
    with open_root_of(state, found) as place:
        yield place, is_file


def _run_search(state: ToolState, query: GrepQuery, engine: GrepEngine) -> GrepMatches:
    """What is found, in order. Raises ToolError."""
    program = find_ripgrep(state, query.root) if engine != "python" else ""
    if engine == "ripgrep" and not program:
        raise ToolError("ripgrep (rg) is not installed, is too old, or cannot be held by this kernel", kind="execution")
    hits = search_with_ripgrep(program, query) if program else search_with_python(query)
    if not hits.complete and not hits.files:
        why = f"the search took longer than {TIMEOUT_SECONDS:.0f} seconds"
        raise ToolError(f"{why}; give a path, an include_glob or a simpler pattern", kind="timeout")
    hits.files.sort(key=lambda file: file.path)
    if query.mode == "files":
        times = {file.path: _modified_ns(query.root, file.path) for file in hits.files[:MAX_RESULTS]}
        hits.files.sort(key=lambda file: (-times.get(file.path, 0), file.path))
    return hits


def _modified_ns(root_fd: int, path: str) -> int:
    status = stat_beneath(root_fd, path)
    return status.st_mtime_ns if status else 0


# ---- what is shown of it


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the results is shown, and how. `is_auto`: few matches are shown with lines around them."""

    limit: int
    skip: int
    before: int
    after: int
    auto_context: bool
    only_matching: bool
    line_numbers: bool

    @property
    def match_limit(self) -> int:
        """Matches after which it is known that there are more."""
        return self.limit + self.skip + 1


def _select_page(matches: GrepMatches, mode: str, skip: int, limit: int) -> tuple[list[FileMatches], int, int]:
    """The part of the results that is shown, of how many, and how many it is."""
    if mode != "content":
        files = matches.files[skip : skip + limit]
        return files, len(matches.files), len(files)
    files, total, count = list[FileMatches](), 0, 0
    for file in matches.files:
        first, total = total, total + file.count
        if lines := file.lines[max(skip - first, 0) : max(skip + limit - first, 0)]:
            files.append(FileMatches(file.path, file.count, lines))
            count += len(lines)
    return files, total, count


def _build_result(state: ToolState, search_root: SearchRoot, query: GrepQuery, matches: GrepMatches, page: _Page) -> GrepResult:
    files, total, count = _select_page(matches, query.mode, page.skip, page.limit)
    is_auto = page.auto_context and 1 <= total <= 3
    before, after = (50, 50) if is_auto and total == 1 else (15, 15) if is_auto else (page.before, page.after)
    prefix = "" if search_root.root_path == str(state.workspace.root).rstrip("/") else f"{search_root.root_path}/"
    around = (0, 0) if page.only_matching else (before, after)
    cut_off = (
        query.with_lines and query.most == page.match_limit and any(file.count >= page.match_limit for file in matches.files)
    )
    return GrepResult(
        pattern=query.pattern,
        path=replace_surrogates(search_root.path),
        mode=query.mode,
        files=tuple(_build_file(state, search_root, file, prefix, around) for file in files),
        total=total,
        total_lines=sum(file.count for file in matches.files) if query.mode != "files" else 0,
        shown=count,
        skip=page.skip,
        truncated=total > page.skip + count,
        exact=matches.complete and not cut_off,
        complete=matches.complete,
        before=before,
        after=after,
        auto_context=is_auto,
        engine=matches.engine,
    )


def _build_file(
    state: ToolState, search_root: SearchRoot, file: FileMatches, prefix: str, context_lines: tuple[int, int]
) -> GrepFile:
    absolute = f"{search_root.root_path}/{file.path}"
    lines = [GrepLine(number, _shorten_line(text, at), True, tuple(found)) for number, text, found, at in file.lines]
    if any(context_lines) and lines:
        lines = _add_context(state, absolute, lines, context_lines)
    changed = _modified_ns(search_root.root_fd, file.path) / 1e9
    return GrepFile(replace_surrogates(prefix + file.path), replace_surrogates(absolute), file.count, changed, tuple(lines))


def _shorten_line(text: str, match_start: int = 0) -> str:
    """A line of bearable length: its beginning, or what is around the first match."""
    text = text.removesuffix("\r")
    if len(text) <= MAX_LINE_LENGTH:
        return text
    start = max(match_start - MAX_LINE_LENGTH // 4, 0) if match_start > MAX_LINE_LENGTH * 3 // 4 else 0
    end = start + MAX_LINE_LENGTH
    before = f"[… {start} characters] " if start else ""
    after = f" [{len(text) - end} more characters …]" if len(text) > end else ""
    return f"{before}{text[start:end]}{after}"


def _add_context(state: ToolState, path: str, lines: list[GrepLine], context_lines: tuple[int, int]) -> list[GrepLine]:
    """The lines with those around them, read from the file itself."""
    wanted = {number for line in lines for number in range(line.line - context_lines[0], line.line + context_lines[1] + 1)}
    found = {line.line: line for line in lines}
    last = max(wanted)
    with suppress(ToolError, OSError), state.workspace.open_file(path) as opened, os.fdopen(os.dup(opened.fd), "rb") as file:
        for number, raw in enumerate(file, 1):
            if number > last:
                break
            if number in wanted and number not in found:
                text = raw.removesuffix(b"\n").decode("utf-8", "replace")
                found[number] = GrepLine(number, _shorten_line(text), False)
    return [found[number] for number in sorted(found)]


def _render_text(result: GrepResult, page: _Page) -> str:
    match result.mode:
        case "files":
            lines = [file.path for file in result.files]
        case "count":
            lines = [f"{file.path}:{file.count}" for file in result.files]
        case _:
            lines = list(_render_content(result, page.line_numbers, page.only_matching))
    what = "matching lines" if result.mode == "content" else "files"
    if result.truncated:
        total = f"{result.total}" if result.exact else f"at least {result.total}"
        end = result.skip + result.shown
        lines.append(f"[{what} {result.skip + 1} to {end} of {total}; go on with skip={end}]")
    elif not result.files and result.skip and result.total:
        lines.append(f"[there are only {result.total} {what}]")
    elif not result.files:
        lines.append(f"No matches for {result.pattern[:200]!r} in {result.path!r}.")
    if not result.complete:
        lines.append("[stopped before everything was searched: give a path or an include_glob]")
    return "\n".join(lines)


def _render_content(result: GrepResult, line_numbers: bool, only_matching: bool) -> Iterable[str]:
    groups = bool(result.before or result.after) and not only_matching
    started = False
    for file in result.files:
        last = -1
        for line in file.lines:
            if groups and started and (last < 0 or line.line > last + 1):
                yield "--"
            last, started = line.line, True
            mark = ":" if line.is_match else "-"
            head = f"{file.path}{mark}{line.line}{mark}" if line_numbers else f"{file.path}{mark}"
            for text in (_shorten_line(one) for one in line.matches) if only_matching else (line.text,):
                yield head + text
