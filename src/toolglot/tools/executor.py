"""Runs calls: looked up, bound to their parameters, judged, run with a time limit, tried again where that is allowed.

Laws: a call always has an outcome; outcomes come in call order; no result is unbounded; the model never sees a traceback. What
happens while a call runs is in `execution`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from logging import DEBUG, getLogger
from typing import Any, Literal, Protocol, get_args
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.errors import ToolError, UnknownName
from toolglot.events import ToolOutcome
from toolglot.losses import Repair
from toolglot.messages import Message, Text, ToolCall, ToolResult
from toolglot.request import BUILTIN_TAG
from toolglot.schema.arguments import deep_copy
from toolglot.tools.audit import AuditLog
from toolglot.tools.concurrency import gather_or_cancel, split_by_order
from toolglot.tools.config import Effect, ToolConfig
from toolglot.tools.execution import Emit, Execution, PreparedCall, error_outcome, gather_outcomes
from toolglot.tools.hooks import HookChain, Hooks, Veto
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.policy import ToolPolicy, Verdict
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore
from toolglot.tools.tool import Tool

__all__ = ["ApprovalRequest", "Approve", "ToolExecutor"]

log = getLogger("toolglot.tools")


class ApprovalRequest(msgspec.Struct, frozen=True):
    """What somebody is asked about: the call, and what it would do to what."""

    call: ToolCall
    tool: str
    effects: frozenset[Effect]
    target: str
    arguments: dict[str, Any] = {}
    """As they will be used: mended where the model got them wrong."""
    preview: str = ""
    """What the call would do, in the tool's own words: the full command, or a diff."""


ApprovalAnswer = Literal["yes", "no", "always", "later"]
Approve = Callable[[ApprovalRequest], "ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool]"]
"""yes: this once. always: no more questions about this tool. later: the run pauses and can be resumed."""
_DEFAULT_CONFIG = ToolConfig()
_MAX_NAME_SHOWN = 80
"""Characters that are said of a name that a model made up."""


class InterpretedCall(Protocol):
    """What a call means: a tool, its arguments, and what was mended."""

    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def repairs(self) -> tuple[Repair, ...]: ...


class CallFacade(Protocol):
    """The names and words that a model has for some of the tools."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the model calls the tools that are built in."""
        ...

    def interpret(self, call: ToolCall) -> InterpretedCall | None:
        """What a call means; None where it is no call of this kind. Raises ToolError."""
        ...

    def render_result(self, call: ToolCall, arguments: dict[str, Any], result: ToolResult, details: Any = None) -> ToolResult:
        """A result in the model's words."""
        ...


class ToolExecutor:
    """Runs the calls of one conversation."""

    def __init__(
        self,
        registry: ToolRegistry,
        config: ToolConfig = _DEFAULT_CONFIG,
        *,
        approve: Approve | None = None,
        hooks: Iterable[Hooks] | HookChain = (),
        audit: AuditLog | None = None,
        metrics: ToolMetrics | None = None,
        store: ResultStore | None = None,
        data: Any = None,
        run_id: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry, self.config = registry, config
        self.metrics = metrics or ToolMetrics()
        self.store = store if store is not None else ResultStore()
        self.policy = ToolPolicy(config)
        self.data, self.model = data, ""
        self._run_id = run_id
        self.approve = approve
        self.hooks = hooks if isinstance(hooks, HookChain) else HookChain(hooks)
        self._audit = audit
        self.clock = clock
        self.facade: CallFacade | None = None

    @property
    def run_id(self) -> str:
        """A name for this conversation's line in the audit log."""
        if not self._run_id:
            self._run_id = uuid4().hex[:12]
        return self._run_id

    # ---- one call, many calls

    async def run(self, call: ToolCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()) -> ToolOutcome:
        """One call, with all questions asked."""
        self.policy.begin_turn()
        return await self._run_call(call, emit, messages)

    async def _run_call(self, call: ToolCall, emit: Emit | None, messages: Sequence[Message]) -> ToolOutcome:
        prepared = await self.prepare(call)
        if isinstance(prepared, PreparedCall) and prepared.needs_approval:
            answer = await self.request_approval(prepared)
            prepared = self.apply_decision(prepared, "no" if answer == "later" else answer)
        if isinstance(prepared, ToolOutcome):
            return prepared
        return await self.execute(prepared, emit=emit, messages=messages)

    async def run_all(
        self, calls: Sequence[ToolCall], *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> list[ToolOutcome]:
        """Many calls at once, at most `max_parallel` of them at a time; outcomes in call order.

        Calls of tools that are `ordered` keep their place among the others.
        """
        self.policy.begin_turn()
        slots = asyncio.Semaphore(self.config.max_parallel)

        async def one(call: ToolCall) -> ToolOutcome:
            async with slots:
                return await self._run_call(call, emit, messages)

        outcomes: list[ToolOutcome] = []
        for together in split_by_order(calls, self.is_ordered):
            outcomes += await gather_or_cancel(asyncio.create_task(one(call)) for call in together)
        return outcomes

    # ---- the steps, for the loop

    def configure(self, config: ToolConfig) -> None:
        """Other rules from now on; what was counted stays counted."""
        self.config = self.policy.config = config

    def record_refusal(self, call: ToolCall, result: ToolResult) -> ToolOutcome:
        """The outcome of a call that the loop has answered without running it."""
        return self.record(ToolOutcome(call, result, ran=False))

    def can_start_eagerly(self, call: ToolCall, effects: frozenset[Effect]) -> bool:
        """Whether a call is to a tool of just these effects that needs nobody's word."""
        tool = self._find_base_tool(call)
        return tool is not None and tool.effects == effects and not self.policy.needs_approval(tool)

    def _find_base_tool(self, call: ToolCall) -> Tool | None:
        """The tool that a call is to; None where there is none, or it is not understood."""
        try:
            meaning = self.facade.interpret(call) if self.facade is not None else None
        except ToolError:
            return None
        tool = self._lookup(call if meaning is None else ToolCall(call.id, meaning.tool, meaning.arguments))
        return tool if isinstance(tool, Tool) else None

    def is_ordered(self, call: ToolCall) -> bool:
        """Whether a call keeps its place among the others of a turn."""
        tool = self._find_base_tool(call)
        return tool is not None and tool.ordered

    def needs_approval(self, call: ToolCall) -> bool:
        """Whether somebody has to approve a call."""
        tool = self._find_base_tool(call)
        return tool is not None and self.policy.needs_approval(tool)

    async def prepare(self, call: ToolCall) -> PreparedCall | ToolOutcome:
        """A call that is ready to run, or the outcome that says why it does not."""
        said, more = None, ()
        if self.facade is not None:
            try:
                meaning = self.facade.interpret(call)
            except ToolError as e:
                return self._reject_invalid(call, e)
            if meaning is not None:
                said, more = call, meaning.repairs
                call = ToolCall(call.id, meaning.tool, meaning.arguments)
        found = await self._prepare_base(call)
        if said is None:
            return found
        if isinstance(found, ToolOutcome):
            return self.render_outcome(found, said)
        return replace(found, native_call=said, repairs=(*more, *found.repairs))

    def _reject_invalid(self, native_call: ToolCall, error: ToolError) -> ToolOutcome:
        """A call that is not valid in the model's own words: it counts for the tool that it is about."""
        call = ToolCall(native_call.id, error.tool or native_call.name, native_call.arguments, native_call.raw)
        if (denied := self.policy.check_repetition(call, None)) is not None:
            return self.render_outcome(self._deny(call, None, denied, "", is_repetition=True), native_call)
        return self.record(self.render_outcome(error_outcome(call, error.kind, str(error)), native_call, error.details))

    def render_outcome(self, outcome: ToolOutcome, native_call: ToolCall | None, details: Any = None) -> ToolOutcome:
        """An outcome with its result in the words of the model's own harness, where the call was made in them."""
        if self.facade is None or native_call is None:
            return outcome
        ours, theirs = f"the tool {outcome.call.name!r}", f"the tool {native_call.name!r}"
        content = tuple(
            replace(one, text=one.text.replace(ours, theirs)) if isinstance(one, Text) else one
            for one in outcome.result.content
        )
        result = replace(outcome.result, content=content)
        return replace(outcome, result=self.facade.render_result(native_call, outcome.call.arguments or {}, result, details))

    async def _prepare_base(self, call: ToolCall) -> PreparedCall | ToolOutcome:
        tool = self._lookup(call)
        if (denied := self.policy.check_repetition(call, tool if isinstance(tool, Tool) else None)) is not None:
            return self._deny(call, None, denied, "", is_repetition=True)
        if self.hooks.has_call_hooks:
            found = await self.hooks.before_tool(call)
            if isinstance(found, Veto):
                return self.record(error_outcome(call, "rejected", f"The call did not run: {found.reason}"))
            call, tool = found, self._lookup(found)
        if isinstance(tool, ToolOutcome):
            return self.record(tool)
        if (denied := self.policy.check_allowed(tool)) is not None:
            return self._deny(call, tool, denied, "")
        try:
            bound = tool.bind(call)
        except ToolError as e:
            return self.record(error_outcome(call, e.kind, str(e)), tool)
        verdict = self.policy.evaluate(tool, self.clock())
        target = _describe(tool, tool.target, bound.arguments)
        if verdict.action == "deny":
            return self._deny(call, tool, verdict, target)
        if verdict.action == "ask":
            return PreparedCall(call, tool, bound.values, bound.repairs, target, True, None, bound.arguments)
        self.policy.record_start(tool, self.clock())
        return PreparedCall(call, tool, bound.values, bound.repairs, target, False)

    def _lookup(self, call: ToolCall) -> Tool | ToolOutcome:
        try:
            return self.registry.get(call.name, call.namespace)
        except UnknownName as e:
            return error_outcome(call, "not_found", _describe_unknown(call, e, self.registry, self.facade))

    def _deny(
        self, call: ToolCall, tool: Tool | None, verdict: Verdict, target: str, *, is_repetition: bool = False
    ) -> ToolOutcome:
        outcome = error_outcome(call, verdict.kind, f"The call did not run: {verdict.reason}.")
        return self.record(outcome, tool, target, is_repetition=is_repetition)

    async def request_approval(self, prepared: PreparedCall) -> ApprovalAnswer:
        """What the approver says; nobody there means later."""
        if self.approve is None:
            return "later"
        tool, arguments = prepared.tool, deep_copy(prepared.arguments or {})
        preview = "" if tool.preview is None else await asyncio.to_thread(_describe, tool, tool.preview, arguments)
        said = self.approve(ApprovalRequest(prepared.call, tool.name, tool.effects, prepared.target, arguments, preview))
        answer = await said if isawaitable(said) else said
        if isinstance(answer, str):
            return answer if answer in get_args(ApprovalAnswer) else "no"  # whatever is not a clear yes is none
        return "yes" if answer is True else "no"

    def apply_decision(self, prepared: PreparedCall, answer: Literal["yes", "no", "always"]) -> PreparedCall | ToolOutcome:
        """A call that was decided on."""
        if answer == "no":
            why = "The user did not allow the call." if self.approve else "The call needs an approval, and nobody is there."
            outcome = self.render_outcome(
                error_outcome(prepared.call, "rejected", f"{why} It did not run."), prepared.native_call
            )
            return self.record(outcome, prepared.tool, prepared.target, approved=False)
        if answer == "always":
            self.policy.allow_always(prepared.tool)
        verdict = self.policy.evaluate(prepared.tool, self.clock())  # others may have begun meanwhile
        if verdict.action == "deny":
            return self.render_outcome(self._deny(prepared.call, prepared.tool, verdict, prepared.target), prepared.native_call)
        self.policy.record_start(prepared.tool, self.clock())
        return replace(prepared, needs_approval=False, approved=True)

    def start(
        self,
        prepared: PreparedCall,
        *,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        on_done: Callable[[int, ToolOutcome], None] | None = None,
        index: int = 0,
    ) -> Execution:
        """Begins a prepared call. `done` is told its number and its outcome at once."""
        return Execution(self, prepared, emit, messages, on_done, index)

    async def execute(
        self, prepared: PreparedCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> ToolOutcome:
        """Runs a prepared call to its outcome."""
        return (await gather_outcomes([self.start(prepared, emit=emit, messages=messages)]))[0]

    def record(
        self,
        outcome: ToolOutcome,
        tool: Tool | None = None,
        target: str = "",
        *,
        approved: bool | None = None,
        is_repetition: bool = False,
    ) -> ToolOutcome:
        """Everybody who keeps count is told of an outcome. `repeated`: a refusal of what was refused or done before."""
        self.metrics.add(outcome)
        if not is_repetition:
            self.policy.record_result(outcome.call, tool if outcome.ran else None, outcome.result)
        if self._audit is not None:
            effects = tool.effects if tool else frozenset[Effect]()
            try:
                self._audit.write(outcome, run_id=self.run_id, target=target, effects=effects, approved=approved)
            except Exception as e:  # what was done is done: the model has to hear of it
                log.error("the audit log could not be written: %s", e)
        if log.isEnabledFor(DEBUG):
            kind = outcome.result.error_kind or "ok"
            fields = {"tool": outcome.call.name, "call": outcome.call.id, "kind": kind, "seconds": outcome.seconds}
            log.debug("tool %s: %s in %.3f s", outcome.call.name, kind, outcome.seconds, extra=fields)
        return outcome


def _describe_unknown(call: ToolCall, error: UnknownName, registry: ToolRegistry, facade: CallFacade | None) -> str:
    if not len(registry):
        return f"There is no tool {call.name!r}: no tools are available."
    if facade is not None:  # the names that the model knows
        others = [one.name for one in registry if BUILTIN_TAG not in one.tags]
        error = UnknownName("tool", call.name[:_MAX_NAME_SHOWN], (*facade.names, *others))
    return f"There is no such tool: {str(error).removeprefix('unknown tool ')}"


def _describe(tool: Tool, describe: Callable[[dict[str, Any]], str] | None, arguments: dict[str, Any]) -> str:
    """What a tool says of a call before it runs."""
    if describe is None:
        return ""
    try:
        return str(describe(deep_copy(arguments)))
    except Exception as e:
        log.warning("tool %s cannot tell what a call would touch or do: %r", tool.name, e)
        return ""
