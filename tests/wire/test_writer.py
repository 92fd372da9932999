"""The writer: names, ids, state and options as a target takes them, and a word about everything that changed."""

import re

import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.losses import Loss
from toolglot.values.messages import Opaque, Origin
from toolglot.values.request import Options, Request, ToolDefinition
from toolglot.wire.codec import decode_request
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.tool_encoding import reserve_names
from toolglot.wire.writer import Writer, is_same_model

OPENAI, CLAUDE, GEMINI = (
    resolve_profile("openai-chat", "gpt-4o"),
    resolve_profile("anthropic", "claude-sonnet-4-5"),
    resolve_profile("gemini", "gemini-3-pro"),
)


def losses(writer: Writer) -> list[tuple[str, str]]:
    return [(loss.subject, loss.where) for loss in writer.losses]


# ---- names


@pytest.mark.parametrize(("profile", "name", "wire"), [
    (OPENAI, "get_weather-2", "get_weather-2"),
    (OPENAI, "9lives", "9lives"),
    (OPENAI, "a.b", r"a_b_[0-9a-f]{6}"),
    (OPENAI, "x" * 64, "x" * 64),
    (OPENAI, "x" * 65, r"x{57}_[0-9a-f]{6}"),
    (OPENAI, "über", r"_ber_[0-9a-f]{6}"),
    (OPENAI, "", r"__[0-9a-f]{6}"),
    (CLAUDE, "x" * 128, "x" * 128),
    (CLAUDE, "mcp.files/read", r"mcp_files_read_[0-9a-f]{6}"),
    (GEMINI, "a.b:c-d", r"a\.b:c-d"),
    (GEMINI, "9lives", r"_9lives_[0-9a-f]{6}"),
    (resolve_profile("ollama"), "any name at all. " * 9, re.escape("any name at all. " * 9)),
])  # fmt: skip
def test_names_stay_where_they_are_legal_and_are_mapped_where_not(
    profile: Profile, name: str, wire: str
) -> None:
    writer = Writer(profile)
    sent = writer.map_tool_name(name)
    assert re.fullmatch(wire, sent)
    assert re.fullmatch(profile.limits.name, sent)
    assert writer.names == {sent: ("", name)}
    assert [done.subject for done in writer.repairs] == ([] if sent == name else [f"tool name {name!r}"])
    assert writer.map_tool_name(name) == sent
    assert len(writer.names) == 1


def test_mapped_names_do_not_depend_on_the_order_of_tools() -> None:
    names = ["a.b", "a/b", "a_b", "x" * 70 + ".1", "x" * 70 + ".2"]
    forward, backward = Writer(OPENAI), Writer(OPENAI)
    assert {name: forward.map_tool_name(name) for name in names} == {
        name: backward.map_tool_name(name) for name in reversed(names)
    }
    assert len(forward.names) == 5


def test_namespace_becomes_a_prefix_where_there_are_none() -> None:
    writer = Writer(OPENAI)
    assert writer.map_tool_name("get", "crm") == "crm__get"
    assert writer.names == {"crm__get": ("crm", "get")}


def test_names_that_would_collide_are_kept_apart() -> None:
    writer = Writer(OPENAI)
    sent = [
        writer.map_tool_name("get", "crm"),
        writer.map_tool_name("crm__get"),
        writer.map_tool_name("b__c", "a"),
        writer.map_tool_name("c", "a__b"),
    ]
    assert len({*sent}) == 4
    assert sent[:1] == ["crm__get"]
    assert [writer.names[name] for name in sent] == [
        ("crm", "get"),
        ("", "crm__get"),
        ("a", "b__c"),
        ("a__b", "c"),
    ]


def test_one_name_may_stand_in_two_native_namespaces() -> None:
    writer = Writer(resolve_profile("openai-responses", "gpt-5"))
    assert [writer.map_tool_name("get", space) for space in ("", "crm", "erp")] == ["get", "get", "get"]
    assert writer.names == {"get": ("", "get"), "crm.get": ("crm", "get"), "erp.get": ("erp", "get")}


def test_tools_have_the_first_choice_of_names() -> None:
    writer = Writer(OPENAI)
    reserve_names(
        [ToolDefinition("crm__get"), ToolDefinition("web", kind="hosted", wire="openai-chat")], writer
    )
    assert writer.map_tool_name("get", "crm") != "crm__get"
    assert writer.names["crm__get"] == ("", "crm__get")
    assert "web" not in writer.names


# ---- ids


@pytest.mark.parametrize(("provider", "id", "kept"), [
    ("openai-chat", "call_" + "x" * 59, True),
    ("openai-chat", "call_" + "x" * 60, False),
    ("azure-chat", "c" * 40, True),
    ("azure-chat", "c" * 41, False),
    ("copilot", "c" * 41, False),
    ("openrouter", "c" * 41, False),
    ("anthropic", "toolu_01-A", True),
    ("anthropic", "c" * 200, True),
    ("anthropic", "functions.get:0", False),
    ("anthropic", "a|b", False),
    ("mistral", "aB3dE6gH9", True),
    ("mistral", "call_1", False),
    ("mistral", "aB3dE6gH90", False),
    ("ollama", "any id | at all", True),
])  # fmt: skip
def test_ids_stay_where_they_are_legal(provider: str, id: str, kept: bool) -> None:
    profile = resolve_profile(provider)
    writer = Writer(profile)
    sent = writer.map_call_id(id)
    assert (sent == id) == kept
    assert re.fullmatch(profile.limits.call_id, sent)
    assert writer.map_call_id(id) == sent
    assert len(writer.repairs) == (not kept)


def test_mistral_ids_are_nine_letters_and_digits() -> None:
    writer = Writer(resolve_profile("mistral"))
    sent = [writer.map_call_id(f"call_{n}") for n in range(50)]
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in sent)
    assert len({*sent}) == 50


def test_mapped_id_gives_way_to_nobody() -> None:
    """An id that happens to be what another was mapped to gets one of its own."""
    first = Writer(resolve_profile("mistral")).map_call_id("call_1")
    writer = Writer(resolve_profile("mistral"))
    assert writer.map_call_id("call_1") == first
    assert writer.map_call_id(first) != first


# ---- opaque state


@pytest.mark.parametrize(("provider", "model", "origin", "owned"), [
    ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5-20250929"), True),
    ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "", "claude-sonnet-4-5"), True),
    ("anthropic", "claude-sonnet-4-5", Origin("anthropic-messages", "anthropic", "claude-opus-4-5"), False),
    ("anthropic", "claude-sonnet-5-5", Origin("anthropic-messages", "anthropic", "claude-sonnet-5"), False),
    ("anthropic", "claude-opus-4-1-20250805", Origin("anthropic-messages", "anthropic", "claude-opus-4-1"), True),
    ("openai-responses", "gpt-5", Origin("openai-responses", "openai-responses", "o3"), True),
    ("azure-responses", "gpt-5", Origin("openai-responses", "openai-responses", "gpt-5"), False),
    ("vertex", "gemini-3-pro", Origin("gemini", "gemini", "gemini-3-pro"), False),
    ("gemini", "gemini-3-pro", Origin("gemini", "gemini", "gemini-2.5-pro"), False),
    ("openrouter", "anthropic/claude-sonnet-4.5", Origin("openai-chat", "openrouter", "claude-sonnet-4.5"), True),
    ("openrouter", "anthropic/claude-sonnet-4.5", Origin("openai-chat", "openrouter", "openai/gpt-5"), False),
    ("openai-chat", "gpt-4o", Origin("ollama-chat"), False),
    ("openai-chat", "gpt-4o", None, False),
])  # fmt: skip
def test_who_owns_opaque_state(provider: str, model: str, origin: Origin | None, owned: bool) -> None:
    assert Writer(resolve_profile(provider, model)).owns_state(origin) is owned


@pytest.mark.parametrize(("left", "other", "same"), [
    ("gpt-5", "gpt-5", True),
    ("gpt-5", "gpt-5-2025-08-07", True),
    ("anthropic/claude-x", "claude-x", True),
    ("claude-sonnet-5", "claude-sonnet-5-5", False),
    ("gpt-5", "gpt-5-mini", False),
    ("gpt-4", "gpt-4o", False),
    ("gpt-5", "o3", False),
])  # fmt: skip
def test_same_model(left: str, other: str, same: bool) -> None:
    """An alias and its dated snapshot are one model; a name that merely starts alike is another."""
    assert is_same_model(left, other) is same
    assert is_same_model(other, left) is same


def test_state_of_others_is_dropped_and_is_a_loss_if_the_model_would_have_read_it() -> None:
    writer = Writer(OPENAI)
    opaque: Opaque = {
        "citations": [1],
        "signature": "s",
        "cache_control": {},
        "id": "x",
        "empty": [],
        "audio": None,
    }
    writer.enter("messages[1]", Origin("anthropic-messages"))
    assert writer.echo_opaque(opaque) == {}
    assert writer.losses == [Loss("citations", "messages[1]", "only anthropic-messages understands it")]
    writer.enter("messages[2]")
    assert writer.echo_opaque({"note": 1}) == {}
    assert "its origin" in writer.losses[-1].reason
    assert writer.echo_opaque(None) == {}
    state = {"name": "Ann"}
    writer.enter("messages[3]", Origin("openai-chat", "openai-chat"))
    assert writer.echo_opaque(state) is state


# ---- options


@pytest.mark.parametrize(("provider", "model", "options", "sent", "lost"), [
    ("openai-chat", "gpt-4o", Options(temperature=0.5, top_p=0.9, top_k=4), {"temperature": 0.5, "top_p": 0.9}, ["top_k"]),
    ("openai-chat", "gpt-5", Options(temperature=1, seed=7, stop=("a",)), {"seed": 7, "stop": ["a"]}, ["temperature"]),
    ("openai-chat", "gpt-5-chat-latest", Options(temperature=1), {"temperature": 1}, []),
    ("openai-responses", "gpt-4o", Options(temperature=1, seed=7, stop=("a",)), {"temperature": 1}, ["stop", "seed"]),
    ("anthropic", "claude-sonnet-4-5", Options(temperature=1.5, top_p=0.9), {"temperature": 1.0}, ["temperature", "top_p"]),
    ("anthropic", "claude-sonnet-4-5", Options(top_p=0.9, top_k=4), {"top_p": 0.9, "top_k": 4}, []),
    ("anthropic", "claude-opus-5-5", Options(top_k=4, temperature=1, stop=("a",)), {"stop_sequences": ["a"]},
        ["temperature", "top_k"]),
    ("anthropic", "claude-3-5-haiku", Options(temperature=0.1, top_p=0.9), {"temperature": 0.1, "top_p": 0.9}, []),
    ("gemini", "gemini-2.5-pro", Options(temperature=2, top_k=4), {"temperature": 2, "topK": 4}, []),
    ("xai", "grok-4", Options(temperature=0, stop=("a",), presence_penalty=1), {"temperature": 0},
        ["stop", "presence_penalty"]),
])  # fmt: skip
def test_sampling_is_kept_dropped_or_clamped_by_the_facts(
    provider: str, model: str, options: Options, sent: dict[str, object], lost: list[str]
) -> None:
    writer = Writer(resolve_profile(provider, model))
    assert encode_sampling(options, writer) == sent
    assert losses(writer) == [(name, "options") for name in lost]


@pytest.mark.parametrize(("provider", "model", "asked", "sent"), [
    ("openai-chat", "gpt-5", "minimal", "minimal"),
    ("openai-chat", "o3", "minimal", "low"),
    ("openai-chat", "gpt-5", "max", "xhigh"),
    ("openai-chat", "gpt-4o", "high", None),
    ("gemini", "gemini-3-pro-preview", "none", "low"),
    ("anthropic", "claude-opus-4-6", "xhigh", "high"),
    ("anthropic", "claude-opus-5", "xhigh", "xhigh"),
    ("deepseek", "deepseek-v4-pro", "xhigh", "high"),
    ("xai", "grok-4.6", "none", "low"),
    ("xai", "grok-4.3", "none", "none"),
])  # fmt: skip
def test_effort_moves_to_the_nearest_level(provider: str, model: str, asked: str, sent: str | None) -> None:
    writer = Writer(resolve_profile(provider, model))
    assert encode_effort(Options(effort=asked), writer) == sent  # pyright: ignore[reportArgumentType]
    assert losses(writer) == ([] if sent == asked else [("effort", "options")])


def test_no_effort_is_no_effort() -> None:
    writer = Writer(OPENAI)
    assert encode_effort(Options(), writer) is None
    assert writer.losses == []


def test_effort_that_nobody_knows_stays_with_its_wire() -> None:
    """A provider's body may name a level that does not exist yet."""
    request = decode_request("openai-chat", {"model": "m", "messages": [], "reasoning_effort": "ultra"})
    assert (request.options.effort, request.extras) == (None, {"openai-chat": {"reasoning_effort": "ultra"}})


def test_extras_go_to_their_wire_or_family_and_are_losses_elsewhere() -> None:
    writer = Writer(OPENAI)
    extras: dict[str, Opaque] = {
        "openai-chat": {"logit_bias": {}},
        "openai": {"user": "u"},
        "gemini": {"cachedContent": "c", "labels": None},
    }
    assert select_extras(Request("m", [], extras=extras), writer) == {"logit_bias": {}, "user": "u"}
    assert losses(writer) == [("cachedContent", "request")]
