"""Lines that match, found without any other program.

Laws: matching is done in a process of its own (`worker`): a regex that never ends is killed with it, and nothing of the caller
waits. What is said of a file is one line of JSON.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from toolglot.builtin.ignore import Globs
from toolglot.builtin.walk import BINARY_HEAD, LARGEST_FILE, Walk, read_beneath, read_small, shown

__all__ = ["matched", "worker"]


Say = Callable[[dict[str, Any]], object]
_Found = tuple[int, str, list[tuple[int, int]]]
"""Line number, text without its end, and where in it the pattern was found."""


class _Matching:
    """A task: which lines of which files match."""

    def __init__(self, task: dict[str, Any], say: Say) -> None:
        flags = re.MULTILINE | (re.IGNORECASE if task["ignore_case"] else 0)
        self._regex = re.compile(task["source"], flags)
        self._but = re.compile(task["exclude"], flags) if task["exclude"] else None
        self._most, self._multiline, self._with_lines = task["most"], task["multiline"], task["with_lines"]
        self._literal, self._say = task["literal"].encode("utf-8", "surrogateescape"), say

    def look(self, path: str, data: bytes) -> None:
        """Says what matches in a file, if anything does."""
        if self._literal not in data:
            return
        zero = data.find(b"\0")
        if 0 <= zero < BINARY_HEAD:
            return
        if found := self._lines((data if zero < 0 else data[:zero]).decode("utf-8", "surrogateescape")):
            self._say({"path": path, "count": len(found), "lines": _told(found) if self._with_lines else []})

    def _lines(self, text: str) -> list[_Found]:
        found: list[_Found] = []
        number, counted = 1, 0
        for start, end, spans in self._blocks(text) if self._multiline else self._single(text):
            if self._but is not None and self._but.search(text, start, end):
                continue
            number += text.count("\n", counted, start)
            counted = start
            found.append((number, text[start:end], spans))
            if len(found) >= self._most:
                break
        return found

    def _single(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        at, size = 0, len(text)
        search = self._regex.search
        while at < size and (hit := search(text, at)):
            start = text.rfind("\n", 0, hit.start()) + 1
            if start >= size:
                return
            end = text.find("\n", hit.start())
            end = size if end < 0 else end
            yield start, end, [(one.start() - start, one.end() - start) for one in self._each(text, start, end)]
            at = end + 1

    def _each(self, text: str, at: int, end: int) -> Iterator[re.Match[str]]:
        """The matches one after the other; behind an empty one the next begins a character later."""
        while at <= end and (hit := self._regex.search(text, at, end)):
            yield hit
            at = hit.end() + (hit.end() == hit.start())

    def _blocks(self, text: str) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Each line that a match touches, once, with the part of the match that is in it."""
        size, waiting = len(text), list[tuple[int, int]]()
        last: tuple[int, int] | None = None
        for hit in self._each(text, 0, size):
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
    matched(json.loads(sys.stdin.buffer.read()), lambda said: write(json.dumps(said).encode() + b"\n"))
    sys.stdout.flush()


def matched(task: dict[str, Any], say: Say) -> None:
    """Does a task: says each file with matches, and at last how it went."""
    try:
        matching = _Matching(task, say)
    except (re.error, OverflowError, RecursionError) as e:
        say({"error": str(e)})
        return
    walk = Walk(task["root"], task["start"], git=task["git"], extra=task["git"])
    if task["file"]:
        matching.look(task["file"], read_beneath(task["root"], task["file"], LARGEST_FILE))
    else:
        _match_all(walk, matching, task)
    say({"missed": walk.missed, "ended": walk.ended})


def _match_all(walk: Walk, matching: _Matching, task: dict[str, Any]) -> None:
    include, kinds = Globs(task["include"]), Globs(task["kinds"])
    cut = len(task["start"]) + 1 if task["start"] else 0
    for folder in walk:
        prefix = f"{folder.path}/" if folder.path else ""
        for entry in folder.files:
            path = prefix + entry.name
            if (include and not include.admits(path[cut:])) or (kinds and not kinds.admits(entry.name)):
                continue
            try:
                data = read_small(folder.handle, entry.name, LARGEST_FILE)
            except OSError:
                continue
            matching.look(path, data)


def _told(found: list[_Found]) -> list[Any]:
    """Number, text, what was found in it, and where the first of that begins."""
    return [
        [number, shown(text), [shown(text[a:b]) for a, b in spans if b > a], len(shown(text[: spans[0][0]])) if spans else 0]
        for number, text, spans in found
    ]
