"""Text for people that fits their terminal: wrapped, aligned, coloured on a terminal only. What has no room is stacked."""

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from toolglot.cli.sanitize import escape_invisible

__all__ = ["Printer", "Row"]

Row = tuple[str, str]
"""A label and what is said of it."""
_COLORS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_MIN_VALUE_WIDTH = 16  # columns for a value; with less it goes under its label
_MAX_LABEL_WIDTH = 24  # the longest label that others are aligned with


class Printer:
    """Text for people: aligned, wrapped to the width, coloured on a terminal only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.width = max(20, shutil.get_terminal_size((80, 24)).columns)
        self._use_color = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def print_text(self, text: str, style: str = "", indent: str = "", hanging_indent: str = "") -> None:
        """Words, wrapped. `hang`: stands before all lines but the first."""
        hanging_indent = hanging_indent or " " * len(indent)
        for line in self._wrap(text, self.width - len(hanging_indent)) or [""]:
            self.print_line(indent + line, style)
            indent = hanging_indent

    def print_line(self, text: str, style: str = "") -> None:
        """One line as it is."""
        text = escape_invisible(text).rstrip()
        text = text.encode(self._out.encoding or "utf-8", "replace").decode(self._out.encoding or "utf-8")
        self._out.write((f"\x1b[{_COLORS[style]}m{text}\x1b[0m" if self._use_color and style and text else text) + "\n")

    def print_section(self, title: str, rows: Iterable[Row], style: str = "") -> None:
        """A title, and labels with values under it."""
        self.print_text("")
        self.print_text(title, "bold")
        self.print_pairs(rows, style)

    def print_pairs(self, rows: Iterable[Row], style: str = "") -> None:
        """Labels with values beside them, or under them where a label is long, the terminal narrow, or a path would be torn."""
        rows = list(rows)
        column = max((len(label) for label, _ in rows if len(label) <= _MAX_LABEL_WIDTH), default=0)
        room = self.width - column - 4
        for label, value in rows:
            longest = max(map(len, value.split()), default=0)
            if column <= 2 or (len(label) <= column and max(_MIN_VALUE_WIDTH, longest) <= room):
                self.print_text(value, style, f"  {label:{column}}  ", " " * (column + 4))
            else:
                self.print_text(label, style, "  ")
                self.print_text(value, style, "    ")

    def print_table(self, rows: Sequence[dict[str, str]], priority: Sequence[str]) -> None:
        """Rows of the same columns. Columns that have no room are left out, which is said; less than three are no table."""
        if not rows:
            return
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
        kept: list[str] = []
        for name in priority:
            if sum(widths[one] + 2 for one in (*kept, name)) - 2 <= self.width:
                kept.append(name)
        if len(kept) < min(3, len(priority)):
            self._print_stacked(rows, priority)
            return
        columns = [name for name in widths if name in kept]
        self.print_line("  ".join(f"{name:{widths[name]}}" for name in columns), "bold")
        for row in rows:
            self.print_line("  ".join(f"{row[name]:{widths[name]}}" for name in columns))
        if missing := [name for name in widths if name not in kept]:
            self.print_text("")
            self.print_text(f"A wider window or --json also has: {', '.join(missing)}", "dim")

    def _print_stacked(self, rows: Iterable[dict[str, str]], priority: Sequence[str]) -> None:
        for row in rows:
            self.print_text(row[priority[0]], "bold")
            self.print_text(" · ".join(f"{name} {row[name]}" for name in priority[1:]), "", "  ")

    def _wrap(self, text: str, width: int) -> list[str]:
        lines = escape_invisible(text).splitlines()
        return [part for line in lines for part in textwrap.wrap(line, max(8, width), break_on_hyphens=False) or [""]]
