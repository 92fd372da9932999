"""MCP servers in the sandbox of commands: what is started instead of them."""

import os
from pathlib import Path
from threading import Lock

from msgspec.structs import replace

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell.manager import ShellManager, ShellOptions
from toolglot.builtin.shell.protected_paths import ProtectedSnapshot
from toolglot.builtin.tool_state import ToolState
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.server_worker import plan_worker
from toolglot.errors import UsageError
from toolglot.mcp.client.servers import McpServer

__all__ = ["ServerSandbox"]


class _RunningServer:
    """What the guard of protected names knows of a server."""

    def __init__(self, handle: str, snapshots: tuple[ProtectedSnapshot, ...]) -> None:
        self.handle, self.snapshots, self.is_running = handle, snapshots, True


class ServerSandbox:
    """Confines servers to a workspace: `McpServers(launch=…)`. Close it when they have ended."""

    def __init__(self, workspace: Workspace, options: ShellOptions, state_dir: Path | None = None) -> None:
        self._workspace, self._options, self._state_dir = workspace, options, state_dir
        self._managers: dict[bool, tuple[ToolState, ShellManager]] = {}  # by whether they may use the network
        self._servers: list[_RunningServer] = []
        self._lock = Lock()

    @property
    def label(self) -> str:
        """How servers are confined; "" if they cannot be."""
        level = self._manager(network=False).level
        return level.label if level is not SandboxLevel.NONE else ""

    def __call__(self, name: str, server: McpServer) -> McpServer:
        """Return what to start instead of a server. Raises UsageError if no sandbox works here."""
        if not server.sandbox or not server.command:
            return server
        network = self._options.network if server.network is None else server.network
        manager = self._manager(network=network)
        if manager.level is SandboxLevel.NONE:
            hint = "install bubblewrap, or write sandbox = false for it in your own configuration"
            raise UsageError(f"the MCP server {name} was not started: no sandbox works here ({hint})")
        cwd = Path(os.path.realpath(server.cwd or self._workspace.root))
        if not any(cwd.is_relative_to(root.path) for root in self._workspace.roots):
            raise UsageError(
                f"the MCP server {name} was not started: its directory {str(cwd)!r} is outside the workspace"
            )
        confinement, plan = manager.confine_program(cwd)
        with self._lock:
            number = len(self._servers)
            process = _RunningServer(f"{name}-{number}", plan.snapshots)
            self._servers.append(process)
        manager.guard.watch(process)
        file = confinement.scratch.parent / f"server-{number}.json"  # a name may be long, or none for a file
        worker = plan_worker([server.command, *server.args], cwd, server.env, confinement, file)
        return replace(server, command=worker.command, args=worker.args, env=worker.variables, cwd="/")

    def _manager(self, *, network: bool) -> ShellManager:
        with self._lock:
            if network not in self._managers:
                state = ToolState(self._workspace, state_dir=self._state_dir)
                self._managers[network] = state, ShellManager(state, replace(self._options, network=network))
            return self._managers[network][1]

    def close(self) -> None:
        """Delete the private files of the servers, and close the workspace."""
        for server in self._servers:
            server.is_running = False
        for _, manager in self._managers.values():
            for server in self._servers:
                manager.guard.check(server)  # for the last time
            manager.close()
        self._workspace.close()
