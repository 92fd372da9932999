"""Search without ripgrep: a worker process that matches lines with Python's `re`.

The worker is a process of its own because a regular expression can backtrack for years: killing the process is the only way to
stop it. It reads one task from stdin and writes one line of JSON per file with matches.
"""

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from toolglot.builtin.search.globs import GlobFilter
from toolglot.builtin.search.walk import (
    BINARY_PROBE_SIZE,
    MAX_FILE_SIZE,
    Walk,
    read_beneath,
    read_in_directory,
    replace_surrogates,
)

__all__ = ["run_task", "worker"]

Emit = Callable[[dict[str, Any]], object]
Spans = list[tuple[int, int]]


def worker() -> None:
    """Run the task on stdin; write its results to stdout."""
    write = sys.stdout.buffer.write
    run_task(json.loads(sys.stdin.buffer.read()), lambda event: write(json.dumps(event).encode() + b"\n"))
    sys.stdout.flush()


def run_task(task: dict[str, Any], emit: Emit) -> None:
    """Emit one event per file with matches, then `{"complete": bool}`; or `{"error": …}` for an invalid pattern."""
    flags = re.IGNORECASE if task["ignore_case"] else 0
    try:
        regex = re.compile(task["pattern"], flags | (re.MULTILINE | re.DOTALL if task["multiline"] else 0))
        exclude = re.compile(task["exclude"], flags) if task["exclude"] else None
        # Most files do not match, and one search of the whole text is far faster than one per line. Only anchors and
        # look-around can tell the two apart.
        is_safe = not task["multiline"] and not re.search(r"\\[AZ]|\(\?", task["pattern"])
        prefilter = re.compile(task["pattern"], flags | re.MULTILINE) if is_safe else None
    except (re.error, OverflowError, RecursionError) as e:
        emit({"error": str(e)})
        return
    walk = Walk(task["root_fd"], task["directory"], respect_gitignore=task["ignore"], respect_extra_ignore=task["ignore"])
    for path, data in _read_files(walk, task):
        nul = data.find(b"\0")
        if 0 <= nul < BINARY_PROBE_SIZE:
            continue
        # Like ripgrep, stop at a NUL further down.
        text = (data if nul < 0 else data[:nul]).decode("utf-8", "surrogateescape")
        if prefilter is not None and not prefilter.search(text):
            continue
        matches: list[Any] = []  # as `MatchedLine`
        for number, line, spans in _match_text(regex, text, multiline=task["multiline"]):
            if exclude is None or not exclude.search(line):
                parts = [replace_surrogates(line[start:end]) for start, end in spans if end > start]
                matches.append([number, replace_surrogates(line), parts, len(replace_surrogates(line[: spans[0][0]]))])
                if len(matches) >= task["limit_per_file"]:
                    break
        if matches:
            emit({"path": path, "count": len(matches), "lines": matches if task["with_lines"] else []})
    emit({"complete": not walk.stopped_early})


def _read_files(walk: Walk, task: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    if task["file"]:
        yield task["file"], read_beneath(task["root_fd"], task["file"], MAX_FILE_SIZE)
        return
    include, types = GlobFilter(task["include"]), GlobFilter(task["type_globs"])
    prefix_length = len(task["directory"]) + 1 if task["directory"] else 0
    for directory in walk:
        prefix = f"{directory.path}/" if directory.path else ""
        for entry in directory.files:
            path = prefix + entry.name
            if (include and not include.admits(path[prefix_length:])) or (types and not types.admits(entry.name)):
                continue
            try:
                yield path, read_in_directory(directory.fd, entry.name, MAX_FILE_SIZE)
            except OSError:
                continue


def _match_text(regex: re.Pattern[str], text: str, *, multiline: bool) -> Iterator[tuple[int, str, Spans]]:
    """Yield every line that a match touches, with the parts of the matches that are in it."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not multiline:
        for number, line in enumerate(lines, 1):
            if spans := [match.span() for match in regex.finditer(line)]:
                yield number, line, spans
        return
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    touched: dict[int, Spans] = {}
    for match in regex.finditer(text):
        start, end = match.span()
        index = bisect_right(starts, start) - 1
        while index < len(lines) and (starts[index] < end or starts[index] <= start):
            offset = starts[index]
            touched.setdefault(index, []).append((max(start - offset, 0), min(end - offset, len(lines[index]))))
            index += 1
    for index in sorted(touched):
        yield index + 1, lines[index], touched[index]
