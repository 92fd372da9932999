"""Reserve the user's input for the chat: during a turn, tools and their child processes see an empty stdin."""

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO


class Keyboard:
    """The terminal or pipe that prompts come from."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.is_terminal = file.isatty()
        self.has_line_editor = False
        """Whether a line editor reads it key by key."""

    def read_pending(self) -> str:
        """Consume what has been typed but not read yet."""
        parts: list[bytes] = []
        while select.select([self.file], [], [], 0)[0] and (data := os.read(self.file.fileno(), 4096)):
            parts.append(data)
        return b"".join(parts).decode("utf-8", "replace")

    @contextmanager
    def reserve(self) -> Generator[None]:
        """Keep typed keys for the chat: they go to the next prompt without an echo, and other readers find
        stdin empty.
        """
        with self.without_echo(), _empty_stdin():
            yield

    @contextmanager
    def without_echo(self) -> Generator[None]:
        """Keep typed keys unchanged for the line editor, and do not echo them.

        The chat does this from its start to its end: keys that arrive between a turn and the next prompt
        belong to that prompt, Enter included.
        """
        if not self.has_line_editor or not self.is_terminal or sys.platform == "win32":
            yield
            return
        import termios

        fd = self.file.fileno()
        original = termios.tcgetattr(fd)
        quiet = list(original)
        quiet[0] = original[0] & ~termios.ICRNL  # Enter must arrive as \r, as the line editor expects it
        quiet[3] = original[3] & ~(termios.ECHO | termios.ICANON)  # Ctrl-C still works
        termios.tcsetattr(fd, termios.TCSANOW, quiet)
        try:
            yield
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, original)


@contextmanager
def open_keyboard() -> Generator[Keyboard]:
    """Open the keyboard on a duplicate of stdin, so that replacing stdin does not affect it."""
    try:
        duplicate = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):  # stdin has no file descriptor, for example in tests
        yield Keyboard(sys.stdin.buffer)
        return
    # unbuffered: closing a buffer would wait for a thread that reads a line
    with open(duplicate, "rb", buffering=0) as file:
        yield Keyboard(file)


@contextmanager
def _empty_stdin() -> Generator[None]:
    """Replace stdin with an empty file, at the level of file descriptors so that child processes inherit it."""
    original = sys.stdin
    try:
        fd = original.fileno()
        duplicate = os.dup(fd)
    except (OSError, ValueError):
        # stdin has no file descriptor that a child process could inherit, for example in tests
        yield
        return
    with open(os.devnull, encoding="utf-8") as empty:
        os.dup2(empty.fileno(), fd)
        sys.stdin = empty
        try:
            yield
        finally:
            sys.stdin = original
            os.dup2(duplicate, fd)
            os.close(duplicate)
