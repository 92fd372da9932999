"""Make any history legal for a target: every call has exactly one result, right after it, in call order;
nothing is empty that must not be; messages come in an order that the target accepts. What is already legal is
returned as the same objects.

The output is legal, repairing it again changes nothing, no call, result or text is lost, and every change is
a Repair.

Repair works turn by turn. A turn ends where no call is left without a result. Repaired turns are never looked
at again, so that a growing conversation costs only what is new.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.providers.profile import HistoryRules
from toolglot.values.losses import Repair
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.wire.pairing import Position, iter_calls, iter_results, match_mangled, match_results

_UNKNOWN_TEXT = (
    "No result was recorded for this call: the conversation was cut off. The tool may or may not have run."
)
_INTERRUPTED_TEXT = "The call was interrupted while it ran. It may have had effects."
_REJECTED_TEXT = "The call was not allowed and did not run."
START_TEXT, _CONTINUE_TEXT = "(start of the conversation)", "Continue."
FILLER_TEXT = "OK."  # an assistant message that a provider requires between results and the user


class RepairedHistory(msgspec.Struct, frozen=True):
    """A legal history and what was changed in it."""

    messages: list[Message]
    """The messages to send."""
    repairs: list[Repair]
    """What was changed."""


def make_unknown_result(call: ToolCall) -> ToolResult:
    """Make the result of a call whose outcome nobody knows."""
    return ToolResult(call.id, (Text(_UNKNOWN_TEXT),), call.name, is_error=True, error_kind="unknown_outcome")


def make_interrupted_result(
    call: ToolCall, *, kind: Literal["interrupted", "rejected"] = "interrupted", note: str = ""
) -> ToolResult:
    """Make the result of a call that was stopped while it ran, or refused before it did.

    A model must not confuse the two.

    `note`: what is known about its effects.
    """
    text = _INTERRUPTED_TEXT if kind == "interrupted" else _REJECTED_TEXT
    text += f"\n{note}" if note else ""
    return ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind=kind)


def repair_history(
    messages: Sequence[Message], rules: HistoryRules, *, stateful: bool = False
) -> RepairedHistory:
    """Repair a history. `stateful`: the provider stores an earlier part, which results may belong to."""
    repairer = HistoryRepairer(rules, stateful=stateful)
    repaired: list[Message] = []
    for turn in split_turns(messages):
        repaired += repairer.repair_turn(messages[turn.start : turn.stop], turn.start)
    return RepairedHistory(repairer.repair_ending(repaired), repairer.repairs)


def make_ids_unique(messages: Sequence[Message]) -> RepairedHistory:
    """Change only ids, so that no two calls have the same: for formats that pair results with calls by id
    alone.
    """
    repairer = HistoryRepairer(HistoryRules())
    repaired: list[Message] = []
    for turn in split_turns(messages):
        repaired += repairer.make_ids_unique(messages[turn.start : turn.stop], turn.start)
    return RepairedHistory(repaired, repairer.repairs)


def _has_calls_or_results(messages: Iterable[Message]) -> bool:
    """Return whether there is anything to pair."""
    return any(message.calls or message.results for message in messages)


class Turn(msgspec.Struct, frozen=True, gc=False):
    """The messages from `start` to `stop`. It is closed when every call has its result, after it."""

    start: int
    stop: int
    is_closed: bool = True


def split_turns(messages: Sequence[Message], start: int = 0) -> Iterator[Turn]:
    """Split the messages from `start` on into turns.

    Each ends where every call has a result; the last may be open.
    """
    pending: dict[str, int] = {}  # calls without a result, by id. Counts, because one id may be used twice
    for index, message in enumerate(messages[start:], start):
        for block in message.blocks:
            if type(block) is ToolCall:
                pending[block.id] = pending.get(block.id, 0) + 1
            elif type(block) is ToolResult and block.call_id in pending:
                pending[block.call_id] -= 1
                if not pending[block.call_id]:
                    del pending[block.call_id]
        if not pending:
            yield Turn(start, index + 1)
            start = index + 1
    if pending:
        yield Turn(start, len(messages), is_closed=False)


class HistoryRepairer:
    """Repairs one turn after another. It remembers only the ids that are in use and the last message."""

    def __init__(self, rules: HistoryRules, *, stateful: bool = False) -> None:
        self._rules = rules
        self._stateful = stateful
        self._used_ids: set[str] = set()
        self._last: Message | None = None  # the last message that is not a system message
        self._has_messages = False
        self.repairs: list[Repair] = []

    def copy(self) -> "HistoryRepairer":
        """Return a repairer that continues from here."""
        other = HistoryRepairer(self._rules, stateful=self._stateful)
        other._used_ids = set(self._used_ids)
        other._last = self._last
        other._has_messages = self._has_messages
        other.repairs = list(self.repairs)
        return other

    def repair_turn(self, messages: Sequence[Message], first: int = 0) -> list[Message]:
        """Repair one turn. `first` is the index of its first message."""
        ids = _simple_turn_ids(messages)
        # nearly every turn of a tool loop
        if ids is not None and self._last is not None and self._used_ids.isdisjoint(ids):
            self._used_ids |= ids
            self._has_messages = True
            self._last = messages[1]
            return list(messages)
        messages = self._pair_results(self.make_ids_unique(messages, first), first)
        repaired: list[Message] = []
        for index, message in enumerate(messages, first):
            normalized = self._normalize_message(message, index)
            if normalized is None:
                continue
            self._has_messages = True
            filler = self._find_filler(normalized, index)
            if filler is not None:
                repaired.append(filler)
            repaired.append(normalized)
            if normalized.role != "system":
                self._last = normalized
        return repaired

    def _find_filler(self, message: Message, index: int) -> Message | None:
        """Return the message that the target wants to see before this one, if there is one."""
        last = self._last
        # Mistral: 400 "Unexpected role 'user' after role 'tool'".
        if message.role == "user" and self._rules.filler_after_results:
            if last is not None and last.role == "tool":
                self._record("assistant message", index, f"{FILLER_TEXT!r} added between results and user")
                return Message("assistant", (Text(FILLER_TEXT),))
        if message.role == "assistant" and self._rules.starts_with_user:  # Gemini
            if last is None:
                self._record("user message", index, "added, because the conversation must start with one")
                return Message("user", (Text(START_TEXT),))
        return None

    @property
    def awaits_model(self) -> bool:
        """Whether it is the model's turn: after a user message or results, no target requires anything else."""
        return self._last is not None and self._last.role in ("user", "tool")

    def repair_ending(self, messages: list[Message]) -> list[Message]:
        """Repair the last messages of a request."""
        rules = self._rules
        last = self._last
        if last is None:
            needs_message = rules.needs_turn or not self._has_messages
            if not needs_message or self._stateful:
                return messages
            self._record("user message", 0, "added, because there must be one")
            return [*messages, Message("user", (Text(START_TEXT),))]
        # An assistant message at the end is a prefill, unless the provider paused the turn and expects it
        # back unchanged.
        if last.role != "assistant" or any(map(_pauses, last.blocks)):
            return messages
        if rules.ends_with_user:  # current Claude models refuse a prefill
            self._record("user message", 0, "added at the end, because the conversation must end with one")
            return [*messages, Message("user", (Text(_CONTINUE_TEXT),))]
        # A system message after it is sent as a message, too: then it is no prefill.
        is_sent_last = bool(messages) and messages[-1] is last
        if not rules.plain_prefill or not is_sent_last:
            return messages
        plain = _strip_prefill(messages)
        if plain == messages:
            return messages
        self._record("assistant message", 0, "a prefill must not contain thinking or end with white space")
        return plain

    def _record(self, subject: str, index: int, reason: str) -> None:
        self.repairs.append(Repair(subject, f"messages[{index}]", reason))

    # ---- ids

    def make_ids_unique(self, messages: Sequence[Message], first: int = 0) -> list[Message]:
        """Give a new id to a call whose id was used before.

        Each result gets the id of the call that it answers.
        """
        # Several servers repeat ids in a conversation ("0", "null", "call_0"). Anthropic: 400 "`tool_use` ids
        # must be unique".
        if not _has_calls_or_results(messages):
            return list(messages)
        calls = dict(iter_calls(messages))
        results = dict(iter_results(messages))
        owners = match_results(messages)
        mangled = match_mangled(messages, owners)
        for index in dict.fromkeys(index for index, _ in mangled):
            self._record("results", first + index, "their ids match no call; paired in order")
        owners |= mangled
        # A new id is none that a call or a result of the turn came with: a result of no call must not find
        # one by it.
        taken = {call.id for call in calls.values()}
        taken |= {result.call_id for result in results.values()}
        if self._stateful:  # the provider stores the calls of results that are left
            self._used_ids |= {
                result.call_id for position, result in results.items() if position not in owners
            }
        new_ids: dict[Position, str] = {}
        for position, call in calls.items():
            new_ids[position] = self._choose_id(call, first + position[0], taken)
        for result, call in owners.items():
            new_ids[result] = new_ids[call]
        repaired: list[Message] = []
        for index, message in enumerate(messages):
            blocks = tuple(
                _with_id(block, new_ids.get((index, number))) for number, block in enumerate(message.blocks)
            )
            repaired.append(_with_blocks(message, blocks))
        return repaired

    def _choose_id(self, call: ToolCall, index: int, taken: set[str]) -> str:
        """Return the id of a call: its own, unless it has none or another call had it before."""
        id = call.id
        if not id or id in self._used_ids:
            id = self._make_id(call, taken)
            self._record(f"call id {call.id!r}", index, f"used before; now {id!r}")
        self._used_ids.add(id)
        return id

    def _make_id(self, call: ToolCall, taken: set[str]) -> str:
        """Return an id like that of a call which nothing has: neither before this turn nor in it."""
        attempt = 2
        while True:
            id = f"{call.id or 'call'}_{attempt}"
            if id not in self._used_ids and id not in taken:
                return id
            attempt += 1

    # ---- pairs

    def _pair_results(self, messages: list[Message], first: int) -> list[Message]:
        """Put results right after their calls, one each, in call order.

        Results without a call become text.
        """
        call_ids: set[str] = set()
        for message in messages:
            if message.role == "assistant":
                call_ids.update(call.id for call in message.calls)
        results, sources = self._collect_results(messages, call_ids, first)
        repaired: list[Message] = []
        for index, message in enumerate(messages):
            following = messages[index + 1] if index + 1 < len(messages) else None
            kept = message
            if message.results:
                kept = self._drop_paired(message, call_ids, first + index)
            if kept is not None:
                repaired.append(kept)
            if message.role == "assistant" and message.calls:
                repaired.append(self._build_results(message, following, results, sources, first + index))
        return repaired

    def _collect_results(
        self, messages: list[Message], call_ids: set[str], first: int
    ) -> tuple[dict[str, ToolResult], dict[str, Message]]:
        """Return the result of each call, and the message that it comes from."""
        results: dict[str, ToolResult] = {}
        sources: dict[str, Message] = {}
        for index, message in enumerate(messages, first):
            for result in message.results:
                id = result.call_id
                if id not in call_ids:
                    continue
                earlier = results.get(id)
                if earlier is None:
                    results[id] = result
                    sources[id] = message
                elif replace(result, opaque=earlier.opaque) == earlier:
                    self._record(f"result of {id!r}", index, "the same result again; dropped")
                else:
                    self._record(f"result of {id!r}", index, "a second result; added to the first")
                    results[id] = _join_results(earlier, result)
        return results, sources

    def _drop_paired(self, message: Message, call_ids: set[str], index: int) -> Message | None:
        """Return a message without the results that stand after their calls now; None if nothing else was in
        it.
        """
        remaining: list[Block] = []
        for block in message.blocks:
            is_paired = isinstance(block, ToolResult) and block.call_id in call_ids
            if not is_paired:
                remaining.append(block)
        if not remaining:
            return None
        if self._stateful and message.role == "tool":  # their calls may be stored by the provider
            return replace(message, blocks=tuple(remaining))  # nothing to pair them with here
        return self._orphans_as_text(message, remaining, index)

    def _build_results(
        self,
        message: Message,
        following: Message | None,
        results: dict[str, ToolResult],
        sources: dict[str, Message],
        index: int,
    ) -> Message:
        """Build the tool message for an assistant message, or return the following one if it is already
        right.
        """
        blocks: list[ToolResult] = []
        for call in message.calls:
            result = results.get(call.id)
            if result is None:
                self._record(f"call {call.name!r}", index, "it had no result; one was added")
                result = make_unknown_result(call)  # never invent success
            blocks.append(result)
        if following is not None and following.role == "tool" and following.blocks == tuple(blocks):
            return following
        message_sources = [sources[call.id] for call in message.calls if call.id in sources]
        if any(source is not following for source in message_sources):
            self._record("results", index, "moved right after their calls")
        elif following is not None and len(blocks) != 1 and len(following.results) == len(blocks):
            self._record("results", index + 1, "sorted into the order of their calls")
        if not message_sources:
            return Message("tool", tuple(blocks))
        # A message has one origin: results of another one lose their state.
        source = message_sources[0]
        for number, block in enumerate(blocks):
            if sources.get(block.call_id, source).origin != source.origin:
                blocks[number] = _without_state(block)
        return Message("tool", tuple(blocks), source.origin, source.opaque)

    def _orphans_as_text(self, message: Message, remaining: Sequence[Block], index: int) -> Message:
        blocks: list[Block] = []
        for block in remaining:
            if not isinstance(block, ToolResult):
                blocks.append(block)
                continue
            self._record(f"result of {block.call_id!r}", index, "it belongs to no call; shown as text")
            target = f" to {block.name}" if block.name else ""
            blocks.append(Text(f"[Result of an earlier tool call{target}]"))
            blocks.extend(block.content)
        role = "user" if message.role == "tool" else message.role
        return Message(role, tuple(blocks), message.origin, message.opaque)

    def _normalize_message(self, message: Message, index: int) -> Message | None:
        """Drop empty text and put calls last if the target requires it. Return None if nothing remains."""
        if message.role == "tool" and message.blocks:
            return message
        blocks = tuple(block for block in message.blocks if not _is_empty(block, self._rules))
        if not blocks:
            self._record(f"empty {message.role} message", index, "dropped")
            return None
        if len(blocks) < len(message.blocks):
            self._record("blank text", index, "dropped")
        must_have_calls_last = self._rules.calls_last and message.role == "assistant"
        if must_have_calls_last and not _has_calls_last(blocks):
            self._record("text", index, "moved before the calls of its message")
            blocks = tuple(sorted(blocks, key=_is_call))
        return _with_blocks(message, blocks)


def _with_blocks(message: Message, blocks: tuple[Block, ...]) -> Message:
    """Return a message with these blocks: the same object if it has them already."""
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _pauses(block: Block) -> bool:
    """Return whether a block at the end of the assistant's may be from a turn that the provider has paused."""
    # the provider's own search, rather than what is left of a result without a call
    if isinstance(block, ToolsChanged):
        return bool(block.opaque and "item" in block.opaque)
    return isinstance(block, Foreign | ToolCall)


def rename_call(call: ToolCall, id: str) -> ToolCall:
    """Give a call another id. Gemini repeats the id in the part that goes back."""
    opaque = call.opaque
    if opaque and opaque.get("id") == call.id:
        opaque = {**opaque, "id": id}
    return call if id == call.id else replace(call, id=id, opaque=opaque)


def _with_id(block: Block, id: str | None) -> Block:
    if id is None:
        return block
    if isinstance(block, ToolCall):
        return rename_call(block, id)
    if isinstance(block, ToolResult) and block.call_id != id:
        return replace(block, call_id=id)
    return block


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall)


def _has_calls_last(blocks: Sequence[Block]) -> bool:
    """Return whether no text, media or thinking comes after a call."""
    has_calls = False
    for block in blocks:
        if has_calls and isinstance(block, Text | Media | Thinking):
            return False
        has_calls = has_calls or isinstance(block, ToolCall)
    return True


def _strip_prefill(messages: list[Message]) -> list[Message]:
    """Drop thinking from the assistant messages at the end, which count as one, and white space from their
    end.
    """
    start = len(messages)
    while start and messages[start - 1].role == "assistant":
        start -= 1
    plain = messages[:start]
    for message in messages[start:]:
        blocks = tuple(block for block in message.blocks if not isinstance(block, Thinking))
        if blocks:
            plain.append(replace(message, blocks=blocks))
    while len(plain) > start:
        *others, last = plain[-1].blocks
        if not isinstance(last, Text) or last.text == last.text.rstrip():
            break
        stripped = last.text.rstrip()
        if stripped:
            others.append(replace(last, text=stripped))
        message = plain.pop()
        if others:
            plain.append(replace(message, blocks=tuple(others)))
    return plain


def _simple_turn_ids(messages: Sequence[Message]) -> set[str] | None:
    """Return the ids of a turn that is legal everywhere: only calls, then only their results, in order.

    Else None.
    """
    if len(messages) != 2:
        return None
    question, answer = messages
    if question.role != "assistant" or answer.role != "tool":
        return None
    calls = question.blocks
    results = answer.blocks
    if not calls or len(calls) != len(results):
        return None
    ids: set[str] = set()
    for call, result in zip(calls, results, strict=True):
        if type(call) is not ToolCall or type(result) is not ToolResult:
            return None
        if not call.id or call.id != result.call_id:
            return None
        ids.add(call.id)
    are_unique = len(ids) == len(calls)
    return ids if are_unique else None


def _join_results(first: ToolResult, second: ToolResult) -> ToolResult:
    """Join two results of one call as text: no single value stands for both."""
    content: list[ResultBlock] = []
    for result in (first, second):
        if result.data is not None and not result.text:
            text = result.data if isinstance(result.data, str) else dumps_text(result.data)
            content.append(Text(text))
        content += result.content
    return replace(first, content=tuple(content), data=None, is_error=first.is_error or second.is_error)


def _without_state(result: ToolResult) -> ToolResult:
    content: list[ResultBlock] = []
    for part in result.content:
        if not isinstance(part, Foreign):
            part = replace(part, opaque=None)
        content.append(part)
    return replace(result, opaque=None, content=tuple(content))


def _is_empty(block: Block, rules: HistoryRules) -> bool:
    if not isinstance(block, Text):
        return False
    if rules.no_blank_text:  # Anthropic: 400 "text content blocks must contain non-whitespace text"
        return not block.text.strip()
    return not block.text and not block.opaque
