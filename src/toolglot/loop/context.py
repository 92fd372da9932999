"""What of a conversation the model is shown when not all of it fits.

Laws: the conversation itself is never touched: what is left out of requests stays in it and in saved files. A call is never
split from its result. Whatever is left out is said. What is left out once stays left out, so that the bytes that were sent stay
a prefix of the next request. A turn costs what is new in it.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import takewhile
from typing import Literal, overload

import msgspec

from toolglot.errors import UsageError
from toolglot.loop.run import is_prompt
from toolglot.messages import Message, ToolResult, user
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import factor_of, tokens_by_kind, tokens_of_message, tokens_of_text

__all__ = ["ContextPolicy", "Cut", "Measured", "Memory", "Summarise", "View", "answer_room", "transcript"]

Summarise = Callable[[Sequence[Message]], "str | Awaitable[str]"]
"""Sums up the messages that are going to be left out."""
_ROOM = 8_192  # tokens for an answer where nothing is known
_CLEAR = 0.95  # of what fits: estimates are estimates
_LEARNT = (0.4, 3.0)  # a real count moves the estimate by no more than this
_SHORTEST = 200  # tokens of a request from which something can be learnt


class ContextPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What is done when a conversation outgrows its model."""

    when_full: Literal["compact", "trim", "off"] = "compact"
    """compact: the model sums up the older part · trim: the older part is left out · off: nothing, the provider may refuse."""
    budget: int | None = None
    """Tokens of a request; unset: what the model takes, minus room for the answer."""
    keep: float = 0.5
    """So much of the budget is left of the conversation when it was cut."""

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise UsageError("keep, the part of the budget that a cut leaves, must be between 0 and 1")
        if self.budget is not None and self.budget < 1:
            raise UsageError("the budget of a context must be at least 1 token")


class Cut(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where requests begin. `prompt`: the message that the present turn began with, where the cut is inside of that turn."""

    start: int = 0
    prompt: int | None = None
    summary: str = ""

    def left_out(self, conversation: Sequence[Message]) -> int:
        """Messages that are not shown."""
        return max(0, self.start - (self.prompt is not None) - len(_rules(conversation)))

    def head(self, conversation: Sequence[Message]) -> tuple[Message, ...]:
        """What stands in the place of what is left out, after the instructions that the conversation began with."""
        if not self.start:
            return ()
        left, rules = self.left_out(conversation), _rules(conversation)
        gone = f"{'is' if left == 1 else 'are'} no longer shown"
        if self.summary:
            said = f"[The conversation so far, summed up: its {older(left)} {gone}.]\n{self.summary}"
        else:
            said = f"[The {older(left)} of this conversation {gone}.]"
        return (*rules, user(said)) if self.prompt is None else (*rules, user(said), conversation[self.prompt])


class Measured(msgspec.Struct, frozen=True):
    """How full a model's memory is, in tokens, about."""

    total: int
    parts: dict[str, int]
    budget: int | None
    window: int | None
    left_out: int


def answer_room(profile: Profile, max_tokens: int | None) -> int:
    """Tokens that an answer may need."""
    window = profile.limits.context or 4 * _ROOM
    return min(max_tokens or profile.default_max_tokens or _ROOM, window // 4)


class Memory:
    """What is known of one conversation's size, and where its requests begin."""

    def __init__(self, cut: Cut | None = None) -> None:
        self.cut = cut or Cut()
        self._sums = [0]  # tokens of the first messages, so many as the place says
        self._learnt: dict[str, float] = {}
        self._ceilings: dict[str, int] = {}

    # ---- how much it is

    def tokens(self, conversation: Sequence[Message], profile: Profile, fixed: int = 0) -> int:
        """Tokens of a request for a model. `fixed`: of everything that is not the conversation, as OpenAI would count."""
        self._weigh(conversation)
        start, prompt = self.cut.start, self.cut.prompt
        own = self._sums[-1] - self._sums[start] + (self._weight(prompt) if prompt is not None else 0)
        if start:
            own += 40 + tokens_of_text(self.cut.summary) + self._sums[len(_rules(conversation))]
        return int((own + fixed) * self._factor(profile))

    def learn(self, profile: Profile, estimated: int, counted: int) -> None:
        """The provider has counted a request."""
        if estimated >= _SHORTEST and counted > 0:
            least, most = _LEARNT
            before = self._learnt.get(profile.model, 1.0)
            self._learnt[profile.model] = min(most, max(least, before * counted / estimated))

    def refused(self, profile: Profile, tokens: int, fixed: int) -> None:
        """The provider has refused a request of so many tokens as too long. There stays room for what cannot be left out."""
        self._ceilings[profile.model] = max(tokens * 3 // 4, 2 * int(fixed * self._factor(profile)), 1)

    def budget(self, profile: Profile, policy: ContextPolicy, max_tokens: int | None) -> int | None:
        """Tokens that a request may have; None where nothing is known."""
        window = profile.limits.context
        known = int(window * _CLEAR) - answer_room(profile, max_tokens) if window else None
        bounds = [bound for bound in (known, policy.budget, self._ceilings.get(profile.model)) if bound is not None]
        return min(bounds) if bounds else None

    def scaled(self, profile: Profile, tokens: int) -> int:
        """Tokens as a model counts them."""
        return int(tokens * self._factor(profile))

    def after(self, cut: Cut) -> "Memory":
        """What is known of the models, for a conversation that is cut elsewhere."""
        other = Memory(cut)
        other._learnt, other._ceilings = self._learnt.copy(), self._ceilings.copy()
        return other

    def _factor(self, profile: Profile) -> float:
        return factor_of(profile.model) * self._learnt.get(profile.model, 1.0)

    def _weigh(self, conversation: Sequence[Message]) -> None:
        for message in conversation[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + tokens_of_message(message))

    def _weight(self, place: int) -> int:
        return self._sums[place + 1] - self._sums[place]

    # ---- where it is cut

    def better(self, conversation: Sequence[Message], profile: Profile, fixed: int, target: int) -> Cut | None:
        """The least cut after which a request has at most so many tokens; None where nothing more can be left out."""
        self._weigh(conversation)
        rules, left = len(_rules(conversation)), self.cut.left_out(conversation)
        room = target / self._factor(profile) - fixed - self._sums[rules]
        last = max((place for place, one in enumerate(conversation) if is_prompt(one)), default=None)
        found: Cut | None = None
        for place in range(max(rules, self.cut.start) + 1, len(conversation)):
            cut = Cut(place, last if last is not None and place > last else None)
            if cut.left_out(conversation) > left and may_begin(conversation, place):
                found = cut
                if self._sums[-1] - self._sums[place] + (self._weight(cut.prompt) if cut.prompt is not None else 0) <= room:
                    break
        return found

    def parts(self, conversation: Sequence[Message], profile: Profile) -> dict[str, int]:
        """Tokens of what is shown, by what they are for."""
        found: dict[str, int] = {}
        for message in View((), conversation, self.cut):
            for kind, tokens in tokens_by_kind(message).items():
                name = "what you said" if message.role == "user" and kind == "text" else "answers" if kind == "text" else kind
                found[name] = found.get(name, 0) + tokens
        return {name: int(tokens * self._factor(profile)) for name, tokens in found.items()}


def older(count: int) -> str:
    """So many messages, in words."""
    return f"{count} older message{'' if count == 1 else 's'}"


def _rules(conversation: Sequence[Message]) -> list[Message]:
    """The instructions that a conversation begins with."""
    return list(takewhile(lambda message: message.role == "system", conversation))


def may_begin(conversation: Sequence[Message], place: int) -> bool:
    """Whether nothing before a message belongs to it: it is a prompt, or an answer after which all calls have results."""
    message = conversation[place]
    if message.role == "user":
        return True
    if message.role != "assistant" or conversation[place - 1].role == "assistant":
        return False
    calls = {call.id for call in message.calls}
    following = conversation[place + 1] if place + 1 < len(conversation) else None
    results = following.blocks if following is not None and following.role == "tool" else ()
    return bool(calls) and calls <= {block.call_id for block in results if isinstance(block, ToolResult)}


class View(Sequence[Message]):
    """A conversation as it is shown: with something before it, without its older part, and without copying it."""

    def __init__(self, preface: tuple[Message, ...], conversation: Sequence[Message], cut: Cut) -> None:
        self.preface, self.cut = preface, cut
        self._head = (*preface, *cut.head(conversation))
        self._conversation, self._start = conversation, cut.start

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

ASK_SUMMARY = (
    "Below is the older part of a conversation between a user and an assistant with tools. It will no longer be shown. "
    "Sum it up for the assistant, who goes on with the task: what the user wants, what was decided and found out, what was "
    "done with which tools and files, exact names, numbers and open questions. Answer with the summary only."
)


def transcript(messages: Sequence[Message], summary: str, most: int) -> str:
    """Messages as plain text of at most so many characters, to be summed up; long parts are cut in their middle."""
    lines = [f"(before that) {summary}"] if summary else []
    each = max(200, most // max(1, len(messages)))
    lines += [_line(message, each) for message in messages]
    text = "\n\n".join(lines)
    return text if len(text) <= most else middle(text, most)


def _line(message: Message, most: int) -> str:
    parts = [message.text] if message.text else []
    parts += [f"calls {call.name} {call.text}" for call in message.calls]
    parts += [f"{block.name or 'tool'} gave: {block.text}" for block in message.blocks if isinstance(block, ToolResult)]
    return f"{message.role}: " + middle("\n".join(parts), most)


def middle(text: str, most: int) -> str:
    """A text without its middle, where it is longer than so many characters."""
    if len(text) <= most:
        return text
    half = max(0, most - 20) // 2
    return f"{text[:half]}\n[… cut …]\n{text[len(text) - half :]}"
