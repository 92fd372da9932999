"""Makes any history legal for a target: every call has exactly one result, right after it, in call order; nothing is empty that
must not be; turns come in an order the target accepts. What was already legal is returned as it was, the same objects.

Laws: the output is legal; repairing it again changes nothing; no call, result or text is lost; every change is a Repair.

It works turn by turn, in order. A turn ends where no call is left without a result; what was repaired before it is never
looked at again, so that a growing conversation costs only what is new.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from toolglot.jsontext import dumps_text
from toolglot.losses import Repair
from toolglot.messages import Block, Foreign, Media, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import HistoryRules

__all__ = [
    "FILLER_TEXT",
    "HistoryRepairer",
    "RepairedHistory",
    "is_turn_closed",
    "make_interrupted_result",
    "make_unknown_result",
    "repair_history",
    "split_turns",
]

_UNKNOWN_TEXT = "No result was recorded for this call: the conversation was cut off. The tool may or may not have run."
_INTERRUPTED_TEXT = "The call was interrupted while it ran. It may have had effects."
_REJECTED_TEXT = "The call was not allowed and did not run."
_START_TEXT, _CONTINUE_TEXT = "(start of the conversation)", "Continue."
FILLER_TEXT = "OK."  # what the assistant says where a provider wants it to say something


class RepairedHistory(msgspec.Struct, frozen=True):
    """A legal history and what was done for it."""

    messages: list[Message]
    repairs: list[Repair]


def make_unknown_result(call: ToolCall) -> ToolResult:
    """The result of a call that nobody knows anything of."""
    return ToolResult(call.id, (Text(_UNKNOWN_TEXT),), call.name, is_error=True, error_kind="unknown_outcome")


def make_interrupted_result(call: ToolCall, *, kind: Literal["interrupted", "rejected"] = "interrupted") -> ToolResult:
    """The result of a call that was stopped while it ran, or refused before it did: two things a model must not mix up."""
    text = _INTERRUPTED_TEXT if kind == "interrupted" else _REJECTED_TEXT
    return ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind=kind)


def repair_history(messages: Sequence[Message], rules: HistoryRules, *, stateful: bool = False) -> RepairedHistory:
    """The history as the target accepts it. `stateful`: the provider holds an earlier part, which results may answer."""
    mender = HistoryRepairer(rules, stateful=stateful)
    out = [
        message
        for turn in split_turns(messages)
        for message in mender.repair_turn(messages[turn.start : turn.stop], turn.start)
    ]
    return RepairedHistory(mender.repair_ending(out), mender.repairs)


def split_turns(messages: Sequence[Message], start: int = 0) -> Iterator[range]:
    """The turns from message `start` on: each ends where every call has a result. The last may be open."""
    waiting: dict[str, int] = {}
    for index in range(start, len(messages)):
        _track_pending(messages[index], waiting)
        if not waiting:
            yield range(start, index + 1)
            start = index + 1
    if start < len(messages):
        yield range(start, len(messages))


def _track_pending(message: Message, pending: dict[str, int]) -> None:
    """Keeps the number of calls without a result, by id: one id may be used twice."""
    for block in message.blocks:
        if isinstance(block, ToolCall):
            pending[block.id] = pending.get(block.id, 0) + 1
        elif isinstance(block, ToolResult) and block.call_id in pending:
            pending[block.call_id] -= 1
            if not pending[block.call_id]:
                del pending[block.call_id]


def is_turn_closed(messages: Sequence[Message]) -> bool:
    """Whether every call of a turn has its result, after it."""
    waiting: dict[str, int] = {}
    for message in messages:
        _track_pending(message, waiting)
    return not waiting


class HistoryRepairer:
    """Repairs turn after turn. It remembers only the ids that are taken and who spoke last."""

    def __init__(self, rules: HistoryRules, *, stateful: bool = False) -> None:
        self._rules, self._stateful = rules, stateful
        self._used_ids: set[str] = set()
        self._last: Message | None = None  # the last message that is not an instruction
        self._has_messages = False
        self.repairs: list[Repair] = []

    def copy(self) -> "HistoryRepairer":
        """A mender that goes on from here."""
        other = HistoryRepairer(self._rules, stateful=self._stateful)
        other._used_ids, other._last, other._has_messages = set(self._used_ids), self._last, self._has_messages
        other.repairs = list(self.repairs)
        return other

    def repair_turn(self, messages: Sequence[Message], first: int = 0) -> list[Message]:
        """One turn, made legal. `first`: the number of its first message."""
        if (
            (ids := _simple_turn_ids(messages)) is not None and self._last is not None and self._used_ids.isdisjoint(ids)
        ):  # the turns of a tool loop
            self._used_ids |= ids
            self._has_messages, self._last = True, messages[1]
            return list(messages)
        unique = _make_ids_unique(_match_mangled_ids(messages, first, self.repairs), first, self._used_ids, self.repairs)
        out: list[Message] = []
        for index, message in enumerate(_pair_results(unique, first, self.repairs, stateful=self._stateful), first):
            shaped = _normalize_message(message, self._rules, index, self.repairs)
            if shaped is not None:
                self._has_messages = True
                out += [*self._fillers_before(shaped, index), shaped]
                if shaped.role != "system":
                    self._last = shaped
        return out

    def _fillers_before(self, message: Message, index: int) -> list[Message]:
        """What the target wants to be said before a message."""
        rules, last = self._rules, self._last
        if rules.filler_after_results and message.role == "user" and last is not None and last.role == "tool":
            self._record("assistant message", index, f"{FILLER_TEXT!r} added between results and user")
            return [Message("assistant", (Text(FILLER_TEXT),))]
        if rules.starts_with_user and last is None and message.role == "assistant":
            self._record("user message", index, "added: the conversation must start with one")
            return [Message("user", (Text(_START_TEXT),))]
        return []

    @property
    def awaits_model(self) -> bool:
        """Whether the model has the word: no target asks for more after a user's words or a tool's results."""
        return self._last is not None and self._last.role in ("user", "tool")

    def repair_ending(self, messages: list[Message]) -> list[Message]:
        """The last messages as the target accepts them at the end of a request."""
        rules, last = self._rules, self._last
        if last is None and (rules.needs_turn or not self._has_messages) and not self._stateful:
            self._record("user message", 0, "added: there must be one")
            return [*messages, Message("user", (Text(_START_TEXT),))]
        if last is None or not _is_prefill(last):
            return messages
        if rules.ends_with_user:
            self._record("user message", 0, "added at the end: the conversation must end with one")
            return [*messages, Message("user", (Text(_CONTINUE_TEXT),))]
        if rules.plain_prefill and messages and (plain := _strip_prefill(last)) != last:
            self._record("assistant message", 0, "an answer that is begun holds no thinking and no white space at its end")
            return [*messages[:-1], *([plain] if plain.blocks else [])]
        return messages

    def _record(self, subject: str, index: int, reason: str) -> None:
        self.repairs.append(Repair(subject, f"messages[{index}]", reason))


def _strip_prefill(message: Message) -> Message:
    blocks = [block for block in message.blocks if not isinstance(block, Thinking)]
    while blocks and isinstance(last := blocks[-1], Text) and last.text != last.text.rstrip():
        blocks[-1:] = [msgspec.structs.replace(last, text=last.text.rstrip())] if last.text.strip() else []
    return msgspec.structs.replace(message, blocks=tuple(blocks)) if tuple(blocks) != message.blocks else message


def _is_prefill(message: Message) -> bool:
    """An answer begun by the caller; a turn that the provider paused is none."""
    return message.role == "assistant" and not any(isinstance(block, Foreign | ToolCall) for block in message.blocks)


def _simple_turn_ids(messages: Sequence[Message]) -> set[str] | None:
    """The ids of a turn that is legal everywhere: calls and nothing else, then their results in order; None of any other."""
    if len(messages) != 2 or messages[0].role != "assistant" or messages[1].role != "tool":
        return None
    calls, results = messages[0].blocks, messages[1].blocks
    if len(calls) != len(results):
        return None
    ids: set[str] = set()
    for call, result in zip(calls, results, strict=True):
        if type(call) is not ToolCall or type(result) is not ToolResult or call.id != result.call_id:
            return None
        ids.add(call.id)
    return ids if len(ids) == len(calls) else None


# ---- ids


def _match_mangled_ids(messages: Sequence[Message], first: int, repairs: list[Repair]) -> Sequence[Message]:
    """Results whose ids a client mangled: as many strangers right after a message as it has unanswered calls are theirs."""
    calls = {call.id for message in messages for call in message.calls}
    results = {result.call_id for message in messages for result in message.results}
    if calls <= results or results <= calls:
        return messages
    out = list(messages)
    for index, (message, following) in enumerate(pairwise(messages)):
        missing = [call for call in message.calls if call.id not in results]
        strangers = [result for result in following.results if result.call_id not in calls]
        if missing and len(missing) == len(strangers):
            new = {id(result): call.id for result, call in zip(strangers, missing, strict=True)}
            blocks = tuple(
                msgspec.structs.replace(block, call_id=new[id(block)])
                if isinstance(block, ToolResult) and id(block) in new
                else block
                for block in following.blocks
            )
            out[index + 1] = msgspec.structs.replace(following, blocks=blocks)
            repairs.append(Repair("results", f"messages[{first + index + 1}]", "their ids fitted no call; paired in order"))
    return out


def _make_ids_unique(messages: Sequence[Message], first: int, used_ids: set[str], repairs: list[Repair]) -> list[Message]:
    """A call id that was used before gets a new one; results follow their calls in order."""
    renamed: dict[str, list[str]] = {}  # id -> new ids of later calls, whose results are still to come
    out: list[Message] = []
    for index, message in enumerate(messages, first):
        if message.role == "assistant":
            message = _rename_calls(message, index, used_ids, renamed, repairs)
        elif renamed and message.results:
            message = _rename_results(message, renamed)
        out.append(message)
    return out


def _rename_calls(
    message: Message, index: int, used_ids: set[str], new_ids: dict[str, list[str]], repairs: list[Repair]
) -> Message:
    blocks: list[Block] = []
    here: set[str] = set()
    for block in message.blocks:
        if isinstance(block, ToolCall):
            new, turn = block.id, 1
            while new in used_ids or not new:
                turn += 1
                new = f"{block.id or 'call'}_{turn}"
            if new != block.id:
                repairs.append(Repair(f"call id {block.id!r}", f"messages[{index}]", f"used before; now {new!r}"))
                first = [block.id] if block.id in here else []  # the first of two in one turn is answered first
                new_ids.setdefault(block.id, first).append(new)
                block = msgspec.structs.replace(block, id=new)
            else:
                new_ids.pop(new, None)
            used_ids.add(new)
            here.add(new)
        blocks.append(block)
    return message if tuple(blocks) == message.blocks else msgspec.structs.replace(message, blocks=tuple(blocks))


def _rename_results(message: Message, new_ids: dict[str, list[str]]) -> Message:
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolResult) and (queue := new_ids.get(block.call_id)):
            block = msgspec.structs.replace(block, call_id=queue.pop(0) if len(queue) > 1 else queue[0])
        blocks.append(block)
    return msgspec.structs.replace(message, blocks=tuple(blocks))


# ---- pairs


def _pair_results(messages: list[Message], first: int, repairs: list[Repair], *, stateful: bool) -> list[Message]:
    """Results right after their calls, one each, in call order; orphans become text."""
    wanted = {call.id: call for message in messages if message.role == "assistant" for call in message.calls}
    answers, origin = _collect_results(messages, first, wanted, repairs)
    out: list[Message] = []
    for index, message in enumerate(messages):
        left = tuple(b for b in message.blocks if not (isinstance(b, ToolResult) and b.call_id in wanted))
        if not message.results:
            out.append(message)
        elif left and stateful and message.role == "tool":
            out.append(msgspec.structs.replace(message, blocks=left))
        elif left:
            out.append(_orphans_as_text(message, left, first + index, repairs))
        if message.role == "assistant" and message.calls:
            following = messages[index + 1] if index + 1 < len(messages) else None
            out.append(_build_results(message, following, answers, origin, first + index, repairs))
    return out


def _collect_results(
    messages: list[Message], first: int, calls: dict[str, ToolCall], repairs: list[Repair]
) -> tuple[dict[str, ToolResult], dict[str, Message]]:
    """Every result by the call it answers; a second result for one call is added to the first."""
    answers: dict[str, ToolResult] = {}
    origin: dict[str, Message] = {}
    for index, message in enumerate(messages, first):
        for result in message.results:
            id = result.call_id
            if id not in calls:
                continue
            if id in answers:
                repairs.append(Repair(f"result of {id!r}", f"messages[{index}]", "a second result; added to the first"))
                before = answers[id]
                answers[id] = _join_results(before, result)
            else:
                answers[id], origin[id] = result, message
    return answers, origin


def _join_results(first: ToolResult, second: ToolResult) -> ToolResult:
    """Two results of one call, as text: there is no one value for both."""
    content = (*_result_content(first), *_result_content(second))
    return msgspec.structs.replace(first, content=content, data=None, is_error=first.is_error or second.is_error)


def _result_content(result: ToolResult) -> tuple[Text | Media | Foreign, ...]:
    if result.data is None or result.text:
        return result.content
    return (Text(result.data if isinstance(result.data, str) else dumps_text(result.data)), *result.content)


def _build_results(
    message: Message,
    following: Message | None,
    answers: dict[str, ToolResult],
    origin: dict[str, Message],
    index: int,
    repairs: list[Repair],
) -> Message:
    """The tool message that answers an assistant message: the very next one where it does so already."""
    repairs += [
        Repair(f"call {call.name!r}", f"messages[{index}]", "it had no result; one was made up")
        for call in message.calls
        if call.id not in answers
    ]
    blocks = tuple(answers.get(call.id) or make_unknown_result(call) for call in message.calls)
    if following is not None and following.role == "tool" and following.blocks == blocks:
        return following
    if any(origin.get(call.id, following) is not following for call in message.calls):
        repairs.append(Repair("results", f"messages[{index}]", "moved right after their calls"))
    elif following is not None and len(following.results) == len(blocks) != 1:
        repairs.append(Repair("results", f"messages[{index + 1}]", "put in the order of their calls"))
    first = next((origin[call.id] for call in message.calls if call.id in origin), None)
    if first is None:
        return Message("tool", blocks)
    # state goes back only to the origin of the whole message
    own = (block if origin.get(block.call_id, first).origin == first.origin else _without_state(block) for block in blocks)
    return Message("tool", tuple(own), first.origin, first.opaque)


def _without_state(result: ToolResult) -> ToolResult:
    content = tuple(
        part if isinstance(part, Foreign) else msgspec.structs.replace(part, opaque=None) for part in result.content
    )
    return msgspec.structs.replace(result, opaque=None, content=content)


def _orphans_as_text(message: Message, left: tuple[Block, ...], index: int, repairs: list[Repair]) -> Message:
    """Results that answer no call, said as text by the user."""
    blocks: list[Block] = []
    for block in left:
        if isinstance(block, ToolResult):
            repairs.append(Repair(f"result of {block.call_id!r}", f"messages[{index}]", "it answers no call; shown as text"))
            blocks.append(Text(f"[Result of an earlier tool call{f' to {block.name}' if block.name else ''}]"))
            blocks.extend(block.content)
        else:
            blocks.append(block)
    return Message("user" if message.role == "tool" else message.role, tuple(blocks), message.origin, message.opaque)


# ---- shape of a turn


def _normalize_message(message: Message, rules: HistoryRules, index: int, repairs: list[Repair]) -> Message | None:
    """A message without empty parts, calls last where the target asks for it; None where nothing is left."""
    if message.role == "tool" and message.blocks:
        return message
    blocks = tuple(block for block in message.blocks if not _is_empty(block, rules))
    if len(blocks) < len(message.blocks) or not blocks:
        what = "blank text" if blocks else f"empty {message.role} message"
        repairs.append(Repair(what, f"messages[{index}]", "left out"))
    if not blocks:
        return None
    if rules.calls_last and message.role == "assistant" and _has_text_after_call(blocks):
        repairs.append(Repair("text", f"messages[{index}]", "moved before the calls of its turn"))
        calls = tuple(block for block in blocks if isinstance(block, ToolCall))
        blocks = (*(block for block in blocks if not isinstance(block, ToolCall)), *calls)
    return message if blocks == message.blocks else msgspec.structs.replace(message, blocks=blocks)


def _is_empty(block: Block, rules: HistoryRules) -> bool:
    if not isinstance(block, Text):
        return False
    if rules.no_blank_text:
        return not block.text.strip()
    return not block.text and not block.opaque


def _has_text_after_call(blocks: tuple[Block, ...]) -> bool:
    first = next((i for i, block in enumerate(blocks) if isinstance(block, ToolCall)), len(blocks))
    return any(isinstance(block, Text | Media | Thinking) for block in blocks[first:])
