"""The tool `grep`: lines that match a regex, found by ripgrep where it is there and the kernel can hold it; else by Python.

Laws: both find the same. Every search ends: after seconds, after so much output, or when nobody waits.
"""

import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from toolglot.builtin.arguments import at_least, looked_into
from toolglot.builtin.finding import ALL, File, Hits, Query, by_python, kinds_of
from toolglot.builtin.ignore import Globs
from toolglot.builtin.looking import Searched, patience, root_of
from toolglot.builtin.ripgrep import by_ripgrep, ripgrep
from toolglot.builtin.text import has_half
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.walk import BINARY_HEAD, LARGEST_FILE, shown, status_of
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["GrepFile", "GrepFound", "GrepLine", "grep_tools"]

SECONDS = 30.0
MOST_RESULTS = 10_000
MOST_CONTEXT = 100
LONGEST_PATTERN = 10_000
LONGEST_LINE = 2000
Engine = Literal["auto", "ripgrep", "python"]


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


class GrepFound(msgspec.Struct, frozen=True, kw_only=True):
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


def grep_tools(box: Toolbox, *, engine: Engine = "auto") -> list[Tool]:
    """The tool `grep`, for a toolbox. `engine`: auto takes ripgrep where it can."""

    @tool(
        name="grep",
        effects="read",
        idempotent=True,
        target=looked_into(box),
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
        _check(pattern, "pattern", multiline=multiline)
        if exclude_line_regex:
            _check(exclude_line_regex, "exclude_line_regex", multiline=False)
        page = _Page(
            limit=min(at_least("max_results", max_results) or MOST_RESULTS, MOST_RESULTS),
            skip=at_least("skip", skip),
            before=min(at_least("before", before or 0), MOST_CONTEXT),
            after=min(at_least("after", after or 0), MOST_CONTEXT),
            is_auto=auto_context and before is None and after is None and mode == "content",
            only=only_matching,
            numbers=line_numbers,
        )
        most = at_least("max_per_file", max_per_file, 1) if max_per_file is not None else ALL
        with _opened(box, path or ".") as (place, is_file):
            query = Query(
                pattern=pattern,
                root=place.root,
                start="" if is_file else place.base,
                file=place.base if is_file else "",
                include=Globs.of(include_glob),
                kind=file_type,
                kinds=kinds_of(file_type),
                exclude=exclude_line_regex,
                mode=mode,
                ignore_case=ignore_case,
                literal=literal,
                multiline=multiline,
                git=not no_ignore,
                most=1 if mode == "files" else min(most, page.need) if mode == "content" else most,
                enough=patience(context, "grep", SECONDS),
            )
            found = _presented(box, place, query, _found(box, query, engine), page)
        return ToolOutput(_text(found, page), built(found))

    return [grep]


def _check(pattern: str, name: str, *, multiline: bool) -> None:
    wrong = (
        (has_half(pattern), "holds half a character"),
        (not pattern, "is empty; give the regex to look for"),
        ("\0" in pattern, "holds a zero byte, which no text file has"),
        (len(pattern) > LONGEST_PATTERN, f"is longer than {LONGEST_PATTERN} characters"),
        ("\n" in pattern and not multiline, "holds a line end, and a line does not; set multiline to true"),
    )
    for is_so, why in wrong:
        if is_so:
            raise ToolError(f"{name} {why}", kind="validation")


@contextmanager
def _opened(box: Toolbox, path: str) -> Generator[tuple[Searched, bool]]:
    """What is searched, and whether it is a single file; its root is open meanwhile. Raises ToolError."""
    found = box.workspace.look(path)
    if found is None:
        raise ToolError(f"there is no {path!r} in the workspace; list its folder to see what is there", kind="not_found")
    is_file = not stat.S_ISDIR(found.status.st_mode)
    if is_file:
        with box.workspace.reading(path) as opened:
            if opened.status.st_size > LARGEST_FILE:
                raise ToolError(f"{path!r} is larger than {LARGEST_FILE >> 20} MB; read parts of it", kind="limit")
            if b"\0" in os.read(opened.handle, BINARY_HEAD):
                raise ToolError(f"{path!r} is a binary file; grep searches text", kind="execution")
    with root_of(box, found) as place:
        yield place, is_file


def _found(box: Toolbox, query: Query, engine: Engine) -> Hits:
    """What is found, in order. Raises ToolError."""
    program = ripgrep(box, query.root) if engine != "python" else ""
    if engine == "ripgrep" and not program:
        raise ToolError("ripgrep (rg) is not installed, is too old, or cannot be held by this kernel", kind="execution")
    hits = by_ripgrep(program, query) if program else by_python(query)
    if not hits.complete and not hits.files:
        why = f"the search took longer than {SECONDS:.0f} seconds"
        raise ToolError(f"{why}; give a path, an include_glob or a simpler pattern", kind="timeout")
    hits.files.sort(key=lambda file: file.path)
    if query.mode == "files":
        times = {file.path: _changed(query.root, file.path) for file in hits.files[:MOST_RESULTS]}
        hits.files.sort(key=lambda file: (-times.get(file.path, 0), file.path))
    return hits


def _changed(root: int, path: str) -> int:
    status = status_of(root, path)
    return status.st_mtime_ns if status else 0


# ---- what is shown of it


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the results is shown, and how. `is_auto`: few matches are shown with lines around them."""

    limit: int
    skip: int
    before: int
    after: int
    is_auto: bool
    only: bool
    numbers: bool

    @property
    def need(self) -> int:
        """Matches after which it is known that there are more."""
        return self.limit + self.skip + 1


def _window(hits: Hits, mode: str, skip: int, limit: int) -> tuple[list[File], int, int]:
    """The part of the results that is shown, of how many, and how many it is."""
    if mode != "content":
        files = hits.files[skip : skip + limit]
        return files, len(hits.files), len(files)
    files, total, count = list[File](), 0, 0
    for file in hits.files:
        first, total = total, total + file.count
        if lines := file.lines[max(skip - first, 0) : max(skip + limit - first, 0)]:
            files.append(File(file.path, file.count, lines))
            count += len(lines)
    return files, total, count


def _presented(box: Toolbox, place: Searched, query: Query, hits: Hits, page: _Page) -> GrepFound:
    files, total, count = _window(hits, query.mode, page.skip, page.limit)
    is_auto = page.is_auto and 1 <= total <= 3
    before, after = (50, 50) if is_auto and total == 1 else (15, 15) if is_auto else (page.before, page.after)
    prefix = "" if place.top == str(box.workspace.root).rstrip("/") else f"{place.top}/"
    around = (0, 0) if page.only else (before, after)
    cut_off = query.with_lines and query.most == page.need and any(file.count >= page.need for file in hits.files)
    return GrepFound(
        pattern=query.pattern,
        path=shown(place.whole),
        mode=query.mode,
        files=tuple(_file(box, place, file, prefix, around) for file in files),
        total=total,
        total_lines=sum(file.count for file in hits.files) if query.mode != "files" else 0,
        shown=count,
        skip=page.skip,
        truncated=total > page.skip + count,
        exact=hits.complete and not cut_off,
        complete=hits.complete,
        before=before,
        after=after,
        auto_context=is_auto,
        engine=hits.engine,
    )


def _file(box: Toolbox, place: Searched, file: File, prefix: str, around: tuple[int, int]) -> GrepFile:
    absolute = f"{place.top}/{file.path}"
    lines = [GrepLine(number, _short(text, at), True, tuple(found)) for number, text, found, at in file.lines]
    if any(around) and lines:
        lines = _with_context(box, absolute, lines, around)
    changed = _changed(place.root, file.path) / 1e9
    return GrepFile(shown(prefix + file.path), shown(absolute), file.count, changed, tuple(lines))


def _short(text: str, at: int = 0) -> str:
    """A line of bearable length: its beginning, or what is around the first match."""
    text = text.removesuffix("\r")
    if len(text) <= LONGEST_LINE:
        return text
    start = max(at - LONGEST_LINE // 4, 0) if at > LONGEST_LINE * 3 // 4 else 0
    end = start + LONGEST_LINE
    before = f"[… {start} characters] " if start else ""
    after = f" [{len(text) - end} more characters …]" if len(text) > end else ""
    return f"{before}{text[start:end]}{after}"


def _with_context(box: Toolbox, path: str, lines: list[GrepLine], around: tuple[int, int]) -> list[GrepLine]:
    """The lines with those around them, read from the file itself."""
    wanted = {number for line in lines for number in range(line.line - around[0], line.line + around[1] + 1)}
    found = {line.line: line for line in lines}
    last = max(wanted)
    with suppress(ToolError, OSError), box.workspace.reading(path) as opened, os.fdopen(os.dup(opened.handle), "rb") as file:
        for number, raw in enumerate(file, 1):
            if number > last:
                break
            if number in wanted and number not in found:
                text = raw.removesuffix(b"\n").decode("utf-8", "replace")
                found[number] = GrepLine(number, _short(text), False)
    return [found[number] for number in sorted(found)]


def _text(found: GrepFound, page: _Page) -> str:
    match found.mode:
        case "files":
            lines = [file.path for file in found.files]
        case "count":
            lines = [f"{file.path}:{file.count}" for file in found.files]
        case _:
            lines = list(_content(found, page.numbers, page.only))
    what = "matching lines" if found.mode == "content" else "files"
    if found.truncated:
        total = f"{found.total}" if found.exact else f"at least {found.total}"
        end = found.skip + found.shown
        lines.append(f"[{what} {found.skip + 1} to {end} of {total}; go on with skip={end}]")
    elif not found.files and found.skip and found.total:
        lines.append(f"[there are only {found.total} {what}]")
    elif not found.files:
        lines.append(f"No matches for {found.pattern[:200]!r} in {found.path!r}.")
    if not found.complete:
        lines.append("[stopped before everything was searched: give a path or an include_glob]")
    return "\n".join(lines)


def _content(found: GrepFound, numbers: bool, only: bool) -> Iterable[str]:
    groups = bool(found.before or found.after) and not only
    started = False
    for file in found.files:
        last = -1
        for line in file.lines:
            if groups and started and (last < 0 or line.line > last + 1):
                yield "--"
            last, started = line.line, True
            mark = ":" if line.is_match else "-"
            head = f"{file.path}{mark}{line.line}{mark}" if numbers else f"{file.path}{mark}"
            for text in (_short(one) for one in line.matches) if only else (line.text,):
                yield head + text
