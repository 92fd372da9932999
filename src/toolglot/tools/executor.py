"""Executes calls: looks up the tool, binds the arguments, checks the policy, asks for approval, runs and records.

Invariants: a call always has an outcome; outcomes come in call order; no result is unbounded; the model never sees a
traceback. What happens while a call runs is in `execution`.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from logging import DEBUG
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec.structs import replace

from toolglot.common.jsontext import digest, dumps_text
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolError, UnknownName, UsageError
from toolglot.schema.arguments import deep_copy
from toolglot.tools.audit import AuditLog, DecidedBy
from toolglot.tools.call_queue import CallQueue
from toolglot.tools.calls import AnyCall, InterpretedCall, base_call
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import CallSuspended, InnerTools
from toolglot.tools.execution import CallBatch, Emit, PreparedCall, add_reminder, error_outcome
from toolglot.tools.hooks import HookChain, Hooks, Veto, apply_hooks
from toolglot.tools.inner_calls import InnerCalls, ask_approver
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.options import Describe
from toolglot.tools.policy import REPEATED_CALL, ToolPolicy, Verdict
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore, describe_error, read_result_tool
from toolglot.tools.tool import Tool
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import Allow, ApprovalRequest, Approve, Deny, Effect, Ruling
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolOutcome
from toolglot.values.losses import Repair
from toolglot.values.messages import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from toolglot.telemetry.runs import RunTelemetry

__all__ = ["ToolExecutor"]

log = get_logger("toolglot.tools")


_DEFAULT_CONFIG = ToolConfig()
_MAX_QUESTIONS = 4  # about one call whose effect keeps changing


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
        find_base_tools: Callable[[str], Iterable[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry, self.config = registry, config
        self.metrics = metrics or ToolMetrics()
        self.store = store if store is not None else ResultStore()
        self.policy = ToolPolicy(
            config,
            can_ask=approve is not None,
            # `in` the registry: tools are added and removed while the executor lives.
            names=PolicyNames(find_base_tools, lambda name: name in registry),
            # By identity: a tool of the user may have the same name.
            is_loop_tool=lambda tool: tool is self.loop_tools.get(tool.name) or tool is vars(self).get("read_result_tool"),
        )
        self.data, self.model = data, ""
        self.approve = approve
        self.hooks = hooks if isinstance(hooks, HookChain) else HookChain(hooks)
        self.clock = clock
        self.loop_tools: dict[str, Tool] = {}
        """Tools that the loop adds to those of the registry, by name."""
        self.visible_names: tuple[str, ...] | None = None
        """The model's names for the tools, if a facade has its own."""
        self.unloaded_tools: Mapping[str, ToolDefinition] = {}
        """Deferred tools that the model has not loaded, by the model's names for them."""
        self.inner_tools: tuple[ToolDefinition, ...] = ()
        """The tools that code run by the model may call."""
        self.interpret: Callable[[ToolCall], AnyCall] = lambda call: call
        """Translates a call that uses the model's names."""
        self.suspended: dict[str, tuple[PreparedCall, CallSuspended]] = {}
        """Calls whose code has made a call that waits for a decision, by id."""
        self.causes: dict[str, Exception] = {}
        """The exceptions behind failed calls, by call id; kept only for a run that raises them (`on_error="abort"`)."""
        self.interruption_notes: dict[str, str] = {}
        """What interrupted calls had done, by id, as far as their tools report it."""
        self.telemetry: RunTelemetry | None = None
        """The telemetry of the current run."""
        self.queue = CallQueue()
        """The calls that come from code, a client or another framework, besides the turns of a model."""
        self.questions = CallQueue()
        """The questions of calls that code makes: one is asked at a time."""
        self.make_inner_tools: Callable[[CallBatch, str, Ruling | None, CallSuspended | None], InnerTools]
        """Returns the tools that the code of a call may call. Arguments: the batch and the id of the call, a decision on a call
        of its code, and the exception that the call raised to wait for it."""
        self.make_inner_tools = partial(InnerCalls, self)
        self._run_id = run_id
        self._audit = audit

    @cached_property
    def run_id(self) -> str:
        """Identifies this conversation in the audit log. Created on demand, as only the log needs it."""
        return self._run_id or uuid4().hex[:12]

    @cached_property
    def read_result_tool(self) -> Tool:
        """Reads the rest of truncated results in this conversation."""
        return read_result_tool(self.store)

    def configure(self, config: ToolConfig) -> None:
        """Use another configuration from now on; counters are kept."""
        self.config = self.policy.config = config

    # ---- calls from start to end

    async def run(self, call: AnyCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()) -> ToolOutcome:
        """Run one call, asking for approval if it needs one."""
        return (await self.run_all([call], emit=emit, messages=messages))[0]

    async def run_all(
        self, calls: Sequence[AnyCall], *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> list[ToolOutcome]:
        """Run calls in parallel, at most `max_parallel` at a time; return the outcomes in call order.

        Calls of `ordered` tools keep their place among the others. Approval of a call is requested when its turn comes.
        """
        self.policy.begin_turn()
        outcomes: dict[int, ToolOutcome] = {}
        batch = CallBatch(self, emit=emit, messages=messages, on_done=outcomes.__setitem__)
        await run_turn(self, enumerate(calls), batch)
        return [outcomes[index] for index in range(len(calls))]

    # ---- the steps, for the loop

    def find_tool(self, call: AnyCall) -> Tool | None:
        """Return the tool that a call would run; None if there is none, or the call is invalid."""
        if isinstance(call, InterpretedCall) and call.error is not None:
            return None
        base = base_call(call)
        tool = self.loop_tools.get(base.qualified_name) or self.registry.find(base.name, base.namespace)
        return self.read_result_tool if tool is None and base.name == "read_result" else tool

    async def _find_current_tool(self, call: AnyCall) -> Tool | None:
        """Return the tool that a call would run. If the user always allowed it, its server may not be about to change it."""
        tool = self.find_tool(call)
        if tool is None or tool.catch_up is None or not self.policy.is_always_allowed(tool):
            return tool
        if not await tool.catch_up():
            self.policy.forget_always(tool)
        return self.find_tool(call)

    async def prepare(
        self, call: AnyCall, ask_reason: str = "", *, ruling: Ruling | None = None, dry_run: bool = False
    ) -> PreparedCall | ToolOutcome:
        """Return a call that is ready to run, or the outcome that says why it does not run.

        Args:
            call: The call as the model made it.
            ask_reason: Why it needs a decision, whatever the policy says.
            ruling: A decision that was already made on it.
            dry_run: Only inspect the call; nothing is counted or recorded.
        """
        if self.suspended and not dry_run and (suspended := self.suspended.pop(base_call(call).id, None)) is not None:
            return replace(suspended[0], inner_ruling=ruling, suspension=suspended[1])  # it has run up to a question
        if ruling is not None and isinstance(ruling.answer, Deny):
            return self.deny(call, ruling.answer)
        interpreted, name = (call, call.call.name) if isinstance(call, InterpretedCall) else (None, call.name)
        base, policy, target = base_call(call), self.policy, None
        tool = await self._find_current_tool(call)
        unloaded = self.unloaded_tools.get((interpreted.call if interpreted is not None else base).qualified_name)
        reminder = "" if dry_run or base.caller else policy.check_repetition(base, tool)
        if isinstance(reminder, ToolError):
            return self._refuse(base, interpreted, reminder, tool)
        if interpreted is not None and interpreted.error is not None:
            outcome = self._refuse(base, interpreted, _add_schema(interpreted.error, unloaded), tool, dry_run=dry_run)
            return add_reminder(outcome, reminder)
        if self.hooks.before_tool:
            changed = await apply_hooks(self.hooks.before_tool, base)
            if isinstance(changed, Veto):
                error = ToolError(f"The call did not run: {changed.reason}", kind="rejected", code="vetoed")
                outcome = self._refuse(
                    base, interpreted, error, tool, decided_by="hook", reason=changed.reason, dry_run=dry_run
                )
                return add_reminder(outcome, reminder)
            if changed is not base:
                base, tool = changed, self.find_tool(changed)
        try:
            if tool is None:
                raise ToolError(self._describe_unknown(base), kind="not_found", code="unknown_tool")
            policy.check_allowed(tool, name)
            bound = tool.bind(base)
            target = _describe(tool, tool.target, bound.arguments)[0]
            policy.check_limits(tool, name, self.clock())
            verdict = self._judge(tool, bound.arguments, ask_reason)
        except ToolError as error:
            outcome = self._refuse(base, interpreted, _add_schema(error, unloaded), tool, target, dry_run=dry_run)
            return add_reminder(outcome, reminder)
        repairs = bound.repairs if interpreted is None else (*interpreted.repairs, *bound.repairs)
        if verdict.action == "run" and not dry_run:
            policy.record_start(tool, self.clock())
        return PreparedCall(base, tool, bound.values, bound.arguments, repairs, target, interpreted, verdict, reminder=reminder)

    def _judge(self, tool: Tool, arguments: dict[str, Any], ask_reason: str = "") -> Verdict:
        """Return whether a call runs at once or needs approval. Raises ToolError if it may not run."""
        verdict = self.policy.judge(tool, arguments)
        if verdict.action == "refuse":
            message = f"The call did not run: {verdict.reason}."
            raise ToolError(message, kind="not_allowed", code=verdict.code, details=verdict)
        return Verdict("ask", ask_reason, each_time=True) if ask_reason and verdict.action == "run" else verdict

    # ---- approvals

    def runs_unasked(self, tool: Tool, call: ToolCall) -> bool:
        """Return whether the policy lets a call run without a decision."""
        try:
            return self._judge(tool, tool.bind(call).arguments).action == "run"
        except ToolError:
            return False

    async def preview(self, call: AnyCall, ask_reason: str = "") -> ApprovalRequest | None:
        """Return the approval request for a call; None if it needs no decision, or cannot run and has no `ask_reason`."""
        prepared = await self.prepare(call, ask_reason, dry_run=True)
        if isinstance(prepared, PreparedCall):
            return await self._make_request(prepared) if prepared.needs_approval else None
        if not ask_reason:
            return None
        base, tool, error = prepared.call, self.find_tool(call), prepared.result.text
        effects = tool.effects if tool is not None else frozenset[Effect]()
        request = ApprovalRequest(base, base.name, effects, "", base.arguments or {}, preview_error=error, reason=ask_reason)
        return replace(request, fingerprint=digest(request))

    async def decide(
        self, prepared: PreparedCall, ruling: Ruling | None = None, ask_reason: str = ""
    ) -> PreparedCall | ToolOutcome | ApprovalRequest:
        """Get a decision on a call and apply it. Return the request if the call must wait for one.

        A decision applies only to what was shown. The request is rebuilt after the answer, right before the call runs: if the
        call would no longer do the same, the approver is asked again. `ruling`: a decision that was made before.
        """
        for _ in range(_MAX_QUESTIONS):
            try:
                verdict = self._judge(prepared.tool, prepared.arguments, ask_reason)
            except ToolError as error:  # a rule forbids what it would do now
                return self._refuse(prepared.call, prepared.interpreted, error, prepared.tool, prepared.target)
            prepared = replace(prepared, verdict=verdict)
            if not prepared.needs_approval:
                self.policy.record_start(prepared.tool, self.clock())
                return prepared
            request = await self._make_request(prepared)
            prepared = replace(prepared, target=request.target)
            if ruling is not None and isinstance(ruling.answer, Allow):
                if ruling.fingerprint == request.fingerprint:
                    allowed = self._allow(prepared, ruling.answer)
                    if isinstance(allowed, ToolOutcome) or allowed.approved:
                        return allowed
                    prepared, ruling = allowed, None
                    continue
                request = replace(request, reason=f"what it would do has changed since it was approved; {request.reason}")
            if self.telemetry is not None:
                self.telemetry.note_approval_request(request)
            answer = None if self.approve is None else await ask_approver(self.approve, request)
            if answer is None:
                return request
            if isinstance(answer, Deny):
                return add_reminder(self.deny(prepared.interpreted or prepared.call, answer, prepared), prepared.reminder)
            ruling = Ruling(request.fingerprint, answer)
        message = "The call did not run: its effect changed each time the user was asked to approve it."
        error = ToolError(message, kind="rejected", code="not_approved")
        return self._refuse(prepared.call, prepared.interpreted, error, prepared.tool, prepared.target)

    async def _make_request(self, prepared: PreparedCall) -> ApprovalRequest:
        call, tool, verdict, arguments = prepared.call, prepared.tool, prepared.verdict, deep_copy(prepared.arguments)
        target = _describe(tool, tool.target, arguments)[0]
        preview, error = "", ""
        if tool.preview is not None:  # it may read files: it must not block the event loop
            preview, error = await asyncio.to_thread(_describe, tool, tool.preview, arguments)
        request = ApprovalRequest(
            call, tool.name, tool.effects, target, arguments, preview, error, verdict.reason, verdict.each_time
        )
        return replace(request, fingerprint=digest([request, tool.definition, tool.server_hints, self.policy.approval_rules]))

    def _allow(self, prepared: PreparedCall, answer: Allow) -> PreparedCall | ToolOutcome:
        """Continue with an approved call. If the returned call is not marked as approved, its new arguments need approval."""
        tool, shown = prepared.tool, prepared.verdict
        try:
            if answer.arguments is not None:
                prepared = self.change_arguments(prepared, answer.arguments)
                if answer.ask_again or (prepared.verdict.each_time and prepared.verdict.reason != shown.reason):
                    if self.approve is not None:
                        return prepared
                    message = "The call did not run: there is no approver for its new arguments."
                    raise ToolError(message, kind="rejected", code="not_approved")
            if answer.always and not prepared.verdict.each_time:
                self.policy.allow_always(tool)
            # Other calls may have started since the first check.
            self.policy.check_limits(tool, prepared.shown_name, self.clock())
        except ToolError as error:
            return self._refuse(prepared.call, prepared.interpreted, error, tool, prepared.target, approved=True)
        self.policy.record_start(tool, self.clock())
        return replace(prepared, approved=True)

    def change_arguments(self, prepared: PreparedCall, arguments: dict[str, Any]) -> PreparedCall:
        """Return a call with the approver's arguments. Raises UsageError if they are invalid, ToolError if a rule denies it."""
        tool, old = prepared.tool, prepared.call
        call = ToolCall(old.id, old.name, deep_copy(arguments), namespace=old.namespace, caller=old.caller)
        try:
            bound = tool.bind(call)
        except ToolError as error:
            issues = "; ".join(map(str, error.details or [error]))
            raise UsageError(f"Allow(arguments=…) does not fit the tool {tool.name!r}: {issues}") from None
        target = _describe(tool, tool.target, bound.arguments)[0]
        verdict = self._judge(tool, bound.arguments)
        repair = Repair("arguments", tool.name, "the approver changed them")
        return replace(
            prepared,
            call=call,
            values=bound.values,
            arguments=bound.arguments,
            repairs=(*prepared.repairs, repair),
            target=target,
            verdict=verdict,
            is_changed=True,
        )

    def deny(self, call: AnyCall, answer: Deny | None, prepared: PreparedCall | None = None) -> ToolOutcome:
        """Return the outcome of a call that was not approved. `answer` is None if there was no approver to ask."""
        message = "The user did not approve the call." if answer else "The call needs approval, but no approver is available."
        reason = answer.reason.strip() if answer else ""
        message += f" It did not run. Reason: {reason}" if reason else " It did not run."
        error = ToolError(message, kind="rejected", code="not_approved")
        interpreted = call if isinstance(call, InterpretedCall) else None
        base, tool = (prepared.call, prepared.tool) if prepared else (base_call(call), self.find_tool(call))
        by = "user" if answer else "policy"
        return self._refuse(base, interpreted, error, tool, approved=False, decided_by=by, reason=reason)

    def _refuse(
        self,
        call: ToolCall,
        interpreted: InterpretedCall | None,
        error: ToolError,
        tool: Tool | None = None,
        target: str | None = None,
        *,
        approved: bool | None = None,
        decided_by: DecidedBy = "policy",
        reason: str = "",
        dry_run: bool = False,
    ) -> ToolOutcome:
        """Return the outcome of a call that does not run, phrased as in the model's own harness."""
        outcome = error_outcome(call, error)
        if interpreted is not None and interpreted.render is not None:
            outcome = replace(outcome, result=interpreted.render(outcome.result, call.arguments or {}, error.details))
        if dry_run:
            return outcome
        if isinstance(verdict := error.details, Verdict):
            decided_by, reason = verdict.decided_by, verdict.reason
        return self.record(outcome, tool, target, approved=approved, decided_by=decided_by, reason=reason or error.code)

    # ---- what happened

    def record(
        self,
        outcome: ToolOutcome,
        tool: Tool | None = None,
        target: str | None = None,
        *,
        approved: bool | None = None,
        decided_by: DecidedBy = "policy",
        reason: str = "",
        content: Any = None,
    ) -> ToolOutcome:
        """Count an outcome and write it to the audit log.

        `target`: by default, as the tool describes the call. `content`: the tool's own result, if a facade has added times or
        ids to it.
        """
        self.metrics.add(outcome)
        if self.telemetry is not None and not outcome.ran:
            self.telemetry.note_refusal(outcome, is_denied=approved is False, reason=reason)
        if outcome.result.error_code != REPEATED_CALL:  # such a refusal is not a new result of the call
            returned = outcome.result.content if content is None else content
            self.policy.record_result(outcome.call, tool if outcome.ran else None, returned)
        if self._audit is not None:
            if target is None and tool is not None:
                with suppress(ToolError):  # its arguments are not valid
                    target = _describe(tool, tool.target, tool.bind(outcome.call).arguments)[0]
            effects = tool.effects if tool else frozenset[Effect]()
            self._log_call(outcome, target or "", effects, approved, decided_by, reason)
        if log.isEnabledFor(DEBUG):
            kind = outcome.result.error_kind or "ok"
            fields = {"tool": outcome.call.name, "call": outcome.call.id, "kind": kind, "seconds": outcome.seconds}
            log.debug("tool %s: %s in %.3f s", outcome.call.name, kind, outcome.seconds, extra=fields)
        return outcome

    def record_pending(self, requests: Iterable[ApprovalRequest]) -> None:
        """Record waiting calls in the audit log, because a decision may never be made."""
        for request in requests:
            outcome = ToolOutcome(request.call, ToolResult(request.call.id), ran=False)
            self._log_call(outcome, request.target, request.effects, None, "pending", request.reason)

    def _log_call(
        self,
        outcome: ToolOutcome,
        target: str,
        effects: frozenset[Effect],
        approved: bool | None,
        decided_by: DecidedBy,
        reason: str,
    ) -> None:
        if self._audit is None:
            return
        try:
            self._audit.write(
                outcome,
                run_id=self.run_id,
                target=target,
                effects=effects,
                approved=approved,
                decided_by=decided_by,
                reason=reason,
            )
        except Exception as e:  # the call has run, so the model must get its result
            log.error("the audit log could not be written: %s", e)

    def _describe_unknown(self, call: ToolCall) -> str:
        if not len(self.registry):
            return f"There is no tool {call.name!r}: no tools are available."
        error = self.registry.unknown_name(call.name, call.namespace)
        if self.visible_names is not None:  # suggest only names that the model can see
            error = UnknownName("tool", call.name, self.visible_names)
        return f"There is no such tool: {error.hint}"


def _add_schema(error: ToolError, unloaded: ToolDefinition | None) -> ToolError:
    """Add the tool's schema to an error about arguments, if the model called the tool without loading it."""
    if unloaded is None or error.kind != "validation":
        return error
    text = f"{error}\nThe tool was called before it was loaded. Its parameters: {dumps_text(unloaded.parameters or {})}"
    return ToolError(text, kind=error.kind, code=error.code, details=error.details)


def _describe(tool: Tool, describe: Describe | None, arguments: dict[str, Any]) -> tuple[str, str]:
    """Return a tool's description of a call (target or preview) and ""; if that fails, "" and the reason."""
    if describe is None:
        return "", ""
    try:
        return str(describe(deep_copy(arguments))), ""
    except ToolError as e:
        return "", str(e)
    except Exception as e:
        log.warning("tool %s failed to describe a call: %r", tool.name, e)
        return "", describe_error(e)
