"""Anthropic Messages: media, thinking, output and tools as they are written."""

import copy
from typing import Any

import pytest

from toolglot.messages import Media, Message, Origin, Text, Thinking, ToolCall, ToolResult, system, user
from toolglot.messages import tool_results as tool
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.writer import EncodedRequest

Doc = dict[str, Any]
MODEL = "claude-sonnet-4-5"
SCHEMA: Doc = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GET = ToolDefinition("get", "Gets.", SCHEMA)
OWN = Origin("anthropic-messages", "anthropic", MODEL)
CALL = ToolCall("c1", "get", {"x": "1"})
DONE = tool(ToolResult("c1", (Text("one"),), "get"))
PNG = Media("image", "image/png", "iVBORw0KGgo=")
SIGNED = Thinking("hm", {"signature": "sig"})


def encode(messages: list[Message], model: str = MODEL, **more: Any) -> EncodedRequest:
    return encode_request(Request(model, messages, **more), resolve_profile("anthropic", model))


def body(messages: list[Message], model: str = MODEL, **more: Any) -> Doc:
    return encode(messages, model, **more).body


def lost(encoded: EncodedRequest) -> list[str]:
    return [loss.subject for loss in encoded.losses]


# ---- media


@pytest.mark.parametrize(("media", "source"), [
    (Media("image", url="http://x/y.png"), {"type": "url", "url": "http://x/y.png"}),
    (Media("image", data="/9j/AA"), {"type": "base64", "media_type": "image/jpeg", "data": "/9j/AA"}),
    (Media("file", url="https://x/y.pdf"), {"type": "url", "url": "https://x/y.pdf"}),
    (Media("file", "text/csv", "aGVsbG8=", name="a.csv"),
        {"type": "text", "media_type": "text/plain", "data": "[file a.csv]\nhello"}),
])  # fmt: skip
def test_media_that_can_be_said(media: Media, source: Doc) -> None:
    encoded = encode([user(["x", media])])
    assert encoded.body["messages"][0]["content"][1] == {
        "type": "image" if media.kind == "image" else "document",
        "source": source,
    }
    assert encoded.losses == ()


@pytest.mark.parametrize("media", [
    Media("audio", "audio/wav", "AA"), Media("video", url="http://x"), Media("image", "image/tiff", "AA"),
    Media("image", url="gs://bucket/x"), Media("file", file_id="file-1"), Media("file", "application/zip", "AA"),
], ids=["audio", "video", "tiff", "no http", "file of somebody else", "zip"])  # fmt: skip
def test_media_that_cannot_be_said(media: Media) -> None:
    encoded = encode([user(media)])
    assert encoded.body["messages"][0]["content"].startswith(f"[{media.kind} not shown")
    assert lost(encoded) == [media.kind]


# ---- thinking, sampling, output


@pytest.mark.parametrize(("model", "options", "more", "thinking"), [
    (MODEL, Options(9000, thinking_budget=2000), {}, {"type": "enabled", "budget_tokens": 2000}),
    (MODEL, Options(9000, thinking_budget=5), {}, {"type": "enabled", "budget_tokens": 1024}),
    (MODEL, Options(3000, thinking_budget=9000), {}, {"type": "enabled", "budget_tokens": 2999}),
    (MODEL, Options(9000, thinking_budget=0), {}, None),
    (MODEL, Options(1024, thinking_budget=2000), {}, "leaves no room"),
    ("claude-opus-5", Options(9000, thinking_budget=2000), {}, "accepts no thinking budget"),
    (MODEL, Options(9000, thinking_budget=2000), {"tools": (GET,), "tool_choice": ToolChoice("required")},
        "forced tool choice"),
])  # fmt: skip
def test_thinking_budget(model: str, options: Options, more: Doc, thinking: Doc | str | None) -> None:
    encoded = encode([user("hi")], model, options=options, **more)
    if isinstance(thinking, str):
        assert "thinking" not in encoded.body
        assert [loss.reason for loss in encoded.losses if thinking in loss.reason]
    else:
        assert encoded.body.get("thinking") == thinking
        assert encoded.losses == ()


def begun(*blocks: Any, origin: Origin | None = OWN) -> Message:
    return Message("assistant", blocks, origin)


@pytest.mark.parametrize(
    ("said", "on"),
    [
        ([user("hi"), begun(SIGNED, CALL), DONE], True),
        ([user("hi"), begun(Thinking("", {"redacted": "x"}), CALL), DONE], True),
        ([user("hi"), begun(CALL), DONE], False),
        ([user("hi"), begun(SIGNED, CALL, origin=None), DONE], False),
        ([user("hi"), begun(CALL), DONE, user("and?")], False),
        ([user("hi"), begun(CALL), user("stop")], False),
        ([user("hi"), begun(CALL), DONE, begun(Text("x")), user("and?")], True),
        ([user("hi"), begun(Text("x")), user("and?")], True),
        ([user("hi"), begun(Text("x"))], False),
        ([user("hi"), begun(SIGNED, CALL), DONE, begun(ToolCall("c2", "get", {})), tool(ToolResult("c2"))], True),
    ],
    ids=[
        "own",
        "redacted",
        "none",
        "foreign",
        "user speaks after results",
        "interrupted",
        "loop over",
        "no loop",
        "begun answer",
        "later step",
    ],
)
def test_thinking_in_a_tool_loop_that_began_without_it(said: list[Message], on: bool) -> None:
    """400: when thinking is enabled, the turn before the last results must start with a thinking block."""
    encoded = encode(said, options=Options(9000, thinking_budget=2000))
    assert ("thinking" in encoded.body) is on
    assert ("thinking_budget" in lost(encoded)) is not on


@pytest.mark.parametrize(("temperature", "sent", "losses"), [(0.5, None, ["temperature"]), (1, 1, [])])
def test_temperature_while_thinking(temperature: float, sent: float | None, losses: list[str]) -> None:
    encoded = encode([user("hi")], options=Options(9000, temperature, thinking_budget=2000))
    assert encoded.body.get("temperature") == sent
    assert lost(encoded) == losses


def test_output_effort_and_extras_join_in_output_config() -> None:
    extras: dict[str, Doc] = {
        "anthropic-messages": {"output_config": {"task_budget": 5}, "container": "c", "thinking": {"type": "adaptive"}}
    }
    before = copy.deepcopy(extras)
    sent = body([user("hi")], "claude-opus-4-6", options=Options(effort="max"), output=Output(SCHEMA), extras=extras)
    form = {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
    assert sent["output_config"] == {"effort": "high", "task_budget": 5, "format": form}
    assert (sent["container"], sent["thinking"]) == ("c", {"type": "adaptive"})
    body([user("hi")], output=Output(SCHEMA), extras=extras)
    assert extras == before


def test_json_without_a_schema_is_a_loss() -> None:
    encoded = encode([user("hi")], output=Output())
    assert "output_config" not in encoded.body
    assert lost(encoded) == ["output"]


def test_stop_sequences_of_white_space_are_a_loss() -> None:
    encoded = encode([user("hi")], options=Options(stop=("END", " ")))
    assert encoded.body["stop_sequences"] == ["END"]
    assert lost(encoded) == ["stop"]


# ---- tools


def test_tools_and_choices() -> None:
    search = ToolDefinition(
        "web_search", kind="hosted", wire="anthropic-messages", opaque={"type": "web_search_20250305", "name": "web_search"}
    )
    tools = (
        search,
        ToolDefinition("a", "", SCHEMA, strict=True),
        ToolDefinition("b", "", SCHEMA, strict=False, wire="anthropic-messages"),
    )
    sent = body([user("hi")], tools=tools, tool_choice=ToolChoice("required", ("b",)), parallel=True)
    assert sent["tools"] == [
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "a", "input_schema": {**SCHEMA, "additionalProperties": False}, "strict": True},
        {"name": "b", "input_schema": SCHEMA, "strict": False},
    ]
    assert sent["tool_choice"] == {"type": "tool", "name": "b"}
    assert body([user("hi")], tools=tools, tool_choice=ToolChoice("none"), parallel=False)["tool_choice"] == {"type": "none"}
    assert body([user("hi")], tools=tools, parallel=False)["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_models_that_cannot_be_forced_are_asked() -> None:
    encoded = encode(
        [system("s"), user("hi")],
        "claude-opus-5-5",
        tools=(GET, ToolDefinition("put", "", SCHEMA)),
        tool_choice=ToolChoice("required", ("get",)),
    )
    assert [tool["name"] for tool in encoded.body["tools"]] == ["get"]
    assert "tool_choice" not in encoded.body
    assert [block["text"] for block in encoded.body["system"]] == [
        "s",
        "These tools cannot be called now: put.",
        "Answer with a call to get.",
    ]
    assert lost(encoded) == ["tool 'put'", "tool_choice"]
