"""`toolglot chat`: reads, asks, shows, until the user leaves.

Laws: whatever happens in a turn, the chat goes on and the conversation is valid. Ctrl-C stops the turn; a second one, with
nothing said in between, leaves. Nothing is decided here: the agent has the conversation, the screen draws it.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager, redirect_stdout
from typing import Any, TextIO, cast

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.attachments import extract_attachments, find_missing_files
from toolglot.cli.chat import approvals as approving
from toolglot.cli.chat import questions as asking
from toolglot.cli.chat.commands import COMMANDS, find_command
from toolglot.cli.chat.input import EndOfInput, InputReader
from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.screen import PrintCapture, Screen
from toolglot.cli.sanitize import shorten
from toolglot.config.setup import Setup
from toolglot.engine.model_list import describe_error
from toolglot.errors import ToolglotError
from toolglot.events import RunEvent
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Block
from toolglot.tools.executor import ApprovalAnswer, ApprovalRequest

__all__ = ["Chat"]

_EXIT_OK = 0
_EXIT_INTERRUPTED = 130


class Chat:
    """One chat."""

    def __init__(self, setup: Setup, agent: Orchestrator, screen: Screen, reader: InputReader, keyboard: Keyboard) -> None:
        self.setup, self.agent, self.screen, self.reader, self.keyboard = setup, agent, screen, reader, keyboard
        self.attachments: list[Block] = []
        self._last_attachments: list[Block] = []  # with the last prompt: back again if it is taken back
        self.is_leaving = False
        self._turn_task: asyncio.Task[None] | None = None
        self._main_task: asyncio.Task[Any] | None = None
        self._was_interrupted = False  # Ctrl-C was the last thing that the user did
        self._context_usage = ""

    # ---- the loop

    async def run(self, first_prompt: str | None = None) -> int:
        """Until the user leaves; the exit code."""
        self._main_task = asyncio.current_task()
        with _handle_signals({signal.SIGINT: self._interrupt, signal.SIGTERM: self._terminate}):
            try:
                await self.update_context_usage()
                await self.resume_pending()
                if first_prompt:
                    self.screen.note(f"> {shorten(first_prompt, 1000)}")
                    await self._handle_input(first_prompt)
                while not self.is_leaving:
                    await self._read_and_handle()
                return _EXIT_OK
            except EndOfInput:
                return _EXIT_OK
            except asyncio.CancelledError:
                return _EXIT_INTERRUPTED

    async def _read_and_handle(self) -> None:
        try:
            text = await self.reader.read()
        except KeyboardInterrupt:
            if self._was_interrupted:
                self.is_leaving = True
            else:
                self._was_interrupted = True
                self.screen.note("Ctrl-C again leaves", "dim")
            return
        except ToolglotError as e:
            self.screen.error(str(e))
            return
        if text.strip():
            self._was_interrupted = False
            await self._handle_input(text)

    async def _handle_input(self, text: str) -> None:
        """The user said something: a command, or a prompt."""
        try:
            command = find_command(text)
            if command is not None:
                found, argument = command
                await found.handler(self, argument)
                return
            text = text[1:] if text.startswith("//") else text
            words, files = extract_attachments(text)
        except ToolglotError as e:
            self.screen.error(str(e))
            return
        for word in find_missing_files(text):
            self.screen.note(f"there is no file {word!r}: it goes as text", "yellow")
        self._last_attachments = self.attachments
        files, self.attachments = [*self.attachments, *files], []
        if files:
            self.screen.note(f"attached: {', '.join(map(_attachment_name, files))}", "dim")
        await self._run_turn(self.agent.stream([words, *files] if files else words))

    # ---- a turn

    async def _run_turn(self, events: AsyncGenerator[RunEvent]) -> None:
        """Shows a turn until it is over, stopped or failed."""
        length = len(self.agent.conversation)
        self._turn_task = asyncio.create_task(self._show_events(events))
        try:
            with self.keyboard.reserve(), redirect_stdout(cast(TextIO, PrintCapture(self.screen))), self.screen.turn():
                await asyncio.wait({self._turn_task})
        finally:
            self._turn_task.cancel()
            await asyncio.gather(self._turn_task, return_exceptions=True)
            done, self._turn_task = self._turn_task, None
        await self.update_context_usage()
        if done.cancelled():
            self.screen.note("stopped; the conversation is valid, go on as you like", "yellow")
        elif (error := done.exception()) is not None:
            if not isinstance(error, ToolglotError):
                raise error
            self._report_failure(await describe_error(error, self.agent.engine), length)

    async def _show_events(self, events: AsyncGenerator[RunEvent]) -> None:
        async with aclosing(events):
            async for event in events:
                self.screen.show_event(event)

    def _report_failure(self, message: str, length: int) -> None:
        """A turn of which nothing came is taken back: the next one begins where it began."""
        self.screen.error(message)
        if len(self.agent.conversation) == length + 1 and self.agent.conversation[-1].role == "user":
            self.agent.undo()
            self.attachments = self._last_attachments
            self.screen.note("the prompt was taken back", "dim")

    async def approve(self, approval: ApprovalRequest) -> ApprovalAnswer:
        """Asks the user about a call."""
        answers = ("yes", "no", "always")
        with self.screen.pause():
            whole = approving.show_approval(approval, self.screen)
            while True:
                extra = () if whole else ("show",)
                try:
                    said = await self.reader.choose(_approval_prompt(extra), (*answers, *extra))
                except (EndOfInput, KeyboardInterrupt) as gone:
                    self.is_leaving, said = isinstance(gone, EndOfInput), "no"
                    if self.keyboard.has_line_editor or not self.is_leaving:
                        self._interrupt()
                        await asyncio.sleep(3600)  # the turn is being cancelled: this is where it ends
                except ToolglotError:
                    said = ""
                if said == "show":
                    whole = approving.show_approval(approval, self.screen, show_all=True)
                elif said:
                    break
                else:
                    self.screen.note("please answer y, n or a", "dim")
        return "yes" if said == "yes" else "always" if said == "always" else "no"

    async def answer_questions(self, questions: list[UserQuestion]) -> list[UserAnswer]:
        """Puts a tool's questions to the user."""
        with self.screen.pause():
            return [await self._answer_question(question) for question in questions]

    async def _answer_question(self, question: UserQuestion) -> UserAnswer:
        asking.show_question(question, self.screen)
        while True:
            try:
                said = await self.reader.read_answer("  your answer: ")
            except (EndOfInput, KeyboardInterrupt) as gone:
                self.is_leaving = isinstance(gone, EndOfInput)
                self._interrupt()
                await asyncio.sleep(3600)  # the turn is being cancelled: this is where it ends
                said = ""
            if (found := asking.parse_answer(question, said)) is not None:
                return found
            self.screen.note("please give the number of an option, or your own words", "dim")

    def _interrupt(self) -> None:
        """Ctrl-C: the turn ends; where there is none, the chat does, on a terminal the second time."""
        before, self._was_interrupted = self._was_interrupted, True
        if self._turn_task is not None and not self._turn_task.done():
            self._turn_task.cancel()
        elif self.keyboard.is_terminal and not before:
            self.screen.note("Ctrl-C again leaves", "dim")
        else:
            self._terminate()

    def _terminate(self) -> None:
        """Somebody wants it to be over."""
        if self._main_task is not None:
            self._main_task.cancel()

    # ---- the conversation

    def restore(self, saved: bytes) -> None:
        """Goes on with a saved conversation. Raises MalformedData."""
        self.agent.restore(saved)
        last = next((one for one in reversed(self.agent.conversation) if one.role == "user"), None)
        said = f"; you said last: {shorten(last.text, 60)!r}" if last else ""
        self.screen.note(f"loaded {len(self.agent.conversation)} messages{said}", "green")

    async def resume_pending(self) -> None:
        """Goes on with a run that waits for approvals."""
        if self.agent.has_pending_run:
            await self._run_turn(self.agent.resume_stream())

    async def update_context_usage(self) -> None:
        """How full the model's memory is, for the line below the editor."""
        self.screen.is_simulated = self.agent.model.startswith("simulator")
        measured = await self.agent.context_usage()
        of = f" of {measured.budget:,}: {measured.total / measured.budget:.0%}" if measured.budget else ""
        self._context_usage = f" · {measured.total:,} tokens{of}"

    # ---- for the line editor

    def status(self) -> str:
        """What stands below the line."""
        return f" {self.agent.model} · {len(self.agent.registry)} tools{self._context_usage}"

    def completions(self, text: str) -> Iterable[str]:
        """What may stand where the cursor is."""
        if " " not in text:
            return [f"/{name}" for name in COMMANDS]
        try:
            found = find_command(text)
        except ToolglotError:
            return ()
        return found[0].completions(self) if found and found[0].completions else ()


def _approval_prompt(extra: tuple[str, ...]) -> str:
    return f"  y yes · n no · a always for this tool{' · s show all' if extra else ''}: "


def _attachment_name(block: Any) -> str:
    return getattr(block, "name", "") or str(getattr(block, "text", ""))[1:].partition("]")[0] or "file"


@contextmanager
def _handle_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """Signals call functions in the event loop while this lasts."""
    loop = asyncio.get_running_loop()

    def told(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(handlers[signal.Signals(number)])

    before = {number: signal.signal(number, told) for number in handlers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
