"""Markdown that arrives in pieces, cut into blocks that can be drawn for good: every character is looked at once.

A block ends at a blank line (lists go on after one), and where a fence of code closes. What is very long is cut in pieces, so
that nothing waits for its end.
"""

import re

__all__ = ["Blocks"]

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")  # three backticks with others behind them are code within a line
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_MOST_LINES, _MOST_CHARACTERS = 120, 8_000


class Blocks:
    """Takes text, gives blocks; `tail` is what has no end yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._rest: list[str] = []  # of a line without its end
        self._rest_size = 0
        self._fence = ""
        self._gap = False

    @property
    def tail(self) -> str:
        """What was not given out as a block."""
        return "\n".join([*self._lines, "".join(self._rest)])

    def feed(self, text: str) -> list[str]:
        """More text: the blocks that are whole now."""
        first, *others = text.split("\n")
        found = self._more(first)
        for part in others:
            line, self._rest, self._rest_size = "".join(self._rest), [], 0
            found += self._line(line)
            found += self._more(part)
        return found

    def _more(self, part: str) -> list[str]:
        """More of a line, which is cut where it gets too long."""
        self._rest.append(part)
        self._rest_size += len(part)
        return self._cut_line() if self._rest_size > _MOST_CHARACTERS and not self._fence else []

    def close(self) -> list[str]:
        """The text is over: what is left."""
        line = "".join(self._rest)
        self._rest, self._rest_size = [], 0
        found = self._line(line) if line else []
        found += self._flush()
        self._fence, self._gap = "", False
        return found

    def _line(self, line: str) -> list[str]:
        if self._fence:
            return self._in_fence(line)
        if not line.strip():
            self._gap = bool(self._lines)
            return []
        found: list[str] = []
        opening = _FENCE.match(line)
        if self._ends_before(line, opening is not None):
            found = self._flush()
        elif self._gap:
            self._add("")
        self._gap = False
        self._add(line)
        if opening:
            self._fence = opening[1]
        elif len(self._lines) > _MOST_LINES or self._size > _MOST_CHARACTERS:
            found += self._flush()
        return found

    def _ends_before(self, line: str, opens: bool) -> bool:
        """Whether what was there is whole, now that this line follows."""
        if not self._lines or line[0].isspace():
            return False
        if opens:
            return True
        return self._gap and not (_ITEM.match(self._lines[0]) and _ITEM.match(line))

    def _in_fence(self, line: str) -> list[str]:
        closing = _FENCE.match(line)
        closes = closing is not None and closing[1].startswith(self._fence) and not line[closing.end() :].strip()
        found: list[str] = []
        if not closes and len(self._lines) > _MOST_LINES and _FENCE.match(self._lines[0]):
            opening = self._lines[0]
            self._add(self._fence)
            found = self._flush()
            self._add(opening)
        self._add(line)
        if closes:
            self._fence = ""
            found += [] if _ITEM.match(self._lines[0]) else self._flush()
        return found

    def _cut_line(self) -> list[str]:
        """A line without end is cut at spaces."""
        text, place, found = "".join(self._rest), 0, list[str]()
        while len(text) - place > _MOST_CHARACTERS and not self._fence:
            end = text.rfind(" ", place, place + _MOST_CHARACTERS) + 1 or place + _MOST_CHARACTERS
            found += [*self._line(text[place:end]), *self._flush()]
            place = end
        self._rest, self._rest_size = [text[place:]], len(text) - place
        return found

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _flush(self) -> list[str]:
        block = "\n".join(self._lines)
        self._lines, self._size = [], 0
        return [block] if block.strip() else []
