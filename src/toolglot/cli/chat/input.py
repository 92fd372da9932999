"""Read prompts and answers: from a terminal with history, completion and multi-line editing, or from a pipe,
line by line.
"""

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolglot.cli.chat.external_editor import open_in_editor
from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.turn_keys import ESCAPE_SECONDS, DeliverLine, TurnKeys
from toolglot.common.textutil import count_shared, pluralize
from toolglot.errors import UsageError

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.key_binding.key_processor import KeyPress

# A paste of at least this size is shown as a placeholder in the editor, and sent in full.
_LONG_PASTE_LINES = 12
_LONG_PASTE_CHARACTERS = 2_000
_QUIET_SECONDS = 0.1  # without a key before a question can be answered
_NEED_ENTER = frozenset({"always", "mode"})  # the most far-reaching answers: one key is not enough


class EndOfInput(Exception):
    """There is no more input: the user has left."""


class PipeReader:
    """Reads one prompt per line. Waiting for a line never delays the end of the program.

    All methods of both readers raise EndOfInput, and KeyboardInterrupt on Ctrl-C.
    """

    inserted: Sequence[str] = ()
    """Parts of the last prompt that the user did not type: pasted, or recalled."""

    def __init__(self, keyboard: Keyboard, write: Callable[[str], object]) -> None:
        self._keyboard, self._write = keyboard, write
        self._line_number = 0

    async def read(self) -> str:
        """Read the next prompt or command."""
        return await self.read_answer("> " if self._keyboard.is_terminal else "")

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        """Ask for one of several answers, by its first letters; return "" for anything else."""
        text = (await self.read_answer(question)).lower()
        if not self._keyboard.is_terminal:
            self._write("\n")
        return _match_answer(text, answers)

    async def read_answer(self, question: str, default: str = "") -> str:
        """Ask for any text. `default`: what a line editor starts with."""
        if question:
            self._write(question)
        while True:
            line = await _run_in_thread(self._keyboard.file.readline)
            if not line:
                raise EndOfInput
            self._line_number += 1
            try:
                text = line.decode().removeprefix("\ufeff").strip()
            except UnicodeDecodeError:
                raise UsageError(
                    f"line {self._line_number} of the input is not UTF-8 text and was skipped"
                ) from None
            if text:
                return text

    def watch_turn(
        self, on_escape: Callable[[], None], deliver: DeliverLine | None = None
    ) -> AbstractContextManager[None]:
        """During a turn, pass what is typed to the run, or keep it for the next prompt.

        Here the terminal itself keeps it, and knows nothing of Esc.
        """
        return nullcontext()

    def typed_ahead(self) -> list[str]:
        """Return the lines that were typed during the turn; the last one is not finished."""
        return []

    def drop_typeahead(self) -> bool:
        """Do not send what was typed ahead, but keep it for Up; return whether there was any.

        Here the terminal itself discards it on Ctrl-C.
        """
        return False

    def print_above(self, show: Callable[[], None]) -> None:
        """Show something above the line that is being edited, if there is one."""
        show()


def _match_answer(text: str, answers: Sequence[str]) -> str:
    return next((answer for answer in answers if text and answer.startswith(text)), "")


async def _run_in_thread(work: Callable[[], bytes]) -> bytes:
    """Run a blocking read in a daemon thread; an executor's thread would have to be joined at exit."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def target() -> None:
        try:
            data = work()
        except (OSError, ValueError):  # the input was closed
            data = b""
        with suppress(RuntimeError):  # the event loop is closed: nobody waits for this any more
            loop.call_soon_threadsafe(lambda: result.done() or result.set_result(data))

    threading.Thread(target=target, name="toolglot-input", daemon=True).start()
    return await result


class TerminalReader:
    """A line editor.

    `status` returns the line below it, `completions` the words that can end a given text.
    """

    def __init__(
        self,
        keyboard: Keyboard,
        history: Path | None,
        *,
        status: Callable[[], str],
        completions: Callable[[str], Iterable[str]],
    ) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.filters import Always
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.input import create_input
        from prompt_toolkit.layout import BufferControl

        self._keyboard, self._typeahead = keyboard, ""
        self.inserted: list[str] = []
        self._text = ""
        self._turn_keys: TurnKeys | None = None  # while a turn runs
        self._input = create_input(TextIOWrapper(cast(BufferedReader, keyboard.file), encoding="utf-8"))
        self._pastes = PasteFolder()
        self._status = status
        self._session: PromptSession[str] = PromptSession(
            input=self._input,
            history=FileHistory(str(history)) if history is not None else InMemoryHistory(),
            completer=WordCompleter(
                lambda: list(completions(self._session.default_buffer.document.text_before_cursor)), WORD=True
            ),
            complete_while_typing=False,
            key_bindings=_create_bindings(self._pastes.fold),
            multiline=True,
            prompt_continuation="  ",
            enable_open_in_editor=True,
            enable_suspend=True,
        )
        self._session.default_buffer.on_text_changed += self._note_insertion
        # The package would start $EDITOR by its name, and PATH may begin with a directory of the workspace.
        self._session.default_buffer._open_file_in_editor = open_in_editor  # pyright: ignore[reportPrivateUsage]
        # Use only the lines that are needed; by default the editor fills the screen and pushes the toolbar to
        # the bottom.
        for window in self._session.layout.find_all_windows():
            if (
                isinstance(window.content, BufferControl)
                and window.content.buffer is self._session.default_buffer
            ):
                window.dont_extend_height = Always()

    async def read(self) -> str:
        typeahead, self._typeahead = self._typeahead, ""
        self.inserted, self._text = [typeahead], typeahead  # what was typed ahead may have been pasted, too
        text = await self._edit(self._session, "> ", default=typeahead, bottom_toolbar=self._status)
        expanded = self._pastes.expand(text)
        self.inserted += self._pastes.texts
        if expanded != text.strip():
            # Placeholders mean nothing in a later chat, so the history also gets the text that was sent.
            self._session.history.append_string(expanded)
        return expanded

    def _note_insertion(self, buffer: "Buffer") -> None:
        """Remember text that was not typed key by key: a paste, an earlier prompt."""
        old, self._text = self._text, buffer.text
        start = count_shared(old, self._text)
        end = count_shared(old[start:][::-1], self._text[start:][::-1])
        if len(inserted := self._text[start : len(self._text) - end]) > 1:
            self.inserted.append(inserted)

    async def choose(self, question: str, answers: Sequence[str]) -> str:
        from prompt_toolkit.input.typeahead import get_typeahead

        try:
            return _match_answer((await self._ask(question, answers)).lower(), answers)
        finally:
            get_typeahead(self._input)  # drop the rest of "yes" and Enter: the "y" was already accepted

    async def read_answer(self, question: str, default: str = "") -> str:
        return await self._ask(question, default=default)

    async def _ask(self, question: str, answers: Sequence[str] = (), default: str = "") -> str:
        """Ask in an editor of its own, where the first letter of an answer is enough if nothing else was
        typed.
        """
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings

        bindings = KeyBindings()
        session = PromptSession[str](input=self._input, key_bindings=bindings)
        is_empty = Condition(lambda: not session.default_buffer.text)
        for answer in answers:
            if answer in _NEED_ENTER:
                continue

            def accept(event: "KeyPressEvent", answer: str = answer) -> None:
                event.current_buffer.text = answer
                event.app.exit(result=answer)

            for key in (answer[0], answer[0].upper()):
                bindings.add(key, filter=is_empty, eager=True)(accept)
        # A key that was meant for something else must not answer a question that appears just then, nor the
        # rest of a paste.
        _ignore_mouse(bindings)

        @bindings.add("escape", filter=_is_alone(), eager=True)
        def stop(event: "KeyPressEvent") -> None:
            event.app.exit(exception=KeyboardInterrupt)

        with self._pause_turn_keys():
            is_quiet = False
            while not is_quiet:
                self._save_typeahead()
                await asyncio.sleep(_QUIET_SECONDS)
                is_quiet = not self._save_typeahead()
            return (await self._edit(session, question, default=default)).strip()

    async def _edit(self, session: Any, prompt: str, **options: Any) -> str:
        session.app.ttimeoutlen = ESCAPE_SECONDS  # a key that follows an Esc is one of its own
        try:
            return await session.prompt_async(prompt, handle_sigint=False, **options)
        except EOFError:
            raise EndOfInput from None

    @contextmanager
    def watch_turn(
        self, on_escape: Callable[[], None], deliver: DeliverLine | None = None
    ) -> Generator[None]:
        if sys.platform == "win32" or not self._keyboard.is_terminal:
            yield
            return
        keys = self._turn_keys = TurnKeys(self._keyboard, on_escape, deliver)
        keys.start()
        try:
            yield
        finally:
            self._turn_keys = None
            delivered, undelivered = keys.take_back()
            for line in delivered:
                self._session.history.append_string(line)
            self._keep_for_prompt(keys, undelivered)

    @contextmanager
    def _pause_turn_keys(self) -> Generator[None]:
        """Leave the keyboard to a question."""
        if (keys := self._turn_keys) is None:
            yield
            return
        self._keep_for_prompt(keys)
        try:
            yield
        finally:
            if self._turn_keys is keys:
                keys.start()

    def _keep_for_prompt(self, keys: TurnKeys, undelivered: "Iterable[KeyPress]" = ()) -> None:
        from prompt_toolkit.input.typeahead import store_typeahead

        store_typeahead(self._input, [*undelivered, *keys.stop()])

    def typed_ahead(self) -> list[str]:
        return [] if self._turn_keys is None else self._turn_keys.lines()

    def drop_typeahead(self) -> bool:
        text, self._typeahead = self._typeahead + self._take_typed(), ""
        lines = [_keep_printable(line) for line in re.split("[\r\n]", text)]
        for line in filter(str.strip, lines):
            self._session.history.append_string(line)
        return any(lines)

    def print_above(self, show: Callable[[], None]) -> None:
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.application.current import set_app

        if not self._session.app.is_running:
            show()
            return
        with set_app(self._session.app):
            run_in_terminal(show)

    def _save_typeahead(self) -> bool:
        """Keep what was typed before a question appeared: it is not an answer, but the start of the next
        prompt.

        Return whether there was anything.
        """
        typed = self._take_typed()
        self._typeahead += _keep_printable(typed)
        return bool(typed)

    def _take_typed(self) -> str:
        """Return what was typed and not read by an editor."""
        from prompt_toolkit.input.typeahead import get_typeahead

        return "".join(key.data for key in get_typeahead(self._input)) + self._keyboard.read_pending()


def _keep_printable(typed: str) -> str:
    """Return the characters that were typed, without other keys and line ends."""
    text = re.sub(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.|.)?", "", typed)
    return "".join(character for character in text if character.isprintable())


class PasteFolder:
    """Replaces long pastes with placeholders, and placeholders with the pastes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def fold(self, text: str) -> str:
        """Return a short paste unchanged, and a placeholder for a long one."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if text.count("\n") < _LONG_PASTE_LINES and len(text) < _LONG_PASTE_CHARACTERS:
            return text
        self.texts.append(text)
        lines = pluralize(text.removesuffix("\n").count("\n") + 1, "line")
        return f"[pasted text {len(self.texts)}: {lines}]"

    def expand(self, text: str) -> str:
        """Replace the placeholders in a text."""

        def replace(match: re.Match[str]) -> str:
            number = int(match[1])
            return self.texts[number - 1] if 0 < number <= len(self.texts) else match[0]

        return re.sub(r"\[pasted text (\d+): \d+ lines?\]", replace, text).strip()


def _ignore_mouse(bindings: "KeyBindings") -> None:
    """Ignore mouse events: prompt_toolkit mistakes pasted color codes for those of an old terminal."""
    from prompt_toolkit.keys import Keys

    bindings.add(Keys.Vt100MouseEvent)(_ignore_key)


def _ignore_key(event: "KeyPressEvent") -> None:
    pass


def _is_alone() -> "Condition":
    """Whether no key follows, now: Alt-Enter is Esc and Enter in one piece.

    An Esc by itself must not take the next key with it, or "/clear" becomes the prompt "clear".
    """
    from prompt_toolkit.application.current import get_app
    from prompt_toolkit.filters import Condition

    return Condition(lambda: not get_app().key_processor.input_queue)


def _create_bindings(fold_paste: Callable[[str], str]) -> "KeyBindings":
    """Bind Enter (send), Alt-Enter, Ctrl-J and backslash-Enter (new line), and Ctrl-C (clear the line)."""
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.bindings.search import accept_search
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()
    _ignore_mouse(bindings)
    is_editing = ~is_searching  # in a history search (Ctrl-R) these keys accept or leave it

    @bindings.add("enter", filter=is_editing)
    def send(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=is_editing)
    @bindings.add("c-j", filter=is_editing)
    def insert_new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c", filter=is_editing)
    def clear_or_interrupt(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    # Meant for a turn that has just ended.
    bindings.add("escape", filter=is_editing & _is_alone(), eager=True)(_ignore_key)
    bindings.add("right", filter=is_searching)(accept_search)

    @bindings.add(Keys.BracketedPaste)
    def paste(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text(fold_paste(event.data))

    return bindings
