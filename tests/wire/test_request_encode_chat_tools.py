"""Chat Completions: media, tools and options as they are written."""

from typing import Any

import pytest

from toolglot.messages import Media, Message, Origin, Text, ToolCall, ToolResult, assistant, user
from toolglot.messages import tool_results as tool
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.writer import EncodedRequest

Doc = dict[str, Any]
SCHEMA: Doc = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GET = ToolDefinition("get", "Gets.", SCHEMA)
SQL = ToolDefinition("sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: X"})
CALL = ToolCall("c1", "get", {"x": "1"})
PNG = Media("image", "image/png", "iVBORw0KGgo=")
PDF = Media("file", "application/pdf", "JVBERi0=", name="a.pdf")


def encode(provider: str, messages: list[Message], model: str = "m", **more: Any) -> EncodedRequest:
    return encode_request(Request(model, messages, **more), resolve_profile(provider, model))


def messages(provider: str, said: list[Message], model: str = "m", **more: Any) -> list[Doc]:
    return encode(provider, said, model, **more).body["messages"]


def lost(encoded: EncodedRequest) -> list[str]:
    return [loss.subject for loss in encoded.losses]


# ---- media


@pytest.mark.parametrize(("provider", "media", "part"), [
    ("openai-chat", Media("image", url="http://x/y.png"), {"type": "image_url", "image_url": {"url": "http://x/y.png"}}),
    ("openrouter", Media("audio", "audio/wav", "UklGRg=="),
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    ("openai-chat", Media("file", "application/pdf", "AAAA"),
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,AAAA"}}),
    ("openai-chat", Media("file", "text/plain", "aGVsbG8=", name="a.txt"), {"type": "text", "text": "[file a.txt]\nhello"}),
], ids=["image", "audio", "pdf", "text"])  # fmt: skip
def test_media_that_can_be_said(provider: str, media: Media, part: Doc) -> None:
    encoded = encode(provider, [user(["x", media])])
    assert encoded.body["messages"][0]["content"][1] == part
    assert encoded.losses == ()


@pytest.mark.parametrize(("provider", "media", "kind"), [
    ("deepseek", PNG, "image"),
    ("azure-chat", PDF, "file"),
    ("openai-chat", Media("audio", "audio/wav", "UklGRg=="), "audio"),
    ("openrouter", Media("audio", "audio/ogg", "AAAA"), "audio"),
    ("openai-chat", Media("video", "video/mp4", "AAAA"), "video"),
    ("openai-chat", Media("file", "application/zip", "AAAA"), "file"),
    ("openai-chat", Media("file", file_id="file-of-somebody-else"), "file"),
    ("openai-chat", Media("image", file_id="file-of-somebody-else"), "image"),
])  # fmt: skip
def test_media_that_cannot_be_said_are_a_loss_and_a_word(provider: str, media: Media, kind: str) -> None:
    encoded = encode(provider, [user(["x", media])])
    assert encoded.body["messages"][0]["content"][1]["text"].startswith(f"[{kind} not shown")
    assert lost(encoded) == [kind]
    assert "somebody" not in str(encoded.body)


def test_own_file_id_and_detail_go_back() -> None:
    origin = Origin("openai-chat", "openai-chat", "m")
    file = Media("file", file_id="file-1", opaque={"more": {}})
    image = Media("image", url="http://x", opaque={"more": {"detail": "low"}})
    assert messages("openai-chat", [Message("user", (file, image), origin)])[0]["content"] == [
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}},
    ]


# ---- tools and options


def test_freeform_tools_calls_and_choice_where_they_are_native() -> None:
    call = ToolCall("c1", "sql", None, "select 1", freeform=True)
    said = [user("hi"), assistant(call), tool(ToolResult("c1", (Text("1"),)))]
    body = encode("openai-chat", said, "gpt-5", tools=(SQL, GET), tool_choice=ToolChoice("required", ("sql",))).body
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
    assert body["tools"][0] == {"type": "custom", "custom": {"name": "sql", "description": "Runs.", "format": grammar}}
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "sql"}}
    assert body["messages"][1]["tool_calls"] == [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}]
    plain = encode("openai-chat", said, tools=(ToolDefinition("sql", kind="freeform"),)).body
    assert plain["tools"] == [{"type": "custom", "custom": {"name": "sql"}}]


def test_freeform_tools_and_calls_as_functions() -> None:
    call = ToolCall("c1", "sql", None, "select 1", freeform=True)
    encoded = encode(
        "groq",
        [assistant(call), tool(ToolResult("c1", (Text("1"),)))],
        tools=(SQL,),
        tool_choice=ToolChoice("required", ("sql",)),
    )
    assert encoded.body["tools"][0]["type"] == "function"
    assert encoded.body["tool_choice"] == {"type": "function", "function": {"name": "sql"}}
    assert encoded.body["messages"][0]["tool_calls"][0]["function"] == {"name": "sql", "arguments": '{"input":"select 1"}'}
    assert lost(encoded) == ["freeform"]


def test_strict_is_said_as_asked_for() -> None:
    tools = (
        ToolDefinition("a", "", SCHEMA, strict=True),
        ToolDefinition("b", "", SCHEMA, strict=False),
        ToolDefinition("c", "", SCHEMA),
    )
    body = encode("openai-chat", [user("hi")], tools=tools).body
    assert [tool["function"].get("strict") for tool in body["tools"]] == [True, False, None]
    assert body["tools"][0]["function"]["parameters"] == {**SCHEMA, "additionalProperties": False}
    assert [tool["function"].get("strict") for tool in encode("groq", [user("hi")], tools=tools).body["tools"]] == [
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("provider", "output", "form", "losses"),
    [
        ("openai-chat", Output(), {"type": "json_object"}, []),
        (
            "openai-chat",
            Output(SCHEMA, strict=True),
            {
                "type": "json_schema",
                "json_schema": {"name": "output", "schema": {**SCHEMA, "additionalProperties": False}, "strict": True},
            },
            [],
        ),
        (
            "groq",
            Output(SCHEMA, strict=True),
            {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}},
            ["strict"],
        ),
        ("deepseek", Output(SCHEMA), {"type": "json_object"}, ["output schema"]),
    ],
)
def test_structured_output(provider: str, output: Output, form: Doc, losses: list[str]) -> None:
    encoded = encode(provider, [user("hi")], output=output)
    assert encoded.body["response_format"] == form
    assert lost(encoded) == losses


def test_most_stop_sequences() -> None:
    """The published contract takes four."""
    encoded = encode("openai-chat", [user("hi")], options=Options(stop=("1", "2", "3", "4", "5")))
    assert encoded.body["stop"] == ["1", "2", "3", "4"]
    assert lost(encoded) == ["stop"]


def test_name_of_the_most_tokens_effort_and_what_has_no_place() -> None:
    options = Options(max_tokens=9, effort="high", thinking_budget=5)
    assert encode("compatible", [user("hi")], options=options).body == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }
    encoded = encode("openai-chat", [user("hi")], "gpt-5", options=options, parallel=True)
    assert (encoded.body["max_completion_tokens"], encoded.body["reasoning_effort"]) == (9, "high")
    assert lost(encoded) == ["thinking_budget"]
    assert "parallel_tool_calls" not in encoded.body


def test_openrouter_hosted_tool_goes_back() -> None:
    search = ToolDefinition(
        "openrouter:web_search", kind="hosted", wire="openai-chat", opaque={"type": "openrouter:web_search"}
    )
    assert encode("openrouter", [user("hi")], tools=(search,)).body["tools"] == [{"type": "openrouter:web_search"}]
