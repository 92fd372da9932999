"""Servers that break other clients: a tool loop works on every wire, every request is judged, and nobody else
is hurt.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.loop.agents import PROVIDERS, Wiretap, check, check_bodies, make_agent, results_of, run
from tests.mcp.servers.nasty import BAD, LONG_NAME, MANY, ODD

from toolglot.mcp import McpServer, McpServers
from toolglot.mcp.names import server_prefix, tool_name
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, ApprovalRequest
from toolglot.values.messages import Media, Reply, Text, ToolCall

NASTY = Path(__file__).parent / "servers" / "nasty.py"
TREE: dict[str, Any] = {"tree": {"value": 1, "children": [{"value": 2, "children": []}]}}
# What the model calls, turn by turn: server, tool, arguments.
Call = tuple[str, str, dict[str, Any]]
TURNS: list[list[Call]] = [
    [
        ("one", LONG_NAME, {"name": "first"}),
        ("two", LONG_NAME, {"name": "second"}),
        ("one", "files.read.v2", {"name": "a.txt"}),
        ("one", "root_any_of", {"id": 7}),
        ("two", "root_one_of", {"name": "x"}),
        ("one", "recursive", TREE),
        ("one", "whole_root", {"value": 3, "children": []}),
        ("two", "modern", {"pair": ["a", 1], "kind": "a"}),
        ("one", "no_type", {"id": 5}),
    ],
    [
        ("one", name, {})
        for name in ("picture", "sound", "links", "structured", "fails", "unknown_content", "progress", "ask")
    ],
    [("one", "noise", {}), ("one", "huge", {}), ("slow", "hang", {}), ("two", "die", {})],
    [("one", "count", {}), ("two", "count", {}), ("slow", "count", {})],
]


def server(mode: str, **fields: Any) -> McpServer:
    return McpServer(command=sys.executable, args=("-I", "-S", str(NASTY), mode), **fields)


@pytest.fixture(scope="module")
def servers() -> Iterator[McpServers]:
    """All of them at once; the same program under two names."""
    rows = {
        "one": server("odd"),
        "two": server("odd"),
        "slow": server("odd", timeout=0.3),
        "many": server("many"),
        "broken": server("broken"),
        "endless": server("endless"),
        "deep": server("deep"),
        "silent": server("silent", start_timeout=0.3),
        "gone": server("gone"),
    }
    with McpServers(rows) as connected:
        yield connected


def make_replies(turns: list[list[Call]]) -> list[Reply]:
    """Return what the model says: the calls of each turn, then that it is done."""
    rows = [
        [ToolCall(f"c{n}x{i}", tool_name(*call[:2]), call[2]) for i, call in enumerate(row)]
        for n, row in enumerate(turns)
    ]
    return [*(Reply(tuple(row), "tools") for row in rows), Reply((Text("Done."),))]


def decide(request: ApprovalRequest) -> Allow:
    return Allow(arguments={"color": "blue"} if request.form else None)


def tools_of(servers: McpServers, *names: str) -> list[Tool]:
    return [tool for tool in servers.tools if tool.name.startswith(tuple(map(server_prefix, names)))]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_loop_works_on_every_wire(provider: str, servers: McpServers) -> None:
    wiretap = Wiretap(*make_replies(TURNS))
    agent = make_agent(provider, wiretap, tools=tools_of(servers, "one", "two", "slow"), approve=decide)
    result = run(agent.run("Try everything."))
    assert result.text == "Done."
    answers = iter(results_of(result.messages))
    results = {(name, tool): next(answers) for row in TURNS for name, tool, _ in row}

    for row in TURNS[0]:
        assert results[row[:2]].text == f"{row[1]} got {json.dumps(row[2], sort_keys=True)}"
    shown = {tool: results["one", tool] for _, tool, _ in TURNS[1]}
    assert [
        block.media_type
        for name in ("picture", "sound")
        for block in shown[name].content
        if isinstance(block, Media)
    ] == [
        "image/png",
        "audio/wav",
    ]
    assert "the notes themselves" in shown["links"].text
    assert "file:///far.bin" in shown["links"].text
    assert '"n"' in shown["structured"].text
    assert (shown["fails"].is_error, shown["fails"].text) == (True, "the disk is full")
    assert "and text" in shown["unknown_content"].text
    assert '"color": "blue"' in shown["ask"].text

    assert results["one", "noise"].text == "after the noise"
    assert 1000 < len(results["one", "huge"].text) < 200_000
    assert results["slow", "hang"].is_error
    assert results["two", "die"].is_error
    assert "may or may not have run" in results["two", "die"].text
    assert "cancelled 0" in results["one", "count"].text
    assert "calls 1," in results["two", "count"].text  # started again
    # the server was told, and the connection lives on
    assert "cancelled 0" not in results["slow", "count"].text

    check_bodies(agent.view().engine, wiretap)
    check(result.messages)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_hundreds_of_tools_are_deferred_and_found(provider: str, servers: McpServers) -> None:
    record, search = (
        tool_name("many", "record_123"),
        Reply((ToolCall("c1", "search_tools", {"query": "record 123"}),), "tools"),
    )
    wiretap = Wiretap(search, Reply((ToolCall("c2", record, {"id": 9}),), "tools"), Reply((Text("Done."),)))
    is_limited = provider.startswith("openai")  # to 128 tools; elsewhere it depends on the window
    agent = make_agent(
        provider, wiretap, tools=servers, approve=decide, **({} if is_limited else {"defer": True})
    )
    result = run(agent.run("Read record 123."))
    record_result, got = results_of(result.messages)
    assert record in record_result.text
    assert got.text == 'record_123 got {"id": 9}'
    deferral = agent.view().deferral
    assert deferral is not None
    assert deferral.is_automatic == is_limited
    assert len(deferral.names) >= len(MANY)
    check_bodies(agent.view().engine, wiretap)
    check(result.messages)


def test_bad_tools_and_servers_take_nobody_down(servers: McpServers) -> None:
    status = {item.name: item for item in servers.status()}
    states = {name: item.state for name, item in status.items()}
    assert (
        states.items()
        >= {"one": "ready", "many": "ready", "broken": "ready", "silent": "failed", "gone": "failed"}.items()
    )
    assert (status["one"].tool_count, status["many"].tool_count) == (len(ODD), len(MANY))
    assert len({tool.name for tool in servers}) == len(servers.tools)
    assert all(len(tool.name) <= 64 for tool in servers)
    assert (states["deep"], status["deep"].error) == (
        "failed",
        "its answer cannot be read: it is nested too deeply",
    )
    assert "cannot open display" in status["gone"].error
    assert "did not answer" in status["silent"].error
    assert status["broken"].problems.keys() >= {"bad_type", "dangling", "not_an_object", "fine"}
    offered = {servers.origin(tool.name) for tool in tools_of(servers, "broken")}
    assert offered >= {("broken", name) for name in ("fine", "control", "no_schema", "spaces and / slashes")}
    assert status["broken"].tool_count == len(offered) < len(BAD)
    assert status["endless"].tool_count == 5
