"""The tool `grep`: search file contents, with ripgrep if it can be confined, otherwise with Python's `re`.

Every search ends: after a timeout, after a limit of output, or when the call is cancelled.
"""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.files.text import check_text
from toolglot.builtin.files.text_files import missing_file_error
from toolglot.builtin.scopes import search_scope
from toolglot.builtin.search.globs import GlobFilter
from toolglot.builtin.search.grep_query import (
    FALLBACK_NOTE,
    MAX_LINE_MATCHES,
    UNLIMITED,
    FileMatches,
    GrepMatches,
    GrepQuery,
    unknown_type_error,
)
from toolglot.builtin.search.grep_ripgrep import find_ripgrep, search_with_ripgrep
from toolglot.builtin.search.grep_worker import search_with_python
from toolglot.builtin.search.search_scope import SearchRoot, open_root_of, start_deadline
from toolglot.builtin.search.walk import BINARY_PROBE_SIZE, MAX_FILE_SIZE, has_early_nul, stat_beneath
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.facades.rendering import format_matches
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, escape_surrogates
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["GrepFile", "GrepLine", "GrepResult", "grep_tools"]

TIMEOUT_SECONDS = 30.0
MAX_RESULTS = 10_000
MAX_CONTEXT_LINES = 100
MAX_PATTERN_LENGTH = 10_000
MAX_LINE_LENGTH = 2000


class GrepLine(msgspec.Struct, frozen=True):
    """A line of a result. Not `is_match`: it is context. `matches`: the matched parts of the line."""

    line: int
    text: str
    is_match: bool = True
    matches: tuple[str, ...] = ()


class GrepFile(msgspec.Struct, frozen=True):
    """A file with matches. `count`: its matching lines (1 in mode files)."""

    path: str
    absolute: str
    count: int
    lines: tuple[GrepLine, ...] = ()


class GrepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `grep`."""

    pattern: str
    path: str
    is_file: bool
    """The path is that of a file, not of a directory."""
    mode: str
    files: tuple[GrepFile, ...]
    total: int
    """Matching lines in mode content, files in the other modes; a lower bound unless `exact`."""
    total_lines: int
    """Matching lines of all files, in modes content and count."""
    shown: int
    skip: int
    truncated: bool
    exact: bool = True
    complete: bool = True
    """False: the search was stopped before everything was searched."""
    before: int = 0
    after: int = 0
    engine: str = ""
    """ripgrep or python."""
    note: str = ""
    """How the engine's pattern syntax differs from ripgrep's."""

    def render(self, matches: Iterable[str]) -> str:
        """Return the text for a model. `matches`: the lines of mode content."""
        unit = "files"
        match self.mode:
            case "files":
                lines = [file.path for file in self.files]
            case "count":
                lines = [f"{file.path}:{file.count}" for file in self.files]
            case _:
                lines = list(matches)
                unit = "matching lines"
        if self.truncated:
            total = f"{self.total}" if self.exact else f"at least {self.total}"
            page = f"{self.skip + 1}-{self.skip + self.shown}"
            lines.append(f"[showing {unit} {page} of {total}; narrow the search or raise max_results]")
        elif not self.files and self.skip and self.total:
            lines.append(f"[there are only {self.total} {unit}]")
        elif not self.files:
            lines.append(f"No matches for {self.pattern[:200]!r} in {self.path!r}.")
        if not self.complete:
            lines.append(
                "[stopped before everything was searched; search a smaller directory or fewer files]"
            )
        if self.note:
            lines.append(f"[{self.note}]")
        return "\n".join(lines)


# ---- the tool


def grep_tools(state: ToolState, *, use_ripgrep: bool = True) -> list[Tool]:
    """Return the tool `grep`. `use_ripgrep`: if ripgrep is installed and can be confined."""
    declare = tool(
        name="grep",
        effects="read",
        idempotent=True,
        action="search",
        verb="Search",
        scope=search_scope(state),
        target=path_target(state),
        examples=[
            {"pattern": "def \\w+_tools", "include_glob": "*.py"},
            {"pattern": "TODO", "path": "src", "mode": "files", "ignore_case": True},
        ],
    )
    return [declare(_GrepTool(state, use_ripgrep).grep)]


class _GrepTool:
    def __init__(self, state: ToolState, use_ripgrep: bool) -> None:
        self._state, self._use_ripgrep = state, use_ripgrep

    def grep(  # noqa: D417
        self,
        pattern: str,
        path: str = ".",
        include_glob: str = "",
        mode: Literal["content", "files", "count"] = "content",
        ignore_case: bool = False,
        before: int | None = None,
        after: int | None = None,
        max_results: int = 250,
        file_type: Annotated[str, Internal] = "",
        exclude_line_regex: Annotated[str, Internal] = "",
        literal: Annotated[bool, Internal] = False,
        multiline: Annotated[bool, Internal] = False,
        only_matching: Annotated[bool, Internal] = False,
        line_numbers: Annotated[bool, Internal] = True,
        max_per_file: Annotated[int | None, Internal] = None,
        skip: Annotated[int, Internal] = 0,
        no_ignore: Annotated[bool, Internal] = False,
        auto_context: Annotated[bool, Internal] = False,
        hidden: Annotated[bool, Internal] = True,
        *,
        context: Context | None = None,
    ) -> ToolOutput:
        r"""Search file contents with a regular expression (ripgrep syntax). Escape literal braces: `\{`.

        Use it to find where something is defined or used; do not use it to find files by name. Hidden files are searched.
        Binary files, symbolic links, version control data and files ignored by .gitignore are not.

        Args:
            pattern: Regular expression to search for. It is matched line by line.
            path: File or directory to search (default: the workspace).
            include_glob: Only files that match this glob, such as '*.{ts,tsx}'; commas separate several, '!' excludes.
            mode: content (default) shows matching lines; files shows paths, newest first; count counts the lines per file.
            ignore_case: Match case-insensitively (default false).
            before: Lines of context to show before each match (0-100, default 0).
            after: Lines of context to show after each match (0-100, default 0).
            max_results: Maximum number of lines or files to show (default 250, 0 for the limit of 10000).
        """
        _check_pattern(pattern, "pattern", multiline=multiline)
        if exclude_line_regex:
            _check_pattern(exclude_line_regex, "exclude_line_regex")
        include = GlobFilter.parse(include_glob).globs
        per_file = UNLIMITED if max_per_file is None else check_minimum("max_per_file", max_per_file, 1)
        limit = check_minimum("max_results", max_results) or MAX_RESULTS
        has_context = before is not None or after is not None
        query = GrepQuery(
            pattern=pattern,
            exclude=exclude_line_regex,
            include=include,
            file_type=file_type,
            mode=mode,
            ignore_case=ignore_case,
            literal=literal,
            multiline=multiline,
            respect_ignore=not no_ignore,
            max_per_file=per_file,
            limit=min(limit, MAX_RESULTS),
            skip=check_minimum("skip", skip),
            before=_limit_context("before", before),
            after=_limit_context("after", after),
            auto_context=auto_context and mode == "content" and not has_context,
            only_matching=only_matching,
            line_numbers=line_numbers,
            hidden=hidden,
        )
        return self._search(path or ".", query, start_deadline(context, TIMEOUT_SECONDS))

    def _search(self, path: str, query: GrepQuery, should_stop: Callable[[int], bool]) -> ToolOutput:
        if query.file_type and not re.fullmatch(r"[A-Za-z0-9_+-]{1,40}", query.file_type):
            raise unknown_type_error(query.file_type)  # it would become part of ripgrep's options
        state = self._state
        entry = state.workspace.inspect(path)
        if entry is None:
            raise missing_file_error(state, path)
        if not entry.is_directory:
            self._check_file(path)
        with open_root_of(state, entry) as root:
            query = msgspec.structs.replace(
                query, root_fd=root.root_fd, start=root.relative, is_file=not entry.is_directory
            )
            # ripgrep cannot exclude lines that it has found.
            program = find_ripgrep(state, root.root_fd) if self._use_ripgrep and not query.exclude else ""
            if program:
                matches = search_with_ripgrep(program, query, should_stop)
            else:
                matches = search_with_python(query, should_stop)
            matches.files[:] = [file for file in matches.files if self._may_show(file.path, root, query)]
            if not matches.complete and not matches.files:
                message = f"the search took longer than {TIMEOUT_SECONDS:.0f} seconds"
                message += "; search a smaller directory, fewer files or a simpler pattern"
                raise ToolError(message, kind="timeout", code="search_timeout")
            matches.files.sort(key=lambda file: file.path)
            if query.mode == "files":
                statuses = {
                    file.path: stat_beneath(root.root_fd, file.path) for file in matches.files[:MAX_RESULTS]
                }
                times = {path: status.st_mtime_ns for path, status in statuses.items() if status is not None}
                matches.files.sort(key=lambda file: (-times.get(file.path, 0), file.path))
            result = _build_result(state, root, query, matches)
        data = to_data(result)
        matched = format_matches(data, numbers=query.line_numbers, only_matching=query.only_matching)
        return ToolOutput(result.render(matched), data)

    def _check_file(self, path: str) -> None:
        """Raise ToolError if a file is too large to search, or not text."""
        with self._state.workspace.open_file(path) as opened:
            if opened.status.st_size > MAX_FILE_SIZE:
                message = f"{path!r} is larger than {MAX_FILE_SIZE >> 20} MB; read parts of it instead"
                raise ToolError(message, kind="limit", code="file_too_large")
            if has_early_nul(os.read(opened.fd, BINARY_PROBE_SIZE)):
                raise ToolError(f"{path!r} is a binary file; only text can be searched", code="not_text")

    def _may_show(self, path: str, root: SearchRoot, query: GrepQuery) -> bool:
        """Whether a file is open to the model, and not hidden where hidden files are left out."""
        if self._state.workspace.closed_paths.find_reason(f"{root.root_path}/{path}", reading=True):
            return False
        if query.hidden or query.is_file:
            return True
        return not _is_hidden(path[query.prefix_length :], query.include)


def _check_pattern(pattern: str, name: str, *, multiline: bool = False) -> None:
    if not pattern:
        raise invalid_argument(name, "is empty; give a regular expression")
    if "\n" in pattern and not multiline:
        raise invalid_argument(name, "contains a newline, but is matched line by line")
    check_text(pattern, name, MAX_PATTERN_LENGTH)


def _limit_context(name: str, lines: int | None) -> int:
    return min(check_minimum(name, lines or 0), MAX_CONTEXT_LINES)


def _is_hidden(path: str, include: list[str]) -> bool:
    """Tell whether a path is hidden.

    As in ripgrep, a glob that asks for a file finds it whatever its name begins with.
    """
    directories, _, name = f"/{path}".rpartition("/")
    is_requested = any(not glob.startswith("!") for glob in include)
    return "/." in directories + "/" or (name.startswith(".") and not is_requested)


# ---- the result


def _build_result(state: ToolState, root: SearchRoot, query: GrepQuery, matches: GrepMatches) -> GrepResult:
    files, total, shown = _take_page(query, matches.files)
    before, after = _choose_context(query, total)
    context_lines = (0, 0) if query.only_matching else (before, after)
    total_lines = 0
    if query.mode != "files":
        total_lines = sum(file.count for file in matches.files)
    is_fallback = matches.engine == "python" and not query.literal
    return GrepResult(
        pattern=query.pattern,
        path=escape_surrogates(root.path),
        is_file=query.is_file,
        mode=query.mode,
        files=tuple(_build_file(state, root, file, *context_lines) for file in files),
        total=total,
        total_lines=total_lines,
        shown=shown,
        skip=query.skip,
        truncated=total > query.skip + shown,
        exact=_is_exact(query, matches),
        complete=matches.complete,
        before=before,
        after=after,
        engine=matches.engine,
        note=FALLBACK_NOTE if is_fallback else "",
    )


def _take_page(query: GrepQuery, all_files: list[FileMatches]) -> tuple[list[FileMatches], int, int]:
    """Return the files of the page, and how many there are in all and on the page: lines, if the query shows
    them.
    """
    if not query.with_lines:
        page = all_files[query.skip : query.skip + query.limit]
        return page, len(all_files), len(page)
    files: list[FileMatches] = []
    total = shown = 0
    for file in all_files:
        start = query.skip - total
        lines = file.lines[max(start, 0) : max(start + query.limit, 0)]
        if lines:
            files.append(FileMatches(file.path, file.count, lines))
        shown += len(lines)
        total += file.count
    return files, total, shown


def _choose_context(query: GrepQuery, total: int) -> tuple[int, int]:
    """Return how many lines to show before and after a match: many, if few matches are to have context by
    themselves.
    """
    if query.auto_context and total == 1:
        return 50, 50
    if query.auto_context and total in (2, 3):
        return 15, 15
    return query.before, query.after


def _is_exact(query: GrepQuery, matches: GrepMatches) -> bool:
    """Whether everything was counted.

    A file with more matches than the page may have even more than were counted.
    """
    if not query.with_lines:
        return matches.complete
    return matches.complete and all(file.count <= query.skip + query.limit for file in matches.files)


def _build_file(state: ToolState, root: SearchRoot, file: FileMatches, before: int, after: int) -> GrepFile:
    absolute = f"{root.root_path}/{file.path}"
    is_in_workspace = root.root_path == str(state.workspace.root).rstrip("/")
    path = file.path if is_in_workspace else absolute
    lines: dict[int, GrepLine] = {}
    for number, text, parts, at in file.lines:
        shown_parts = list(map(_shorten_line, parts))
        if len(parts) >= MAX_LINE_MATCHES:
            shown_parts.append(f"[only the first {MAX_LINE_MATCHES} matches of this line]")
        lines[number] = GrepLine(number, _shorten_line(text, at), True, tuple(shown_parts))
    if (before or after) and lines:
        numbers = {number for match in lines for number in range(match - before, match + after + 1)}
        last = max(numbers)
        # The file may have gone or changed since the search: then there is no context.
        with (
            suppress(ToolError, OSError),
            state.workspace.open_file(absolute) as opened,
            os.fdopen(os.dup(opened.fd), "rb") as content,
        ):
            for number, raw in enumerate(content, 1):
                if number > last:
                    break
                if number in numbers and number not in lines:
                    text = raw.removesuffix(b"\n").decode("utf-8", "replace")
                    lines[number] = GrepLine(number, _shorten_line(text), False)
    return GrepFile(
        escape_surrogates(path),
        escape_surrogates(absolute),
        file.count,
        tuple(lines[number] for number in sorted(lines)),
    )


def _shorten_line(text: str, match_start: int = 0) -> str:
    """Truncate a very long line to its start, or to what surrounds its first match."""
    text = text.removesuffix("\r")
    if len(text) <= MAX_LINE_LENGTH:
        return text
    start = 0
    if match_start > MAX_LINE_LENGTH * 3 // 4:
        start = match_start - MAX_LINE_LENGTH // 4
    end = start + MAX_LINE_LENGTH
    before = f"[… {start} characters] " if start else ""
    after = f" [{len(text) - end} more characters …]" if len(text) > end else ""
    return f"{before}{text[start:end]}{after}"
