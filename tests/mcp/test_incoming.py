"""Whatever a server sends, only what is wrong is lost."""

import asyncio
import json
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, ListToolsResult, jsonrpc_message_adapter, methods
from mcp_types.methods import validate_server_result

from toolglot.mcp.client.answers import failure_cause
from toolglot.mcp.client.content import convert_result
from toolglot.mcp.client.incoming import CheckedStream, repair_result
from toolglot.mcp.client.listing import MAX_ITEMS, make_tools
from toolglot.mcp.client.servers import McpServer

VERSIONS = ("2024-11-05", "2025-11-25", "2026-07-28")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "_meta",
    "icons",
    "execution",
)
SCHEMAS = st.fixed_dictionaries(
    {}, optional={"type": VALUES, "properties": VALUES, "anyOf": VALUES, "$ref": VALUES}
)
ODD_TOOLS = st.dictionaries(st.sampled_from(FIELDS), VALUES | SCHEMAS, max_size=4) | VALUES
GOOD_TOOL = {"name": "good", "inputSchema": {"type": "object"}}
PARTS = ("type", "text", "data", "mimeType", "uri", "name", "resource", "annotations")
KINDS = st.sampled_from(["text", "image", "audio", "resource", "resource_link", "hologram"])
ODD_PARTS = st.dictionaries(st.sampled_from(PARTS), VALUES | KINDS, max_size=4) | VALUES


@pytest.mark.parametrize("version", VERSIONS)
@given(odd=st.lists(ODD_TOOLS, max_size=3))
def test_odd_tools_do_not_hide_the_good_one(version: str, odd: list[Any]) -> None:
    result: dict[str, Any] = {
        "tools": [*odd, dict(GOOD_TOOL)],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }
    problems: dict[str, str] = {}
    repair_result(result, version, lambda kind, name, reason: problems.update({name: reason}))
    validate_server_result("tools/list", version, result)
    items = ListToolsResult.model_validate(result, by_name=False).tools

    async def call(*_: Any) -> Any: ...

    tools = make_tools("s", McpServer(command="x"), items, call, {}, problems)
    assert "good" in tools
    assert {tool.definition.name for _, tool in tools.values()}, "and its definition can be made"


@pytest.mark.parametrize("version", VERSIONS)
@given(odd=st.lists(ODD_PARTS, max_size=3), data=VALUES)
def test_odd_parts_of_a_result_do_not_hide_the_good_one(version: str, odd: list[Any], data: Any) -> None:
    good = {"type": "text", "text": "good"}
    result: dict[str, Any] = {"content": [*odd, good], "structuredContent": data, "resultType": "complete"}
    repair_result(result, version, lambda kind, name, reason: None)
    validate_server_result("tools/call", version, json.loads(json.dumps(result)))
    output = convert_result(CallToolResult.model_validate(result, by_name=False))
    assert any(getattr(part, "text", "").endswith("good") for part in output.content)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[" * 128 + "]" * 128])
def test_a_tool_that_no_provider_can_be_sent_is_left_out(value: str) -> None:
    bad = {"name": "bad", "inputSchema": {"type": "object", "x": json.loads(value)}}
    result: dict[str, Any] = {"tools": [bad, dict(GOOD_TOOL)]}
    problems: list[tuple[str, ...]] = []
    repair_result(result, "2025-11-25", lambda kind, name, reason: problems.append((kind, name, reason)))
    assert [tool["name"] for tool in result["tools"]] == ["good"]
    assert problems == [("tools", "bad", "it contains NaN or an infinity, or is nested more than 128 levels")]


class Feed:
    """A stream of messages that ends."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.items = [
            SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **each}))
            for each in messages
        ]

    async def receive(self) -> SessionMessage | Exception:
        if not self.items:
            raise anyio.EndOfStream
        return self.items.pop(0)


def read_all(*messages: dict[str, Any]) -> list[Any]:
    async def read() -> list[Any]:
        stream = CheckedStream(
            cast(Any, Feed(*messages)), lambda: "2025-11-25", lambda kind, name, reason: None
        )
        return [cast(Any, item).message async for item in stream]

    return asyncio.run(read())


def cancellation(request_id: Any, **params: Any) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id, **params}}


def test_a_request_that_the_server_cancels_ends() -> None:
    _, failure = read_all(cancellation(7, reason="x" * 1000))
    assert (failure.id, failure_cause(failure.error), len(failure.error.message)) == (7, "cancelled", 301)
    assert len(read_all(cancellation(7, reason=5))) == 2
    odd_ids: list[Any] = [None, True, 1.5, [7], {}]
    for odd in odd_ids:
        assert len(read_all(cancellation(odd))) == 1
    assert len(read_all({"method": "notifications/cancelled"})) == 1


def test_a_server_that_cancels_its_own_question_ends_no_call() -> None:
    """Both sides count their requests from 0."""
    question: dict[str, Any] = {"id": 7, "method": "elicitation/create", "params": {}}
    assert len(read_all(question, cancellation(7))) == 2
    assert len(read_all(question, cancellation(8))) == 3


def test_only_so_many_items_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a message of 32 MB holds up all servers for minutes; so do thousands of keys that are copied
    with each item.
    """
    checked: list[Any] = []

    def check(method: str, version: str, result: Any) -> None:
        checked.append(result)

    monkeypatch.setattr(methods, "validate_server_result", check)
    result: dict[str, Any] = {
        "resources": [{}] * 100_000,
        "content": [{}] * 100_000,
        **dict.fromkeys(map(str, range(99))),
    }
    problems: list[tuple[str, str, str]] = []
    repair_result(result, "2025-11-25", lambda kind, name, reason: problems.append((kind, name, reason)))
    assert len(checked) == 2 * MAX_ITEMS
    assert max(map(len, checked)) < 9
    assert problems == [("resources", "*", f"everything after the first {MAX_ITEMS}")]
    assert len(result["resources"]) == MAX_ITEMS
    assert result["content"][MAX_ITEMS:] == [
        {"type": "text", "text": f"[{100_000 - MAX_ITEMS} more parts were left out]"}
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bad_template_does_not_hide_the_good_one(version: str) -> None:
    good = {"name": "good", "uriTemplate": "file:///{path}"}
    result: dict[str, Any] = {"resourceTemplates": [{"name": "bad"}, good]}
    problems: list[tuple[str, ...]] = []
    repair_result(result, version, lambda kind, name, reason: problems.append((kind, name, reason)))
    assert result["resourceTemplates"] == [good]
    assert problems[0][:2] == ("resourceTemplates", "bad")
