"""Split streaming Markdown into blocks that can be rendered for good, looking at each character once.

A block ends at a blank line (a list continues after one) and where a code fence closes. Very long blocks are split so that
nothing waits for their end.
"""

import re

__all__ = ["BlockSplitter"]

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")  # backticks followed by others on the line are inline code
_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_MAX_LINES, _MAX_CHARACTERS = 120, 8_000


class BlockSplitter:
    """Takes text and returns complete blocks; `tail` is the text that is not complete yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._partial_line: list[str] = []
        self._partial_size = 0
        self._fence = ""
        self._after_blank = False

    @property
    def tail(self) -> str:
        """The text that has not been returned as a block yet."""
        return "\n".join([*self._lines, "".join(self._partial_line)])

    def feed(self, text: str) -> list[str]:
        """Add text; return the blocks that are complete now."""
        first, *others = text.split("\n")
        blocks = self._extend_line(first)
        for part in others:
            line, self._partial_line, self._partial_size = "".join(self._partial_line), [], 0
            blocks += self._add_line(line)
            blocks += self._extend_line(part)
        return blocks

    def close(self) -> list[str]:
        """End the text; return the remaining blocks."""
        line = "".join(self._partial_line)
        self._partial_line, self._partial_size = [], 0
        blocks = self._add_line(line) if line else []
        blocks += self._flush()
        self._fence, self._after_blank = "", False
        return blocks

    def _extend_line(self, part: str) -> list[str]:
        self._partial_line.append(part)
        self._partial_size += len(part)
        return self._split_long_line() if self._partial_size > _MAX_CHARACTERS and not self._fence else []

    def _add_line(self, line: str) -> list[str]:
        if self._fence:
            return self._add_code_line(line)
        if not line.strip():
            self._after_blank = bool(self._lines)
            return []
        blocks: list[str] = []
        opening = _FENCE.match(line)
        if self._ends_before(line, opening is not None):
            blocks = self._flush()
        elif self._after_blank:
            self._append("")
        self._after_blank = False
        self._append(line)
        if opening:
            self._fence = opening[1]
        elif len(self._lines) > _MAX_LINES or self._size > _MAX_CHARACTERS:
            blocks += self._flush()
        return blocks

    def _ends_before(self, line: str, opens: bool) -> bool:
        """Whether the current block is complete, given the line that follows."""
        if not self._lines or line[0].isspace():
            return False
        if opens:
            return True
        return self._after_blank and not (_LIST_ITEM.match(self._lines[0]) and _LIST_ITEM.match(line))

    def _add_code_line(self, line: str) -> list[str]:
        closing = _FENCE.match(line)
        closes = closing is not None and closing[1].startswith(self._fence) and not line[closing.end() :].strip()
        blocks: list[str] = []
        if not closes and len(self._lines) > _MAX_LINES and _FENCE.match(self._lines[0]):
            # Close the fence and open it again, so that both halves render as code.
            opening = self._lines[0]
            self._append(self._fence)
            blocks = self._flush()
            self._append(opening)
        self._append(line)
        if closes:
            self._fence = ""
            blocks += [] if _LIST_ITEM.match(self._lines[0]) else self._flush()
        return blocks

    def _split_long_line(self) -> list[str]:
        text, start, blocks = "".join(self._partial_line), 0, list[str]()
        while len(text) - start > _MAX_CHARACTERS and not self._fence:
            end = text.rfind(" ", start, start + _MAX_CHARACTERS) + 1 or start + _MAX_CHARACTERS
            blocks += [*self._add_line(text[start:end]), *self._flush()]
            start = end
        self._partial_line, self._partial_size = [text[start:]], len(text) - start
        return blocks

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)

    def _flush(self) -> list[str]:
        block = "\n".join(self._lines)
        self._lines, self._size = [], 0
        return [block] if block.strip() else []
