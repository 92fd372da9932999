"""The tool loop as a value: it decides what comes next and never waits.

`next` says what to do; the driver does it and reports back (`add_reply`, `mark_started`, `add_result`,
`interrupt`).
Invariants: every call gets exactly one result, in call order, in one message that is appended once complete.
A call is marked as started before it has any effect, so that nothing runs twice, even after a crash. A call
that was truncated by the length limit never runs. Whatever happens, the conversation stays valid. Pure: no
clock, no I/O.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import astuple, replace

from toolglot.errors import MalformedData, ToolError, ToolErrorKind, UsageError
from toolglot.loop.given_answers import GivenAnswers, SavedRuling
from toolglot.values.approvals import Ruling, Rulings, SuspensionRecord
from toolglot.values.events import RunStop
from toolglot.values.messages import (
    Block,
    Conversation,
    Message,
    Origin,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    user,
)
from toolglot.values.request import ToolChoice
from toolglot.wire.repair import make_interrupted_result, make_unknown_result, rename_call

__all__ = [
    "RUN_FORMAT",
    "AskModel",
    "CallTools",
    "Done",
    "NeedApproval",
    "Run",
    "RunState",
    "Spent",
    "Step",
    "with_unique_ids",
]

NO_CALLS = ToolChoice("none")
_LOOP_ORIGIN = Origin("toolglot")  # of messages that the loop adds in the user's place
_USER_INTERRUPTED, _TIME_RAN_OUT = "the user interrupted", "the time limit was reached"
_NOT_STARTED = "The call was not started: {}."
_NOT_SHOWN = SuspensionRecord()
_NO_NOTES: Mapping[str, str] = {}
_TRUNCATED = "The call was truncated by the length limit and did not run. Make a shorter call, or several."
_UNUSED = "the call has ended without it"
_NOT_RUN, _TURNS_USED_UP = "The call did not run: {}.", "the run has used up its turns"
_REPLY_INTERRUPTED, _NO_ANSWER = "[The reply above was interrupted: {}.]", "[There was no answer: {}.]"


class AskModel(msgspec.Struct, frozen=True, gc=False):
    """Send the conversation. `last`: the model may call no more tools."""

    tool_choice: ToolChoice | None
    last: bool = False


class CallTools(msgspec.Struct, frozen=True, gc=False):
    """Run these calls, each with its index in the turn, and report each result."""

    calls: tuple[tuple[int, ToolCall], ...]


class NeedApproval(msgspec.Struct, frozen=True, gc=False):
    """Wait for decisions or answers for these calls, each with its index in the turn; nothing else can be done
    before.
    """

    calls: tuple[tuple[int, ToolCall], ...]


class Done(msgspec.Struct, frozen=True, gc=False):
    """The run is over."""

    stop: RunStop
    reply: Reply | None


Step = AskModel | CallTools | NeedApproval | Done


RUN_FORMAT = 3
"""Of a saved `RunState`. 1: calls that wait are in `waiting`, `shown` and `holding`. 2: in `suspended`, one
thing that each waits for. 3: all that each waits for."""


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the legs of a run have used so far, with the runs that its tools started."""

    usage: Usage = Usage()
    cost: float = 0.0
    """US dollars, as far as prices are known."""
    is_cost_known: bool = True
    """Whether all of them are."""
    seconds: float = 0.0
    """The time that it has worked; not that in which somebody was asked."""

    def is_consistent(self) -> bool:
        """Return whether a run can have used this."""
        return self.cost >= 0 and self.seconds >= 0 and min(astuple(self.usage)) >= 0


_NOTHING_SPENT = Spent()


class RunState(msgspec.Struct, omit_defaults=True):
    """A run without its conversation, so that it can be saved and resumed in another process.

    Calls are identified by index.
    """

    iteration: int = 0
    """Requests so far."""
    length: int = 0
    """Messages in the conversation when the turn began; a different length means a different conversation."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the open turn; empty if no turn is open."""
    results: list[ToolResult | None] = []
    started: set[int] = set()
    suspended: dict[int, SuspensionRecord] = {}
    """Calls that wait."""
    given: tuple[SavedRuling, ...] = ()
    """Decisions and answers that have come for them, and were not used yet."""
    tools: str = ""
    """A fingerprint of the tools that the calls were made for."""
    stop: RunStop | None = None
    last: bool = False
    """The model may call no more tools."""
    spent: Spent = _NOTHING_SPENT
    format: int = 1
    """Which version of this form was saved: see `RUN_FORMAT`."""

    def open_indexes(self) -> list[int]:
        """Return the indexes of the calls without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def refuse(
        self,
        kind: ToolErrorKind,
        text: str,
        only: Sequence[int] | None = None,
        started: Callable[[ToolCall], ToolResult] = make_unknown_result,
        code: str = "",
    ) -> None:
        """Answer open calls without running them. `started`: the result of those that were started."""
        for index in self.open_indexes():
            if only is None or index in only:
                call = self.calls[index]
                refusal = ToolResult(
                    call.id, (Text(text),), call.name, is_error=True, error_kind=kind, error_code=code
                )
                self.results[index] = started(call) if index in self.started else refusal

    def copy_turn(self) -> "RunState":
        """Return a copy of the open turn, without the fields that describe the run."""
        return RunState(
            calls=self.calls,
            results=[*self.results],
            started={*self.started},
            suspended={**self.suspended},
            format=RUN_FORMAT,
        )

    def is_consistent(self) -> bool:
        """Return whether this can be the state of a run."""
        indexes = {*self.started, *self.suspended}
        are_calls_known = len(self.results) == len(self.calls) and indexes <= set(range(len(self.calls)))
        return are_calls_known and self.iteration >= 0 and self.spent.is_consistent()


class Run:
    """One run over a conversation, which it only ever appends to."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        max_iterations: int = 25,
        tool_choice: ToolChoice | None = None,
        state: RunState | None = None,
        distrust_reason: str = "",
    ) -> None:
        self.conversation = conversation
        self.reply: Reply | None = None
        self.iteration = 0
        self.rulings: dict[int, Rulings] = {}
        """Decisions and answers for calls of the open turn, by index."""
        self._given: GivenAnswers | None = None
        self.distrust_reason = ""
        """Why every call of the open turn needs a decision: the run comes from an untrusted source."""
        self.spent: Spent = _NOTHING_SPENT
        """What the legs that have ended used."""
        self._max_iterations, self._tool_choice = max_iterations, tool_choice
        self._turn = RunState()
        self._stop: RunStop | None = None
        self._refusals: list[tuple[int, ToolCall, ToolResult]] = []
        if state is None:
            return
        if state.length != len(self.conversation):
            raise UsageError("the saved run belongs to another conversation, or to another state of it")
        if not state.is_consistent():
            raise MalformedData("the saved run is inconsistent: its calls and results do not match")
        self.iteration, self._stop, self.spent = state.iteration, state.stop, state.spent
        if state.last:
            self.disable_tools()
        turn = self._turn = state.copy_turn()
        for index in turn.started.intersection(turn.open_indexes()):  # started before a crash
            record = turn.suspended.get(index)
            if record is None or record.state is None:  # perhaps its code waited; the code is gone
                turn.results[index] = make_unknown_result(turn.calls[index])
                turn.suspended.pop(index, None)
        if state.given and not distrust_reason:
            self._given = GivenAnswers.restore(state.given)
        if distrust_reason:
            self.distrust_reason = distrust_reason
            for index in turn.open_indexes():
                turn.suspended.setdefault(index, _NOT_SHOWN)

    def snapshot(self, tools: str = "") -> RunState:
        """Return the run as a value."""
        state = self._turn.copy_turn()
        state.iteration, state.length, state.tools = self.iteration, len(self.conversation), tools
        state.stop, state.last = self._stop, self.iteration >= self._max_iterations
        if self._given is not None:
            state.given = self._given.save()
        state.spent = self.spent
        return state

    # ---- what to do

    def next(self) -> Step:
        """Return what to do now."""
        turn = self._turn
        if turn.calls:
            if ready := self._ready_calls():
                return CallTools(ready)
            if turn.open_indexes():
                return NeedApproval(tuple(self.waiting_calls))
            self._close_turn()
        if self._stop is None and self.iteration > self._max_iterations:
            self._stop = "max_iterations"
        if self._stop is not None:
            return Done(self._stop, self.reply)
        if self.iteration == self._max_iterations:
            return AskModel(NO_CALLS, last=True)
        return AskModel(self._tool_choice if self.iteration == 0 else None)

    # ---- what happened

    def add_reply(self, reply: Reply, not_offered: Iterable[tuple[int, ToolError]] = ()) -> None:
        """Append the model's reply; its calls run next, if they may.

        `not_offered`: errors for those that may not, by index.
        """
        is_last = self.iteration >= self._max_iterations
        self.iteration += 1
        reply = self.reply = with_unique_ids(reply)
        if reply.blocks:
            self.conversation.record(reply.message)
        calls = reply.calls
        turn = self._turn = RunState(calls=calls, results=[None] * len(calls))
        self.rulings, self.distrust_reason = {}, ""
        if reply.stop in ("refusal", "filtered", "error"):
            self._stop = reply.stop
        elif calls or reply.stop == "pause":  # the model would go on
            if is_last:
                self._stop = "max_iterations"
        else:
            self._stop = "length" if reply.stop == "length" else "end"
        if calls:
            self._refuse_unfit(reply, is_last=is_last)
        for index, error in not_offered:
            turn.refuse(error.kind, str(error), only=[index], code=error.code)
        results = enumerate(zip(calls, turn.results, strict=True))
        self._refusals += [(index, call, result) for index, (call, result) in results if result is not None]

    def _refuse_unfit(self, reply: Reply, *, is_last: bool) -> None:
        """Answer the calls of a reply that must not be acted on."""
        turn = self._turn
        if self._stop is not None and is_last:
            turn.refuse("limit", _NOT_RUN.format(_TURNS_USED_UP))
        elif self._stop is not None:
            turn.refuse("cancelled", _NOT_RUN.format("the reply was stopped"))
        elif reply.stop == "pause":
            turn.refuse("cancelled", _NOT_RUN.format("the reply was paused"))
        elif reply.stop == "length":
            turn.refuse("truncated", _TRUNCATED, only=_find_incomplete(reply))

    def take_refusals(self) -> list[tuple[int, ToolCall, ToolResult]]:
        """Return the calls answered by the run itself, rather than by a tool, since this was last called."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def finish(self, stop: RunStop = "end") -> None:
        """Send no more requests once the open calls are answered."""
        self._stop = self._stop or stop

    def disable_tools(self) -> None:
        """Make the next request the last one, without tool calls."""
        self._max_iterations = min(self._max_iterations, self.iteration)

    def continue_with(self, message: Message) -> None:
        """Give the model another chance: append a message and send another request."""
        self._stop = None
        self.conversation.record(replace(message, origin=_LOOP_ORIGIN))

    @property
    def takes_messages(self) -> bool:
        """Whether a message of the user may be added to the next request.

        Not to the first one, which has the prompt; not between calls and results; and not to a reply that the
        provider has paused, which goes on as it is.
        """
        if not self.iteration or self._turn.calls:
            return False
        is_paused = self.reply is not None and self.reply.stop == "pause"
        return not is_paused or self.conversation[-1].role != "assistant"

    @property
    def stop(self) -> RunStop | None:
        """Why no more requests are sent; None: it goes on."""
        return self._stop

    @property
    def can_ask(self) -> bool:
        """Whether the limit of requests allows another one."""
        return self.iteration <= self._max_iterations

    def add_message(self, message: Message) -> None:
        """Append a message that the user has sent meanwhile; the run goes on with another request."""
        self._stop = None
        self.conversation.mark_delivered(len(self.conversation))
        self.conversation.record(message)

    @property
    def waiting_calls(self) -> list[tuple[int, ToolCall]]:
        """The calls that wait, each with its index."""
        return [(index, self._turn.calls[index]) for index in sorted(self._waiting_indexes())]

    @property
    def suspended(self) -> Mapping[int, SuspensionRecord]:
        """What calls wait or waited for when they were last shown, by index."""
        return self._turn.suspended

    def suspend(self, index: int, record: SuspensionRecord) -> None:
        """Hold a call until there is a decision on what was shown, or an answer."""
        self._turn.suspended[index] = record
        self.rulings.pop(index, None)

    def decide(self, rulings: Mapping[int, Rulings]) -> None:
        """Apply decisions and answers, keyed by call index; all other calls keep waiting."""
        if unknown := rulings.keys() - self._waiting_indexes():
            raise UsageError(f"no call with the index {min(unknown)} is waiting")
        self.rulings.update(rulings)

    @property
    def given(self) -> GivenAnswers:
        """Decisions and answers that have come for the calls of the open turn, from any thread."""
        if self._given is None:
            self._given = GivenAnswers()
        return self._given

    @property
    def has_given(self) -> bool:
        """Whether decisions or answers have come for calls that wait."""
        return self._given is not None and self._given.is_for(self._waiting_indexes())

    def take_given(self, checked: Collection[Ruling]) -> bool:
        """Apply the decisions and answers that have come; return whether there were any.

        `checked`: those that can be carried out.
        """
        rulings = self.given.take(self._waiting_indexes(), checked)
        self.rulings.update(rulings)
        return bool(rulings)

    def reopen_waiting(self) -> None:
        """Ask about the waiting calls again: there is an approver now. Those that wait for an answer from
        elsewhere go on waiting.
        """
        for index in self._waiting_indexes():
            if not self._turn.suspended[index].is_external:
                del self._turn.suspended[index]

    def _ready_calls(self) -> tuple[tuple[int, ToolCall], ...]:
        """Return the calls that may run now, each with its index: those before the first that blocks later
        ones.
        """
        turn, waiting = self._turn, self._waiting_indexes()
        first_blocking = min(
            (index for index in waiting if turn.suspended[index].blocks_later), default=len(turn.calls)
        )
        ready = [index for index in turn.open_indexes() if index not in waiting and index < first_blocking]
        return tuple((index, turn.calls[index]) for index in ready)

    def _waiting_indexes(self) -> set[int]:
        return {
            index
            for index in self._turn.suspended.keys() - self.rulings.keys()
            if self._turn.results[index] is None
        }

    def mark_started(self, index: int) -> None:
        """Record that a call is about to have effects."""
        self._turn.started.add(index)

    def add_result(self, index: int, result: ToolResult) -> None:
        """Record the result of a call; later results for the same call are ignored."""
        if self._turn.results[index] is None:
            self._turn.results[index] = result

    def interrupt(
        self,
        partial_text: str | None = None,
        *,
        timed_out: bool = False,
        notes: Mapping[str, str] = _NO_NOTES,
    ) -> None:
        """Stop here. `partial_text`: the visible text of the reply being read; None if there is none.

        `timed_out`: the time limit was reached, and the user did not interrupt. `notes`: what calls did
        before they ended, by id.
        """
        if self.is_interrupted:
            return
        reason = _TIME_RAN_OUT if timed_out else _USER_INTERRUPTED
        if self._turn.calls:
            self._answer_open(
                "cancelled",
                _NOT_STARTED.format(reason),
                lambda call: make_interrupted_result(call, note=notes.get(call.id, "")),
            )
        elif partial_text is not None:
            if partial_text.strip():
                self.conversation.record(assistant(partial_text))
            note = _REPLY_INTERRUPTED if partial_text.strip() else _NO_ANSWER
            self.conversation.record(replace(user(note.format(reason)), origin=_LOOP_ORIGIN))
        self._stop = "timeout" if timed_out else "interrupted"

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was interrupted, and must no longer touch the conversation."""
        return self._stop == "interrupted"

    def abandon(self, kind: ToolErrorKind, reason: str) -> None:
        """Answer the open calls without running them; those already started have an unknown outcome."""
        if self._turn.calls:
            self._answer_open(kind, _NOT_RUN.format(reason))

    def _answer_open(
        self, kind: ToolErrorKind, text: str, started: Callable[[ToolCall], ToolResult] = make_unknown_result
    ) -> None:
        turn, open_indexes = self._turn, self._turn.open_indexes()
        for index in open_indexes if self._given is not None else ():
            if index not in turn.started:
                self.given.give_back(index, _UNUSED)
        turn.refuse(kind, text, started=started)
        for index in open_indexes:
            result = turn.results[index]
            assert result is not None
            self._refusals.append((index, turn.calls[index], result))
        self._close_turn()

    def _close_turn(self) -> None:
        """Append the results of all calls as one message, in call order; each under the id and the name of
        its call.
        """
        results: list[ToolResult] = []
        for call, result in zip(self._turn.calls, self._turn.results, strict=True):
            assert result is not None
            is_named = result.call_id == call.id and result.name == call.name
            results.append(result if is_named else replace(result, call_id=call.id, name=call.name))
        self.conversation.record(Message("tool", tuple(results)))
        if self._given is not None:
            self._given.end(_UNUSED)
            self._given = None
        self._turn, self.rulings, self.distrust_reason = RunState(), {}, ""


def _find_incomplete(reply: Reply) -> list[int]:
    """Return which calls of a truncated reply may be incomplete: broken ones, and a call at the very end."""
    calls = reply.calls
    indexes = [index for index, call in enumerate(calls) if call.arguments is None and not call.freeform]
    if reply.blocks and isinstance(reply.blocks[-1], ToolCall):
        indexes.append(len(calls) - 1)
    return indexes


def find_last_prompt(conversation: Sequence[Message]) -> int | None:
    """Return the index of the last message from the user that began a run: not one that the loop added, or
    that was delivered to a run in progress.
    """
    delivered = conversation.delivered if isinstance(conversation, Conversation) else ()
    for index in reversed(range(len(conversation))):
        message = conversation[index]
        if message.role == "user" and message.origin != _LOOP_ORIGIN and index not in delivered:
            return index
    return None


def with_unique_ids(reply: Reply) -> Reply:
    """Return the reply with unique call ids: some servers repeat an id, and a decision must identify exactly
    one call.
    """
    calls = reply.calls
    original_ids = {call.id for call in calls}
    if len(original_ids) == len(calls):
        return reply
    seen: set[str] = set()
    blocks: list[Block] = []
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            id, suffix = block.id, 1
            # another call keeps the id that it came with
            while id in seen or (suffix > 1 and id in original_ids):
                suffix += 1
                id = f"{block.id}_{suffix}"
            seen.add(id)
            block = rename_call(block, id)
        blocks.append(block)
    return replace(reply, blocks=tuple(blocks))
