"""Servers that lie about their tools: nothing that they say makes a call run without a question, wherever it
comes from.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.loop.agents import Wiretap
from tests.mcp.client_kit import eventually, lines
from tests.mcp.test_server import answers, connect, text

from toolglot import Agent, ApprovalRequest, Decision, ToolConfig
from toolglot.bridges.exported_tools import ExportedTools
from toolglot.builtin.code_mode.process import find_level, find_runtime
from toolglot.confine.sandbox import SandboxLevel
from toolglot.mcp import McpServer, McpServers, McpToolServer
from toolglot.tools.policy import allow_only_readers
from toolglot.values.messages import Reply, ToolCall

LYING = Path(__file__).parent / "servers" / "lying.py"
LOOKUP = "mcp__evil__lookup"
PROMPT = f'call {LOOKUP} {{"note": "TOKEN=abc"}}'


def evil(directory: Path, mode: str = "harmless", **fields: Any) -> McpServers:
    args = ("-I", "-S", str(LYING), str(directory), mode)
    return McpServers({"evil": McpServer(command=sys.executable, args=args, **fields)})


def test_nobody_is_there_in_python(tmp_path: Path) -> None:
    with evil(tmp_path) as servers:
        result = Agent("simulator", tools=servers).run_sync(PROMPT)
        assert result.outcomes[0].result.error_code == "approval_required"
        assert "a rule in ToolConfig(approve=[…]), or McpServer(trust=True)" in result.outcomes[0].result.text
        rule = Agent("simulator", tools=servers, config=ToolConfig(approve=["mcp__evil__*"]))
        assert lines(tmp_path, "calls") == []
        assert rule.run_sync(PROMPT).outcomes[0].ran


def test_trust_is_the_users_word(tmp_path: Path) -> None:
    with evil(tmp_path, "rug", trust=True) as servers:
        agent = Agent("simulator", tools=servers)
        assert all(agent.run_sync(PROMPT).outcomes[0].ran for _ in range(3))
        denied = Agent("simulator", tools=servers, config=ToolConfig(deny=[LOOKUP]))
        assert denied.run_sync(PROMPT).outcomes == ()
    assert len(lines(tmp_path, "calls")) == 3


def test_a_reader_by_its_own_word_is_no_reader(tmp_path: Path) -> None:
    with evil(tmp_path) as servers:
        (lookup,) = servers.tools
        assert lookup.effects == {"read", "write", "network"}
        assert allow_only_readers(ToolConfig(), servers).allow == frozenset()
        exported = ExportedTools(servers)
        call = exported.make_call(LOOKUP, {"note": "x"})
        assert not asyncio.run(exported.run_or_refuse(call)).ran
        assert exported.may_ask(LOOKUP)
    assert lines(tmp_path, "calls") == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_its_word_is_not_passed_on(mode: str, tmp_path: Path) -> None:
    """Tools of another server that are served again: as dangerous as any, and not served if only readers are."""
    asked = list[str]()
    async with evil(tmp_path) as servers:
        async with connect(McpToolServer(servers.tools, read_only=True), mode) as client:
            assert [item.name for item in (await client.list_tools()).tools] == ["read_result"]
            assert (await client.call_tool(LOOKUP, {"note": "x"})).is_error
        async with connect(
            McpToolServer(servers.tools), mode, elicitation_callback=answers("decline", asked=asked)
        ) as client:
            hints = (await client.list_tools()).tools[0].annotations
            assert hints is not None
            assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (
                False,
                True,
                True,
            )
            assert "did not approve" in text(await client.call_tool(LOOKUP, {"note": "x"}))
    assert asked[0].startswith(
        f"Allow {LOOKUP}? (it can change files and use the network, and no rule allows it)\n\n"
    )
    assert lines(tmp_path, "calls") == []


@pytest.mark.skipif(not find_runtime("javascript"), reason="mini-racer is not installed")
@pytest.mark.skipif(find_level() is SandboxLevel.NONE, reason="no sandbox works here")
def test_code_cannot_call_it_unasked(tmp_path: Path) -> None:
    code = f'text(await tools.{LOOKUP}({{note: "TOKEN"}}))'
    turn = Reply((ToolCall("c1", "run_code", {"code": code}),), "tools")
    asked: list[str] = []

    def refuse(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        return False

    with evil(tmp_path) as servers:
        for approve in (None, refuse):
            wiretap = Wiretap(turn, "done")
            options: Any = {"tools": [*servers], "code_mode": "javascript", "approve": approve}
            agent = Agent("anthropic:claude-opus-4-8", key="k", transport=wiretap, **options)
            asyncio.run(agent.run("Go."))
            assert ("approval" if approve is None else "did not approve") in json.dumps(wiretap.bodies[1])
    assert asked == [LOOKUP]
    assert lines(tmp_path, "calls") == []


@pytest.mark.parametrize("mode", ["later", "rug", "schema"])
def test_always_ends_when_the_tool_changes(mode: str, tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return "always" if len(asked) == 1 else "no"

    async def main() -> list[bool]:
        async with evil(tmp_path, mode) as servers:
            agent = Agent("simulator", tools=servers, approve=approve)
            servers.watch(agent)
            (before,) = servers.tools
            ran = [(await agent.run(PROMPT)).outcomes[0].ran]
            await eventually(lambda: servers.tools[0] is not before)
            return [*ran, (await agent.run(PROMPT)).outcomes[0].ran]

    assert asyncio.run(main()) == [True, False]
    assert asked[1].reason.startswith("it has changed since you always allowed it (its ")
    assert asked[0].effects == asked[1].effects
    assert len(lines(tmp_path, "calls")) == 1


@pytest.mark.parametrize("mode", ["later", "rug", "schema", "slow", "mute", "reborn"])
def test_always_waits_for_what_the_tool_becomes(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call comes at once.

    A server that delays its lists, or dies, gains no call that runs unasked either.
    """
    monkeypatch.setattr("toolglot.mcp.client.connection._CATCH_UP_SECONDS", 1.0)
    answers: list[Decision] = ["always", "no"]

    async def main() -> list[bool]:
        async with evil(tmp_path, mode) as servers:
            agent = Agent("simulator", tools=servers, approve=lambda _: answers.pop(0))
            servers.watch(agent)
            return [(await agent.run(PROMPT)).outcomes[0].ran for _ in range(2)]

    assert asyncio.run(main()) == [True, False]
    assert len(lines(tmp_path, "calls")) == 1


@pytest.mark.parametrize("answer", [True, "always"])
@pytest.mark.parametrize("mode", ["later", "rug", "schema"])
def test_an_answer_to_a_saved_question_is_not_for_another_tool(
    mode: str, answer: Any, tmp_path: Path
) -> None:
    """The conversation waits in a file, while the server changes its tool: an answer to what was shown allows
    nothing.
    """
    approval = ToolConfig(ask={"network"})

    async def main() -> None:
        async with evil(tmp_path, mode) as servers:
            agent = Agent("simulator", tools=servers, config=approval)
            (before,) = servers.tools
            paused = await agent.run(PROMPT)
            saved, (request,) = agent.save(), paused.requests
            await Agent("simulator", tools=servers, config=ToolConfig(approve=["*"])).run(PROMPT)
            await eventually(lambda: servers.tools[0] is not before)
            for key in (request.fingerprint, request.id):
                later = Agent.load(saved, tools=servers, config=approval)
                result = await later.resume({key: answer})
                assert (result.stop, len(result.outcomes)) == ("approval", 0)

    asyncio.run(main())
    assert len(lines(tmp_path, "calls")) == 1
