"""Styled text for terminals, and a plain console for pipes and for terminals that only print lines."""

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO
from unicodedata import category, east_asian_width

from wcwidth import wcwidth

from toolglot.common.sanitize import escape_controls

if TYPE_CHECKING:
    from rich.text import Text

_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "strike": "9",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}

CONTINUATION = "      ↪ "  # begins a row that continues a line
_MAX_RAGGED = 20  # columns that a row may lack so that it ends at a blank


class Line:
    """Text whose parts have styles such as "bold red". A rich console can print it too.

    It contains nothing that a terminal interprets, whatever it was made of.
    """

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts: list[tuple[str, str]] = [(escape_controls(text), style)] if text else []

    def append(self, text: str, style: str = "") -> "Line":
        self.parts.append((escape_controls(text), style))
        return self

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)

    def render(self, *, use_color: bool) -> str:
        """Return the text, with escape sequences if `use_color` is set."""
        rendered: list[str] = []
        for text, style in self.parts:
            codes = ";".join(_CODES[word] for word in style.split())
            if use_color and codes and text:
                text = f"\x1b[{codes}m{text}\x1b[0m"
            rendered.append(text)
        return "".join(rendered)

    def truncate(self, width: int) -> "Line":
        """Return a line of at most `width` columns that ends in an ellipsis if something was cut off."""
        if cell_width(str(self)) <= width:
            return self
        line, available = Line(), width - 1
        for text, style in self.parts:
            kept = next(chop(text, available), "") if available > 0 else ""
            line.append(kept, style)
            available -= cell_width(kept)
            if kept != text:
                break
        return line.append("…")

    def wrap(self, width: int, indent: str) -> "list[Line]":
        """Return rows of at most `width` columns.

        All but the first begin with the indent, so that none can look like a line.

        Terminals do not agree on the width of many characters: each counts as the widest that one of them
        draws.
        """
        rows, used = [Line()], 0
        for text, style in self.parts:
            start = 0
            for index, character in enumerate(text):
                columns = _widest(character)
                if used + columns > width:
                    end = text.rfind(" ", start, index) + 1 or index
                    if sum(map(_widest, text[end:index])) > min(_MAX_RAGGED, width // 3):
                        end = index
                    rows[-1].append(text[start:end], style)
                    rows.append(Line(indent, style))
                    start, used = end, sum(map(_widest, indent + text[end:index]))
                used += columns
            rows[-1].append(text[start:], style)
        return rows

    def __rich__(self) -> "Text":
        from rich.text import Text

        return Text.assemble(*self.parts)


class PlainConsole:
    """Prints without colors and live updates: what the chat needs of a rich console."""

    is_dumb_terminal = True

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.is_terminal = file.isatty()
        self.encoding = file.encoding or "utf-8"

    @property
    def width(self) -> int:
        return shutil.get_terminal_size((80, 24)).columns

    @property
    def height(self) -> int:
        return shutil.get_terminal_size((80, 24)).lines

    def print(self, *lines: object, soft_wrap: bool = False, **_: Any) -> None:
        text = " ".join(map(str, lines))
        if self.is_terminal and not soft_wrap:
            wrapper = WordWrapper(self)
            text = wrapper.feed(text) + wrapper.close()
        self.file.write(text + "\n")
        self.file.flush()


class WordWrapper:
    """Breaks text that arrives in pieces between its words; the terminal would break it anywhere."""

    def __init__(self, console: PlainConsole) -> None:
        self._console = console
        self._word = self._blanks = ""  # not written yet
        self._column = 0

    def feed(self, text: str) -> str:
        """Return what can be written: everything but the last word, which may continue."""
        parts = re.split(r"(\s)", self._word + text)
        self._word = parts.pop()
        rows: list[str] = []
        for part in parts:
            if not part.isspace():
                rows.append(self._place(part))
            elif part == "\n":
                self._blanks, self._column = "", 0
                rows.append(part)
            else:
                self._blanks += part
        return "".join(rows)

    def close(self) -> str:
        """Return the last word; the next text begins a line."""
        word, self._word = self._word, ""
        placed = self._place(word)
        self._blanks, self._column = "", 0
        return placed

    def _place(self, word: str) -> str:
        """Return a word after its blanks, or after a line break if it does not fit."""
        if not word:
            return ""
        limit = max(1, self._console.width - 1)  # some terminals break a line that is exactly full
        before, self._blanks = self._blanks, ""
        if self._column and self._column + cell_width(before + word) > limit:
            before, self._column = "\n", 0
        pieces = list(chop(word, limit))  # one, unless the word is longer than a line
        self._column = (
            cell_width(pieces[-1]) if pieces[1:] else self._column + cell_width(before.strip("\n") + word)
        )
        return before + "\n".join(pieces)


def _widest(character: str) -> int:
    """Return the most columns that a terminal may take for a character."""
    if character.isascii():
        return 1
    is_narrow = east_asian_width(character) in "NH" and category(character) != "So"
    return 1 if is_narrow else 2


def cell_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return len(text) if text.isascii() else sum(max(0, wcwidth(character)) for character in text)


def chop(text: str, width: int) -> Iterator[str]:
    """Split a text into pieces of at most `width` columns."""
    if text.isascii():
        yield from (text[start : start + width] for start in range(0, len(text), width))
        return
    piece, used = "", 0
    for character in text:
        columns = max(0, wcwidth(character))
        if used + columns > width:
            yield piece
            piece, used = "", 0
        piece, used = piece + character, used + columns
    if piece:
        yield piece
