"""MCP servers as tools, and tools as an MCP server.

The official SDK (extra `mcp`) is imported when it is first needed.

Type checkers read `__init__.pyi`, which `make docs` generates from this table.
"""

from importlib import import_module

# module -> names
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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot.mcp' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(f"toolglot.mcp.{_HOME[name]}"), name)
    except ModuleNotFoundError as e:  # includes packages that the SDK needs
        raise ImportError(
            f"MCP support needs a missing package ({e}): run `pip install 'toolglot[mcp]'`"
        ) from None
    return value
