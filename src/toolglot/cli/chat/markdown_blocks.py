"""Markdown that arrives in pieces, cut into blocks that can be drawn for good: every character is looked at once.

A block ends at a blank line (lists go on after one), and where a fence of code closes. What is very long is cut in pieces, so
that nothing waits for its end.
"""

import re

__all__ = ["BlockSplitter"]

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")  # three backticks with others behind them are code within a line
_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_MAX_LINES, _MAX_CHARACTERS = 120, 8_000


class BlockSplitter:
    """Takes text, gives blocks; `tail` is what has no end yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._partial_line: list[str] = []  # of a line without its end
        self._partial_size = 0
        self._fence = ""
        self._after_blank = False

    @property
    def tail(self) -> str:
        """What was not given out as a block."""
        return "\n".join([*self._lines, "".join(self._partial_line)])

    def feed(self, text: str) -> list[str]:
        """More text: the blocks that are whole now."""
        first, *others = text.split("\n")
        found = self._extend_line(first)
        for part in others:
            line, self._partial_line, self._partial_size = "".join(self._partial_line), [], 0
            found += self._add_line(line)
            found += self._extend_line(part)
        return found

    def _extend_line(self, part: str) -> list[str]:
        """More of a line, which is cut where it gets too long."""
        self._partial_line.append(part)
        self._partial_size += len(part)
        return self._split_long_line() if self._partial_size > _MAX_CHARACTERS and not self._fence else []

    def close(self) -> list[str]:
        """The text is over: what is left."""
        line = "".join(self._partial_line)
        self._partial_line, self._partial_size = [], 0
        found = self._add_line(line) if line else []
        found += self._flush()
        self._fence, self._after_blank = "", False
        return found

    def _add_line(self, line: str) -> list[str]:
        if self._fence:
            return self._add_code_line(line)
        if not line.strip():
            self._after_blank = bool(self._lines)
            return []
        found: list[str] = []
        opening = _FENCE.match(line)
        if self._ends_before(line, opening is not None):
            found = self._flush()
        elif self._after_blank:
            self._append("")
        self._after_blank = False
        self._append(line)
        if opening:
            self._fence = opening[1]
        elif len(self._lines) > _MAX_LINES or self._size > _MAX_CHARACTERS:
            found += self._flush()
        return found

    def _ends_before(self, line: str, opens: bool) -> bool:
        """Whether what was there is whole, now that this line follows."""
        if not self._lines or line[0].isspace():
            return False
        if opens:
            return True
        return self._after_blank and not (_LIST_ITEM.match(self._lines[0]) and _LIST_ITEM.match(line))

    def _add_code_line(self, line: str) -> list[str]:
        closing = _FENCE.match(line)
        closes = closing is not None and closing[1].startswith(self._fence) and not line[closing.end() :].strip()
        found: list[str] = []
        if not closes and len(self._lines) > _MAX_LINES and _FENCE.match(self._lines[0]):
            opening = self._lines[0]
            self._append(self._fence)
            found = self._flush()
            self._append(opening)
        self._append(line)
        if closes:
            self._fence = ""
            found += [] if _LIST_ITEM.match(self._lines[0]) else self._flush()
        return found

    def _split_long_line(self) -> list[str]:
        """A line without end is cut at spaces."""
        text, place, found = "".join(self._partial_line), 0, list[str]()
        while len(text) - place > _MAX_CHARACTERS and not self._fence:
            end = text.rfind(" ", place, place + _MAX_CHARACTERS) + 1 or place + _MAX_CHARACTERS
            found += [*self._add_line(text[place:end]), *self._flush()]
            place = end
        self._partial_line, self._partial_size = [text[place:]], len(text) - place
        return found

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _flush(self) -> list[str]:
        block = "\n".join(self._lines)
        self._lines, self._size = [], 0
        return [block] if block.strip() else []
