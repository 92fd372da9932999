"""`toolglot chat`: reads, asks, shows, until the user leaves.

Laws: whatever happens in a turn, the chat goes on and the conversation is valid. Ctrl-C stops the turn; a second one, with
nothing said in between, leaves. Nothing is decided here: the agent has the conversation, the screen draws it.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager, redirect_stdout
from typing import Any, TextIO, cast

from toolglot.builtin.toolbox import Answer, Question
from toolglot.cli.attach import attached_in, missing_in
from toolglot.cli.chat import approving, asking
from toolglot.cli.chat.commands import COMMANDS, find_command
from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.reading import EndOfInput, Reader
from toolglot.cli.chat.screen import Noise, Screen
from toolglot.cli.visible import shortened
from toolglot.config.setup import Setup
from toolglot.engine.listing import said_of
from toolglot.errors import ToolglotError
from toolglot.events import RunEvent
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Block
from toolglot.tools.executor import Approval, ApprovalAnswer

__all__ = ["Chat"]

_LEFT = 0
_INTERRUPTED = 130


class Chat:
    """One chat."""

    def __init__(self, setup: Setup, agent: Orchestrator, screen: Screen, reader: Reader, keyboard: Keyboard) -> None:
        self.setup, self.agent, self.screen, self.reader, self.keyboard = setup, agent, screen, reader, keyboard
        self.attachments: list[Block] = []
        self._given: list[Block] = []  # with the last prompt: back again if it is taken back
        self.leaving = False
        self._turn: asyncio.Task[None] | None = None
        self._main: asyncio.Task[Any] | None = None
        self._stopped = False  # Ctrl-C was the last thing that the user did
        self._fullness = ""

    # ---- the loop

    async def run(self, first: str | None = None) -> int:
        """Until the user leaves; the exit code."""
        self._main = asyncio.current_task()
        with _signals({signal.SIGINT: self._interrupted, signal.SIGTERM: self._ended}):
            try:
                await self.measure()
                await self.go_on()
                if first:
                    self.screen.note(f"> {shortened(first, 1000)}")
                    await self._said(first)
                while not self.leaving:
                    await self._next()
                return _LEFT
            except EndOfInput:
                return _LEFT
            except asyncio.CancelledError:
                return _INTERRUPTED

    async def _next(self) -> None:
        try:
            text = await self.reader.read()
        except KeyboardInterrupt:
            if self._stopped:
                self.leaving = True
            else:
                self._stopped = True
                self.screen.note("Ctrl-C again leaves", "dim")
            return
        except ToolglotError as e:
            self.screen.error(str(e))
            return
        if text.strip():
            self._stopped = False
            await self._said(text)

    async def _said(self, text: str) -> None:
        """The user said something: a command, or a prompt."""
        try:
            command = find_command(text)
            if command is not None:
                found, argument = command
                await found.do(self, argument)
                return
            text = text[1:] if text.startswith("//") else text
            words, files = attached_in(text)
        except ToolglotError as e:
            self.screen.error(str(e))
            return
        for word in missing_in(text):
            self.screen.note(f"there is no file {word!r}: it goes as text", "yellow")
        self._given = self.attachments
        files, self.attachments = [*self.attachments, *files], []
        if files:
            self.screen.note(f"attached: {', '.join(map(_named, files))}", "dim")
        await self._play(self.agent.stream([words, *files] if files else words))

    # ---- a turn

    async def _play(self, events: AsyncGenerator[RunEvent]) -> None:
        """Shows a turn until it is over, stopped or failed."""
        length = len(self.agent.conversation)
        self._turn = asyncio.create_task(self._show(events))
        try:
            with self.keyboard.kept(), redirect_stdout(cast(TextIO, Noise(self.screen))), self.screen.turn():
                await asyncio.wait({self._turn})
        finally:
            self._turn.cancel()
            await asyncio.gather(self._turn, return_exceptions=True)
            done, self._turn = self._turn, None
        await self.measure()
        if done.cancelled():
            self.screen.note("stopped; the conversation is valid, go on as you like", "yellow")
        elif (error := done.exception()) is not None:
            if not isinstance(error, ToolglotError):
                raise error
            self._failed(await said_of(error, self.agent.engine), length)

    async def _show(self, events: AsyncGenerator[RunEvent]) -> None:
        async with aclosing(events):
            async for event in events:
                self.screen.event(event)

    def _failed(self, why: str, length: int) -> None:
        """A turn of which nothing came is taken back: the next one begins where it began."""
        self.screen.error(why)
        if len(self.agent.conversation) == length + 1 and self.agent.conversation[-1].role == "user":
            self.agent.undo()
            self.attachments = self._given
            self.screen.note("the prompt was taken back", "dim")

    async def approve(self, approval: Approval) -> ApprovalAnswer:
        """Asks the user about a call."""
        answers = ("yes", "no", "always")
        with self.screen.paused():
            whole = approving.show(approval, self.screen)
            while True:
                extra = () if whole else ("show",)
                try:
                    said = await self.reader.ask(_question(extra), (*answers, *extra))
                except (EndOfInput, KeyboardInterrupt) as gone:
                    self.leaving, said = isinstance(gone, EndOfInput), "no"
                    if self.keyboard.edits or not self.leaving:
                        self._interrupted()
                        await asyncio.sleep(3600)  # the turn is being cancelled: this is where it ends
                except ToolglotError:
                    said = ""
                if said == "show":
                    whole = approving.show(approval, self.screen, whole=True)
                elif said:
                    break
                else:
                    self.screen.note("please answer y, n or a", "dim")
        return "yes" if said == "yes" else "always" if said == "always" else "no"

    async def answer(self, questions: list[Question]) -> list[Answer]:
        """Puts a tool's questions to the user."""
        with self.screen.paused():
            return [await self._answered(question) for question in questions]

    async def _answered(self, question: Question) -> Answer:
        asking.show(question, self.screen)
        while True:
            try:
                said = await self.reader.answer("  your answer: ")
            except (EndOfInput, KeyboardInterrupt) as gone:
                self.leaving = isinstance(gone, EndOfInput)
                self._interrupted()
                await asyncio.sleep(3600)  # the turn is being cancelled: this is where it ends
                said = ""
            if (found := asking.understood(question, said)) is not None:
                return found
            self.screen.note("please give the number of an option, or your own words", "dim")

    def _interrupted(self) -> None:
        """Ctrl-C: the turn ends; where there is none, the chat does, on a terminal the second time."""
        before, self._stopped = self._stopped, True
        if self._turn is not None and not self._turn.done():
            self._turn.cancel()
        elif self.keyboard.is_terminal and not before:
            self.screen.note("Ctrl-C again leaves", "dim")
        else:
            self._ended()

    def _ended(self) -> None:
        """Somebody wants it to be over."""
        if self._main is not None:
            self._main.cancel()

    # ---- the conversation

    def restore(self, saved: bytes) -> None:
        """Goes on with a saved conversation. Raises MalformedData."""
        self.agent.restore(saved)
        last = next((one for one in reversed(self.agent.conversation) if one.role == "user"), None)
        said = f"; you said last: {shortened(last.text, 60)!r}" if last else ""
        self.screen.note(f"loaded {len(self.agent.conversation)} messages{said}", "green")

    async def go_on(self) -> None:
        """Goes on with a run that waits for approvals."""
        if self.agent.pending:
            await self._play(self.agent.resume_stream())

    async def measure(self) -> None:
        """How full the model's memory is, for the line below the editor."""
        self.screen.simulated = self.agent.model.startswith("simulator")
        measured = await self.agent.measured()
        of = f" of {measured.budget:,}: {measured.total / measured.budget:.0%}" if measured.budget else ""
        self._fullness = f" · {measured.total:,} tokens{of}"

    # ---- for the line editor

    def status(self) -> str:
        """What stands below the line."""
        return f" {self.agent.model} · {len(self.agent.registry)} tools{self._fullness}"

    def completions(self, text: str) -> Iterable[str]:
        """What may stand where the cursor is."""
        if " " not in text:
            return [f"/{name}" for name in COMMANDS]
        try:
            found = find_command(text)
        except ToolglotError:
            return ()
        return found[0].words(self) if found and found[0].words else ()


def _question(extra: tuple[str, ...]) -> str:
    return f"  y yes · n no · a always for this tool{' · s show all' if extra else ''}: "


def _named(block: Any) -> str:
    return getattr(block, "name", "") or str(getattr(block, "text", ""))[1:].partition("]")[0] or "file"


@contextmanager
def _signals(deeds: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """Signals call functions in the event loop while this lasts."""
    loop = asyncio.get_running_loop()

    def told(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(deeds[signal.Signals(number)])

    before = {number: signal.signal(number, told) for number in deeds}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
