"""Where the calls of a conversation run: each is looked up, bound, judged, approved, run and recorded here,
whoever made it.

Invariants: a call always has an outcome, or waits as `Suspended`; outcomes come in call order; no result is
unbounded; the model never sees a traceback. What happens while a call runs is in `execution`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from logging import DEBUG
from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import digest, dumps_text
from toolglot.common.loggers import get_logger
from toolglot.errors import MalformedData, ToolError, UnknownName, UsageError
from toolglot.schema.arguments import deep_copy
from toolglot.tools.audit import AuditLog, DecidedBy
from toolglot.tools.call_queue import CallQueue
from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall, InterpretedCall, base_call
from toolglot.tools.context import CallSuspended, Later
from toolglot.tools.execution import CallBatch, Emit, PreparedCall, TurnObserver, add_reminder, error_outcome
from toolglot.tools.external import WaitsElsewhere, missing_tool_error
from toolglot.tools.hooks import HookChain, Veto, apply_hooks
from toolglot.tools.inner_calls import InnerCalls, ask_approver
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.options import Describe
from toolglot.tools.policy import NO_APPROVAL, REPEATED_CALL, ToolPolicy, Verdict, describe_approval_rules
from toolglot.tools.results import ResultStore, describe_error, read_result_tool
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import (
    Allow,
    ApprovalRequest,
    Approve,
    Deny,
    Effect,
    Path,
    Ruling,
    Rulings,
    Suspended,
    SuspensionRecord,
)
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolOutcome
from toolglot.values.losses import Repair
from toolglot.values.messages import Message, ToolCall, ToolResult

__all__ = ["HostOptions", "ToolHost"]

log = get_logger("toolglot.tools")

_MAX_QUESTIONS = 4  # about one call whose effect keeps changing
_NO_RULINGS: Mapping[int, Rulings] = {}
_NONE: Rulings = {}


class HostOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all conversations of a program share: who decides on calls, who watches them, and where they are
    recorded.
    """

    approve: Approve | None = None
    hooks: HookChain = HookChain()
    audit: AuditLog | None = None
    metrics: ToolMetrics = msgspec.field(default_factory=ToolMetrics)
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    """For what another process reads: when calls expire."""

    def open_host(
        self, *, store: ResultStore | None = None, run_id: str = "", can_allow_always: bool = True
    ) -> "ToolHost":
        """Return the host of a new conversation.

        Args:
            store: Truncated results; those of another conversation, to share them.
            run_id: Identifies the conversation in the audit log.
            can_allow_always: Whether "always" means more than "yes".
        """
        return ToolHost(
            self, ResultStore() if store is None else store, run_id, can_allow_always=can_allow_always
        )


class _Refusal(msgspec.Struct, frozen=True):
    """Why a call does not run, and what it would be about, as far as that is known."""

    error: ToolError
    target: str | None


def _ignore_question(is_asking: bool) -> None:
    """Hear of a question where no clock runs."""


class _Outcomes:
    """Collects what becomes of the calls of a turn."""

    def __init__(self, on_ask: Callable[[bool], None] = _ignore_question) -> None:
        self.on_ask = on_ask
        self.by_index: dict[int, ToolOutcome | Suspended] = {}

    def on_start(self, index: int) -> None:
        return None

    def on_finish(self, index: int, outcome: ToolOutcome) -> None:
        self.by_index[index] = outcome

    def on_suspend(self, index: int, waiting: Sequence[Suspended]) -> None:
        self.by_index[index] = waiting[0]

    def take_started(self, index: int, call: AnyCall) -> None:
        return None


class _SuspendedCall(msgspec.Struct, frozen=True):
    """A call that has run up to a question, or whose answer comes from elsewhere."""

    prepared: PreparedCall
    suspension: CallSuspended
    waiting: tuple[Suspended, ...]
    """What it waits for, as it is shown."""
    own_fingerprints: Mapping[Path, str]
    """Of the same, as the code or the sub-agent knows it, by the path below the call."""


class HostState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is saved of a host: with it, another process continues where this one stopped."""

    uses: list[tuple[str, str, int]] = []
    """Namespace, name and number of calls of each tool."""
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12}$")] | None = None
    """Of the conversation in the audit log and in telemetry; None: nobody has needed one."""
    results: list[str] = []
    """Texts that were too long for the model to see whole; it can still read them."""


class ToolHost:
    """Runs the calls of one conversation, and keeps what they leave behind: counters, answers, results, calls
    that wait.
    """

    def __init__(
        self, options: HostOptions, store: ResultStore, run_id: str = "", *, can_allow_always: bool = True
    ) -> None:
        self.options, self.store = options, store
        self.policy = ToolPolicy(can_allow_always=can_allow_always)
        self.clock = options.clock
        self.causes: dict[str, Exception] = {}
        """The exceptions behind failed calls, by call id; kept only for a run that raises them
        (`on_error="abort"`)."""
        self.interruption_notes: dict[str, str] = {}
        """What interrupted calls of the present turn had done, by id, as far as their tools report it."""
        self.queue = CallQueue()
        """The calls that a client or a framework makes one by one."""
        self.inner_queue = CallQueue()
        """The calls that their code makes."""
        self.questions = CallQueue()
        """The questions of calls that code makes: one is asked at a time."""
        self._suspended: dict[str, _SuspendedCall] = {}
        self._given_run_id, self._run_id = run_id, ""

    @property
    def run_id(self) -> str:
        """Identifies this conversation in the audit log. Created on demand, as only the log needs it."""
        if not self._run_id:
            self._run_id = self._given_run_id or uuid4().hex[:12]
        return self._run_id

    def snapshot(self) -> HostState:
        """Return what is saved of the host. Answers of people are never saved."""
        uses = [(*key, count) for key, count in self.policy.uses.items()]
        return HostState(uses, self._run_id or None, list(self.store.texts))

    def restore(self, state: HostState) -> None:
        """Continue where another host stopped."""
        self.policy.uses = {(namespace, name): count for namespace, name, count in state.uses}
        if state.id is not None:
            self._run_id = state.id
        for text in state.results:
            self.store.put(text)

    @cached_property
    def read_result_tool(self) -> Tool:
        """Reads the rest of truncated results in this conversation."""
        return read_result_tool(self.store)

    # ---- calls from start to end

    async def run(
        self,
        call: AnyCall,
        caller: Caller,
        *,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        on_ask: Callable[[bool], None] = _ignore_question,
    ) -> ToolOutcome:
        """Run one call, asking for approval if it needs one. If nobody can decide now, it is refused."""
        self.policy.begin_turn()
        outcome = await self.run_or_suspend(call, caller, emit=emit, messages=messages, on_ask=on_ask)
        if isinstance(outcome, Suspended):
            return self.refuse(call, caller)
        return outcome

    async def run_or_suspend(
        self,
        call: AnyCall,
        caller: Caller,
        ruling: Ruling | None = None,
        *,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        on_ask: Callable[[bool], None] = _ignore_question,
    ) -> ToolOutcome | Suspended:
        """Run one call whose turn it is; return it as `Suspended` if it has to wait.

        `ruling`: a decision made before, on what was returned then. `on_ask`: as of a `TurnObserver`.
        """
        outcomes = _Outcomes(on_ask)
        batch = CallBatch(self, outcomes, emit=emit, messages=messages)
        rulings = _NO_RULINGS
        if ruling is not None:
            waiting = self.find_suspended(base_call(call).id)
            rulings = {0: {waiting[0].path[1:] if waiting else (): ruling}}
        await run_turn(self, [(0, call)], caller, batch, rulings)
        return outcomes.by_index[0]

    async def run_all(
        self,
        calls: Sequence[AnyCall],
        caller: Caller,
        *,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
    ) -> list[ToolOutcome]:
        """Run calls in parallel, at most `max_parallel` at a time; return the outcomes in call order.

        Calls of `ordered` tools keep their place among the others. Approval of a call is requested when its
        turn comes.
        """
        outcomes = _Outcomes()
        await self.run_turn(enumerate(calls), caller, outcomes, emit=emit, messages=messages)
        results: list[ToolOutcome] = []
        for index, call in enumerate(calls):
            outcome = outcomes.by_index.get(index)
            # a call after an ordered one that waits is not even judged
            if not isinstance(outcome, ToolOutcome):
                outcome = self.refuse(call, caller)
            results.append(outcome)
        return results

    async def run_turn(
        self,
        calls: Iterable[tuple[int, AnyCall]],
        caller: Caller,
        observer: TurnObserver,
        *,
        rulings: Mapping[int, Rulings] = _NO_RULINGS,
        ask_reason: str = "",
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        owner: object = None,
    ) -> None:
        """Run the calls of a model's turn, each with its index; `observer` hears what becomes of them.

        `rulings`: decisions that were made before, by index. `ask_reason`: why every call needs one, whatever
        the policy says. `owner`: the run that they belong to, for tools that start runs of their own.
        """
        self.policy.begin_turn()
        self.interruption_notes.clear()
        # The queue is the batch's own: a tool may run another turn, which must not wait for this one.
        batch = CallBatch(
            self,
            observer,
            max_parallel=caller.config.max_parallel,
            emit=emit,
            messages=messages,
            owner=owner,
        )
        await run_turn(self, calls, caller, batch, rulings, ask_reason)

    def refuse(self, call: AnyCall, caller: Caller) -> ToolOutcome:
        """Return the outcome of a call that waits, when nobody will decide on it."""
        self.release(base_call(call).id)
        return self.deny(call, caller, None)

    # ---- the steps of a call

    def find_tool(self, call: AnyCall, caller: Caller) -> Tool | None:
        """Return the tool that a call would run; None if there is none, or the call is invalid."""
        tool = caller.find_tool(call)
        if tool is None and base_call(call).name == "read_result" and getattr(call, "error", None) is None:
            return self.read_result_tool
        return tool

    def is_ordered(self, call: AnyCall, caller: Caller) -> bool:
        """Return whether a call runs alone."""
        tool = self.find_tool(call, caller)
        return tool is not None and tool.ordered

    async def prepare(
        self,
        call: AnyCall,
        caller: Caller,
        ask_reason: str = "",
        *,
        rulings: Rulings = _NONE,
        tool: Tool | None = None,
        dry_run: bool = False,
    ) -> PreparedCall | ToolOutcome:
        """Return a call that is ready to run, or the outcome that says why it does not run.

        Args:
            call: The call as the caller made it.
            caller: Who made it.
            ask_reason: Why it needs a decision, whatever the policy says.
            rulings: Decisions and answers that there are already.
            tool: The tool, if it has been looked up.
            dry_run: Only inspect the call; nothing is counted or recorded.
        """
        base, policy = base_call(call), self.policy
        if (rulings or self._suspended) and not dry_run:
            decided = self._take_decided(call, caller, rulings)
            if decided is not None:
                return decided
        interpreted = call if isinstance(call, InterpretedCall) else None
        tool = self.find_tool(call, caller) if tool is None else tool
        if tool is not None and tool.catch_up is not None and self.policy.is_always_allowed(tool):
            await self._catch_up(tool, tool.catch_up)
            tool = self.find_tool(call, caller)
        reminder = "" if dry_run else self._find_repetition(base, tool, caller)
        if isinstance(reminder, ToolError):
            return self._refuse(base, caller, interpreted, reminder, tool)
        if interpreted is not None and interpreted.error is not None:
            error = _add_schema(interpreted.error, call, caller)
            outcome = self._refuse(base, caller, interpreted, error, tool, dry_run=dry_run)
            return add_reminder(outcome, reminder)
        hooks = self.options.hooks.before_tool
        changed = await apply_hooks(hooks, base) if hooks else base
        if isinstance(changed, Veto):
            error = ToolError(f"The call did not run: {changed.reason}", kind="rejected", code="vetoed")
            outcome = self._refuse(
                base,
                caller,
                interpreted,
                error,
                tool,
                decided_by="hook",
                reason=changed.reason,
                dry_run=dry_run,
            )
            return add_reminder(outcome, reminder)
        if changed is not base:
            base, tool = changed, self.find_tool(changed, caller)
        prepared = self._bind_and_judge(base, tool, caller, interpreted, ask_reason)
        if isinstance(prepared, _Refusal):
            error = _add_schema(prepared.error, call, caller)
            outcome = self._refuse(base, caller, interpreted, error, tool, prepared.target, dry_run=dry_run)
            return add_reminder(outcome, reminder)
        if prepared.verdict.action == "run" and not dry_run:
            policy.record_start(prepared.tool, caller, self._read_clock(prepared.tool, caller))
        return replace(prepared, reminder=reminder) if reminder else prepared

    def _take_decided(
        self, call: AnyCall, caller: Caller, rulings: Rulings
    ) -> PreparedCall | ToolOutcome | None:
        """Return a call that has run up to a question, or one that was denied; None for any other."""
        kept = self._suspended.pop(base_call(call).id, None)
        if kept is not None:
            prepared = kept.prepared
            # Its spans belong to the part of the run that continues it.
            kept_caller = replace(prepared.caller, telemetry=caller.telemetry)
            rulings = _translate(rulings, kept)
            return replace(prepared, caller=kept_caller, rulings=rulings, suspension=kept.suspension)
        ruling = rulings.get(())
        if ruling is not None and isinstance(ruling.answer, Deny):
            return self.deny(call, caller, ruling.answer)
        return None

    def _bind_and_judge(
        self,
        call: ToolCall,
        tool: Tool | None,
        caller: Caller,
        interpreted: InterpretedCall | None,
        ask_reason: str,
    ) -> "PreparedCall | _Refusal":
        target = None
        try:
            if tool is None:
                raise ToolError(_describe_unknown(call, caller), kind="not_found", code="unknown_tool")
            shown_name = call.name if interpreted is None else interpreted.call.name
            is_added = self._is_added(tool, caller)
            if not is_added:
                self.policy.check_allowed(tool, shown_name, caller)
            bound = tool.bind(call)
            if tool.target is not None:
                target = _describe(tool, tool.target, bound.arguments)[0]
            self.policy.check_limits(tool, shown_name, caller, self._read_clock(tool, caller))
            if is_added and tool.always_ask is None and not tool.is_external:
                verdict = NO_APPROVAL
            else:
                verdict = self.policy.judge(tool, caller, bound.arguments)
            verdict = _settle(verdict, ask_reason)
        except ToolError as error:
            return _Refusal(error, target)
        repairs = bound.repairs if interpreted is None else (*interpreted.repairs, *bound.repairs)
        return PreparedCall(
            call, tool, caller, bound.values, bound.arguments, repairs, target or "", interpreted, verdict
        )

    def _read_clock(self, tool: Tool, caller: Caller) -> float:
        """Return the time, for limits in calls per time; where there are none, a system call is saved."""
        return self.clock() if tool.rate is not None or caller.config.rates else 0.0

    async def _catch_up(self, tool: Tool, catch_up: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the server of a tool that the user always allows is not about to change it; otherwise
        ask again.
        """
        if not await catch_up():
            self.policy.forget_always(tool)

    def _find_repetition(self, call: ToolCall, tool: Tool | None, caller: Caller) -> ToolError | str:
        """Return a reminder or a refusal for a model that repeats itself; code may repeat its calls."""
        return "" if call.caller else self.policy.check_repetition(call, tool, caller.config.max_repeats)

    def judge(self, tool: Tool, caller: Caller, arguments: dict[str, Any] | None = None) -> Verdict:
        """Return whether a call runs at once, needs approval or is refused.

        Without arguments: what holds for the tool.
        """
        if tool.always_ask is None and not tool.is_external and self._is_added(tool, caller):
            return NO_APPROVAL
        return self.policy.judge(tool, caller, arguments)

    def _judge(self, tool: Tool, caller: Caller, arguments: dict[str, Any], ask_reason: str = "") -> Verdict:
        """Like `judge`. Raises ToolError if the call may not run."""
        return _settle(self.judge(tool, caller, arguments), ask_reason)

    def _is_added(self, tool: Tool, caller: Caller) -> bool:
        """Return whether a tool is none of the user's: the loop or the host has added it."""
        return (bool(caller.added_tools) and caller.has_added(tool)) or tool is self.__dict__.get(
            "read_result_tool"
        )

    # ---- approvals

    def runs_unasked(self, tool: Tool, call: ToolCall, caller: Caller) -> bool:
        """Return whether the policy lets a call run without a decision."""
        try:
            return self._judge(tool, caller, tool.bind(call).arguments).action == "run"
        except ToolError:
            return False

    async def preview(self, call: AnyCall, caller: Caller, ask_reason: str = "") -> Suspended | None:
        """Return what a call would wait for; None if it needs no decision, or cannot run and has no
        `ask_reason`.
        """
        prepared = await self.prepare(call, caller, ask_reason, dry_run=True)
        if isinstance(prepared, PreparedCall):
            return (
                Suspended.from_request(await self._make_request(prepared))
                if prepared.needs_approval
                else None
            )
        if not ask_reason:
            return None
        base, tool, error = prepared.call, self.find_tool(call, caller), prepared.result.text
        effects = tool.effects if tool is not None else frozenset[Effect]()
        request = ApprovalRequest(
            base, base.name, effects, "", base.arguments or {}, preview_error=error, reason=ask_reason
        )
        return Suspended.from_request(replace(request, fingerprint=digest(request)))

    async def decide(
        self,
        prepared: PreparedCall,
        ruling: Ruling | None = None,
        ask_reason: str = "",
        *,
        on_ask: Callable[[bool], None],
    ) -> PreparedCall | ToolOutcome | Suspended:
        """Get a decision on a call and apply it. Return the call as `Suspended` if it must wait for one.

        A decision applies only to what was shown. The request is rebuilt after the answer, right before the
        call runs: if the call would no longer do the same, the approver is asked again. `ruling`: a decision
        that was made before. `on_ask`: as of a `TurnObserver`.
        """
        approve, caller = self.options.approve, prepared.caller
        for _ in range(_MAX_QUESTIONS):
            try:
                verdict = self._judge(prepared.tool, caller, prepared.arguments, ask_reason)
            except ToolError as error:  # a rule forbids what it would do now
                return self._refuse_prepared(prepared, error)
            prepared = replace(prepared, verdict=verdict)
            if not prepared.needs_approval:
                self.policy.record_start(prepared.tool, caller, self._read_clock(prepared.tool, caller))
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
                request = replace(
                    request, reason=f"what it would do has changed since it was approved; {request.reason}"
                )
            if caller.telemetry is not None:
                caller.telemetry.note_approval_request(request)
            answer = None if approve is None else await ask_approver(approve, request, on_ask)
            if answer is None:
                return Suspended.from_request(request)
            if isinstance(answer, Deny):
                denied = self.deny(prepared.interpreted or prepared.call, caller, answer, prepared)
                return add_reminder(denied, prepared.reminder)
            ruling = Ruling(request.fingerprint, answer)
        message = "The call did not run: its effect changed each time the user was asked to approve it."
        error = ToolError(message, kind="rejected", code="not_approved")
        return self._refuse_prepared(prepared, error)

    async def _make_request(self, prepared: PreparedCall) -> ApprovalRequest:
        call = prepared.call
        tool = prepared.tool
        verdict = prepared.verdict
        arguments = deep_copy(prepared.arguments)
        target = _describe(tool, tool.target, arguments)[0]
        preview, error = "", ""
        if tool.preview is not None:  # it may read files: it must not block the event loop
            preview, error = await asyncio.to_thread(_describe, tool, tool.preview, arguments)
        request = ApprovalRequest(
            call,
            tool.name,
            tool.effects,
            target,
            arguments,
            preview,
            error,
            verdict.reason,
            verdict.each_time,
        )
        rules = describe_approval_rules(prepared.caller.config)
        return replace(request, fingerprint=digest([request, tool.definition, tool.server_hints, rules]))

    def _allow(self, prepared: PreparedCall, answer: Allow) -> PreparedCall | ToolOutcome:
        """Continue with an approved call.

        If the returned call is not marked as approved, its new arguments need approval.
        """
        tool, shown, caller = prepared.tool, prepared.verdict, prepared.caller
        try:
            if answer.arguments is not None:
                prepared = self.change_arguments(prepared, answer.arguments)
                if answer.ask_again or (
                    prepared.verdict.each_time and prepared.verdict.reason != shown.reason
                ):
                    if self.options.approve is not None:
                        return prepared
                    message = "The call did not run: there is no approver for its new arguments."
                    raise ToolError(message, kind="rejected", code="not_approved")
            if answer.always and not prepared.verdict.each_time:
                self.policy.allow_always(tool)
            # Other calls may have started since the first check.
            self.policy.check_limits(tool, prepared.shown_name, caller, self._read_clock(tool, caller))
        except ToolError as error:
            return self._refuse_prepared(prepared, error, approved=True)
        self.policy.record_start(tool, caller, self._read_clock(tool, caller))
        return replace(prepared, approved=True)

    def change_arguments(self, prepared: PreparedCall, arguments: dict[str, Any]) -> PreparedCall:
        """Return a call with the approver's arguments.

        Raises UsageError if they are invalid, ToolError if a rule denies it.
        """
        tool, old = prepared.tool, prepared.call
        call = _with_arguments(old, arguments)
        try:
            bound = tool.bind(call)
        except ToolError as error:
            issues = "; ".join(map(str, error.details or [error]))
            raise UsageError(f"Allow(arguments=…) does not fit the tool {tool.name!r}: {issues}") from None
        target = _describe(tool, tool.target, bound.arguments)[0]
        verdict = self._judge(tool, prepared.caller, bound.arguments)
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

    def deny(
        self, call: AnyCall, caller: Caller, answer: Deny | None, prepared: PreparedCall | None = None
    ) -> ToolOutcome:
        """Return the outcome of a call that was not approved.

        `answer` is None if there was no approver to ask.
        """
        decided_by: DecidedBy = "policy"
        message, reason = "The call needs approval, but no approver is available. It did not run.", ""
        if answer is not None:
            decided_by, reason = "user", answer.reason.strip()
            message = "The user did not approve the call. It did not run."
            if reason:
                message += f" Reason: {reason}"
        error = ToolError(message, kind="rejected", code="not_approved")
        interpreted = call if isinstance(call, InterpretedCall) else None
        if prepared is not None:
            base, tool = prepared.call, prepared.tool
        else:
            base, tool = base_call(call), self.find_tool(call, caller)
        return self._refuse(
            base, caller, interpreted, error, tool, approved=False, decided_by=decided_by, reason=reason
        )

    def _refuse_prepared(
        self, prepared: PreparedCall, error: ToolError, *, approved: bool | None = None
    ) -> ToolOutcome:
        return self._refuse(
            prepared.call,
            prepared.caller,
            prepared.interpreted,
            error,
            prepared.tool,
            prepared.target,
            approved=approved,
        )

    def _refuse(
        self,
        call: ToolCall,
        caller: Caller,
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
            outcome = replace(
                outcome, result=interpreted.render(outcome.result, call.arguments or {}, error.details)
            )
        if dry_run:
            return outcome
        if isinstance(verdict := error.details, Verdict):
            decided_by, reason = verdict.decided_by, verdict.reason
        return self.record(
            outcome,
            caller,
            tool,
            target,
            approved=approved,
            decided_by=decided_by,
            reason=reason or error.code,
        )

    # ---- calls that have run up to a question, or whose answer comes from elsewhere

    def suspend(self, prepared: PreparedCall, suspension: CallSuspended) -> tuple[Suspended, ...]:
        """Keep a call that waits; return what it waits for."""
        outer, waiting, fingerprints = prepared.call, list[Suspended](), dict[Path, str]()
        for item in suspension.waiting:
            if isinstance(item, ApprovalRequest):
                item = Suspended.from_request(item, outer=outer)
            elif not isinstance(suspension, WaitsElsewhere):  # of a sub-agent
                item = replace(item, path=(outer.id, *item.path), has_started=True)
            fingerprints[item.path[1:]] = item.fingerprint
            item = replace(item, blocks_later=suspension.blocks_later)
            waiting.append(item if len(item.path) == 1 else _mark(item))
        self._suspended[outer.id] = _SuspendedCall(prepared, suspension, tuple(waiting), fingerprints)
        return tuple(waiting)

    def find_suspended(self, call_id: str) -> tuple[Suspended, ...]:
        """Return what a call waits for that has run up to a question; nothing for any other."""
        kept = self._suspended.get(call_id)
        return () if kept is None else kept.waiting

    async def check_rulings(self, call_id: str, rulings: Rulings) -> None:
        """Raise UsageError for rulings on what the code or the sub-agent of a call waits for, if they cannot be
        carried out.
        """
        kept = self._suspended.get(call_id)
        if kept is not None:
            await kept.suspension.check(_translate(rulings, kept))

    def save_suspended(self, call_id: str) -> Any:
        """Return with what a call that waits continues in another process; None: it cannot."""
        kept = self._suspended.get(call_id)
        own = None if kept is None else kept.suspension.save()
        if kept is None or own is None:
            return None
        prepared = kept.prepared
        state = {"own": own, "arguments": prepared.arguments, "approved": prepared.approved}
        return {**state, "changed": True} if prepared.is_changed else state

    async def reopen(
        self, call: AnyCall, caller: Caller, record: SuspensionRecord, distrust_reason: str = ""
    ) -> None:
        """Continue to wait with a call that another process has saved. Raises MalformedData, UsageError.

        `distrust_reason`: why what was saved cannot be trusted.
        """
        base, state = base_call(call), _read_state(record)
        tool = self.find_tool(call, caller)
        if tool is None and not record.is_external:
            raise missing_tool_error(base.name)
        if (
            record.is_external
        ):  # its answer is all that is needed: a function that it has by now is not called
            tool = tool or tool_from_definition(ToolDefinition(base.name))
        assert tool is not None
        if state.changed:
            base = _with_arguments(base, state.arguments)
        prepared = PreparedCall(
            base,
            tool,
            caller,
            dict(state.arguments),
            state.arguments,
            (),
            _describe(tool, tool.target, state.arguments)[0],
            call if isinstance(call, InterpretedCall) else None,
            NO_APPROVAL,
            state.approved,
            state.changed,
        )
        if record.is_external:
            self.suspend(prepared, WaitsElsewhere.reopen(self._describe_external(prepared), record))
        elif tool.reopen is not None:
            self.suspend(prepared, await tool.reopen(state.own, prepared, distrust_reason))
        else:
            raise MalformedData(f"the saved call of {base.name} cannot be continued: its tool has changed")

    def wait_elsewhere(self, prepared: PreparedCall, later: Later) -> tuple[Suspended, ...]:
        """Keep a call whose answer comes from elsewhere."""
        tool = prepared.tool
        seconds = tool.timeout if tool.is_external else later.expires
        if seconds is None:
            seconds = prepared.caller.config.answer_timeout
        expires = None if seconds is None else self.options.wall_clock() + seconds
        schema = later.schema or tool.definition.output_schema
        request = self._describe_external(prepared)
        suspended = Suspended(
            request, (request.id,), "external", not tool.is_external, tool.ordered, schema, later.key, expires
        )
        return self.suspend(prepared, WaitsElsewhere(suspended))

    def _describe_external(self, prepared: PreparedCall) -> ApprovalRequest:
        call, tool, arguments = prepared.call, prepared.tool, deep_copy(prepared.arguments)
        reason = "its answer comes from elsewhere"
        request = ApprovalRequest(
            call, tool.name, tool.effects, prepared.target, arguments, reason=reason, form=None
        )
        return replace(request, fingerprint=digest(["external", request, prepared.approved]))

    def count_suspended(self) -> int:
        """Return how many calls have started and wait."""
        return len(self._suspended)

    def release(self, call_id: str) -> None:
        """End a call that has started and waits: nobody will decide any more."""
        if (kept := self._suspended.pop(call_id, None)) is not None:
            kept.suspension.release()

    def release_oldest(self) -> None:
        """End the call that has waited longest."""
        self.release(next(iter(self._suspended)))

    def release_all(self) -> None:
        """End all calls that have started and wait."""
        while self._suspended:
            self.release_oldest()

    def open_inner_tools(self, batch: CallBatch, prepared: PreparedCall) -> InnerCalls:
        """Return the tools that the code of a call may call."""
        return InnerCalls(self, batch, prepared)

    # ---- what happened

    def record(
        self,
        outcome: ToolOutcome,
        caller: Caller,
        tool: Tool | None = None,
        target: str | None = None,
        *,
        approved: bool | None = None,
        decided_by: DecidedBy = "policy",
        reason: str = "",
        content: Any = None,
    ) -> ToolOutcome:
        """Count an outcome and write it to the audit log.

        `target`: by default, as the tool describes the call. `content`: the tool's own result, if a facade
        has added times or ids to it.
        """
        self.options.metrics.add(outcome)
        if caller.telemetry is not None and not outcome.ran:
            caller.telemetry.note_refusal(outcome, is_denied=approved is False, reason=reason)
        if outcome.result.error_code != REPEATED_CALL:  # such a refusal is not a new result of the call
            returned = outcome.result.content if content is None else content
            started_tool = tool if outcome.ran else None
            self.policy.record_result(outcome.call, started_tool, returned, caller.config.max_repeats)
        if self.options.audit is not None:
            effects = frozenset[Effect]()
            if tool is not None:
                effects = tool.effects
                if target is None:
                    target = _find_target(tool, outcome.call)
            self._log_call(outcome, target or "", effects, approved, decided_by, reason)
        if log.isEnabledFor(DEBUG):
            kind = outcome.result.error_kind or "ok"
            fields = {
                "tool": outcome.call.name,
                "call": outcome.call.id,
                "kind": kind,
                "seconds": outcome.seconds,
            }
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
        if self.options.audit is None:
            return
        try:
            self.options.audit.write(
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


def _with_arguments(call: ToolCall, arguments: dict[str, Any]) -> ToolCall:
    """Return the call that an approver has made of another."""
    return ToolCall(call.id, call.name, deep_copy(arguments), namespace=call.namespace, caller=call.caller)


class _SavedCall(msgspec.Struct, frozen=True):
    """What `save_suspended` has written."""

    own: Any
    arguments: dict[str, Any]
    approved: bool | None = None
    changed: bool = False


def _read_state(record: SuspensionRecord) -> _SavedCall:
    try:
        return msgspec.convert(record.state, _SavedCall)
    except msgspec.ValidationError as e:
        raise MalformedData(f"the saved state of a call that waits has an unexpected shape: {e}") from None


def _mark(suspended: Suspended) -> Suspended:
    """Return a call that another call has made with a fingerprint of its own: two scripts, or two sub-agents,
    may make the same call under the same id.
    """
    request = suspended.request
    mark = digest([suspended.path, request.fingerprint])
    return replace(suspended, request=replace(request, fingerprint=mark))


def _translate(rulings: Rulings, kept: _SuspendedCall) -> Rulings:
    """Return rulings with the fingerprints that the code or the sub-agent of a call knows; one on something
    else than what was shown keeps its own, and does not count there.
    """
    shown = {suspended.path[1:]: suspended.fingerprint for suspended in kept.waiting}
    return {
        path: replace(ruling, fingerprint=kept.own_fingerprints[path])
        if path in shown and ruling.fingerprint == shown[path]
        else ruling
        for path, ruling in rulings.items()
    }


def _describe_unknown(call: ToolCall, caller: Caller) -> str:
    if not len(caller.registry):
        return f"There is no tool {call.name!r}: no tools are available."
    error = caller.registry.unknown_name(call.name, call.namespace)
    if caller.visible_names is not None:  # suggest only names that the model can see
        error = UnknownName("tool", call.name, caller.visible_names)
    return f"There is no such tool: {error.hint}"


def _find_target(tool: Tool, call: ToolCall) -> str | None:
    """Return what a tool says that a call is about; None if its arguments are not valid."""
    try:
        arguments = tool.bind(call).arguments
    except ToolError:
        return None
    return _describe(tool, tool.target, arguments)[0]


def _settle(verdict: Verdict, ask_reason: str) -> Verdict:
    """Return the verdict on a call that may run; `ask_reason`: why it needs a decision anyway.

    Raises ToolError for others.
    """
    if verdict.action == "refuse":
        message = f"The call did not run: {verdict.reason}."
        raise ToolError(message, kind="not_allowed", code=verdict.code, details=verdict)
    return Verdict("ask", ask_reason, each_time=True) if ask_reason and verdict.action == "run" else verdict


def _add_schema(error: ToolError, call: AnyCall, caller: Caller) -> ToolError:
    """Add the tool's schema to an error about arguments, if the model called the tool without loading it."""
    shown = call.call if isinstance(call, InterpretedCall) else call
    unloaded = caller.unloaded_tools.get(shown.qualified_name)
    if unloaded is None or error.kind != "validation":
        return error
    text = (
        f"{error}\nThe tool was called before it was loaded. Its parameters: "
        f"{dumps_text(unloaded.parameters or {})}"
    )
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
