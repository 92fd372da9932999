"""MCP servers that an editor passes to a session."""

from collections.abc import Iterable

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from toolglot.errors import UsageError
from toolglot.mcp.client.servers import McpServer

__all__ = ["EditorServer", "read_servers"]

EditorServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


def read_servers(servers: Iterable[EditorServer]) -> tuple[dict[str, McpServer], list[str]]:
    """Return an editor's servers by name, and a sentence for each that cannot be used."""
    usable: dict[str, McpServer] = {}
    problems: list[str] = []
    for server in servers:
        try:
            match server:
                case McpServerStdio():
                    env = {variable.name: variable.value for variable in server.env}
                    usable[server.name] = McpServer(command=server.command, args=tuple(server.args), env=env)
                case HttpMcpServer():
                    headers = {header.name: header.value for header in server.headers}
                    usable[server.name] = McpServer(url=server.url, headers=headers)
                case SseMcpServer() | AcpMcpServer():
                    raise UsageError(
                        f"its transport ({server.type}) is not supported; use stdio or Streamable HTTP"
                    )
        except UsageError as e:
            problems.append(f"the MCP server {server.name} is not used: {e}")
    return usable, problems
