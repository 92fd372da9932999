"""The catalog: rows that hold together, names that lead to them, facts about models; and the limits checked before sending."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.errors import LimitExceeded, UnknownName
from toolglot.providers.catalog import ALIASES, PROFILES, resolve_profile
from toolglot.providers.model_facts import FACTS
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile
from toolglot.request import ToolDefinition
from toolglot.schema import dialects
from toolglot.wire.codec import WIRES
from toolglot.wire.spec import SPECS
from toolglot.wire.writer import Writer

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


# ---- rows


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_row_holds_together(profile: Profile) -> None:
    assert profile.wire in WIRES
    assert isinstance(getattr(dialects, profile.dialect), dialects.Dialect)
    assert not profile.strict_dialect or isinstance(getattr(dialects, profile.strict_dialect), dialects.Dialect)
    assert profile.path.startswith("/")
    assert not profile.base_url.endswith("/")
    assert profile.base_url.startswith(("https://", "http://127.0.0.1", "http://localhost")) or profile.id == "compatible"
    assert "auto" in profile.features.choices
    assert [ORDER.index(effort) for effort in profile.efforts] == sorted(ORDER.index(effort) for effort in profile.efforts)
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in profile.key_env)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", profile.limits.as_of)
    assert profile.limits.source
    assert profile.notes


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_what_is_made_up_for_a_row_fits_its_own_patterns(profile: Profile) -> None:
    """The safe forms of names and ids are legal everywhere, and so is whatever the writer maps to."""
    assert re.fullmatch(profile.limits.name, "get_weather")
    assert re.fullmatch(profile.limits.call_id, "aB3dE6gH9")
    writer = Writer(profile)
    for name in ("", "9", "a.b/c d", "x" * 500, "ü"):
        assert re.fullmatch(profile.limits.name, writer.map_tool_name(name))
    for id in ("", "|", "x" * 500, "ü\0"):
        assert re.fullmatch(profile.limits.call_id, writer.map_call_id(id))


def test_rows_have_the_names_that_people_use() -> None:
    wanted = "openai-chat openai-responses azure-chat azure-responses anthropic gemini vertex ollama openrouter "
    wanted += "copilot xai deepseek mistral groq compatible"
    assert {*wanted.split()} <= {*PROFILES}
    assert {*ALIASES.values()} <= {*PROFILES}
    assert not {*ALIASES} & {*PROFILES}
    assert {wire: PROFILES[id].wire for wire, id in ((spec.name, spec.default_profile) for spec in SPECS.values())} == {
        wire: wire for wire in WIRES
    }


# ---- resolve


@pytest.mark.parametrize(
    ("name", "id"), [("openai", "openai-responses"), ("azure", "azure-responses"), ("google", "gemini"), ("grok", "xai")]
)
def test_aliases(name: str, id: str) -> None:
    assert resolve_profile(name, "m").id == id


@pytest.mark.parametrize("server", ["llama.cpp", "vllm", "sglang", "lmstudio"])
def test_servers_at_home_speak_chat(server: str) -> None:
    assert resolve_profile(server, "m").wire == "openai-chat"


def test_profile_knows_its_model() -> None:
    assert resolve_profile("groq", "llama").model == "llama"
    assert resolve_profile("groq").model == ""
    assert resolve_profile("groq", "llama") is resolve_profile("groq", "llama")
    assert PROFILES["groq"].model == ""


def test_unknown_provider_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'anthropic'"):
        resolve_profile("antropic")
    with pytest.raises(UnknownName, match=r"there are anthropic, .* and \d+ more"):
        resolve_profile("zzzzzz")


# ---- facts


@pytest.mark.parametrize(("provider", "model", "field", "value"), [
    ("openai-chat", "gpt-4o", "sampling", "all"),
    ("openai-chat", "o3-mini", "sampling", "none"),
    ("openai-chat", "o3-mini", "efforts", ("low", "medium", "high")),
    ("openai-responses", "gpt-5-mini", "sampling", "none"),
    ("openai-responses", "gpt-5", "efforts", ("none", "minimal", "low", "medium", "high", "xhigh")),
    ("openai-responses", "gpt-5-chat-latest", "sampling", "all"),
    ("azure-responses", "gpt-6.1-sol", "sampling", "none"),
    ("openai-chat", "o1-mini", "system_role", "user"),
    ("openai-chat", "o1", "system_role", "system"),
    ("openai-chat", "gpt-4o-audio-preview", "media", frozenset({"image", "file", "audio"})),
    ("anthropic", "claude-sonnet-4-5-20250929", "sampling", "one"),
    ("anthropic", "claude-3-7-sonnet", "sampling", "all"),
    ("anthropic", "claude-opus-4-8", "sampling", "none"),
    ("anthropic", "claude-haiku-5-5", "sampling", "none"),
    ("anthropic", "claude-sonnet-4-5", "thinking_budget", True),
    ("anthropic", "claude-opus-4-7", "thinking_budget", False),
    ("anthropic", "claude-opus-4-5", "efforts", ("low", "medium", "high")),
    ("anthropic", "claude-fable-5-1", "efforts", ("low", "medium", "high", "xhigh", "max")),
    ("anthropic", "claude-haiku-4-5", "efforts", ()),
    ("gemini", "gemini-2.5-pro", "signatures", False),
    ("gemini", "gemini-3-flash", "signatures", True),
    ("vertex", "gemini-4-pro", "call_ids", True),
    ("gemini", "gemini-2.5-pro", "thinking_budget", True),
    ("openrouter", "google/gemini-3-pro", "dialect", "OPENROUTER_GOOGLE"),
    ("openrouter", "~google/gemini-pro", "dialect", "OPENROUTER_GOOGLE"),
    ("openrouter", "openai/gpt-5", "dialect", "COMPATIBLE"),
    ("xai", "grok-4.3", "efforts", ("none", "low", "medium", "high")),
    ("xai", "grok-4.6", "efforts", ("low", "medium", "high")),
])  # fmt: skip
def test_what_is_known_of_models(provider: str, model: str, field: str, value: object) -> None:
    assert getattr(resolve_profile(provider, model), field) == value


@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-6.1-sol"])
def test_models_that_cannot_stop_reasoning(model: str) -> None:
    """They do not accept effort `none`."""
    assert "none" not in resolve_profile("openai-responses", model).efforts


def test_small_gpt_5_4_takes_a_temperature() -> None:
    """Recorded 200: gpt-5.4-nano with `temperature` and no `reasoning`."""
    assert resolve_profile("openai-responses", "gpt-5.4-nano").sampling == "all"


def test_gemini_3_5_takes_a_budget() -> None:
    """Recorded 200: gemini-3.5-flash with `thinkingBudget`."""
    assert resolve_profile("gemini", "gemini-3.5-flash").thinking_budget is True


def test_grok_4_7_knows_one_level_more() -> None:
    assert resolve_profile("xai", "grok-4.7").efforts == ("low", "medium", "high", "xhigh")


@pytest.mark.parametrize(("model", "forced"), [
    ("claude-sonnet-4-5", True),
    ("claude-opus-5", True),
    ("claude-haiku-5-5", True),
    ("claude-opus-5-5", False),
    ("claude-sonnet-5-5", False),
    ("claude-fable-5-1", False),
    ("claude-mythos-5-2", False),
])  # fmt: skip
def test_claude_that_can_be_forced_to_call(model: str, forced: bool) -> None:
    features = resolve_profile("anthropic", model).features
    assert ("required" in features.choices) is forced
    assert features.error_flag is True


@pytest.mark.parametrize(
    ("model", "prefill"),
    [("claude-sonnet-4-5", True), ("claude-3-5-haiku", True), ("claude-sonnet-4-6", False), ("claude-haiku-5-5", False)],
)
def test_claude_that_goes_on_with_a_begun_answer(model: str, prefill: bool) -> None:
    rules = resolve_profile("anthropic", model).history
    assert rules.ends_with_user is not prefill
    assert (rules.calls_last, rules.starts_with_user, rules.no_blank_text, rules.needs_turn) == (True, True, True, True)


def test_result_media_of_gemini() -> None:
    assert resolve_profile("gemini", "gemini-2.5-pro").features.result_media == frozenset()
    assert resolve_profile("gemini", "gemini-3-pro").features.result_media == {"image", "file"}


def test_facts_name_profiles_and_fields_that_exist_and_their_source() -> None:
    for fact in FACTS:
        assert {*fact.profiles} <= {*PROFILES}
        assert fact.source
        re.compile(fact.model)
        for field in fact.changes:
            holder: Any = PROFILES[fact.profiles[0]]
            *inner, name = field.split(".")
            for step in inner:
                holder = getattr(holder, step)
            assert hasattr(holder, name)


# ---- preflight

OPENAI, CLAUDE = resolve_profile("openai-chat"), resolve_profile("anthropic")


def tools(count: int) -> list[ToolDefinition]:
    return [ToolDefinition(f"t{number}", "", SCHEMA) for number in range(count)]


def test_preflight_finds_nothing_where_all_is_well() -> None:
    assert preflight(tools(128), OPENAI, {"messages": []}) == []
    assert drop_refused_tools(tools(2), OPENAI) == (tools(2), [])


def test_preflight_counts_tools() -> None:
    assert preflight(tools(129), OPENAI) == [Problem("", "number of tools", 129, 128)]
    assert preflight(tools(500), CLAUDE) == []
    kept, losses = drop_refused_tools(tools(130), OPENAI)
    assert len(kept) == 128
    assert [(loss.subject, loss.where) for loss in losses] == [("tool 't128'", "tools"), ("tool 't129'", "tools")]


def test_preflight_names_the_tool_its_value_and_the_limit() -> None:
    short = replace(OPENAI, limits=replace(OPENAI.limits, description=5))
    bad = [
        ToolDefinition("", "", SCHEMA),
        ToolDefinition("a.b", "", SCHEMA),
        ToolDefinition("long", "123456", SCHEMA),
        ToolDefinition("web", kind="hosted"),
    ]
    problems = preflight(bad, short)
    assert [(problem.tool, problem.what, problem.refused) for problem in problems] == [
        ("", "name", True),
        ("a.b", "name", False),
        ("long", "length of the description", True),
    ]
    assert str(problems[2]) == "tool 'long': length of the description is 6, the limit is 5"
    kept, losses = drop_refused_tools(bad[1:], short)
    assert [tool.name for tool in kept] == ["a.b", "web"]
    assert [loss.subject for loss in losses] == ["tool 'long'"]


def test_preflight_finds_a_name_that_stands_twice() -> None:
    one = ToolDefinition("one", "", SCHEMA)
    web = ToolDefinition("web", kind="hosted")
    twice = [one, one, replace(one, namespace="crm"), web, web]
    assert preflight(twice, OPENAI) == [Problem("one", "number of tools of this name", 2, 1, refused=False)]


def test_preflight_measures_the_body() -> None:
    small = replace(CLAUDE, limits=replace(CLAUDE.limits, request_bytes=20))
    assert [problem.what for problem in preflight([], small, {"messages": ["x" * 20]})] == ["size of the request in bytes"]
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
    body = {"system": [mark, mark], "messages": [{"content": [mark, mark, {"cache_control": None}]}], "tools": [mark]}
    assert preflight([], CLAUDE, body) == [Problem("", "number of cache_control marks", 5, 4)]


def test_problem_as_an_error() -> None:
    error = Problem("t", "name", "x", "y").to_error(OPENAI)
    assert isinstance(error, LimitExceeded)
    assert (error.quantity, error.limit, error.value, error.provider) == (
        "name of tool 't'",
        "y",
        "x",
        "OpenAI Chat Completions",
    )
    whole = Problem("", "number of tools", 129, 128)
    assert str(whole) == "number of tools is 129, the limit is 128"
    assert str(whole.to_error(OPENAI)) == "number of tools is 129, over the limit of OpenAI Chat Completions: 128"
