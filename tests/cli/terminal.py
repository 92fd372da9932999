"""A real terminal for tests: a child on a pseudo-terminal, its output drawn on a screen, keys that are
pressed.

Nothing sleeps: everything that waits reads what the child says until the screen shows it, and an error shows
the screen."""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte
from pyte import modes
from pyte.screens import Char, wcwidth

KEYS = {
    "enter": "\r",
    "alt-enter": "\x1b\r",
    "up": "\x1b[A",
    "escape": "\x1b",
    **{f"ctrl-{letter}": chr(ord(letter) & 0x1F) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
PASTE = "\x1b[200~", "\x1b[201~"
# What a terminal's programs read to learn how to draw: the terminal says it, not the shell that the tests run
# in.
LOOKS = (
    *(
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "PY_COLORS",
        "TTY_COMPATIBLE",
    ),
    *(
        "TTY_INTERACTIVE",
        "TERM_PROGRAM",
        "PROMPT_TOOLKIT_COLOR_DEPTH",
        "PROMPT_TOOLKIT_NO_CPR",
        "CI",
        "GITHUB_ACTIONS",
    ),
)
# The child takes the terminal as its own (so that Ctrl-C is a signal) and becomes the command.
LEADER = (
    "import fcntl, os, signal, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


def surroundings(**changes: str) -> dict[str, str]:
    """The environment of a program in a modern terminal, whatever the tests themselves run in."""
    kept = {name: value for name, value in os.environ.items() if name not in LOOKS}
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUTF8": "1"} | changes


class Page(pyte.Screen):
    """A screen that keeps what scrolled away, and draws as terminals do where pyte does not.

    Dim is shown as `blink`: pyte does not know the first and nobody uses the second.
    """

    lines: int
    columns: int

    def __init__(self, columns: int, lines: int, answer: Callable[[str], None]) -> None:
        self.past: list[str] = []
        self._answer = answer
        super().__init__(columns, lines)

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def report_device_status(self, mode: int, **kwargs: bool) -> None:
        if not kwargs.get("private"):
            super().report_device_status(mode)

    def draw(self, data: str) -> None:
        if data.isascii() and data.isprintable():
            super().draw(data)
            return
        for char in data:
            width = wcwidth(char)
            if width == 2 and self.cursor.x == self.columns - 1 and modes.DECAWM in self.mode:
                self.cursor.x = self.columns  # it does not fit: it goes to the next line whole
            if width > 0 or (width == 0 and unicodedata.combining(char)):
                super().draw(char)

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self.past.append(self.line(0))
        super().index()

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        if how == 3:
            self.past.clear()

    def select_graphic_rendition(self, *attrs: int, **kwargs: bool) -> None:
        if not kwargs.get("private"):
            super().select_graphic_rendition(*_plain_styles(attrs))

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Keeps the cursor's line: what is above goes to the past, what is right of the edge is cut off."""
        self.margins = None
        lines, columns = lines or self.lines, columns or self.columns
        for y in range(self.cursor.y, lines - 1, -1):
            self.cursor.y = self.lines - 1
            self.index()
            self.cursor.y = y - 1
        for y in [y for y in self.buffer if y >= lines]:
            del self.buffer[y]
        for row in self.buffer.values():
            for x in [x for x in row if x >= columns]:
                del row[x]
        self.lines, self.columns = lines, columns
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.tabstops = set(range(8, columns, 8))

    def cells(self, y: int) -> Iterator[tuple[int, Char]]:
        """What stands in a line, with its column; a wide character has two columns and comes once."""
        row, x = self.buffer[y], 0
        while x < self.columns:
            char = row[x]
            whole = not char.data or wcwidth(char.data[0]) < 2 or row[x + 1].data == ""
            yield x, char if char.data and whole else char._replace(data=" ")
            x += 2 if char.data and whole and wcwidth(char.data[0]) == 2 else 1

    def line(self, y: int) -> str:
        row = self.buffer[y]
        text = "".join([row[x].data for x in range(max(row, default=-1) + 1)])
        # Most lines have one character in each column; looking at them one by one is slow.
        if text.isascii() or all(wcwidth(char) == 1 for char in {*text} if not char.isascii()):
            return text.rstrip()
        return "".join(char.data for _, char in self.cells(y)).rstrip()


def _plain_styles(attrs: Sequence[int]) -> Iterator[int]:
    """Dim becomes blink, and the first sixteen of 256 colours are the terminal's own."""
    remaining = iter(attrs)
    for attr in remaining:
        if attr in (38, 48):
            yield from _colour(attr, remaining)
        elif attr == 22:
            yield from (22, 25)
        elif attr not in (5, 25):
            yield 5 if attr == 2 else attr


def _colour(attr: int, remaining: Iterator[int]) -> Iterator[int]:
    kind = next(remaining, 0)
    if kind == 2:
        yield from (attr, 2, next(remaining, 0), next(remaining, 0), next(remaining, 0))
    elif kind == 5:
        index = next(remaining, 0)
        if index < 16:
            yield attr - 8 + index if index < 8 else attr + 52 + index - 8
        else:
            yield from (attr, 5, index)


class NotShown(AssertionError):
    """What was waited for did not come; the message has the whole screen."""


class Terminal:
    """A command in a terminal of its own. Use it as a context manager: the child never outlives it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        columns: int = 100,
        lines: int = 32,
        cwd: Path | None = None,
    ) -> None:
        self.raw = bytearray()
        """Every byte that the child wrote."""
        self.ended = False
        """The child has closed the terminal."""
        self._answers = bytearray()
        self.page = Page(columns, lines, lambda text: self._answers.extend(text.encode()))
        self._stream = pyte.ByteStream(self.page)
        self._master, child = os.openpty()
        os.set_blocking(self._master, False)
        self._size(columns, lines)
        leader = [sys.executable, "-I", "-S", "-c", LEADER, *map(str, command)]
        surrounding = surroundings() if env is None else dict(env)
        try:
            self.process = subprocess.Popen(
                leader,
                stdin=child,
                stdout=child,
                stderr=child,
                env=surrounding,
                cwd=cwd,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What it shows

    @property
    def screen(self) -> list[str]:
        """The lines that a user sees now, without spaces at their ends."""
        return [self.page.line(y) for y in range(self.page.lines)]

    @property
    def everything(self) -> str:
        """What scrolled away and the screen."""
        return "\n".join([*self.page.past, *self.screen])

    @property
    def one_line(self) -> str:
        """Everything as one line with single spaces, for text that a narrow terminal breaks between words."""
        return " ".join(self.everything.split())

    # What a user does

    def type(self, text: str) -> None:
        """As keys: a line's end is Enter."""
        self._send(text.replace("\n", "\r").encode())

    def press(self, *keys: str) -> None:
        for key in keys:
            self._send(KEYS[key].encode())

    def paste(self, text: str) -> None:
        """As a terminal pastes: in brackets where the program asked for them, otherwise as if it were typed."""
        bracketed = 2004 << 5 in self.page.mode
        self.type(text.join(PASTE) if bracketed else text)

    def resize(self, columns: int, lines: int) -> None:
        """The kernel tells the child (SIGWINCH)."""
        self.page.resize(lines, columns)
        self._size(columns, lines)

    # What a test waits for

    def wait_for(self, text: str | re.Pattern[str], *, times: int = 1, timeout: float = 20) -> None:
        """Reads until this was shown, so many times, on the screen or in what scrolled away."""
        pattern = text if isinstance(text, re.Pattern) else re.compile(re.escape(text.rstrip(" ")))
        wanted = f"{text!r} {times} times" if times > 1 else repr(text)
        self.wait_until(lambda: len(pattern.findall(self.everything)) >= times, wanted, timeout)

    def wait_quiet(self, seconds: float = 0.15, *, timeout: float = 20) -> None:
        """Reads until nothing more came for so long."""
        end = time.monotonic() + timeout
        while self._read(seconds):
            if time.monotonic() > end:
                raise NotShown(self._missing("silence", timeout))

    def wait_exit(self, *, timeout: float = 20) -> int:
        """Reads until the child has left; its exit code."""
        self.wait_until(lambda: self.ended, "the end", timeout)
        return self.process.wait(timeout)

    def wait_until(self, met: Callable[[], bool], expectation: str, timeout: float = 20) -> None:
        end = time.monotonic() + timeout
        while not met():
            left = end - time.monotonic()
            if self.ended or left <= 0:
                raise NotShown(self._missing(expectation, timeout))
            self._read(min(left, 0.05))  # what is waited for may be a file

    def close(self) -> None:
        """Ends the child and all of its group; again: nothing."""
        if self._master < 0:
            return
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)
        self._master = -1

    # The pseudo-terminal

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self, timeout: float) -> bool:
        """One piece of output onto the screen, and the terminal's answers back; False: nothing came."""
        ready, _, _ = select.select([self._master], [], [], 0 if self.ended else timeout)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return False
        except OSError:  # Linux says so when the last program has closed its terminal
            data = b""
        self.raw += data
        self.ended = self.ended or not data
        self._stream.feed(data)
        if self._answers:
            answers, self._answers = bytes(self._answers), bytearray()
            self._send(answers)
        return bool(data)

    def _send(self, data: bytes) -> None:
        end = time.monotonic() + 20
        while data and not self.ended:
            readable, writable, _ = select.select(
                [self._master], [self._master], [], max(0.0, end - time.monotonic())
            )
            if writable:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._master, data) :]
            elif readable:
                self._read(0)
            else:
                raise NotShown(self._missing(f"a reader of {len(data)} more bytes", 20))

    def _missing(self, expectation: str, timeout: float) -> str:
        state = (
            f"it left with {self.process.wait(timeout)}" if self.ended else f"{timeout:g} seconds have passed"
        )
        past = "".join(f"{line}\n" for line in self.page.past[-60:])
        screen = "\n".join(f"│{line}" for line in self.screen)
        return f"the terminal did not show {expectation}: {state}\n{past}{screen}"
