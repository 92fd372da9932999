"""MCP servers as tools, and tools as an MCP server. The official SDK (extra `mcp`) is imported when it is first needed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolglot.mcp.client.client import McpServers as McpServers
    from toolglot.mcp.client.listing import McpPrompt as McpPrompt
    from toolglot.mcp.client.listing import McpPromptArgument as McpPromptArgument
    from toolglot.mcp.client.listing import McpResource as McpResource
    from toolglot.mcp.client.listing import McpServerStatus as McpServerStatus
    from toolglot.mcp.client.loading import load_servers as load_servers
    from toolglot.mcp.client.servers import McpOAuth as McpOAuth
    from toolglot.mcp.client.servers import McpServer as McpServer
    from toolglot.mcp.serve.http import http_app as http_app
    from toolglot.mcp.serve.http import serve_http as serve_http
    from toolglot.mcp.serve.server import McpToolServer as McpToolServer
    from toolglot.mcp.serve.server import current_request as current_request
    from toolglot.mcp.serve.stdio import serve_stdio as serve_stdio

_HOMES = {
    "client.client": "McpServers",
    "serve.http": "http_app serve_http",
    "client.listing": "McpPrompt McpPromptArgument McpResource McpServerStatus",
    "client.loading": "load_servers",
    "serve.server": "McpToolServer current_request",
    "client.servers": "McpOAuth McpServer",
    "serve.stdio": "serve_stdio",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot.mcp' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(f"toolglot.mcp.{_HOME[name]}"), name)
    except ModuleNotFoundError as e:  # includes packages that the SDK needs
        raise ImportError(f"MCP support needs a missing package ({e}): run `pip install 'toolglot[mcp]'`") from None
    return value
