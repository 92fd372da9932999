"""Lines that match, found without any other program.

Laws: matching is done in a process of its own (`worker`): a regex that never ends is killed with it, and nothing of the caller
waits. What is said of a file is one line of JSON.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from toolglot.builtin.search.ignore import GlobFilter
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
_LineSpans = tuple[int, str, list[tuple[int, int]]]
"""Line number, text without its end, and where in it the pattern was found."""


class _LineMatcher:
    """A task: which lines of which files match."""

    def __init__(self, task: dict[str, Any], emit: Emit) -> None:
        flags = re.MULTILINE | (re.IGNORECASE if task["ignore_case"] else 0)
        self._regex = re.compile(task["source"], flags)
        self._exclude = re.compile(task["exclude"], flags) if task["exclude"] else None
        self._limit, self._multiline, self._with_lines = task["most"], task["multiline"], task["with_lines"]
        self._literal, self._emit = task["literal"].encode("utf-8", "surrogateescape"), emit

    def search_file(self, path: str, data: bytes) -> None:
        """Says what matches in a file, if anything does."""
        if self._literal not in data:
            return
        zero = data.find(b"\0")
        if 0 <= zero < BINARY_PROBE_SIZE:
            return
        if found := self._find_lines((data if zero < 0 else data[:zero]).decode("utf-8", "surrogateescape")):
            self._emit({"path": path, "count": len(found), "lines": _encode_lines(found) if self._with_lines else []})

    def _find_lines(self, text: str) -> list[_LineSpans]:
        found: list[_LineSpans] = []
        number, counted = 1, 0
        for start, end, spans in self._iter_multiline(text) if self._multiline else self._iter_lines(text):
            if self._exclude is not None and self._exclude.search(text, start, end):
                continue
            number += text.count("\n", counted, start)
            counted = start
            found.append((number, text[start:end], spans))
            if len(found) >= self._limit:
                break
        return found

    def _iter_lines(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        at, size = 0, len(text)
        search = self._regex.search
        while at < size and (hit := search(text, at)):
            start = text.rfind("\n", 0, hit.start()) + 1
            if start >= size:
                return
            end = text.find("\n", hit.start())
            end = size if end < 0 else end
            yield start, end, [(one.start() - start, one.end() - start) for one in self._iter_matches(text, start, end)]
            at = end + 1

    def _iter_matches(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        """The matches one after the other; behind an empty one the next begins a character later."""
        while start <= end and (hit := self._regex.search(text, start, end)):
            yield hit
            start = hit.end() + (hit.end() == hit.start())

    def _iter_multiline(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Each line that a match touches, once, with the part of the match that is in it."""
        size, waiting = len(text), list[tuple[int, int]]()
        last: tuple[int, int] | None = None
        for hit in self._iter_matches(text, 0, size):
            start = text.rfind("\n", 0, hit.start()) + 1
            if start >= size:
                break
            stop = hit.end() if hit.end() > hit.start() else hit.start() + 1
            while start < stop:
                end = text.find("\n", start)
                end = size if end < 0 else end
                if last is not None and start > last[0]:
                    yield *last, waiting
                    waiting = []
                if last is None or start > last[0]:
                    last = (start, end)
                waiting.append((max(hit.start() - start, 0), min(hit.end(), end) - start))
                start = end + 1
        if last is not None:
            yield *last, waiting


def worker() -> None:
    """The life of a process that matches: a task on stdin, one line of JSON for each file with matches on stdout."""
    write = sys.stdout.buffer.write
    run_task(json.loads(sys.stdin.buffer.read()), lambda said: write(json.dumps(said).encode() + b"\n"))
    sys.stdout.flush()


def run_task(task: dict[str, Any], emit: Emit) -> None:
    """Does a task: says each file with matches, and at last how it went."""
    try:
        matching = _LineMatcher(task, emit)
    except (re.error, OverflowError, RecursionError) as e:
        emit({"error": str(e)})
        return
    walk = Walk(task["root"], task["start"], respect_gitignore=task["git"], respect_extra_ignore=task["git"])
    if task["file"]:
        matching.search_file(task["file"], read_beneath(task["root"], task["file"], MAX_FILE_SIZE))
    else:
        _search_tree(walk, matching, task)
    emit({"missed": walk.missed, "ended": walk.stopped_early})


def _search_tree(walk: Walk, matcher: _LineMatcher, task: dict[str, Any]) -> None:
    include, kinds = GlobFilter(task["include"]), GlobFilter(task["kinds"])
    cut = len(task["start"]) + 1 if task["start"] else 0
    for folder in walk:
        prefix = f"{folder.path}/" if folder.path else ""
        for entry in folder.files:
            path = prefix + entry.name
            if (include and not include.admits(path[cut:])) or (kinds and not kinds.admits(entry.name)):
                continue
            try:
                data = read_in_directory(folder.fd, entry.name, MAX_FILE_SIZE)
            except OSError:
                continue
            matcher.search_file(path, data)


def _encode_lines(lines: list[_LineSpans]) -> list[Any]:
    """Number, text, what was found in it, and where the first of that begins."""
    return [
        [
            number,
            replace_surrogates(text),
            [replace_surrogates(text[a:b]) for a, b in spans if b > a],
            len(replace_surrogates(text[: spans[0][0]])) if spans else 0,
        ]
        for number, text, spans in lines
    ]
