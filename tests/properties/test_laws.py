"""Laws of repair and of encoding, for any conversation and every target of the catalog."""

import copy
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolglot.jsontext import dumps_text
from toolglot.messages import Conversation, Foreign, Message, Text, Thinking, ToolCall, ToolResult, assistant, load, save, user
from toolglot.providers.catalog import PROFILES
from toolglot.providers.profile import HistoryRules, Profile
from toolglot.request import Request
from toolglot.wire.codec import encode_request
from toolglot.wire.repair import repair_history

from .legality import illegal, needs_referee, refused
from .strategies import ORIGINS, TARGETS, conversations, legal_conversations, requests, targets

pytestmark = pytest.mark.untraced

LAW = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
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


def unpaired(messages: list[Message]) -> list[str]:
    """What is wrong with the pairs of a neutral history."""
    wrong: list[str] = []
    taken: set[str] = set()
    for index, message in enumerate(messages):
        ids = [call.id for call in message.calls]
        answers = [result.call_id for result in messages[index + 1].results] if index + 1 < len(messages) else []
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
        wrong += ["filler_after_results" for one, other in pairwise(spoken) if (one.role, other.role) == ("tool", "user")]
    for message in messages:
        kinds = [type(block) for block in message.blocks]
        if rules.no_blank_text and any(isinstance(block, Text) and not block.text.strip() for block in message.blocks):
            wrong.append("no_blank_text")
        if rules.calls_last and ToolCall in kinds and {Text, Thinking} & {*kinds[kinds.index(ToolCall) :]}:
            wrong.append("calls_last")
    return wrong


# ---- repair


@LAW
@given(conversations(), RULES)
def test_repaired_history_is_legal(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules).messages
    assert unpaired(repaired) == []
    assert breaks(rules, repaired) == []


@LAW
@given(conversations(), RULES)
def test_repair_is_idempotent(messages: list[Message], rules: HistoryRules) -> None:
    once = repair_history(messages, rules)
    again = repair_history(once.messages, rules)
    assert again.repairs == []
    assert [id(message) for message in again.messages] == [id(message) for message in once.messages]


@LAW
@given(conversations(), RULES)
@example([user([ToolResult("a", (Text("rs000001"),)), "tx000002"])], HistoryRules())
def test_repair_loses_and_doubles_nothing(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules)
    assert marks(repaired.messages, "tx|ar|rs|th") == marks(messages, "tx|ar|rs|th")
    calls = [(call.name, call.arguments, call.raw) for message in messages for call in message.calls]
    assert [(call.name, call.arguments, call.raw) for m in repaired.messages for call in m.calls] == calls


@LAW
@given(legal_conversations(), RULES)
def test_legal_history_is_returned_as_the_same_objects(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules)
    assert [id(message) for message in repaired.messages if message.text != "OK."] == [id(message) for message in messages]
    assert repaired.repairs == []


@LAW
@given(conversations(), RULES)
def test_every_change_is_said(messages: list[Message], rules: HistoryRules) -> None:
    repaired = repair_history(messages, rules)
    assert bool(repaired.repairs) == (repaired.messages != messages)


# ---- encoding


@st.composite
def asked(draw: st.DrawFn) -> tuple[Profile, Request]:
    profile = draw(targets())
    spoken = conversations().map(lambda messages: [*messages, user("tx999999")])
    return profile, draw(requests(profile, spoken))


@LAW
@given(asked())
def test_encoded_history_is_legal_on_every_target(case: tuple[Profile, Request]) -> None:
    profile, request = case
    assert illegal(profile, encode_request(request, profile).body) == []


@needs_referee
@LAW
@given(asked())
def test_referee_accepts_every_encoded_body(case: tuple[Profile, Request]) -> None:
    profile, request = case
    assert refused(profile, encode_request(request, profile).body) == []


@LAW
@given(asked())
def test_encoding_never_changes_what_it_was_given(case: tuple[Profile, Request]) -> None:
    profile, request = case
    before = copy.deepcopy(request)
    encode_request(request, profile)
    assert request == before


@LAW
@given(asked())
def test_no_text_argument_or_result_is_lost_or_doubled(case: tuple[Profile, Request]) -> None:
    profile, request = case
    sent = marks(encode_request(request, profile).body, "tx|ar|rs")
    assert sent == dict.fromkeys(marks(request.messages, "tx|ar|rs"), 1)


@LAW
@given(asked())
def test_opaque_state_goes_to_its_origin_and_to_nobody_else(case: tuple[Profile, Request]) -> None:
    profile, request = case
    sent = marks(encode_request(request, profile).body, "th|op")
    own = [m for m in request.messages if m.origin and _made_here(m.origin, profile)]
    assert sent.keys() <= marks(own, "th|op").keys()


def _made_here(origin: object, profile: Profile) -> bool:
    """Signatures of Claude, Gemini and routed models are bound to the model, all others to the endpoint."""
    made = next(origin_ for origin_ in ORIGINS if origin_ == origin)
    bound = profile.id in ("anthropic", "gemini", "vertex", "openrouter")
    return made.profile == profile.id and (not bound or made.model == profile.model)


@LAW
@given(asked())
def test_names_lead_back_and_never_collide(case: tuple[Profile, Request]) -> None:
    profile, request = case
    names = encode_request(request, profile).names
    calls = [call for message in request.messages for call in message.calls]
    wanted = {(tool.namespace, tool.name) for tool in request.tools} | {(call.namespace, call.name) for call in calls}
    assert wanted <= {*names.values()}
    assert len({*names.values()}) == len(names)
    for wire, (namespace, name) in names.items():
        if not namespace and re.fullmatch(profile.limits.name, name):
            assert wire == name
        assert re.fullmatch(profile.limits.name, wire.removeprefix(f"{namespace}.") if profile.features.namespaces else wire)


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
    said = [user("tx000001"), assistant([Thinking("th000002"), ToolCall("a", "get", {"x": "ar000003"})])]
    assert marks(said) == {"tx000001": 1, "th000002": 1, "ar000003": 1}
    assert unpaired(said) == ["1: calls ['a'], answers []"]
    assert breaks(HistoryRules(ends_with_user=True), said) == ["ends_with_user"]
