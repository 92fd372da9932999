"""Chat Completions: what is written, for OpenAI and for the vendors that speak it their own way."""

from itertools import pairwise
from typing import Any

import pytest

from toolglot.jsontext import loads
from toolglot.messages import Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult, assistant, system, user
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


def test_whole_request() -> None:
    options = Options(100, 0.5, 0.9, stop=("END",), seed=7, presence_penalty=0.1, frequency_penalty=0.2)
    said = [system("Be kind."), user(["Look:", PNG]), assistant(["So.", CALL]), tool(ToolResult("c1", (Text("one"),), "get"))]
    request = Request("gpt-4o", said, (GET,), ToolChoice("required"), False, options, Output(SCHEMA, "o", "An o.", False), True)
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
        "tools": [{"type": "function", "function": {"name": "get", "description": "Gets.", "parameters": SCHEMA}}],
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
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"x":"1"}'}}],
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
    said = messages(provider, [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"),)))])
    assert said[1]["content"] == content


def test_arguments_stay_exactly_as_the_model_wrote_them() -> None:
    calls = [
        ToolCall("1", "f", {"x": 1}, '{ "x" : 1 }'),
        ToolCall("2", "f", {}, ""),
        ToolCall("3", "f", {}),
        ToolCall("4", "f", {}, " "),
    ]
    said = messages("openai-chat", [assistant(calls), tool(*(ToolResult(c.id) for c in calls))])
    assert [call["function"]["arguments"] for call in said[0]["tool_calls"]] == ['{ "x" : 1 }', "{}", "{}", "{}"]


@pytest.mark.parametrize("raw", ['{"x": "cut o', "[1]", '"text"'])
def test_arguments_that_are_no_object_go_back_as_they_came_and_elsewhere_as_an_object(raw: str) -> None:
    call, result = ToolCall("1", "f", None, raw), tool(ToolResult("1", (Text("bad"),)))
    own = messages("openai-chat", [Message("assistant", (call,), Origin("openai-chat", "openai-chat", "m")), result])
    assert own[0]["tool_calls"][0]["function"]["arguments"] == raw
    assert own[1] == {"role": "tool", "tool_call_id": "1", "content": "bad"}
    encoded = encode("openai-chat", [assistant(call), result])
    assert loads(encoded.body["messages"][0]["tool_calls"][0]["function"]["arguments"]) == {"invalid_arguments": raw}
    assert [done.subject for done in encoded.repairs] == ["arguments of 'f'"]


def test_refusal_goes_back_as_a_refusal_and_elsewhere_as_text() -> None:
    origin = Origin("openai-chat", "openai-chat", "gpt-4o")
    said = [user("hi"), Message("assistant", (Text("No.", {"refusal": True}),), origin)]
    assert messages("openai-chat", said)[1] == {"role": "assistant", "refusal": "No."}
    assert messages("groq", said)[1] == {"role": "assistant", "content": "No."}


def test_own_parts_without_a_neutral_form_go_back() -> None:
    part = {"type": "refusal", "refusal": "No."}
    said = [user("hi"), assistant(["Hm.", Foreign("openai-chat", part)])]
    assert messages("openai-chat", said)[1]["content"] == [{"type": "text", "text": "Hm."}, part]
    assert messages("openai-chat", [user(["x", Foreign("openai-chat", {"type": "video_url"})])])[0]["content"][1] == {
        "type": "video_url"
    }


def test_media_of_the_assistant_are_a_loss() -> None:
    encoded = encode("openai-chat", [user("hi"), assistant(["here", PNG])])
    assert encoded.body["messages"][1] == {"role": "assistant", "content": "here"}
    assert lost(encoded) == ["image"]
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
    said = messages("mistral", [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"), PNG), "get")), user("x")])
    roles = [message["role"] for message in said]
    assert ("tool", "user") not in [*pairwise(roles)]
    assert [part for message in said for part in message["content"] if isinstance(part, dict) and part["type"] == "image_url"]


def test_mistral_ids_names_and_filler() -> None:
    said = messages("mistral", [user("hi"), assistant(CALL), tool(ToolResult("c1", (Text("1"),), "get")), user("more")])
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user"]
    id = said[1]["tool_calls"][0]["id"]
    assert len(id) == 9
    assert id.isalnum()
    assert said[2] == {"role": "tool", "tool_call_id": id, "name": "get", "content": "1"}
    assert said[3] == {"role": "assistant", "content": "OK."}


# ---- reasoning


def thinking(provider: str, field: str = "reasoning_content", *blocks: Any) -> Message:
    return Message("assistant", (Thinking("hm", {"field": field}), *blocks), Origin("openai-chat", provider, "m"))


def test_deepseek_gets_its_reasoning_back_and_a_filler_for_what_others_called() -> None:
    result = tool(ToolResult("c1", (Text("1"),)))
    own = messages("deepseek", [user("hi"), thinking("deepseek", "reasoning_content", CALL), result])
    assert own[1]["reasoning_content"] == "hm"
    encoded = encode("deepseek", [user("hi"), thinking("groq", "reasoning", CALL), result, assistant("done")])
    assert encoded.body["messages"][1]["reasoning_content"] == ""
    assert "reasoning_content" not in encoded.body["messages"][3]
    assert "reasoning" not in encoded.body["messages"][1]
    assert lost(encoded) == ["thinking"]
    assert [done.subject for done in encoded.repairs] == ["reasoning_content"]


@pytest.mark.parametrize(
    ("provider", "field"), [("groq", "reasoning"), ("compatible", "reasoning_content"), ("copilot", "reasoning_text")]
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
    assert lost(encoded) == ["thinking"]


def test_mistral_thinking_is_a_part_of_the_content_beside_the_text() -> None:
    said = messages("mistral", [user("hi"), thinking("mistral", "thinking_part", Text("x"))])
    assert said[1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "x"},
    ]


def test_openrouter_details_go_back_to_the_same_upstream_model_only() -> None:
    details = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}]}
    origin = Origin("openai-chat", "openrouter", "anthropic/claude-sonnet-4.5")
    said = [user("hi"), Message("assistant", (Text("x"),), origin, details)]
    assert messages("openrouter", said, "anthropic/claude-sonnet-4.5")[1] == {**details, "role": "assistant", "content": "x"}
    other = encode("openrouter", said, "openai/gpt-5")
    assert other.body["messages"][1] == {"role": "assistant", "content": "x"}
    assert lost(other) == ["reasoning_details"]


# ---- instructions


def test_instructions_of_a_model_that_takes_none_are_said_by_the_user() -> None:
    """Recorded 400: 'messages[0].role' does not support 'system' with this model."""
    encoded = encode("openai-chat", [system("Be kind."), user("hi")], "o1-mini")
    assert [message["role"] for message in encoded.body["messages"]] == ["user", "user"]
    assert [done.subject for done in encoded.repairs] == ["system message"]
    developer = Message("system", (Text("x"),), Origin("openai-chat", "openai-chat", "o1-mini"), {"role": "developer"})
    assert messages("openai-chat", [developer, user("hi")], "o1-mini")[0] == {"role": "user", "content": "x"}


def test_developer_role_and_names_go_back_and_instructions_stay_where_they_are() -> None:
    origin = Origin("openai-chat", "openai-chat", "m")
    said = [
        Message("system", (Text("x"),), origin, {"role": "developer", "name": "boss"}),
        Message("user", (Text("hi"),), origin, {"name": "ann"}),
        system("y"),
    ]
    assert messages("openai-chat", said) == [
        {"role": "developer", "name": "boss", "content": "x"},
        {"role": "user", "name": "ann", "content": "hi"},
        {"role": "system", "content": "y"},
    ]
    assert lost(encode("groq", said)) == ["name", "name"]
