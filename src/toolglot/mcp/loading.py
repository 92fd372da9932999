"""MCP servers from files, for programs."""

from importlib import import_module
from logging import getLogger
from pathlib import Path
from typing import Any

from toolglot.errors import UsageError
from toolglot.mcp.servers import McpServer

__all__ = ["load_servers"]

log = getLogger("toolglot.mcp")


def load_servers(*files: str | Path, directory: Path | None = None) -> dict[str, McpServer]:
    """Return the MCP servers of JSON files in Claude's, VS Code's or Cursor's form, or of the configuration, for `McpServers`.

    Variables are filled in. A server that cannot be used is left out, with a warning. One that a project's file names has
    `sandbox` set: it needs a `launch`.

    Args:
        files: The files; without any, the settings and the files of a trusted project count.
        directory: Where the project is. Default: the current directory.

    Raises UsageError if a file cannot be read.
    """
    # By name: the configuration builds on this package.
    layers: Any = import_module("toolglot.config.layers")
    catalog: Any = import_module("toolglot.config.mcp_servers")
    configuration = layers.read_configuration(directory=directory, flags={"mcp.enabled": False} if files else None)
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
