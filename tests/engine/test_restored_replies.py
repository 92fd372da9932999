"""What the engine needs of the wires: shared heads, calls in terms of the tools as defined, and the text so
far.
"""

from collections.abc import Callable
from typing import Any

import pytest
from scripted_transport import WEATHER, stream_request, text_request

from toolglot.common.jsontext import dumps, loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.simulator.core import Script, Simulator
from toolglot.values.events import (
    BlockReady,
    Event,
    ReplyDone,
    ReplyStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.values.messages import (
    Message,
    Origin,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire import prefix
from toolglot.wire.codec import create_reader, encode_request
from toolglot.wire.prefix import EncodedBody, HeadCache, PrefixEncoder
from toolglot.wire.restore_calls import restore_events, restore_reply
from toolglot.wire.tracker import ToolCallTracker

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
wires = pytest.mark.parametrize("provider", WIRES)

# ---- calls in terms of the tools as defined

ADD = ToolDefinition(
    "math.add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
)
SQL = ToolDefinition("run sql", "Runs SQL.", kind="freeform")
_PROPERTIES = {"a": {"type": "string"}, "b": {"type": "string"}}
_STRICT = {"type": "object", "properties": _PROPERTIES, "required": ["a"], "additionalProperties": False}
MAYBE = ToolDefinition("maybe", "Strict.", _STRICT, strict=True)
LONG = ToolDefinition("x" * 200, "A long name.", {"type": "object", "properties": {}})
CRM = ToolDefinition(
    "find", "Finds.", {"type": "object", "properties": {"q": {"type": "string"}}}, namespace="crm"
)
OFFERED = {"dotted": ADD, "freeform": SQL, "strict": MAYBE, "long": LONG, "namespace": CRM, "plain": WEATHER}


ARGUMENTS: dict[str, Any] = {
    "math.add": {"a": 1},
    "run sql": {"input": "select 1"},
    "maybe": {"a": "x"},
    "find": {"q": "y"},
    "get_weather": {"city": "Rome"},
}


def call_first_tool(request: Request) -> Reply:
    """A model that calls its first tool, under the name that it was sent."""
    tool = request.tools[0]
    if tool.kind == "freeform":
        return Reply((ToolCall("", tool.name, None, "select 1", freeform=True),), "tools")
    known = next(known for known in OFFERED.values() if known.description == tool.description)
    arguments = ARGUMENTS.get(known.name, {})
    call = ToolCall("", tool.name, arguments, dumps(arguments).decode(), namespace=tool.namespace)
    return Reply((Text("So: "), call), "tools")


def engine(provider: str, *turns: Callable[[Request], Reply]) -> Engine:
    return create_engine(f"simulator:{provider}", transport=SimulatedTransport(Simulator(Script(turns))))


async def events_of(player: Engine, request: Request) -> list[Any]:
    return [event async for batch in player.new_state().stream_batches(request) for event in batch]


@wires
@pytest.mark.parametrize("case", OFFERED)
async def test_calls_name_the_tool_as_defined(case: str, provider: str) -> None:
    tool = OFFERED[case]
    events = await events_of(engine(provider, call_first_tool), stream_request(tools=(tool,)))
    (started,) = [event for event in events if isinstance(event, ToolCallStarted)]
    (ready,) = [event for event in events if isinstance(event, ToolCallReady)]
    done = events[-1]
    assert isinstance(done, ReplyDone)
    assert done.reply.calls == (ready.call,)
    assert (started.name, started.namespace, started.freeform) == (tool.name, tool.namespace, tool is SQL)
    (call,) = (await engine(provider, call_first_tool).ask(text_request(tools=(tool,)))).reply.calls
    for each in (call, ready.call):
        assert (each.name, each.namespace, each.freeform) == (tool.name, tool.namespace, tool is SQL)
        assert each.arguments == (None if tool is SQL else ARGUMENTS.get(tool.name, {}))
        assert tool is not SQL or each.raw == "select 1"


@wires
@pytest.mark.parametrize("case", OFFERED)
async def test_the_result_of_such_a_call_is_accepted(case: str, provider: str) -> None:
    """The history has the names as defined; the provider gets its own back."""
    player = engine(provider, call_first_tool)
    session, tool = player.new_state(), OFFERED[case]
    talk = [user("Hi")]
    answered = await session.ask(text_request(messages=talk, tools=(tool,)))
    (call,) = answered.reply.calls
    talk = [*talk, answered.reply.message, tool_results(ToolResult(call.id, (Text("3"),), call.name))]
    assert (
        await session.ask(text_request(messages=talk, tools=(tool,), tool_choice=ToolChoice("none")))
    ).reply.text


def encode_tools(*tools: ToolDefinition, provider: str = "openai-chat") -> EncodedBody:
    return PrefixEncoder(resolve_profile(provider, "m")).encode(Request("m", [user("Hi")], tools))


def test_most_requests_need_no_restoring() -> None:
    assert not encode_tools(WEATHER).changes_calls
    assert not encode_tools().changes_calls
    assert encode_tools(ADD).changes_calls
    assert encode_tools(SQL, provider="groq").changes_calls


def test_what_is_not_a_call_stays_the_same_object() -> None:
    body = encode_tools(ADD)
    events: list[Event] = [
        ReplyStarted("r", "m"),
        TextDelta(0, "x"),
        ToolCallDelta(1, "{}"),
        BlockReady(0, Text("x")),
    ]
    assert all(event is other for event, other in zip(restore_events(events, body), events, strict=True))
    reply = Reply((Text("x"), ToolCall("c", "never_offered", {"a": 1})))
    assert restore_reply(reply, body) is reply
    assert restore_events([], body) == []


def test_a_tool_that_was_not_offered_keeps_its_name() -> None:
    body = encode_tools(ADD)
    call = ToolCall("c", "math-add-2", {"a": 1})
    events: list[Event] = [ToolCallStarted(0, "c", "math-add-2"), ToolCallReady(0, call)]
    assert restore_events(events, body) == events


def test_two_tools_that_would_get_one_name_are_told_apart() -> None:
    dot, slash = (ToolDefinition(name, "", {"type": "object", "properties": {}}) for name in ("a.b", "a/b"))
    body = encode_tools(dot, slash)
    names = [tool["function"]["name"] for tool in loads_object(body.body)["tools"]]
    assert len({*names}) == 2
    events = restore_events([ToolCallStarted(index, "c", name) for index, name in enumerate(names)], body)
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["a.b", "a/b"]


# ---- the text so far


@wires
@pytest.mark.parametrize(
    "words", ["say One two three.", 'think Hm.\nsay One two three.\ncall get_weather {"city": "Rome"}']
)
async def test_partial_text_is_what_was_shown(words: str, provider: str) -> None:
    session = create_engine(f"simulator:{provider}").new_state()
    shown = ""
    async for batch in session.stream_batches(stream_request(words, tools=(WEATHER,))):
        shown += "".join(event.text for event in batch if isinstance(event, TextDelta))
        assert session.partial_text.startswith(shown)
    assert session.result is not None
    assert session.partial_text == shown == session.result.reply.text == "One two three."


@wires
async def test_partial_text_is_only_visible_text(provider: str) -> None:
    session = create_engine(f"simulator:{provider}").new_state()
    prompt = 'think Secret thoughts.\ncall get_weather {"city": "Rome"}'
    async for _ in session.stream_batches(stream_request(prompt, tools=(WEATHER,))):
        pass
    assert session.partial_text == ""


def test_visible_text_of_a_tracker() -> None:
    tracker = ToolCallTracker(Origin("openai-responses"))
    assert tracker.visible_text == ""
    tracker.add_text(0, "One ")
    tracker.add_thinking(1, "hm")
    tracker.add_text(2, "two")
    tracker.add_text(0, "and ")
    tracker.update_call(3, "c", "f", '{"a": 1}')
    assert tracker.visible_text == "One and two"
    tracker.close(0)
    assert tracker.visible_text == "One and two"


@pytest.mark.parametrize(("block", "text"), [(Text("All at once."), "All at once."), (Thinking("hm"), "")])
def test_visible_text_of_a_block_received_whole(block: Text | Thinking, text: str) -> None:
    tracker = ToolCallTracker(Origin("openai-responses"))
    tracker.set_block(0, block)
    assert "".join(event.text for event in tracker.drain() if isinstance(event, TextDelta)) == text
    assert tracker.visible_text == text


def test_visible_text_of_a_responses_item_without_pieces() -> None:
    reader = create_reader("openai-responses")
    content: list[Any] = [{"type": "output_text", "text": "At once.", "annotations": []}]
    item: dict[str, Any] = {"type": "message", "id": "i", "role": "assistant", "content": content}
    data = dumps({"type": "response.output_item.done", "output_index": 0, "item": item})
    events = reader.feed(b"event: response.output_item.done\ndata: " + data + b"\n\n")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "At once."
    assert reader.visible_text == "At once."


# ---- heads


def same(encoder: PrefixEncoder, request: Request, provider: str) -> None:
    encoded, full = encoder.encode(request), encode_request(request, resolve_profile(provider, "m"))
    assert encoded.body == dumps(full.body)
    assert (encoded.names, encoded.losses, encoded.freeform) == (full.names, full.losses, full.freeform)


@pytest.mark.parametrize("provider", PROFILES)
def test_conversations_that_start_alike_share_a_head(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heads, profile, seen = HeadCache(), resolve_profile(provider, "m"), list[Any]()
    real: Any = vars(prefix)["reserve_names"]

    def counting(tools: Any, writer: Any) -> Any:
        seen.append(tools)
        return real(tools, writer)

    monkeypatch.setattr(prefix, "reserve_names", counting)
    for number in range(5):
        request = Request(
            "m",
            [system("Be kind."), user(f"Hi {number}"), assistant("so"), user("more")],
            (ADD, WEATHER, SQL),
        )
        before = len(seen)
        PrefixEncoder(profile, heads).encode(request)
        assert len(seen) - before == (number == 0)
        same(PrefixEncoder(profile, heads), request, provider)


THOUGHT = Message("assistant", (Thinking("hm"), Text("x")), Origin("anthropic-messages", "anthropic", "m"))
CHANGES: dict[str, dict[str, Any]] = {
    "tools": {"tools": (ADD,)},
    "order of tools": {"tools": (WEATHER, ADD)},
    "choice": {"tool_choice": ToolChoice("required")},
    "options": {"options": Options(max_tokens=3)},
    "system": {"messages": [system("Be rude."), user("Hi")]},
    "no system": {"messages": [user("Hi")]},
    "two systems": {"messages": [system("Be kind."), system("And brief."), user("Hi")]},
    "extras": {"extras": {"openai-chat": {"user": "u"}, "anthropic-messages": {"container": "c"}}},
    "stream": {"stream": True},
    "parallel": {"parallel": False},
    "thinking history": {"messages": [system("Be kind."), user("Hi"), THOUGHT, user("y")]},
}


@wires
@pytest.mark.parametrize("change", CHANGES)
def test_a_head_is_not_taken_for_another(change: str, provider: str) -> None:
    heads, profile = HeadCache(), resolve_profile(provider, "m")
    base: dict[str, Any] = {"messages": [system("Be kind."), user("Hi")], "tools": (ADD, WEATHER)}
    before, other = Request("m", **base), Request("m", **{**base, **CHANGES[change]})
    first, second = PrefixEncoder(profile, heads), PrefixEncoder(profile, heads)
    for _ in range(3):
        same(first, before, provider)
        same(second, other, provider)
        same(PrefixEncoder(profile, heads), before, provider)


def test_names_of_one_history_do_not_reach_another() -> None:
    """Calls of tools that are no longer offered claim names too: only in their own conversation."""
    heads, profile = HeadCache(), resolve_profile("openai-chat", "m")
    for name in ("old.tool", "old/tool", "old tool", "old_tool"):
        result = tool_results(ToolResult("c", (Text("r"),), name))
        history = [user("Hi"), assistant(ToolCall("c", name, {})), result, user("more")]
        same(PrefixEncoder(profile, heads), Request("m", history, (ADD,)), "openai-chat")


def test_losses_of_one_conversation_do_not_reach_another() -> None:
    heads, profile = HeadCache(), resolve_profile("openai-chat", "m")
    first = PrefixEncoder(profile, heads).encode(Request("m", [user("Hi"), THOUGHT, user("y")], (WEATHER,)))
    second = PrefixEncoder(profile, heads).encode(Request("m", [user("Hi")], (WEATHER,)))
    assert [loss.subject for loss in first.losses] == ["thinking"]
    assert second.losses == ()


def test_a_loop_that_began_without_thinking_does_not_switch_it_off_for_others() -> None:
    """On Anthropic's wire the head depends on the history: thinking is left out in the middle of such a loop
    only.
    """
    heads, profile = HeadCache(), resolve_profile("anthropic", "m")
    loop = [
        user("Hi"),
        assistant(ToolCall("c", "get_weather", {})),
        tool_results(ToolResult("c", (Text("r"),), "get_weather")),
    ]
    options = Options(max_tokens=4000, thinking_budget=2000)
    bodies = set[bool]()
    for messages in ([user("Hi")], loop, [user("Hi")], loop):
        request = Request("m", messages, (WEATHER,), options=options)
        same(PrefixEncoder(profile, heads), request, "anthropic")
        bodies.add(b'"thinking":{' in PrefixEncoder(profile, heads).encode(request).body)
    assert bodies == {True, False}
