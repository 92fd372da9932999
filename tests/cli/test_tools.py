"""`toolglot tools`: the tools as a model sees them are those that an agent sends, and what is lost is said."""

import asyncio
import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.many_tools import many_tools
from tests.cli.cli_kit import Capture, Patch, run_cli

from toolglot.builtin.tools import coding_tools
from toolglot.cli.tools import show_tools
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import InvalidTool, UsageError
from toolglot.facades.catalog import FACADE_MODULES
from toolglot.loop.agent.agent import Agent
from toolglot.tools.tool import tool
from toolglot.values.request import ToolDefinition
from toolglot.wire.spec import SPECS


@tool
def get_weather(city: str, days: int = 3) -> str:
    """Weather of a city.

    Args:
        city: The name of the city.
    """
    return f"{city} {days}"


def add(left: int, other: int) -> int:
    """Adds two numbers."""
    return left + other


ROUTE = ToolDefinition(
    "maps.plan_route",
    "Plan a route.",
    {
        "type": "object",
        "properties": {"limits": {"type": "object", "additionalProperties": {"type": "number"}}},
    },
)
HOSTED = {"type": "web_search_20250305", "name": "web_search"}
SEARCH = ToolDefinition("web_search", kind="hosted", wire="anthropic-messages", opaque=HOSTED)
GOOGLE = ToolDefinition("search", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
PATCH = ToolDefinition("patch", "Apply a patch.", kind="freeform")
LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {}}, namespace="files")


MINE = """
from toolglot.facades.parameters import object_schema, string
from toolglot.facades.view import Case, Facade, Field, View

show = View(
    name="show",
    description="Show a file.",
    parameters=object_schema("file", file=string()),
    cases={"": Case(base="read", fields=(Field(native="file", base="path"),))},
)
mine = Facade(id="mine", title="Mine", views=(show,))
other = 5
nothing = []
"""


@pytest.fixture
def directory(isolated_home: Path) -> Path:
    (isolated_home / "own_harness.py").write_text(MINE)
    return isolated_home


@pytest.fixture(autouse=True)
def _width(monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def list_tools(capsys: Capture, tools: Iterable[Any], code: int = 0, **options: Any) -> tuple[str, str]:
    assert show_tools(list(tools), **options) == code
    return capsys.readouterr()


# ---- as it would be sent


@pytest.mark.parametrize("wire", SPECS)
def test_a_wire_is_enough(wire: str, capsys: Capture) -> None:
    out, err = list_tools(capsys, [add], wire=wire, json=True)
    assert "Adds two numbers." in out
    assert err == ""


def test_deferred_tools_are_counted(capsys: Capture) -> None:
    out, err = list_tools(capsys, many_tools(), model="openai-chat:gpt-4o", json=True)
    assert [item["function"]["name"] for item in json.loads(out)] == ["search_tools"]
    assert "300 tools deferred, which saves about 32," in err
    assert "accepts at most 128 tools" in err
    out, err = list_tools(capsys, [add], model="anthropic:claude-sonnet-4-5", defer=True)
    assert "1 tool deferred, which saves about" in out


def test_with_json_what_is_lost_goes_to_stderr(capsys: Capture) -> None:
    out, err = list_tools(capsys, [ROUTE], model="anthropic:claude-opus-5", json=True)
    assert json.loads(out)[0]["name"].startswith("maps_plan_route")
    assert err.startswith("repaired: tool name 'maps.plan_route' at tools")
    out, err = list_tools(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview", json=True)
    json.loads(out)
    assert [line.split(" at ")[0] for line in err.splitlines()] == ["lost: default", "lost: map"]


def test_where_no_tool_is_left_the_field_is_null(capsys: Capture) -> None:
    out, err = list_tools(capsys, [SEARCH], code=1, wire="ollama-chat", json=True)
    assert out == "null\n"
    assert "web_search" in err


# ---- for people


def test_the_text_has_what_the_model_sees_and_what_it_does_not(capsys: Capture) -> None:
    out, err = list_tools(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview")
    assert err == ""
    assert out.startswith("Google Gemini (Developer API) · gemini-3-pro-preview · gemini\n")
    assert "\nget_weather\n  Weather of a city.\n" in out
    assert '"description": "The name of the city."' in out
    assert "lost: default at tool 'get_weather'" in out
    assert out.index("maps.plan_route") < out.index("lost:")


@pytest.mark.parametrize(
    ("wire", "names"),
    [
        ("openai-chat", ["add", "patch", "files__look"]),
        ("openai-responses", ["add", "patch", "files.look"]),
        ("anthropic-messages", ["add", "web_search", "patch", "files__look"]),
        ("gemini", ["add", "patch", "files__look", "googleSearch"]),
        ("ollama-chat", ["add", "patch", "files__look"]),
    ],
)
def test_every_tool_is_shown_by_its_name_on_the_wire(wire: str, names: list[str], capsys: Capture) -> None:
    out, _ = list_tools(capsys, [add, SEARCH, GOOGLE, PATCH, LOOK], wire=wire)
    heads = [
        line
        for before, line in pairwise(out.splitlines())
        if not before and not line.startswith(("lost:", "repaired:"))
    ]
    assert heads == names


def test_without_a_target_tools_are_shown_as_they_were_defined(capsys: Capture) -> None:
    out, _ = list_tools(capsys, [add, ROUTE, LOOK])
    assert out.startswith("As defined")
    assert "\nfiles.look\n" in out
    out, err = list_tools(capsys, [add, ROUTE], json=True)
    assert [tool["name"] for tool in json.loads(out)] == ["add", "maps.plan_route"]
    assert json.loads(out)[1]["parameters"] == ROUTE.parameters
    assert err == ""


def test_a_description_cannot_command_the_terminal(capsys: Capture) -> None:
    evil = ToolDefinition(
        "evil", "a\x1b]0;b\x07\u202e", {"type": "object", "properties": {"x": {"description": "\u202e\x9b"}}}
    )
    out, _ = list_tools(capsys, [evil], wire="openai-chat")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*out}


def test_words_fit_a_narrow_terminal(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out, _ = list_tools(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview")
    assert max(len(line) for line in out.splitlines() if '"' not in line) <= 40


@pytest.mark.parametrize(
    ("alias", "name"), [("claude", "Read"), ("google", "read_file"), ("gpt", "exec_command")]
)
def test_a_facade_can_be_named_by_its_family(alias: str, name: str, directory: Path) -> None:
    code, out, err = run_cli("tools", "--facade", alias)
    assert (code, err) == (0, "")
    assert f"\n{name}\n" in out


@pytest.mark.parametrize(("version", "model", "name"), [
    ("codex@0.77", "openai:gpt-5", "shell"), ("codex@0.77", "openai:gpt-5.2", "shell_command"),
    ("claude-code@2.0.30", "anthropic:claude-sonnet-4-5", "BashOutput"),
    ("gemini-cli@0.61", "openai:gpt-5.5", "run_shell_command"),
])  # fmt: skip
def test_a_version_of_a_program_can_be_shown(version: str, model: str, name: str, directory: Path) -> None:
    code, out, err = run_cli("tools", "--facade", version, "-m", model)
    assert (code, err) == (0, "")
    assert f"\n{name}\n" in out


def test_facades_are_listed_with_their_programs_and_models() -> None:
    rows: list[dict[str, str]] = json.loads(run_cli("tools", "--facades", "--json").out)
    assert {row["facade"] for row in rows} == {*FACADE_MODULES}
    first = {"facade": "codex", "program": "codex@0.166.0", "models": "gpt-5.5", "released": "2026-10-29"}
    assert first in rows
    code, out, err = run_cli("tools", "--facades")
    assert (code, err, "codex@0.77.0" in out, "all others" in out) == (0, "", True, True)
    assert run_cli("tools", "--facades", COLUMNS="80").out.splitlines()[0].split() == [
        "facade",
        "program",
        "models",
    ]


def test_a_facade_of_a_file_can_be_for_tools_of_the_user(directory: Path) -> None:
    source = MINE.replace('"read"', '"lookup"') + "def lookup(path: str) -> str:\n    return path.upper()\n"
    (directory / "harness.py").write_text(source)
    code, out, err = run_cli("tools", "harness.py:lookup", "--facade", "harness.py:mine")
    assert (code, "\nshow\n" in out, "\nlookup\n" in out, err) == (0, True, False, "")
    for words in ([], ["--builtin"]):
        prompt, tools = 'call show {"file": "x"}', ("--tools", "harness.py:lookup")
        code, out, err = run_cli("run", prompt, *tools, "--facade", "harness.py:mine", *words)
        assert (code, "X" in out, "no effect" in err) == (0, True, False), err


# ---- errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--facades", "-m", "gpt-5.5"], "--facades lists all facades: remove "),
        (["--facade", "claude_code"], "unknown facade 'claude_code'; did you mean 'claude-code'"),
        (
            ["--facade", "codex@0.1"],
            "'codex@0.1' is older than the oldest version that is known, codex@0.77.0",
        ),
        (["--facade", "CODEX@0.77"], "unknown facade 'CODEX@0.77'; known: claude-code@2.0.30, "),
        (["--facade", "mine.toml"], "unknown facade 'mine.toml'; known: "),
        (["--facade", "own_harness:other"], "'own_harness:other' is not a Facade"),
        (["--facade", "own_harness:none"], "cannot load"),
        (["--facade", "nowhere.py:mine"], "cannot load 'nowhere.py:mine'"),
        (["--facade", "wrong:mine"], "facade 'mine': tool 'show': unknown tool 'reed'"),
        (["--wire", "gemeni"], "'gemeni' is not one of"),
        (["-m", "gemin:x"], "unknown provider 'gemin'"),
        (["-m", "gemini:x", "--wire", "openai-chat"], "uses the wire gemini, not openai-chat"),
        (["own_harness:nothing"], "own_harness:nothing contains no tools"),
        (["own_harness:other"], "'own_harness:other' is not a tool"),
    ],
)
def test_error_is_one_sentence(words: list[str], message: str, directory: Path) -> None:
    (directory / "wrong.py").write_text(MINE.replace('"read"', '"reed"'))
    code, out, err = run_cli("tools", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(("tools", "error"), [([], UsageError), ([3], InvalidTool)])
def test_without_tools_there_is_nothing_to_show(
    tools: list[Any], error: type[Exception], capsys: Capture
) -> None:
    with pytest.raises(error):
        list_tools(capsys, tools)


# ---- facades

MODELS = [
    "simulator:anthropic/claude-sonnet-4-5",
    "simulator:anthropic/claude-opus-5",
    "simulator:gemini/gemini-3-pro-preview",
    "simulator:gemini/gemini-2.5-pro",
    "simulator:openai-responses/gpt-5.5",
    "simulator:openai-responses/gpt-5.1",
    "simulator:openai-responses/gpt-5",
    "simulator:openai-chat/gpt-4o",
    "simulator:ollama/qwen3",
    "simulator:openrouter/google/gemini-2.5-pro",
    "simulator:openrouter/moonshotai/kimi-k3",
    "simulator:xai/grok-4",
]


class Wiretap:
    """A simulator that keeps what it was sent."""

    def __init__(self) -> None:
        self._simulator = SimulatedTransport()
        self.bodies: list[dict[str, Any]] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.bodies.append(json.loads(request.body))
        return await self._simulator.send(request)


def tools_sent_by_an_agent(model: str, tools: list[Any], **options: Any) -> Any:
    transport = Wiretap()
    asyncio.run(Agent(create_engine(model, transport=transport), tools=tools, **options).run("say hello"))
    return transport.bodies[0]["tools"]


def test_tools_that_cannot_be_used_are_named_with_the_reason(monkeypatch: Patch) -> None:
    note = "not offered: web_search: no search service is configured: set BRAVE_API_KEY"
    outcome = run_cli("tools")
    assert note in outcome.out
    assert "\nweb_search\n" not in outcome.out
    outcome = run_cli("tools", "--json", "-m", "claude-sonnet-4-5")
    assert note in outcome.err
    names = [tool["name"] for tool in json.loads(outcome.out)]
    assert "WebFetch" in names
    assert "WebSearch" not in names
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-0123456789")
    outcome = run_cli("tools")
    assert "\nweb_search\n" in outcome.out
    assert "not offered" not in outcome.out


@pytest.mark.untraced
@pytest.mark.parametrize("model", MODELS)
def test_built_in_tools_are_shown_as_the_models_own_harness_shows_them(
    model: str, tmp_path: Path, capsys: Capture
) -> None:
    tools: list[Any] = [*coding_tools(tmp_path), get_weather, add]
    out, _ = list_tools(capsys, tools, model=model, json=True)
    assert json.loads(out) == tools_sent_by_an_agent(model, tools)
    assert out.count("\n") == 1


@pytest.mark.untraced
@pytest.mark.parametrize("facade", FACADE_MODULES)
def test_a_facade_may_be_named(facade: str, tmp_path: Path, capsys: Capture) -> None:
    model, tools = "simulator:anthropic/claude-sonnet-4-5", coding_tools(tmp_path)
    out, _ = list_tools(capsys, tools, model=model, facade=facade, json=True)
    assert json.loads(out) == tools_sent_by_an_agent(model, tools, facade=facade)


@pytest.mark.parametrize("facade", ["own_harness:mine", "own_harness.py:mine"])
def test_a_facade_may_be_ones_own(facade: str, directory: Path) -> None:
    for wire in ((), ("--wire", "openai-chat")):
        names = tool_names("--facade", facade, *wire)
        assert names[0] == "show"
        assert {"grep", "shell"} < set(names)
        assert "read" not in names
    assert "\nshow\n" in run_cli("tools", "--facade", facade).out
    call = run_cli("call", "show", '{"file": "own_harness.py"}', "--facade", facade)
    assert (call.code, call.out.startswith("1\t")) == (0, True)


def tool_names(*words: str) -> list[str]:
    tools: list[dict[str, Any]] = json.loads(run_cli("tools", *words, "--json").out)
    return [tool.get("function", tool).get("name") for tool in tools]


def test_code_mode_is_as_configured(monkeypatch: Patch) -> None:
    assert tool_names("-m", "openai:gpt-5.6")[:2] == ["exec", "wait"]
    monkeypatch.setenv("TOOLGLOT_CODE_MODE", "off")
    assert "exec_command" in tool_names("-m", "openai:gpt-5.6")
    assert tool_names("-m", "anthropic:claude-opus-5", "--code-mode", "on") == ["run_code"]


@pytest.mark.parametrize(("mode", "language"), [("python", "python"), ("on", "javascript")])
def test_a_language_that_cannot_be_run_is_an_error(mode: str, language: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr("toolglot.builtin.code_mode.process.find_runtime", lambda _: "")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    message = f"toolglot: {language} cannot be run here: run `pip install 'toolglot[code]'`\n"
    for words in (("tools",), ("run", "-m", "simulator", "hi")):
        assert run_cli(*words, "--code-mode", mode) == (2, "", message)
    assert run_cli("run", "-m", "simulator", "say hi", "--code-mode", "off").code == 0


def test_the_head_names_the_facade(capsys: Capture) -> None:
    out = run_cli("tools", "-m", "openai:gpt-5", "--facade", "codex@0.166").out
    assert out.splitlines()[0] == "OpenAI Responses · gpt-5 · openai-responses · facade codex-shell"
    assert "facade" not in list_tools(capsys, [add], model="openai:gpt-5")[0].splitlines()[0]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--wire", "openai-responses", "-m", "gpt-5.5"), "exec_command"),
        (("--wire", "anthropic-messages", "-m", "claude-opus-5"), "Read"),
        (("--wire", "openai-responses", "-m", "openai:gpt-5.1"), "shell_command"),
        (("--wire", "openai-chat", "-m", "openai:gpt-5.5"), "exec_command"),
        (("-m", "openai:gpt-5.1"), "shell_command"),
    ],
)
def test_model_and_wire(words: tuple[str, ...], name: str, directory: Path) -> None:
    assert name in tool_names(*words)


@pytest.mark.parametrize(
    ("words", "declared"),
    [
        (
            ("--facade", "openai-hosted", "-m", "openai:gpt-5.1"),
            {"type": "shell", "environment": {"type": "local"}},
        ),
        (("--facade", "openai-hosted", "-m", "openai:gpt-5.1"), {"type": "apply_patch"}),
        (
            ("--facade", "anthropic-api", "-m", "anthropic:claude-opus-5"),
            {"type": "bash_20250124", "name": "bash"},
        ),
    ],
)
def test_tools_that_a_model_knows_are_declared_by_their_types(
    words: tuple[str, ...], declared: dict[str, Any], directory: Path
) -> None:
    assert declared in json.loads(run_cli("tools", *words, "--json").out)


def test_without_a_model_built_in_tools_have_our_names(tmp_path: Path, capsys: Capture) -> None:
    out, _ = list_tools(capsys, coding_tools(tmp_path), wire="gemini", json=True)
    names = {tool["name"] for tool in json.loads(out)[0]["functionDeclarations"]}
    assert {"read", "multi_edit", "patch"} <= names


def test_model_and_wire_may_agree(capsys: Capture) -> None:
    out, _ = list_tools(capsys, [add], model="xai:grok-4", wire="openai-chat", facade="neutral")
    assert out.startswith("xAI Grok · grok-4 · openai-chat")
    assert "\nadd\n" in out  # a facade leaves other tools alone
