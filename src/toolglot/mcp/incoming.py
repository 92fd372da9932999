"""Filters a server's messages before the SDK reads them: one bad part must not spoil the rest, and floods are throttled.

The SDK rejects a whole list if one tool in it is invalid, and a whole result if one part is. Here the invalid ones are left
out, with a reason. A server that sends notifications too fast is slowed down: its messages wait in the pipe.
"""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

from toolglot.jsontext import dumps_text
from toolglot.mcp.listing import MAX_ITEMS

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage

__all__ = ["CheckedStream", "repair_result"]

_LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_WINDOW_SECONDS = 0.25
_MAX_NOTIFICATIONS = 250
"""Per window: 1,000 in a second."""


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

    @property
    def last_context(self) -> Any:
        """The context of the request that a message belongs to, if the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        from mcp_types import JSONRPCNotification, JSONRPCResponse

        item = await self._stream.receive()
        if isinstance(item, Exception):
            return item
        if isinstance(item.message, JSONRPCResponse):
            repair_result(item.message.result, self._version(), self._on_problem)
        elif isinstance(item.message, JSONRPCNotification):
            now = anyio.current_time()
            if now - self._window_start > _WINDOW_SECONDS:
                self._window_start, self._count = now, 0
            self._count += 1
            if self._count > _MAX_NOTIFICATIONS:
                await anyio.sleep(self._window_start + _WINDOW_SECONDS - now)
        return item

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
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def repair_result(result: dict[str, Any], version: str, on_problem: Callable[[str, str, str], None]) -> None:
    """Change a result in place so that the SDK accepts it."""
    from mcp_types.methods import validate_server_result

    for key, method in _LISTS.items():
        items = result.get(key)
        if not isinstance(items, list):
            continue
        kept: list[Any] = []
        for item in cast(list[Any], items)[:MAX_ITEMS]:
            if key == "tools" and isinstance(item, dict):
                _repair_tool(cast(dict[str, Any], item), version)
            try:
                validate_server_result(method, version, {key: [item], **_COMPLETE})
            except ValueError as e:  # pydantic's
                error = cast(Any, e).errors()[0]
                place = ".".join(str(step) for step in error["loc"] if step not in (key, 0))
                name = str(cast(dict[str, Any], item).get("name", "?")) if isinstance(item, dict) else "?"
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
        if data is not None and not isinstance(data, dict) and version < "2026":  # only newer protocols allow any JSON
            parts += [] if parts else [{"type": "text", "text": dumps_text(data)}]
            del result["structuredContent"]
        result["content"] = parts


def _repair_tool(tool: dict[str, Any], version: str) -> None:
    """Add the missing object type to a schema, because arguments are always an object."""
    schema = tool.setdefault("inputSchema", {"type": "object"})
    if isinstance(schema, dict):
        cast(dict[str, Any], schema).setdefault("type", "object")
    output = tool.get("outputSchema")
    if output is None or (version < "2026" and not (isinstance(output, dict) and cast(Any, output).get("type") == "object")):
        tool.pop("outputSchema", None)  # it only validates results, which older servers may return only as objects
