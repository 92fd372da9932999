"""OpenAI Responses: media, tools and options as they are written, and everything as it is read."""

from typing import Any

import pytest
from request_samples import GET, SCHEMA, Doc, lost_subjects

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
    ToolsChanged,
    system,
    user,
)
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.writer import EncodedRequest

OWN = Origin("openai-responses", "openai-responses", "gpt-5")


def encode(
    messages: list[Message], model: str = "gpt-5", provider: str = "openai-responses", **options: Any
) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile(provider, model))


def decode(*items: Any, **options: Any) -> Request:
    return decode_request("openai-responses", {"model": "gpt-5", "input": list(items), **options})


def test_an_id_of_calls_of_two_kinds() -> None:
    """The output of a function stays one although a built-in tool was called under the same id before."""
    items = [
        {
            "type": "local_shell_call",
            "call_id": "0",
            "action": {"type": "exec", "command": ["ls"]},
            "status": "completed",
            "id": "l",
        },
        {"type": "local_shell_call_output", "call_id": "0", "output": "a"},
        {"type": "function_call", "call_id": "0", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "0", "output": "b"},
    ]
    results = [result for message in decode(*items).messages for result in message.results]
    assert [(result.text, (result.opaque or {}).get("type")) for result in results][1] == ("b", None)


# ---- written


@pytest.mark.parametrize(("media", "part"), [
    (Media("image", url="http://x/y.png"), {"type": "input_image", "image_url": "http://x/y.png"}),
    (Media("file", "application/pdf", "AA"),
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,AA"}),
    (Media("file", url="http://x/y.pdf"), {"type": "input_file", "file_url": "http://x/y.pdf"}),
    (Media("file", "text/plain", "aGVsbG8="), {"type": "input_text", "text": "hello"}),
    (Media("file", file_id="f", opaque={"more": {}}), {"type": "input_file", "file_id": "f"}),
    (Media("image", file_id="f", opaque={"more": {"detail": "low"}}), {"type": "input_image", "file_id": "f", "detail": "low"}),
])  # fmt: skip
def test_supported_media(media: Media, part: Doc) -> None:
    encoded = encode([Message("user", (Text("x"), media), OWN)])
    assert encoded.body["input"][0]["content"] == [{"type": "input_text", "text": "x"}, part]
    assert encoded.losses == ()


@pytest.mark.parametrize("media", [
    Media("audio", "audio/wav", "AA"), Media("video", url="http://x"), Media("file", "application/zip", "AA"),
    Media("file", file_id="f"), Media("file", url="gs://x"),
], ids=["audio", "video", "zip", "file of somebody else", "no http"])  # fmt: skip
def test_unsupported_media(media: Media) -> None:
    encoded = encode([user(media)])
    assert encoded.body["input"][0]["content"][0]["text"].startswith(f"[{media.kind} not shown")
    assert lost_subjects(encoded) == [media.kind]


def test_instructions_in_the_middle_stay_there_and_items_stay_items() -> None:
    developer = Message("system", (Text("d"),), OWN, {"role": "developer", "type": "message"})
    body = encode([system("s"), developer, system("t"), user("hi"), system("u")]).body
    assert body["instructions"] == "s"
    assert body["input"] == [
        {"role": "developer", "type": "message", "content": "d"},
        {"role": "system", "content": "t"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "u"},
    ]


def test_what_instructions_cannot_hold_is_a_loss() -> None:
    encoded = encode([system(["Be kind.", Media("image", "image/png", "AA")]), user("hi")])
    assert encoded.body["instructions"].startswith("Be kind.")
    assert lost_subjects(encoded) == ["image"]


def test_own_part_that_instructions_cannot_hold_is_a_loss() -> None:
    encoded = encode([system(["Be kind.", Foreign("openai-responses", {"type": "input_video"})]), user("hi")])
    assert encoded.body["instructions"] == "Be kind."
    assert lost_subjects(encoded) == ["input_video"]


def test_least_of_the_most_tokens() -> None:
    encoded = encode([user("hi")], options=Options(max_tokens=1))
    assert encoded.body["max_output_tokens"] == 16
    assert [done.subject for done in encoded.repairs] == ["max_tokens"]


def test_effort_and_output_join_their_extras() -> None:
    extras = {
        "openai-responses": {
            "reasoning": {"summary": "auto"},
            "text": {"verbosity": "low"},
            "include": ["x"],
        },
        "openai": {"user": "u"},
    }
    body = encode(
        [user("hi")], options=Options(effort="high", thinking_budget=5), output=Output(), extras=extras
    ).body
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert (body["include"], body["user"]) == (["x"], "u")
    assert extras["openai-responses"]["reasoning"] == {"summary": "auto"}


def test_strict_is_always_sent() -> None:
    """Left out, the server tries strict and may change the schema."""
    tools = (ToolDefinition("a", "", SCHEMA, strict=True), ToolDefinition("b", "", None))
    body = encode([user("hi")], tools=tools).body
    assert [(tool["strict"], tool["parameters"]) for tool in body["tools"]] == [
        (True, {**SCHEMA, "additionalProperties": False}),
        (False, {"type": "object", "properties": {}}),
    ]


def test_choice_of_several_tools() -> None:
    tools = (GET, ToolDefinition("raw", kind="freeform"), ToolDefinition("put", "", SCHEMA))
    body = encode([user("hi")], tools=tools, tool_choice=ToolChoice("auto", ("get", "raw"))).body
    named = [{"type": "function", "name": "get"}, {"type": "custom", "name": "raw"}]
    assert body["tool_choice"] == {"type": "allowed_tools", "mode": "auto", "tools": named}


@pytest.mark.parametrize("choice", [
    {"type": "web_search"}, {"type": "mcp", "server_label": "s"}, {"type": "mcp", "server_label": "s", "name": "t"},
    {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}, {"type": "function", "name": "get"}]},
], ids=["built-in", "server", "tool of a server", "some of each"])  # fmt: skip
def test_choice_of_hosted_tools_goes_back_verbatim_and_is_a_loss_elsewhere(choice: Doc) -> None:
    """{"type": "mcp"} alone is refused: `server_label` says which one."""
    tools = [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "s"},
        {"type": "function", "name": "get"},
    ]
    request = decode({"role": "user", "content": "hi"}, tools=tools, tool_choice=choice)
    assert encode_request(request, resolve_profile("openai-responses", "gpt-5")).body["tool_choice"] == choice
    other = encode_request(request, resolve_profile("openai-chat", "gpt-4o"))
    assert not any(word in str(other.body) for word in ("web_search", "mcp"))
    assert len([subject for subject in lost_subjects(other) if subject.startswith("hosted tool")]) == 2


def test_azure_gets_a_hint_about_tools_that_cannot_be_called() -> None:
    encoded = encode(
        [system("s"), user("hi")],
        provider="azure-responses",
        tools=(GET, ToolDefinition("put", "", SCHEMA), ToolDefinition("cut", "", SCHEMA)),
        tool_choice=ToolChoice("auto", ("get", "put")),
    )
    assert [tool["name"] for tool in encoded.body["tools"]] == ["get", "put"]
    assert lost_subjects(encoded) == ["tool 'cut'"]
    assert "cut" in encoded.body["instructions"]


def test_provider_that_holds_the_history_gets_only_what_is_new() -> None:
    extras = {"openai-responses": {"previous_response_id": "resp_1"}}
    answer = Message("tool", (ToolResult("c1", (Text("1"),)),))
    body = encode([answer], extras=extras).body
    assert body["input"] == [{"type": "function_call_output", "call_id": "c1", "output": "1"}]
    assert "input" not in encode([], extras=extras).body


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai-chat", "ollama"])
def test_result_of_a_call_that_openai_holds_is_text_for_others(provider: str) -> None:
    """Nobody else has the earlier part: the result answers no call there."""
    request = decode(
        {"type": "function_call_output", "call_id": "c1", "output": "one"}, previous_response_id="resp_1"
    )
    body = encode_request(request, resolve_profile(provider, "m")).body
    assert not any(word in str(body) for word in ("tool_result", "functionResponse", "tool_call_id"))
    assert "one" in str(body)


# ---- read


def test_rich_body_comes_out_as_it_went_in() -> None:
    body: Doc = {
        "model": "gpt-5",
        "instructions": "Be kind.",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "stream": True,
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": False},
            "verbosity": "low",
        },
        "tools": [
            {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False, "defer_loading": True},
            {
                "type": "custom",
                "name": "sql",
                "description": "d",
                "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
                "defer_loading": True,
            },
            {
                "type": "namespace",
                "name": "crm",
                "description": "Customers.",
                "tools": [{"type": "function", "name": "g", "parameters": SCHEMA, "strict": False}],
            },
            {"type": "web_search", "filters": {"allowed_domains": ["x"]}},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "sql"}],
        },
        "parallel_tool_calls": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"role": "developer", "content": "d"},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "http://x", "detail": "low"},
                    {"type": "input_file", "file_id": "f"},
                    {"type": "input_file", "file_url": "http://y"},
                    {"type": "input_video", "x": 1},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
            {
                "type": "message",
                "role": "assistant",
                "id": "msg_1",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "x", "annotations": []},
                    {"type": "refusal", "refusal": "no"},
                ],
            },
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "g",
                "namespace": "crm",
                "arguments": "{ }",
                "id": "fc_1",
            },
            {"type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": "select 1", "id": "ctc_1"},
            {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}, "id": "sh_1"},
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "1"},
                    {"type": "input_image", "image_url": "http://x"},
                ],
            },
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "2"},
            {
                "type": "shell_call_output",
                "call_id": "c3",
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
            {"type": "message", "role": "assistant", "content": "done"},
            {"role": "user", "content": "bye"},
        ],
    }
    encoded = encode_request(
        decode_request("openai-responses", body), resolve_profile("openai-responses", "gpt-5")
    )
    assert encoded.body == body
    assert (encoded.losses, encoded.repairs) == ((), ())


def test_items_of_one_speaker_are_one_message() -> None:
    request = decode(
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": "x"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": {"a": 1}},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": None},
        {"type": "shell_call", "call_id": "c4", "action": {"commands": []}},
        {"type": "local_shell_call_output", "call_id": "c3", "output": "text"},
    )
    thought = Thinking("hm", {"id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]})
    shell: Doc = {"type": "shell_call", "call_id": "c4", "action": {"commands": []}}
    output = {"type": "local_shell_call_output", "call_id": "c3", "output": "text"}
    assert request.messages == [
        Message("user", (Text("hi"),), OWN),
        Message("assistant", (thought, Text("x"), ToolCall("c1", "f", {"a": 1}, '{"a": 1}')), OWN),
        Message(
            "tool",
            (
                ToolResult("c1", (Text('{"a":1}'),)),
                ToolResult("c2", (Text(""),), opaque={"type": "custom_tool_call_output"}),
            ),
            OWN,
        ),
        Message("assistant", (ToolCall("c4", "shell", {"commands": []}, opaque={"item": shell}),), OWN),
        Message("tool", (ToolResult("c3", (Text("text"),), opaque={"item": output}),), OWN),
    ]


def test_built_in_outputs_are_read_as_text() -> None:
    parts = [{"stdout": "a", "stderr": "b"}, {"stdout": "c"}]
    request = decode(
        {"type": "shell_call_output", "call_id": "c", "output": parts},
        {"type": "tool_search_output", "call_id": "d", "tools": [{"type": "x"}]},
    )
    first, second = request.messages[0].results
    assert first.text == "ab\nc"
    assert isinstance(change := second.content[0], ToolsChanged)
    assert [tool.name for tool in change.added] == ["x"]
    searched = decode(
        {"type": "tool_search_call", "call_id": "s", "execution": "server", "arguments": {}}
    ).messages[0]
    assert isinstance(searched.blocks[0], Foreign)


def test_input_and_instructions_in_their_other_forms() -> None:
    assert decode_request("openai-responses", {"input": "hi"}).messages == [
        Message("user", (Text("hi"),), Origin("openai-responses", "openai-responses"))
    ]
    assert decode(instructions=[{"role": "system", "content": "s"}]).messages == [
        Message("system", (Text("s"),), OWN)
    ]
    assert decode(instructions=None).messages == []
    read = decode(
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}
            ],
        }
    )
    assert read.messages == [
        Message("user", (Media("file", "application/pdf", "AA", name="a.pdf"),), OWN, {"type": "message"})
    ]


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("required", ("f",))),
        ({"type": "custom", "name": "f"}, ToolChoice("required", ("f",))),
        ({"type": "shell"}, ToolChoice("required", ("shell",))),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}],
            },
            ToolChoice("required", ("f", "g")),
        ),
        ("odd", None),
    ],
)
def test_choice(choice: Any, wanted: ToolChoice | None) -> None:
    assert decode(tool_choice=choice).tool_choice == wanted


def test_options_and_extras() -> None:
    request = decode(
        max_output_tokens=5,
        temperature=0.1,
        top_p=0.2,
        reasoning={"effort": "ultra"},
        text={"format": {"type": "text"}},
        background=True,
        user="u",
    )
    assert request.options == Options(5, 0.1, 0.2)
    assert request.output is None
    assert request.extras == {
        "openai-responses": {"background": True, "reasoning": {"effort": "ultra"}},
        "openai": {"user": "u"},
    }
    assert decode(text={"format": {"type": "json_object"}}).output == Output()
    assert decode(text={"format": {"type": "new"}}).extras == {
        "openai-responses": {"text": {"format": {"type": "new"}}}
    }


def test_tools() -> None:
    tools: list[Doc] = [
        {"name": "f"},
        {"type": "custom", "name": "raw", "format": {"type": "text"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
    ]
    assert decode(tools=tools).tools == (
        ToolDefinition("f", wire="openai-responses"),
        ToolDefinition("raw", kind="freeform", wire="openai-responses"),
        ToolDefinition("g", namespace="n", wire="openai-responses"),
    )
