"""Real clients of others use `toolglot mcp serve`: MCP's Inspector, Claude Code and Codex.

They come from npm with the tests; the model of the coding agents is the simulator.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.npm.packages import npm_program
from tests.simulator.test_real_programs import CLAUDE, CODEX, FIND, PROGRAMS, run_program

from toolglot.builtin.tools import builtins
from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.facades.catalog import find_facade
from toolglot.mcp import McpToolServer, serve_http

SERVE = ("-m", "toolglot.cli.main", "mcp", "serve")


async def inspect(*words: str, home: Path) -> tuple[int, dict[str, Any], str]:
    process = await asyncio.create_subprocess_exec(
        *npm_program("mcp-inspector"),
        "--cli",
        *words,
        env={**os.environ, "HOME": str(home)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, loads_object(out or b"{}"), err.decode()


async def test_the_inspector_lists_and_calls(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    (work / "note.txt").write_text("the password is swordfish\n", encoding="utf-8")
    loaded = builtins(work, state_dir=tmp_path / "state")
    served = McpToolServer(loaded.tools, facade=find_facade("neutral"), approval_hint="Use --yes.")
    server, call = (sys.executable, *SERVE, "--root", str(work)), ("--method", "tools/call", "--tool-name")
    try:
        async with serve_http(served) as url:
            listed, refused, read = await asyncio.gather(
                inspect(url, "--method", "tools/list", "--strict", home=home),
                inspect(url, *call, "shell", "--tool-arg", "command=rm note.txt", home=home),
                inspect(*server, *call, "read_file", "--tool-arg", "path=note.txt", home=home),
            )
    finally:
        loaded.close()
    assert (listed[0], listed[2]) == (0, "")  # no complaint about any schema
    assert {"read_file", "edit", "shell"} <= {tool["name"] for tool in listed[1]["tools"]}
    assert (read[0], read[1]["isError"]) == (0, False)
    assert "swordfish" in read[1]["content"][0]["text"]
    assert refused[1]["isError"]
    assert "needs approval" in refused[1]["content"][0]["text"]
    assert (work / "note.txt").exists()


@pytest.mark.parametrize("program", ["claude", "codex"])
async def test_coding_agents_use_the_tools(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*SERVE, "--root", str(tmp_path / "work"), "--yes"]
    environment = {name: os.environ[name] for name in ("TOOLGLOT_STATE", "TOOLGLOT_CONFIG")}
    if program == "claude":
        server = {"command": sys.executable, "args": arguments, "env": environment}
        config = dumps_text({"mcpServers": {"toolglot": server}})
        words = ("--strict-mcp-config", "--mcp-config", config.replace("{", "{{").replace("}", "}}"), *CLAUDE)
    else:
        # Without `required`, Codex does not wait for a server before its first request.
        fields = f"required=true,command={dumps_text(sys.executable)},args={dumps_text(arguments)}"
        variables = ",".join(f"{name}={dumps_text(value)}" for name, value in environment.items())
        words = (
            *CODEX[:1],
            "-c",
            f"mcp_servers.toolglot={{{{{fields},env={{{{{variables}}}}}}}}}",
            *CODEX[1:],
            "gpt-5.5",
        )
    # Claude Code waits only a moment for its servers, which is not enough on a busy machine.
    patience = {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "60000"}
    monkeypatch.setitem(PROGRAMS, "with our tools", (program, words, patience, ""))
    # Both show the tools of servers only when the model looks for them.
    tool = "mcp__toolglot__shell"
    search = (
        'call tool_search {"query": "toolglot shell run command", "limit": 3}'
        if program == "codex"
        else FIND.format(tool)
    )
    prompt = f'{search}\nthen call {tool} {{"command": "cat note.txt"}}\nthen say It is done.'
    output, wiretap = await run_program("with our tools", prompt, tmp_path)
    assert "It is done." in output
    assert "swordfish" in wiretap.exchanges[-1][2].decode()
