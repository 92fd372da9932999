"""`toolglot mcp serve` as clients start it: a program of its own, on stdin and stdout or over HTTP."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from msgspec.structs import replace
from tests.cli.cli_kit import PLAIN, run_cli

import toolglot.mcp
from mcp import Client, MCPError
from toolglot import ApprovalRequest, Deny, ToolCall
from toolglot.cli.mcp_serve import make_approve

BOTH = (False, True)
TOOLS = '''
import os, sys
from toolglot import tool
print("not the protocol")
os.write(1, b"not the protocol either")
@tool
def shout(text: str) -> str:
    """Shout a text."""
    print("not the protocol")
    os.write(1, b"not the protocol either")
    return text.upper() + sys.stdin.read()
'''


@asynccontextmanager
async def client_of(*words: str, mode: Any = "auto", **options: Any) -> AsyncGenerator[Client]:
    command = ["-m", "toolglot.cli.main", "mcp", "serve", *words]
    parameters = StdioServerParameters(command=sys.executable, args=command, env={**os.environ, **PLAIN})
    with open(os.devnull, "w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode, **options) as client:
            yield client


def text(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_built_in_tools_on_stdin_and_stdout(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / "own.py").write_text(TOOLS)
    asked: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={})

    words = ("--root", str(tmp_path), "--tools", str(tmp_path / "own.py"), "--approve", "shell(cat *)")
    async with client_of(*words, elicitation_callback=answer) as client:
        assert client.protocol_version == "2026-07-28"
        assert client.instructions is not None
        assert str(tmp_path) in client.instructions
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"read_file", "edit", "shell", "shout"} <= {*names}
        assert "ask_user" not in names
        assert text(await client.call_tool("shout", {"text": "hi"})) == "HI"
        assert "hello" in text(await client.call_tool("shell", {"command": "cat a.txt"}))
        assert asked == []
        change = {"path": "a.txt", "old": "hello", "new": "bye"}
        assert "read" in text(await client.call_tool("edit", change))
        await client.call_tool("read_file", {"path": "a.txt"})
        await client.call_tool("edit", change)
        assert "-hello" in asked[-1]
    assert (tmp_path / "a.txt").read_text() == "bye\n"


async def test_the_names_of_a_model_read_only_in_the_older_protocol(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    words = ("--root", str(tmp_path), "-m", "anthropic:claude-sonnet-5", "--read-only")
    async with client_of(*words, mode="legacy") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"Read", "Grep", "Glob"} <= {*names}
        assert not {"Bash", "Write", "Edit"} & {*names}
        assert "hello" in text(await client.call_tool("Read", {"file_path": str(tmp_path / "a.txt")}))
        with pytest.raises(MCPError, match="no such tool: 'Write'"):
            await client.call_tool("Write", {"file_path": str(tmp_path / "b"), "content": ""})
    assert not (tmp_path / "b").exists()


async def test_http_clients_have_commands_of_their_own(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "toolglot.cli.main",
        "mcp",
        "serve",
        "--http",
        "0",
        "--root",
        str(tmp_path),
        "--yes",
        "--facade",
        "neutral",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **PLAIN}, text=True
    )
    assert process.stdout is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        assert line.startswith("listening on http://127.0.0.1:")
        url = line.split()[-1]
        async with Client(url, mode="legacy") as first, Client(url, mode="legacy") as second:
            started = await first.call_tool("shell", {"command": "sleep 60", "background": True})
            assert not started.is_error, text(started)
            assert "sleep 60" in text(await first.call_tool("shell_list", {}))
            assert "sleep 60" not in text(await second.call_tool("shell_list", {}))
        process.send_signal(signal.SIGTERM)
        out, err = await asyncio.to_thread(process.communicate)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_it_although_the_client_is_still_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolglot.cli.main", "mcp", "serve", "--root", str(tmp_path)]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env={**os.environ, **PLAIN}, **streams) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert b'"id":1' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert (process.wait(), process.stderr and process.stderr.read()) == (0, b"")


def test_stdout_has_nothing_but_the_protocol(tmp_path: Path) -> None:
    """Also not what a module with tools prints when it is imported."""
    (tmp_path / "own.py").write_text(TOOLS)
    words = ("--root", str(tmp_path), "--tools", str(tmp_path / "own.py"), "--no-builtin")
    command = [sys.executable, "-m", "toolglot.cli.main", "mcp", "serve", *words]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env={**os.environ, **PLAIN}, text=True, **streams) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        out, err = process.communicate()
    assert (out, err.count("not the protocol")) == ("", 2)


def test_wrong_usage() -> None:
    assert run_cli("mcp", "serve", "--host", "0.0.0.0") == (
        2,
        "",
        "toolglot: --host and --token are for HTTP: add --http PORT\n",
    )
    code, _, err = run_cli("mcp", "serve", "--http", "0", "--host", "0.0.0.0")
    assert (code, "set TOOLGLOT_MCP_TOKEN" in err) == (2, True)
    code, _, err = run_cli("mcp", "serve", "--http", "0", "--host", "0.0.0.0", "--token", "short")
    assert (code, "at least 16" in err, "short" in err) == (2, True, False)
    code, _, err = run_cli("mcp", "serve", "--no-builtin")
    assert (code, "no tools to serve" in err) == (2, True)
    assert (run_cli("mcp").code, run_cli("mcp").out) == (0, run_cli("mcp", "--help").out)
    code, _, err = run_cli("mcp", "srve")
    assert (code, "did you mean 'serve'" in err) == (2, True)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(toolglot.mcp), "serve_stdio", raising=False)
    monkeypatch.setitem(sys.modules, "toolglot.mcp.serve.stdio", None)
    code, _, err = run_cli("mcp", "serve")
    assert (code, "run `pip install 'toolglot[mcp]'`" in err, len(err.splitlines())) == (1, True, 1)


def test_yes_covers_nothing_outside_the_sandbox() -> None:
    """Over HTTP without a token, nobody can allow that: whoever connects would answer the question."""
    call = ToolCall("c", "shell", {"command": "id"})
    inside = ApprovalRequest(call, "shell", frozenset({"execute"}), "id", reason="it can run commands")
    outside = replace(inside, each_time=True, reason="it leaves the sandbox")
    table = {
        (yes, known): [make_approve(yes, known)(each) for each in (inside, outside)]
        for yes in BOTH
        for known in BOTH
    }
    refused = Deny("this is possible only on stdin and stdout, or with a token: it leaves the sandbox")
    assert table == {
        (0, 0): ["later", refused],
        (0, 1): ["later", "later"],
        (1, 0): ["yes", refused],
        (1, 1): ["yes", "later"],
    }
