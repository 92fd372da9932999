"""Read the keyboard while a turn runs: a finished line goes to the run, Up takes the last one back, and Esc
stops the turn. What the run does not take is kept for the next prompt.
"""

import asyncio
import codecs
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolglot.cli.chat.keyboard import Keyboard
from toolglot.values.deliveries import Delivery

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPress

__all__ = ["ESCAPE_SECONDS", "DeliverLine", "TurnKeys"]

DeliverLine = Callable[[str], Delivery | None]
"""Passes a line to the run; None if it has to wait for the end of the turn."""

ESCAPE_SECONDS = 0.05  # after which an Esc is no longer the beginning of another key, such as Up


class TurnKeys:
    """Collects keys between `start` and `stop`. `on_escape` is called when Esc is pressed by itself."""

    def __init__(
        self, keyboard: Keyboard, on_escape: Callable[[], None], deliver: DeliverLine | None = None
    ) -> None:
        from prompt_toolkit.input.vt100_parser import Vt100Parser

        self._file, self._on_escape, self._deliver = keyboard.file, on_escape, deliver
        self._keys: list[KeyPress] = []  # of the unfinished line, and of those that are held before it
        self._sent: list[tuple[Delivery, list[KeyPress]]] = []  # lines passed to the run, each with its keys
        self._is_holding = False  # a line waits for the end of the turn, and so do those after it
        self._parser = Vt100Parser(self._press)
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
        self._is_holding = False
        return keys

    def take_back(self) -> tuple[list[str], "list[KeyPress]"]:
        """Return the lines that the run has taken, and the keys of those that it has not, in order."""
        delivered: list[str] = []
        keys: list[KeyPress] = []
        for delivery, line in self._sent:
            if not delivery.withdraw() and delivery.state == "delivered":
                delivered.append(delivery.message.text)
            else:
                keys += line
        self._sent.clear()
        return delivered, keys

    def lines(self) -> list[str]:
        """Return what was typed, as it would be sent, without what the run has taken: the last line is not
        finished.
        """
        queued = [_read_line(line) for delivery, line in self._sent if delivery.state == "queued"]
        *lines, unfinished = _split_lines(self._keys)
        return [*queued, *map(_read_line, lines), _read_line(unfinished)]

    def _press(self, key: "KeyPress") -> None:
        from prompt_toolkit.keys import Keys

        if key.key == Keys.Up and not self._keys and self._sent and self._sent[-1][0].withdraw():
            _, line = self._sent.pop()
            self._keys[:] = line[:-1]  # without Enter
            return
        self._keys.append(key)
        if key.key == Keys.ControlM and not self._is_holding:
            self._finish_line()

    def _finish_line(self) -> None:
        """Pass the line to the run, or hold it."""
        line, delivery = list(self._keys), None
        if _is_plain(line):
            if not (text := _read_line(line)).strip():  # Enter alone
                self._keys.clear()
                return
            delivery = self._deliver(text) if self._deliver is not None else None
        if delivery is None:
            self._is_holding = True
            return
        self._sent.append((delivery, line))
        self._keys.clear()

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
        self._flush_timer = loop.call_later(ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        from prompt_toolkit.keys import Keys

        self._parser.flush()
        if self._keys and self._keys[-1].key == Keys.Escape:
            self._keys.pop()
            self._on_escape()


def _split_lines(keys: "list[KeyPress]") -> "list[list[KeyPress]]":
    """Return the keys of each line, with its Enter; the last line has none."""
    from prompt_toolkit.keys import Keys

    lines: list[list[KeyPress]] = [[]]
    for key in keys:
        lines[-1].append(key)
        if key.key == Keys.ControlM:
            lines.append([])
    return lines


def _read_line(keys: "list[KeyPress]") -> str:
    """Return what was typed on a line."""
    from prompt_toolkit.keys import Keys

    text = ""
    for key in keys:
        if key.key == Keys.ControlH:
            text = text[:-1]
        elif key.data.isprintable():
            text += key.data
    return text


def _is_plain(keys: "list[KeyPress]") -> bool:
    """Whether a finished line reads the same in the line editor: other keys move there, paste or complete."""
    from prompt_toolkit.keys import Keys

    *typed, _ = keys
    is_known = all(key.key == Keys.ControlH or len(key.key) == 1 for key in typed)
    return is_known and not _read_line(typed).endswith("\\")  # which continues the line
