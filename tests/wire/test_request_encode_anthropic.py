"""Anthropic Messages: what is written."""

from typing import Any

import pytest

from toolglot.messages import Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult, assistant, system, user
from toolglot.messages import tool_results as tool
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition
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


def test_whole_request() -> None:
    said = [system("Be kind."), user(["Look:", PNG]), assistant(["So.", CALL]), DONE, user("And?")]
    options = Options(100, 0.5, top_k=4, stop=("END",))
    encoded = encode(said, tools=(GET,), tool_choice=ToolChoice("required"), parallel=False, options=options, stream=True)
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
    said = [
        Message("system", (Text("s", mark),), OWN),
        Message("user", (Text("hi", mark), Media("image", "image/png", "AA", opaque=mark)), OWN),
        Message(
            "assistant",
            (SIGNED, Thinking("", {"redacted": "xyz"}), ToolCall("c1", "get", {}, opaque={"caller": {"type": "direct"}})),
            OWN,
        ),
        Message("tool", (ToolResult("c1", (Text("1"),), opaque=mark),), OWN),
    ]
    sent = body(said, tools=(ToolDefinition("get", "", SCHEMA, wire="anthropic-messages", opaque=mark),))
    assert sent["system"] == [{"type": "text", "text": "s", **mark}]
    assert sent["tools"] == [{"name": "get", "input_schema": SCHEMA, **mark}]
    assert sent["messages"][0]["content"][0] == {"type": "text", "text": "hi", **mark}
    assert sent["messages"][0]["content"][1]["cache_control"] == {"type": "ephemeral"}
    assert sent["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "c1", "name": "get", "input": {}, "caller": {"type": "direct"}},
    ]
    assert sent["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "1", **mark}]
    other = encode_request(Request("gpt-4o", said), resolve_profile("openai-chat", "gpt-4o"))
    assert not any(word in str(other.body) for word in ("cache_control", "sig", "xyz", "hm"))


def test_claude_of_another_name_gets_no_signature() -> None:
    said = [user("hi"), Message("assistant", (SIGNED, Text("x")), OWN), user("y")]
    encoded = encode(said, "claude-opus-4-1")
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "x"}
    assert lost(encoded) == ["thinking"]


def test_server_tool_blocks_go_back_whole_and_a_paused_turn_may_be_last() -> None:
    block: Doc = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    sent = body([user("hi"), Message("assistant", (Foreign("anthropic-messages", block),), OWN)], "claude-opus-4-6")
    assert sent["messages"][1:] == [{"role": "assistant", "content": [block]}]


def test_text_stands_before_calls() -> None:
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
    own = body([user("hi"), Message("system", (Text("now"),), OWN), user("x")])
    assert own["messages"][1] == {"role": "system", "content": [{"type": "text", "text": "now"}]}


def test_parts_of_other_wires_do_not_get_into_the_instructions() -> None:
    part = Foreign("openai-chat", {"type": "secret_part", "text": "shown"})
    encoded = encode([system(["s", part]), user("hi")])
    assert encoded.body["system"] == [{"type": "text", "text": "s"}, {"type": "text", "text": "shown"}]
    assert lost(encoded) == ["secret_part"]


@pytest.mark.parametrize("last", [Text("begin: "), SIGNED], ids=["white space at the end", "thinking first"])
def test_answer_begun_by_the_caller_is_one_that_claude_takes(last: Any) -> None:
    """400: final assistant content cannot end with trailing whitespace; nor may it hold thinking while thinking is off."""
    blocks = (last,) if isinstance(last, Text) else (last, Text("begin"))
    sent = body([user("hi"), Message("assistant", blocks, OWN)])
    final = sent["messages"][-1]
    if final["role"] == "assistant":
        content = final["content"]
        assert isinstance(content, str)
        assert content == content.rstrip()
    assert body([user("hi"), assistant("begin:")])["messages"][-1] == {"role": "assistant", "content": "begin:"}


def test_new_models_take_no_begun_answer() -> None:
    assert body([user("hi"), assistant("begin")], "claude-sonnet-5")["messages"][-1] == {"role": "user", "content": "Continue."}
