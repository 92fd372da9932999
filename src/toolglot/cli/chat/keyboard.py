"""The user's keys belong to the chat: while it lasts, tools and what they start find an empty stdin."""

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

__all__ = ["Keyboard", "taken"]


class Keyboard:
    """Where the user types, or the pipe that prompts come from."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.is_terminal = file.isatty()
        self.edits = False
        """Whether a line editor reads it, key by key."""

    def pending(self) -> str:
        """What was typed and not read yet; it is taken."""
        parts: list[bytes] = []
        while select.select([self.file], [], [], 0)[0] and (data := os.read(self.file.fileno(), 4096)):
            parts.append(data)
        return b"".join(parts).decode("utf-8", "replace")

    @contextmanager
    def quiet(self) -> Generator[None]:
        """What is typed is not echoed; the next prompt gets it. Ctrl-C still works."""
        if not self.edits or not self.is_terminal or sys.platform == "win32":
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
def taken() -> Generator[Keyboard]:
    """Stdin is the chat's alone; afterwards it is what it was."""
    before = sys.stdin
    try:
        kept = os.dup(before.fileno())
    except (OSError, ValueError):  # a test's stand-in without a descriptor
        yield Keyboard(before.buffer)
        return
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, before.fileno())
    os.close(empty)
    with os.fdopen(kept, "rb") as file, open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield Keyboard(file)
        finally:
            sys.stdin = before
            os.dup2(kept, before.fileno())
