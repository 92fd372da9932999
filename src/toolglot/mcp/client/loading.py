"""MCP servers from files, for programs."""

from importlib import import_module
from pathlib import Path
from typing import Any

from toolglot.common.loggers import get_logger
from toolglot.errors import UsageError
from toolglot.mcp.client.servers import McpServer

__all__ = ["load_servers"]

log = get_logger("toolglot.mcp")


def load_servers(*files: str | Path, directory: Path | None = None) -> dict[str, McpServer]:
    """Return the MCP servers in JSON files (Claude Code, VS Code or Cursor format), or the configured ones,
    for `McpServers`.

    Variables are substituted. A server that cannot be used is left out, with a warning. A server from a
    project's file has `sandbox` set, and so needs a `launch`.

    Args:
        files: The files. Without any, the settings and a trusted project's files are read.
        directory: The project's directory. Default: the current directory.

    Raises UsageError if a file cannot be read.
    """
    # Imported by name, because the configuration depends on this package.
    layers: Any = import_module("toolglot.config.layers")
    catalog: Any = import_module("toolglot.config.mcp_servers")
    configuration = layers.read_configuration(
        directory=directory, flags={"mcp.enabled": False} if files else None
    )
    found = catalog.find_servers(configuration, files=map(Path, files), directory=directory)
    servers: dict[str, McpServer] = {}
    for note in found.notes:
        log.warning("%s", note)
    for entry in found.servers:
        try:
            servers[entry.name] = entry.resolve()
        except UsageError as e:
            log.warning("%s", e)
    return servers
