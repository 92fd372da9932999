"""The MCP servers that a command uses: which are started, in which sandbox, and what is reported to the user."""

import sys
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from toolglot.cli.printer import print_note
from toolglot.common.textutil import pluralize
from toolglot.config.mcp_files import ServerInput
from toolglot.config.mcp_servers import AskInput, ServerCatalog, ServerEntry
from toolglot.config.settings import Settings
from toolglot.errors import UnknownName, UsageError
from toolglot.mcp.client.launch import prepare_server
from toolglot.mcp.client.servers import McpServer

if TYPE_CHECKING:
    from toolglot.builtin.shell.server_sandbox import ServerSandbox
    from toolglot.mcp.client.client import McpServers
    from toolglot.mcp.client.listing import McpServerStatus

__all__ = ["CliServers", "UseServers", "describe_entry", "describe_status"]

_PATIENCE_SECONDS = 3.0  # before a note says what takes so long
UseServers = Literal["no", "start", "wait"] | Set[str]
"""Which configured servers a command uses: none, all without waiting for them, all, or only these."""


class CliServers:
    """Starts a catalog's servers in the background.

    Unusable servers are reported in `problems` and raise no errors.

    `only`: start just these; the caller reports on them itself. `has_user`: somebody is there who can sign
    in.
    """

    def __init__(
        self,
        catalog: ServerCatalog,
        settings: Settings,
        *,
        root: Path,
        extra: Mapping[str, McpServer] | None = None,
        only: Iterable[str] | None = None,
        ask: AskInput | None = None,
        has_user: bool = False,
    ) -> None:
        self.catalog = catalog
        self.notify: Callable[[str], None] = print_note
        """Notifies the user of changes and sign-ins; called from any thread."""
        self.problems: dict[str, str] = {}
        self._told: set[str] = set()
        self._notes = [*catalog.notes]
        servers = self._confine(extra or {}, root.absolute())
        entries = [entry for entry in catalog.servers if entry.name not in servers]
        if only is not None:
            wanted = set(only)
            entries = [entry for entry in entries if entry.name in wanted]
        for entry in entries:
            try:
                servers[entry.name] = entry.resolve(ask if entry.settings.enabled else None)
            except UsageError as e:
                if entry.settings.enabled:
                    self.problems[entry.name] = str(e)
        self.sandbox: ServerSandbox | None = None
        if any(server.sandbox and server.enabled for server in servers.values()):
            from toolglot.builtin.configured import configured_server_sandbox

            self.sandbox = configured_server_sandbox(settings, root, [entry.directory for entry in entries])
        self.client: McpServers | None = None
        if servers:
            from toolglot.mcp.client import client  # slow to import

            try:
                self.client = client.McpServers(
                    servers,
                    launch=self._launch,
                    on_change=lambda text: self.notify(f"MCP server {text}") if only is None else None,
                    sign_in=self._find_sign_in(has_user=has_user),
                )
                self.client.start()
            except UsageError as e:  # the package is missing; everything else must still work
                self.problems |= {name: str(e) for name, server in servers.items() if server.enabled}

    def _confine(self, extra: Mapping[str, McpServer], directory: Path) -> dict[str, McpServer]:
        """Return an editor's servers as they are started; a note says which of them are in the sandbox, and
        why.
        """
        servers: dict[str, McpServer] = {}
        for name, server in extra.items():
            servers[name], use = self.catalog.confine(server, directory)
            if use:
                self._notes.append(
                    f"the MCP server {name} runs in the sandbox: {use} is in the workspace, which is not "
                    "trusted"
                )
        return servers

    def _launch(self, name: str, server: McpServer) -> McpServer:
        """Return what to start instead of a server, each time that it starts. Raises UsageError."""
        if server.sandbox and self.sandbox is not None:
            return self.sandbox(name, server)
        return prepare_server(name, server, self.catalog.workspace)

    @classmethod
    def open(
        cls,
        use: UseServers,
        catalog: ServerCatalog,
        settings: Settings,
        root: Path,
        extra: Mapping[str, McpServer],
        *,
        has_user: bool,
    ) -> "CliServers | None":
        """Start the servers that a command uses; None if it uses none."""
        if use == "no":
            return None
        only = use if isinstance(use, Set) else None
        has_servers = bool(catalog.servers or extra)
        if only is not None:  # whoever names one learns why it is missing
            has_servers |= bool(catalog.withheld)
        if not has_servers and not catalog.notes:
            return None
        ask = _ask_for_input if has_user else None
        return cls(catalog, settings, root=root, extra=extra, only=only, ask=ask, has_user=has_user)

    def _find_sign_in(self, *, has_user: bool) -> Callable[[str, str], None] | None:
        """Return the function that shows where to sign in; None if nobody would see it."""
        is_at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        if not (has_user or is_at_terminal):
            return None
        return lambda name, address: self.notify(f"sign in to the MCP server {name} at {address}")

    @property
    def tools(self) -> tuple[Any, ...]:
        """The tools of the servers that are ready."""
        return self.client.tools if self.client is not None else ()

    def status(self) -> "tuple[McpServerStatus, ...]":
        """Return the state of each server, including those that could not be started."""
        from toolglot.mcp.client.listing import McpServerStatus

        failed = (
            McpServerStatus(name=name, state="failed", error=error) for name, error in self.problems.items()
        )
        if self.client is None:
            return tuple(failed)
        return (*self.client.status(), *failed)

    def wait(self) -> None:
        """Wait until each server is ready or has failed."""
        if self.client is None:
            return
        self.client.wait_ready(_PATIENCE_SECONDS)
        if slow := [status.name for status in self.client.status() if status.state == "connecting"]:
            self.notify(f"waiting for MCP servers: {', '.join(slow)}")
            self.client.wait_ready()

    def list_notices(self) -> list[str]:
        """Return notes for the user, each only once; failures are reported when they happen."""
        notes = [*self._notes, *self.problems.values()]
        for status in self.status():
            if status.problems:
                count = pluralize(len(status.problems), "tool")
                notes.append(
                    f"MCP server {status.name}: {count} left out or changed (toolglot mcp test {status.name})"
                )
        new = [note for note in dict.fromkeys(notes) if note not in self._told]
        self._told.update(new)
        return new

    def restart(self, name: str) -> "McpServerStatus":
        """Restart a server; return its state. Raises UnknownName, UsageError."""
        if name in self.problems:
            raise UsageError(self.problems[name])
        if self.client is None:
            raise UnknownName("MCP server", name, [])
        self.client.restart(name)
        return next(status for status in self.client.status() if status.name == name)

    def close(self) -> None:
        """Stop the servers."""
        if self.client is not None:
            self.client.close()
        if self.sandbox is not None:
            self.sandbox.close()


def _ask_for_input(wanted: ServerInput) -> str | None:
    """Ask on the terminal for a VS Code input."""
    choices = click.Choice(wanted.options) if wanted.options else None
    try:
        return click.prompt(
            wanted.description or wanted.id,
            type=choices,
            hide_input=wanted.is_password,
            default=wanted.default or None,
        )
    except click.Abort:
        return None


def describe_entry(entry: ServerEntry, *, is_trusted: bool = True) -> str:
    """Return in a few words whether a server is used."""
    if not is_trusted:
        return "not trusted: run toolglot trust"
    if not entry.settings.enabled:
        return "disabled"
    return entry.problem or "enabled"


def describe_status(status: "McpServerStatus") -> str:
    """Return the state of a server in a few words."""
    if status.state != "ready":
        return f"{status.state}: {status.error}" if status.error else status.state
    counts = [
        (status.tool_count, "tool"),
        (status.prompt_count, "prompt"),
        (status.resource_count, "resource"),
    ]
    return ", ".join(
        ["ready", *(pluralize(count, word) for count, word in counts if count or word == "tool")]
    )
