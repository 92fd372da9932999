"""Tools that a provider runs itself."""

from typing import Any

import pytest

from toolglot.common.jsontext import dumps, dumps_text
from toolglot.errors import UnknownName
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.hosted import HOSTED_TOOLS, find_hosted_tool
from toolglot.values.messages import user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import WIRES

PROVIDERS = {
    "openai-responses": ("openai-responses", "gpt-5"),
    "anthropic-messages": ("anthropic", "claude-sonnet-4-5"),
    "gemini": ("gemini", "gemini-3-pro-preview"),
    "openai-chat": ("openai-chat", "gpt-4o"),
    "ollama-chat": ("ollama", "m"),
}
ROWS = [(name, wire) for name, rows in HOSTED_TOOLS.items() for wire in rows]


def body_of(wire: str, *tools: ToolDefinition) -> Any:
    profile = resolve_profile(*PROVIDERS[wire])
    assert profile.wire == wire
    return encode_request(Request(profile.model, [user("hi")], tools), profile)


@pytest.mark.parametrize(("name", "wire"), ROWS)
def test_a_wire_gets_its_own_definition_as_it_is(name: str, wire: str) -> None:
    definition = find_hosted_tool(name, wire)
    assert definition is not None
    assert (definition.name, definition.kind, definition.wire) == (name, "hosted", wire)
    assert dumps_text(HOSTED_TOOLS[name][wire]) in dumps_text(body_of(wire, definition).body["tools"])
    assert body_of(wire, definition).losses == ()


@pytest.mark.parametrize("name", HOSTED_TOOLS)
@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_has_it_or_says_that_it_has_none(name: str, wire: str) -> None:
    definition = find_hosted_tool(name, wire)
    assert (definition is None) == (wire not in HOSTED_TOOLS[name])


def test_the_table_names_wires_that_exist() -> None:
    assert {wire for _, wire in ROWS} <= set(WIRES)


@pytest.mark.parametrize("wire", [*WIRES, "no such wire"])
def test_a_name_that_is_not_known_is_reported_with_the_nearest(wire: str) -> None:
    with pytest.raises(UnknownName, match="web_search"):
        find_hosted_tool("web_serch", wire)


@pytest.mark.parametrize(("name", "wire"), ROWS)
def test_the_table_is_not_changed_by_sending(name: str, wire: str) -> None:
    before = dumps(HOSTED_TOOLS)
    definition = find_hosted_tool(name, wire)
    assert definition is not None
    look = ToolDefinition("look", "Looks.", {"type": "object", "properties": {}})
    body_of(wire, definition, look)
    assert dumps(HOSTED_TOOLS) == before


@pytest.mark.parametrize(("name", "wire"), ROWS)
@pytest.mark.parametrize("other", WIRES)
def test_on_another_wire_it_is_a_loss_and_never_sent(name: str, wire: str, other: str) -> None:
    definition = find_hosted_tool(name, wire)
    assert definition is not None
    encoded = body_of(other, definition)
    assert other == wire or (encoded.losses and not encoded.body.get("tools"))
