"""A name in a policy means the same wherever it is written, whatever the model calls the tool."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolglot import Agent, Rate, ToolChoice, ToolConfig, coding_tools, tool
from toolglot.bridges.exported_tools import ExportedTools
from toolglot.common.jsontext import dumps_text
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_base_tools, find_facade
from toolglot.facades.view import Case, Facade, Field, View
from toolglot.tools.policy import find_allowed
from toolglot.tools.policy_names import PolicyNames, may_come_later
from toolglot.tools.tool import Tool

NAMES = ["shell", "patch", "read", "grep", "write"]
# Each of these models has other names for the built-in tools.
MODELS = [
    "simulator:anthropic/claude-sonnet-5",
    "simulator:openai-responses/gpt-5.5",
    "simulator:openai-responses/gpt-5",
    "simulator:gemini/gemini-3-pro",
    "simulator:ollama/llama4",
]
SHELL_NAMES = [
    "shell",
    "Bash",
    "exec_command",
    "run_shell_command",
    "local_shell",
    "shell_command",
    "container.exec",
    "Bas*",
]
READ_NAMES = ["read", "Read", "read_file", "ReadFile", "Rea?"]
WRITE_NAMES = ["write", "Write", "write_file", "WriteFile", "Writ*"]
# Models that see files under these names; Codex reads them with commands.
READERS = {
    "simulator:anthropic/claude-sonnet-5": ("Read", "Write", "file_path"),
    "simulator:gemini/gemini-3-pro": ("read_file", "write_file", "file_path"),
    "simulator:ollama/llama4": ("read_file", "write_file", "path"),
}


@tool
def add(x: int) -> int:
    """Add one."""
    return x + 1


@pytest.fixture
def tools(tmp_path: Path) -> list[Tool]:
    (tmp_path / "a").write_text("text", encoding="utf-8")
    return coding_tools(tmp_path, names=NAMES, state_dir=tmp_path / "state")


def make_agent(source: str, model: str, tools: list[Any], **policy: Any) -> Agent:
    """An agent whose policy is written in Python or in a file."""
    if source == "python":
        return Agent(model, tools=tools, config=ToolConfig(**policy))
    return Setup(msgspec.convert({"policy": policy, "audit": False}, Settings)).create_agent(
        model, tools=tools
    )


def codes_of(agent: Agent, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[str]:
    """The error codes of calls; "" for those that ran."""
    prompt = " then ".join(f"call! {name} {dumps_text(arguments)}" for name, arguments in calls)
    return [outcome.result.error_code or "" for outcome in agent.run_sync(prompt, **options).outcomes]


def visible_bases(agent: Agent) -> set[str]:
    """The built-in tools that the model sees, under whatever name."""
    return {each.name for each in agent.tools if agent.view().model_view.names_for(each)}


@pytest.mark.parametrize("name", SHELL_NAMES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("source", ["python", "file"])
def test_what_is_denied_is_neither_shown_nor_run(
    source: str, model: str, name: str, tools: list[Tool]
) -> None:
    agent = make_agent(source, model, tools, deny=[name])
    others = ToolConfig(allow=["patch", "read", "grep", "write"])
    assert (
        visible_bases(agent)
        == visible_bases(Agent(model, tools=tools, config=others))
        >= {"patch", "read", "grep"}
    )
    sent = {definition.qualified_name for definition in agent.view().visible_tools}
    assert sent.isdisjoint(SHELL_NAMES)
    codes = codes_of(agent, *((native, {"command": "true", "cmd": "true"}) for native in SHELL_NAMES[:4]))
    assert codes[0] == "denied"
    assert {*codes} <= {"denied", "unknown_tool"}


def test_codex_reads_with_our_tools_if_it_has_no_shell(tools: list[Tool]) -> None:
    model = "simulator:openai-responses/gpt-5.5"
    for source in ("python", "file"):
        agent = make_agent(source, model, tools, deny=["exec_command"])
        assert {"read", "grep", "apply_patch"} <= {
            definition.name for definition in agent.view().visible_tools
        }
    agent = make_agent("python", model, tools)
    assert {"read", "grep"}.isdisjoint({definition.name for definition in agent.view().visible_tools})


@pytest.mark.parametrize("name", READ_NAMES)
@pytest.mark.parametrize("model", READERS)
@pytest.mark.parametrize("source", ["python", "file"])
@pytest.mark.parametrize("limit", ["max_uses", "rates"])
def test_a_limit_applies_under_every_name(
    limit: str, source: str, model: str, name: str, tools: list[Tool], tmp_path: Path
) -> None:
    value = {name: Rate(1, 60) if limit == "rates" else 1}
    agent = make_agent(source, model, tools, **{limit: value})
    read, _, path = READERS[model]
    calls = [(read, {path: str(tmp_path / "a")})] * 2
    assert codes_of(agent, *calls) == ["", {"max_uses": "use_limit", "rates": "rate_limit"}[limit]]


@pytest.mark.parametrize("name", READ_NAMES)
@pytest.mark.parametrize("model", READERS)
@pytest.mark.parametrize("source", ["python", "file", "run", "both"])
def test_only_allowed_tools_are_shown_and_run(
    source: str, model: str, name: str, tools: list[Tool], tmp_path: Path
) -> None:
    options = {"allow": [name]} if source in ("run", "both") else {}
    agent = Agent(model, tools=tools)
    if source in ("python", "file", "both"):
        agent = make_agent(
            "python" if source == "both" else source, model, tools, allow=["read"] if options else [name]
        )
        assert visible_bases(agent) == {"read"}
    read, write, path = READERS[model]
    codes = codes_of(
        agent, (read, {path: str(tmp_path / "a")}), (write, {path: "b", "content": "x"}), **options
    )
    assert codes[0] == ""
    assert codes[1] in ("tool_not_allowed", "unknown_tool")


@pytest.mark.parametrize("name", WRITE_NAMES)
@pytest.mark.parametrize("model", READERS)
@pytest.mark.parametrize("source", ["python", "file"])
def test_a_rule_approves_under_every_name(
    source: str, model: str, name: str, tools: list[Tool], tmp_path: Path
) -> None:
    _, write, path = READERS[model]
    call = (write, {path: str(tmp_path / "b"), "content": "x"})
    assert codes_of(make_agent(source, model, tools), call) == ["approval_required"]
    assert codes_of(make_agent(source, model, tools, approve=[f"{name}(b)"]), call) == [""]


@pytest.mark.parametrize("name", [name for name in SHELL_NAMES if name != "Bas*"])
@pytest.mark.parametrize("model", MODELS)
def test_a_choice_of_a_tool_is_sent_by_the_models_name_for_it(
    model: str, name: str, tools: list[Tool]
) -> None:
    agent = Agent(model, tools=tools)
    shell = agent.tools.get("shell")
    choice = agent.view().model_view.map_tool_choice(ToolChoice("required", (name,)))
    assert choice is not None
    assert choice.names == agent.view().model_view.names_for(shell)
    agent.run_sync("say hi", tool_choice=ToolChoice("auto", (name,)))


@pytest.mark.parametrize("name", READ_NAMES)
@pytest.mark.parametrize("model", MODELS)
def test_a_tool_is_deferred_under_every_name(model: str, name: str, tools: list[Tool]) -> None:
    agent = Agent(model, tools=[*tools, add], defer=[name])
    deferral = agent.view().deferral
    assert deferral is not None
    assert deferral.names == {"read"}


@pytest.mark.parametrize("name", ["look_up", "LookUp", "Look*"])
def test_names_of_a_facade_of_your_own(name: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    case = Case(base="look_up", fields=[Field("n", "x")])
    view = View(name="LookUp", description="Looks up.", parameters=schema, cases={"": case})
    facade, tools = Facade(id="own", title="Own", views=(view,)), [Tool(add.function, name="look_up"), add]
    agent = Agent("simulator", tools=tools, facade=facade, config=ToolConfig(max_uses={name: 0}))
    assert codes_of(agent, ("LookUp", {"n": 1})) == ["use_limit"]
    agent.config = ToolConfig(deny=[name])
    assert [definition.name for definition in agent.view().visible_tools] == ["add"]
    assert codes_of(agent, ("look_up", {"x": 1})) == ["denied"]


@pytest.mark.parametrize("name", ["web_search", "WebSearch", "web_*"])
def test_a_denied_tool_of_the_provider_is_not_sent(name: str) -> None:
    agent = Agent("simulator:anthropic", tools=[add], hosted=["web_search"])
    assert [definition.name for definition in agent.view().visible_tools] == ["add", "web_search"]
    agent.config = ToolConfig(deny=[name])
    assert [definition.name for definition in agent.view().visible_tools] == ["add"]


def test_exported_tools_follow_the_same_names(tools: list[Tool]) -> None:
    exported = ExportedTools(
        tools, model="anthropic:claude-sonnet-5", config=ToolConfig(deny=["exec_command"])
    )
    assert {"Bash", "shell"}.isdisjoint(exported.definitions())


@pytest.mark.parametrize(("deny", "denied"), [
    (["Bash"], {"Bash", "shell"}),  # who adds a tool `Bash` must not free `shell`
    (["shell"], {"shell"}),
    (["exec_command"], {"shell"}),
])  # fmt: skip
@pytest.mark.parametrize("source", ["python", "file"])
def test_a_tool_that_has_a_models_name(
    source: str, deny: list[str], denied: set[str], tools: list[Tool]
) -> None:
    tool = Tool(add.function, name="Bash")
    agent = make_agent(source, MODELS[0], [*tools, tool], deny=deny)
    assert visible_bases(agent) == {"Bash", *NAMES} - denied
    assert visible_bases(make_agent(source, MODELS[0], [*tools, tool], allow=["Bash"])) == {"Bash"}


def test_tools_that_come_later_are_denied_and_limited() -> None:
    later = Tool(add.function, name="mcp__later__add")
    agent = Agent("simulator", tools=[add], config=ToolConfig(deny=["mcp__later__*"]))
    agent.add_tools([later])
    assert [definition.name for definition in agent.view().visible_tools] == ["add"]
    assert codes_of(agent, ("mcp__later__add", {"x": 1})) == ["denied"]
    limited = Agent("simulator", tools=[add], config=ToolConfig(max_uses={"mcp__later__add": 0}))
    limited.add_tools([later])
    assert codes_of(limited, ("mcp__later__add", {"x": 1})) == ["use_limit"]


def test_a_base_tools_name_is_only_its_own() -> None:
    for name in BASE_TOOLS:
        assert find_base_tools(name) == (name,)
    for facade in map(find_facade, FACADE_MODULES):
        for view in facade.views:
            assert find_base_tools(view.qualified_name), view.qualified_name


@pytest.mark.parametrize(("pattern", "bases"), [
    ("web_*", ("web_find", "web_open", "web_search")),
    ("shell*", ("shell", "shell_kill", "shell_list", "shell_output")),
    ("Bash", ("shell",)),
    ("str_replace_based_edit_tool", ("edit", "insert", "list_dir", "read", "view_image", "write")),
    ("nothing", ()),
])  # fmt: skip
def test_base_tools_behind_a_name(pattern: str, bases: tuple[str, ...]) -> None:
    assert set(bases) <= set(find_base_tools(pattern))
    assert pattern.endswith("*") or find_base_tools(pattern) == bases
    assert "patch" not in find_base_tools(pattern)


def test_what_is_allowed() -> None:
    names, tools = PolicyNames(find_base_tools), ["read", "shell", "add"]
    assert find_allowed(ToolConfig(), tools, names) is None
    assert find_allowed(ToolConfig(deny=["shell(rm *)"]), tools, names) is None
    assert find_allowed(ToolConfig(deny=["Bash"]), tools, names) == {"read", "add"}
    assert find_allowed(ToolConfig(allow=["Read", "add"]), tools, names) == {"read", "add"}
    assert find_allowed(ToolConfig(allow=["*"], deny=["a*"]), tools, names) == {"read", "shell"}
    assert find_allowed(ToolConfig(deny=["web_open"]), ["web", "web_find", "web_search"], names) == {
        "web_search"
    }
    assert may_come_later("mcp__a__b")
    assert may_come_later("mcp:a")
    assert not may_come_later("mcpx")
