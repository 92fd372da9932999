"""Input of a chat: a pipe, or a line editor."""

import asyncio
import io
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.cli.cli_kit import Patch

from toolglot.cli.chat.input import EndOfInput, PipeReader, TerminalReader
from toolglot.cli.chat.keyboard import Keyboard, open_keyboard
from toolglot.errors import UsageError

ENTER, ALT_ENTER, CTRL_C, CTRL_D, CTRL_J, TAB, UP = "\r", "\x1b\r", "\x03", "\x04", "\n", "\t", "\x1b[A"
CTRL_R, RIGHT = "\x12", "\x1b[C"
ANSWERS = ("yes", "no", "always")
LONG = "\n".join(f"line {number}" for number in range(20))
OTHER = LONG.replace("line", "other")


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


def a_keyboard(
    data: bytes | io.BytesIO = b"", *, is_terminal: bool = False, typed: str | list[str] = ""
) -> Any:
    """Keys that were pressed, and those that wait, in the pieces in which they arrive."""
    waiting = [typed] if isinstance(typed, str) else typed
    file = data if isinstance(data, io.BytesIO) else io.BytesIO(data)
    return SimpleNamespace(
        file=file, is_terminal=is_terminal, read_pending=lambda: waiting.pop(0) if waiting else ""
    )


class TestPipe:
    @staticmethod
    def all_of(data: bytes) -> list[str]:
        async def read() -> list[str]:
            reader, lines = PipeReader(a_keyboard(data), lambda _: None), list[str]()
            while True:
                try:
                    lines.append(await reader.read())
                except UsageError as e:
                    lines.append(f"! {e}")
                except EndOfInput:
                    return lines

        return asyncio.run(read())

    @pytest.mark.parametrize(
        ("data", "lines"),
        [
            (b"", []),
            (b"\n \n\t\n", []),
            (b"one\ntwo\n", ["one", "two"]),
            (b"one\r\n\r\ntwo", ["one", "two"]),
            ("grüße 漢字\n".encode(), ["grüße 漢字"]),
            (b"\xef\xbb\xbfone\n", ["one"]),
        ],
    )
    def test_one_prompt_per_line(self, data: bytes, lines: list[str]) -> None:
        assert self.all_of(data) == lines

    def test_invalid_line_is_reported_by_number(self) -> None:
        lines = self.all_of(b"one\n\n\xff\xfe\ntwo\n")
        assert lines == ["one", "! line 3 of the input is not UTF-8 text and was skipped", "two"]

    @pytest.mark.parametrize(
        ("typed", "answer"),
        [
            ("y", "yes"),
            ("YES", "yes"),
            ("n", "no"),
            ("a", "always"),
            ("maybe", ""),
            ("yesterday", ""),
            ("\n\nno", "no"),
        ],
    )
    def test_answer_is_a_line(self, typed: str, answer: str) -> None:
        shown: list[str] = []
        reader = PipeReader(a_keyboard(f"{typed}\n".encode()), shown.append)
        assert asyncio.run(reader.choose("really? ", ANSWERS)) == answer
        assert "".join(shown) == "really? \n"

    def test_dumb_terminal_has_a_prompt(self) -> None:
        shown: list[str] = []
        reader = PipeReader(a_keyboard(b"one\ny\n", is_terminal=True), shown.append)
        assert asyncio.run(reader.read()) == "one"
        assert asyncio.run(reader.choose("really? ", ANSWERS)) == "yes"
        assert "".join(shown) == "> really? "

    def test_waiting_does_not_block_the_loop(self) -> None:
        go = threading.Event()

        class Slow(io.BytesIO):
            def readline(self, size: int | None = -1) -> bytes:
                go.wait(5)
                return b"late\n"

        async def both() -> str:
            reading = asyncio.create_task(PipeReader(a_keyboard(Slow()), lambda _: None).read())
            await asyncio.sleep(0)
            go.set()
            return await reading

        assert asyncio.run(both()) == "late"

    def test_read_error_is_the_end(self) -> None:
        """A terminal that is gone, a descriptor that is closed: nobody waits for ever."""

        class Gone(io.BytesIO):
            def readline(self, size: int | None = -1) -> bytes:
                raise OSError(5, "Input/output error")

        with pytest.raises(EndOfInput):
            asyncio.run(asyncio.wait_for(PipeReader(a_keyboard(Gone()), lambda _: None).read(), 0.2))


class TestKeyboard:
    def test_pending_input_is_read(self) -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb", buffering=0) as keys:
            keyboard = Keyboard(file)
            assert keyboard.read_pending() == ""
            keys.write("grüße\n".encode())
            assert keyboard.read_pending() == "grüße\n"
            assert keyboard.read_pending() == ""
            with keyboard.reserve():
                pass
            keys.close()
            assert keyboard.read_pending() == ""
        assert not keyboard.is_terminal

    def test_tools_see_an_empty_stdin_during_a_turn(self, tmp_path: Path, monkeypatch: Patch) -> None:
        (tmp_path / "prompts").write_text("one\ntwo\n")
        with (tmp_path / "prompts").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            with open_keyboard() as keyboard:
                with keyboard.reserve():
                    assert sys.stdin.read() == ""
                    assert os.read(stdin.fileno(), 10) == b""
                    assert keyboard.file.readline() == b"one\n"
                assert sys.stdin is stdin
            os.lseek(stdin.fileno(), 0, os.SEEK_SET)
            assert os.read(stdin.fileno(), 3) == b"one"


class Typist:
    """A line editor and its keys. `typed`: what was pressed before anything was asked."""

    def __init__(
        self,
        keys: PipeInput,
        history: Path | None,
        words: Callable[[str], Iterable[str]] = lambda _: (),
        typed: str | list[str] = "",
    ) -> None:
        self.keys = keys
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("prompt_toolkit.input.create_input", self._pipe_input)
            keyboard = a_keyboard(is_terminal=True, typed=typed)
            self.reader = TerminalReader(keyboard, history, status=lambda: " status", completions=words)

    def _pipe_input(self, _: object) -> PipeInput:
        return self.keys

    @property
    def buffer(self) -> Buffer:
        """The line as it is."""
        return self.reader._session.default_buffer  # pyright: ignore[reportPrivateUsage]

    def types(self, *keys: str) -> str:
        """What is read when these are pressed."""
        return self._press(keys, lambda: self.reader.read())

    def answers(self, *keys: str) -> str:
        """What a question is answered with when these are pressed."""
        return self._press(keys, lambda: self.reader.choose("? ", ANSWERS))

    def _press(self, keys: Iterable[str], wait: Callable[[], Coroutine[Any, Any, str]]) -> str:
        self.keys.send_text("".join(keys))

        async def wait_for_answer() -> str | None:
            try:
                async with asyncio.timeout(30):
                    return await wait()
            except KeyboardInterrupt:
                return None

        if (text := asyncio.run(wait_for_answer())) is None:
            raise KeyboardInterrupt
        return text


class TestTerminal:
    @pytest.fixture
    def typist(self) -> Any:
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            yield Typist(
                keys,
                None,
                lambda text: ["/model", "/new", "/help"] if " " not in text else ["gemini:", "groq:"],
            )

    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            (["hello", ENTER], "hello"),
            (["grüße 漢字 👍", ENTER], "grüße 漢字 👍"),
            (["one", ALT_ENTER, "two", ENTER], "one\ntwo"),
            (["one", CTRL_J, "two", ENTER], "one\ntwo"),
            (["one\\", ENTER, "two", ENTER], "one\ntwo"),
            (["a\\b", ENTER], "a\\b"),
            (["  padded  ", ENTER], "padded"),
            ([ENTER], ""),
            (["lost", CTRL_C, "kept", ENTER], "kept"),
            ([paste("two\nlines"), ENTER], "two\nlines"),
            ([paste("win\r\ndows\rmac"), ENTER], "win\ndows\nmac"),
            (["see ", paste("x"), " here", ENTER], "see x here"),
            ([paste("nothing is sent\r"), "yet", ENTER], "nothing is sent\nyet"),
            (["word", CTRL_D, ENTER], "word"),
            ([paste(LONG), " and ", paste(OTHER), ENTER], f"{LONG} and {OTHER}"),
            (["[pasted text 7: 20 lines]", ENTER], "[pasted text 7: 20 lines]"),
            ([paste(f"[pasted text 1: 20 lines]\n{LONG}"), ENTER], f"[pasted text 1: 20 lines]\n{LONG}"),
        ],
    )
    def test_what_is_typed_is_read(self, typist: Typist, keys: list[str], text: str) -> None:
        assert typist.types(*keys) == text

    @pytest.mark.parametrize(
        ("keys", "inserted"),
        [
            (["cc @notes.txt", ENTER], []),
            (["see ", paste("cc @notes.txt"), " here", ENTER], ["cc @notes.txt"]),
            (
                [paste(f"{LONG}\ncc @notes.txt"), ENTER],
                ["[pasted text 1: 21 lines]", f"{LONG}\ncc @notes.txt"],
            ),
            ([paste(f"{LONG}\n"), ENTER], ["[pasted text 1: 20 lines]", f"{LONG}\n"]),
            ([UP, " again", ENTER], ["earlier @notes.txt"]),
            (["@", paste("notes.txt"), ENTER], ["notes.txt"]),
        ],
    )
    def test_what_was_not_typed_is_known(self, typist: Typist, keys: list[str], inserted: list[str]) -> None:
        if UP in keys:
            typist.types("earlier @notes.txt", ENTER)
        typist.types(*keys)
        assert [text for text in typist.reader.inserted if text] == inserted

    @pytest.mark.parametrize("text", [LONG, "x" * 3_000, LONG.replace("\n", "\r\n")])
    def test_long_paste_is_folded_and_expanded(self, typist: Typist, text: str) -> None:
        seen: list[str] = []

        def note_text(buffer: Buffer) -> None:
            seen.append(buffer.text)

        typist.buffer.on_text_changed += note_text
        whole = text.replace("\r\n", "\n")
        assert typist.types("look: ", paste(text), " ok", ENTER) == f"look: {whole} ok"
        assert max(map(len, seen)) < 60

    @pytest.mark.parametrize(("begun", "whole"), [("/mo", "/model"), ("/model ge", "/model gemini:")])
    def test_tab_completes(self, typist: Typist, begun: str, whole: str) -> None:
        async def complete() -> str:
            there = asyncio.Event()

            def note_completion(buffer: Buffer) -> None:
                if buffer.text == whole:
                    there.set()

            typist.buffer.on_text_changed += note_completion
            reading = asyncio.create_task(typist.reader.read())
            typist.keys.send_text(begun + TAB)
            await asyncio.wait_for(there.wait(), 30)
            typist.keys.send_text(ENTER)
            return await asyncio.wait_for(reading, 30)

        assert asyncio.run(complete()) == whole

    def test_up_recalls_the_last_prompt(self, typist: Typist) -> None:
        typist.types("first", ENTER)
        assert typist.types(UP, " again", ENTER) == "first again"

    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            ([ENTER, ENTER], "What is the weather?"),
            ([RIGHT, ENTER], "What is the weather?"),
            ([ENTER, "\x05", " Now?", ENTER], "What is the weather? Now?"),
            ([CTRL_C, "other", ENTER], "other"),
            ([CTRL_R, ENTER, ENTER], "An older weat"),
        ],
        ids=["enter", "right", "edited", "ctrl-c", "again"],
    )
    def test_a_history_search_can_be_accepted_and_left(
        self, typist: Typist, keys: list[str], text: str
    ) -> None:
        for prompt in ("An older weat", "What is the weather?", "Another"):
            typist.types(prompt, ENTER)
        assert typist.types(CTRL_R, "weat", *keys) == text

    @pytest.mark.parametrize(
        ("keys", "answer"),
        [("y", "yes"), ("n", "no"), ("Y", "yes"), ("N", "no"), ("w\x7fy", "yes"), (ENTER, "")],
    )
    def test_one_key_answers(self, typist: Typist, keys: str, answer: str) -> None:
        assert typist.answers(keys) == answer

    @pytest.mark.parametrize(
        ("word", "answer"), [("a", "always"), ("A", "always"), ("always", "always"), ("x", "")]
    )
    def test_always_needs_enter(self, typist: Typist, word: str, answer: str) -> None:
        assert typist.answers(word, ENTER) == answer

    @pytest.mark.parametrize("word", ["wait", "what?", "okay", "hang on", "call x", "a y", "and", "a n"])
    def test_the_letters_of_another_word_are_no_answer(self, typist: Typist, word: str) -> None:
        assert typist.answers(word, ENTER) == ""

    def test_ctrl_c_interrupts_and_ctrl_d_ends(self, typist: Typist) -> None:
        for read in (typist.types, typist.answers):
            with pytest.raises(KeyboardInterrupt):
                read(CTRL_C)
            with pytest.raises(EndOfInput):
                read(CTRL_D)

    def test_answer_is_not_a_prompt(self, typist: Typist) -> None:
        """Neither in the history, nor in the next line, even if it was typed as a word."""
        typist.types("first", ENTER)
        typist.answers("yes", ENTER)
        assert typist.types("next", ENTER) == "next"
        assert typist.types(UP, UP, ENTER) == "first"

    @pytest.mark.parametrize(("typed", "prompt"), [("try ", "try again"), (f"{UP}\x1b[3~\t", "again")])
    def test_typeahead_is_no_answer_but_the_start_of_the_next_prompt(self, typed: str, prompt: str) -> None:
        """The user types the next prompt while a turn runs: its letters must not approve anything."""
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            typist = Typist(keys, None, typed=typed)
            assert typist.answers("n") == "no"
            assert typist.types("again", ENTER) == prompt

    def test_the_rest_of_a_paste_is_no_answer(self) -> None:
        """It arrives in pieces, while the question is drawn."""
        pieces = ["", "yes, approve ", "", "all of it, yes"]
        with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
            typist = Typist(keys, None, typed=pieces)
            assert typist.answers("n") == "no"
            assert typist.types(ENTER) == "yes, approve all of it, yes"


class TestHistory:
    @pytest.mark.parametrize(
        ("keys", "text"), [(["first\\", ENTER, "two"], "first\ntwo"), ([paste(LONG)], LONG)]
    )
    def test_prompts_are_kept_in_full(self, keys: list[str], text: str, tmp_path: Path) -> None:
        for pressed in (keys, [UP]):
            with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
                assert Typist(pipe, tmp_path / "history").types(*pressed, ENTER) == text

    def test_unwritable_history_is_ignored(self, tmp_path: Path) -> None:
        with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
            assert Typist(pipe, tmp_path).types("word", ENTER) == "word"
