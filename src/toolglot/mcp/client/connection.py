"""One server: starts it, lists what it offers, calls it, and restarts it when it has died, all in one event
loop.

A connection is a separate task (`run`), because the SDK's cancel scopes must be exited by the task that
entered them. Each call also runs in its own task, so that one that hangs or is cancelled does not disturb the
others.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from logging import DEBUG, INFO, WARNING
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.common.known_keys import known_keys
from toolglot.common.loggers import get_logger
from toolglot.common.redact import redact
from toolglot.common.textutil import truncate
from toolglot.errors import ToolError, ToolglotError, UsageError
from toolglot.mcp.client.answers import failure_cause
from toolglot.mcp.client.calls import ServerCalls, explain_error, first_error
from toolglot.mcp.client.http_transport import http_transport
from toolglot.mcp.client.incoming import CheckedStream
from toolglot.mcp.client.listing import (
    McpPrompt,
    McpResource,
    McpServerStatus,
    list_all,
    list_prompts,
    list_resources,
    make_tools,
)
from toolglot.mcp.client.oauth import LoopbackPage, create_sign_in
from toolglot.mcp.client.oauth_gate import OAuthGate
from toolglot.mcp.client.servers import McpServer
from toolglot.mcp.client.stdio import OutputTail, stdio_transport
from toolglot.mcp.client.thread import ServerThread
from toolglot.tools.results import describe_error
from toolglot.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types
    from mcp.client._transport import TransportStreams

    from mcp import Client

__all__ = ["Connection"]

log = get_logger("toolglot.mcp")
_MAX_ATTEMPTS = 5  # reconnection attempts; after these, only a call or the user starts another
_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.5, 30.0
_STABLE_SECONDS = 30.0  # a server that ran this long may be restarted at once
_SIGN_IN_SECONDS = 300.0
_REFRESH_SECONDS = 0.2  # between refreshes of the lists: a server may announce changes endlessly
_CATCH_UP_SECONDS = 5.0  # to read a changed list of tools, before a call that needs to know it
_PING_SECONDS = 1.0
_LIST_SHARE = 0.2  # of `start_timeout`, for each list after the tools
_MAX_LOG_LINES = 100  # per connection; later messages are logged at DEBUG
_SANDBOX_HINT = (
    "(its sandbox exposes only the workspace and installed programs; sandbox = false in your "
    "settings turns it off)"
)
_LEVELS = {"debug": DEBUG, "info": DEBUG, "notice": DEBUG, "warning": INFO}


class Connection:
    """A server.

    `launch` returns the server to start instead; `on_change` receives its new tools and its removed tools.
    """

    def __init__(
        self,
        name: str,
        server: McpServer,
        *,
        thread: ServerThread,
        launch: Callable[[str, McpServer], McpServer] | None,
        on_change: "Callable[[Connection, dict[str, Tool], dict[str, Tool]], None]",
        roots: Sequence[str],
        sign_in: Callable[[str, str], None] | None,
        authenticate: Callable[[str, McpServer], Any] | None,
    ) -> None:
        self.name, self.server = name, server
        self.thread, self._launch, self._on_change = thread, launch, on_change
        self._roots, self._sign_in, self._authenticate = roots, sign_in, authenticate
        state = "connecting" if server.enabled else "disabled"
        self.status = McpServerStatus(name=name, state=state)
        self.tools: dict[str, tuple[bytes, Tool]] = {}
        self.prompts: tuple[McpPrompt, ...] = ()
        self.resources: tuple[McpResource, ...] = ()
        self.client: Client | None = None
        self._starting: Client
        self._problems: dict[str, str] = {}
        self._tail = OutputTail(name)
        self.http_status = 0
        self.end_reason = ""
        self.has_expired = False
        self._clock: asyncio.Timeout | None = None  # of the start
        self.calls = ServerCalls(self)
        self.expires_at = float("inf")
        self._log_lines = 0
        self.settled = asyncio.Event()
        """Set while it is ready or has failed, but not while it is connecting."""
        self.was_settled = False
        """It has been ready or has failed before, so later changes are reported."""
        self.is_unreachable = False
        """The last connection ended because no request could be sent."""
        self.lost = asyncio.Event()
        """The connection has ended."""
        self.wanted = asyncio.Event()
        """A connection is wanted now."""
        self.changed = asyncio.Event()
        """What it offers has changed."""
        self._is_refreshing = False

    # ---- life cycle

    async def run(self) -> None:
        """Keep the server connected until this is cancelled."""
        loop, attempt = asyncio.get_running_loop(), 0
        while True:
            self.wanted.clear()
            self.lost.clear()
            self.end_reason, self.http_status, ready_at = "", 0, None
            self.is_unreachable = self.has_expired = False
            self._set_state("connecting", self.status.error)
            try:
                async with self._connect() as client:
                    ready_at = loop.time()
                    self.client = client
                    self.wanted.clear()
                    self._set_state("ready")
                    await self._serve(client)
                error = self._complete(f"the connection has ended: {self.end_reason or 'it was closed'}")
            except asyncio.CancelledError:
                self.client = None
                self._set_state("stopped")
                raise
            except (Exception, BaseExceptionGroup) as e:  # the SDK's tasks raise groups
                error = self._explain(e)
                self.is_unreachable = type(first_error(e)).__name__ in ("ConnectError", "ConnectTimeout")
            self.client = None
            if ready_at is not None and loop.time() - ready_at > _STABLE_SECONDS:
                attempt = 0
            attempt += 1
            may_retry = attempt <= _MAX_ATTEMPTS and (ready_at is not None or attempt > 1)
            log.info("MCP server %s: %s", self.name, error)
            self._set_state("connecting" if may_retry else "failed", error)
            if not may_retry:
                self._on_change(self, {}, {})
            delay = min(_BACKOFF_SECONDS * 2 ** (attempt - 1), _MAX_BACKOFF_SECONDS) if may_retry else None
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self.wanted.wait()
            if self.wanted.is_set():
                attempt = 0

    @property
    def is_connected(self) -> bool:
        """Whether calls can be sent."""
        return self.client is not None and not self.lost.is_set()

    def reconnect(self) -> None:
        """Reconnect now, unless it is already connecting."""
        self.settled.clear()
        if self.client is not None:
            self.lost.set()
        self.wanted.set()

    def _set_state(self, state: Any, error: str = "") -> None:
        self.status = replace(self.status, state=state, error=error)
        if state in ("ready", "failed", "stopped"):
            self.settled.set()
            self.was_settled = True
        else:
            self.settled.clear()

    @asynccontextmanager
    async def _connect(self) -> "AsyncGenerator[Client]":
        """Start the server and list what it offers, within its `start_timeout`."""
        from mcp_types import Implementation

        from mcp import Client

        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.server.start_timeout) as self._clock:
                page = LoopbackPage()
                stack.callback(page.close)
                transport = await self._make_transport(page)
                client = self._starting = Client(
                    self._open_transport(transport),
                    elicitation_callback=self.calls.elicit,
                    list_roots_callback=self._list_roots if self._roots else None,
                    logging_callback=self._log_message,
                    message_handler=self._handle_message,
                    client_info=Implementation(
                        name="toolglot", version=import_module("toolglot").__version__
                    ),
                )
                await stack.enter_async_context(client)
                client.session.validate_tool_result = self.calls.accept_result
                info = client.server_info
                self.status = replace(
                    self.status,
                    protocol=client.protocol_version,
                    server_name=info.name if info else "",
                    server_version=info.version if info else "",
                    instructions=client.instructions or "",
                )
                await self._refresh(client)
            self._clock = None
            yield client

    async def _make_transport(self, page: LoopbackPage) -> Any:
        server = self.server
        if server.command:
            if self._launch is not None:
                server = await asyncio.to_thread(self._launch, self.name, server)
            elif server.sandbox:
                raise UsageError(
                    "it must run in a sandbox: pass launch=, which creates one, or remove sandbox=True"
                )
            self._tail = OutputTail(self.name)  # an earlier process's output explains nothing
            return stdio_transport(server, self._tail, self.end)
        auth = self._authenticate(self.name, server) if self._authenticate is not None else None
        has_header = any(header.lower() == "authorization" for header in server.headers)
        gate: OAuthGate | None = None
        if auth is None and not has_header:
            show = partial(self._sign_in, self.name) if self._sign_in is not None else None
            gate = OAuthGate(self.name, server.url, has_person=show is not None)
            auth = await create_sign_in(server, show, page, gate, self._wait_for_user)
        return http_transport(server, auth, gate, self._note_status, self.end)

    @asynccontextmanager
    async def _open_transport(self, transport: Any) -> "AsyncGenerator[TransportStreams]":
        def version() -> str:
            with suppress(RuntimeError):  # nothing is negotiated yet
                return self._starting.protocol_version
            return "2025-11-25"

        async with transport as (read_stream, write_stream):
            yield CheckedStream(read_stream, version, self._note_problem), write_stream

    def end(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason
        self.lost.set()

    def end_session(self) -> None:
        """End the connection because the server has forgotten its session."""
        self.has_expired = True
        self.end("its session has expired")

    def _note_status(self, status: int) -> None:
        self.http_status = status

    def _wait_for_user(self) -> None:
        if self._clock is not None and not self._clock.expired():  # a later call may need further permissions
            self._clock.reschedule(asyncio.get_running_loop().time() + _SIGN_IN_SECONDS)

    def _explain(self, error: BaseException) -> str:
        """Return one sentence on why the server cannot be used."""
        error = first_error(error)
        module = type(error).__module__
        if isinstance(error, TimeoutError):
            reason = f"it did not answer within {self.server.start_timeout:g} s"
        elif isinstance(error, ToolglotError):
            reason = str(error)
        elif module.startswith("httpx2"):
            reason = f"{self.server.url} cannot be reached: {describe_error(error)}"
        elif module.startswith("mcp.client.auth"):
            reason = f"signing in failed: {str(error).strip()}"
            if self.http_status == 401:
                reason += "; if it expects a token instead, set it in the Authorization header"
        elif module.startswith("mcp"):
            # After another failure we close the connection ourselves: that is not the cause.
            reason = self.end_reason if str(error) == "Connection closed" and self.end_reason else str(error)
        else:
            reason = explain_error(error)
        return self._complete(reason)

    def _complete(self, reason: str) -> str:
        """Add the server's last output, and redact secrets."""
        has_exited = reason.startswith("it exited")
        if self.server.command and self._tail.last_line:
            reason += f"; last output: {self._tail.last_line}"
        # an argument may come from a variable of the user with a key
        secrets = {*self.server.secrets, *known_keys()}
        reason = truncate(redact(reason.replace("\n", " "), secrets, by_name=True), 600)
        return f"{reason} {_SANDBOX_HINT}" if has_exited and self.server.sandbox else reason

    # ---- tools, prompts and resources

    async def _serve(self, client: "Client") -> None:
        """Keep the server's lists up to date until the connection is lost."""
        tasks = [asyncio.create_task(self._keep_fresh(client))]
        if client.session.discover_result is not None:  # 2026-07-28: changes require a subscription
            tasks.append(asyncio.create_task(self._listen(client)))
        try:
            await self.lost.wait()
            if self.has_expired:
                await self.calls.drain()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_fresh(self, client: "Client") -> None:
        from mcp import MCPError

        while True:
            await self.changed.wait()
            self._is_refreshing = True
            self.changed.clear()
            try:
                async with asyncio.timeout(self.server.start_timeout):
                    await self._refresh(client)
            except Exception as e:
                if isinstance(e, MCPError) and failure_cause(e.error) == "session":
                    self.end_session()
                self._log_lines += 1
                level = WARNING if self._log_lines <= _MAX_LOG_LINES else DEBUG
                log.log(
                    level, "MCP server %s: its lists cannot be refreshed: %s", self.name, self._explain(e)
                )
            finally:
                self._is_refreshing = False
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _listen(self, client: "Client") -> None:
        offers = client.server_capabilities
        wanted: dict[str, Any] = {
            f"{kind}_list_changed": True
            for kind in ("tools", "prompts", "resources")
            if getattr(getattr(offers, kind), "list_changed", False)
        }
        delay = _BACKOFF_SECONDS
        while wanted and delay <= _MAX_BACKOFF_SECONDS:
            try:
                async with client.listen(**wanted) as subscription:
                    self.changed.set()  # changes before the subscription were missed
                    async for _ in subscription:
                        delay = _BACKOFF_SECONDS
                        self.changed.set()
            except Exception as e:
                log.debug("MCP server %s: it no longer reports changes: %s", self.name, describe_error(e))
            await asyncio.sleep(delay)
            delay *= 2

    async def _refresh(self, client: "Client") -> None:
        """List tools, prompts and resources. If listing the latter two fails, the tools still work."""
        offers, loop = client.server_capabilities, asyncio.get_running_loop()
        problems = self._problems = {}
        items, lifetime = list[Any](), 0
        if offers.tools is not None:
            items, lifetime = await list_all(
                lambda cursor: client.list_tools(cursor=cursor, cache_mode="refresh"),
                lambda page: page.tools,
                lambda problem: problems.update({"*": problem}),
            )
        self.expires_at = loop.time() + lifetime / 1000 if lifetime else float("inf")
        old = self.tools
        self.tools = make_tools(self.name, self.server, items, self.calls.call, old, problems)
        for _, tool in self.tools.values():
            tool.catch_up = self.catch_up
        added = {tool.name: tool for _, tool in self.tools.values()}
        removed = {tool.name: tool for _, tool in old.values()}
        # now: a server could delay the other lists, and what it says about its tools would not count yet
        self._on_change(
            self,
            {name: tool for name, tool in added.items() if removed.get(name) is not tool},
            {name: tool for name, tool in removed.items() if name not in added},
        )
        seconds = self.server.start_timeout * _LIST_SHARE
        if offers.prompts is not None:
            self.prompts = await list_prompts(self.name, client, problems, seconds)
        if offers.resources is not None:
            self.resources = await list_resources(self.name, client, problems, seconds)
        for tool, problem in problems.items():
            log.info("MCP server %s, tool %s: %s", self.name, tool, problem)
        counts = {
            "tool_count": len(self.tools),
            "prompt_count": len(self.prompts),
            "resource_count": len(self.resources),
        }
        self.status = replace(self.status, problems=dict(problems), **counts)

    async def catch_up(self) -> bool:
        """Wait until the changes that the server has announced are read; reconnect if it has died.

        From any event loop.

        False: nobody knows what its tools are now.
        """

        async def wait() -> bool:
            try:
                await self._ping(await self.calls.get_client())
                await self.calls.get_client()  # another one, if it has died: its list may differ
                async with asyncio.timeout(_CATCH_UP_SECONDS):
                    while self.changed.is_set() or self._is_refreshing:
                        await asyncio.sleep(0.01)
            except (TimeoutError, ToolError):
                return False
            return True

        try:
            return await asyncio.wrap_future(self.thread.submit(wait()))
        except UsageError:  # the servers are closed
            return False

    async def _ping(self, client: "Client") -> None:
        """Wait for an answer: what the server announced before has then arrived, unless it uses a connection
        of its own.
        """
        from mcp_types import CONNECTION_CLOSED, EmptyResult, PingRequest, RequestParams

        from mcp import MCPError

        session = client.session
        try:
            async with asyncio.timeout(_PING_SECONDS):
                if session.discover_result is None:
                    await session.send_request(PingRequest(params=RequestParams()), EmptyResult)
                else:  # 2026-07-28 has no ping
                    await session.send_discover(client.protocol_version)
        except TimeoutError:
            pass  # it is busy with another call
        except MCPError as e:  # or it knows no ping, which is an answer, too
            if failure_cause(e.error) == "session":
                self.end_session()
            elif e.error.code == CONNECTION_CLOSED:  # the SDK says so before its transport does
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PING_SECONDS):
                        await self.lost.wait()

    def _note_problem(self, kind: str, name: str, reason: str) -> None:
        self._problems[name if kind == "tools" else f"{kind}: {name}"] = f"left out: {reason}"

    # ---- notifications and requests from the server

    async def _handle_message(self, message: Any) -> None:
        if str(getattr(message, "method", "")).endswith("/list_changed"):
            self.changed.set()

    async def _log_message(self, params: "mcp_types.LoggingMessageNotificationParams") -> None:
        self._log_lines += 1
        level = _LEVELS.get(params.level, WARNING) if self._log_lines <= _MAX_LOG_LINES else DEBUG
        text = params.data if isinstance(params.data, str) else dumps_text(params.data)
        log.log(level, "MCP server %s: %s", self.name, truncate(text, 500))

    async def _list_roots(self, context: Any) -> "mcp_types.ListRootsResult":
        from mcp_types import ListRootsResult

        return ListRootsResult.model_validate({"roots": [{"uri": root} for root in self._roots]})
