"""What the tests of the MCP client share: the scripted server, and calls of its tools."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolglot import ToolConfig, ToolResult
from toolglot.mcp import McpServer, McpServers
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import Approve
from toolglot.values.messages import ToolCall

SCRIPT = Path(__file__).with_name("scripted_server.py")
ALLOW_ALL = ToolConfig(ask=())


def server(directory: Path, *modes: str, **fields: Any) -> McpServer:
    directory.mkdir(exist_ok=True)
    return McpServer(command=sys.executable, args=("-I", "-S", str(SCRIPT), str(directory), *modes), **fields)


async def run(
    servers: McpServers, tool: str, approve: Approve | None = None, emit: Any = None, **arguments: Any
) -> ToolResult:
    executor = ToolExecutor(ToolRegistry(servers), ALLOW_ALL, approve=approve)
    name = tool if tool.startswith("mcp__") else f"mcp__s__{tool}"
    return (await executor.run(ToolCall("c1", name, arguments), emit=emit)).result


def call(servers: McpServers, tool: str, approve: Approve | None = None, **arguments: Any) -> ToolResult:
    return asyncio.run(run(servers, tool, approve, **arguments))


def lines(directory: Path, name: str) -> list[str]:
    file = directory / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)
