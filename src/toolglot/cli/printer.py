"""Print text, labeled values and tables that fit the terminal, in color only where it is supported."""

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

import msgspec

from toolglot.cli.styled import Line
from toolglot.common.jsontext import dumps
from toolglot.common.sanitize import escape_controls, escape_invisible, escape_json

Row = tuple[str, str]
"""A label and its value."""
_MIN_VALUE_WIDTH = 16  # with fewer columns left, a value goes below its label
_collected_notes: ContextVar[list[str] | None] = ContextVar("collected_notes", default=None)
_MAX_LABEL_WIDTH = 24  # longer labels do not push the value column to the right


def supports_color(stream: Any) -> bool:
    """Whether escape sequences may be written to a stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write_json_line(stream: TextIO, value: Any, *, flush: bool = True) -> None:
    """Write a value as one line of JSON, in UTF-8 whatever the encoding of the stream is."""
    data = dumps(value)
    if stream.isatty():  # JSON escapes only some of what a terminal interprets
        data = escape_json(data.decode()).encode()
    stream.flush()
    stream.buffer.write(data + b"\n")
    if flush:
        stream.buffer.flush()


def write_text(stream: TextIO, text: str) -> None:
    """Write what a model or a tool said: as it is, but on a terminal with control characters made visible."""
    stream.write(escape_controls(text) if stream.isatty() else text)
    stream.flush()


class ToolPrints(io.TextIOWrapper):
    """A stdout for the code of tools: what they print goes to stderr, where it is no part of a result."""

    def __init__(self) -> None:
        super().__init__(
            _ToolBytes(), encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
        )


class _ToolBytes(io.BufferedIOBase):
    name = "<stderr>"

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        write_text(sys.stderr, content.decode(errors="backslashreplace"))
        return len(content)

    def fileno(self) -> int:
        return sys.stderr.fileno()


def print_line(text: str) -> None:
    """Print a line to stdout."""
    print(escape_invisible(text), flush=True)


def print_note(text: str) -> None:
    """Print a line about what happens to stderr."""
    if (collected := _collected_notes.get()) is not None:
        collected.append(text)
    print(f"toolglot: {escape_invisible(text)}", file=sys.stderr, flush=True)


@contextmanager
def collect_notes() -> Generator[list[str]]:
    """Collect what `print_note` prints, for somebody who does not see stderr."""
    token = _collected_notes.set(notes := list[str]())
    try:
        yield notes
    finally:
        _collected_notes.reset(token)


def format_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return msgspec.json.format(dumps(value), indent=2).decode()


def print_json(value: Any) -> None:
    """Print indented JSON, in UTF-8 whatever the encoding of stdout is."""
    write_json_line(sys.stdout, msgspec.Raw(format_json(value).encode()))


class Printer:
    """Prints text that is aligned, wrapped to the terminal width, and colored on terminals."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.width = max(20, shutil.get_terminal_size((80, 24)).columns)
        self._use_color = supports_color(out)

    def print_text(self, text: str, style: str = "", indent: str = "", hanging_indent: str = "") -> None:
        """Print wrapped text. `hanging_indent` precedes every line but the first."""
        hanging_indent = hanging_indent or " " * len(indent)
        width = max(8, self.width - len(hanging_indent))
        for paragraph in escape_invisible(text).splitlines() or [""]:
            for line in textwrap.wrap(paragraph, width, break_on_hyphens=False) or [""]:
                self.print_line(indent + line, style)
                indent = hanging_indent

    def print_line(self, text: str, style: str = "") -> None:
        """Print one line without wrapping it."""
        self.write(Line(escape_invisible(text).rstrip(), style).append("\n"))

    def write(self, line: Line) -> None:
        """Write styled text without a line end."""
        text = line.render(use_color=self._use_color)
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()

    def print_section(self, title: str, rows: Iterable[Row]) -> None:
        """Print a blank line, a title, and labeled values."""
        self.print_text("")
        self.print_text(title, "bold")
        self.print_pairs(rows)

    def print_pairs(self, rows: Iterable[Row]) -> None:
        """Print labels with their values beside them, or below them if a word of the value would not fit."""
        rows = list(rows)
        column = max((len(label) for label, _ in rows if len(label) <= _MAX_LABEL_WIDTH), default=0)
        available = self.width - column - 4
        for label, value in rows:
            longest_word = max(map(len, value.split()), default=0)
            if column <= 2 or (len(label) <= column and max(_MIN_VALUE_WIDTH, longest_word) <= available):
                self.print_text(value, "", f"  {label:{column}}  ", " " * (column + 4))
            else:
                self.print_text(label, "", "  ")
                self.print_text(value, "", "    ")

    def print_table(self, rows: Sequence[dict[str, str]], *, has_json: bool = True) -> None:
        """Print rows with the same columns.

        Last columns that do not fit are left out, and a note names them. If fewer than three fit, the rows
        are stacked.
        """
        if not rows:
            return
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
        columns = list(widths)
        while sum(widths[name] + 2 for name in columns) - 2 > self.width:
            columns.pop()
        if len(columns) < min(3, len(widths)):
            for row in rows:
                (_, title), *cells = row.items()
                self.print_text(title, "bold")
                self.print_text(" · ".join(f"{name} {cell}" for name, cell in cells), "", "  ")
            return
        self.print_line("  ".join(f"{name:{widths[name]}}" for name in columns), "bold")
        for row in rows:
            self.print_line("  ".join(f"{row[name]:{widths[name]}}" for name in columns))
        if hidden := list(widths)[len(columns) :]:
            self.print_text("")
            hint = "use a wider terminal or --json" if has_json else "use a wider terminal"
            self.print_text(f"Columns hidden ({hint}): {', '.join(hidden)}", "dim")
