"""Where a chat's words come from: a terminal with history, completion and many lines, or a pipe with a prompt a line."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolglot.cli.chat.keyboard import Keyboard
from toolglot.errors import UsageError

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

__all__ = ["EndOfInput", "InputReader", "PipeReader", "TerminalReader"]

_LONG_PASTE_LINES = 12  # lines of a paste that are not shown but kept
_LONG_PASTE_CHARACTERS = 2_000


class EndOfInput(Exception):
    """The user has left."""


class InputReader(Protocol):
    """Reads what the user says. Both raise EndOfInput; Ctrl-C is KeyboardInterrupt."""

    async def read(self) -> str:
        """The next thing the user says."""
        ...

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        """One of some answers; their first letters are enough."""
        ...

    async def read_answer(self, question: str) -> str:
        """Whatever the user answers."""
        ...


class PipeReader:
    """One prompt a line. Waiting for a line holds up nothing else, not even the end of the program."""

    def __init__(self, keyboard: Keyboard, write: Callable[[str], object]) -> None:
        self._keyboard, self._write = keyboard, write
        self._line_number = 0

    async def read(self) -> str:
        if self._keyboard.is_terminal:
            self._write("> ")
        return await self._read_line()

    async def _read_line(self) -> str:
        while True:
            line = await _run_in_thread(self._keyboard.file.readline)
            if not line:
                raise EndOfInput
            self._line_number += 1
            try:
                text = line.decode().removeprefix("\ufeff").strip()
            except UnicodeDecodeError:
                raise UsageError(f"line {self._line_number} of the input is not UTF-8 text; it was left out") from None
            if text:
                return text

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        self._write(question)
        said = (await self._read_line()).lower()
        if not self._keyboard.is_terminal:
            self._write("\n")
        return next((answer for answer in answers if said and answer.startswith(said)), "")

    async def read_answer(self, question: str) -> str:
        self._write(question)
        return await self._read_line()


async def _run_in_thread(work: Callable[[], bytes]) -> bytes:
    """Waits for something in a thread that nobody has to wait for at the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def body() -> None:
        try:
            value = work()
        except (OSError, ValueError):  # whoever typed is gone
            value = b""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(value))

    threading.Thread(target=body, name="toolglot-input", daemon=True).start()
    return await done


class TerminalReader:
    """A line editor. `status`: what stands below the line; `words`: what a line may begin with, and what may follow."""

    def __init__(
        self,
        keyboard: Keyboard,
        history: Path | None,
        *,
        status: Callable[[], str],
        completions: Callable[[str], Iterable[str]],
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.input import create_input

        self._keyboard, self._typeahead = keyboard, ""
        self._input = create_input(TextIOWrapper(cast(BufferedReader, keyboard.file), encoding="utf-8"))
        kept = FileHistory(str(history)) if history is not None else InMemoryHistory()
        self._pastes: list[str] = []
        self._status = status
        self._session: PromptSession[str] = PromptSession(
            input=self._input,
            history=kept,
            completer=_create_completer(completions),
            complete_while_typing=False,
            key_bindings=_create_bindings(self._fold_paste),
            multiline=True,
            prompt_continuation="  ",
            enable_open_in_editor=True,
            enable_suspend=True,
        )
        _limit_editor_height(self._session)

    async def read(self) -> str:
        ahead, self._typeahead = self._typeahead, ""
        try:
            text = await self._session.prompt_async("> ", default=ahead, bottom_toolbar=self._toolbar, handle_sigint=False)
        except EOFError:
            raise EndOfInput from None
        whole = self._expand_pastes(text)
        if whole != text.strip():
            self._add_to_history(whole)
        return whole

    def _add_to_history(self, text: str) -> None:
        """The history has what was sent, not how it was folded: the numbers mean nothing the next time."""
        history = self._session.history
        history.append_string(text)

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings

        self._save_typeahead()
        bindings = KeyBindings()
        _ignore_mouse(bindings)
        for answer in answers:

            def take(event: "KeyPressEvent", answer: str = answer) -> None:
                event.current_buffer.text = answer
                event.app.exit(result=answer)

            bindings.add(answer[0], eager=True)(take)
        asking: PromptSession[str] = PromptSession(input=self._input, key_bindings=bindings)
        try:
            said = (await asking.prompt_async(question, handle_sigint=False)).strip().lower()
        except EOFError:
            raise EndOfInput from None
        finally:
            self._discard_typeahead()
        return next((answer for answer in answers if said and answer.startswith(said)), "")

    def _discard_typeahead(self) -> None:
        """Who types `yes` and Enter has said nothing more than `y`."""
        from prompt_toolkit.input.typeahead import get_typeahead

        get_typeahead(self._input)

    async def read_answer(self, question: str) -> str:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings

        self._save_typeahead()
        bindings = KeyBindings()
        _ignore_mouse(bindings)
        asking: PromptSession[str] = PromptSession(input=self._input, key_bindings=bindings)
        try:
            return (await asking.prompt_async(question, handle_sigint=False)).strip()
        except EOFError:
            raise EndOfInput from None

    def _save_typeahead(self) -> None:
        """What was typed before a question was seen is no answer to it: the next prompt gets it."""
        from prompt_toolkit.input.typeahead import get_typeahead

        typed = "".join(key.data for key in get_typeahead(self._input)) + self._keyboard.read_pending()
        typed = re.sub(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.|.)?", "", typed)
        self._typeahead += "".join(one for one in typed if one.isprintable())

    def _toolbar(self) -> str:
        return self._status()

    def _fold_paste(self, text: str) -> str:
        """A long paste is kept and only named, so that the line stays readable."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text.count("\n") < _LONG_PASTE_LINES and len(text) < _LONG_PASTE_CHARACTERS:
            return text
        self._pastes.append(text)
        lines = text.count("\n") + 1
        return f"[pasted text {len(self._pastes)}: {lines} line{'s' if lines > 1 else ''}]"

    def _expand_pastes(self, text: str) -> str:
        def whole(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._pastes[number - 1] if 0 < number <= len(self._pastes) else found[0]

        return re.sub(r"\[pasted text (\d+): \d+ lines?\]", whole, text).strip()


def _limit_editor_height(session: Any) -> None:
    """The line editor takes the lines that it needs, and no more: what is below it stays near."""
    from prompt_toolkit.filters import Always
    from prompt_toolkit.layout import BufferControl

    for window in session.layout.find_all_windows():
        if isinstance(window.content, BufferControl) and window.content.buffer is session.default_buffer:
            window.dont_extend_height = Always()


def _ignore_mouse(keys: "KeyBindings") -> None:
    """Codes of colours are read as an old terminal's mouse, which is not used here: they mean nothing."""
    from prompt_toolkit.keys import Keys

    @keys.add(Keys.Vt100MouseEvent)
    def nothing(event: "KeyPressEvent") -> None:
        pass


def _create_bindings(fold_paste: Callable[[str], str]) -> Any:
    """Enter sends; Alt-Enter, Ctrl-J or a backslash before Enter begin a new line; Ctrl-C empties the line."""
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    keys = KeyBindings()
    _ignore_mouse(keys)

    @keys.add("enter")
    def send(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def stop(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add(Keys.BracketedPaste)
    def paste(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text(fold_paste(event.data))

    return keys


def _create_completer(completions: Callable[[str], Iterable[str]]) -> Any:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            text = document.text_before_cursor
            last = text.rpartition(" ")[2] if " " in text else text
            for word in completions(text):
                if word.startswith(last):
                    yield Completion(word, start_position=-len(last))

    return Words()
