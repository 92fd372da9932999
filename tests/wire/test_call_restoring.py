"""The way back: calls come in the words of the tools as they were defined."""

from typing import Any

import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import Reply, Text, ToolCall, user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.restore_calls import restore_reply

MAP: dict[str, Any] = {
    "type": "object",
    "properties": {"m": {"type": "object", "additionalProperties": {"type": "number"}}},
}
TOOLS = (
    ToolDefinition(
        "maps.route",
        "",
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["a"],
        },
        strict=True,
    ),
    ToolDefinition("patch", "", kind="freeform"),
    ToolDefinition("limits", "", MAP),
    ToolDefinition("plain", "", {"type": "object", "properties": {"x": {"type": "string"}}}),
    ToolDefinition("find", "", {"type": "object", "properties": {"q": {"type": "string"}}}, namespace="crm"),
)


@pytest.mark.parametrize(
    "provider", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "mistral"]
)
@pytest.mark.parametrize("incremental", [False, True], ids=["whole", "incremental"])
def test_names_shapes_and_freeform_input_come_back(provider: str, incremental: bool) -> None:
    request, profile = Request("m", [user("hi")], TOOLS), resolve_profile(provider, "m")
    sent = PrefixEncoder(profile).encode(request) if incremental else encode_request(request, profile)
    wire = {key: name for name, key in sent.names.items()}
    pairs = [{"key": "k", "value": 1.5}] if provider == "gemini" else {"k": 1.5}
    native = profile.features.freeform
    space = "crm" if profile.features.namespaces else ""
    reply = Reply(
        (
            Text("x"),
            ToolCall("1", wire[("", "maps.route")], {"a": "1", "b": None}),
            ToolCall("2", "patch", None, "*** P", freeform=True)
            if native
            else ToolCall("2", "patch", {"input": "*** P"}),
            ToolCall("3", "limits", {"m": pairs}),
            ToolCall("4", "plain", {"x": "y"}),
            ToolCall("5", wire[("crm", "find")].removeprefix(f"{space}."), {"q": "z"}, namespace=space),
            ToolCall("6", "nobody", {}),
        ),
        "tools",
    )
    back = restore_reply(reply, sent)
    strict = profile.features.strict and bool(profile.strict_dialect)
    optional = {} if strict and provider.startswith("openai") else {"b": None}
    assert [(call.name, call.namespace) for call in back.calls] == [
        *(("maps.route", ""), ("patch", ""), ("limits", ""), ("plain", ""), ("find", "crm"), ("nobody", ""))
    ]
    assert back.calls[0].arguments == {"a": "1", **optional}
    assert (back.calls[1].arguments, back.calls[1].raw, back.calls[1].freeform) == (None, "*** P", True)
    assert back.calls[2].arguments == {"m": {"k": 1.5}}
    assert back.calls[3] is reply.calls[3]


def test_a_reply_that_needs_nothing_is_the_same_object() -> None:
    reply = Reply((Text("x"), ToolCall("1", "plain", {"x": "y"})), "tools")
    assert (
        restore_reply(reply, encode_request(Request("m", [user("hi")], TOOLS), resolve_profile("ollama")))
        is reply
    )
