"""Keys that are pressed during a turn: what the run gets, what can be taken back, and what stays typed."""

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.turn_keys import TurnKeys
from toolglot.loop.inbox import Inbox
from toolglot.values.deliveries import Delivery
from toolglot.values.messages import user

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a turn's keys are not read there")
UP, BACKSPACE, PASTE = "\x1b[A", "\x7f", "\x1b[200~pasted\x1b[201~"


class Run:
    """A run that takes lines, but for those with a slash."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.inbox.open("")
        self.deliveries: list[Delivery] = []

    def deliver(self, text: str) -> Delivery | None:
        if text.startswith("/"):
            return None
        self.deliveries.append(self.inbox.add(user(text), "soon", ""))
        return self.deliveries[-1]

    @property
    def queued(self) -> list[str]:
        return [delivery.message.text for delivery in self.deliveries if delivery.state == "queued"]


def press(*pieces: str | Callable[[Run], object]) -> tuple[Run, list[str], list[str], str]:
    """Press keys; the run, the lines that are shown, those that it has taken, and what stays typed."""

    async def type_keys() -> tuple[Run, list[str], list[str], str]:
        run, (read_end, write_end) = Run(), os.pipe()
        with open(read_end, "rb", buffering=0) as file, open(write_end, "wb", buffering=0) as keys_file:
            keys = TurnKeys(Keyboard(file), lambda: None, run.deliver)
            keys.start()
            for piece in pieces:
                if isinstance(piece, str):
                    keys_file.write(piece.encode())
                    for _ in range(5):
                        await asyncio.sleep(0)
                else:
                    piece(run)
            shown = keys.lines()
            delivered, left = keys.take_back()
            return run, shown, delivered, "".join(key.data for key in [*left, *keys.stop()])

    return asyncio.run(type_keys())


def take(run: Run) -> None:
    run.inbox.take_urgent(0)


def close(run: Run) -> None:
    run.inbox.close("it ended")


class TestTurnKeys:
    def test_a_finished_line_goes_to_the_run(self) -> None:
        run, shown, delivered, left = press("one\rtw", "x" + BACKSPACE + "o\rthr", take, "ee")
        assert [delivery.message.text for delivery in run.deliveries] == ["one", "two"]
        assert (shown, delivered, left) == (["three"], ["one", "two"], "three")

    def test_what_the_run_did_not_take_is_typed_again(self) -> None:
        _, shown, delivered, left = press("one\r", take, "two\rthree", close)
        assert (shown, delivered, left) == (["three"], ["one"], "two\rthree")

    def test_what_is_still_queued_is_taken_back(self) -> None:
        run, shown, delivered, left = press("one\rtwo\rthree")
        assert (shown, delivered, left) == (["one", "two", "three"], [], "one\rtwo\rthree")
        assert run.queued == []

    def test_up_takes_the_last_line_back(self) -> None:
        run, shown, _, _ = press("one\rtwo\r", UP, "!\r", UP, BACKSPACE + "?")
        assert shown == ["one", "two?"]
        assert [delivery.state for delivery in run.deliveries] == ["withdrawn"] * 3

    @pytest.mark.parametrize("pieces", [("one\r", take, UP), (UP,), ("o", UP)])
    def test_up_finds_nothing_to_take_back(self, pieces: tuple[str | Callable[[Run], object], ...]) -> None:
        assert press(*pieces)[3].endswith(UP)

    @pytest.mark.parametrize("line", ["/model x", "one\\", PASTE, "x" + UP])
    def test_a_line_that_waits_holds_those_after_it(self, line: str) -> None:
        run, shown, delivered, left = press(f"zero\r{line}\rtwo\rthree", take)
        assert [delivery.message.text for delivery in run.deliveries] == ["zero"]
        assert (len(shown), delivered) == (3, ["zero"])
        assert left.endswith("\rtwo\rthree")

    def test_enter_alone_is_nothing(self) -> None:
        run, _, _, left = press("\r \rone\r", take)
        assert ([delivery.message.text for delivery in run.deliveries], left) == (["one"], "")
