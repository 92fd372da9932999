"""The catalog: consistent rows, the names that lead to them, and facts about models."""

import re
from typing import Any

import pytest

from toolglot.errors import UnknownName
from toolglot.providers.catalog import ALIASES, PROFILES, resolve_profile
from toolglot.providers.model_facts import FACTS
from toolglot.providers.profile import ANY_CHOICE, Profile
from toolglot.schema import dialects
from toolglot.wire.codec import WIRES
from toolglot.wire.spec import SPECS
from toolglot.wire.writer import Writer

ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


# ---- rows


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_rows_are_consistent(profile: Profile) -> None:
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
def test_generated_names_and_ids_match_the_row(profile: Profile) -> None:
    """The safe forms of names and ids are legal everywhere, and so is whatever the writer maps to."""
    assert re.fullmatch(profile.limits.name, "get_weather")
    assert re.fullmatch(profile.limits.call_id, "aB3dE6gH9")
    writer = Writer(profile)
    for name in ("", "9", "a.b/c d", "x" * 500, "ü"):
        assert re.fullmatch(profile.limits.name, writer.map_tool_name(name))
    for id in ("", "|", "x" * 500, "ü\0"):
        assert re.fullmatch(profile.limits.call_id, writer.map_call_id(id))


def test_rows_have_the_usual_names() -> None:
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
def test_local_servers_speak_chat(server: str) -> None:
    assert resolve_profile(server, "m").wire == "openai-chat"


def test_a_profile_has_its_model() -> None:
    assert resolve_profile("groq", "llama").model == "llama"
    assert resolve_profile("groq").model == ""
    assert resolve_profile("groq", "llama") is resolve_profile("groq", "llama")
    assert PROFILES["groq"].model == ""


def test_an_unknown_provider_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'anthropic'"):
        resolve_profile("antropic")
    with pytest.raises(UnknownName, match=r"known: anthropic, .* and \d+ more"):
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
    ("openrouter", "google/gemini-3-pro", "dialect", "GEMINI_OPENAPI"),
    ("openrouter", "~google/gemini-pro", "dialect", "GEMINI_OPENAPI"),
    ("openrouter", "openai/gpt-5", "dialect", "COMPATIBLE"),
    ("xai", "grok-4.3", "efforts", ("none", "low", "medium", "high")),
    ("xai", "grok-4.6", "efforts", ("low", "medium", "high")),
    ("xai", "grok-4.7", "efforts", ("low", "medium", "high", "xhigh")),
    ("openai-responses", "gpt-6-astra", "efforts", ("low", "medium", "high", "xhigh")),
    ("openai-responses", "gpt-6.1-sol", "efforts", ("low", "medium", "high", "xhigh")),
    ("openai-responses", "gpt-5.4-nano", "sampling", "all"),  # recorded 200 with `temperature` and no `reasoning`
    ("gemini", "gemini-3.5-flash", "thinking_budget", True),  # recorded 200 with `thinkingBudget`
])  # fmt: skip
def test_facts_about_models(provider: str, model: str, field: str, value: object) -> None:
    assert getattr(resolve_profile(provider, model), field) == value


@pytest.mark.parametrize(("provider", "model", "field", "value"), [
    ("anthropic", "claude-sonnet-4-5", "features.choices", ANY_CHOICE - {"subset"}),
    ("anthropic", "claude-opus-5", "features.choices", ANY_CHOICE - {"subset"}),
    ("anthropic", "claude-haiku-5-5", "features.choices", ANY_CHOICE - {"subset"}),
    ("anthropic", "claude-opus-5-5", "features.choices", {"auto", "none"}),
    ("anthropic", "claude-sonnet-5-5", "features.choices", {"auto", "none"}),
    ("anthropic", "claude-fable-5-1", "features.choices", {"auto", "none"}),
    ("anthropic", "claude-mythos-5-2", "features.choices", {"auto", "none"}),
    ("anthropic", "claude-sonnet-4-5", "history.ends_with_user", False),
    ("anthropic", "claude-3-5-haiku", "history.ends_with_user", False),
    ("anthropic", "claude-sonnet-4-6", "history.ends_with_user", True),
    ("anthropic", "claude-haiku-5-5", "history.ends_with_user", True),
    ("anthropic", "claude-haiku-5-5", "history.calls_last", True),
    ("anthropic", "claude-haiku-5-5", "features.error_flag", True),
    ("gemini", "gemini-2.5-pro", "features.result_media", frozenset[str]()),
    ("gemini", "gemini-3-pro", "features.result_media", {"image", "file"}),
])  # fmt: skip
def test_facts_reach_the_parts_of_a_profile(provider: str, model: str, field: str, value: object) -> None:
    part, _, name = field.partition(".")
    assert getattr(getattr(resolve_profile(provider, model), part), name) == value


def test_facts_have_a_source_and_name_existing_fields() -> None:
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
