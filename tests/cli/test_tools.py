"""`toolglot tools`: the tools as a model sees them are those that an agent sends, and what is lost is said."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Capture, Patch

from toolglot.builtin.tools import coding_tools
from toolglot.cli.tools import show_tools
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import InvalidTool, UnknownName, UsageError
from toolglot.facades.catalog import FACADE_MODULES
from toolglot.loop.orchestrator import Orchestrator
from toolglot.request import ToolDefinition
from toolglot.tools.tool import tool
from toolglot.wire.spec import SPECS


@tool
def get_weather(city: str, days: int = 3) -> str:
    """Weather of a city.

    Args:
        city: The name of the city.
    """
    return f"{city} {days}"


def add(one: int, other: int) -> int:
    """Adds two numbers."""
    return one + other


ROUTE = ToolDefinition(
    "maps.plan_route",
    "Plan a route.",
    {"type": "object", "properties": {"limits": {"type": "object", "additionalProperties": {"type": "number"}}}},
)
HOSTED = {"type": "web_search_20250305", "name": "web_search"}
SEARCH = ToolDefinition("web_search", kind="hosted", wire="anthropic-messages", opaque=HOSTED)
PATCH = ToolDefinition("patch", "Apply a patch.", kind="freeform")
LOOK = ToolDefinition("look", "Look.", {"type": "object", "properties": {}}, namespace="files")


@pytest.fixture(autouse=True)
def _width(monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def shown(
    capsys: Capture, tools: list[Any], *, model: str | None = None, wire: str | None = None, json: bool = False
) -> tuple[str, str]:
    assert show_tools(tools, model=model, wire=wire, facade=None, json=json) == 0
    return capsys.readouterr()


# ---- as it would be sent


class Wiretap:
    """A simulator that keeps what it was sent."""

    def __init__(self) -> None:
        self._simulator = SimulatedTransport()
        self.bodies: list[dict[str, Any]] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.bodies.append(json.loads(request.body))
        return await self._simulator.send(request)


@pytest.mark.parametrize(
    "model",
    [
        "simulator:openai-chat/gpt-4o",
        "simulator:openai-responses/gpt-5.1",
        "simulator:anthropic/claude-sonnet-4-5",
        "simulator:gemini/gemini-3-pro-preview",
        "simulator:ollama/qwen3",
        "simulator:openrouter/google/gemini-2.5-pro",
    ],
)
def test_json_is_what_an_agent_sends(model: str, capsys: Capture) -> None:
    tools: list[Any] = [get_weather, add]
    transport = Wiretap()
    asyncio.run(Orchestrator(create_engine(model, transport=transport), tools=tools).run("say hello"))
    out, _ = shown(capsys, tools, model=model, json=True)
    assert json.loads(out) == transport.bodies[0]["tools"]
    assert out.count("\n") == 1


@pytest.mark.parametrize("wire", SPECS)
def test_a_wire_is_enough(wire: str, capsys: Capture) -> None:
    out, err = shown(capsys, [add], wire=wire, json=True)
    assert "Adds two numbers." in out
    assert err == ""


def test_with_json_what_is_lost_goes_to_stderr(capsys: Capture) -> None:
    out, err = shown(capsys, [ROUTE], model="anthropic:claude-opus-5", json=True)
    assert json.loads(out)[0]["name"].startswith("maps_plan_route")
    assert err.startswith("repaired: tool name 'maps.plan_route' at tools")
    out, err = shown(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview", json=True)
    json.loads(out)
    assert [line.split(" at ")[0] for line in err.splitlines()] == ["lost: default", "lost: map"]


def test_where_no_tool_is_left_the_field_is_null(capsys: Capture) -> None:
    assert show_tools([SEARCH], model=None, wire="ollama-chat", facade=None, json=True) == 1
    out, err = capsys.readouterr()
    assert out == "null\n"
    assert "web_search" in err


# ---- for people


def test_the_text_has_what_the_model_sees_and_what_it_does_not(capsys: Capture) -> None:
    out, err = shown(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview")
    assert err == ""
    assert out.startswith("Google Gemini (Developer API) · gemini-3-pro-preview · gemini\n")
    assert "\nget_weather\n  Weather of a city.\n" in out
    assert '"description":"The name of the city."' in out
    assert "lost: default at tool 'get_weather'" in out
    assert out.index("maps.plan_route") < out.index("lost:")


@pytest.mark.parametrize(
    ("wire", "names"),
    [
        ("openai-chat", ["add", "patch", "files__look"]),
        ("openai-responses", ["add", "patch", "files.look"]),
        ("anthropic-messages", ["add", "web_search", "patch", "files__look"]),
        ("gemini", ["add", "patch", "files__look"]),
        ("ollama-chat", ["add", "patch", "files__look"]),
    ],
)
def test_every_tool_is_shown_by_its_name_on_the_wire(wire: str, names: list[str], capsys: Capture) -> None:
    out, _ = shown(capsys, [add, SEARCH, PATCH, LOOK], wire=wire)
    heads = [line for before, line in pairwise(out.splitlines()) if not before and not line.startswith(("lost:", "mended:"))]
    assert heads == names


def test_a_tool_without_a_name_has_its_type(capsys: Capture) -> None:
    built_in = ToolDefinition("search", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    out, _ = shown(capsys, [built_in], wire="gemini")
    assert "\ngoogleSearch\n" in out


def test_without_a_target_tools_are_shown_as_they_were_defined(capsys: Capture) -> None:
    out, _ = shown(capsys, [add, ROUTE, LOOK])
    assert out.startswith("As defined")
    assert '{"namespace":"files"}' in out
    out, err = shown(capsys, [add, ROUTE], json=True)
    assert [one["name"] for one in json.loads(out)] == ["add", "maps.plan_route"]
    assert json.loads(out)[1]["parameters"] == ROUTE.parameters
    assert err == ""


def test_a_description_cannot_command_the_terminal(capsys: Capture) -> None:
    evil = ToolDefinition("evil", "a\x1b]0;b\x07\u202e", {"type": "object", "properties": {"x": {"description": "\u202e\x9b"}}})
    out, _ = shown(capsys, [evil], wire="openai-chat")
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*out}


def test_words_fit_a_narrow_terminal(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out, _ = shown(capsys, [get_weather, ROUTE], model="gemini:gemini-3-pro-preview")
    assert max(len(line) for line in out.splitlines() if '"' not in line) <= 40


# ---- what cannot be


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"facade": "claude_code"}, UnknownName, "unknown facade 'claude_code'; did you mean 'claude-code'"),
        ({"facade": "nowhere.toml"}, UsageError, "cannot read the facade 'nowhere.toml': No such file"),
        ({"wire": "gemeni"}, UnknownName, "unknown wire 'gemeni'; did you mean 'gemini'"),
        ({"model": "gemin:x"}, UnknownName, "unknown provider 'gemin'"),
        ({"model": "gemini:x", "wire": "openai-chat"}, UsageError, "uses the wire gemini, not openai-chat"),
        ({"tools": []}, UsageError, "there are no tools to show"),
        ({"tools": [3]}, InvalidTool, "3"),
    ],
)
def test_what_cannot_be_is_one_sentence(given: dict[str, Any], error: type[Exception], sentence: str) -> None:
    words: dict[str, Any] = {"tools": [add], "model": None, "wire": None, "facade": None, "json": False, **given}
    with pytest.raises(error, match=sentence):
        show_tools(words.pop("tools"), **words)


# ---- facades

FACED = [
    "simulator:anthropic/claude-sonnet-4-5",
    "simulator:anthropic/claude-opus-5",
    "simulator:gemini/gemini-3-pro-preview",
    "simulator:gemini/gemini-2.5-pro",
    "simulator:openai-responses/gpt-5.5",
    "simulator:openai-responses/gpt-5.1",
    "simulator:openai-responses/gpt-5",
    "simulator:openai-chat/gpt-4o",
    "simulator:ollama/qwen3",
    "simulator:openrouter/moonshotai/kimi-k3",
    "simulator:xai/grok-4",
]
OWN = """
id = "own"

[[views]]
name = "Open"
base = "read"
parameters = { type = "object", properties = { file = { type = "string" } }, required = ["file"] }
fields = { file = "path" }
"""


def sent_by_an_agent(model: str, tools: list[Any], **options: Any) -> Any:
    transport = Wiretap()
    asyncio.run(Orchestrator(create_engine(model, transport=transport), tools=tools, **options).run("say hello"))
    return transport.bodies[0]["tools"]


@pytest.mark.untraced
@pytest.mark.parametrize("model", FACED)
def test_built_in_tools_are_shown_as_the_models_own_harness_shows_them(model: str, tmp_path: Path, capsys: Capture) -> None:
    tools: list[Any] = [*coding_tools(tmp_path), get_weather]
    out, _ = shown(capsys, tools, model=model, json=True)
    assert json.loads(out) == sent_by_an_agent(model, tools)


@pytest.mark.untraced
@pytest.mark.parametrize("facade", FACADE_MODULES)
def test_a_facade_may_be_named(facade: str, tmp_path: Path, capsys: Capture) -> None:
    model, tools = "simulator:anthropic/claude-sonnet-4-5", coding_tools(tmp_path)
    assert show_tools(tools, model=model, wire=None, facade=facade, json=True) == 0
    assert json.loads(capsys.readouterr().out) == sent_by_an_agent(model, tools, facade=facade)


def test_a_facade_may_be_somebodys_own(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    tools: list[Any] = [*coding_tools(tmp_path), add]
    for wire in (None, "openai-chat"):
        assert show_tools(tools, model=None, wire=wire, facade=str(file), json=True) == 0
        found = json.loads(capsys.readouterr().out)
        assert [one.get("function", one)["name"] for one in found][:1] == ["Open"]
        assert {"grep", "shell", "add"} < {one.get("function", one)["name"] for one in found}
        assert "read" not in [one.get("function", one)["name"] for one in found]
    assert show_tools(tools, model=None, wire=None, facade=str(file), json=False) == 0
    assert "\nOpen\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(OWN.replace('"read"', '"reed"').encode(), r"own\.toml: views\[0\]\.base: there is no"), (b"\xff", "it is not UTF-8")],
)
def test_what_is_wrong_with_ones_own_facade_is_told(content: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        show_tools(coding_tools(tmp_path), model=None, wire=None, facade=str(file), json=True)


def test_without_a_model_built_in_tools_have_our_names(tmp_path: Path, capsys: Capture) -> None:
    out, _ = shown(capsys, list(coding_tools(tmp_path)), wire="gemini", json=True)
    assert {"read", "multi_edit", "patch"} <= {one["name"] for one in json.loads(out)[0]["functionDeclarations"]}


def test_neutral_is_a_facade(capsys: Capture) -> None:
    assert show_tools([add], model=None, wire="gemini", facade="neutral", json=True) == 0
    assert "add" in capsys.readouterr().out


def test_model_and_wire_may_agree(capsys: Capture) -> None:
    out, _ = shown(capsys, [add], model="xai:grok-4", wire="openai-chat")
    assert out.startswith("xAI Grok · grok-4 · openai-chat")
