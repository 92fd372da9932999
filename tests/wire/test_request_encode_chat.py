"""Chat Completions: what is written, for OpenAI and for the vendors that speak it their own way."""

from itertools import pairwise
from typing import Any

import pytest
from request_samples import CALL, GET, PNG, SCHEMA, Doc, lost_subjects

from toolglot.common.jsontext import loads
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

SQL = ToolDefinition("sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: X"})
PDF = Media("file", "application/pdf", "JVBERi0=", name="a.pdf")


def encode(provider: str, messages: list[Message], model: str = "m", **options: Any) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile(provider, model))


def messages(provider: str, history: list[Message], model: str = "m", **options: Any) -> list[Doc]:
    return encode(provider, history, model, **options).body["messages"]


def test_whole_request() -> None:
    options = Options(100, 0.5, 0.9, stop=("END",), seed=7, presence_penalty=0.1, frequency_penalty=0.2)
    history = [
        system("Be kind."),
        user(["Look:", PNG]),
        assistant(["So.", CALL]),
        tool(ToolResult("c1", (Text("one"),), "get")),
    ]
    request = Request(
        "gpt-4o",
        history,
        (GET,),
        ToolChoice("required"),
        False,
        options,
        Output(SCHEMA, "o", "An o.", False),
        True,
    )
    encoded = encode_request(request, resolve_profile("openai-chat", "gpt-4o"))
    assert encoded.body == {
        "model": "gpt-4o",
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stream": True,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "o", "schema": SCHEMA, "description": "An o.", "strict": False},
        },
        "tools": [
            {"type": "function", "function": {"name": "get", "description": "Gets.", "parameters": SCHEMA}}
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                ],
            },
            {
                "role": "assistant",
                "content": "So.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"x":"1"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
        ],
    }
    assert list(encoded.body)[-1] == "messages"
    assert (encoded.losses, encoded.repairs, encoded.names) == ((), (), {"get": ("", "get")})


# ---- the content of a turn that only calls


@pytest.mark.parametrize(
    ("provider", "content"), [("openai-chat", None), ("compatible", ""), ("mistral", ""), ("deepseek", "")]
)
def test_content_of_a_turn_that_only_calls(provider: str, content: str | None) -> None:
    sent = messages(provider, [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"),)))])
    assert sent[1]["content"] == content


def test_arguments_stay_exactly_as_the_model_wrote_them() -> None:
    calls = [
        ToolCall("1", "f", {"x": 1}, '{ "x" : 1 }'),
        ToolCall("2", "f", {}, ""),
        ToolCall("3", "f", {}),
        ToolCall("4", "f", {}, " "),
    ]
    sent = messages("openai-chat", [assistant(calls), tool(*(ToolResult(c.id) for c in calls))])
    assert [call["function"]["arguments"] for call in sent[0]["tool_calls"]] == [
        '{ "x" : 1 }',
        "{}",
        "{}",
        "{}",
    ]


@pytest.mark.parametrize("raw", ['{"x": "cut o', "[1]", '"text"'])
def test_arguments_that_are_no_object_go_back_as_they_came_and_elsewhere_as_an_object(raw: str) -> None:
    call, result = ToolCall("1", "f", None, raw), tool(ToolResult("1", (Text("bad"),)))
    native = messages(
        "openai-chat", [Message("assistant", (call,), Origin("openai-chat", "openai-chat", "m")), result]
    )
    assert native[0]["tool_calls"][0]["function"]["arguments"] == raw
    assert native[1] == {"role": "tool", "tool_call_id": "1", "content": "bad"}
    encoded = encode("openai-chat", [assistant(call), result])
    assert loads(encoded.body["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {
        "invalid_arguments": raw
    }
    assert [done.subject for done in encoded.repairs] == ["arguments of 'f'"]


def test_refusal_goes_back_as_a_refusal_and_elsewhere_as_text() -> None:
    origin = Origin("openai-chat", "openai-chat", "gpt-4o")
    history = [user("hi"), Message("assistant", (Text("No.", {"refusal": True}),), origin)]
    assert messages("openai-chat", history)[1] == {"role": "assistant", "refusal": "No."}
    assert messages("groq", history)[1] == {"role": "assistant", "content": "No."}


def test_own_parts_without_a_neutral_form_go_back() -> None:
    part = {"type": "refusal", "refusal": "No."}
    history = [user("hi"), assistant(["Hm.", Foreign("openai-chat", part)])]
    assert messages("openai-chat", history)[1]["content"] == [{"type": "text", "text": "Hm."}, part]
    assert messages("openai-chat", [user(["x", Foreign("openai-chat", {"type": "video_url"})])])[0][
        "content"
    ][1] == {"type": "video_url"}


def test_media_of_the_assistant_are_a_loss() -> None:
    encoded = encode("openai-chat", [user("hi"), assistant(["here", PNG])])
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "here"}
    assert lost_subjects(encoded) == ["image"]
    assert messages("openai-chat", [user("hi"), assistant(PNG)])[1] == {"role": "assistant", "content": ""}


# ---- results


@pytest.mark.parametrize(("result", "content"), [
    (ToolResult("c1", (Text("1"), Text("2"))), "12"),
    (ToolResult("c1", (Text("boom"),), is_error=True), "Error: boom"),
    (ToolResult("c1"), ""),
])  # fmt: skip
def test_result_is_text(result: ToolResult, content: str) -> None:
    assert messages("openai-chat", [assistant(CALL), tool(result)])[1]["content"] == content


def test_media_of_results_follow_in_one_user_message() -> None:
    calls = [ToolCall("1", "shot", {}), ToolCall("2", "read", {})]
    results = [ToolResult("1", (Text("ok"), PNG), "shot"), ToolResult("2", (PDF,), "read")]
    encoded = encode("openai-chat", [assistant(calls), tool(*results)])
    roles = [message["role"] for message in encoded.body["messages"]]
    assert roles == ["assistant", "tool", "tool", "user"]
    assert encoded.body["messages"][3]["content"] == [
        {"type": "text", "text": "[media of the result of shot]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": "[media of the result of read]"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
    ]
    assert encoded.losses == ()
    assert [done.subject for done in encoded.repairs] == ["media of a tool result"]


def test_mistral_gets_no_user_message_right_after_a_result() -> None:
    """400: Unexpected role 'user' after role 'tool'. Pictures of a result are no exception."""
    sent = messages(
        "mistral", [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"), PNG), "get")), user("x")]
    )
    roles = [message["role"] for message in sent]
    assert ("tool", "user") not in [*pairwise(roles)]
    assert [
        part
        for message in sent
        for part in message["content"]
        if isinstance(part, dict) and part["type"] == "image_url"
    ]


def test_mistral_ids_names_and_filler() -> None:
    sent = messages(
        "mistral", [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"),), "get")), user("more")]
    )
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    id = sent[1]["tool_calls"][0]["id"]
    assert len(id) == 9
    assert id.isalnum()
    assert sent[2] == {"role": "tool", "tool_call_id": id, "name": "get", "content": "1"}
    assert sent[3] == {"role": "assistant", "content": "OK."}


# ---- reasoning


def thinking(provider: str, field: str = "reasoning_content", *blocks: Any) -> Message:
    return Message(
        "assistant", (Thinking("hm", {"field": field}), *blocks), Origin("openai-chat", provider, "m")
    )


def test_deepseek_gets_its_reasoning_back_and_a_filler_for_what_others_called() -> None:
    result = tool(ToolResult("c1", (Text("1"),)))
    native = messages("deepseek", [user("hi"), thinking("deepseek", "reasoning_content", CALL), result])
    assert native[1]["reasoning_content"] == "hm"
    encoded = encode("deepseek", [user("hi"), thinking("groq", "reasoning", CALL), result, assistant("done")])
    assert encoded.body["messages"][1]["reasoning_content"] == ""
    assert "reasoning_content" not in encoded.body["messages"][3]
    assert "reasoning" not in encoded.body["messages"][1]
    assert lost_subjects(encoded) == ["thinking"]
    assert [done.subject for done in encoded.repairs] == ["reasoning_content"]


@pytest.mark.parametrize(
    ("provider", "field"),
    [("groq", "reasoning"), ("compatible", "reasoning_content"), ("copilot", "reasoning_text")],
)
def test_reasoning_goes_back_under_the_name_it_came_by(provider: str, field: str) -> None:
    assert messages(provider, [user("hi"), thinking(provider, field, Text("x"))])[1] == {
        "role": "assistant",
        "content": "x",
        field: "hm",
    }


def test_openai_itself_gets_no_reasoning() -> None:
    encoded = encode("openai-chat", [user("hi"), thinking("openai-chat", "reasoning_content", Text("x"))])
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "x"}
    assert lost_subjects(encoded) == ["thinking"]


def test_mistral_thinking_is_a_part_of_the_content_beside_the_text() -> None:
    sent = messages("mistral", [user("hi"), thinking("mistral", "thinking_part", Text("x"))])
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "x"},
    ]


def test_openrouter_details_go_back_to_the_same_upstream_model_only() -> None:
    details = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}]}
    origin = Origin("openai-chat", "openrouter", "anthropic/claude-sonnet-4.5")
    history = [user("hi"), Message("assistant", (Text("x"),), origin, details)]
    assert messages("openrouter", history, "anthropic/claude-sonnet-4.5")[1] == {
        **details,
        "role": "assistant",
        "content": "x",
    }
    other = encode("openrouter", history, "openai/gpt-5")
    assert other.body["messages"][1] == {"role": "assistant", "content": "x"}
    assert lost_subjects(other) == ["reasoning_details"]


# ---- instructions


def test_instructions_become_user_messages_for_a_model_that_accepts_none() -> None:
    """Recorded 400: 'messages[0].role' does not support 'system' with this model."""
    encoded = encode("openai-chat", [system("Be kind."), user("hi")], "o1-mini")
    assert [message["role"] for message in encoded.body["messages"]] == ["user", "user"]
    assert [done.subject for done in encoded.repairs] == ["system message"]
    developer = Message(
        "system", (Text("x"),), Origin("openai-chat", "openai-chat", "o1-mini"), {"role": "developer"}
    )
    assert messages("openai-chat", [developer, user("hi")], "o1-mini")[0] == {"role": "user", "content": "x"}


def test_developer_role_and_names_go_back_and_instructions_stay_where_they_are() -> None:
    origin = Origin("openai-chat", "openai-chat", "m")
    history = [
        Message("system", (Text("x"),), origin, {"role": "developer", "name": "boss"}),
        Message("user", (Text("hi"),), origin, {"name": "ann"}),
        system("y"),
    ]
    assert messages("openai-chat", history) == [
        {"role": "developer", "name": "boss", "content": "x"},
        {"role": "user", "name": "ann", "content": "hi"},
        {"role": "system", "content": "y"},
    ]
    assert lost_subjects(encode("groq", history)) == ["name", "name"]


# ---- media


@pytest.mark.parametrize(("provider", "media", "part"), [
    ("openai-chat", Media("image", url="http://x/y.png"), {"type": "image_url", "image_url": {"url": "http://x/y.png"}}),
    ("openrouter", Media("audio", "audio/wav", "UklGRg=="),
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    ("openai-chat", Media("file", "application/pdf", "AAAA"),
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,AAAA"}}),
    ("openai-chat", Media("file", "text/plain", "aGVsbG8=", name="a.txt"), {"type": "text", "text": "[file a.txt]\nhello"}),
], ids=["image", "audio", "pdf", "text"])  # fmt: skip
def test_supported_media(provider: str, media: Media, part: Doc) -> None:
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
def test_unsupported_media_is_a_loss_and_a_placeholder(provider: str, media: Media, kind: str) -> None:
    encoded = encode(provider, [user(["x", media])])
    assert encoded.body["messages"][0]["content"][1]["text"].startswith(f"[{kind} not shown")
    assert lost_subjects(encoded) == [kind]
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
    history = [user("hi"), assistant(call), tool(ToolResult("c1", (Text("1"),)))]
    body = encode(
        "openai-chat", history, "gpt-5", tools=(SQL, GET), tool_choice=ToolChoice("required", ("sql",))
    ).body
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
    assert body["tools"][0] == {
        "type": "custom",
        "custom": {"name": "sql", "description": "Runs.", "format": grammar},
    }
    assert body["tool_choice"] == {"type": "custom", "custom": {"name": "sql"}}
    assert body["messages"][1]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    ]
    plain = encode("openai-chat", history, tools=(ToolDefinition("sql", kind="freeform"),)).body
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
    assert encoded.body["messages"][0]["tool_calls"][0]["function"] == {
        "name": "sql",
        "arguments": '{"input":"select 1"}',
    }
    assert lost_subjects(encoded) == ["freeform"]


def test_strict_is_sent_as_requested() -> None:
    tools = (
        ToolDefinition("a", "", SCHEMA, strict=True),
        ToolDefinition("b", "", SCHEMA, strict=False),
        ToolDefinition("c", "", SCHEMA),
    )
    body = encode("openai-chat", [user("hi")], tools=tools).body
    assert [tool["function"].get("strict") for tool in body["tools"]] == [True, False, None]
    assert body["tools"][0]["function"]["parameters"] == {**SCHEMA, "additionalProperties": False}
    assert [
        tool["function"].get("strict") for tool in encode("groq", [user("hi")], tools=tools).body["tools"]
    ] == [
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
                "json_schema": {
                    "name": "output",
                    "schema": {**SCHEMA, "additionalProperties": False},
                    "strict": True,
                },
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
    assert lost_subjects(encoded) == losses


def test_most_stop_sequences() -> None:
    """The published contract takes four."""
    encoded = encode("openai-chat", [user("hi")], options=Options(stop=("1", "2", "3", "4", "5")))
    assert encoded.body["stop"] == ["1", "2", "3", "4"]
    assert lost_subjects(encoded) == ["stop"]


def test_name_of_the_most_tokens_effort_and_what_has_no_place() -> None:
    options = Options(max_tokens=9, effort="high", thinking_budget=5)
    assert encode("compatible", [user("hi")], options=options).body == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }
    encoded = encode("openai-chat", [user("hi")], "gpt-5", options=options, parallel=True)
    assert (encoded.body["max_completion_tokens"], encoded.body["reasoning_effort"]) == (9, "high")
    assert lost_subjects(encoded) == ["thinking_budget"]
    assert "parallel_tool_calls" not in encoded.body


def test_openrouter_hosted_tool_goes_back() -> None:
    search = ToolDefinition(
        "openrouter:web_search", kind="hosted", wire="openai-chat", opaque={"type": "openrouter:web_search"}
    )
    assert encode("openrouter", [user("hi")], tools=(search,)).body["tools"] == [
        {"type": "openrouter:web_search"}
    ]
