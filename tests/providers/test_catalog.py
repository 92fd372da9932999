"""The catalog: consistent rows, the names that lead to them, and facts about models."""

import re
from operator import attrgetter

import pytest

from toolglot.errors import UnknownName
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES, resolve_profile
from toolglot.providers.model_facts import FACTS
from toolglot.providers.profile import ANY_CHOICE, Profile
from toolglot.schema import dialects
from toolglot.wire.spec import SPECS, WIRES
from toolglot.wire.writer import Writer

ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


# ---- rows


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_rows_are_consistent(profile: Profile) -> None:
    assert profile.wire in WIRES
    assert isinstance(getattr(dialects, profile.dialect), dialects.Dialect)
    assert not profile.strict_dialect or isinstance(
        getattr(dialects, profile.strict_dialect), dialects.Dialect
    )
    assert profile.path.startswith("/")
    assert not profile.base_url.endswith("/")
    assert (
        profile.base_url.startswith(("https://", "http://127.0.0.1", "http://localhost"))
        or profile.id == "compatible"
    )
    assert "auto" in profile.features.choices
    assert [ORDER.index(effort) for effort in profile.efforts] == sorted(
        ORDER.index(effort) for effort in profile.efforts
    )
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in profile.key_env)
    assert profile.key_env or profile.token_env or profile.sign_in or profile.auth == "optional"
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
    wanted = (
        "openai-chat openai-responses azure-chat azure-responses anthropic gemini vertex ollama openrouter "
    )
    wanted += "copilot xai deepseek mistral groq compatible"
    assert {*wanted.split()} <= {*PROFILES}
    assert {*ALIASES.values()} <= {*PROFILES, *SURFACES}
    assert not {*ALIASES} & {*PROFILES}
    assert {
        wire: PROFILES[id].wire for wire, id in ((spec.name, spec.default_profile) for spec in SPECS.values())
    } == {wire: wire for wire in WIRES}


# ---- resolve


@pytest.mark.parametrize(
    ("name", "id"),
    [
        *(
            ("openai", "openai-responses"),
            ("azure", "azure-responses"),
            ("google", "gemini"),
            ("grok", "xai"),
        ),
        *(("claude", "anthropic"), ("gpt", "openai-responses")),
    ],
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
    with pytest.raises(UnknownName, match=rf"known: {min(PROFILES)}, .*, openai, .*, {max(PROFILES)}$"):
        resolve_profile("zzzzzz")


# ---- facts


FACT_ROWS: list[tuple[str, object, str]] = [
    ("call_ids", True, "vertex:gemini-4-pro"),
    ("dialect", "GEMINI_OPENAPI", "openrouter:google/gemini-3-pro openrouter:~google/gemini-pro"),
    ("dialect", "COMPATIBLE", "openrouter:openai/gpt-5"),
    ("efforts", ("low", "medium", "high"), "openai-chat:o3-mini anthropic:claude-opus-4-5 xai:grok-4.6"),
    ("efforts", ("none", "minimal", "low", "medium", "high", "xhigh"), "openai-responses:gpt-5"),
    ("efforts", ("low", "medium", "high", "xhigh", "max"), "anthropic:claude-fable-5-1"),
    ("efforts", (), "anthropic:claude-haiku-4-5"),
    ("efforts", ("none", "low", "medium", "high"), "xai:grok-4.3"),
    (
        "efforts",
        ("low", "medium", "high", "xhigh"),
        "xai:grok-4.7 openai-responses:gpt-6-astra openai-responses:gpt-6.1-sol",
    ),
    (
        "features.choices",
        ANY_CHOICE - {"subset"},
        "anthropic:claude-sonnet-4-5 anthropic:claude-opus-5 anthropic:claude-haiku-5-5",
    ),
    (
        "features.choices",
        {"auto", "none"},
        "anthropic:claude-opus-5-5 anthropic:claude-sonnet-5-5 anthropic:claude-fable-5-1 "
        "anthropic:claude-mythos-5-2",
    ),
    ("features.error_flag", True, "anthropic:claude-haiku-5-5"),
    ("features.result_media", frozenset[str](), "gemini:gemini-2.5-pro"),
    ("features.result_media", {"image", "file"}, "gemini:gemini-3-pro"),
    ("history.calls_last", True, "anthropic:claude-haiku-5-5"),
    ("history.ends_with_user", False, "anthropic:claude-sonnet-4-5 anthropic:claude-3-5-haiku"),
    ("history.ends_with_user", True, "anthropic:claude-sonnet-4-6 anthropic:claude-haiku-5-5"),
    ("media", frozenset({"image", "file", "audio"}), "openai-chat:gpt-4o-audio-preview"),
    (
        "sampling",
        "all",
        "openai-chat:gpt-4o openai-responses:gpt-5-chat-latest anthropic:claude-3-7-sonnet "
        "openai-responses:gpt-5.4-nano",
    ),
    (
        "sampling",
        "none",
        "openai-chat:o3-mini openai-responses:gpt-5-mini azure-responses:gpt-6.1-sol "
        "anthropic:claude-opus-4-8 "
        "anthropic:claude-haiku-5-5",
    ),
    ("sampling", "one", "anthropic:claude-sonnet-4-5-20250929"),
    ("signatures", False, "gemini:gemini-2.5-pro"),
    ("signatures", True, "gemini:gemini-3-flash"),
    ("system_role", "user", "openai-chat:o1-mini"),
    ("system_role", "system", "openai-chat:o1"),
    ("thinking_budget", True, "anthropic:claude-sonnet-4-5 gemini:gemini-2.5-pro gemini:gemini-3.5-flash"),
    ("thinking_budget", False, "anthropic:claude-opus-4-7"),
]


@pytest.mark.parametrize(("field", "value", "models"), FACT_ROWS)
def test_facts_about_models(field: str, value: object, models: str) -> None:
    for model in models.split():
        profile = resolve_profile(*model.split(":", 1))
        assert attrgetter(field)(profile) == value, model


def test_facts_have_a_source_and_name_existing_fields() -> None:
    for fact in FACTS:
        assert {*fact.profiles} <= {*PROFILES}
        assert fact.source
        re.compile(fact.model)
        for field in fact.changes:
            attrgetter(field)(PROFILES[fact.profiles[0]])
