"""Laws between the wires: there and back again, handover, growing conversations, and shapes that nobody
promised.
"""

import copy
import re
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.simulator.client import pick_model

from toolglot.common.jsontext import dumps, loads
from toolglot.errors import ToolglotError
from toolglot.providers.catalog import resolve_profile
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
    user,
)
from toolglot.values.request import (
    Options,
    Request,
    ToolChoice,
    ToolDefinition,
    effective_tools,
    iter_changes,
)
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.repair import repair_history
from toolglot.wire.spec import SPECS, WIRES

from .legality import find_refusals, illegal
from .strategies import TOOLS, Doc, conversations, legal_conversations, requests, targets
from .test_laws import LAW

pytestmark = pytest.mark.untraced

SCHEMA = {"type": "object", "properties": {"x": {"type": "string", "description": "X."}}, "required": ["x"]}
PLAIN_TOOLS = (ToolDefinition("get", "Gets.", SCHEMA), ToolDefinition("put_it", "Puts.", SCHEMA))


def default(wire: str) -> Profile:
    return resolve_profile(SPECS[wire].default_profile, pick_model(SPECS[wire].default_profile))


def read(profile: Profile, body: Doc) -> Request:
    return decode_request(profile.wire, body, profile=profile.id, model=profile.model)


def meaning_of(request: Request) -> dict[str, Any]:
    """What a request means, whatever wire it came from."""
    blocks = [block for message in request.messages for block in message.blocks]
    return {
        "calls": [(block.name, block.arguments) for block in blocks if isinstance(block, ToolCall)],
        "results": [(block.text, block.is_error) for block in blocks if isinstance(block, ToolResult)],
        "pairs": [block.call_id for block in blocks if isinstance(block, ToolResult)]
        == [block.id for block in blocks if isinstance(block, ToolCall)],
        "texts": [(message.role, message.text) for message in request.messages if message.text],
        "tools": [(tool.name, tool.description, tool.parameters) for tool in request.tools],
    }


# ---- there and back


@LAW
@given(st.data(), st.sampled_from(WIRES))
def test_request_keeps_its_meaning_on_its_own_wire(data: st.DataObject, wire: str) -> None:
    profile = default(wire)
    request = Request(profile.model, data.draw(legal_conversations()), PLAIN_TOOLS)
    encoded = encode_request(request, profile)
    assert encoded.losses == ()
    assert meaning_of(read(profile, encoded.body)) == meaning_of(request)


@settings(LAW, max_examples=30)
@given(legal_conversations(max_size=2))
def test_handover_to_any_wire_and_back_keeps_the_meaning(messages: list[Message]) -> None:
    for here in map(default, WIRES):
        request = read(here, encode_request(Request(here.model, messages, PLAIN_TOOLS), here).body)
        for there in map(default, WIRES):
            over = read(there, encode_request(replace(request, model=there.model), there).body)
            assert meaning_of(over) == meaning_of(request)
            back = read(here, encode_request(replace(over, model=here.model), here).body)
            assert meaning_of(back) == meaning_of(request)


# ---- a conversation that grows


@LAW
@given(st.data(), targets())
def test_incremental_encoding_equals_full_encoding_and_keeps_its_prefix(
    data: st.DataObject, profile: Profile
) -> None:
    request = data.draw(requests(profile, conversations(max_size=10)))
    request = replace(request, options=replace(request.options, thinking_budget=None))
    start = next(
        (n for n, message in enumerate(request.messages, 1) if message.role != "system"),
        len(request.messages),
    )
    conversation, encoder = Conversation(request.messages[:start]), PrefixEncoder(profile)
    sent, closed = b"", 0
    for message in [None, *request.messages[start:]]:
        if message is not None:
            conversation.append(message)
        step = encoder.encode(replace(request, messages=conversation))
        full = encode_request(replace(request, messages=list(conversation)), profile)
        assert step.body == dumps(full.body)
        # Tools that come later may change the head; tests/wire/test_tools_over_time.py says where they may
        # not.
        if message is None or next(iter_changes([message]), None) is None:
            assert step.body.startswith(sent[:closed])
            assert step.prefix_length >= closed
        assert (step.names, {*map(str, step.lowerings)}) == (full.names, {*map(str, full.lowerings)})
        assert sorted((r.subject, r.reason) for r in step.repairs) == sorted(
            (r.subject, r.reason) for r in full.repairs
        )
        assert sorted((loss.subject, loss.reason) for loss in step.losses) == sorted(
            (loss.subject, loss.reason) for loss in full.losses
        )
        sent, closed = step.body, step.prefix_length


CLAUDES = tuple(resolve_profile("anthropic", model) for model in ("claude-sonnet-4-5", "claude-opus-4-6"))
TEXTS = st.sampled_from(["", " ", "answer ", "x", "y\t"]).map(Text)
THOUGHT, CALL = Thinking("hm", {"signature": "s"}), ToolCall("c", "get", {})
BLANK_MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from(["user", "system"]), st.lists(TEXTS, max_size=2).map(tuple)),
    st.builds(
        Message,
        st.just("assistant"),
        st.lists(TEXTS | st.sampled_from([THOUGHT, CALL]), max_size=3).map(tuple),
        st.sampled_from([None, Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")]),
    ),
    st.builds(Message, st.just("tool"), st.sampled_from([(), (ToolResult("c", (Text("r"),), "get"),)])),
)


@settings(LAW, max_examples=LAW.max_examples * 4)
@given(st.lists(BLANK_MESSAGES, min_size=1, max_size=6), st.sampled_from(CLAUDES))
def test_answers_that_may_be_a_prefill_are_legal_and_grow_alike(
    messages: list[Message], profile: Profile
) -> None:
    """Whether an answer is the last message depends on what follows it, which may be left out as blank."""
    encoder = PrefixEncoder(profile)
    for count in range(1, len(messages) + 1):
        body = encode_request(Request(profile.model, messages[:count]), profile).body
        assert loads(encoder.encode(Request(profile.model, messages[:count])).body) == body
        assert [*illegal(profile, body), *find_refusals(profile, body)] == []
        texts = [
            block.text.strip()
            for message in messages[:count]
            for block in message.blocks
            if isinstance(block, Text)
        ]
        assert all(text in dumps(body).decode() for text in texts)
    repaired = repair_history(messages, profile.history)
    assert repair_history(repaired.messages, profile.history).repairs == []


OVER_TIME = {
    "claude-opus-4-8": "anthropic",
    "claude-sonnet-4-5": "anthropic",
    "gpt-5.6": "openai-responses",
    "gpt-5.1": "openai-responses",
    "mistral-large": "mistral",
    "gemini-3-pro": "gemini",
}
FINDER = ToolDefinition("find", "Finds tools.", SCHEMA, finds_tools=True)
NUMBERS = st.integers(0, 4)


def define(number: int, version: int, *, deferred: bool = False) -> ToolDefinition:
    return ToolDefinition(f"t{number}", f"Version {version}.", SCHEMA, deferred=deferred)


@st.composite
def changing_stories(draw: st.DrawFn) -> tuple[tuple[ToolDefinition, ...], list[Message]]:
    """Tools, and a conversation in which they are called, found, added, replaced and removed, in any order."""
    tools = [define(number, 0, deferred=draw(st.booleans())) for number in range(4)]
    messages = [user("hi")]
    events = st.tuples(st.sampled_from(["say", "call", "find", "add", "load", "remove"]), NUMBERS)
    for count, (event, number) in enumerate(draw(st.lists(events, max_size=8)), 1):
        name, id = f"t{number}", f"c{count}"
        if event in ("call", "find"):
            blocks = (Text("ok"), *((ToolsChanged(loaded=(name,)),) if event == "find" else ()))
            messages += [
                assistant(ToolCall(id, name if event == "call" else "find", {"x": "1"})),
                Message("tool", (ToolResult(id, blocks),)),
            ]
        elif event == "say":
            messages += [assistant("ok"), user("more")]
        else:
            change = {
                "add": ToolsChanged(added=(define(number, draw(st.integers(0, 1))),)),
                "load": ToolsChanged(loaded=(name,)),
                "remove": ToolsChanged(removed=(name,)),
            }[event]
            messages += [assistant("ok"), Message("system", (change,)), user("more")]
    return (*tools, *([FINDER] if draw(st.booleans()) else [])), messages


@settings(LAW, max_examples=LAW.max_examples * 2)
@given(changing_stories(), st.sampled_from(sorted(OVER_TIME)))
def test_tools_that_change_are_the_same_on_every_wire_and_grow_alike(
    story: tuple[tuple[ToolDefinition, ...], list[Message]], model: str
) -> None:
    (tools, messages), profile = story, resolve_profile(OVER_TIME[model], model)
    encoder, conversation = PrefixEncoder(profile), Conversation()
    for message in messages:
        conversation.append(message)
        if message.role in ("assistant", "system"):
            continue
        request = Request(profile.model, conversation, tools)
        encoded = encode_request(request, profile)
        assert loads(encoder.encode(request).body) == encoded.body
        assert illegal(profile, encoded.body) == []
        # Anthropic
        references = re.findall(
            r'"type":"tool_reference","(?:tool_)?name":"(\w+)"', dumps(encoded.body).decode()
        )
        assert not references or {*references} <= {tool["name"] for tool in encoded.body["tools"]}
        offered = {
            (tool.name, tool.description) for tool in effective_tools(read(profile, encoded.body)).declared
        }
        declared, deferred = (
            {(tool.name, tool.description) for tool in part} for part in effective_tools(request)
        )
        assert declared <= offered <= declared | deferred


# ---- shapes that nobody promised

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast(dict[str, Any], value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast(list[Any], value)))
    return [path, *(position for key, item in inner for position in _places(item, (*path, key)))]


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value[path[0]] = _put(value[path[0]], path[1:], new)
    return value


@LAW
@given(st.data(), st.sampled_from(WIRES))
def test_wrong_shapes_raise_our_errors_only(data: st.DataObject, wire: str) -> None:
    """Any value anywhere in a body: it is read and written on every wire, or refused with an error of ours."""
    profile = default(wire)
    options = Options(
        max_tokens=2000,
        temperature=0.5,
        top_p=0.5,
        stop=("END",),
        seed=1,
        effort="high",
        thinking_budget=1024,
    )
    request = Request(
        profile.model, data.draw(conversations()), TOOLS, ToolChoice("required", ("get",)), False, options
    )
    body = copy.deepcopy(encode_request(request, profile).body)
    body = _put(body, data.draw(st.sampled_from(_places(body))), data.draw(JSON))
    before = copy.deepcopy(body)
    try:
        decoded = decode_request(wire, body)
        assert body == before
        for target in WIRES:
            encode_request(decoded, default(target))
    except ToolglotError:
        pass


def test_the_comparison_of_meanings_can_fail() -> None:
    """The comparison of the laws above can fail."""
    request = Request(
        "m",
        [
            Message("assistant", (ToolCall("a", "get", {"x": 1}),)),
            Message("tool", (ToolResult("a", (Text("1"),)),)),
        ],
    )
    other = Request(
        "m",
        [
            Message("assistant", (ToolCall("a", "get", {"x": 2}),)),
            Message("tool", (ToolResult("b", (Text("1"),)),)),
        ],
    )
    assert meaning_of(request)["calls"] != meaning_of(other)["calls"]
    assert (meaning_of(request)["pairs"], meaning_of(other)["pairs"]) == (True, False)
