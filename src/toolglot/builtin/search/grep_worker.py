"""Search without ripgrep: the process that matches lines with Python's `re`, its inside and its outside.

It is a process of its own because a regular expression can backtrack for years: killing the process is the
only way to stop it. It reads a `GrepQuery` from stdin and writes one line of JSON per file with matches.
"""

import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from typing import Any

import msgspec

from toolglot.builtin.files.descriptors import READ_FLAGS
from toolglot.builtin.search.globs import GlobFilter
from toolglot.builtin.search.grep_query import (
    FALLBACK_NOTE,
    MAX_LINE_MATCHES,
    FileMatches,
    GrepMatches,
    GrepQuery,
    MatchedLine,
    invalid_pattern_error,
    unknown_type_error,
)
from toolglot.builtin.search.walk import (
    MAX_FILE_SIZE,
    Walk,
    has_early_nul,
    read_and_close,
    replace_surrogates,
)
from toolglot.confine.confined_open import open_beneath
from toolglot.errors import ToolError

__all__ = ["find_matches", "search_with_python", "worker"]

Spans = list[tuple[int, int]]


# ---- outside of the process


def search_with_python(query: GrepQuery, should_stop: Callable[[int], bool]) -> GrepMatches:
    """Search without ripgrep. Raises ToolError."""
    # Imported here, because the process itself needs none of it and should start fast.
    from toolglot.confine.child_process import ProcessStopped

    if query.file_type and not query.type_globs:
        raise unknown_type_error(query.file_type)
    matches, event = GrepMatches("python", complete=False), dict[str, Any]()
    try:
        for event in _run_worker(query, should_stop):
            if "path" in event:
                matches.files.append(msgspec.convert(event, FileMatches))
    except ProcessStopped:
        return matches
    if "error" in event:
        raise invalid_pattern_error(event["pattern"], f"{event['error']} ({FALLBACK_NOTE})")
    if "complete" not in event:
        message = "the search process ended unexpectedly; search a smaller directory"
        raise ToolError(message, kind="execution", code="search_failed")
    matches.complete = event["complete"]
    return matches


def _run_worker(query: GrepQuery, should_stop: Callable[[int], bool]) -> Iterator[dict[str, Any]]:
    """Yield the worker's events. Raises ProcessStopped."""
    import tempfile

    from toolglot.confine.child_process import read_output, split_records, start_python_worker

    with tempfile.TemporaryFile() as stdin:
        # The json module, because msgspec refuses the surrogates that stand for bytes in file names.
        stdin.write(json.dumps(msgspec.to_builtins(query)).encode())
        stdin.seek(0)
        process = start_python_worker("toolglot.builtin.search.grep_worker", stdin, pass_fds=[query.root_fd])
        for record in split_records(read_output(process, should_stop), b"\n"):
            yield json.loads(record)


# ---- inside of the process


def worker() -> None:
    """Run the query on stdin; write its events to stdout."""
    query = msgspec.convert(json.loads(sys.stdin.buffer.read()), GrepQuery)
    for event in find_matches(query):
        sys.stdout.buffer.write(json.dumps(event).encode() + b"\n")
    sys.stdout.flush()


def find_matches(query: GrepQuery) -> Iterator[dict[str, Any]]:
    """Yield each file with matches, then `{"complete": bool}`; or `{"error": …}` for an invalid pattern."""
    pattern = re.escape(query.pattern) if query.literal else query.pattern
    limit = query.limit_per_file
    flags = re.IGNORECASE if query.ignore_case else re.NOFLAG
    match_flags = flags | re.MULTILINE | re.DOTALL if query.multiline else flags
    try:
        regex = re.compile(pattern, match_flags)
        exclude = re.compile(query.exclude, flags) if query.exclude else None
        # Most files do not match, and one search of the whole text is far faster than one per line. Only
        # anchors and look-around can tell the two apart.
        is_safe = not query.multiline and not re.search(r"\\[AZ]|\(\?", pattern)
        prefilter = re.compile(pattern, flags | re.MULTILINE) if is_safe else None
    except (re.error, OverflowError, RecursionError) as e:
        yield {"error": str(e), "pattern": str(getattr(e, "pattern", pattern))}
        return
    walk = Walk(query.root_fd, query.start, gitignore=query.respect_ignore, extra_ignore=query.respect_ignore)
    for path, data in _read_files(walk, query):
        if has_early_nul(data):
            continue
        # Like ripgrep, stop at a NUL further down.
        text = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        if prefilter is not None and not prefilter.search(text):
            continue
        lines: list[MatchedLine] = []
        for number, line, spans in _match_text(regex, text, multiline=query.multiline):
            if exclude is not None and exclude.search(line):
                continue
            lines.append(_build_line(number, line, spans))
            if len(lines) >= limit:
                break
        if lines:
            yield {"path": path, "count": len(lines), "lines": lines if query.with_lines else []}
    yield {"complete": not walk.stopped_early}


def _build_line(number: int, line: str, spans: Spans) -> MatchedLine:
    parts = [replace_surrogates(line[start:end]) for start, end in spans if end > start]
    first = spans[0][0]
    return number, replace_surrogates(line), parts, len(replace_surrogates(line[:first]))


def _read_files(walk: Walk, query: GrepQuery) -> Iterator[tuple[str, bytes]]:
    if query.is_file:
        yield query.start, read_and_close(open_beneath(query.root_fd, query.start, READ_FLAGS), MAX_FILE_SIZE)
        return
    include, types = GlobFilter(query.include), GlobFilter(query.type_globs)
    for directory in walk:
        prefix = f"{directory.path}/" if directory.path else ""
        for entry in directory.files:
            path = prefix + entry.name
            if include and not include.admits(path[query.prefix_length :]):
                continue
            if types and not types.admits(entry.name):
                continue
            try:
                yield (
                    path,
                    read_and_close(os.open(entry.name, READ_FLAGS, dir_fd=directory.fd), MAX_FILE_SIZE),
                )
            except OSError:
                continue


def _match_text(regex: re.Pattern[str], text: str, *, multiline: bool) -> Iterator[tuple[int, str, Spans]]:
    """Yield every line that a match touches, with the parts of the matches that are in it."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not multiline:
        for number, line in enumerate(lines, 1):
            if spans := [match.span() for match in islice(regex.finditer(line), MAX_LINE_MATCHES)]:
                yield number, line, spans
        return
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    touched: dict[int, Spans] = {}
    for match in regex.finditer(text):
        start, end = match.span()
        index = bisect_right(starts, start) - 1
        while index < len(lines) and (starts[index] < end or starts[index] <= start):
            offset = starts[index]
            spans = touched.setdefault(index, [])
            if len(spans) < MAX_LINE_MATCHES:
                spans.append((max(start - offset, 0), min(end - offset, len(lines[index]))))
            index += 1
    for index in sorted(touched):
        yield index + 1, lines[index], touched[index]
