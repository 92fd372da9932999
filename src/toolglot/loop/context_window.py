"""Which part of a conversation the model is shown when not all of it fits its context window.

Invariants: the conversation itself is never touched: what is left out of requests stays in it and in saved
files. A call is never separated from its result. The model is told what is left out. What is left out once
stays left out, so that the bytes that were sent stay a prefix of the next request. A turn costs time for what
is new in it only.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Literal, overload

import msgspec

from toolglot.common.textutil import pluralize
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.loop.run import find_last_prompt
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import estimate_by_kind, estimate_message, estimate_text, token_factor
from toolglot.values.losses import Loss
from toolglot.values.messages import Conversation, Message, user

__all__ = ["ContextMeter", "ContextPolicy", "ContextUsage", "ConversationWindow", "Summarize", "Truncation"]

Summarize = Callable[[Sequence[Message]], "str | Awaitable[str]"]
"""Summarizes the messages that are going to be left out."""
RenderMessage = Callable[[Message, dict[Loss, None]], Message]
"""A message of another model, or about tools, as this one knows it; adds what cannot be expressed to the
losses."""
_DEFAULT_ANSWER_TOKENS = 8_192  # if the model's limit is unknown
_SAFETY_FACTOR = 0.95  # of the context window: estimates are estimates
_CALIBRATION_RANGE = (0.4, 3.0)  # a provider's count changes our estimate by no more than this
_MIN_CALIBRATION_TOKENS = 200  # shorter requests say little about a model's tokenizer
_MIN_DELIVERED_TOKENS = 1_000  # of the messages delivered to a run, which it keeps in any case
_NOTE_TOKENS = 40  # of the message that says what is left out


class ContextPolicy(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """What to do when a conversation no longer fits the context window."""

    when_full: Literal["compact", "trim", "off"] = "compact"
    """compact: the model summarizes the older part · trim: it is left out · off: nothing, the provider may
    refuse."""
    budget: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Tokens of a request; unset: the model's context window, minus room for the answer."""
    keep: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    """Fraction of the budget that the conversation may use after truncation."""

    def __post_init__(self) -> None:
        check_values(self)


class Truncation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where requests begin.

    `prompt`: the message that the present run began with, if the truncation is inside that run. `delivered`:
    messages that the user has sent meanwhile, after it and before the start.
    """

    start: int = 0
    prompt: int | None = None
    summary: str = ""
    delivered: tuple[int, ...] = ()

    @property
    def kept(self) -> tuple[int, ...]:
        """The user's messages before the start that are shown nevertheless."""
        return self.delivered if self.prompt is None else (self.prompt, *self.delivered)

    def omitted_count(self, conversation: Sequence[Message]) -> int:
        """Return the number of messages that are not shown."""
        return max(0, self.start - len(self.kept) - len(_leading_instructions(conversation)))

    def leading_messages(self, conversation: Sequence[Message]) -> tuple[Message, ...]:
        """Return what replaces the messages that are left out, after the instructions that the conversation
        began with.
        """
        if not self.start:
            return ()
        count = self.omitted_count(conversation)
        are_gone = f"{'is' if count == 1 else 'are'} no longer shown"
        if self.summary:
            note = (
                f"[Summary of the conversation so far; its {count_phrase(count)} {are_gone}.]\n{self.summary}"
            )
        else:
            note = f"[The {count_phrase(count)} of this conversation {are_gone}.]"
        instructions = _leading_instructions(conversation)
        return (*instructions, user(note), *(conversation[index] for index in self.kept))


class ContextUsage(msgspec.Struct, frozen=True):
    """How full a model's context window is, in tokens; an estimate."""

    total: int
    """Tokens of the next request."""
    parts: dict[str, int]
    """The same by part: `instructions`, `tools` and the parts of the conversation."""
    budget: int | None
    """Tokens that a request may have; None: no known limit."""
    window: int | None
    """The model's context window; None: unknown."""
    omitted_messages: int
    """Messages that requests no longer contain."""


def answer_tokens(profile: Profile, max_tokens: int | None) -> int:
    """Return the tokens to reserve for the answer."""
    window = profile.limits.context or 4 * _DEFAULT_ANSWER_TOKENS
    return min(max_tokens or profile.default_max_tokens or _DEFAULT_ANSWER_TOKENS, window // 4)


class ContextMeter:
    """The estimated size of one conversation, and where its requests begin."""

    def __init__(self, truncation: Truncation | None = None) -> None:
        self.truncation = truncation or Truncation()
        self._sums = [0]  # _sums[n]: estimated tokens of the first n messages
        self._calibration: dict[str, float] = {}  # by model: the provider's count / our estimate
        # by model: what is left to use after a request was rejected
        self._rejected_limits: dict[str, int] = {}

    # ---- size

    def estimate_tokens(self, conversation: Sequence[Message], profile: Profile, overhead: int = 0) -> int:
        """Return the tokens of the next request.

        `overhead`: uncalibrated tokens of everything but the conversation.
        """
        self._update_sums(conversation)
        truncation = self.truncation
        tokens = overhead + self._tail_tokens(truncation)
        if truncation.start:
            instructions = self._sums[len(_leading_instructions(conversation))]
            tokens += _NOTE_TOKENS + estimate_text(truncation.summary) + instructions
        return self.scale_tokens(profile, tokens)

    def calibrate(self, profile: Profile, estimated: int, counted: int) -> None:
        """Learn from the provider's count of a request."""
        if estimated >= _MIN_CALIBRATION_TOKENS and counted > 0:
            low, high = _CALIBRATION_RANGE
            before = self._calibration.get(profile.model, 1.0)
            self._calibration[profile.model] = min(high, max(low, before * counted / estimated))

    def record_rejection(self, profile: Profile, tokens: int, overhead: int) -> None:
        """Learn from a request that was rejected as too long. Room stays for what cannot be left out."""
        self._rejected_limits[profile.model] = max(
            tokens * 3 // 4, 2 * self.scale_tokens(profile, overhead), 1
        )

    def token_budget(self, profile: Profile, policy: ContextPolicy, max_tokens: int | None) -> int | None:
        """Return the tokens that a request may have; None if no limit is known."""
        window = profile.limits.context
        limit = int(window * _SAFETY_FACTOR) - answer_tokens(profile, max_tokens) if window else None
        limits = [
            bound
            for bound in (limit, policy.budget, self._rejected_limits.get(profile.model))
            if bound is not None
        ]
        return min(limits) if limits else None

    def scale_tokens(self, profile: Profile, tokens: int) -> int:
        """Scale an estimate to the model's tokenizer."""
        return int(tokens * self._token_factor(profile))

    def calibration(self, profile: Profile) -> float:
        """Return how many times more tokens the model's provider counts than were estimated."""
        return self._calibration.get(profile.model, 1.0)

    def rewind(self, length: int) -> None:
        """Forget the messages after the first `length`, but not what was learned about each model."""
        del self._sums[length + 1 :]
        if self.truncation.start > length:
            self.truncation = Truncation()

    def _token_factor(self, profile: Profile) -> float:
        return token_factor(profile.model) * self.calibration(profile)

    def _update_sums(self, conversation: Sequence[Message]) -> None:
        for message in conversation[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + estimate_message(message))

    def _tail_tokens(self, truncation: Truncation) -> int:
        """Return the tokens of the part of the conversation that is still shown."""
        sums = self._sums
        return sums[-1] - sums[truncation.start] + sum(map(self._tokens_of, truncation.kept))

    def _tokens_of(self, index: int) -> int:
        return self._sums[index + 1] - self._sums[index]

    # ---- truncation

    def find_truncation(
        self, conversation: Sequence[Message], profile: Profile, overhead: int, target: int
    ) -> Truncation | None:
        """Return the smallest truncation that brings a request down to `target` tokens, else the largest, if
        any.
        """
        self._update_sums(conversation)
        first, omitted = len(_leading_instructions(conversation)), self.truncation.omitted_count(conversation)
        room = target / self._token_factor(profile) - overhead - self._sums[first]
        last_prompt = find_last_prompt(conversation)
        delivered = self._find_delivered(conversation, last_prompt, room)
        first_unseen = _find_unseen_calls(conversation)
        best: Truncation | None = None
        for index in range(max(first, self.truncation.start) + 1, len(conversation)):
            candidate = Truncation(index)
            if last_prompt is not None and index > last_prompt:
                if index > first_unseen:
                    break
                earlier = delivered[: bisect_left(delivered, index)]
                candidate = Truncation(index, prompt=last_prompt, delivered=earlier)
            if candidate.omitted_count(conversation) > omitted and can_start_at(conversation, index):
                best = candidate
                if self._tail_tokens(candidate) <= room:
                    break
        return best

    def _find_delivered(
        self, conversation: Sequence[Message], last_prompt: int | None, room: float
    ) -> tuple[int, ...]:
        """Return the messages that the user has sent since the last prompt: all, or the latest, if all would
        take more than half of the room.
        """
        if last_prompt is None or not isinstance(conversation, Conversation):
            return ()
        room_left = max(room / 2, _MIN_DELIVERED_TOKENS)
        kept: list[int] = []
        for index in sorted(conversation.delivered, reverse=True):
            room_left -= self._tokens_of(index)
            if index < last_prompt or room_left < 0:
                break
            kept.append(index)
        return tuple(reversed(kept))

    def tokens_by_part(self, conversation: Sequence[Message], profile: Profile) -> dict[str, int]:
        """Return the tokens of what is shown, by category."""
        parts = Counter[str]()
        for message in ConversationWindow((), conversation, self.truncation):
            text_part = "prompts" if message.role == "user" else "answers"
            for kind, tokens in estimate_by_kind(message).items():
                parts[text_part if kind == "text" else kind] += tokens
        return {part: self.scale_tokens(profile, tokens) for part, tokens in parts.items()}


def count_phrase(count: int) -> str:
    """Return `1 older message`, `2 older messages`."""
    return pluralize(count, "older message")


def _leading_instructions(conversation: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role == "system", conversation))


def _find_unseen_calls(conversation: Sequence[Message]) -> int:
    """Return the index of the last reply, if it has calls: the model has not seen their results yet, so they
    are never left out. Otherwise, return the length of the conversation.
    """
    for index in reversed(range(len(conversation))):
        if conversation[index].role == "assistant":
            return index if conversation[index].calls else len(conversation)
    return len(conversation)


def can_start_at(conversation: Sequence[Message], index: int) -> bool:
    """Return whether requests can begin with a message: a prompt, or a reply whose calls all have results
    after it.
    """
    message = conversation[index]
    if message.role == "user":
        return True
    if message.role != "assistant" or conversation[index - 1].role == "assistant":
        return False
    call_ids = {call.id for call in message.calls}
    results = conversation[index + 1].results if index + 1 < len(conversation) else ()
    return bool(call_ids) and call_ids <= {result.call_id for result in results}


class ConversationWindow(Sequence[Message]):
    """A conversation as it is sent, without copying it: after the system messages, without its older part,
    and with the replies rendered for the model. Each reply is rendered once and stays the same object, so
    that its encoding can be kept.
    """

    def __init__(
        self,
        system_messages: tuple[Message, ...],
        conversation: Sequence[Message],
        truncation: Truncation,
        render: RenderMessage | None = None,
    ) -> None:
        self.system_messages, self.truncation, self.render = system_messages, truncation, render
        self.losses: dict[Loss, None] = {}  # what could not be rendered
        self._head = (*system_messages, *truncation.leading_messages(conversation))
        self._conversation, self._start = conversation, truncation.start
        # by id; the original is kept so that its id stays its own
        self._rendered: dict[int, tuple[Message, Message]] = {}

    def _show(self, message: Message) -> Message:
        if self.render is None or message.role == "user":
            return message
        pair = self._rendered.get(id(message))
        if pair is None:
            pair = self._rendered[id(message)] = (message, self.render(message, self.losses))
        return pair[1]

    def __len__(self) -> int:
        return len(self._head) + len(self._conversation) - self._start

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        position = index + len(self) if index < 0 else index
        if position < 0:
            raise IndexError(index)
        beyond_head = position - len(self._head)
        return (
            self._head[position]
            if beyond_head < 0
            else self._show(self._conversation[self._start + beyond_head])
        )

    def _slice(self, start: int, stop: int, step: int) -> list[Message]:
        if step != 1:
            return [self[position] for position in range(start, stop, step)]
        first, shift = len(self._head), self._start - len(self._head)
        messages = self._conversation[max(start, first) + shift : max(stop, first) + shift]
        if self.render is not None:
            messages = map(self._show, messages)
        return [*self._head[start:stop], *messages]

    def __iter__(self) -> Iterator[Message]:
        yield from self._head
        yield from map(self._show, self._conversation[self._start :])


# ---- a summary

SUMMARY_PROMPT = (
    "Below is the older part of a conversation between a user and an assistant with tools. It will no longer "
    "be shown. "
    "Summarize it for the assistant, who continues the task: what the user wants, what was decided and "
    "learned, what was "
    "done with which tools and files, exact names and numbers, and open questions. Answer with the summary "
    "only."
)


def render_transcript(messages: Sequence[Message], summary: str, limit: int) -> str:
    """Return messages as plain text of at most `limit` characters; long parts lose their middle."""
    lines = [f"(before that) {summary}"] if summary else []
    message_limit = max(200, limit // max(1, len(messages)))
    for message in messages:
        parts = [message.text] if message.text else []
        parts += [f"calls {call.name} {call.text}" for call in message.calls]
        parts += [f"{result.name or 'tool'} returned: {result.text}" for result in message.results]
        lines.append(f"{message.role}: " + elide_middle("\n".join(parts), message_limit))
    return elide_middle("\n\n".join(lines), limit)


def elide_middle(text: str, limit: int) -> str:
    """Return a text without its middle, if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = max(0, limit - 20) // 2
    return f"{text[:half]}\n[… omitted …]\n{text[len(text) - half :]}"
