"""Anthropic Messages: what is written."""

import copy
from typing import Any

import pytest
from request_samples import CALL, DONE, GET, PNG, SCHEMA, Doc, lost_subjects

from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.writer import EncodedRequest

MODEL = "claude-sonnet-4-5"
OWN = Origin("anthropic-messages", "anthropic", MODEL)
SIGNED = Thinking("hm", {"signature": "sig"})


def encode(messages: list[Message], model: str = MODEL, **options: Any) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile("anthropic", model))


def body(messages: list[Message], model: str = MODEL, **options: Any) -> Doc:
    return encode(messages, model, **options).body


def test_whole_request() -> None:
    history = [system("Be kind."), user(["Look:", PNG]), assistant(["So.", CALL]), DONE, user("And?")]
    options = Options(100, 0.5, top_k=4, stop=("END",))
    encoded = encode(
        history,
        tools=(GET,),
        tool_choice=ToolChoice("required"),
        parallel=False,
        options=options,
        stream=True,
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    assert encoded.body == {
        "model": MODEL,
        "max_tokens": 100,
        "system": "Be kind.",
        "temperature": 0.5,
        "top_k": 4,
        "stop_sequences": ["END"],
        "stream": True,
        "tools": [{"name": "get", "description": "Gets.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "So."},
                    {"type": "tool_use", "id": "c1", "name": "get", "input": {"x": "1"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "one"}]},
            {"role": "user", "content": "And?"},
        ],
    }
    assert list(encoded.body)[-1] == "messages"
    assert (encoded.losses, encoded.repairs) == ((), ())


def test_max_tokens_is_required_and_made_up_where_it_is_missing() -> None:
    encoded = encode([user("hi")])
    assert encoded.body["max_tokens"] == 16384
    assert [(done.subject, done.where) for done in encoded.repairs] == [("max_tokens", "options")]


# ---- history


@pytest.mark.parametrize(("call", "sent"), [
    (ToolCall("c1", "get", {"x": "1"}, '{"x": "1"}'), {"x": "1"}),
    (ToolCall("c1", "get", {}, ""), {}),
    (ToolCall("c1", "sql", None, "select 1", freeform=True), {"input": "select 1"}),
    (ToolCall("c1", "get", None, '{"x": "cut'), {"invalid_arguments": '{"x": "cut'}),
    (ToolCall("c1", "get", None, "[1]"), {"invalid_arguments": "[1]"}),
])  # fmt: skip
def test_arguments_are_an_object(call: ToolCall, sent: Doc) -> None:
    assert body([user("hi"), assistant(call), DONE])["messages"][1]["content"][0]["input"] == sent


@pytest.mark.parametrize(("result", "fields"), [
    (ToolResult("c1", (Text("1"),)), {"content": "1"}),
    (ToolResult("c1", (Text("1"), Text("2"))), {"content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}),
    (ToolResult("c1", (Text(" "),)), {}),
    (ToolResult("c1"), {}),
    (ToolResult("c1", (Text("boom"),), is_error=True), {"content": "boom", "is_error": True}),
    (ToolResult("c1", is_error=True), {"content": "Error", "is_error": True}),
    (ToolResult("c1", (Media("file", "application/pdf", "AA"),)),
        {"content": [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}}]}),
], ids=["text", "two texts", "blank", "nothing", "error", "error without words", "pdf"])  # fmt: skip
def test_result(result: ToolResult, fields: Doc) -> None:
    sent = body([user("hi"), assistant(CALL), tool(result)])["messages"][2]["content"]
    assert sent == [{"type": "tool_result", "tool_use_id": "c1", **fields}]


def test_own_state_goes_back_and_cache_marks_are_kept() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    history = [
        Message("system", (Text("s", mark),), OWN),
        Message("user", (Text("hi", mark), Media("image", "image/png", "AA", opaque=mark)), OWN),
        Message(
            "assistant",
            (
                SIGNED,
                Thinking("", {"redacted": "xyz"}),
                ToolCall("c1", "get", {}, opaque={"caller": {"type": "direct"}}),
            ),
            OWN,
        ),
        Message("tool", (ToolResult("c1", (Text("1"),), opaque=mark),), OWN),
    ]
    sent = body(history, tools=(ToolDefinition("get", "", SCHEMA, wire="anthropic-messages", opaque=mark),))
    assert sent["system"] == [{"type": "text", "text": "s", **mark}]
    assert sent["tools"] == [{"name": "get", "input_schema": SCHEMA, **mark}]
    assert sent["messages"][0]["content"][0] == {"type": "text", "text": "hi", **mark}
    assert sent["messages"][0]["content"][1]["cache_control"] == {"type": "ephemeral"}
    assert sent["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "c1", "name": "get", "input": {}, "caller": {"type": "direct"}},
    ]
    assert sent["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "1", **mark}
    ]
    other = encode_request(Request("gpt-4o", history), resolve_profile("openai-chat", "gpt-4o"))
    assert not any(word in str(other.body) for word in ("cache_control", "sig", "xyz", "hm"))


def test_claude_of_another_name_gets_no_signature() -> None:
    history = [user("hi"), Message("assistant", (SIGNED, Text("x")), OWN), user("y")]
    encoded = encode(history, "claude-opus-4-1")
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "x"}
    assert lost_subjects(encoded) == ["thinking"]


def test_server_tool_blocks_go_back_whole_and_a_paused_turn_may_be_last() -> None:
    block: Doc = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    sent = body(
        [user("hi"), Message("assistant", (Foreign("anthropic-messages", block),), OWN)], "claude-opus-4-6"
    )
    assert sent["messages"][1:] == [{"role": "assistant", "content": [block]}]


def test_text_comes_before_calls() -> None:
    encoded = encode([user("hi"), assistant([CALL, "x"]), DONE])
    assert [block["type"] for block in encoded.body["messages"][1]["content"]] == ["text", "tool_use"]
    assert [done.subject for done in encoded.repairs if done.subject == "text"] == ["text"]


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_blank_text_is_never_sent(text: str) -> None:
    """400: text content blocks must be non-empty; instructions are no exception."""
    sent = body([system([text, "s"]), user([text, "hi"]), assistant([text, CALL]), DONE, user(text)])
    assert sent["system"] == "s"
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][0]["content"] == "hi"
    assert len(sent["messages"][1]["content"]) == 1
    assert "system" not in body([system(text), user("hi")])


def test_instructions_between_turns() -> None:
    encoded = encode([user("hi"), system("now"), user("x")])
    assert encoded.body["messages"][1] == {"role": "user", "content": "<system>\nnow\n</system>"}
    assert "system message" in [done.subject for done in encoded.repairs]
    sent = body([user("hi"), Message("system", (Text("now"),), OWN), user("x")])
    assert sent["messages"][1] == {"role": "system", "content": [{"type": "text", "text": "now"}]}


def test_parts_of_other_wires_do_not_get_into_the_instructions() -> None:
    part = Foreign("openai-chat", {"type": "secret_part", "text": "shown"})
    encoded = encode([system(["s", part]), user("hi")])
    assert encoded.body["system"] == [{"type": "text", "text": "s"}, {"type": "text", "text": "shown"}]
    assert lost_subjects(encoded) == ["secret_part"]


@pytest.mark.parametrize("last", [Text("begin: "), SIGNED], ids=["white space at the end", "thinking first"])
def test_answer_begun_by_the_caller_is_one_that_claude_takes(last: Any) -> None:
    """400: final assistant content cannot end with trailing whitespace; nor may it hold thinking while
    thinking is off.
    """
    blocks = (last,) if isinstance(last, Text) else (last, Text("begin"))
    sent = body([user("hi"), Message("assistant", blocks, OWN)])
    final = sent["messages"][-1]
    if final["role"] == "assistant":
        content = final["content"]
        assert isinstance(content, str)
        assert content == content.rstrip()
    assert body([user("hi"), assistant("begin:")])["messages"][-1] == {
        "role": "assistant",
        "content": "begin:",
    }


def test_new_models_take_no_begun_answer() -> None:
    assert body([user("hi"), assistant("begin")], "claude-sonnet-5")["messages"][-1] == {
        "role": "user",
        "content": "Continue.",
    }


# ---- media


@pytest.mark.parametrize(("media", "source"), [
    (Media("image", url="http://x/y.png"), {"type": "url", "url": "http://x/y.png"}),
    (Media("image", data="/9j/AA"), {"type": "base64", "media_type": "image/jpeg", "data": "/9j/AA"}),
    (Media("file", url="https://x/y.pdf"), {"type": "url", "url": "https://x/y.pdf"}),
    (Media("file", "text/csv", "aGVsbG8=", name="a.csv"),
        {"type": "text", "media_type": "text/plain", "data": "[file a.csv]\nhello"}),
])  # fmt: skip
def test_supported_media(media: Media, source: Doc) -> None:
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
def test_unsupported_media(media: Media) -> None:
    encoded = encode([user(media)])
    assert encoded.body["messages"][0]["content"].startswith(f"[{media.kind} not shown")
    assert lost_subjects(encoded) == [media.kind]


# ---- thinking, sampling, output


@pytest.mark.parametrize(("model", "options", "fields", "thinking"), [
    (MODEL, Options(9000, thinking_budget=2000), {}, {"type": "enabled", "budget_tokens": 2000}),
    (MODEL, Options(9000, thinking_budget=5), {}, {"type": "enabled", "budget_tokens": 1024}),
    (MODEL, Options(3000, thinking_budget=9000), {}, {"type": "enabled", "budget_tokens": 2999}),
    (MODEL, Options(9000, thinking_budget=0), {}, None),
    (MODEL, Options(1024, thinking_budget=2000), {}, "leaves no room"),
    ("claude-opus-5", Options(9000, thinking_budget=2000), {}, "accepts no thinking budget"),
    (MODEL, Options(9000, thinking_budget=2000), {"tools": (GET,), "tool_choice": ToolChoice("required")},
        "forced tool choice"),
])  # fmt: skip
def test_thinking_budget(model: str, options: Options, fields: Doc, thinking: Doc | str | None) -> None:
    encoded = encode([user("hi")], model, options=options, **fields)
    if isinstance(thinking, str):
        assert "thinking" not in encoded.body
        assert [loss.reason for loss in encoded.losses if thinking in loss.reason]
    else:
        assert encoded.body.get("thinking") == thinking
        assert encoded.losses == ()


def begun(*blocks: Any, origin: Origin | None = OWN) -> Message:
    return Message("assistant", blocks, origin)


@pytest.mark.parametrize(
    ("history", "on"),
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
        (
            [user("hi"), begun(SIGNED, CALL), DONE, begun(ToolCall("c2", "get", {})), tool(ToolResult("c2"))],
            True,
        ),
        ([user("hi"), begun(CALL), DONE, begun(Text("")), user("and?")], False),
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
        "an answer that is left out",
    ],
)
def test_thinking_in_a_tool_loop_that_began_without_it(history: list[Message], on: bool) -> None:
    """400: when thinking is enabled, the turn before the last results must start with a thinking block."""
    encoded = encode(history, options=Options(9000, thinking_budget=2000))
    assert ("thinking" in encoded.body) is on
    assert ("thinking_budget" in lost_subjects(encoded)) is not on


@pytest.mark.parametrize(("temperature", "sent", "losses"), [(0.5, None, ["temperature"]), (1, 1, [])])
def test_temperature_while_thinking(temperature: float, sent: float | None, losses: list[str]) -> None:
    encoded = encode([user("hi")], options=Options(9000, temperature, thinking_budget=2000))
    assert encoded.body.get("temperature") == sent
    assert lost_subjects(encoded) == losses


def test_output_effort_and_extras_join_in_output_config() -> None:
    extras: dict[str, Doc] = {
        "anthropic-messages": {
            "output_config": {"task_budget": 5},
            "container": "c",
            "thinking": {"type": "adaptive"},
        }
    }
    before = copy.deepcopy(extras)
    sent = body(
        [user("hi")], "claude-opus-4-6", options=Options(effort="max"), output=Output(SCHEMA), extras=extras
    )
    form = {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}
    assert sent["output_config"] == {"effort": "high", "task_budget": 5, "format": form}
    assert (sent["container"], sent["thinking"]) == ("c", {"type": "adaptive"})
    body([user("hi")], output=Output(SCHEMA), extras=extras)
    assert extras == before


def test_json_without_a_schema_is_a_loss() -> None:
    encoded = encode([user("hi")], output=Output())
    assert "output_config" not in encoded.body
    assert lost_subjects(encoded) == ["output"]


def test_stop_sequences_of_white_space_are_a_loss() -> None:
    encoded = encode([user("hi")], options=Options(stop=("END", " ")))
    assert encoded.body["stop_sequences"] == ["END"]
    assert lost_subjects(encoded) == ["stop"]


# ---- tools


def test_tools_and_choices() -> None:
    search = ToolDefinition(
        "web_search",
        kind="hosted",
        wire="anthropic-messages",
        opaque={"type": "web_search_20250305", "name": "web_search"},
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
    assert body([user("hi")], tools=tools, tool_choice=ToolChoice("none"), parallel=False)["tool_choice"] == {
        "type": "none"
    }
    assert body([user("hi")], tools=tools, parallel=False)["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }


def test_models_that_cannot_be_forced_get_a_hint() -> None:
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
    assert lost_subjects(encoded) == ["tool 'put'", "tool_choice"]
