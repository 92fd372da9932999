"""Read the keyboard while a turn runs: what is typed is kept for the next prompt, and Esc stops the turn."""

import asyncio
import codecs
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolglot.cli.chat.keyboard import Keyboard

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPress

__all__ = ["TurnKeys"]

_ESCAPE_SECONDS = 0.05  # after which an Esc is no longer the beginning of another key, such as Up


class TurnKeys:
    """Collects keys between `start` and `stop`. `on_escape` is called when Esc is pressed by itself."""

    def __init__(self, keyboard: Keyboard, on_escape: Callable[[], None]) -> None:
        from prompt_toolkit.input.vt100_parser import Vt100Parser

        self._file, self._on_escape = keyboard.file, on_escape
        self._keys: list[KeyPress] = []
        self._parser = Vt100Parser(self._keys.append)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._flush_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to read, in the running event loop."""
        asyncio.get_running_loop().add_reader(self._file.fileno(), self._read)

    def stop(self) -> "list[KeyPress]":
        """Stop reading, and return the keys that were pressed."""
        asyncio.get_running_loop().remove_reader(self._file.fileno())
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._parser.flush()
        keys = list(self._keys)
        self._keys.clear()
        return keys

    def lines(self) -> list[str]:
        """Return what was typed, as it would be sent: the last line is not finished."""
        from prompt_toolkit.keys import Keys

        lines = [""]
        for key in self._keys:
            if key.key == Keys.ControlM:
                lines.append("")
            elif key.key == Keys.ControlH:
                lines[-1] = lines[-1][:-1]
            elif key.data.isprintable():
                lines[-1] += key.data
        return lines

    def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            data = os.read(self._file.fileno(), 4096)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(self._file.fileno())
            return
        self._parser.feed(self._decoder.decode(data))
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer = loop.call_later(_ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        from prompt_toolkit.keys import Keys

        self._parser.flush()
        if self._keys and self._keys[-1].key == Keys.Escape:
            self._keys.pop()
            self._on_escape()
