"""Append-only encoding: equal to full encoding at every step, and what was closed stays a byte prefix."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.common.jsontext import dumps
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Conversation,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    system,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire import prefix
from toolglot.wire.codec import encode_messages, encode_request
from toolglot.wire.prefix import EncodedBody, HeadCache, PrefixEncoder
from toolglot.wire.writer import Writer

GET = ToolDefinition("get", "Gets.", {"type": "object", "properties": {"x": {"type": "string"}}})
CALLS = [ToolCall("c1", "get", {"x": "1"}), ToolCall("c2", "a.b", {"x": "2"})]
RESULTS = [ToolResult("c1", (Text("one"),), "get"), ToolResult("c2", (Text("two"),), "a.b")]
HISTORY = [
    system("Be kind."),
    user("hi"),
    assistant(["So:", *CALLS]),
    tool(*RESULTS),
    assistant("Done."),
    user("more"),
    assistant(CALLS[0]),
    tool(RESULTS[0]),
]


def steps(
    request: Request, profile: Profile, messages: Sequence[Message], start: int = 1
) -> Iterator[tuple[EncodedBody, bytes]]:
    """Every step of a growing conversation: what the encoder gives, and the full encoding."""
    conversation, encoder = Conversation(messages[:start]), PrefixEncoder(profile)
    for number in range(start, len(messages) + 1):
        conversation.append(*messages[len(conversation) : number])
        step = encoder.encode(replace(request, messages=conversation))
        yield step, dumps(encode_request(replace(request, messages=messages[:number]), profile).body)


@pytest.mark.parametrize("provider", PROFILES)
def test_every_step_equals_full_encoding_and_keeps_what_was_closed(provider: str) -> None:
    profile = resolve_profile(provider, "some-model")
    request = Request("some-model", [], (GET,), ToolChoice("required"), options=Options(max_tokens=100))
    sent, closed, sizes = b"", 0, list[int]()
    for step, full in steps(request, profile, HISTORY):
        assert step.body == full
        assert step.body.startswith(sent[:closed])
        sent, closed = step.body, step.prefix_length
        sizes.append(closed)
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[-3] > sizes[3] > sizes[1]
    assert sizes[2] == sizes[1]  # a call without its result is not closed


def test_body_is_closed_up_to_the_last_answered_call() -> None:
    (step, _) = list(steps(Request("m", []), resolve_profile("openai-chat"), HISTORY[1:3]))[-1]
    assert step.body[: step.prefix_length] == b'{"model":"m","messages":[{"role":"user","content":"hi"}'


def test_empty_conversation() -> None:
    step = PrefixEncoder(resolve_profile("openai-chat")).encode(Request("m", Conversation()))
    assert step.body == b'{"model":"m","messages":[{"role":"user","content":"(start of the conversation)"}]}'
    assert step.prefix_length <= len(b'{"model":"m","messages":[')


def test_losses_repairs_and_names_are_those_of_the_whole_request() -> None:
    thought = Message("assistant", (Thinking("hm"), CALLS[1]), Origin("anthropic-messages"))
    messages = [user("hi"), thought, tool(RESULTS[1]), user("x"), assistant(CALLS[0])]
    *_, (step, _) = steps(Request("m", [], (GET,)), resolve_profile("openai-chat"), messages)
    full = encode_request(Request("m", messages, (GET,)), resolve_profile("openai-chat"))
    assert (step.losses, step.names, step.lowerings) == (full.losses, full.names, full.lowerings)
    assert sorted(map(str, step.repairs)) == sorted(map(str, full.repairs))
    assert [loss.subject for loss in full.losses] == ["thinking"]


def test_closed_turns_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of a step is what is new in it, however long the conversation is."""
    real, seen = encode_messages, list[int]()

    def counting(history: Sequence[Message], *arguments: Any) -> Any:
        seen.append(len(history))
        return real(history, *arguments)

    monkeypatch.setattr(prefix, "encode_messages", counting)
    rounds = 20
    repeated = [message for _ in range(rounds) for message in HISTORY[1:5]]
    list(steps(Request("m", []), resolve_profile("openai-chat"), repeated))
    assert sum(seen) <= 3 * len(repeated)


def test_a_change_of_the_tools_at_the_beginning_of_a_turn_keeps_what_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is an item of the history, not a part of the head, also once its turn is closed."""
    starts: list[int] = []
    real = PrefixEncoder._start_prefix  # pyright: ignore[reportPrivateUsage]

    def counting(encoder: PrefixEncoder, request: Request) -> None:
        starts.append(len(request.messages))
        real(encoder, request)

    monkeypatch.setattr(PrefixEncoder, "_start_prefix", counting)
    profile = resolve_profile("openai-responses", "gpt-5.6")
    change = system([ToolsChanged((replace(GET, name="late"),))])
    messages = [*HISTORY[1:4], change, *HISTORY[5:], user("and now")]
    for step, full in steps(Request("gpt-5.6", [], (GET,)), profile, messages):
        assert step.body == full
    assert starts == [1, 4], "the first change says that there may be others"


@pytest.mark.parametrize("change", [
    {"tools": (GET, replace(GET, name="put"))}, {"model": "other"}, {"options": Options(max_tokens=7)},
    {"tool_choice": ToolChoice("none")}, {"extras": {"openai": {"user": "u"}}},
], ids=lambda change: next(iter(change)))  # fmt: skip
def test_change_of_the_request_starts_a_new_prefix(change: dict[str, Any]) -> None:
    profile, messages = resolve_profile("openai-chat"), Conversation(HISTORY[1:])
    encoder, request = PrefixEncoder(profile), Request("m", messages, (GET,))
    encoder.encode(request)
    changed = replace(request, **change)
    assert encoder.encode(changed).body == dumps(encode_request(changed, profile).body)
    assert encoder.encode(request).body == dumps(encode_request(request, profile).body)


def test_another_list_of_the_same_messages_keeps_the_prefix() -> None:
    profile = resolve_profile("openai-chat")
    encoder = PrefixEncoder(profile)
    first = encoder.encode(Request("m", HISTORY[:5]))
    second = encoder.encode(Request("m", [*HISTORY[:5], HISTORY[5]]))
    assert second.body.startswith(first.body[: first.prefix_length])
    assert second.body == dumps(encode_request(Request("m", HISTORY[:6]), profile).body)


@pytest.mark.parametrize(
    "messages", [[system("Be rude."), *HISTORY[1:6]], HISTORY[:2], [*HISTORY[:3], tool(RESULTS[0])]]
)
def test_other_messages_start_anew(messages: list[Message]) -> None:
    profile = resolve_profile("openai-chat")
    encoder = PrefixEncoder(profile)
    encoder.encode(Request("m", HISTORY))
    assert encoder.encode(Request("m", messages)).body == dumps(
        encode_request(Request("m", messages), profile).body
    )


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai-responses", "openai-chat", "ollama"])
def test_instructions_that_come_one_by_one(provider: str) -> None:
    """More leading instructions belong to the head, even where the first ones were already encoded."""
    messages = [system("one"), system("two"), user("hi")]
    for step, full in steps(Request("m", []), resolve_profile(provider), messages):
        assert step.body == full


def test_model_of_the_request_counts_not_that_of_the_profile() -> None:
    """Thinking is bound to its model, also where the profile was resolved without one."""
    origin = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")
    messages = [
        user("hi"),
        Message("assistant", (Thinking("hm", {"signature": "s"}), Text("x")), origin),
        user("y"),
    ]
    for model, kept in (("claude-opus-4-1", False), ("claude-sonnet-4-5", True)):
        (*_, (step, full)) = steps(Request(model, []), resolve_profile("anthropic"), messages)
        assert (b'"signature"' in full) is kept
        assert step.body == full


def test_id_that_is_used_again_while_another_call_is_open() -> None:
    a, b = CALLS[0], ToolCall("b", "get", {})
    ra, rb = RESULTS[0], ToolResult("b", (Text("b"),))
    messages = [user("hi"), assistant([a, b]), tool(ra), assistant(a), tool(rb), tool(ra), user("x")]
    for step, full in steps(Request("m", []), resolve_profile("openai-chat"), messages):
        assert step.body == full


def test_a_result_before_its_call_does_not_close_it() -> None:
    """A turn is closed by the same rule everywhere: the result must come after the call."""
    early, late = ToolResult("c1", (Text("early"),)), ToolResult("c1", (Text("late"),))
    for step, full in steps(
        Request("m", []),
        resolve_profile("openai-chat"),
        [user("hi"), assistant([early, CALLS[0]]), tool(late)],
    ):
        assert step.body == full


def test_thinking_is_switched_off_where_the_loop_began_without_it() -> None:
    """Claude refuses extended thinking in a tool loop whose first turn has none: the head depends on the
    history.
    """
    profile = resolve_profile("anthropic", "claude-sonnet-4-5")
    request = Request("claude-sonnet-4-5", [], (GET,), options=Options(max_tokens=9000, thinking_budget=2000))
    seen: list[bool] = []
    for step, full in steps(
        request, profile, [user("hi"), assistant(CALLS[0]), tool(RESULTS[0]), assistant("x"), user("y")]
    ):
        assert step.body == full
        seen.append(b'"thinking"' in full)
    assert seen == [True, False, False, False, True]


def test_nothing_to_send_but_what_the_provider_holds() -> None:
    """A stored prompt needs no input: `input` is left out, as in full encoding."""
    request = Request(
        "gpt-5", Conversation(), extras={"openai-responses": {"previous_response_id": "resp_1"}}
    )
    profile = resolve_profile("openai-responses", "gpt-5")
    step = PrefixEncoder(profile).encode(request)
    assert (
        step.body
        == dumps(encode_request(request, profile).body)
        == b'{"model":"gpt-5","previous_response_id":"resp_1"}'
    )


def test_a_head_that_another_thread_replaces_meanwhile_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may be used in several threads: a conversation must never get the tools of another one."""
    profile, heads = resolve_profile("openai-chat", "m"), HeadCache()
    request, other = (
        Request("m", [user("hi")], tools=(replace(GET, name=name),)) for name in ("ours", "theirs")
    )
    expected = PrefixEncoder(profile).encode(request).body
    copy_writer = Writer.copy

    def copy_late(writer: Writer) -> Writer:
        monkeypatch.setattr(Writer, "copy", copy_writer)
        PrefixEncoder(profile, heads).encode(other)  # what another thread does between two reads of the cache
        return copy_writer(writer)

    monkeypatch.setattr(Writer, "copy", copy_late)
    encoded = PrefixEncoder(profile, heads).encode(request)
    assert encoded.body == expected
    assert set(encoded.names) == {"ours"}
