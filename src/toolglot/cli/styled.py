"""Styled text for terminals, and a plain console for installations without `rich`."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from wcwidth import wcwidth

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


class Line:
    """Text whose parts have styles such as "bold red". A rich console can print it too."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts: list[tuple[str, str]] = [(text, style)] if text else []

    def append(self, text: str, style: str = "") -> "Line":
        self.parts.append((text, style))
        return self

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)

    def render(self, *, use_color: bool) -> str:
        """Return the text, with escape sequences if `use_color` is set."""
        rendered: list[str] = []
        for text, style in self.parts:
            codes = ";".join(_CODES[word] for word in style.split())
            rendered.append(f"\x1b[{codes}m{text}\x1b[0m" if use_color and codes and text else text)
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

    def __rich__(self) -> "Text":
        from rich.text import Text

        return Text.assemble(*self.parts)


class PlainConsole:
    """Prints without colors and live updates: what the chat needs of a rich console."""

    is_terminal = False
    is_dumb_terminal = True

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.width, self.height = shutil.get_terminal_size((80, 24))
        self.encoding = file.encoding or "utf-8"

    def print(self, *lines: object, **_: Any) -> None:
        self.file.write(" ".join(map(str, lines)) + "\n")
        self.file.flush()


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
