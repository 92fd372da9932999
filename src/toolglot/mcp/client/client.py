"""MCP servers whose tools an agent can use, from any thread and any event loop.

All servers share one event loop in a separate thread, so that a server that hangs does not block anything
else, and several agents can use the same servers. Their state is replaced as a whole, so that it can be read
at any time.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from logging import NullHandler, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from toolglot.common.loggers import get_logger
from toolglot.common.textutil import pluralize
from toolglot.errors import UnknownName, UsageError
from toolglot.mcp.client.content import Part
from toolglot.mcp.client.listing import McpPrompt, McpResource, McpServerStatus
from toolglot.mcp.client.servers import McpServer, remember_secrets
from toolglot.mcp.client.thread import ServerThread
from toolglot.tools.tool import Tool
from toolglot.values.messages import Message

if TYPE_CHECKING:
    from toolglot.mcp.client.connection import Connection

__all__ = ["McpServers"]

log = get_logger("toolglot.mcp")
# the SDK's loggers: if logging is not configured, their tracebacks would be printed
for _name in ("mcp", "client"):
    getLogger(_name).addHandler(NullHandler())


class Agent(Protocol):
    """What `watch` needs of an agent."""

    def add_tools(self, tools: Iterable[Tool], *, replace: bool = False) -> None: ...
    def remove_tools(self, tools: Iterable[str | Tool]) -> None: ...


class McpServers:
    """MCP servers by name.

    As a context manager, it connects to all of them concurrently and waits until they are ready.

    `status` reports servers that fail; the others still work.

    Args:
        servers: The servers to start or connect to.
        launch: Returns the server to start instead, for example with its command wrapped in a sandbox.
        on_change: Called with one sentence for each change after the start ("github: 2 tools added") and each
            failure.
        roots: Directories in which servers should work.
        sign_in: Called with a server's name and a URL; shows the user where to sign in. Without it, a server
            that requires signing in fails.
        authenticate: Returns an `httpx2.Auth` for a server, or None to sign in with OAuth.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        launch: Callable[[str, McpServer], McpServer] | None = None,
        on_change: Callable[[str], None] | None = None,
        roots: Sequence[str | Path] = (),
        sign_in: Callable[[str, str], None] | None = None,
        authenticate: Callable[[str, McpServer], Any] | None = None,
    ) -> None:
        is_mapping = isinstance(servers, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance]
        items: Iterable[Any] = servers.values() if is_mapping else [None]
        if not all(isinstance(item, McpServer) for item in items):
            raise UsageError(
                "McpServers takes a dict of names to McpServer(…); toolglot.mcp.load_servers(FILE) reads one "
                "from a file"
            )
        if servers and find_spec("mcp") is None:
            raise UsageError("MCP servers need the mcp package; install it with: pip install 'toolglot[mcp]'")
        for server in servers.values():
            remember_secrets(server)
        self._thread = ServerThread()
        self._lock = threading.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._on_change = on_change
        self._agents: weakref.WeakKeyDictionary[Any, dict[str, Tool]] = weakref.WeakKeyDictionary()
        addresses = [Path(root).absolute().as_uri() for root in roots]
        self._connections: dict[str, Connection] = {}
        if servers:
            from toolglot.mcp.client import connection  # which needs the package

            self._connections = {
                name: connection.Connection(
                    name,
                    server,
                    thread=self._thread,
                    launch=launch,
                    on_change=self._note_change,
                    roots=addresses,
                    sign_in=sign_in,
                    authenticate=authenticate,
                )
                for name, server in servers.items()
            }
        weakref.finalize(self, self._thread.finalize)  # also runs when the program ends

    # ---- start and end

    def start(self) -> None:
        """Start connecting to all servers in the background. Calling it again does nothing."""

        def run_all() -> None:
            servers = [connection for connection in self._connections.values() if connection.server.enabled]
            self._tasks = [self._thread.loop.create_task(connection.run()) for connection in servers]

        if self._thread.start():
            self._thread.post(run_all)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until every server is ready or has failed, for at most `timeout` seconds; each also has its
        own limit.
        """
        self._thread.submit(self._wait_settled(timeout)).result()

    async def wait_ready_async(self, timeout: float | None = None) -> None:
        """Like `wait_ready`, without blocking the event loop."""
        await asyncio.wrap_future(self._thread.submit(self._wait_settled(timeout)))

    async def _wait_settled(self, timeout: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for connection in self._connections.values():
                    if connection.server.enabled:
                        await connection.settled.wait()

    def restart(self, name: str) -> None:
        """Reconnect to a server and wait for it; check `status` for the outcome. Raises UnknownName."""
        connection = self._get(name)
        if not connection.server.enabled:
            raise UsageError(f"the MCP server {name} is disabled in the settings")

        async def restart() -> None:
            connection.reconnect()
            await connection.settled.wait()

        self._thread.submit(restart()).result()

    def close(self) -> None:
        """Disconnect from all servers, and stop those that were started here."""
        self._thread.close()

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self.start()
        await self.wait_ready_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # ---- contents

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all servers that are or have been connected, for an agent or a registry."""
        return tuple(
            tool for connection in self._connections.values() for _, tool in [*connection.tools.values()]
        )

    def __iter__(self) -> Iterator[Tool]:
        # otherwise an agent would silently have no tools
        if not self._thread.is_started and self._connections:
            raise UsageError("the MCP servers have not been started; use `with servers:` or servers.start()")
        return iter(self.tools)

    @property
    def prompts(self) -> tuple[McpPrompt, ...]:
        """The prompts of all servers."""
        return tuple(prompt for connection in self._connections.values() for prompt in connection.prompts)

    @property
    def resources(self) -> tuple[McpResource, ...]:
        """The resources and resource templates of all servers."""
        return tuple(
            resource for connection in self._connections.values() for resource in connection.resources
        )

    def status(self) -> tuple[McpServerStatus, ...]:
        """Return the state of each server."""
        return tuple(connection.status for connection in self._connections.values())

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return a tool's server and its name there; None if it belongs to none of these servers."""
        for connection in self._connections.values():
            for own_name, (_, tool) in [*connection.tools.items()]:
                if tool.name == name:
                    return connection.name, own_name
        return None

    async def read_resource(self, server: str, uri: str) -> tuple[Part, ...]:
        """Return the contents of a resource.

        Raises UnknownName for the server, ToolError if it cannot be read.
        """
        return await asyncio.wrap_future(self._thread.submit(self._get(server).calls.read_resource(uri)))

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> tuple[Message, ...]:
        """Return the messages of a prompt. Raises UnknownName for the server, ToolError if it has none."""
        return await asyncio.wrap_future(
            self._thread.submit(self._get(server).calls.get_prompt(name, dict(arguments or {})))
        )

    def _get(self, name: str) -> "Connection":
        if name not in self._connections:
            raise UnknownName("MCP server", name, self._connections)
        return self._connections[name]

    # ---- changes

    def watch(self, agent: Agent) -> None:
        """Keep an agent's tools up to date; its conversations record which tools were added and removed."""
        with self._lock:
            self._agents.setdefault(agent, {})
            self._update_agent(agent)

    def _update_agent(self, agent: Agent) -> None:
        # under the lock: the latest state must be the last one applied
        tools = {tool.name: tool for tool in self.tools}
        known = self._agents[agent]
        for name in [name for name in known if name not in tools]:
            with suppress(UnknownName):  # the program removed it itself
                agent.remove_tools([name])
        if new := [tool for name, tool in tools.items() if known.get(name) is not tool]:
            agent.add_tools(new, replace=True)
        self._agents[agent] = tools

    def _update_agents(self) -> None:
        with self._lock:
            for agent in [*self._agents]:
                try:
                    self._update_agent(agent)
                except Exception as e:  # must not affect the server or other agents
                    log.warning("an agent cannot use the MCP servers' tools: %r", e)

    def _note_change(
        self, connection: "Connection", added: dict[str, Tool], removed: dict[str, Tool]
    ) -> None:
        """Report a change; runs in the servers' thread."""
        self._update_agents()
        state, text = connection.status.state, ""
        if state == "failed":
            text = f"{connection.name} cannot be used: {connection.status.error}"
        elif connection.was_settled and (added or removed):
            counts = [(len(added), "added or changed"), (len(removed), "removed")]
            changes = " and ".join(f"{pluralize(count, 'tool')} {verb}" for count, verb in counts if count)
            text = f"{connection.name}: {changes}"
        if self._on_change is None:
            if state == "failed":
                log.warning("MCP server %s", text)
        elif text:
            try:
                self._on_change(text)
            except Exception as e:
                log.warning("on_change raised: %r", e)
