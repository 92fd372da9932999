"""Agents as tools of other agents: each call is a run of its own, in a conversation of its own.

Its state lives inside the parent's open call. It pays from the parent's ledger; what it waits for, its parent
waits for; it is cancelled with the parent's call. A run that did not finish is never a success.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.errors import MalformedData, MissingOutput, ToolError, ToolglotError, UsageError
from toolglot.loop.agent.hand_offs import continue_saved
from toolglot.loop.agent.runs import Runs, Start
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.agent.waiting_calls import WaitingCalls
from toolglot.loop.conversation_state import RunSettings
from toolglot.loop.driver import Driver
from toolglot.loop.format_call import describe_stop
from toolglot.loop.ledger import Ledger
from toolglot.loop.limits import RunLimits
from toolglot.loop.usable_answers import check_can_run
from toolglot.schema.arguments import check_schema
from toolglot.schema.output import OutputType
from toolglot.tools.context import CallSuspended, Context, InnerTools
from toolglot.tools.execution import PreparedCall
from toolglot.tools.inner_calls import ask_approver
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Answer, ApprovalRequest, Decision, Rulings, Suspended
from toolglot.values.definitions import Schema, ToolDefinition
from toolglot.values.events import InnerEvent, RunDone, RunResult
from toolglot.values.messages import Conversation, load, save

__all__ = ["make_subagent_tool"]

_PROMPT: Schema = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "description": "The whole task: the agent sees nothing of this conversation.",
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_SAVED_VERSION = 1


def make_subagent_tool(
    setup: AgentSetup, name: str, description: str, parameters: Any, limits: RunLimits | None
) -> Tool:
    """Return a tool whose calls are runs of an agent. `parameters`: a type or a JSON Schema; by default, a
    prompt.
    """
    schema = _read_parameters(name, parameters)
    agent = _Subagent(setup, name, limits, is_prompt=schema is _PROMPT)
    # What it does is approved call by call, and its time is that of the run. It may have any effect.
    tool = Tool(
        agent.run,
        definition=ToolDefinition(name, description, schema),
        approval=False,
        timeout=float("inf"),
        polls=True,
        verb=name,
        action="think",
    )
    tool.reopen = agent.reopen
    return tool


def _read_parameters(name: str, parameters: Any) -> Schema:
    if parameters is None or parameters is str:
        return _PROMPT
    schema = (
        dict(cast(Mapping[str, Any], parameters))
        if isinstance(parameters, Mapping)
        else OutputType(parameters).schema
    )
    check_schema(schema)
    if schema.get("type") != "object":
        raise UsageError(
            f"the parameters of the agent {name} must be an object: a dataclass, a TypedDict, a schema"
        )
    return schema


class _Subagent:
    """An agent as the function of a tool."""

    def __init__(self, setup: AgentSetup, name: str, limits: RunLimits | None, *, is_prompt: bool) -> None:
        self._setup, self._name, self._limits, self._is_prompt = setup, name, limits, is_prompt
        self._runs = Runs(setup)

    async def run(self, arguments: dict[str, Any], /, context: Context[Any]) -> ToolOutput:
        """Run the agent, or continue a run of it that waited. Raises CallSuspended, ToolError."""
        inner = context.inner_tools
        if inner is None or not isinstance(inner.owner, Driver):
            raise ToolError(f"The agent {self._name} can only be called in a run of another agent.")
        suspension, parent = inner.suspension, inner.owner
        if isinstance(suspension, _ChildWaits):
            child = suspension.child
            child.enter(inner, parent)
            start = self._resume(child, suspension.waiting, inner.rulings)
        else:
            self._check_depth(parent.ledger)
            child = _Child(self._setup, self._name)
            child.enter(inner, parent)
            prompt = arguments["prompt"] if self._is_prompt else dumps_text(arguments)
            settings = self._make_settings(context, parent.ledger)
            start = partial(self._runs.start, child.state, prompt, settings, streaming=inner.emit is not None)
        try:
            result = await self._finish(child, start, inner, context.call.id)
        except MissingOutput as error:
            raise ToolError(
                f"The agent {self._name} gave no answer in the form that is needed: {error}"
            ) from error
        except ToolglotError as error:
            raise ToolError(f"The agent {self._name} failed: {error}") from error
        finally:
            child.leave()
        if result.is_paused:
            raise _ChildWaits(child, result.pending)
        return self._convert(result)

    def _resume(self, child: "_Child", waiting: tuple[Any, ...], rulings: Rulings) -> Start:
        items = _find_items(waiting, rulings)
        runs = child.state.successor or self._runs
        return partial(runs.resume, child.state, items, {}, streaming=child.inner.emit is not None)

    async def _finish(self, child: "_Child", start: Start, inner: InnerTools, call_id: str) -> RunResult[Any]:
        emit = inner.emit
        if emit is None:
            return await self._runs.finish(child.state, start)
        result: RunResult[Any] | None = None
        async for event in self._runs.watch(child.state, start):
            if isinstance(event, InnerEvent):
                emit(InnerEvent((call_id, *event.path), event.event))
                continue
            emit(InnerEvent((call_id,), event))
            if isinstance(event, RunDone):
                result = event.result
        assert result is not None, "the last event of a run has its result"
        return result

    def _make_settings(self, context: Context[Any], parent: Ledger) -> RunSettings:
        config = self._setup.config
        data = context.data if config.data is None else None
        allow = None
        if parent.depth + 2 > parent.root.limits.max_depth:  # agents of this one would be too deep
            agents = {tool.name for tool in config.tools if tool.reopen is not None}
            if agents:
                allow = frozenset(name for name in config.tool_names if name not in agents)
        return RunSettings(data=data, limits=self._limits, allow=allow)

    def _check_depth(self, parent: Ledger) -> None:
        deepest = parent.root.limits.max_depth
        if parent.depth + 1 > deepest:
            message = f"The agent {self._name} was not started: agents may call agents {deepest} levels deep."
            raise ToolError(message, kind="limit", code="too_deep")

    def _convert(self, result: RunResult[Any]) -> ToolOutput:
        """Return the answer. Raises ToolError for a run that did not finish."""
        if result.stop == "end":
            return ToolOutput(result.text if result.output is None else result.output)
        text = f"The agent {self._name} did not finish: it {describe_stop(result.stop)}."
        if result.text:
            text += f" Its last words: {result.text}"
        raise ToolError(text, code=f"agent_{result.stop}", details=result)

    async def reopen(self, state: Any, prepared: PreparedCall, distrust_reason: str) -> CallSuspended:
        """Continue to wait with a run that another process has saved. Raises MalformedData."""
        child = _Child(self._setup, self._name)
        child.restore(state, distrust_reason)
        runs = child.state.successor or self._runs
        return _ChildWaits(child, await runs.list_pending(child.state))


class _Child:
    """One run of a sub-agent, with the parent's call that it works for at present."""

    def __init__(self, setup: AgentSetup, name: str) -> None:
        self.setup, self.name = setup, name
        self.inner: InnerTools
        self.state = setup.open_state(Conversation(), approve=self.approve)
        self.state.has_approver = True  # what it may not decide itself waits in its parent

    def enter(self, inner: InnerTools, parent: Driver) -> None:
        self.inner, self.state.parent_ledger = inner, parent.ledger

    def leave(self) -> None:
        """Forget the parent's call: a paused run is kept longer than that."""
        del self.inner
        self.state.parent_ledger = None

    async def approve(self, request: ApprovalRequest) -> Any:
        """Decide with the agent's own approver, or ask whoever decides for the parent."""
        own = self.setup.config.approve
        if own is not None and (answer := await ask_approver(own, request, self.inner.on_ask)) is not None:
            return answer
        if not self.inner.can_ask:
            return "later"
        return await self.inner.ask(self.sign(request)) or "later"

    def sign(self, request: ApprovalRequest) -> ApprovalRequest:
        """Return a request with the name of the agent whose call it is about."""
        agent = f"{self.name}/{request.agent}" if request.agent else self.name
        return replace(request, agent=agent)

    # ---- save and restore

    def save(self) -> Any:
        """Return the run as JSON: the lines of its conversation, with the paused run in the first."""
        state = self.state
        header = state.save_header("")
        lines = save(state.conversation, model=self.setup.models.engine.name, **header).splitlines()
        return {"version": _SAVED_VERSION, "agent": self.name, "lines": list(map(msgspec.Raw, lines))}

    def restore(self, saved: Any, distrust_reason: str) -> None:
        try:
            read = msgspec.convert(saved, _SavedChild)
        except msgspec.ValidationError as e:
            raise MalformedData(
                f"the saved run of the agent {self.name} has an unexpected shape: {e}"
            ) from None
        if read.version != _SAVED_VERSION:
            raise MalformedData(
                f"the saved run of the agent {self.name} has version {read.version}, which this version cannot "
                "read: update toolglot"
            )
        conversation, header = load("\n".join(map(json.dumps, read.lines)))
        state = self.state = self.setup.open_state(conversation, approve=self.approve)
        state.has_approver = True
        run_state, handed_over = state.restore_header(header)
        continue_saved(self.setup, state, handed_over)
        if distrust_reason:
            state.distrust_tools()
        if run_state is None:
            raise MalformedData(f"the saved run of the agent {self.name} does not wait for anything")
        config = self.setup.config.config
        state.paused = self.setup.open_run(
            conversation, config, state=run_state, distrust_reason=distrust_reason
        )


class _SavedChild(msgspec.Struct, frozen=True):
    version: int
    agent: str
    lines: list[dict[str, Any]]


class _ChildWaits(CallSuspended):
    """A sub-agent that waits for decisions or answers."""

    blocks_later = False

    def __init__(self, child: _Child, waiting: tuple[Suspended, ...]) -> None:
        waiting = tuple([replace(item, request=child.sign(item.request)) for item in waiting])
        super().__init__(*waiting, release=self._give_up)
        self.child = child

    def save(self) -> Any:
        return self.child.save()

    async def check(self, rulings: Rulings) -> None:
        state, items = self.child.state, _find_items(self.waiting, rulings)
        run = state.paused
        if run is None or not items:
            return
        found = WaitingCalls(state, run).read(items, are_in_time=True)
        for index, call in run.waiting_calls:
            if index in found:
                await check_can_run(state, run, call, found[index])

    def _give_up(self) -> None:
        """Nobody will decide any more: the conversation of the agent ends here."""
        state = self.child.state
        if state.paused is not None:
            state.paused.interrupt()
            state.record_refusals(state.paused)
            state.paused = None
        state.host.release_all()


def _find_items(waiting: tuple[Any, ...], rulings: Rulings) -> dict[str, Decision | Answer]:
    """Return decisions and answers for the calls of a sub-agent by fingerprint. One on something else than what
    was shown does not count: the call goes on waiting.
    """
    shown = {item.path: item.fingerprint for item in waiting}
    return {
        ruling.fingerprint: cast(Any, ruling.answer)
        for path, ruling in rulings.items()
        if path and shown.get(path) == ruling.fingerprint
    }
