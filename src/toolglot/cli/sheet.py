"""Text for people that fits their terminal: wrapped, aligned, coloured on a terminal only. What has no room is stacked."""

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from toolglot.cli.visible import visible

__all__ = ["Row", "Sheet"]

Row = tuple[str, str]
"""A label and what is said of it."""
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_NARROW = 16  # columns for a value; with less it goes under its label
_LABEL = 24  # the longest label that others are aligned with


class Sheet:
    """Text for people: aligned, wrapped to the width, coloured on a terminal only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.width = max(20, shutil.get_terminal_size((80, 24)).columns)
        self._live = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def say(self, text: str, style: str = "", indent: str = "", hang: str = "") -> None:
        """Words, wrapped. `hang`: stands before all lines but the first."""
        hang = hang or " " * len(indent)
        for line in self._wrapped(text, self.width - len(hang)) or [""]:
            self.line(indent + line, style)
            indent = hang

    def line(self, text: str, style: str = "") -> None:
        """One line as it is."""
        text = visible(text).rstrip()
        text = text.encode(self._out.encoding or "utf-8", "replace").decode(self._out.encoding or "utf-8")
        self._out.write((f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if self._live and style and text else text) + "\n")

    def section(self, title: str, rows: Iterable[Row], style: str = "") -> None:
        """A title, and labels with values under it."""
        self.say("")
        self.say(title, "bold")
        self.pairs(rows, style)

    def pairs(self, rows: Iterable[Row], style: str = "") -> None:
        """Labels with values beside them, or under them where a label is long, the terminal narrow, or a path would be torn."""
        rows = list(rows)
        column = max((len(label) for label, _ in rows if len(label) <= _LABEL), default=0)
        room = self.width - column - 4
        for label, value in rows:
            longest = max(map(len, value.split()), default=0)
            if column <= 2 or (len(label) <= column and max(_NARROW, longest) <= room):
                self.say(value, style, f"  {label:{column}}  ", " " * (column + 4))
            else:
                self.say(label, style, "  ")
                self.say(value, style, "    ")

    def table(self, rows: Sequence[dict[str, str]], important: Sequence[str]) -> None:
        """Rows of the same columns. Columns that have no room are left out, which is said; less than three are no table."""
        if not rows:
            return
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
        kept: list[str] = []
        for name in important:
            if sum(widths[one] + 2 for one in (*kept, name)) - 2 <= self.width:
                kept.append(name)
        if len(kept) < min(3, len(important)):
            self._stack(rows, important)
            return
        columns = [name for name in widths if name in kept]
        self.line("  ".join(f"{name:{widths[name]}}" for name in columns), "bold")
        for row in rows:
            self.line("  ".join(f"{row[name]:{widths[name]}}" for name in columns))
        if missing := [name for name in widths if name not in kept]:
            self.say("")
            self.say(f"A wider window or --json also has: {', '.join(missing)}", "dim")

    def _stack(self, rows: Iterable[dict[str, str]], important: Sequence[str]) -> None:
        for row in rows:
            self.say(row[important[0]], "bold")
            self.say(" · ".join(f"{name} {row[name]}" for name in important[1:]), "", "  ")

    def _wrapped(self, text: str, width: int) -> list[str]:
        lines = visible(text).splitlines()
        return [part for line in lines for part in textwrap.wrap(line, max(8, width), break_on_hyphens=False) or [""]]
