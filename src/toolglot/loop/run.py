"""The tool loop as a value: it decides what comes next and never waits.

`next` says what to do; the driver does it and tells the run what came of it (`replied`, `started`, `answered`, `interrupted`).
Laws: every call gets exactly one result, in call order, in one message that is appended when it is whole. A call is marked as
started before it has any effect, so that nothing runs twice, also after a crash. A call that was cut by the length limit is
never run. Whatever happens, the conversation stays valid. Pure: no clock, no I/O.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from toolglot.errors import MalformedData, UsageError
from toolglot.events import RunStop
from toolglot.messages import (
    Block,
    Conversation,
    Message,
    Origin,
    Reply,
    Text,
    ToolCall,
    ToolErrorKind,
    ToolResult,
    assistant,
    user,
)
from toolglot.request import ToolChoice
from toolglot.wire.repair import make_interrupted_result, make_unknown_result

__all__ = ["AskModel", "CallTools", "Decision", "Done", "NeedApproval", "Run", "RunState", "Step"]

Decision = Literal["yes", "no"]
NO_CALLS = ToolChoice("none")
_LOOP_ORIGIN = Origin("toolglot")
_USER_INTERRUPTED, _TIME_RAN_OUT = "the user interrupted", "the time was up"
_NOT_STARTED = "The call was not started: {}."
_TRUNCATED = "The call was cut off by the length limit and did not run. Make a shorter call, or several."
_NOT_RUN, _TURNS_USED_UP = "The call did not run: {}.", "the run has used up its turns"
_REPLY_INTERRUPTED, _NO_ANSWER = "[The reply above was cut short: {}.]", "[No answer came: {}.]"


class AskModel(msgspec.Struct, frozen=True, gc=False):
    """Send the conversation. `last`: no tool may be called any more."""

    tool_choice: ToolChoice | None
    last: bool = False


class CallTools(msgspec.Struct, frozen=True, gc=False):
    """Run these calls (their numbers in the turn), and answer each."""

    calls: tuple[tuple[int, ToolCall], ...]


class NeedApproval(msgspec.Struct, frozen=True, gc=False):
    """Nothing can go on before these calls are decided."""

    calls: tuple[ToolCall, ...]


class Done(msgspec.Struct, frozen=True, gc=False):
    """The run is over."""

    stop: RunStop
    reply: Reply | None


Step = AskModel | CallTools | NeedApproval | Done


class RunState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about a run but the conversation: it can be saved and gone on with in another process."""

    iteration: int = 0
    """Requests so far."""
    length: int = 0
    """Messages of the conversation when the turn was made: another length is another conversation."""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult | None, ...] = ()
    started: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    """Calls that need a decision."""
    decisions: dict[int, Decision] = {}
    tools: str = ""
    """A fingerprint of the tools that the calls were made for."""
    stop: RunStop | None = None
    last: bool = False
    """No tool may be called any more."""
    holding: tuple[int, ...] = ()
    """Calls that those after them wait for."""


class _Turn:
    """The calls of one reply and what is known of each, by number."""

    def __init__(self, calls: Sequence[ToolCall], results: Sequence[ToolResult | None] = ()) -> None:
        self.calls = tuple(calls)
        self.results: list[ToolResult | None] = list(results) or [None] * len(calls)
        self.started: set[int] = set()
        self.waiting: set[int] = set()
        self.holding: set[int] = set()  # calls that keep their place: where they wait, those after them wait too
        self.decisions: dict[int, Decision] = {}

    def open_indexes(self) -> list[int]:
        """Calls without a result."""
        return [number for number, result in enumerate(self.results) if result is None]

    def refuse(self, kind: ToolErrorKind, text: str, only: Sequence[int] | None = None) -> None:
        """Open calls are answered without being run; of those that were started nobody knows."""
        for number in self.open_indexes() if only is None else [number for number in self.open_indexes() if number in only]:
            call = self.calls[number]
            self.results[number] = make_unknown_result(call) if number in self.started else _refusal(call, kind, text)

    def result_message(self) -> Message:
        """All results, in call order; each under the id and the name of its call."""
        named: list[ToolResult] = []
        for call, result in zip(self.calls, self.results, strict=True):
            assert result is not None
            fits = result.call_id == call.id and result.name == call.name
            named.append(result if fits else replace(result, call_id=call.id, name=call.name))
        return Message("tool", tuple(named))


class Run:
    """One run over a conversation, which it only ever appends to."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        max_iterations: int = 25,
        tool_choice: ToolChoice | None = None,
        state: RunState | None = None,
    ) -> None:
        self.conversation = conversation
        self.reply: Reply | None = None
        self.iteration = 0
        self._max_iterations, self._tool_choice = max_iterations, tool_choice
        self._turn: _Turn | None = None
        self._stop: RunStop | None = None
        self._refusals: list[tuple[int, ToolCall, ToolResult]] = []
        if state is not None:
            self._restore(state)

    def _restore(self, state: RunState) -> None:
        if state.length != len(self.conversation):
            raise UsageError("the saved run belongs to another conversation, or to another moment of it")
        numbers = {*state.started, *state.waiting, *state.decisions, *state.holding}
        if len(state.results) != len(state.calls) or not numbers <= set(range(len(state.calls))) or state.iteration < 0:
            raise MalformedData("the saved run contradicts itself: its calls, results and decisions do not fit together")
        self.iteration, self._stop = state.iteration, state.stop
        if state.last:
            self.disable_tools()
        if state.calls:
            turn = self._turn = _Turn(state.calls, state.results)
            turn.started, turn.waiting, turn.decisions = set(state.started), set(state.waiting), dict(state.decisions)
            turn.holding = set(state.holding)
            for number in turn.started.intersection(turn.open_indexes()):  # begun before a crash: nobody knows what came of it
                turn.results[number] = make_unknown_result(turn.calls[number])

    def snapshot(self, tools: str = "") -> RunState:
        """The run as a value."""
        turn = self._turn or _Turn(())
        return RunState(
            self.iteration,
            len(self.conversation),
            turn.calls,
            tuple(turn.results),
            tuple(sorted(turn.started)),
            tuple(sorted(turn.waiting)),
            dict(turn.decisions),
            tools,
            self._stop,
            self.iteration >= self._max_iterations,
            tuple(sorted(turn.holding)),
        )

    # ---- what to do

    def next(self) -> Step:
        """What to do now."""
        if (turn := self._turn) is not None:
            open_ = turn.open_indexes()
            held = min(turn.holding & turn.waiting, default=len(turn.calls))
            if ready := [number for number in open_ if number not in turn.waiting and number < held]:
                return CallTools(tuple((number, turn.calls[number]) for number in ready))
            if open_:
                return NeedApproval(tuple(turn.calls[number] for number in open_ if number in turn.waiting))
            self._close_turn()
        if self._stop is None and self.iteration > self._max_iterations:
            self._stop = "max_iterations"
        if self._stop is not None:
            return Done(self._stop, self.reply)
        if self.iteration == self._max_iterations:
            return AskModel(NO_CALLS, last=True)
        return AskModel(self._tool_choice if self.iteration == 0 else None)

    # ---- what happened

    def add_reply(self, reply: Reply) -> None:
        """The model answered. Its calls, if they may run, come next."""
        last = self.iteration >= self._max_iterations
        self.iteration += 1
        reply = self.reply = _with_unique_ids(reply)
        if reply.blocks:
            self.conversation.append(reply.message)
        turn = self._turn = _Turn(reply.calls) if reply.calls else None
        if reply.stop in ("refusal", "filtered", "error"):
            self._stop = reply.stop
        elif last:
            self._stop = "max_iterations" if turn or reply.stop == "pause" else "length" if reply.stop == "length" else "end"
        elif turn is None and reply.stop != "pause":
            self._stop = "length" if reply.stop == "length" else "end"
        if turn is not None:
            self._refuse_unrunnable(turn, reply, last)

    def _refuse_unrunnable(self, turn: _Turn, reply: Reply, last: bool) -> None:
        """Calls of a reply that is not to be acted on get their results at once."""
        if self._stop is not None:
            turn.refuse("limit" if last else "cancelled", _NOT_RUN.format(_TURNS_USED_UP if last else "the reply was stopped"))
        elif reply.stop == "pause":
            turn.refuse("cancelled", _NOT_RUN.format("the reply was paused"))
        elif reply.stop == "length":
            turn.refuse("truncated", _TRUNCATED, only=_truncated_calls(reply))
        done = zip(turn.calls, turn.results, strict=True)
        self._refusals += [(number, call, result) for number, (call, result) in enumerate(done) if result is not None]

    def take_refusals(self) -> list[tuple[int, ToolCall, ToolResult]]:
        """Calls of the turn that were answered without being run, since this was last asked."""
        refused, self._refusals = self._refusals, []
        return refused

    def finish(self, stop: RunStop = "end") -> None:
        """Nothing more is asked once the open calls are answered."""
        self._stop = self._stop or stop

    def disable_tools(self) -> None:
        """The next request is the last one, in which no tool may be called."""
        self._max_iterations = min(self._max_iterations, self.iteration)

    def continue_with(self, message: Message) -> None:
        """The model gets another chance: a message is added, and it is asked again."""
        self._stop = None
        self.conversation.append(_as_loop_message(message))

    def wait_for_decision(self, index: int, *, blocks_later: bool = False) -> None:
        """A call needs a decision from outside. `holds`: those after it wait for it."""
        assert self._turn is not None
        self._turn.waiting.add(index)
        if blocks_later:
            self._turn.holding.add(index)

    def decide(self, decisions: dict[str, Decision]) -> None:
        """Decisions by call id; calls that are not named keep waiting."""
        if wrong := [decision for decision in decisions.values() if decision not in get_args(Decision)]:
            raise UsageError(f"a decision is 'yes' or 'no', not {wrong[0]!r}")
        turn = self._turn or _Turn(())
        known = {turn.calls[number].id for number in turn.waiting}
        if strangers := set(decisions) - known:
            waiting = ", ".join(sorted(known)) or "none"
            raise UsageError(f"no call {' or '.join(sorted(strangers))} waits for a decision; waiting: {waiting}")
        for number in sorted(turn.waiting):
            decision = decisions.get(turn.calls[number].id)
            if decision is None:
                continue
            turn.waiting.discard(number)
            turn.decisions[number] = decision
            if decision == "no":
                result = turn.results[number] = make_interrupted_result(turn.calls[number], kind="rejected")
                self._refusals.append((number, turn.calls[number], result))

    def reopen_waiting(self) -> None:
        """Whoever decides is there now: the calls that wait are asked about once more."""
        if self._turn is not None:
            self._turn.waiting.clear()

    def is_approved(self, index: int) -> bool:
        """Whether a call was allowed from outside."""
        return self._turn is not None and self._turn.decisions.get(index) == "yes"

    def mark_started(self, index: int) -> None:
        """A call is about to have effects."""
        assert self._turn is not None
        self._turn.started.add(index)

    def add_result(self, index: int, result: ToolResult) -> None:
        """A call has its result. The first counts."""
        assert self._turn is not None
        if self._turn.results[index] is None:
            self._turn.results[index] = result

    def interrupt(self, partial_text: str | None = None, *, timed_out: bool = False) -> None:
        """Everything stops here. `said`: the visible text of a reply that was being read, None where none was.

        `late`: nobody interrupted, the time was up.
        """
        why = _TIME_RAN_OUT if timed_out else _USER_INTERRUPTED
        if (turn := self._turn) is not None:
            for number in turn.open_indexes():
                call = turn.calls[number]
                ran = number in turn.started
                turn.results[number] = (
                    make_interrupted_result(call) if ran else _refusal(call, "cancelled", _NOT_STARTED.format(why))
                )
            self._close_turn()
        elif partial_text is not None:
            if partial_text.strip():
                self.conversation.append(assistant(partial_text))
            self.conversation.append(
                _as_loop_message(user((_REPLY_INTERRUPTED if partial_text.strip() else _NO_ANSWER).format(why)))
            )
        self._stop = "interrupted"

    def abandon(self, kind: ToolErrorKind, reason: str) -> None:
        """The open calls are answered without being run: those that were started have an unknown outcome."""
        if self._turn is not None:
            self._turn.refuse(kind, _NOT_RUN.format(reason))
            self._close_turn()

    def _close_turn(self) -> None:
        """All calls have results: one message holds them."""
        assert self._turn is not None
        self.conversation.append(self._turn.result_message())
        self._turn = None


def _as_loop_message(message: Message) -> Message:
    """A message that the loop says in the user's place."""
    return replace(message, origin=_LOOP_ORIGIN)


def is_user_prompt(message: Message) -> bool:
    """Whether the user said it."""
    return message.role == "user" and message.origin != _LOOP_ORIGIN


def _refusal(call: ToolCall, kind: ToolErrorKind, text: str) -> ToolResult:
    return ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind=kind)


def _with_unique_ids(reply: Reply) -> Reply:
    """The reply, with an id of its own for every call: some servers use one twice, and a decision must mean one call."""
    calls = reply.calls
    if len({call.id for call in calls}) == len(calls):
        return reply
    seen: set[str] = set()
    blocks: list[Block] = []
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            id, number = block.id, 1
            while id in seen:
                number += 1
                id = f"{block.id}_{number}"
            seen.add(id)
            if id != block.id:
                own = {**block.opaque, "id": id} if block.opaque and block.opaque.get("id") == block.id else block.opaque
                block = replace(block, id=id, opaque=own)
        blocks.append(block)
    return replace(reply, blocks=tuple(blocks))


def _truncated_calls(reply: Reply) -> list[int]:
    """The calls of a reply that was cut by the length limit which may not be whole."""
    last = len(reply.calls) - 1 if reply.blocks and isinstance(reply.blocks[-1], ToolCall) else -1
    broken = [number for number, call in enumerate(reply.calls) if call.arguments is None and not call.freeform]
    return [*broken, last]
