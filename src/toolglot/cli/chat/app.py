"""The chat loop: read a prompt, run a turn, show it, until the user leaves.

Whatever happens in a turn, the chat continues and the conversation stays valid. Ctrl-C stops the turn; at the
prompt, it exits if it is pressed twice within two seconds.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec.structs import replace

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.attachments import complete_mention, find_mentions
from toolglot.cli.chat.approvals import show_approval
from toolglot.cli.chat.commands import COMMANDS, MODES, find_command
from toolglot.cli.chat.forms import answer_form
from toolglot.cli.chat.input import EndOfInput, PipeReader, TerminalReader
from toolglot.cli.chat.keyboard import Keyboard
from toolglot.cli.chat.mcp_servers import ChatServers
from toolglot.cli.chat.questions import parse_answer, show_question
from toolglot.cli.chat.screen import PrintCapture, Screen
from toolglot.cli.chat.spending import Spending
from toolglot.cli.servers import CliServers
from toolglot.cli.styled import Line
from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.common.sanitize import escape_line, shorten
from toolglot.common.textutil import pluralize
from toolglot.config.instructions import Instructions
from toolglot.config.setup import Setup
from toolglot.errors import ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent, compact
from toolglot.loop.attachments import load_attachment
from toolglot.loop.format_call import describe_error
from toolglot.loop.saved_runs import CHANGED_SINCE_SAVED, is_intact
from toolglot.values.approvals import Allow, ApprovalMode, ApprovalRequest, Decision, Deny
from toolglot.values.deliveries import Delivery
from toolglot.values.events import ContextTruncated, RunEvent
from toolglot.values.messages import Media, Text

if TYPE_CHECKING:
    from toolglot.builtin.tools import Builtins

_MAX_EDITED = 300  # characters of arguments that can be edited on a line
_TYPED_ANSWER = 7  # columns for "reason" and the cursor
_EXIT_SECONDS = 2.0  # in which a second Ctrl-C exits


class Chat:
    """One chat: connects the agent, which has the conversation, with the screen and the input."""

    def __init__(
        self,
        setup: Setup,
        agent: Agent,
        screen: Screen,
        reader: PipeReader | TerminalReader,
        keyboard: Keyboard,
        *,
        instructions: Instructions | None = None,
        builtins: "Builtins | None" = None,
        servers: CliServers | None = None,
    ) -> None:
        self.setup = setup
        self.agent = agent
        self.screen = screen
        self.reader = reader
        self.keyboard = keyboard
        screen.typed_ahead = reader.typed_ahead
        screen.list_own_tools = lambda: self.agent.view().own_tools
        self.attachments: list[Text | Media] = []
        # restored if the prompt they were sent with is withdrawn
        self._last_attachments: list[Text | Media] = []
        self._last_mentions: set[Path] = set()  # files that the last prompt mentioned and that were attached
        self._resendable: set[Path] = set()  # those of a withdrawn prompt: it need not be typed again
        self.instructions = instructions or Instructions()
        """The AGENTS.md files and skills in the system prompt."""
        self.mcp = ChatServers(self, servers)
        self.spending = Spending()
        self._builtins = builtins
        self.is_leaving = False
        self._has_failed = False
        self._turn_task: asyncio.Task[Any] | None = None
        self._main_task: asyncio.Task[Any] | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._exits_until = float("-inf")  # when Ctrl-C exits
        self._cancelled_code = 130  # what a program that Ctrl-C or SIGTERM ends returns
        self._context_usage = ""
        # of a model and a version of the tools
        self._tool_counts: tuple[tuple[str, int] | None, tuple[int, int]] = (None, (0, 0))
        self._has_offered_mode = False
        self.question_lock = asyncio.Lock()
        """Held while the user is asked something."""

    def begin_conversation(self) -> None:
        """End everything that the last conversation's tools are still running."""
        if self._builtins is not None:
            self._builtins.begin_conversation()

    async def run(self, first_prompt: str | None = None) -> int:
        """Chat until the user leaves; return the exit code."""
        self._main_task = asyncio.current_task()
        signals = {signal.SIGINT: self._interrupt, signal.SIGTERM: self._terminate}
        with self.keyboard.without_echo(), _handle_signals(signals):
            try:
                self.mcp.show_notices()
                await self.update_context_usage()
                await self.resume_pending()
                if first_prompt:
                    self.screen.note(f"> {shorten(first_prompt, 1000)}")
                    await self._handle_input(first_prompt)
                while not self.is_leaving:
                    await self._read_and_handle()
            except EndOfInput:
                pass
            except asyncio.CancelledError:
                return self._cancelled_code
        # Nobody sees the errors of a script's prompts.
        return 1 if self._has_failed and not self.keyboard.is_terminal else 0

    async def _read_and_handle(self) -> None:
        try:
            text = await self.reader.read()
        except KeyboardInterrupt:
            self.is_leaving = self._is_second_interrupt()
            return
        except ToolglotError as e:
            self.screen.note(str(e), "red")
            return
        if text.strip():
            self._exits_until = float("-inf")
            await self._handle_input(text)

    async def _handle_input(self, text: str) -> None:
        """Run a command, or send a prompt."""
        try:
            if (blocks := await self.mcp.find_prompt(text)) is not None:
                await self._send(blocks)
                return
            if (match := find_command(text)) is not None:
                command, argument = match
                await command.handler(self, argument)
                return
            if text.startswith("//"):  # the text begins with a slash
                text = text[1:]
            text, resources = await self.mcp.read_mentions(text)
            prompt, files = await self._attach_mentions(text)
        except ToolglotError as e:
            self.screen.note(str(e), "red")
            return
        except KeyboardInterrupt:
            self.screen.note("not sent", "dim")
            return
        await self._send([Text(prompt)], [*resources, *files])

    async def _send(self, prompt: list[Text | Media], files: list[Text | Media] | None = None) -> None:
        """Send a prompt with what is attached to it."""
        self._last_attachments = self.attachments
        mentioned = [file for file in files or () if file not in self.attachments]
        files, self.attachments = [*self.attachments, *mentioned], []
        if files:
            # A text file is a text block that starts with its name in brackets.
            names = [
                block.name if isinstance(block, Media) else block.text[1:].partition("]")[0]
                for block in files
            ]
            self.screen.note(f"attached: {', '.join(names)}", "dim")
        self._turn_task = asyncio.create_task(self.mcp.wait())  # Ctrl-C stops it
        await asyncio.wait({self._turn_task})
        await self._run_turn(self.agent.stream([*prompt, *files]))

    async def _attach_mentions(self, text: str) -> tuple[str, list[Text | Media]]:
        """Return a prompt and the files that it mentions.

        Pasted text alone attaches nothing. Raises UsageError.
        """
        prompt = text
        files: list[Text | Media] = []
        resendable, self._resendable = self._resendable, set()
        self._last_mentions = set()
        root = os.path.realpath(os.path.expanduser(self.setup.settings.builtin.root or "."))
        for mention in find_mentions(text):
            path = Path(os.path.realpath(mention.path or ""))
            is_resent = path in resendable
            is_inserted = not is_resent and any(mention.text in inserted for inserted in self.reader.inserted)
            is_outside = not is_resent and not path.is_relative_to(root)
            if is_inserted and not mention.is_prompt:
                if mention.path is not None:
                    self.screen.note(
                        f"{mention.text} was not typed and is not attached: use /attach to send a file",
                        "yellow",
                    )
                continue
            if mention.path is None:
                self.screen.note(f"no such file: {mention.text[1:]!r}; sent as text", "yellow")
                continue
            if (is_inserted or is_outside) and not await self._may_send(path, is_outside=is_outside):
                continue
            files.append(load_attachment(mention.path))
            self._last_mentions.add(path)
            if mention.is_prompt:
                prompt = f"[{mention.path.name}]"
        return prompt, files

    async def _may_send(self, path: Path, *, is_outside: bool) -> bool:
        """Ask the user whether to send a file; without a terminal, it is not sent."""
        place = f"{path}, which is outside the workspace" if is_outside else str(path)
        if self.keyboard.is_terminal:
            return await self.confirm(f"send the file {place}")
        self.screen.note(f"{place} is not attached: use /attach to send it", "yellow")
        return False

    async def confirm(self, question: str) -> bool:
        """Ask the user a yes/no question between two turns; without a terminal, the answer is no."""
        self.screen.print_rows([Line("? ", "bold yellow").append(escape_line(question))])
        return (
            self.keyboard.is_terminal and await self.reader.choose("  y yes · n no: ", ("yes", "no")) == "yes"
        )

    # ---- a turn

    async def _run_turn(self, events: AsyncGenerator[RunEvent], *, is_prompt: bool = True) -> None:
        """Show a turn until it ends, is stopped or fails."""
        length = len(self.agent.conversation)

        async def show_events() -> None:
            async with aclosing(events):
                async for event in events:
                    self.spending.see(event, self.agent.model, self.agent.view().profile.price)
                    self.screen.show_event(event)

        turn = self._turn_task = asyncio.create_task(show_events())
        try:
            with (
                self.keyboard.reserve(),
                self.reader.watch_turn(self._interrupt, self._deliver_line),
                redirect_stdout(PrintCapture(self.screen)),
                self.screen.turn(),
            ):
                await asyncio.wait({turn})
        finally:
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            self._turn_task = None
        await self.update_context_usage()
        if turn.cancelled():
            self.screen.note("stopped; the conversation is valid and can continue", "yellow")
            if self.reader.drop_typeahead():
                self.screen.note("what you typed ahead was not sent; Up brings it back", "dim")
        elif (error := turn.exception()) is not None:
            if not isinstance(error, ToolglotError):
                raise error
            self.screen.note(await describe_error(error, self.agent.view().engine, self.agent.tools), "red")
            # If nothing was answered, remove the prompt, so that the next one does not follow another user
            # message.
            if len(self.agent.conversation) == length + 1 and self.agent.conversation[-1].role == "user":
                self.agent.undo()
            # also if the agent withdrew what a provider rejected
            if is_prompt and len(self.agent.conversation) == length:
                self.attachments, self._resendable = self._last_attachments, self._last_mentions
                hint = ": press Up to edit and resend it" if self.keyboard.has_line_editor else ""
                self.screen.note(f"the prompt was removed from the conversation{hint}", "dim")
            self._has_failed = True

    def _deliver_line(self, text: str) -> Delivery | None:
        """Pass a line that was typed during a turn to the run.

        None if it has to wait for the end of the turn: a command, or a prompt with files.
        """
        is_escaped = text.startswith("//")
        if text.strip() in ("exit", "quit"):
            return None
        if (text.startswith("/") and not is_escaped) or "@" in text or find_mentions(text):
            return None
        delivery = self.agent.deliver(text[1:] if is_escaped else text)
        return None if delivery.state == "refused" else delivery

    async def compact(self) -> ContextTruncated | None:
        """Let the model summarize the conversation; None if there is nothing to summarize.

        Raises ToolglotError.
        """
        task = asyncio.create_task(compact(self.agent))
        self._turn_task = task
        try:
            with self.keyboard.reserve(), self.reader.watch_turn(self._interrupt), self.screen.turn():
                await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._turn_task = None
        if task.cancelled():
            raise UsageError("stopped; the conversation was not summarized")
        return task.result()

    async def approve(self, approval: ApprovalRequest) -> Decision:
        """Ask the user to approve a call."""
        async with self._take_screen():
            if approval.form is not None:
                try:
                    return await answer_form(approval, approval.form, self.screen, self.reader)
                except (EndOfInput, KeyboardInterrupt) as e:
                    self.is_leaving = isinstance(e, EndOfInput)
                    await self._stop_turn()
            is_complete = show_approval(approval, self.screen)
            edited = dumps_text(approval.arguments)
            choices = self._list_choices(approval, edited)
            while True:
                offered = choices if is_complete else {**choices, "show": "s show all"}
                try:
                    match await self.reader.choose(self._offer(offered.values()), tuple(offered)):
                        case "show":
                            is_complete = show_approval(approval, self.screen, show_all=True)
                        case "mode":
                            self.set_mode("sandboxed")
                            return "yes"
                        case "reason":
                            return Deny(await self.reader.read_answer("  reason for the model: "))
                        case "edit":
                            edited = await self.reader.read_answer("  arguments: ", edited)
                            return Allow(self._parse_arguments(approval, edited), ask_again=True)
                        case "":
                            self.screen.note(f"please answer {', '.join(name[0] for name in offered)}", "dim")
                        case answer:
                            return cast(Decision, answer)
                except (EndOfInput, KeyboardInterrupt) as e:
                    self.is_leaving = isinstance(e, EndOfInput)
                    if self.keyboard.has_line_editor or not self.is_leaving:
                        await self._stop_turn()
                    return "no"
                except ToolglotError as e:
                    self.screen.note(str(e), "red")
                    is_complete = show_approval(approval, self.screen)

    def _list_choices(self, approval: ApprovalRequest, edited: str) -> dict[str, str]:
        """Return the answers to a question, and how each is shown. `edited`: the arguments as a line."""
        choices = {"yes": "y yes", "no": "n no", "reason": "r no, with a reason"}
        if not approval.each_time:
            choices["always"] = "a+Enter always for this tool"
        if self._offers_mode(approval):
            self._has_offered_mode = True
            choices["mode"] = "m+Enter sandboxed mode"
            self.screen.note(f"  sandboxed mode: {MODES['sandboxed']} (/mode ask ends it)", "dim")
        if len(edited) <= _MAX_EDITED:
            choices["edit"] = "e edit"
        return choices

    def _offer(self, choices: Iterable[str]) -> str:
        """Return a question with its answers: in two lines, if one has no room for what is typed."""
        choices = list(choices)
        line = f"  {' · '.join(choices)}: "
        if len(line) + _TYPED_ANSWER <= self.screen.console.width:
            return line
        rare = [choice for choice in choices if "+Enter" in choice]
        others = [choice for choice in choices if choice not in rare]
        return f"  {' · '.join(rare)}\n  {' · '.join(others)}: "

    def _offers_mode(self, approval: ApprovalRequest) -> bool:
        """Whether to offer the mode that would not ask about this call: once, at the first such question."""
        if self._has_offered_mode or approval.each_time:
            return False
        tool = self.agent.tools.find(approval.call.name, approval.call.namespace)
        return self.setup.mode_would_allow(tool, self.agent.config, approval.arguments)

    def set_mode(self, mode: ApprovalMode) -> None:
        """Switch to another approval mode, from the next call on and for every model. Raises UsageError."""
        self.setup.check_mode(mode)
        self.setup.adjust_config = lambda config: replace(config, mode=mode)
        self.agent.config = replace(self.agent.config, mode=mode)

    def _parse_arguments(self, approval: ApprovalRequest, text: str) -> dict[str, Any]:
        """Parse arguments that the user changed. Raises UsageError, ToolError."""
        try:
            arguments = loads_object(text.encode())
        except ValueError as e:
            raise UsageError(f"the arguments must be a JSON object: {e}") from None
        call = replace(approval.call, arguments=arguments, raw=None)
        self.agent.tools.get(call.name, call.namespace).bind(call)
        return arguments

    async def answer_questions(self, questions: list[UserQuestion]) -> list[UserAnswer]:
        """Ask the user the questions of a tool."""
        async with self._take_screen():
            return [await self._answer_question(question) for question in questions]

    @asynccontextmanager
    async def _take_screen(self) -> AsyncGenerator[None]:
        """Hold back everything else while the user is asked: other output, and questions from parallel calls."""
        async with self.question_lock:
            with self.screen.pause():
                yield
        self.mcp.show_notices()

    async def _answer_question(self, question: UserQuestion) -> UserAnswer:
        show_question(question, self.screen)
        while True:
            try:
                text = await self.reader.read_answer("  your answer: ")
            except (EndOfInput, KeyboardInterrupt) as e:
                self.is_leaving = isinstance(e, EndOfInput)
                await self._stop_turn()
            if (answer := parse_answer(question, text)) is not None:
                return answer
            self.screen.note("please enter the number of an option, or your own answer", "dim")

    async def _stop_turn(self) -> NoReturn:
        """Cancel the turn from within one of its tools."""
        self._interrupt()
        await asyncio.Event().wait()  # the cancellation arrives here
        raise AssertionError("the turn was cancelled")

    def _interrupt(self) -> None:
        """Handle Ctrl-C: stop the turn. If there is none, exit; on a terminal, only the second time."""
        if self._turn_task is not None and not self._turn_task.done():
            self._turn_task.cancel()
        elif not self.keyboard.is_terminal:
            self._terminate()
        elif self._is_second_interrupt():
            self._cancelled_code = 0  # as at the prompt, which is not there yet
            self._terminate()

    def _is_second_interrupt(self) -> bool:
        """Whether Ctrl-C was pressed at the prompt a moment ago, too; if not, say that a second time exits."""
        now = self.clock()
        if now < self._exits_until:
            return True
        self._exits_until = now + _EXIT_SECONDS
        self.screen.note("press Ctrl-C again to exit", "dim")
        return False

    def _terminate(self) -> None:
        if self._main_task is not None:
            self._main_task.cancel()

    # ---- the conversation

    def restore(self, saved: bytes) -> None:
        """Load a saved conversation. Raises MalformedData."""
        self.agent.restore(saved)
        prompts = [message.text for message in self.agent.conversation if message.role == "user"]
        hint = f"; your last prompt was {shorten(prompts[-1], 60)!r}" if prompts else ""
        self.screen.note(f"loaded {len(self.agent.conversation)} messages{hint}", "green")
        if self.agent.has_pending_run and not is_intact(saved):
            self.screen.note(f"! {CHANGED_SINCE_SAVED}: check carefully what it wants to run", "bold red")

    async def resume_pending(self) -> None:
        """Resume a run that waits for approvals."""
        if self.agent.has_pending_run:
            await self._run_turn(self.agent.resume_stream(), is_prompt=False)

    async def update_context_usage(self) -> None:
        """Measure the context window for the status line."""
        self.screen.is_simulated = self.agent.model.startswith("simulator")
        usage = await self.agent.context_usage()
        share = f" of {usage.budget:,}: {usage.total / usage.budget:.0%}" if usage.budget else ""
        self._context_usage = f" · {usage.total:,} tokens{share}"

    # ---- for the line editor

    def status(self) -> str:
        """Return the status line below the editor."""
        mode = " · sandboxed" if self.agent.config.mode == "sandboxed" else ""
        tools, hidden = self._count_tools()
        note = f" · {pluralize(hidden, 'tool')} hidden" if hidden else ""
        line = f" {self.agent.model}{mode} · {pluralize(tools, 'tool')}{self._context_usage}{note}"
        if len(line) > self.screen.console.width:  # a narrow terminal shows only the beginning
            return f" {self.agent.model}{mode}{self._context_usage}"
        return line

    def _count_tools(self) -> tuple[int, int]:
        """Return how many tools the model has, and how many it has not because its facade hides them."""
        key = (self.agent.model, self.agent.tools.version)
        if self._tool_counts[0] != key:  # the line is drawn at every key
            model_view = self.agent.view().model_view
            allowed = [tool for tool in self.agent.tools if model_view.is_allowed(tool.name)]
            count = sum(bool(model_view.names_for(tool)) for tool in allowed)
            self._tool_counts = (key, (count, len(allowed) - count))
        return self._tool_counts[1]

    def completions(self, text: str) -> Iterable[str]:
        """Return the words that can stand at the end of a line."""
        name, space, argument = text.removeprefix("/").partition(" ")
        if not text.startswith("/") or "\n" in text:
            return [*self.mcp.completions(text), *complete_mention(text)]
        if not space:
            return [*(f"/{name}" for name in COMMANDS), *self.mcp.completions(text)]
        command = COMMANDS.get(name)
        return command.completions(self, argument) if command and command.completions else ()


@contextmanager
def _handle_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """Call functions in the event loop when signals arrive."""
    loop = asyncio.get_running_loop()

    def dispatch(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(handlers[signal.Signals(number)])

    previous = {number: signal.signal(number, dispatch) for number in handlers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
