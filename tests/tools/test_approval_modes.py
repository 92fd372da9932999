"""The approval mode `sandboxed`: what runs without a question, and what still needs an answer."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.loop.agents import Wiretap
from tests.tools.policy_kit import make_caller

from toolglot import Agent, ToolConfig, coding_tools
from toolglot.builtin.code_mode.process import find_level, find_runtime
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.tools import BuiltinOptions
from toolglot.config.settings import PolicySettings, Settings
from toolglot.config.setup import Setup
from toolglot.confine import sandbox_probe
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import SandboxProbe
from toolglot.errors import UsageError
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.policy import ToolPolicy, describe_approval_rules
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.definitions import BUILTIN_TAG, MCP_TAG
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Reply, ToolCall

has_sandbox = pytest.mark.skipif(find_level() is SandboxLevel.NONE, reason="no sandbox works here")


def change(path: str = "", leave: bool = False) -> str:
    """Change something."""
    return path


def make_tool(**options: Any) -> Tool[Any, Any]:
    fields: dict[str, Any] = {
        "tags": {BUILTIN_TAG},
        "effects": ("write", "execute"),
        "confined": True,
        **options,
    }
    return Tool(change, **fields)


def stays(arguments: dict[str, Any]) -> bool:
    return not arguments.get("leave")


def refuses(arguments: dict[str, Any]) -> bool:
    return False


def vaguely(arguments: dict[str, Any]) -> Any:
    return "yes"


def leaves(arguments: dict[str, Any]) -> str:
    return "it leaves"


def fails(arguments: dict[str, Any]) -> bool:
    raise OSError("gone")


@pytest.mark.parametrize(("options", "config", "action"), [
    ({}, {}, "run"),
    ({"confined": False}, {}, "ask"),
    ({"confined": stays}, {}, "run"),
    ({"confined": refuses}, {}, "ask"),
    ({"confined": vaguely}, {}, "ask"),
    ({"confined": fails}, {}, "ask"),
    ({"tags": {MCP_TAG}}, {}, "ask"),
    ({"tags": {BUILTIN_TAG, MCP_TAG}}, {}, "ask"),
    ({"approval": True}, {}, "ask"),
    ({"always_ask": leaves}, {}, "ask"),
    ({"always_ask": fails}, {}, "ask"),
    ({}, {"mode": "ask"}, "ask"),
    ({}, {"ask": {"write"}}, "ask"),
    ({}, {"deny": ["change"]}, "refuse"),
    ({}, {"deny": ["change(src/**)"]}, "ask"),
    ({"confined": False}, {"approve": ["change"]}, "run"),
])  # fmt: skip
def test_what_decides(options: dict[str, Any], config: dict[str, Any], action: str) -> None:
    fields: dict[str, Any] = {"mode": "sandboxed", **config}
    rules = ToolConfig(**fields)
    verdict = ToolPolicy().judge(make_tool(**options), make_caller(rules, can_ask=True), {"path": "a"})
    assert verdict.action == action


def test_arguments_decide_each_time() -> None:
    policy, tool = ToolPolicy(), make_tool(confined=stays)
    caller = make_caller(ToolConfig(mode="sandboxed"), can_ask=True)
    verdicts = [policy.judge(tool, caller, {"leave": leave}).action for leave in (False, True, False)]
    assert verdicts == ["run", "ask", "run"]
    assert policy.judge(tool, caller).action == "ask"  # nothing is known about the call


def test_a_change_of_the_mode_counts_at_once() -> None:
    policy, tool = ToolPolicy(), make_tool()
    modes: list[Any] = ["ask", "sandboxed", "ask"]
    callers = [make_caller(ToolConfig(mode=mode), can_ask=True) for mode in modes]
    assert [policy.judge(tool, caller, {}).action for caller in callers] == ["ask", "run", "ask"]


def test_an_approval_counts_only_in_the_mode_of_its_time() -> None:
    asking, sandboxed = ToolConfig(), ToolConfig(mode="sandboxed")
    assert describe_approval_rules(asking) != describe_approval_rules(sandboxed)


def test_an_unknown_mode_is_refused() -> None:
    mode: Any = "yolo"
    with pytest.raises(UsageError, match="'yolo'; known: ask, sandboxed"):
        ToolConfig(mode=mode)


# ---- an agent's option


@has_sandbox
@pytest.mark.parametrize("options", [
    {"approval_mode": "sandboxed"},
    {"approval_mode": "sandboxed", "config": ToolConfig(timeout=5)},
    {"config": ToolConfig(mode="sandboxed")},
])  # fmt: skip
def test_an_agent_in_this_mode(options: dict[str, Any], tmp_path: Path) -> None:
    agent = Agent("simulator", tools=coding_tools(tmp_path), **options)
    result = agent.run_sync(
        'call Bash {"command": "echo x > a"}\ncall WebFetch {"url": "http://192.0.2.1/", "prompt": ""}'
    )
    assert [outcome.ran for outcome in result.outcomes] == [True, False]
    assert (tmp_path / "a").exists()
    assert agent.config.timeout == (5 if "approval_mode" in options and "config" in options else 120)


@has_sandbox
@pytest.mark.skipif(not find_runtime("javascript"), reason="mini-racer is not installed")
def test_calls_of_code_are_decided_on_in_the_same_way(tmp_path: Path) -> None:
    code = (
        'text(await tools.shell({command: "echo x > a"}));'
        'text(await tools.web_open({target: "http://192.0.2.1/"}))'
    )
    reply = Reply((ToolCall("c1", "run_code", {"code": code}),), "tools")
    wiretap = Wiretap(reply, "done")
    options: Any = {"tools": coding_tools(tmp_path), "facade": "neutral", "code_mode": "javascript"}
    agent = Agent(
        "anthropic:claude-opus-4-8", key="k", transport=wiretap, approval_mode="sandboxed", **options
    )
    agent.run_sync("Go.")
    assert (tmp_path / "a").exists()
    assert "it can use the network, and no rule allows it" in json.dumps(wiretap.bodies[1])


@has_sandbox
def test_a_configured_agent_keeps_its_mode_when_it_switches_models(tmp_path: Path) -> None:
    agent = Setup(Settings()).create_agent(
        "simulator", tools=coding_tools(tmp_path), approval_mode="sandboxed"
    )
    agent.switch("simulator:gemini")
    assert agent.config.mode == "sandboxed"
    settings = Settings(policy=PolicySettings(mode="sandboxed"))
    assert Setup(settings).create_agent("simulator").config.mode == "sandboxed"
    assert Setup(settings).create_agent("simulator", approval_mode="ask").config.mode == "ask"


@pytest.mark.parametrize(
    "options", [{"approval_mode": "sandboxed"}, {"config": ToolConfig(mode="sandboxed")}]
)
def test_it_is_refused_where_no_sandbox_works(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"bubblewrap": "install it", "Landlock": "the kernel has none"}
    no_sandbox = SandboxProbe(SandboxLevel.NONE, reasons)

    def probe(roots: object) -> SandboxProbe:
        return no_sandbox

    monkeypatch.setattr(sandbox_probe, "probe_sandbox", probe)
    expected = (
        "the approval mode 'sandboxed' needs a sandbox, and none works here: install it; the kernel has none"
    )
    with pytest.raises(UsageError, match=expected):
        Agent("simulator", **options)
    agent = Agent("simulator")
    with pytest.raises(UsageError, match=expected):
        agent.config = ToolConfig(mode="sandboxed")
    assert agent.config.mode == "ask"


def test_an_agent_knows_no_other_mode() -> None:
    mode: Any = "yolo"
    with pytest.raises(UsageError, match="approval mode 'yolo'"):
        Agent("simulator", approval_mode=mode)


# ---- with the real tools


def run_calls(tools: list[Tool[Any, Any]], *calls: tuple[str, dict[str, Any]]) -> list[ToolOutcome]:
    """Run calls where nobody can be asked."""
    executor = ToolExecutor(ToolRegistry(tools), ToolConfig(mode="sandboxed"))
    numbered = [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls)]
    return asyncio.run(executor.run_all(numbered))


def codes(outcomes: list[ToolOutcome]) -> list[str]:
    return [outcome.result.error_code or "ok" for outcome in outcomes]


@has_sandbox
def test_commands_and_edits_in_the_workspace_run_unasked(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    outcomes = run_calls(
        coding_tools(root),
        ("shell", {"command": "echo one > a"}),
        ("write", {"path": "b", "content": "two"}),
        ("patch", {"text": "*** Begin Patch\n*** Add File: c\n+three\n*** End Patch"}),
    )
    assert codes(outcomes) == ["ok", "ok", "ok"], outcomes
    assert sorted(path.name for path in root.iterdir()) == [".git", "a", "b", "c"]


@has_sandbox
def test_where_nobody_can_be_asked_the_mode_is_named_if_it_helps(tmp_path: Path) -> None:
    executor = ToolExecutor(ToolRegistry(coding_tools(tmp_path)))

    def names_the_mode(name: str, **arguments: Any) -> bool:
        text = asyncio.run(executor.run(ToolCall("c", name, arguments))).result.text
        assert "nobody can be asked for approval (in Python, pass approve=…, " in text
        return "pass approve=…, ToolConfig(mode='sandboxed'), a rule" in text

    assert names_the_mode("write", path="a", content="")
    assert names_the_mode("shell", command="ls")
    assert not names_the_mode("web_open", target="http://192.0.2.1/")


@has_sandbox
def test_what_leaves_the_workspace_does_not_run_unasked(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / ".git" / "hooks").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        outcomes = run_calls(
            coding_tools(root),
            ("shell", {"command": f"echo x > {outside}", "escalate": True}),
            ("web_open", {"url": f"http://127.0.0.1:{port}/"}),
            ("write", {"path": str(outside), "content": "x"}),
            ("write", {"path": ".git/hooks/pre-commit", "content": "x"}),
            ("write", {"path": ".envrc", "content": "x"}),
            ("shell", {"command": f"echo x > {outside}; echo x > .git/hooks/pre-commit; echo x > .envrc"}),
            ("shell", {"command": f"echo x > /dev/tcp/127.0.0.1/{port}"}),
        )
        with pytest.raises(TimeoutError):
            server.accept()
    assert [outcome.ran for outcome in outcomes[:2]] == [False, False]
    assert all(outcome.result.is_error for outcome in outcomes[:5]), outcomes
    assert not outside.exists()
    assert [str(path.relative_to(root)) for path in root.rglob("*")] == [".git", ".git/hooks"]


@has_sandbox
@pytest.mark.parametrize(
    "options",
    [
        BuiltinOptions(shell=ShellOptions(network=True)),
        BuiltinOptions(shell=ShellOptions(level=SandboxLevel.NONE)),
        BuiltinOptions(unprotected={".git"}),
    ],
    ids=["network", "no sandbox", "unprotected"],
)
def test_commands_that_can_do_more_need_approval(options: BuiltinOptions, tmp_path: Path) -> None:
    (outcome,) = run_calls(coding_tools(tmp_path, options=options), ("shell", {"command": "echo x > a"}))
    assert codes([outcome]) == ["approval_required"]
    assert not (tmp_path / "a").exists()


def test_edits_need_approval_if_something_protected_was_opened(tmp_path: Path) -> None:
    tools = coding_tools(tmp_path, options=BuiltinOptions(unprotected={".git"}))
    (outcome,) = run_calls(tools, ("write", {"path": "a", "content": "x"}))
    assert codes([outcome]) == ["approval_required"]
