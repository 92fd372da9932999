"""MCP servers that others wrote, from npm and PyPI, of both generations: a tool loop on every wire, prompts
and resources.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.loop.agents import (
    PROVIDERS,
    Wiretap,
    check,
    check_bodies,
    collect_events,
    make_agent,
    results_of,
    run,
)
from tests.npm.packages import npm_program

from toolglot.common.jsontext import loads_object
from toolglot.mcp import McpServer, McpServers
from toolglot.values.approvals import Allow, ApprovalRequest
from toolglot.values.events import RunDone, ToolProgress
from toolglot.values.messages import Media, Reply, Text, ToolCall

Call = tuple[str, dict[str, Any]]


def server(*command: str, **fields: Any) -> McpServer:
    return McpServer(command=command[0], args=command[1:], **fields)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files").resolve()


@pytest.fixture(scope="module")
def http_address() -> Iterator[str]:
    """The address of a server of npm that speaks Streamable HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*npm_program("mcp-server-everything"), "streamableHttp"]
    with subprocess.Popen(
        command, env={**os.environ, "PORT": str(port)}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "listening on port" not in (line := process.stderr.readline()):
            assert line, "the server ended"
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.fixture(scope="module")
def servers(directory: Path, http_address: str) -> Iterator[McpServers]:
    pytest.importorskip("mcp_server_time")
    rows = {
        "everything": server(*npm_program("mcp-server-everything")),
        "remote": McpServer(url=http_address),
        "files": server(*npm_program("mcp-server-filesystem"), str(directory)),
        "time": server(sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"),
    }
    with McpServers(rows) as connected:
        yield connected


def answer(request: ApprovalRequest) -> Allow:
    return Allow(arguments={"name": "Ada"} if request.form else None)


def test_both_generations_are_spoken(servers: McpServers) -> None:
    assert [status.problems for status in servers.status()] == [{}] * 4
    session, modern = ("ready", "2025-11-25"), ("ready", "2026-07-28")
    assert {status.name: (status.state, status.protocol) for status in servers.status()} == {
        "everything": session,
        "remote": session,
        "files": session,
        "time": modern,
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_loop_works_on_every_wire(provider: str, servers: McpServers, directory: Path) -> None:
    file = str(directory / f"{provider}.txt")
    turns: list[list[Call]] = [
        [
            ("mcp__everything__echo", {"message": "hello"}),
            ("mcp__remote__get-sum", {"a": 2, "b": 40}),
            ("mcp__everything__get-tiny-image", {}),
            ("mcp__remote__get-structured-content", {"location": "New York"}),
            ("mcp__everything__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("mcp__everything__trigger-long-running-operation", {"duration": 0.02, "steps": 2}),
            ("mcp__everything__trigger-elicitation-request", {}),
            (
                "mcp__time__convert_time",
                {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            ),
            ("mcp__files__write_file", {"path": file, "content": "one\ntwo\n"}),
        ],
        [("mcp__files__edit_file", {"path": file, "edits": [{"oldText": "two", "newText": "three"}]})],
        [
            ("mcp__files__read_text_file", {"path": file}),
            ("mcp__files__read_text_file", {"path": "/etc/hostname"}),
        ],
    ]
    replies = [
        Reply(tuple(ToolCall(f"c{n}x{i}", *call) for i, call in enumerate(row)), "tools")
        for n, row in enumerate(turns)
    ]
    wiretap = Wiretap(*replies, Reply((Text("Done."),)))
    agent = make_agent(provider, wiretap, tools=servers, approve=answer)
    events = run(collect_events(agent.stream("Try them.")))
    *_, done = events
    assert isinstance(done, RunDone)
    echo, added, image, weather, reference, _, form, time, _, edited, text, outside = results_of(
        done.result.messages
    )
    assert echo.text == "Echo: hello"
    assert "42" in added.text
    assert [block.media_type for block in image.content if isinstance(block, Media)] == ["image/png"]
    assert loads_object(weather.text).keys() >= {"temperature"}
    assert "demo://resource/dynamic/text/1" in reference.text
    assert "Ada" in form.text
    assert "21:00" in time.text
    assert "+three" in edited.text
    assert text.text == "one\nthree\n"
    assert outside.is_error
    assert "outside allowed directories" in outside.text
    assert any(isinstance(event, ToolProgress) for event in events)
    check_bodies(agent.view().engine, wiretap)
    check(done.result.messages)


async def test_prompts_and_resources(servers: McpServers) -> None:
    named = {(prompt.server, prompt.name) for prompt in servers.prompts}
    assert named >= {("everything", "args-prompt"), ("remote", "args-prompt")}
    prompts = await asyncio.gather(
        *(servers.get_prompt(name, "args-prompt", {"city": "Oslo"}) for name in ("everything", "remote"))
    )
    assert ["Oslo" in messages[0].text for messages in prompts] == [True, True]
    resource = next(resource for resource in servers.resources if resource.media_type == "text/markdown")
    (part,) = await servers.read_resource(resource.server, resource.uri)
    assert isinstance(part, Text)
    assert len(part.text) > 100
