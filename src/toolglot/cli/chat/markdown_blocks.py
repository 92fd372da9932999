"""Split streaming Markdown into blocks that can be rendered for good.

A block ends at a blank line (a list continues after one) and where a code fence closes. Blocks of very many
lines are split so that nothing waits for their end.
"""

import re

# backticks followed by others on the line are inline code
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_MAX_LINES = 120


class BlockSplitter:
    """Takes text and returns complete blocks; `tail` is the text that is not complete yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial_line: list[str] = []
        self._fence = ""
        self._after_blank = False

    @property
    def tail(self) -> str:
        """The text that has not been returned as a block yet."""
        return "\n".join([*self._lines, "".join(self._partial_line)])

    def feed(self, text: str) -> list[str]:
        """Add text; return the blocks that are complete now."""
        first, *others = text.split("\n")
        self._partial_line.append(first)
        blocks: list[str] = []
        for part in others:
            line, self._partial_line = "".join(self._partial_line), [part]
            blocks += self._add_line(line)
        return blocks

    def close(self) -> list[str]:
        """End the text; return the remaining blocks."""
        blocks: list[str] = []
        if any(self._partial_line):
            blocks += self.feed("\n")
        blocks += self._flush()
        self._partial_line, self._fence, self._after_blank = [], "", False
        return blocks

    def _add_line(self, line: str) -> list[str]:
        if self._fence:
            return self._add_code_line(line)
        if not line.strip():
            self._after_blank = bool(self._lines)
            return []
        blocks: list[str] = []
        opening = _FENCE.match(line)
        begins_block = not line[0].isspace() and (opening is not None or self._ends_before(line))
        if self._lines and begins_block:
            blocks = self._flush()
        elif self._after_blank:
            self._lines.append("")
        self._after_blank = False
        self._lines.append(line)
        if opening:
            self._fence = opening[1]
        elif len(self._lines) > _MAX_LINES:
            blocks += self._flush()
        return blocks

    def _ends_before(self, line: str) -> bool:
        """Whether a blank line came before, and the list does not continue."""
        return self._after_blank and not (_LIST_ITEM.match(self._lines[0]) and _LIST_ITEM.match(line))

    def _add_code_line(self, line: str) -> list[str]:
        closing = _FENCE.match(line)
        closes = (
            closing is not None and closing[1].startswith(self._fence) and not line[closing.end() :].strip()
        )
        blocks: list[str] = []
        if not closes and len(self._lines) > _MAX_LINES and _FENCE.match(self._lines[0]):
            # Close the fence and open it again, so that both halves render as code.
            opening = self._lines[0]
            self._lines.append(self._fence)
            blocks = self._flush()
            self._lines.append(opening)
        self._lines.append(line)
        if closes:
            self._fence = ""
            blocks += [] if _LIST_ITEM.match(self._lines[0]) else self._flush()
        return blocks

    def _flush(self) -> list[str]:
        block, self._lines = "\n".join(self._lines), []
        return [block] if block.strip() else []
