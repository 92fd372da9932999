"""One session in an editor: an agent and its conversation, which is saved continuously."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from acp.exceptions import RequestError
from acp.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    Cost,
    CurrentModeUpdate,
    PermissionOption,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionInfoUpdate,
    Usage,
    UsageUpdate,
)
from msgspec.structs import replace

from toolglot.acp.commands import find_command, list_commands
from toolglot.acp.connection import EditorConnection
from toolglot.acp.content import ContentBlock, read_prompt
from toolglot.acp.file_watch import FileWatch
from toolglot.acp.modes import DEFAULT_EFFORT, DEFAULT_MODE, EFFORTS, MODES, SANDBOXED, config_options
from toolglot.acp.presenter import RunPresenter
from toolglot.acp.questions import fill_form, has_forms
from toolglot.acp.session_store import SessionFile, SessionInfo, SessionStore
from toolglot.acp.tool_calls import describe_question
from toolglot.builtin.tools import Builtins
from toolglot.common.sanitize import shorten
from toolglot.config.instructions import Instructions
from toolglot.config.setup import Setup
from toolglot.engine.engine import Engine
from toolglot.errors import ToolglotError, UnknownName, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.format_call import describe_error, describe_losses, describe_stop
from toolglot.tools.calls import base_call
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, ApprovalRequest, Decision, Deny
from toolglot.values.deliveries import Delivery
from toolglot.values.events import ReplyStarted, RunDone, RunResult, RunStop
from toolglot.values.losses import Loss
from toolglot.values.messages import Media, Text, ToolCall, user
from toolglot.values.request import Effort, Options

if TYPE_CHECKING:
    from toolglot.mcp.client.client import McpServers

__all__ = ["AgentParts", "EditorSession"]

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
_STOP_REASONS: dict[RunStop, StopReason] = {
    "end": "end_turn",
    "length": "max_tokens",
    "refusal": "refusal",
    "filtered": "refusal",
    "max_iterations": "max_turn_requests",
    "budget": "max_turn_requests",
    "timeout": "max_turn_requests",
    "interrupted": "cancelled",
}
_MAX_SESSION_TITLE = 80
BUFFER_SECONDS = 5.0
"""Maximum time for an editor to return a buffer."""


class AgentParts(msgspec.Struct, kw_only=True):
    """A session's agent, and what belongs to it."""

    agent: Agent
    setup: Setup
    require_key: Callable[[Engine], None]
    """Raises UsageError if a request to a model would fail because there is no key."""
    models: tuple[str, ...] = ()
    """Models to choose from in the editor."""
    builtins: Builtins | None = None
    instructions: Instructions = Instructions()
    servers: "McpServers | None" = None
    """The MCP servers, which may still be starting."""
    notices: list[str] = []
    """Notes for the user."""
    close: Callable[[], None] = lambda: None


class EditorSession:
    """One conversation in an editor."""

    def __init__(self, info: SessionInfo, editor: EditorConnection, store: SessionStore) -> None:
        self.info, self._editor = info, editor
        self.mode = info.mode if info.mode in MODES else DEFAULT_MODE
        self.effort = info.effort if info.effort in EFFORTS else DEFAULT_EFFORT

        def find_tool(call: ToolCall) -> Tool | None:
            return self.agent.tools.find(call.name, call.namespace)

        self.files = FileWatch(find_tool, self._read_buffer)
        self.presenter = RunPresenter(
            self.send,
            find_tool,
            lambda call: base_call(self.agent.view().model_view.interpret(call)),
            self.files,
            os.path.realpath(info.cwd),
        )
        self._task: asyncio.Task[RunResult | None] | None = None
        self._is_cancelled = False
        self._turns = asyncio.Lock()  # held while a prompt runs; the others wait in the order they came
        self._waiting: list[Delivery | None] = []  # for their turn, or for the run that they have joined
        self._cancel_count = 0
        self._last_stop: StopReason | None = None  # of the last turn; None: it has failed
        self._asking = asyncio.Lock()
        self._shown_losses: set[Loss] = set()
        self._loop = asyncio.get_running_loop()
        self._notices: list[str] = []
        self._told: set[str] = set()
        self._file = SessionFile(store, info, self.notify)
        self._is_ready = False  # whether the session has waited for the MCP servers

    def start(self, parts: AgentParts, saved: bytes | None = None) -> None:
        """Start with an agent, created with the session's `approve` and `files`, and its conversation.

        Raises MalformedData.
        """
        self.parts, self.agent, builtins = parts, parts.agent, parts.builtins
        self._notices += parts.notices
        self.files.workspace = builtins.state.workspace if builtins is not None else None
        self._root = str(builtins.state.workspace.root) if builtins is not None else self.info.cwd
        self._choose_first_mode()
        # Set in the setup, so that they persist when the model or the tools change.
        parts.setup.adjust_config = lambda config: MODES[self.mode].apply(config, self.agent.tools)
        parts.setup.adjust_options = self._adjust_options
        self._apply_choices()
        if saved is not None:
            self.agent.restore(saved)
            self._file.mark_saved(*self._snapshot())

    def _choose_first_mode(self) -> None:
        """A new session starts in the configured mode; a loaded one in its own, if a sandbox still works."""
        setup = self.parts.setup
        if not self.info.mode:
            self.mode = setup.settings.policy.mode
        elif self.mode == SANDBOXED:
            try:
                setup.check_mode(self.mode)
            except UsageError as e:
                self.mode = DEFAULT_MODE
                self._notices.append(f"{e}; the session now asks")

    async def close(self, *, save: bool = True) -> None:
        """End the session: its prompt, commands and connections. Afterwards it may be deleted or reopened."""
        self.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if save:
            await self.save()
        self._file.close()
        await self.agent.aclose()
        await asyncio.to_thread(self.parts.close)

    async def send(self, update: Any) -> None:
        """Send an update."""
        await self._editor.update(self.info.id, update)

    # ---- prompts

    async def prompt(self, blocks: list[ContentBlock]) -> PromptResponse:
        """Run a prompt to its end, or until it is cancelled. Raises ToolglotError.

        During another prompt, it is passed to that one's run, and ends with it. If the run does not take it,
        it is run next.
        """
        content = read_prompt(blocks)
        if not any(not isinstance(block, Text) or block.text.strip() for block in content):
            raise UsageError("the prompt is empty")
        delivery, cancel_count = self._deliver(content), self._cancel_count
        self._waiting.append(delivery)
        try:
            await self._turns.acquire()
        finally:
            if delivery is not None:
                delivery.withdraw()  # if the connection is gone
            # not `remove`, as None is there several times
            self._waiting.pop(next(n for n, item in enumerate(self._waiting) if item is delivery))
        try:
            if cancel_count != self._cancel_count:
                return PromptResponse(stop_reason="cancelled")
            if delivery is None or delivery.state != "delivered":
                self._last_stop = None
                response = await self._run_turn(content)
                self._last_stop = response.stop_reason
                return response
            if self._last_stop is None:
                raise UsageError("the turn that this prompt has joined has failed: see its error")
            return PromptResponse(stop_reason=self._last_stop)
        finally:
            self._turns.release()

    def _deliver(self, content: list[Text | Media]) -> Delivery | None:
        """Pass a prompt to the run in progress; None if there is none, or if it must wait for its end: a
        command, or a prompt behind another one that waits.
        """
        text = next((block.text for block in content if isinstance(block, Text)), "")
        is_behind = any(other is None or other.state == "refused" for other in self._waiting)
        if self._task is None or is_behind or find_command(self, text) is not None:
            return None
        return self.agent.deliver(content)

    async def _run_turn(self, content: list[Text | Media]) -> PromptResponse:
        self._is_cancelled = False
        self._task = asyncio.create_task(self._run(content))
        try:
            await asyncio.wait({self._task})
            result = None if self._task.cancelled() else self._task.result()
        finally:
            # If the connection is gone, this wait was cancelled.
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._is_cancelled or (result is not None and result.stop == "interrupted"):
            await self.presenter.close_calls("cancelled")
            await self.save()
            return PromptResponse(stop_reason="cancelled")
        if result is None:  # a command
            return PromptResponse(stop_reason="end_turn")
        usage = result.usage
        return PromptResponse(
            stop_reason=_STOP_REASONS.get(result.stop, "end_turn"),
            usage=Usage(
                total_tokens=usage.input + usage.output,
                input_tokens=usage.input,
                output_tokens=usage.output,
                thought_tokens=usage.reasoning or None,
                cached_read_tokens=usage.cached or None,
                cached_write_tokens=usage.cache_write or None,
            ),
        )

    def cancel(self) -> None:
        """Stop the running prompt, if any; the conversation stays valid."""
        if self._task is not None:
            self._is_cancelled = True
            self._cancel_count += 1
            self._task.cancel()

    async def _prepare(self) -> None:
        """Wait for the MCP servers before the first prompt, and show pending notes."""
        servers = self.parts.servers
        await self._tell_notices()
        if servers is not None and not self._is_ready:
            await servers.wait_ready_async()
            failed = {
                f"MCP server {each.name} cannot be used: {each.error}"
                for each in servers.status()
                if each.state == "failed"
            }
            # a server may fail before anything listens for it
            self._notices += sorted(failed - self._told - {*self._notices})
        self._is_ready = True
        await self._tell_notices()

    async def _tell_notices(self) -> None:
        while self._notices:
            notice = self._notices.pop(0)
            self._told.add(notice)
            await self.presenter.note(notice)

    def notify(self, notice: str) -> None:
        """Show a note: now if a prompt is running, otherwise with the next one.

        Can be called from any thread.
        """
        self._notices.append(notice)
        if self._task is not None:
            asyncio.run_coroutine_threadsafe(self._tell_notices(), self._loop)

    async def _run(self, content: list[Any]) -> RunResult | None:
        """Run a prompt, or a slash command, which has no result."""
        await self._prepare()
        text_block = next((block for block in content if isinstance(block, Text)), Text(""))
        text = text_block.text
        if (command := find_command(self, text)) is not None:
            run_command, argument = command
            answer = await run_command(self, argument)
            if isinstance(answer, str):
                await self.presenter.say(answer)
                return None
            attachments = [block for block in content if block is not text_block]
            # the messages of an MCP server's prompt
            content = [*answer, *([user(attachments)] if attachments else ())]
        if not self.info.title:
            self.info = replace(self.info, title=shorten(text, _MAX_SESSION_TITLE) or "(attachment)")
            await self.send(SessionInfoUpdate(session_update="session_info_update", title=self.info.title))
        length, result = len(self.agent.conversation), None
        try:
            async with aclosing(self.agent.stream(content)) as events:
                async for event in events:
                    if isinstance(event, ReplyStarted):  # every call has its result: a safe point to save
                        await self.save()
                    if isinstance(event, RunDone):
                        result = event.result
                    await self.presenter.show_event(event)
        except ToolglotError as e:
            # If there was no reply, remove the prompt, so that the next one does not follow another user
            # message.
            if all(message.origin is None for message in self.agent.conversation[length:]):
                _rewind(self.agent, length)
            await self.presenter.close_calls("the run has failed")
            await self.save()
            raise RequestError(
                -32603, await describe_error(e, self.agent.view().engine, self.agent.tools)
            ) from None
        if result is not None:
            await self._finish(result, length)
        return result

    async def _finish(self, result: RunResult, length: int) -> None:
        """Show how a run ended, and save the session. `length`: the conversation's length before it."""
        new = [loss for loss in result.losses if loss not in self._shown_losses]
        for line in describe_losses(new, own_tools=self.agent.view().own_tools):
            await self.presenter.note(line)
        self._shown_losses |= {*result.losses}
        await self.presenter.close_calls("it did not run")
        if result.stop != "end":
            await self.presenter.say(f"\n[{describe_stop(result.stop)}]\n")
        if _STOP_REASONS.get(result.stop) == "refusal":
            # the protocol requires that refused content is not part of the next prompt
            _rewind(self.agent, length)
        self.info = replace(self.info, cost=self.info.cost + (result.cost or 0.0))
        await self.save()
        usage = await self.agent.context_usage()
        if size := usage.budget or usage.window:
            cost = Cost(amount=self.info.cost, currency="USD") if self.info.cost else None
            await self.send(
                UsageUpdate(session_update="usage_update", used=usage.total, size=size, cost=cost)
            )

    async def save(self) -> None:
        """Write the session to its file if it has changed; a failure is reported once."""
        await self._file.write(self._snapshot)

    def _snapshot(self) -> tuple[SessionInfo, bytes]:
        return replace(self.info, mode=self.mode, effort=self.effort), self.agent.save()

    # ---- questions to the user

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask the user to approve a call."""
        options = [PermissionOption(option_id="yes", name="Allow", kind="allow_once")]
        if not request.each_time:
            name = f"Always allow {request.tool} in this session"
            options.append(PermissionOption(option_id="always", name=name, kind="allow_always"))
        options.append(PermissionOption(option_id="no", name="Reject", kind="reject_once"))
        is_question = not request.effects  # from a tool that is already running
        async with self._asking:
            try:
                if request.form is not None and has_forms(self._editor):
                    values = await fill_form(self._editor, self.info.id, request)
                    return Deny() if values is None else Allow(values)
                if request.form is not None and not request.arguments.keys() >= {
                    *request.form.get("required", ())
                }:
                    self.notify(
                        f"{request.reason} (declined: it needs values, and this editor does not support "
                        "forms)"
                    )
                    return Deny("the editor does not support forms")
                view = (
                    describe_question(request)
                    if is_question
                    else await self.presenter.show_call(request.call)
                )
                answer = await self._editor.ask_permission(
                    self.info.id, view.ask(request, self._root), options
                )
                if is_question:
                    await self.send(view.progress("completed" if answer == "yes" else "failed"))
            except RequestError as e:
                return Deny(f"the editor could not ask the user: {e}")
        match answer:
            case "yes" | "always":
                return answer
            case "":  # the user cancelled the prompt; the notification is on its way
                self.cancel()
                return "no"
            case _:
                return "no"

    async def _read_buffer(self, path: str) -> str | None:
        fs = self._editor.capabilities.fs
        if fs is None or not fs.read_text_file:
            return None
        try:
            async with asyncio.timeout(BUFFER_SECONDS):
                return await self._editor.read_buffer(self.info.id, path)
        except (RequestError, TimeoutError):
            # it is not open in the editor, cannot be read, or the editor does not answer
            return None

    # ---- options

    @property
    def config_options(self) -> list[SessionConfigOptionSelect]:
        """The options with their current values."""
        return config_options(self.mode, self.agent.model, self.parts.models, self.effort)

    async def choose(self, option: str, value: str) -> None:
        """Set the mode, the model or the effort. Raises UsageError."""
        match option:
            case "mode":
                if value not in MODES:
                    raise UnknownName("mode", value, MODES)
                if value == SANDBOXED:
                    self.parts.setup.check_mode(value)
                self.mode = value
                self._apply_choices()
                await self.send(
                    CurrentModeUpdate(session_update="current_mode_update", current_mode_id=value)
                )
            case "model":
                engine = self.parts.setup.engine(self.parts.setup.resolve_model(value))
                self.parts.require_key(engine)
                self.agent.switch(engine)
            case "effort":
                if value not in EFFORTS:
                    raise UnknownName("effort", value, EFFORTS)
                self.effort = value
                self._apply_choices()
            case _:
                raise UnknownName("session option", option, ("mode", "model", "effort"))
        if self._task is None:  # otherwise it is saved when every call has its result
            await self.save()
        await self.send(
            ConfigOptionUpdate(session_update="config_option_update", config_options=[*self.config_options])
        )

    def _apply_choices(self) -> None:
        self.agent.switch(self.agent.view().engine)  # rules and options are rebuilt

    def _adjust_options(self, options: Options) -> Options:
        return (
            options if self.effort == DEFAULT_EFFORT else replace(options, effort=cast(Effort, self.effort))
        )

    async def announce(self) -> None:
        """Send the slash commands to the editor, and again once MCP servers have added theirs."""
        await self._send_commands()
        if (servers := self.parts.servers) is not None:
            await servers.wait_ready_async()
            if servers.prompts:
                await self._send_commands()

    async def _send_commands(self) -> None:
        commands = list_commands(self)
        await self.send(
            AvailableCommandsUpdate(session_update="available_commands_update", available_commands=commands)
        )


def _rewind(agent: Agent, length: int) -> None:
    """Truncate a conversation to this length; a prompt may have added several messages."""
    while len(agent.conversation) > length and agent.undo():
        pass


def check_directory(cwd: str) -> str:
    """Return a session's working directory. Raises UsageError."""
    if not os.path.isabs(cwd):
        raise UsageError(f"the working directory of a session must be an absolute path, not {cwd!r:.200}")
    if not os.path.isdir(cwd):
        raise UsageError(f"there is no directory {cwd!r:.200}")
    return cwd
