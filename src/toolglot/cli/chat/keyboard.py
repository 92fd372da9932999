"""The user's keys belong to the chat: while a turn lasts, tools and what they start find an empty stdin."""

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

__all__ = ["Keyboard", "open_keyboard"]


class Keyboard:
    """Where the user types, or the pipe that prompts come from."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.is_terminal = file.isatty()
        self.has_line_editor = False
        """Whether a line editor reads it, key by key."""

    def read_pending(self) -> str:
        """What was typed and not read yet; it is taken."""
        parts: list[bytes] = []
        while select.select([self.file], [], [], 0)[0] and (data := os.read(self.file.fileno(), 4096)):
            parts.append(data)
        return b"".join(parts).decode("utf-8", "replace")

    @contextmanager
    def reserve(self) -> Generator[None]:
        """While this lasts, keys are the chat's alone: they are not echoed, and whoever else reads stdin finds nothing."""
        with self._without_echo(), _empty_stdin():
            yield

    @contextmanager
    def _without_echo(self) -> Generator[None]:
        """What is typed is not echoed; the next prompt gets it. Ctrl-C still works."""
        if not self.has_line_editor or not self.is_terminal or sys.platform == "win32":
            yield
            return
        import termios

        place = self.file.fileno()
        before = termios.tcgetattr(place)
        quiet = list(before)
        quiet[0] = before[0] & ~termios.ICRNL  # Enter stays Enter
        quiet[3] = before[3] & ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(place, termios.TCSANOW, quiet)
        try:
            yield
        finally:
            termios.tcsetattr(place, termios.TCSANOW, before)


@contextmanager
def open_keyboard() -> Generator[Keyboard]:
    """A keyboard of its own, whatever happens to stdin meanwhile."""
    try:
        kept = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):  # a test's stand-in without a descriptor
        yield Keyboard(sys.stdin.buffer)
        return
    with os.fdopen(kept, "rb") as file:
        yield Keyboard(file)


@contextmanager
def _empty_stdin() -> Generator[None]:
    """Tools, and what they start, find an empty stdin."""
    before = sys.stdin
    try:
        place = before.fileno()
        kept = os.dup(place)
    except (OSError, ValueError):
        yield
        return
    with open(os.devnull, encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), place)
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before
            os.dup2(kept, place)
            os.close(kept)
