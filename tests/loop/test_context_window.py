"""The pure part of the context policy: what is weighed, where it is cut, what is shown instead, on histories
of any shape.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.errors import UsageError
from toolglot.loop import context_window as context
from toolglot.loop.context_window import (
    ContextMeter,
    ContextPolicy,
    ConversationWindow,
    Truncation,
    answer_tokens,
    render_transcript,
)
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile, ProviderLimits
from toolglot.providers.tokens import estimate_message, estimate_text
from toolglot.values.messages import (
    Conversation,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request
from toolglot.wire.prefix import PrefixEncoder

from .agents import MODELS, PROVIDERS, check_accepted, find_unpaired

PLAIN = Profile(id="x", title="X", wire="openai-chat", model="some-model")
NOTE = "no longer shown"


def profile_of(
    context: int | None = None, *, model: str = "some-model", default: int | None = None
) -> Profile:
    return Profile(
        id="x",
        title="X",
        wire="openai-chat",
        model=model,
        default_max_tokens=default,
        limits=ProviderLimits(context=context),
    )


def step(number: int, *, calls: int = 1, size: int = 400) -> list[Message]:
    """Calls and their results."""
    step_calls = [ToolCall(f"c{number}_{index}", "get", {"n": index}) for index in range(calls)]
    results = [ToolResult(call.id, (Text("r" * size),), "get") for call in step_calls]
    return [assistant([Text(f"step {number}"), *step_calls]), tool_results(*results)]


def loop(steps: int, *, prompt: str = "begin", size: int = 400) -> list[Message]:
    """One turn with so many steps, that is not over."""
    return [user(prompt), *(message for number in range(steps) for message in step(number, size=size))]


def talk(turns: int, *, size: int = 400) -> list[Message]:
    """Prompts and answers, and one more prompt."""
    history = [
        message for number in range(turns) for message in (user(f"prompt {number}"), assistant("a" * size))
    ]
    return [*history, user("the last prompt")]


# ---- histories of any shape, as the loop leaves them

SIZES = st.sampled_from([0, 1, 30, 400, 3_000])


@st.composite
def steps_of_a_turn(draw: st.DrawFn, limit: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(draw(st.integers(0, limit))):
        calls = draw(st.integers(1, 3))
        reused = draw(st.booleans())  # some servers count from nought in every reply
        ids = [
            f"call_{index}" if reused else f"call_{number}_{index}_{draw(st.integers(0, 10**6))}"
            for index in range(calls)
        ]
        step_calls = [
            ToolCall(id, draw(st.sampled_from(["get", "put"])), {"x": "x" * draw(SIZES)}) for id in ids
        ]
        before = [Thinking("hm")] * draw(st.integers(0, 1)) + [Text("so")] * draw(st.integers(0, 1))
        results = [
            ToolResult(call.id, (Text("r" * draw(SIZES) + "."),), call.name, is_error=draw(st.booleans()))
            for call in step_calls
        ]
        messages += [assistant([*before, *step_calls]), tool_results(*results)]
    return messages


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Turns with parallel calls, long loops, interrupted turns and instructions; it ends where a model would
    be asked.
    """
    messages: list[Message] = []
    for number in range(draw(st.integers(0, 4))):
        if draw(st.integers(0, 5)) == 0:
            messages.append(system(f"rule {number}"))
        messages += [user(f"prompt {number} " + "p" * draw(SIZES)), *draw(steps_of_a_turn(4))]
        match draw(st.sampled_from(["answer", "answer", "cut short", "no answer", "abandoned"])):
            case "answer":
                messages.append(assistant(f"answer {number} " + "a" * draw(SIZES)))
            case "cut short":
                messages += [
                    assistant("half an"),
                    user("[The reply above was cut short: the user interrupted.]"),
                ]
            case "no answer":
                messages.append(user("[No answer came: the user interrupted.]"))
            case _:
                pass
    return [*messages, user("the last prompt " + "p" * draw(SIZES)), *draw(steps_of_a_turn(8))]


def asked_at(messages: Sequence[Message]) -> list[int]:
    """Lengths at which a model would be asked."""
    return [at + 1 for at, message in enumerate(messages) if message.role in ("user", "tool")]


def count_left_out(messages: Sequence[Message], truncation: Truncation) -> int:
    """Messages that are not shown."""
    shown = {id(message) for message in ConversationWindow((), messages, truncation)}
    return sum(id(message) not in shown for message in messages)


def last_prompt(messages: Sequence[Message]) -> Message:
    return [message for message in messages if message.role == "user"][-1]


def grown(
    messages: Sequence[Message], budget: int, keep: float = 0.5, fixed: int = 0
) -> list[tuple[list[Message], Truncation]]:
    """The conversation at every request, and where that request began."""
    meter, shown = ContextMeter(), list[tuple[list[Message], Truncation]]()
    for length in asked_at(messages):
        so_far = list(messages[:length])
        if meter.estimate_tokens(so_far, PLAIN, fixed) > budget:
            truncation = meter.find_truncation(so_far, PLAIN, fixed, int(budget * keep))
            meter.truncation = truncation or meter.truncation
        shown.append((so_far, meter.truncation))
    return shown


LAW = settings(max_examples=50)
CASES = (histories(), st.sampled_from([1, 60, 300, 900, 2_500]), st.sampled_from([0.1, 0.5, 0.9]))


class TestCutsOfAnyHistory:
    @pytest.mark.untraced
    @LAW
    @given(*CASES)
    def test_no_call_loses_its_result_and_no_result_its_call(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        for so_far, truncation in grown(messages, budget, keep):
            wrong = find_unpaired(ConversationWindow((), so_far, truncation))
            assert wrong == [], (truncation, wrong)

    @LAW
    @given(*CASES)
    def test_what_was_left_out_stays_left_out(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        cuts = [truncation for _, truncation in grown(messages, budget, keep)]
        for before, after in pairwise(cuts):
            assert after == before or after.start > before.start

    @LAW
    @given(*CASES)
    def test_a_truncation_leaves_out_more_than_before_or_there_is_none(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        before, missing = Truncation(), 0
        for so_far, truncation in grown(messages, budget, keep):
            now = count_left_out(so_far, truncation)
            assert truncation == before or now > missing, "something was said to be left out that was not"
            before, missing = truncation, now

    @LAW
    @given(*CASES)
    def test_the_last_prompt_and_the_last_message_are_always_shown(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        for so_far, truncation in grown(messages, budget, keep):
            shown = list(ConversationWindow((), so_far, truncation))
            assert shown[-1] is so_far[-1]
            assert sum(message is last_prompt(so_far) for message in shown) == 1

    @LAW
    @given(*CASES, st.slices(30))
    def test_a_slice_is_what_the_list_has_there(
        self, messages: list[Message], budget: int, keep: float, part: slice
    ) -> None:
        for so_far, cut in grown(messages, budget, keep):
            window = ConversationWindow((system("brief"),), so_far, cut, lambda message, losses: message)
            assert window[part] == list(window)[part]

    @LAW
    @given(*CASES)
    def test_what_is_left_out_is_said_once_and_counted(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        for so_far, truncation in grown(messages, budget, keep):
            shown = list(ConversationWindow((), so_far, truncation))
            notes = [message for message in shown if NOTE in message.text]
            if not truncation.start:
                assert (notes, shown) == ([], so_far)
            else:
                assert len(notes) == 1
                assert f" {count_left_out(so_far, truncation)} older message" in notes[0].text
                assert len(shown) == 1 + len(so_far) - count_left_out(so_far, truncation)

    @LAW
    @given(*CASES)
    def test_a_truncation_is_the_least_that_fits(
        self, messages: list[Message], budget: int, keep: float
    ) -> None:
        meter, target = ContextMeter(), int(budget * keep)
        if (
            meter.estimate_tokens(messages, PLAIN) <= budget
            or (truncation := meter.find_truncation(messages, PLAIN, 0, target)) is None
        ):
            return
        size = size_of_window(messages, truncation)
        least = size_of_window(
            messages, ContextMeter(truncation).find_truncation(messages, PLAIN, 0, 0) or truncation
        )
        assert size <= target or size == least, "more could be left out"
        smaller = [index for index in range(1, truncation.start) if messages[index].role == "user"]
        assert all(size_of_window(messages, Truncation(index)) > target for index in smaller), (
            "less would have been enough"
        )

    @LAW
    @given(histories(), st.integers(0, 3_000), st.integers(0, 500))
    def test_what_is_estimated_is_what_is_shown(
        self, messages: list[Message], budget: int, fixed: int
    ) -> None:
        for so_far, truncation in grown(messages, max(1, budget), fixed=fixed):
            head = truncation.leading_messages(so_far)[:1]
            exact = sum(map(estimate_message, ConversationWindow((), so_far, truncation))) + fixed
            assert (
                abs(ContextMeter(truncation).estimate_tokens(so_far, PLAIN, fixed) - exact)
                <= 40 + sum(map(estimate_message, head)) // 4
            )

    @pytest.mark.untraced
    @settings(max_examples=12)
    @given(*CASES)
    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_every_provider_takes_what_is_left(
        self, provider: str, messages: list[Message], budget: int, keep: float
    ) -> None:
        cuts = {
            truncation.start: (so_far, truncation) for so_far, truncation in grown(messages, budget, keep)
        }
        for so_far, truncation in cuts.values():
            check_accepted(provider, ConversationWindow((), so_far, truncation))

    @pytest.mark.untraced
    @settings(max_examples=15)
    @given(*CASES)
    @pytest.mark.parametrize("provider", PROVIDERS)
    def test_the_bytes_stay_a_prefix_between_truncations(
        self, provider: str, messages: list[Message], budget: int, keep: float
    ) -> None:
        """One growing conversation, one view for each cut, as the loop has them."""
        profile, growing = resolve_profile(provider, MODELS[provider]), Conversation()
        encoder, view, last = PrefixEncoder(profile), ConversationWindow((), growing, Truncation()), b""
        for so_far, truncation in grown(messages, budget, keep):
            growing.append(*so_far[len(growing) :])
            if truncation != view.truncation:
                view, last = ConversationWindow((), growing, truncation), b""
            encoded = encoder.encode(Request(profile.model, view, options=Options(max_tokens=1000)))
            assert encoded.body.startswith(last)
            last = encoded.body[: encoded.prefix_length]
            alone = PrefixEncoder(profile).encode(
                Request(profile.model, list(view), options=Options(max_tokens=1000))
            )
            assert encoded.body == alone.body, "what is shown does not depend on what was shown before"


def size_of_window(messages: Sequence[Message], truncation: Truncation) -> int:
    """Tokens of what is shown, without what is said about the rest."""
    return sum(
        estimate_message(message)
        for message in ConversationWindow((), messages, truncation)
        if NOTE not in message.text
    )


class TestWhereItIsCut:
    def test_whole_turns_first(self) -> None:
        messages = talk(10)
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 350)
        assert truncation is not None
        assert messages[truncation.start].role == "user"
        assert truncation.prompt is None

    def test_a_long_loop_is_truncated_inside_and_keeps_its_prompt(self) -> None:
        messages = [*talk(3)[:-1], *loop(10)]
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 400)
        assert truncation is not None
        assert truncation.prompt == 6
        assert messages[truncation.start].calls
        note, prompt, first = list(ConversationWindow((), messages, truncation))[:3]
        assert (note.role, prompt.text, first.role) == ("user", "begin", "assistant")
        assert f" {truncation.start - 1} older messages" in note.text

    @pytest.mark.parametrize("messages", [
        [], [user("x" * 9_000)], [user("x" * 9_000), *step(0)], [user("x"), *step(0, size=9_000)], [assistant("x" * 9_000)],
        [user("x"), assistant([ToolCall("a", "get", {})])],
    ], ids=["nothing", "one prompt", "one step", "one long step", "only an answer", "calls that wait"])  # fmt: skip
    def test_if_nothing_can_be_left_out_there_is_no_truncation(self, messages: list[Message]) -> None:
        assert ContextMeter().find_truncation(messages, PLAIN, 0, 1) is None

    def test_a_truncation_before_the_last_prompt_is_not_followed_by_one_that_leaves_out_nothing(self) -> None:
        messages = [user("old"), assistant("answer"), user("x" * 9_000), *step(0)]
        meter = ContextMeter(Truncation(2))
        assert meter.find_truncation(messages, PLAIN, 0, 1) is None

    def test_calls_that_wait_for_their_results_are_not_parted_from_what_made_them(self) -> None:
        messages = [*loop(3), assistant([ToolCall("a", "get", {}), ToolCall("b", "get", {})])]
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 1)
        assert truncation is not None
        assert truncation.start < len(messages) - 1
        shown = list(ConversationWindow((), messages, truncation))
        assert find_unpaired(shown[:-1]) == []

    def test_half_of_the_results_are_not_enough(self) -> None:
        calls = [ToolCall("a", "get", {}), ToolCall("b", "get", {})]
        messages = [user("go"), *step(0), assistant(calls), tool_results(ToolResult("a", (Text("one"),)))]
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 1)
        assert truncation is None or truncation.start < 3

    @pytest.mark.parametrize(
        "first", [assistant([ToolCall("a", "get", {})]), system("rule")], ids=["a call", "a rule"]
    )
    def test_a_conversation_without_a_user_has_no_prompt_to_keep(self, first: Message) -> None:
        """What stands first is not taken for a prompt: a call would stand there without its result."""
        messages = [first, tool_results(ToolResult("a", (Text("x"),), "get")), *step(1), *step(2)]
        messages = messages if first.calls else [first, *messages[2:]]
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 1)
        assert truncation is not None
        assert truncation.prompt is None
        assert find_unpaired(ConversationWindow((), messages, truncation)) == []

    def test_two_answers_in_a_row_are_not_parted(self) -> None:
        messages = [user("go"), assistant("thinking about it"), *step(0), user("x")]
        assert ContextMeter().find_truncation(messages[:-1], PLAIN, 0, 1) is None

    def test_the_fixed_part_counts(self) -> None:
        messages = talk(10)
        less, larger = (ContextMeter().find_truncation(messages, PLAIN, fixed, 600) for fixed in (0, 300))
        assert less is not None
        assert larger is not None
        assert larger.start > less.start

    def test_instructions_of_the_conversation_are_not_left_out(self) -> None:
        """What a system message says holds for as long as the conversation."""
        messages = [system("Answer in French."), *talk(10)]
        truncation = ContextMeter().find_truncation(messages, PLAIN, 0, 300)
        assert truncation is not None
        assert any(message.role == "system" for message in ConversationWindow((), messages, truncation))


class TestWeighing:
    def test_a_message_is_estimated_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        weighed: list[Message] = []

        def weigh(message: Message) -> int:
            weighed.append(message)
            return estimate_message(message)

        monkeypatch.setattr(context, "estimate_message", weigh)
        meter, messages = ContextMeter(), list[Message]()
        for number in range(40):
            messages += step(number)
            meter.estimate_tokens(messages, PLAIN)
            if (
                number % 10 == 9
                and (truncation := meter.find_truncation(messages, PLAIN, 0, 500)) is not None
            ):
                meter.truncation = truncation
            meter.estimate_tokens(messages, PLAIN)
        assert len(weighed) == len(messages)

    def test_a_restored_truncation_is_estimated_like_the_first(self) -> None:
        messages = loop(10)
        first = ContextMeter()
        first.estimate_tokens(messages, PLAIN)
        first.truncation = truncation = Truncation(7, 0, "what happened")
        assert ContextMeter(truncation).estimate_tokens(messages, PLAIN) == first.estimate_tokens(
            messages, PLAIN
        )
        assert ContextMeter(Truncation(7, 0)).estimate_tokens(messages, PLAIN) < first.estimate_tokens(
            messages, PLAIN
        )

    def test_vendors_count_differently(self) -> None:
        messages = talk(4)
        assert ContextMeter().estimate_tokens(messages, profile_of(model="claude-x")) == int(
            ContextMeter().estimate_tokens(messages, PLAIN) * 1.2
        )

    @pytest.mark.parametrize(("estimated", "counted", "factor"), [
        (1_000, 1_500, 1.5),
        (1_000, 500, 0.5),
        (1_000, 1, 0.4),
        (1_000, 10**9, 3.0),
        (199, 400, 1.0),
        (200, 400, 2.0),
        (1_000, 0, 1.0),
        (0, 1_000, 1.0),
        (1_000, -5, 1.0),
    ])  # fmt: skip
    def test_a_real_count_corrects_the_estimate_within_reason(
        self, estimated: int, counted: int, factor: float
    ) -> None:
        meter, messages = ContextMeter(), talk(20)
        before = meter.estimate_tokens(messages, PLAIN)
        meter.calibrate(PLAIN, estimated, counted)
        assert meter.estimate_tokens(messages, PLAIN) == int(before * factor)
        assert meter.estimate_tokens(messages, profile_of(model="another")) == before, "of one model only"

    def test_learning_settles(self) -> None:
        """A provider that always counts 1.7 times as much is believed after the first count, and nothing
        swings.
        """
        meter, messages, seen = ContextMeter(), talk(20), list[int]()
        truth = int(meter.estimate_tokens(messages, PLAIN) * 1.7)
        for _ in range(5):
            meter.calibrate(PLAIN, meter.estimate_tokens(messages, PLAIN), truth)
            seen.append(meter.estimate_tokens(messages, PLAIN))
        assert all(abs(tokens - truth) <= 2 for tokens in seen)

    def test_a_truncation_reckons_with_what_was_learnt(self) -> None:
        messages, plain, learnt = talk(20), ContextMeter(), ContextMeter()
        learnt.calibrate(PLAIN, 1_000, 2_000)
        uncalibrated, other = (
            plain.find_truncation(messages, PLAIN, 0, 1_000),
            learnt.find_truncation(messages, PLAIN, 0, 1_000),
        )
        assert uncalibrated is not None
        assert other is not None
        assert other.start > uncalibrated.start

    def test_the_parts_are_those_of_what_is_shown(self) -> None:
        messages = [
            user(["look", Media("image", data="AA")]),
            assistant([Thinking("t" * 400), Text("a" * 400), ToolCall("c", "get", {})]),
            tool_results(ToolResult("c", (Text("r" * 400),), "get")),
            user("now"),
        ]
        parts = ContextMeter().tokens_by_part(messages, PLAIN)
        assert set(parts) == {"prompts", "media", "thinking", "answers", "tool calls", "tool results"}
        assert sum(parts.values()) == sum(map(estimate_message, messages))
        assert set(ContextMeter(Truncation(3)).tokens_by_part(messages, PLAIN)) == {"prompts"}


class TestBudget:
    @pytest.mark.parametrize(("window", "own_budget", "max_tokens", "budget"), [
        (None, None, None, None),
        (None, 500, None, 500),
        (100_000, None, None, 95_000 - 8_192),
        (100_000, None, 1_000, 94_000),
        (100_000, None, 90_000, 95_000 - 25_000),
        (100_000, 500, None, 500),
        (100_000, 10**6, None, 95_000 - 8_192),
        (8_192, None, None, 7_782 - 2_048),
        (4, None, None, 2),
    ])  # fmt: skip
    def test_is_what_the_model_takes_less_room_for_the_answer(
        self, window: int | None, own_budget: int | None, max_tokens: int | None, budget: int | None
    ) -> None:
        assert (
            ContextMeter().token_budget(profile_of(window), ContextPolicy(budget=own_budget), max_tokens)
            == budget
        )

    @pytest.mark.parametrize(("window", "default", "max_tokens", "room"), [
        (None, None, None, 8_192),
        (None, None, 100, 100),
        (None, 4_096, None, 4_096),
        (None, 10**6, None, 8_192),
        (1_000, None, None, 250),
        (200_000, 16_384, 500, 500),
    ])  # fmt: skip
    def test_the_room_for_an_answer(
        self, window: int | None, default: int | None, max_tokens: int | None, room: int
    ) -> None:
        assert answer_tokens(profile_of(window, default=default), max_tokens) == room

    def test_a_refusal_sets_a_ceiling_for_that_model(self) -> None:
        meter, policy = ContextMeter(), ContextPolicy()
        meter.record_rejection(PLAIN, 1_000, 0)
        assert meter.token_budget(PLAIN, policy, None) == 750
        assert meter.token_budget(profile_of(model="another"), policy, None) is None
        meter.record_rejection(PLAIN, 1_000, 500)
        assert meter.token_budget(PLAIN, policy, None) == 1_000, "twice what cannot be left out"
        meter.record_rejection(PLAIN, 0, 0)
        assert meter.token_budget(PLAIN, policy, None) == 1

    @pytest.mark.parametrize("keep", [0, 1, -0.5, 1.5, float("nan"), float("inf")])
    def test_the_part_that_is_kept_is_a_part(self, keep: float) -> None:
        with pytest.raises(UsageError, match="keep"):
            ContextPolicy(keep=keep)

    @pytest.mark.parametrize("budget", [0, -1])
    def test_a_budget_is_at_least_a_token(self, budget: int) -> None:
        with pytest.raises(UsageError, match="budget"):
            ContextPolicy(budget=budget)


# ---- the view


@st.composite
def views(draw: st.DrawFn) -> tuple[ConversationWindow, list[Message]]:
    """A view and the list that it stands for."""
    messages = [user(str(number)) for number in range(draw(st.integers(0, 9)))]
    preface = tuple(system(str(number)) for number in range(draw(st.integers(0, 2))))
    start = draw(st.integers(0, len(messages)))
    prompt = draw(st.one_of(st.none(), st.integers(0, start - 1))) if start else None
    truncation = Truncation(start, prompt, draw(st.sampled_from(["", "a summary"])))
    return ConversationWindow(preface, messages, truncation), [
        *preface,
        *truncation.leading_messages(messages),
        *messages[start:],
    ]


PLACES = st.integers(-25, 25)


class TestView:
    @LAW
    @given(views())
    def test_is_the_list_that_it_stands_for(self, case: tuple[ConversationWindow, list[Message]]) -> None:
        view, expected = case
        assert len(view) == len(expected)
        assert list(view) == expected
        assert list(reversed(view)) == expected[::-1]
        assert bool(view) == bool(expected)

    @LAW
    @given(views(), PLACES)
    def test_has_the_same_in_every_place(
        self, case: tuple[ConversationWindow, list[Message]], index: int
    ) -> None:
        view, expected = case
        if -len(expected) <= index < len(expected):
            assert view[index] == expected[index]
        else:
            with pytest.raises(IndexError):
                view[index]

    @LAW
    @given(views(), st.slices(30))
    def test_has_the_same_slices(self, case: tuple[ConversationWindow, list[Message]], part: slice) -> None:
        view, expected = case
        assert view[part] == expected[part]

    @LAW
    @given(views(), st.one_of(st.none(), PLACES), st.one_of(st.none(), PLACES))
    def test_has_the_same_slices_from_and_to(
        self, case: tuple[ConversationWindow, list[Message]], start: int, stop: int
    ) -> None:
        view, expected = case
        assert view[start:stop] == expected[start:stop]

    @LAW
    @given(views())
    def test_contains_and_finds_the_same(self, case: tuple[ConversationWindow, list[Message]]) -> None:
        view, expected = case
        for message in expected:
            assert message in view
            assert view.index(message) == expected.index(message)
        assert user("never said") not in view

    def test_grows_with_the_conversation_and_does_not_copy_it(self) -> None:
        growing = Conversation(talk(3))
        view = ConversationWindow((system("s"),), growing, Truncation(2, None, "summary"))
        before = len(view)
        growing.append(assistant("new"))
        assert (len(view), view[-1].text) == (before + 1, "new")
        assert view[2] is growing[2]

    def test_without_a_truncation_nothing_is_said(self) -> None:
        assert Truncation().leading_messages(talk(1)) == ()
        assert Truncation(0, None, "a summary").leading_messages(talk(1)) == ()

    @pytest.mark.parametrize(("truncation", "expected"), [
        (Truncation(3), "[The 3 older messages of this conversation are no longer shown.]"),
        (Truncation(3, 2), "[The 2 older messages of this conversation are no longer shown.]"),
        (Truncation(3, None, "They met."),
            "[Summary of the conversation so far; its 3 older messages are no longer shown.]\nThey met."),
    ])  # fmt: skip
    def test_the_head_says_what_is_missing(self, truncation: Truncation, expected: str) -> None:
        messages = talk(3)
        head = truncation.leading_messages(messages)
        assert head[0] == user(expected)
        assert head[1:] == (() if truncation.prompt is None else (messages[2],))


class TestTranscript:
    def test_reads_like_the_conversation(self) -> None:
        messages = [
            user("What is in a.txt?"),
            assistant([Thinking("hm"), Text("Let me see."), ToolCall("c", "read", {"path": "a.txt"})]),
            tool_results(ToolResult("c", (Text("hello"),), "read"), ToolResult("d", (Text("bye"),))),
        ]
        assert render_transcript(messages, "", 10_000) == (
            "user: What is in a.txt?\n\n"
            'assistant: Let me see.\ncalls read {"path":"a.txt"}\n\n'
            "tool: read returned: hello\ntool returned: bye"
        )

    def test_begins_with_what_was_summarized_before(self) -> None:
        assert render_transcript([user("more")], "They met.", 1_000).startswith(
            "(before that) They met.\n\nuser: more"
        )
        assert render_transcript([], "", 1_000) == ""

    @LAW
    @given(
        st.lists(st.text(max_size=500).map(user), max_size=8), st.text(max_size=300), st.integers(20, 4_000)
    )
    def test_is_never_longer_than_asked_for(self, messages: list[Message], summary: str, limit: int) -> None:
        assert len(render_transcript(messages, summary, limit)) <= limit

    def test_long_parts_are_truncated_in_the_middle_and_short_ones_are_whole(self) -> None:
        text = render_transcript([user("BEGIN" + "x" * 9_000 + "END"), user("short")], "", 2_000)
        assert "BEGIN" in text
        assert "END\n\nuser: short" in text
        assert "[… omitted …]" in text


def test_the_text_of_tokens_is_measured_like_the_rest() -> None:
    """A summary counts as what it is."""
    summary = "s" * 4_000
    assert ContextMeter(Truncation(2, None, summary)).estimate_tokens(talk(3), PLAIN) - ContextMeter(
        Truncation(2)
    ).estimate_tokens(talk(3), PLAIN) == estimate_text(summary)


def test_a_truncation_is_plain_data() -> None:
    everything: Any = Truncation(3, 1, "s")
    assert (everything.start, everything.prompt, everything.summary) == (3, 1, "s")
