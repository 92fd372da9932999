"""Runs calls: looked up, bound to their parameters, checked by the policy, approved, run, recorded.

Invariants: a call always has an outcome; outcomes come in call order; no result is unbounded; the model never sees a
traceback. What happens while a call runs is in `execution`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from inspect import isawaitable
from logging import DEBUG, getLogger
from typing import Any, Literal, get_args
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.errors import ToolError, UnknownName
from toolglot.events import ToolOutcome
from toolglot.messages import Message, ToolCall
from toolglot.schema.arguments import deep_copy
from toolglot.tools.audit import AuditLog
from toolglot.tools.calls import InterpretedCall, base_call
from toolglot.tools.config import Effect, ToolConfig
from toolglot.tools.execution import CallBatch, Emit, PreparedCall, error_outcome
from toolglot.tools.hooks import HookChain, Hooks, Veto, apply_hooks
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.policy import REPEATED_CALL, ToolPolicy
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore, read_result_tool
from toolglot.tools.tool import Tool

__all__ = ["ApprovalAnswer", "ApprovalRequest", "Approve", "ToolExecutor"]

log = getLogger("toolglot.tools")


class ApprovalRequest(msgspec.Struct, frozen=True):
    """What an approver is asked: the call, and what it would do."""

    call: ToolCall
    tool: str
    effects: frozenset[Effect]
    target: str
    arguments: dict[str, Any] = {}
    """As they will be used: repaired if the model got them wrong."""
    preview: str = ""
    """What the call would do, as the tool describes it: the full command, or a diff."""


ApprovalAnswer = Literal["yes", "no", "always", "later"]
"""yes: this once. always: do not ask about this tool again. later: the run pauses and can be resumed."""
Approve = Callable[[ApprovalRequest], "ApprovalAnswer | bool | Awaitable[ApprovalAnswer | bool]"]
"""Decides about a call; `Orchestrator(approve=…)`."""
AnyCall = ToolCall | InterpretedCall
_DEFAULT_CONFIG = ToolConfig()


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
        self.approve = approve
        self.hooks = hooks if isinstance(hooks, HookChain) else HookChain(hooks)
        self.clock = clock
        self.loop_tools: dict[str, Tool] = {}
        """Tools that the loop adds to those of the registry, by name."""
        self.visible_names: tuple[str, ...] | None = None
        """What the model calls the tools, if a facade gives it names of its own."""
        self.causes: dict[str, Exception] = {}
        """What the tools of failed calls raised, by call id; kept only for a run that ends with it (`on_error="abort"`)."""
        self._run_id = run_id
        self._audit = audit

    @cached_property
    def run_id(self) -> str:
        """Identifies this conversation in the audit log. Made on demand: without a log, nobody needs it."""
        return self._run_id or uuid4().hex[:12]

    @cached_property
    def read_result_tool(self) -> Tool:
        """Reads on in the results of this conversation that were too long."""
        return read_result_tool(self.store)

    def configure(self, config: ToolConfig) -> None:
        """Use other rules from now on; what was counted stays counted."""
        self.config = self.policy.config = config

    # ---- calls from start to end

    async def run(self, call: AnyCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()) -> ToolOutcome:
        """Run one call; an approval that it needs is asked for."""
        return (await self.run_all([call], emit=emit, messages=messages))[0]

    async def run_all(
        self, calls: Sequence[AnyCall], *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> list[ToolOutcome]:
        """Run calls in parallel, at most `max_parallel` at a time; outcomes in call order.

        Approvals are asked for in call order, before anything runs. Calls of `ordered` tools keep their place among the others.
        """
        self.policy.begin_turn()
        outcomes: dict[int, ToolOutcome] = {}
        ready: list[tuple[int, PreparedCall]] = []
        for index, call in enumerate(calls):
            prepared = await self.prepare(call)
            if isinstance(prepared, PreparedCall) and prepared.needs_approval:
                answer = await self.request_approval(prepared)
                prepared = self.apply_decision(prepared, "no" if answer == "later" else answer)
            if isinstance(prepared, PreparedCall):
                ready.append((index, prepared))
            else:
                outcomes[index] = prepared
        await CallBatch(self, emit=emit, messages=messages, on_done=outcomes.__setitem__).run(ready)
        return [outcomes[index] for index in range(len(calls))]

    # ---- the steps, for the loop

    def find_tool(self, call: AnyCall) -> Tool | None:
        """Return the tool that a call would run; None if there is none, or the call is not valid."""
        if isinstance(call, InterpretedCall) and call.error is not None:
            return None
        base = base_call(call)
        tool = self.loop_tools.get(base.name) or self.registry.find(base.name, base.namespace)
        return self.read_result_tool if tool is None and base.name == "read_result" else tool

    async def prepare(self, call: AnyCall) -> PreparedCall | ToolOutcome:
        """Return a call that is ready to run, or the outcome that says why it does not run."""
        interpreted, name = (call, call.call.name) if isinstance(call, InterpretedCall) else (None, call.name)
        base, policy, target = base_call(call), self.policy, ""
        tool = self.find_tool(call)
        if error := policy.check_repetition(base, tool) or (interpreted and interpreted.error):
            return self._refuse(base, interpreted, error)
        if self.hooks.before_tool:
            changed = await apply_hooks(self.hooks.before_tool, base)
            if isinstance(changed, Veto):
                error = ToolError(f"The call did not run: {changed.reason}", kind="rejected", code="vetoed")
                return self._refuse(base, interpreted, error)
            if changed is not base:
                base, tool = changed, self.find_tool(changed)
        try:
            if tool is None:
                raise ToolError(self._describe_unknown(base), kind="not_found", code="unknown_tool")
            policy.check_allowed(tool, name)
            bound = tool.bind(base)
            target = _describe(tool, tool.target, bound.arguments)
            policy.check_limits(tool, name, self.clock())
            verdict = policy.judge(tool, base, bound.arguments)
            if verdict.action == "refuse":
                raise ToolError(f"The call did not run: {verdict.reason}.", kind="not_allowed", code="approval_required")
        except ToolError as error:
            return self._refuse(base, interpreted, error, tool, target)
        repairs = bound.repairs if interpreted is None else (*interpreted.repairs, *bound.repairs)
        if verdict.action == "run":
            policy.record_start(tool, self.clock())
        return PreparedCall(base, tool, bound.values, bound.arguments, repairs, target, interpreted, verdict)

    async def request_approval(self, prepared: PreparedCall) -> ApprovalAnswer:
        """Ask the approver; without one the answer is later."""
        if self.approve is None:
            return "later"
        tool, arguments = prepared.tool, deep_copy(prepared.arguments)
        # A preview may read files: it must not block the event loop.
        preview = "" if tool.preview is None else await asyncio.to_thread(_describe, tool, tool.preview, arguments)
        answer = self.approve(ApprovalRequest(prepared.call, tool.name, tool.effects, prepared.target, arguments, preview))
        if isawaitable(answer):
            answer = await answer
        if isinstance(answer, bool):
            return "yes" if answer else "no"
        if answer in (answers := get_args(ApprovalAnswer)):
            return answer
        log.warning("approve returned %r, which counts as no: return True, False, or one of %s", answer, ", ".join(answers))
        return "no"

    def apply_decision(self, prepared: PreparedCall, answer: Literal["yes", "no", "always"]) -> PreparedCall | ToolOutcome:
        """Continue with a call that was decided on."""
        tool = prepared.tool
        try:
            if answer == "no":
                reason = (
                    "The user did not approve the call." if self.approve else "The call needs approval; nobody can give it."
                )
                raise ToolError(f"{reason} It did not run.", kind="rejected", code="not_approved")
            if answer == "always":
                self.policy.allow_always(tool)
            # Other calls may have started since the first check.
            self.policy.check_limits(tool, prepared.shown_name, self.clock())
        except ToolError as error:
            approved = False if answer == "no" else None
            return self._refuse(prepared.call, prepared.interpreted, error, tool, prepared.target, approved=approved)
        self.policy.record_start(tool, self.clock())
        return replace(prepared, approved=True)

    def _refuse(
        self,
        call: ToolCall,
        interpreted: InterpretedCall | None,
        error: ToolError,
        tool: Tool | None = None,
        target: str = "",
        *,
        approved: bool | None = None,
    ) -> ToolOutcome:
        """Return the outcome of a call that does not run, as the model's own harness would word it."""
        outcome = error_outcome(call, error)
        if interpreted is not None and interpreted.render is not None:
            outcome = replace(outcome, result=interpreted.render(outcome.result, call.arguments or {}, error.details))
        return self.record(outcome, tool, target, approved=approved)

    def record(
        self, outcome: ToolOutcome, tool: Tool | None = None, target: str = "", *, approved: bool | None = None
    ) -> ToolOutcome:
        """Count an outcome and write it to the audit log."""
        self.metrics.add(outcome)
        if outcome.result.error_code != REPEATED_CALL:  # such a refusal is no new result of the call
            self.policy.record_result(outcome.call, tool if outcome.ran else None, outcome.result)
        if self._audit is not None:
            effects = tool.effects if tool else frozenset[Effect]()
            try:
                self._audit.write(outcome, run_id=self.run_id, target=target, effects=effects, approved=approved)
            except Exception as e:  # the call has run: the model must hear of its result
                log.error("the audit log could not be written: %s", e)
        if log.isEnabledFor(DEBUG):
            kind = outcome.result.error_kind or "ok"
            fields = {"tool": outcome.call.name, "call": outcome.call.id, "kind": kind, "seconds": outcome.seconds}
            log.debug("tool %s: %s in %.3f s", outcome.call.name, kind, outcome.seconds, extra=fields)
        return outcome

    def _describe_unknown(self, call: ToolCall) -> str:
        if not len(self.registry):
            return f"There is no tool {call.name!r}: no tools are available."
        error = self.registry.unknown_name(call.name, call.namespace)
        if self.visible_names is not None:  # suggest only names that the model can see
            error = UnknownName("tool", call.name, self.visible_names)
        return f"There is no such tool: {error.hint}"


def _describe(tool: Tool, describe: Callable[[dict[str, Any]], str] | None, arguments: dict[str, Any]) -> str:
    """Return what a tool says about a call before it runs: its target or its preview."""
    if describe is None:
        return ""
    try:
        return str(describe(deep_copy(arguments)))
    except Exception as e:
        log.warning("tool %s cannot describe a call: %r", tool.name, e)
        return ""
