"""Laws of repair and of encoding, for any conversation and every target of the catalog."""

import copy
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.profile import HistoryRules, Profile
from toolglot.values.messages import (
    Conversation,
    Foreign,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    load,
    save,
    user,
)
from toolglot.values.request import Request
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.repair import repair_history

from .legality import find_refusals, illegal
from .strategies import LATE, TARGETS, conversations, legal_conversations, requests, targets

pytestmark = pytest.mark.untraced

LAW = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
CLAUDE = resolve_profile("anthropic", "claude-opus-4-8")
RULES = st.builds(
    HistoryRules,
    calls_last=st.booleans(),
    starts_with_user=st.booleans(),
    ends_with_user=st.booleans(),
    no_blank_text=st.booleans(),
    filler_after_results=st.booleans(),
    needs_turn=st.booleans(),
)


def marks(value: object, kinds: str = "tx|ar|rs|th|op") -> Counter[str]:
    """How often every mark stands in a value."""
    return Counter(re.findall(rf"(?:{kinds})\d{{6}}", value if isinstance(value, str) else dumps_text(value)))


def find_unpaired(messages: list[Message]) -> list[str]:
    """What is wrong with the pairs of a neutral history."""
    wrong: list[str] = []
    taken: set[str] = set()
    for index, message in enumerate(messages):
        ids = [call.id for call in message.calls]
        answers = (
            [result.call_id for result in messages[index + 1].results] if index + 1 < len(messages) else []
        )
        if ids and (message.role != "assistant" or answers != ids or messages[index + 1].role != "tool"):
            wrong.append(f"{index}: calls {ids}, answers {answers}")
        if message.results and (message.role != "tool" or not index or not messages[index - 1].calls):
            wrong.append(f"{index}: results of no calls")
        if taken & {*ids} or len({*ids}) != len(ids) or "" in ids:
            wrong.append(f"{index}: ids {ids}")
        taken |= {*ids}
    return wrong


def breaks(rules: HistoryRules, messages: list[Message]) -> list[str]:
    """Which rules a neutral history breaks."""
    spoken = [message for message in messages if message.role != "system"]
    last = spoken[-1] if spoken else None
    wrong: list[str] = []
    if any(not message.blocks for message in messages):
        wrong.append("an empty message")
    if rules.starts_with_user and spoken and spoken[0].role != "user":
        wrong.append("starts_with_user")
    paused = last is not None and any(isinstance(block, Foreign) for block in last.blocks)
    if rules.ends_with_user and last is not None and last.role == "assistant" and not paused:
        wrong.append("ends_with_user")
    if rules.needs_turn and not spoken:
        wrong.append("needs_turn")
    if rules.filler_after_results:
        wrong += [
            "filler_after_results"
            for message, other in pairwise(spoken)
            if (message.role, other.role) == ("tool", "user")
        ]
    for message in messages:
        kinds = [type(block) for block in message.blocks]
        if rules.no_blank_text and any(
            isinstance(block, Text) and not block.text.strip() for block in message.blocks
        ):
            wrong.append("no_blank_text")
        if rules.calls_last and ToolCall in kinds and {Text, Thinking} & {*kinds[kinds.index(ToolCall) :]}:
            wrong.append("calls_last")
    return wrong


# ---- repair


@LAW
@given(conversations(), RULES)
@example([user([ToolResult("a", (Text("rs000001"),)), "tx000002"])], HistoryRules())
def test_repaired_history_is_legal_complete_and_stable(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules)
    assert find_unpaired(repaired.messages) == []
    assert breaks(rules, repaired.messages) == []
    # Nothing is lost or doubled, and every change is reported.
    assert marks(repaired.messages, "tx|ar|rs|th") == marks(messages, "tx|ar|rs|th")
    assert list_calls(repaired.messages) == list_calls(messages)
    assert bool(repaired.repairs) == (repaired.messages != messages)
    again = repair_history(repaired.messages, rules)
    assert again.repairs == []
    assert [id(message) for message in again.messages] == [id(message) for message in repaired.messages]


def list_calls(messages: list[Message]) -> list[tuple[Any, ...]]:
    return [(call.name, call.arguments, call.raw) for message in messages for call in message.calls]


@LAW
@given(legal_conversations(), RULES)
def test_legal_history_is_returned_as_the_same_objects(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules)
    assert [id(message) for message in repaired.messages if message.text != "OK."] == [
        id(message) for message in messages
    ]
    assert repaired.repairs == []


# ---- encoding


@st.composite
def requests_with_targets(draw: st.DrawFn) -> tuple[Profile, Request]:
    profile = draw(targets())
    spoken = conversations().map(lambda messages: [*messages, user("tx999999")])
    return profile, draw(requests(profile, spoken))


@LAW
@given(requests_with_targets())
@example(
    (CLAUDE, Request(CLAUDE.model, [user(""), Message("system", (ToolsChanged((LATE,)),)), user("tx999999")]))
)
def test_encoded_body_is_legal_and_complete(case: tuple[Profile, Request]) -> None:
    profile, request = case
    before = copy.deepcopy(request)
    encoded = encode_request(request, profile)
    assert request == before, "encoding changed its input"
    assert illegal(profile, encoded.body) == []
    assert find_refusals(profile, encoded.body) == []
    # No text, argument or result is lost or doubled.
    assert marks(encoded.body, "tx|ar|rs") == dict.fromkeys(marks(request.messages, "tx|ar|rs"), 1)
    # Opaque state goes to its origin and to nobody else.
    local = [
        message for message in request.messages if message.origin and is_from_here(message.origin, profile)
    ]
    assert marks(encoded.body, "th|op").keys() <= marks(local, "th|op").keys()
    check_names(encoded.names, request, profile)
    # Read again, its names lead back to the calls, and it means the same when it is written once more.
    decoded = decode_request(profile.wire, encoded.body, profile=profile.id, model=profile.model)
    native = profile.features.namespaces
    calls = [call for message in decoded.messages for call in message.calls]
    names = [f"{call.namespace}.{call.name}" if native and call.namespace else call.name for call in calls]
    originals = [(call.namespace, call.name) for message in request.messages for call in message.calls]
    assert sorted(encoded.names[name] for name in names) == sorted(originals)
    again = encode_request(decoded, profile)
    assert join_texts(
        decode_request(profile.wire, again.body, profile=profile.id, model=profile.model)
    ) == join_texts(decoded)
    assert again.losses == ()


def is_from_here(origin: Origin, profile: Profile) -> bool:
    """Signatures of Claude, Gemini and routed models are bound to the model, all others to the endpoint."""
    is_bound = profile.id in ("anthropic", "gemini", "vertex", "openrouter")
    return origin.profile == profile.id and (not is_bound or origin.model == profile.model)


def check_names(names: dict[str, tuple[str, str]], request: Request, profile: Profile) -> None:
    """Names lead back, never collide, and stay as they are where they are valid."""
    calls = [call for message in request.messages for call in message.calls]
    wanted = {(tool.namespace, tool.name) for tool in request.tools if tool.kind != "hosted"} | {
        (call.namespace, call.name) for call in calls
    }
    assert wanted <= {*names.values()}
    assert len({*names.values()}) == len(names)
    for wire, (namespace, name) in names.items():
        # Anthropic
        is_reference = len(name) > 64 and any(tool.deferred and tool.name == name for tool in request.tools)
        if not namespace and re.fullmatch(profile.limits.name, name) and not is_reference:
            assert wire == name
        assert re.fullmatch(
            profile.limits.name, wire.removeprefix(f"{namespace}.") if profile.features.namespaces else wire
        )


def _join_blocks(blocks: tuple[Any, ...]) -> tuple[Any, ...]:
    out: list[Any] = []
    for block in blocks:
        if isinstance(block, Text) and out and isinstance(out[-1], Text) and block.opaque == out[-1].opaque:
            block = replace(block, text=out.pop().text + block.text)
        elif isinstance(block, ToolResult):
            block = replace(block, content=_join_blocks(block.content))
        out.append(block)
    return tuple(out)


def join_texts(request: Request) -> Request:
    """Join neighbouring texts of one speaker: wires differ in where they split them."""
    out: list[Message] = []
    for message in request.messages:
        if out and (out[-1].role, out[-1].origin, out[-1].opaque) == (
            message.role,
            message.origin,
            message.opaque,
        ):
            message = replace(message, blocks=(*out.pop().blocks, *message.blocks))
        out.append(replace(message, blocks=_join_blocks(message.blocks)))
    return replace(request, messages=out)


@LAW
@given(conversations(), st.dictionaries(st.text(max_size=3), st.text(), max_size=2))
def test_save_and_load_is_the_identity(messages: list[Message], header: dict[str, str]) -> None:
    header.pop("toolglot", None)
    assert load(save(messages, **header)) == (Conversation(messages), header)


def test_every_profile_of_the_catalog_is_a_target() -> None:
    assert {provider for provider, _ in TARGETS} == {*PROFILES}
    assert len({*TARGETS}) == len(TARGETS)


def test_the_marks_of_a_conversation_are_its_own() -> None:
    """The counting of the laws above can fail."""
    history = [user("tx000001"), assistant([Thinking("th000002"), ToolCall("a", "get", {"x": "ar000003"})])]
    assert marks(history) == {"tx000001": 1, "th000002": 1, "ar000003": 1}
    assert find_unpaired(history) == ["1: calls ['a'], answers []"]
    assert breaks(HistoryRules(ends_with_user=True), history) == ["ends_with_user"]
