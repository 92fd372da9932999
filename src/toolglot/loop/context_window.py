"""What of a conversation the model is shown when not all of it fits.

Laws: the conversation itself is never touched: what is left out of requests stays in it and in saved files. A call is never
split from its result. Whatever is left out is said. What is left out once stays left out, so that the bytes that were sent stay
a prefix of the next request. A turn costs what is new in it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Literal, overload

import msgspec

from toolglot.errors import UsageError
from toolglot.loop.run import is_user_prompt
from toolglot.messages import Message, ToolResult, user
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import estimate_by_kind, estimate_message, estimate_text, token_factor

__all__ = [
    "ContextMeter",
    "ContextPolicy",
    "ContextUsage",
    "ConversationWindow",
    "Summarize",
    "Truncation",
    "answer_tokens",
    "render_transcript",
]

Summarize = Callable[[Sequence[Message]], "str | Awaitable[str]"]
"""Sums up the messages that are going to be left out."""
_DEFAULT_ANSWER_TOKENS = 8_192  # tokens for an answer where nothing is known
_SAFETY_FACTOR = 0.95  # of what fits: estimates are estimates
_CALIBRATION_RANGE = (0.4, 3.0)  # a real count moves the estimate by no more than this
_MIN_CALIBRATION_TOKENS = 200  # tokens of a request from which something can be learnt


class ContextPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is done when a conversation outgrows its model."""

    when_full: Literal["compact", "trim", "off"] = "compact"
    """compact: the model sums up the older part · trim: the older part is left out · off: nothing, the provider may refuse."""
    budget: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Tokens of a request; unset: what the model takes, minus room for the answer."""
    keep: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    """So much of the budget is left of the conversation when it was cut."""

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise UsageError("keep, the part of the budget that a cut leaves, must be between 0 and 1")
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget of a context must be at least 1 token")


class Truncation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where requests begin. `prompt`: the message that the present turn began with, where the cut is inside of that turn."""

    start: int = 0
    prompt: int | None = None
    summary: str = ""

    def omitted_count(self, conversation: Sequence[Message]) -> int:
        """Messages that are not shown."""
        return max(0, self.start - (self.prompt is not None) - len(_leading_instructions(conversation)))

    def leading_messages(self, conversation: Sequence[Message]) -> tuple[Message, ...]:
        """What stands in the place of what is left out, after the instructions that the conversation began with."""
        if not self.start:
            return ()
        left, rules = self.omitted_count(conversation), _leading_instructions(conversation)
        gone = f"{'is' if left == 1 else 'are'} no longer shown"
        if self.summary:
            said = f"[The conversation so far, summed up: its {count_phrase(left)} {gone}.]\n{self.summary}"
        else:
            said = f"[The {count_phrase(left)} of this conversation {gone}.]"
        return (*rules, user(said)) if self.prompt is None else (*rules, user(said), conversation[self.prompt])


class ContextUsage(msgspec.Struct, frozen=True):
    """How full a model's memory is, in tokens, about."""

    total: int
    parts: dict[str, int]
    budget: int | None
    window: int | None
    omitted_messages: int


def answer_tokens(profile: Profile, max_tokens: int | None) -> int:
    """Tokens that an answer may need."""
    window = profile.limits.context or 4 * _DEFAULT_ANSWER_TOKENS
    return min(max_tokens or profile.default_max_tokens or _DEFAULT_ANSWER_TOKENS, window // 4)


class ContextMeter:
    """What is known of one conversation's size, and where its requests begin."""

    def __init__(self, truncation: Truncation | None = None) -> None:
        self.truncation = truncation or Truncation()
        self._sums = [0]  # tokens of the first messages, so many as the place says
        self._calibration: dict[str, float] = {}
        self._rejected_limits: dict[str, int] = {}

    # ---- how much it is

    def estimate_tokens(self, conversation: Sequence[Message], profile: Profile, overhead: int = 0) -> int:
        """Tokens of a request for a model. `fixed`: of everything that is not the conversation, as OpenAI would count."""
        self._update_sums(conversation)
        start, prompt = self.truncation.start, self.truncation.prompt
        own = self._sums[-1] - self._sums[start] + (self._message_tokens(prompt) if prompt is not None else 0)
        if start:
            own += 40 + estimate_text(self.truncation.summary) + self._sums[len(_leading_instructions(conversation))]
        return int((own + overhead) * self._token_factor(profile))

    def calibrate(self, profile: Profile, estimated: int, counted: int) -> None:
        """The provider has counted a request."""
        if estimated >= _MIN_CALIBRATION_TOKENS and counted > 0:
            least, most = _CALIBRATION_RANGE
            before = self._calibration.get(profile.model, 1.0)
            self._calibration[profile.model] = min(most, max(least, before * counted / estimated))

    def record_rejection(self, profile: Profile, tokens: int, overhead: int) -> None:
        """The provider has refused a request of so many tokens as too long. There stays room for what cannot be left out."""
        self._rejected_limits[profile.model] = max(tokens * 3 // 4, 2 * int(overhead * self._token_factor(profile)), 1)

    def token_budget(self, profile: Profile, policy: ContextPolicy, max_tokens: int | None) -> int | None:
        """Tokens that a request may have; None where nothing is known."""
        window = profile.limits.context
        known = int(window * _SAFETY_FACTOR) - answer_tokens(profile, max_tokens) if window else None
        bounds = [bound for bound in (known, policy.budget, self._rejected_limits.get(profile.model)) if bound is not None]
        return min(bounds) if bounds else None

    def scale_tokens(self, profile: Profile, tokens: int) -> int:
        """Tokens as a model counts them."""
        return int(tokens * self._token_factor(profile))

    def with_truncation(self, truncation: Truncation) -> "ContextMeter":
        """What is known of the models, for a conversation that is cut elsewhere."""
        other = ContextMeter(truncation)
        other._calibration, other._rejected_limits = self._calibration.copy(), self._rejected_limits.copy()
        return other

    def _token_factor(self, profile: Profile) -> float:
        return token_factor(profile.model) * self._calibration.get(profile.model, 1.0)

    def _update_sums(self, conversation: Sequence[Message]) -> None:
        for message in conversation[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + estimate_message(message))

    def _message_tokens(self, index: int) -> int:
        return self._sums[index + 1] - self._sums[index]

    # ---- where it is cut

    def find_truncation(
        self, conversation: Sequence[Message], profile: Profile, overhead: int, target: int
    ) -> Truncation | None:
        """The least cut after which a request has at most so many tokens; None where nothing more can be left out."""
        self._update_sums(conversation)
        rules, left = len(_leading_instructions(conversation)), self.truncation.omitted_count(conversation)
        room = target / self._token_factor(profile) - overhead - self._sums[rules]
        last = max((place for place, one in enumerate(conversation) if is_user_prompt(one)), default=None)
        found: Truncation | None = None
        for place in range(max(rules, self.truncation.start) + 1, len(conversation)):
            cut = Truncation(place, last if last is not None and place > last else None)
            if cut.omitted_count(conversation) > left and can_start_at(conversation, place):
                found = cut
                if (
                    self._sums[-1] - self._sums[place] + (self._message_tokens(cut.prompt) if cut.prompt is not None else 0)
                    <= room
                ):
                    break
        return found

    def tokens_by_part(self, conversation: Sequence[Message], profile: Profile) -> dict[str, int]:
        """Tokens of what is shown, by what they are for."""
        found: dict[str, int] = {}
        for message in ConversationWindow((), conversation, self.truncation):
            for kind, tokens in estimate_by_kind(message).items():
                name = "what you said" if message.role == "user" and kind == "text" else "answers" if kind == "text" else kind
                found[name] = found.get(name, 0) + tokens
        return {name: int(tokens * self._token_factor(profile)) for name, tokens in found.items()}


def count_phrase(count: int) -> str:
    """So many messages, in words."""
    return f"{count} older message{'' if count == 1 else 's'}"


def _leading_instructions(conversation: Sequence[Message]) -> list[Message]:
    """The instructions that a conversation begins with."""
    return list(takewhile(lambda message: message.role == "system", conversation))


def can_start_at(conversation: Sequence[Message], index: int) -> bool:
    """Whether nothing before a message belongs to it: it is a prompt, or an answer after which all calls have results."""
    message = conversation[index]
    if message.role == "user":
        return True
    if message.role != "assistant" or conversation[index - 1].role == "assistant":
        return False
    calls = {call.id for call in message.calls}
    following = conversation[index + 1] if index + 1 < len(conversation) else None
    results = following.blocks if following is not None and following.role == "tool" else ()
    return bool(calls) and calls <= {block.call_id for block in results if isinstance(block, ToolResult)}


class ConversationWindow(Sequence[Message]):
    """A conversation as it is shown: with something before it, without its older part, and without copying it."""

    def __init__(self, system_messages: tuple[Message, ...], conversation: Sequence[Message], truncation: Truncation) -> None:
        self.system_messages, self.truncation = system_messages, truncation
        self._head = (*system_messages, *truncation.leading_messages(conversation))
        self._conversation, self._start = conversation, truncation.start

    def __len__(self) -> int:
        return len(self._head) + len(self._conversation) - self._start

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        first = len(self._head)
        if isinstance(index, int):
            place = index + len(self) if index < 0 else index
            if place < 0:
                raise IndexError(index)
            return self._head[place] if place < first else self._conversation[place - first + self._start]
        start, stop, step = index.indices(len(self))
        if step == 1 and start >= first:
            shift = self._start - first
            return list(self._conversation[start + shift : max(stop, start) + shift])
        return [self[place] for place in range(start, stop, step)]

    def __iter__(self) -> Iterator[Message]:
        yield from self._head
        yield from self._conversation[self._start :]


# ---- a summary

SUMMARY_PROMPT = (
    "Below is the older part of a conversation between a user and an assistant with tools. It will no longer be shown. "
    "Sum it up for the assistant, who goes on with the task: what the user wants, what was decided and found out, what was "
    "done with which tools and files, exact names, numbers and open questions. Answer with the summary only."
)


def render_transcript(messages: Sequence[Message], summary: str, limit: int) -> str:
    """Messages as plain text of at most so many characters, to be summed up; long parts are cut in their middle."""
    lines = [f"(before that) {summary}"] if summary else []
    each = max(200, limit // max(1, len(messages)))
    lines += [_render_message(message, each) for message in messages]
    text = "\n\n".join(lines)
    return text if len(text) <= limit else elide_middle(text, limit)


def _render_message(message: Message, limit: int) -> str:
    parts = [message.text] if message.text else []
    parts += [f"calls {call.name} {call.text}" for call in message.calls]
    parts += [f"{block.name or 'tool'} gave: {block.text}" for block in message.blocks if isinstance(block, ToolResult)]
    return f"{message.role}: " + elide_middle("\n".join(parts), limit)


def elide_middle(text: str, limit: int) -> str:
    """A text without its middle, where it is longer than so many characters."""
    if len(text) <= limit:
        return text
    half = max(0, limit - 20) // 2
    return f"{text[:half]}\n[… cut …]\n{text[len(text) - half :]}"
