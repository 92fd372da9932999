"""Which model sees which facade: by its own name, wherever it is served."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from toolglot import facades
from toolglot.common.jsontext import loads_object
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import (
    FACADE_ALIASES,
    FACADE_MODULES,
    GENERATIONS,
    NEUTRAL,
    facade_for_model,
    facade_id_for_model,
    facade_id_for_provider,
    find_facade,
    is_facade_name,
    list_facades,
    strip_model_prefix,
)
from toolglot.facades.view import Facade
from toolglot.providers.catalog import PROFILES

MODELS = {
    "claude-code": "claude-opus-4-8 claude-opus-4-9-20261001 claude-opus-4-10 claude-opus-5 claude-sonnet-5 "
    "claude-haiku-5 "
    "claude-fable-5 claude-mythos-5-preview claude-opus-10 anthropic/claude-opus-4.8 claude-opus-4.8 "
    "claude-opus-4-8@20260901 "
    "us.anthropic.claude-opus-5-v1:0 us-gov.anthropic.claude-opus-5 anthropic:claude-opus-5",
    "claude-code-4.5": "claude-sonnet-4-5 claude-sonnet-4-5-20250929 claude-opus-4-20250514 claude-opus-4-7 "
    "claude-haiku-4-5 "
    "claude-3-5-sonnet-20241022 claude-3.7-sonnet anthropic/claude-sonnet-4.5 ~anthropic/claude-opus-4.6 "
    "claude-2.1 "
    "us.anthropic.claude-sonnet-4-5-v1:0 anthropic.claude-3-haiku-20240307-v1:0",
    "gemini-cli": "gemini-3-pro-preview gemini-3.1-pro-preview-customtools google/gemini-3-flash "
    "models/gemini-3-pro",
    "gemini-cli-2": "gemini-2.5-pro gemini-2.5-flash-lite google/gemini-2.5-flash gemini-pro-latest "
    "gemini-30b",
    "codex": "gpt-5.5 openai/gpt-5.5-mini",
    "codex-code-mode": "gpt-5.6-mini gpt-5.10 gpt-6 gpt-12-preview openai/gpt-5.6-sol",
    "codex-0.142": "gpt-5.2 gpt-5.3 gpt-5.4-mini gpt-5.1-codex-max gpt-5.2-codex openai/gpt-5.3-codex",
    "codex-shell-command": "gpt-5.1 gpt-5-codex gpt-5.1-codex gpt-5.1-codex-mini openai/gpt-5.1",
    "codex-shell": "gpt-5 GPT-5 gpt-5-mini gpt-5-2025-08-07 openai/gpt-5-nano gpt-4o GPT-4o gpt-4.1-mini o3 "
    "o4-mini "
    "openai/o1-pro ft:gpt-4o-mini-2024-07-18:org::abc",
    "codex-oss": "gpt-oss-120b openai/gpt-oss-20b gpt-oss:20b",
    "codex-local-shell": "codex-mini-latest openai/codex-mini",
    "openai": "chatgpt-4o-latest gpt-3.5-turbo computer-use-preview openai:computer-use-preview",
    "qwen-code": "qwen3-coder-plus qwen/qwen3-32b Qwen2.5-Coder:7b qwen3 qwen.qwen3-coder-480b",
    "kimi": "kimi-k2-instruct moonshotai/kimi-k3 kimi:latest",
    NEUTRAL: "grok-4 mistral-large-latest devstral deepseek-chat glm-4.7 llama-3.3-70b-versatile olmo-2 phi4 "
    "some-model ~x/y "
    "deepseek-r1-distill-qwen-32b google/gemma-3-27b-it openai:my-model gpt4all-j",
}


SHELLS, API = "codex-shell-command codex-shell", "openai openai-hosted"
ON_REQUEST = ("claude-code-2.1", "claude-code-2.0", "anthropic-api", "agent-toolset", "openai-hosted")


@pytest.mark.parametrize(("model", "facade"), [
    *((model, facade) for facade, models in MODELS.items() for model in models.split()), ("", NEUTRAL),
])  # fmt: skip
def test_the_facade_follows_the_name_of_the_model(model: str, facade: str) -> None:
    assert facade_id_for_model(model) == facade


@pytest.mark.parametrize(("model", "bare"), [
    ("anthropic/claude-opus-4.8", "claude-opus-4.8"),
    ("~anthropic/claude-opus-4.6", "claude-opus-4.6"),
    ("eu.anthropic.claude-opus-5-v1:0", "claude-opus-5-v1:0"),
    ("ft:gpt-4o:org::abc", "gpt-4o:org::abc"),
    ("qwen:latest", "qwen:latest"),
    ("~some/Thing-1", "thing-1"),
])  # fmt: skip
def test_prefixes_of_routers_are_removed(model: str, bare: str) -> None:
    assert strip_model_prefix(model) == bare


def test_the_documentation_names_the_same_facades() -> None:
    page = (Path(__file__).parents[2] / "docs" / "facades.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[1:3]
        for line in page.partition("| models | facade |")[2].partition("\n\n")[0].splitlines()[2:]
    ]
    pairs = [(re.findall(r"`([^`]+)`", models), facade.split("`")[1]) for models, facade in rows]
    named = [(model, facade) for models, facade in pairs for model in models]
    assert [(model, facade) for model, facade in named if facade_id_for_model(model) != facade] == []
    assert {facade for _, facade in named} == {*MODELS}


def test_every_selected_facade_exists() -> None:
    assert {*FACADE_MODULES} - {*MODELS} == {*ON_REQUEST}, "add its models to MODELS"
    assert {facade_id_for_provider(id) for id in PROFILES} <= {*FACADE_MODULES, "by model"}


def test_a_provider_of_one_family_has_its_facade() -> None:
    assert facade_id_for_provider("anthropic") == "claude-code"
    assert facade_id_for_provider("gemini") == facade_id_for_provider("vertex") == "gemini-cli"
    assert {facade_id_for_provider(provider) for provider in ("openrouter", "azure-chat", "nobody")} == {
        "by model"
    }


def test_a_facade_is_found_by_its_id() -> None:
    assert find_facade(NEUTRAL).id == NEUTRAL
    assert find_facade(NEUTRAL) is facade_for_model("grok-4")


CLAUDE_FACADES = "claude-code claude-code-4.5 claude-code-2.1 claude-code-2.0 anthropic-api agent-toolset"


@pytest.mark.parametrize(("name", "provider"), [
    ("codex", "openai"), ("codex-shell", "openai"), ("gpt", "openai"), ("claude", "anthropic"),
    ("claude-code-2.0", "anthropic"), ("gemini-cli", "gemini"), ("google", "gemini"), ("qwen", "qwen"),
])  # fmt: skip
def test_the_name_of_a_facade_stands_for_its_provider(name: str, provider: str) -> None:
    facades = list_facades(name)
    assert find_facade(name) in facades
    assert facades == list_facades(provider)


@pytest.mark.parametrize(("provider", "ids", "names"), [
    ("anthropic", CLAUDE_FACADES, {"Read", "Write", "Edit", "Bash", "Grep"}),
    ("claude", CLAUDE_FACADES, {"WebSearch", "WebFetch"}),
    ("gemini", "gemini-cli gemini-cli-2", {"read_file", "write_file", "replace", "google_web_search", "web_fetch"}),
    ("openai", f"codex codex-code-mode codex-0.142 {SHELLS} codex-oss codex-local-shell "
               f"{API}", {"apply_patch"}),
    ("qwen", "qwen-code", {"read_file"}),
    ("moonshotai", "kimi", {"Read"}),
])  # fmt: skip
def test_the_facades_of_a_provider_and_all_their_tools(provider: str, ids: str, names: set[str]) -> None:
    facades = list_facades(provider)
    assert [facade.id for facade in facades] == ids.split()
    newest = facades[0]
    assert names <= {definition.name for definition in newest.definitions}
    assert not {view.name for view in newest.views if view.hidden} & {
        definition.name for definition in newest.definitions
    }
    assert find_facade(provider).provider == newest.provider if provider in FACADE_ALIASES else True


def test_all_facades_are_listed_with_their_providers() -> None:
    assert [facade.id for facade in list_facades()] == [*FACADE_MODULES]
    assert [facade.id for facade in list_facades() if not facade.provider] == [NEUTRAL]
    with pytest.raises(
        UnknownName, match=r"unknown provider of a facade 'antropic'; did you mean 'anthropic'"
    ):
        list_facades("antropic")


def test_an_unknown_facade_is_one_sentence_that_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown facade 'claude_code'; did you mean 'claude-code'"):
        find_facade("claude_code")


def test_every_table_is_in_the_catalog() -> None:
    names = [module.name for module in iter_modules(facades.__path__)]
    tables = {name: getattr(import_module(f"toolglot.facades.{name}"), "TABLES", ()) for name in names}
    assert {facade.id: name for name, table in tables.items() for facade in table} == FACADE_MODULES


@pytest.mark.parametrize("id", FACADE_MODULES)
def test_no_step_of_the_recipe_is_missing(id: str) -> None:
    """The steps for a facade in CONTRIBUTING.md, after its table is in the catalog."""
    page = (Path(__file__).parents[2] / "docs" / "facades.md").read_text(encoding="utf-8")
    assert f"`{id}`" in page.partition("<!-- facades")[0], "describe it in docs/facades.md"
    assert f"`{id}`" in page.partition("<!-- facades")[2], "run `make docs`"
    for expectations in (f"snapshots/{id}.json", f"scenarios/{id}.jsonl"):
        path = Path(__file__).parent / expectations
        assert path.exists(), f"add tests/facades/{expectations}"
        assert path.read_bytes().strip(), f"{expectations} is empty"
    if id in MODELS and id != NEUTRAL:
        assert facade_id_for_model(f"us.vendor.{MODELS[id].split()[0]}") == id


@pytest.mark.parametrize("id", FACADE_MODULES)
def test_every_facade_is_a_table_that_holds_together(id: str) -> None:
    facade = find_facade(id)
    assert isinstance(facade, Facade)
    titles = [view.qualified_name for view in facade.views]
    assert len({*titles}) == len(titles)
    assert facade.title
    assert facade.differences.keys() <= {*titles}
    assert all(reason.endswith(".") for reason in facade.differences.values())
    for view in facade.views:
        assert view.select_case or "" in view.cases, view.qualified_name
        shown = (view.parameters or {}).get("properties", {})
        assert all(shown[name] != view.accepts[name] for name in shown.keys() & view.accepts), (
            view.qualified_name
        )
        assert not {*view.ignored} & {*view.accepts}, view.qualified_name


# ---- generations of a program


@pytest.mark.parametrize(("name", "model", "facade"), [
    ("codex@0.77", "gpt-5.2", "codex-shell-command"),
    ("codex@0.77", "gpt-5.1-codex-max", "codex-shell-command"),
    ("codex@0.77.0", "openai/gpt-5", "codex-shell"),
    ("codex@0.100.3", "gpt-5", "codex-shell"),
    ("codex@0.77", "o3", "codex-shell"),
    ("codex@0.77", "gpt-oss-20b", "codex-oss"),
    ("codex@0.77", "codex-mini-latest", "codex-local-shell"),
    ("codex@0.77", "gpt-5.5", "codex-shell-command"),  # newer than the program
    ("codex@0.77", "claude-opus-5", "codex-shell-command"),
    ("codex@0.142", "gpt-5.4", "codex-0.142"),
    ("codex@0.166", "gpt-5.5", "codex"),
    ("codex@0.166", "gpt-5.2", "codex-0.142"),
    ("codex@1", "", "codex"),
    ("gpt@0.77", "gpt-5", "codex-shell"),
    ("claude-code@2.0.30", "claude-sonnet-4-5", "claude-code-2.0"),
    ("claude@2.1.325", "claude-sonnet-4-5", "claude-code-4.5"),
    ("claude-code@2.1.200", "claude-opus-4-8", "claude-code-2.1"),
    ("gemini-cli@0.61", "gemini-3-pro-preview", "gemini-cli"),
    ("gemini-cli@0.61", "gemini-2.5-pro", "gemini-cli-2"),
])  # fmt: skip
def test_a_version_of_a_program_shows_what_it_showed_the_model(name: str, model: str, facade: str) -> None:
    assert is_facade_name(name)
    assert find_facade(name, model).id == facade


@pytest.mark.parametrize(
    "name", ["codx@0.77", "codex@new", "codex@", "codex@0..1", "aider@1.0", "qwen-code@1"]
)
def test_an_unknown_version_is_answered_with_those_that_there_are(name: str) -> None:
    with pytest.raises(UnknownName, match=r"unknown facade .*(codex@0\.77\.0|claude-code@2\.0\.30)"):
        find_facade(name)


def test_a_version_before_the_oldest_known_one_is_an_error() -> None:
    with pytest.raises(
        UsageError, match=r"^'codex@0\.76' is older than the oldest version that is known, codex@0\.77\.0$"
    ):
        find_facade("codex@0.76")


def test_newer_versions_come_first() -> None:
    for program in {row.program for row in GENERATIONS}:
        rows = [row for row in GENERATIONS if row.program == program]
        versions = [[int(part) for part in row.version.split(".") if part] for row in rows]
        assert versions == sorted(versions, reverse=True)
        assert [row.date for row in rows] == sorted((row.date for row in rows), reverse=True)
    assert {row.facade for row in GENERATIONS} == {*FACADE_MODULES} - {*ON_REQUEST[2:], NEUTRAL}


def test_everything_that_was_observed_can_be_shown(shared: Path) -> None:
    for row in loads_object((shared / "facades" / "observed.json").read_bytes())["observed"]:
        facade = find_facade(f"{row['program']}@{row['version'].split()[0]}", row["model"])
        assert {tool.get("name") for tool in row["tools"]} & {
            definition.name for definition in facade.definitions
        }


@pytest.mark.parametrize(
    ("alias", "id"), [("claude", "claude-code"), ("gemini", "gemini-cli"), ("gpt", "codex")]
)
def test_a_facade_has_the_name_of_its_family_too(alias: str, id: str) -> None:
    assert find_facade(alias) is find_facade(id)
