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
from toolglot.request import BUILTIN
from toolglot.schema.arguments import owned
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import Effect, ToolConfig
from toolglot.tools.execution import Emit, Execution, Prepared, failed, outcomes_of
from toolglot.tools.hooks import HookChain, Hooks, Veto
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.policy import Guard, Verdict
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore
from toolglot.tools.tool import Tool
from toolglot.tools.waiting import all_of, in_order

__all__ = ["Approval", "Approve", "ToolExecutor"]

log = getLogger("toolglot.tools")


class Approval(msgspec.Struct, frozen=True):
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
Approve = Callable[[Approval], "ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool]"]
"""yes: this once. always: no more questions about this tool. later: the run pauses and can be resumed."""
_DEFAULT = ToolConfig()
_SHOWN = 80
"""Characters that are said of a name that a model made up."""


class Meaning(Protocol):
    """What a call means: a tool, its arguments, and what was mended."""

    @property
    def tool(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def repairs(self) -> tuple[Repair, ...]: ...


class Face(Protocol):
    """The names and words that a model has for some of the tools."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the model calls the tools that are built in."""
        ...

    def means(self, call: ToolCall) -> Meaning | None:
        """What a call means; None where it is no call of this kind. Raises ToolError."""
        ...

    def worded(self, call: ToolCall, arguments: dict[str, Any], result: ToolResult, details: Any = None) -> ToolResult:
        """A result in the model's words."""
        ...


class ToolExecutor:
    """Runs the calls of one conversation."""

    def __init__(
        self,
        registry: ToolRegistry,
        config: ToolConfig = _DEFAULT,
        *,
        approve: Approve | None = None,
        hooks: Iterable[Hooks] | HookChain = (),
        audit: AuditLog | None = None,
        metrics: ToolMetrics | None = None,
        store: ResultStore | None = None,
        data: Any = None,
        run: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry, self.config = registry, config
        self.metrics = metrics or ToolMetrics()
        self.store = store if store is not None else ResultStore()
        self.guard = Guard(config)
        self.data, self.model = data, ""
        self._run_id = run
        self.approve = approve
        self.hooks = hooks if isinstance(hooks, HookChain) else HookChain(hooks)
        self._audit = audit
        self.clock = clock
        self.face: Face | None = None

    @property
    def run_id(self) -> str:
        """A name for this conversation's line in the audit log."""
        if not self._run_id:
            self._run_id = uuid4().hex[:12]
        return self._run_id

    # ---- one call, many calls

    async def run(self, call: ToolCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()) -> ToolOutcome:
        """One call, with all questions asked."""
        self.guard.new_turn()
        return await self._run(call, emit, messages)

    async def _run(self, call: ToolCall, emit: Emit | None, messages: Sequence[Message]) -> ToolOutcome:
        prepared = await self.prepare(call)
        if isinstance(prepared, Prepared) and prepared.asks:
            answer = await self.answer(prepared)
            prepared = self.settle(prepared, "no" if answer == "later" else answer)
        if isinstance(prepared, ToolOutcome):
            return prepared
        return await self.execute(prepared, emit=emit, messages=messages)

    async def run_all(
        self, calls: Sequence[ToolCall], *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> list[ToolOutcome]:
        """Many calls at once, at most `max_parallel` of them at a time; outcomes in call order.

        Calls of tools that are `ordered` keep their place among the others.
        """
        self.guard.new_turn()
        slots = asyncio.Semaphore(self.config.max_parallel)

        async def one(call: ToolCall) -> ToolOutcome:
            async with slots:
                return await self._run(call, emit, messages)

        outcomes: list[ToolOutcome] = []
        for together in in_order(calls, self.is_ordered):
            outcomes += await all_of(asyncio.create_task(one(call)) for call in together)
        return outcomes

    # ---- the steps, for the loop

    def configure(self, config: ToolConfig) -> None:
        """Other rules from now on; what was counted stays counted."""
        self.config = self.guard.config = config

    def refused(self, call: ToolCall, result: ToolResult) -> ToolOutcome:
        """The outcome of a call that the loop has answered without running it."""
        return self.over(ToolOutcome(call, result, ran=False))

    def is_plain(self, call: ToolCall, effects: frozenset[Effect]) -> bool:
        """Whether a call is to a tool of just these effects that needs nobody's word."""
        tool = self._meant(call)
        return tool is not None and tool.effects == effects and not self.guard.asks(tool)

    def _meant(self, call: ToolCall) -> Tool | None:
        """The tool that a call is to; None where there is none, or it is not understood."""
        try:
            meaning = self.face.means(call) if self.face is not None else None
        except ToolError:
            return None
        tool = self._found(call if meaning is None else ToolCall(call.id, meaning.tool, meaning.arguments))
        return tool if isinstance(tool, Tool) else None

    def is_ordered(self, call: ToolCall) -> bool:
        """Whether a call keeps its place among the others of a turn."""
        tool = self._meant(call)
        return tool is not None and tool.ordered

    def asks(self, call: ToolCall) -> bool:
        """Whether somebody has to approve a call."""
        tool = self._meant(call)
        return tool is not None and self.guard.asks(tool)

    async def prepare(self, call: ToolCall) -> Prepared | ToolOutcome:
        """A call that is ready to run, or the outcome that says why it does not."""
        said, more = None, ()
        if self.face is not None:
            try:
                meaning = self.face.means(call)
            except ToolError as e:
                return self._misunderstood(call, e)
            if meaning is not None:
                said, more = call, meaning.repairs
                call = ToolCall(call.id, meaning.tool, meaning.arguments)
        found = await self._prepared(call)
        if said is None:
            return found
        if isinstance(found, ToolOutcome):
            return self.worded(found, said)
        return replace(found, said=said, repairs=(*more, *found.repairs))

    def _misunderstood(self, said: ToolCall, error: ToolError) -> ToolOutcome:
        """A call that is not valid in the model's own words: it counts for the tool that it is about."""
        call = ToolCall(said.id, error.tool or said.name, said.arguments, said.raw)
        if (denied := self.guard.circles(call, None)) is not None:
            return self.worded(self._denied(call, None, denied, "", repeated=True), said)
        return self.over(self.worded(failed(call, error.kind, str(error)), said, error.details))

    def worded(self, outcome: ToolOutcome, said: ToolCall | None, details: Any = None) -> ToolOutcome:
        """An outcome with its result in the words of the model's own harness, where the call was made in them."""
        if self.face is None or said is None:
            return outcome
        ours, theirs = f"the tool {outcome.call.name!r}", f"the tool {said.name!r}"
        content = tuple(
            replace(one, text=one.text.replace(ours, theirs)) if isinstance(one, Text) else one
            for one in outcome.result.content
        )
        result = replace(outcome.result, content=content)
        return replace(outcome, result=self.face.worded(said, outcome.call.arguments or {}, result, details))

    async def _prepared(self, call: ToolCall) -> Prepared | ToolOutcome:
        tool = self._found(call)
        if (denied := self.guard.circles(call, tool if isinstance(tool, Tool) else None)) is not None:
            return self._denied(call, None, denied, "", repeated=True)
        if self.hooks.watches_calls:
            found = await self.hooks.before_tool(call)
            if isinstance(found, Veto):
                return self.over(failed(call, "rejected", f"The call did not run: {found.why}"))
            call, tool = found, self._found(found)
        if isinstance(tool, ToolOutcome):
            return self.over(tool)
        if (denied := self.guard.forbids(tool)) is not None:
            return self._denied(call, tool, denied, "")
        try:
            bound = tool.bind(call)
        except ToolError as e:
            return self.over(failed(call, e.kind, str(e)), tool)
        verdict = self.guard.verdict(tool, self.clock())
        target = _told(tool, tool.target, bound.arguments)
        if verdict.say == "deny":
            return self._denied(call, tool, verdict, target)
        if verdict.say == "ask":
            return Prepared(call, tool, bound.values, bound.repairs, target, True, None, bound.arguments)
        self.guard.begin(tool, self.clock())
        return Prepared(call, tool, bound.values, bound.repairs, target, False)

    def _found(self, call: ToolCall) -> Tool | ToolOutcome:
        try:
            return self.registry.get(call.name, call.namespace)
        except UnknownName as e:
            return failed(call, "not_found", _unknown(call, e, self.registry, self.face))

    def _denied(
        self, call: ToolCall, tool: Tool | None, verdict: Verdict, target: str, *, repeated: bool = False
    ) -> ToolOutcome:
        outcome = failed(call, verdict.kind, f"The call did not run: {verdict.why}.")
        return self.over(outcome, tool, target, repeated=repeated)

    async def answer(self, prepared: Prepared) -> ApprovalAnswer:
        """What the approver says; nobody there means later."""
        if self.approve is None:
            return "later"
        tool, arguments = prepared.tool, owned(prepared.arguments or {})
        preview = "" if tool.preview is None else await asyncio.to_thread(_told, tool, tool.preview, arguments)
        said = self.approve(Approval(prepared.call, tool.name, tool.effects, prepared.target, arguments, preview))
        answer = await said if isawaitable(said) else said
        if isinstance(answer, str):
            return answer if answer in get_args(ApprovalAnswer) else "no"  # whatever is not a clear yes is none
        return "yes" if answer is True else "no"

    def settle(self, prepared: Prepared, answer: Literal["yes", "no", "always"]) -> Prepared | ToolOutcome:
        """A call that was decided on."""
        if answer == "no":
            why = "The user did not allow the call." if self.approve else "The call needs an approval, and nobody is there."
            outcome = self.worded(failed(prepared.call, "rejected", f"{why} It did not run."), prepared.said)
            return self.over(outcome, prepared.tool, prepared.target, approved=False)
        if answer == "always":
            self.guard.always(prepared.tool)
        verdict = self.guard.verdict(prepared.tool, self.clock())  # others may have begun meanwhile
        if verdict.say == "deny":
            return self.worded(self._denied(prepared.call, prepared.tool, verdict, prepared.target), prepared.said)
        self.guard.begin(prepared.tool, self.clock())
        return replace(prepared, asks=False, approved=True)

    def start(
        self,
        prepared: Prepared,
        *,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        done: Callable[[int, ToolOutcome], None] | None = None,
        number: int = 0,
    ) -> Execution:
        """Begins a prepared call. `done` is told its number and its outcome at once."""
        return Execution(self, prepared, emit, messages, done, number)

    async def execute(self, prepared: Prepared, *, emit: Emit | None = None, messages: Sequence[Message] = ()) -> ToolOutcome:
        """Runs a prepared call to its outcome."""
        return (await outcomes_of([self.start(prepared, emit=emit, messages=messages)]))[0]

    def over(
        self,
        outcome: ToolOutcome,
        tool: Tool | None = None,
        target: str = "",
        *,
        approved: bool | None = None,
        repeated: bool = False,
    ) -> ToolOutcome:
        """Everybody who keeps count is told of an outcome. `repeated`: a refusal of what was refused or done before."""
        self.metrics.add(outcome)
        if not repeated:
            self.guard.end(outcome.call, tool if outcome.ran else None, outcome.result)
        if self._audit is not None:
            effects = tool.effects if tool else frozenset[Effect]()
            try:
                self._audit.write(outcome, run=self.run_id, target=target, effects=effects, approved=approved)
            except Exception as e:  # what was done is done: the model has to hear of it
                log.error("the audit log could not be written: %s", e)
        if log.isEnabledFor(DEBUG):
            kind = outcome.result.error_kind or "ok"
            fields = {"tool": outcome.call.name, "call": outcome.call.id, "kind": kind, "seconds": outcome.seconds}
            log.debug("tool %s: %s in %.3f s", outcome.call.name, kind, outcome.seconds, extra=fields)
        return outcome


def _unknown(call: ToolCall, error: UnknownName, registry: ToolRegistry, face: Face | None) -> str:
    if not len(registry):
        return f"There is no tool {call.name!r}: no tools are available."
    if face is not None:  # the names that the model knows
        others = [one.name for one in registry if BUILTIN not in one.tags]
        error = UnknownName("tool", call.name[:_SHOWN], (*face.names, *others))
    return f"There is no such tool: {str(error).removeprefix('unknown tool ')}"


def _told(tool: Tool, tell: Callable[[dict[str, Any]], str] | None, arguments: dict[str, Any]) -> str:
    """What a tool says of a call before it runs."""
    if tell is None:
        return ""
    try:
        return str(tell(owned(arguments)))
    except Exception as e:
        log.warning("tool %s cannot tell what a call would touch or do: %r", tool.name, e)
        return ""
