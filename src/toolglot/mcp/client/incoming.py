"""Filters a server's messages before the SDK reads them: one bad part must not spoil the rest, and floods are
throttled.

The SDK rejects a whole list if one tool in it is invalid, and a whole result if one part is. Here the invalid
ones are left out, with a reason. A server that sends notifications too fast is slowed down: its messages wait
in the pipe.
"""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

from toolglot.common.jsontext import MAX_DEPTH, dumps_text, is_portable
from toolglot.common.textutil import truncate
from toolglot.mcp.client.answers import LISTS, make_failure
from toolglot.mcp.client.listing import MAX_ITEMS

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCError, JSONRPCNotification

__all__ = ["CheckedStream", "repair_result"]

_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_WINDOW_SECONDS = 0.25
_MAX_NOTIFICATIONS = 250
"""Per window: 1,000 in a second."""
_MAX_SERVER_IDS = 1_000


class CheckedStream:
    """A stream of messages for the SDK. `on_problem` receives each list item that was left out, and why."""

    def __init__(
        self,
        stream: "ReadStream[SessionMessage | Exception]",
        version: Callable[[], str],
        on_problem: Callable[[str, str, str], None],
    ) -> None:
        self._stream, self._version, self._on_problem = stream, version, on_problem
        self._window_start = self._count = 0.0
        self._failures: deque[SessionMessage] = deque()
        self._server_ids: deque[str] = deque(maxlen=_MAX_SERVER_IDS)

    @property
    def last_context(self) -> Any:
        """The context of the request that a message belongs to, if the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        from mcp.shared.message import SessionMessage
        from mcp_types import PARSE_ERROR, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

        if self._failures:
            return self._failures.popleft()
        item = await self._stream.receive()
        if isinstance(item, Exception):
            return item
        if isinstance(item.message, JSONRPCRequest):
            self._server_ids.append(str(item.message.id))
        elif isinstance(item.message, JSONRPCResponse):
            repair_result(item.message.result, self._version(), self._on_problem)
        elif isinstance(item.message, JSONRPCError) and item.message.error.code == PARSE_ERROR:
            _hide_details(item.message)
        elif isinstance(item.message, JSONRPCNotification):
            if (failure := self._find_cancelled(item.message)) is not None:
                self._failures.append(SessionMessage(failure, item.metadata))
            now = anyio.current_time()
            if now - self._window_start > _WINDOW_SECONDS:
                self._window_start, self._count = now, 0
            self._count += 1
            if self._count > _MAX_NOTIFICATIONS:
                await anyio.sleep(self._window_start + _WINDOW_SECONDS - now)
        return item

    def _find_cancelled(self, message: "JSONRPCNotification") -> "JSONRPCError | None":
        """Return the failure of our request that the server says it has cancelled, so that nobody waits for
        its answer.

        A notification about an id that the server has used itself is about its own request: both sides count
        from 0.
        """
        params = message.params or {}
        request_id = params.get("requestId")
        if message.method != "notifications/cancelled" or not isinstance(request_id, int | str):
            return None
        if isinstance(request_id, bool) or str(request_id) in self._server_ids:
            return None
        reason = params.get("reason")
        return make_failure(request_id, "cancelled", truncate(reason, 300) if isinstance(reason, str) else "")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _hide_details(message: "JSONRPCError") -> None:
    """Replace pydantic's description of an event that the SDK could not read by a sentence."""
    if message.error.message.startswith("Failed to parse"):
        message.error.message = "its answer cannot be read"


def repair_result(result: dict[str, Any], version: str, on_problem: Callable[[str, str, str], None]) -> None:
    """Change a result in place so that the SDK accepts it."""
    from mcp_types.methods import validate_server_result

    for key, method in LISTS.items():
        items = result.get(key)
        if not isinstance(items, list):
            continue
        kept: list[Any] = []
        for item in cast(list[Any], items)[:MAX_ITEMS]:
            name = str(cast(dict[str, Any], item).get("name", "?")) if isinstance(item, dict) else "?"
            if not is_portable(item):
                on_problem(
                    key, name, f"it contains NaN or an infinity, or is nested more than {MAX_DEPTH} levels"
                )
                continue
            if key == "tools" and isinstance(item, dict):
                _repair_tool(cast(dict[str, Any], item), version)
            try:
                validate_server_result(method, version, {key: [item], **_COMPLETE})
            except ValueError as e:  # pydantic's
                error = cast(Any, e).errors()[0]
                place = ".".join(str(step) for step in error["loc"] if step not in (key, 0))
                on_problem(key, name, f"{place}: {error['msg']}"[:300])
            else:
                kept.append(item)
        if len(cast(list[Any], items)) > MAX_ITEMS:
            on_problem(key, "*", f"everything after the first {MAX_ITEMS}")
        result[key] = kept
    repair_content(result, version)


def repair_content(result: dict[str, Any], version: str) -> None:
    """Convert parts of unknown kinds in a call's result to text."""
    from mcp_types import CallToolResult
    from mcp_types.methods import validate_server_result

    content = result.get("content")
    if isinstance(content, list):
        blocks, parts = cast(list[Any], content), list[Any]()
        for part in blocks[:MAX_ITEMS]:
            try:
                validate_server_result("tools/call", version, {"content": [part], **_COMPLETE})
                CallToolResult.model_validate({"content": [part]}, by_name=False)
                parts.append(part)
            except ValueError:  # of an unknown kind, or incomplete
                parts.append({"type": "text", "text": part if isinstance(part, str) else dumps_text(part)})
        if len(blocks) > MAX_ITEMS:
            parts.append({"type": "text", "text": f"[{len(blocks) - MAX_ITEMS} more parts were left out]"})
        data = result.get("structuredContent")
        # only newer protocols allow any JSON
        if data is not None and not isinstance(data, dict) and version < "2026":
            parts += [] if parts else [{"type": "text", "text": dumps_text(data)}]
            del result["structuredContent"]
        result["content"] = parts


def _repair_tool(tool: dict[str, Any], version: str) -> None:
    """Add the missing object type to a schema, because arguments are always an object."""
    schema = tool.setdefault("inputSchema", {"type": "object"})
    if isinstance(schema, dict):
        cast(dict[str, Any], schema).setdefault("type", "object")
    output = tool.get("outputSchema")
    is_object = isinstance(output, dict) and cast(Any, output).get("type") == "object"
    # It only validates results, which older servers may return only as objects.
    is_useless = version < "2026" and not is_object
    if output is None or is_useless:
        tool.pop("outputSchema", None)
