"""Calls to a server's tools, prompts and resources, each in its own task in the servers' event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from toolglot.common.known_keys import known_keys
from toolglot.common.loggers import get_logger
from toolglot.common.redact import redact
from toolglot.common.textutil import truncate
from toolglot.errors import ToolError, UsageError
from toolglot.mcp.client.answers import failure_cause
from toolglot.mcp.client.content import Part, convert_messages, convert_resource, convert_result
from toolglot.mcp.client.remote_call import CallWaits, RemoteCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, describe_error
from toolglot.values.messages import Message

if TYPE_CHECKING:
    import mcp_types

    from mcp import Client
    from toolglot.mcp.client.connection import Connection

__all__ = ["ServerCalls", "explain_error", "first_error"]

log = get_logger("toolglot.mcp")
_current_call: ContextVar[RemoteCall | None] = ContextVar("toolglot_mcp_call", default=None)
_URL_ELICITATION_REQUIRED = -32042
_CAUSE_SECONDS = 0.5
_DRAIN_SECONDS = 2.0


def first_error(error: BaseException) -> Exception:
    """Return the first exception in a group, which caused the others."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(BaseExceptionGroup[Exception], error).exceptions[0]
    return cast(Exception, error)


def explain_error(error: BaseException) -> str:
    """Describe an error briefly. For an invalid response, describe its first problem."""
    error = first_error(error)
    if type(error).__module__.startswith("pydantic"):
        issue = cast(Any, error).errors()[0]
        return f"its response is not valid MCP ({'.'.join(map(str, issue['loc']))}: {issue['msg']})"
    return describe_error(error)


class ServerCalls:
    """The calls to one server. They use its current connection, and wait for a new one if there is none."""

    def __init__(self, link: "Connection") -> None:
        self._link = link
        self._running: list[RemoteCall] = []
        self._sent_count = 0
        """Calls that wait for the server's answer."""

    async def elicit(self, context: Any, params: "mcp_types.ElicitRequestParams") -> "mcp_types.ElicitResult":
        from mcp_types import ElicitResult

        # Over stdio, the older protocol does not say which call a question belongs to: the latest is the best
        # guess.
        call = _current_call.get() or (self._running[-1] if self._running else None)
        if call is None:
            log.info(
                "MCP server %s asked a question outside of a call; the question was declined", self._link.name
            )
            return ElicitResult(action="decline")
        return await call.elicit(params)

    async def call(
        self, tool: str, context: Context, arguments: dict[str, Any], is_repeatable: bool
    ) -> ToolOutput:
        """Call a tool, from any event loop."""
        suspension = context.inner_tools.suspension if context.inner_tools is not None else None
        if isinstance(suspension, CallWaits):
            return await suspension.call.wait(context)
        call = RemoteCall(self._link.name, context, self._link.server.timeout, self._link.thread.loop)
        work = self._run_call(call, tool, arguments, is_repeatable)
        try:
            # with the caller's context variables, so that its trace continues
            self._link.thread.post(call.start, work)
        except UsageError:
            work.close()
            raise ToolError(
                f"{self._link.name} is closed; the call did not run.", code="mcp_not_connected"
            ) from None
        return await call.wait(context)

    async def _run_call(
        self, call: RemoteCall, tool: str, arguments: dict[str, Any], is_repeatable: bool
    ) -> ToolOutput:
        from mcp import MCPError

        _current_call.set(call)
        self._running.append(call)
        if self._link.thread.loop.time() > self._link.expires_at:
            self._link.expires_at = float("inf")
            self._link.changed.set()
        try:
            async with call.limit_time():
                for attempt in (1, 2):
                    client = await self.get_client()
                    try:
                        result = await self._send(client, call, tool, arguments)
                        return convert_result(result, call.notes)
                    except MCPError as e:
                        if not await self._may_repeat(e, client, is_repeatable) or attempt == 2:
                            raise self._make_error(e) from None
            raise AssertionError("the second attempt returns or raises")
        except TimeoutError:
            message = (
                f"{self._link.name} did not answer within {self._link.server.timeout:g} s, and the "
                "call was cancelled."
            )
            raise ToolError(
                f"{message} It may have had effects.", kind="timeout", code="mcp_timeout"
            ) from None
        except ToolError:
            raise
        except Exception as e:  # a result that is not valid MCP, or too many questions
            message = f"{self._link.name} may have run the call, but {truncate(explain_error(e), 300)}."
            raise ToolError(
                redact(message, {*self._link.server.secrets, *known_keys()}), code="mcp_error"
            ) from None
        finally:
            self._running.remove(call)

    async def _send(
        self, client: "Client", call: RemoteCall, tool: str, arguments: dict[str, Any]
    ) -> "mcp_types.CallToolResult":
        self._sent_count += 1
        try:
            return await client.call_tool(tool, arguments, progress_callback=call.report_progress)
        finally:
            self._sent_count -= 1

    async def drain(self) -> None:
        """Wait briefly for the answers to the calls that were sent: each learns by its own 404 that it did
        not run.
        """
        deadline = self._link.thread.loop.time() + _DRAIN_SECONDS
        while self._sent_count and self._link.thread.loop.time() < deadline:
            await asyncio.sleep(0.01)

    async def get_client(self) -> "Client":
        """Wait for the server; restart it if it has died."""
        if not self._link.server.enabled:  # nothing would start it
            raise ToolError(f"{self._link.name} is disabled in the settings.", code="mcp_not_connected")
        if not self._link.is_connected:
            self._link.settled.clear()
            self._link.wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._link.server.start_timeout):
                    await self._link.settled.wait()
        if self._link.client is None or not self._link.is_connected:
            reason = self._link.status.error or "it did not start in time"
            raise ToolError(
                f"{self._link.name} is not connected: {reason}. The call did not run.",
                code="mcp_not_connected",
            )
        return self._link.client

    async def _may_repeat(self, error: Any, client: "Client", is_repeatable: bool) -> bool:
        """Return whether a call can be retried: it did not run, or running it twice is harmless."""
        from mcp_types import CONNECTION_CLOSED

        cause = failure_cause(error)
        if cause == "session":  # the server did not know it, so that nothing ran
            if self._link.client is client:  # otherwise another call noticed first
                self._link.end_session()
            return True
        if cause == "lost":
            return is_repeatable
        if error.code != CONNECTION_CLOSED:
            return False
        deadline = self._link.thread.loop.time() + _CAUSE_SECONDS
        while (
            self._link.client is client
            and not self._link.lost.is_set()
            and self._link.thread.loop.time() < deadline
        ):
            await asyncio.sleep(0.01)  # the SDK ends calls before it reports the cause
        if self._link.client is client and error.message == "Connection closed":
            self._link.end("it was closed")  # the SDK reports no cause if it closed the connection itself
        return is_repeatable or self._link.is_unreachable

    def _make_error(self, error: Any) -> ToolError:
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS

        name, cause = self._link.name, failure_cause(error)
        if cause == "session":
            message = f"{name} does not know the session that it has just opened. The call did not run."
            return ToolError(message, code="mcp_not_connected")
        if cause == "refused":
            message = f"The call did not run: {truncate(error.message, 2000)}."
            return ToolError(redact(message, self._link.server.secrets), code="mcp_not_connected")
        if cause == "unreadable":
            return ToolError(f"{name} may have run the call, but {error.message}.", code="mcp_error")
        if cause == "cancelled":
            reason = f" ({redact(error.message, self._link.server.secrets)})" if error.message else ""
            return ToolError(f"{name} cancelled the call{reason}. It may have had effects.", code="mcp_error")
        if cause == "lost" or error.code == CONNECTION_CLOSED:
            reason = error.message
            if not cause:
                reason = self._link.end_reason or self._link.status.error or reason
            message = (
                f"The connection to {name} was lost during the call ({reason}), which may or may not "
                "have run. "
            )
            message += "Check its effects before you retry it."
            return ToolError(message, kind="unknown_outcome", code="mcp_connection_lost")
        message = f"{name}: {truncate(error.message, 2000)}"
        addresses = _find_urls(error.data) if error.code == _URL_ELICITATION_REQUIRED else []
        if addresses:
            message += f" The user must open this URL first: {', '.join(addresses)}"
        kind = "validation" if error.code == INVALID_PARAMS else "execution"
        return ToolError(
            redact(message, {*self._link.server.secrets, *known_keys()}), kind=kind, code="mcp_error"
        )

    @staticmethod
    async def accept_result(name: str, result: "mcp_types.CallToolResult") -> None:
        """Replace the SDK's check against the output schema, which would discard the result of a call that
        has run.

        A schema's pattern could also take forever to match, and block every thread of the program.
        """

    # ---- prompts and resources

    async def read_resource(self, uri: str) -> tuple[Part, ...]:
        """Read a resource. Raises ToolError."""
        result = await self._ask(lambda client: client.read_resource(uri))
        return tuple(map(convert_resource, result.contents))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> tuple[Message, ...]:
        """Return a prompt's messages. Raises ToolError."""
        result = await self._ask(lambda client: client.get_prompt(name, arguments))
        return convert_messages(result.messages)

    async def _ask(self, request: "Callable[[Client], Awaitable[Any]]") -> Any:
        from mcp import MCPError

        try:
            async with asyncio.timeout(self._link.server.timeout):
                client = await self.get_client()
                try:
                    return await request(client)
                except MCPError as e:
                    if not await self._may_repeat(e, client, is_repeatable=False):
                        raise
                return await request(await self.get_client())
        except TimeoutError:
            raise ToolError(
                f"{self._link.name} did not answer within {self._link.server.timeout:g} s.", kind="timeout"
            ) from None
        except MCPError as e:
            raise self._make_error(e) from None
        except ValueError as e:
            raise ToolError(f"{self._link.name}: {truncate(explain_error(e), 300)}") from None


def _find_urls(data: Any) -> list[str]:
    """Return the URLs that the user must open, from the details of an error."""
    items: Any = cast(dict[str, Any], data).get("elicitations") if isinstance(data, dict) else None
    if not isinstance(items, list):
        return []
    rows = [cast(dict[str, Any], item) for item in cast(list[Any], items) if isinstance(item, dict)]
    return [str(row["url"]) for row in rows if "url" in row]
