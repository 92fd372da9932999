"""Document 000: each provider sees the tools under its own names and schemas."""

from pathlib import Path
from typing import Any

import pytest
from tests.facades.conftest import site, site_options

from toolglot import ToolConfig, coding_tools, find_facade, list_facades
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.builtin.web.config import WebConfig
from toolglot.errors import ToolError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS
from toolglot.schema.arguments import find_issues
from toolglot.values.messages import ToolCall

from .kit import call, find_results, load_payload, make_agent

__all__ = ["site"]  # a fixture
CLAUDE_FACADES = [facade.id for facade in list_facades("claude")]
PROVIDERS = {"claude": ("claude-code", "claude-opus-5"), "gemini": ("gemini-cli", "gemini-2.5-pro")}
CONFIG = ToolConfig(ask=())


def interpret(provider: str, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    facade_id, model = PROVIDERS[provider]
    meaning = BoundFacade(find_facade(facade_id), model, BASE_TOOLS).interpret(call(name, arguments))
    assert meaning.error is None
    return meaning.base.name, meaning.base.arguments or {}


# What each tool of the document is called with; web_search and web_fetch have payloads of their own.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bash": {"command": "ls", "timeout": 1000}, "run_shell_command": {"command": "ls"},
    "Grep": {"pattern": "x", "output_mode": "count"}, "search_file_content": {"pattern": "x", "path": "src"},
    "Read": {"file_path": "a"}, "read_file": {"file_path": "a"},
    "Write": {"file_path": "a", "content": "x"}, "write_file": {"file_path": "a", "content": "x"},
    "Edit": {"file_path": "a", "old_string": "x", "new_string": "y"},
    "replace": {"file_path": "a", "old_string": "x", "new_string": "y", "instruction": "change x"},
    "Glob": {"pattern": "*.py"}, "glob": {"pattern": "*.py"},
    "ls": {"path": "."}, "list_directory": {"dir_path": "."},
    "web_search": {"action": {"type": "search", "query": "x"}},
    "google_web_search": {"query": "x"}, "web_fetch": {"prompt": "https://example.com summarize this"},
}  # fmt: skip


def test_every_name_of_the_document_is_understood() -> None:
    for base, names in load_payload("000_tool_names").items():
        for provider, natives in names.items():
            for name in natives:
                expected = "web_open" if name == "web_fetch" else base
                assert interpret(provider, name, ARGUMENTS[name])[0] == expected, (provider, name)


def test_the_parameters_of_the_document_are_accepted() -> None:
    for provider, tools in load_payload("000_schemas").items():
        facade = find_facade(PROVIDERS[provider][0])
        for name, parameters in tools.items():
            view = next(view for view in facade.views if name in (view.name, *view.aliases))
            assert {*parameters} <= view.accepted_schema["properties"].keys(), (provider, name)


def test_a_provider_gets_its_own_tools(tmp_path: Path) -> None:
    names = load_payload("000_tool_names")
    for provider in PROVIDERS:
        agent, _ = make_agent(provider, tools=coding_tools(tmp_path))
        visible = {tool.name for tool in agent.view().visible_tools}
        offered = {
            name for base in ("read", "write", "edit", "shell", "glob") for name in names[base][provider]
        }
        assert offered <= visible
        other = "gemini" if provider == "claude" else "claude"
        assert not visible & {name for base in ("read", "edit", "shell") for name in names[base][other]}


@pytest.mark.parametrize("facade_id", CLAUDE_FACADES)
def test_claude_searches_opens_and_finds_with_one_tool(facade_id: str) -> None:
    # Today's Claude models have WebSearch and WebFetch: they are shown these, and the document's tool is
    # accepted.
    definition = load_payload("000_claude_web_search")
    facade = BoundFacade(find_facade(facade_id), "claude-opus-5", BASE_TOOLS)
    bases = [
        ("web_search", {"queries": ["..."]}),
        ("web_open", {"target": "..."}),
        ("web_find", {"target": "...", "pattern": "..."}),
    ]
    calls = load_payload("000_claude_web_search_calls")
    assert len(calls) == len(bases)
    for arguments, base in zip(calls, bases, strict=True):
        assert find_issues(arguments, definition["parameters"]) == []
        meaning = facade.interpret(call(definition["name"], arguments))
        assert meaning.error is None
        assert (meaning.base.name, meaning.base.arguments) == base


@pytest.mark.parametrize("facade_id", CLAUDE_FACADES)
@pytest.mark.parametrize("with_search", [True, False])
def test_claude_gets_answers_from_one_tool(
    facade_id: str, with_search: bool, site: str, tmp_path: Path
) -> None:
    search, opened, find = load_payload("000_claude_web_search_calls")
    search["action"]["query"] = "plum"
    opened["action"]["url"] = find["action"]["url"] = f"{site}/word"
    find["action"]["pattern"] = "plum"
    web = WebConfig(browser="none", allow_private=("127.0.0.1",))
    options = site_options(site) if with_search else BuiltinOptions(web=web)
    builtin = builtins(tmp_path, state_dir=tmp_path / "state", options=options)
    calls = [
        call("web_search", arguments, f"c{number}") for number, arguments in enumerate((search, opened, find))
    ]
    agent, _ = make_agent("claude", *calls, tools=builtin.tools, facade=facade_id, config=CONFIG)
    try:
        agent.run_sync("go")
    finally:
        builtin.close()
    searched, page, line = find_results(agent.conversation)
    # only the search needs a search service
    assert "A title" in searched.text if with_search else searched.is_error
    assert "The word is plum." in page.text
    assert "plum" in line.text
    assert not page.is_error
    assert not line.is_error


def test_claude_lists_a_directory(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    [name] = load_payload("000_tool_names")["list_dir"]["claude"]
    for facade_id in CLAUDE_FACADES:
        names = (name, name.upper())  # Claude Code's own tool was LS
        calls = [call(name, {"path": "."}, name) for name in names]
        agent, _ = make_agent("claude", *calls, tools=coding_tools(tmp_path), facade=facade_id)
        agent.run_sync("go")
        results = find_results(agent.conversation)
        assert [result.is_error for result in results] == [False, False]
        assert all("a.txt" in result.text for result in results)
        assert {*names}.isdisjoint(tool.name for tool in agent.view().visible_tools)


@pytest.mark.parametrize("payload", ["000_gemini_google_web_search", "000_gemini_web_fetch"])
def test_gemini_is_shown_two_web_tools(payload: str) -> None:
    document = load_payload(payload)
    shown = {tool.name: tool for tool in find_facade("gemini").definitions}[document["name"]]
    assert shown.parameters is not None
    expected = document["parameters"]
    assert shown.parameters["type"] == expected["type"]
    assert shown.parameters["required"] == expected["required"]
    for name, schema in expected["properties"].items():
        assert shown.parameters["properties"][name]["type"] == schema["type"]


def test_geminis_web_calls_are_those_of_the_base_tools() -> None:
    calls = load_payload("000_gemini_calls")
    assert interpret("gemini", "google_web_search", calls["google_web_search"]) == (
        "web_search",
        {"queries": ["..."]},
    )
    tool, arguments = interpret("gemini", "web_fetch", calls["web_fetch"])
    assert tool == "web_open"
    assert arguments["target"] == "https://example.com"


def test_a_wrong_parameter_is_a_validation_error_with_tool_and_parameter() -> None:
    for payload in ("000_gemini_google_web_search", "000_gemini_web_fetch"):
        document = load_payload(payload)
        view = next(view for view in find_facade("gemini").views if view.name == document["name"])
        [required] = document["parameters"]["required"]
        for arguments in ({}, {required: {"a": 1}}):
            with pytest.raises(ToolError, match=f"(?s){view.name}.*{required}") as caught:
                view.to_base(arguments)
            assert (caught.value.kind, caught.value.tool) == ("validation", view.name)
    with pytest.raises(ToolError, match="'prompt' has no URL"):
        interpret_error("web_fetch", {"prompt": "summarize this"})


def interpret_error(name: str, arguments: dict[str, Any]) -> None:
    facade = BoundFacade(find_facade("gemini"), "gemini-2.5-pro", BASE_TOOLS)
    error = facade.interpret(ToolCall("c", name, arguments)).error
    assert error is not None
    raise error
