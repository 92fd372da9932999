"""OpenAI Responses: what is written. History is a flat list of items."""

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

OWN = Origin("openai-responses", "openai-responses", "gpt-5")


def encode(
    messages: list[Message], model: str = "gpt-5", provider: str = "openai-responses", **options: Any
) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile(provider, model))


def items(*messages: Message, **options: Any) -> list[Doc]:
    return encode(list(messages), **options).body["input"]


def test_whole_request() -> None:
    history = [system("Be kind."), system("Be brief."), user(["Look:", PNG]), assistant(["So.", CALL]), DONE]
    options = Options(100, 0.5, 0.9)
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
    encoded = encode_request(request, resolve_profile("openai-responses", "gpt-4o"))
    assert encoded.body == {
        "model": "gpt-4o",
        "instructions": "Be kind.\n\nBe brief.",
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stream": True,
        "text": {
            "format": {
                "type": "json_schema",
                "name": "o",
                "schema": SCHEMA,
                "description": "An o.",
                "strict": False,
            }
        },
        "tools": [
            {"type": "function", "name": "get", "description": "Gets.", "parameters": SCHEMA, "strict": False}
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look:"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                ],
            },
            {"type": "message", "role": "assistant", "content": "So."},
            {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"x":"1"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
        ],
    }
    assert list(encoded.body)[-1] == "input"
    assert (encoded.losses, encoded.repairs) == ((), ())


# ---- reasoning


def reasoning(n: int) -> Thinking:
    return Thinking(
        "hm",
        {"id": f"rs_{n}", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "xyz"},
    )


def test_reasoning_goes_back_whole_before_what_it_led_to() -> None:
    text = Text(
        "x", {"id": "msg_1", "status": "completed", "phase": "commentary", "part": {"annotations": [1]}}
    )
    call = ToolCall("c1", "get", {"x": "1"}, '{"x":"1"}', opaque={"id": "fc_1", "status": "completed"})
    sent = items(user("hi"), Message("assistant", (reasoning(1), text, reasoning(2), call), OWN), DONE)
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "xyz",
    }
    part = {"type": "output_text", "text": "x", "annotations": [1]}
    assert sent[1] == item
    assert sent[2] == {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "phase": "commentary",
        "content": [part],
    }
    assert sent[3] == {**item, "id": "rs_2"}
    assert sent[4] == {
        "type": "function_call",
        "call_id": "c1",
        "name": "get",
        "arguments": '{"x":"1"}',
        "id": "fc_1",
        "status": "completed",
    }


def test_reasoning_without_a_summary_keeps_its_empty_one() -> None:
    sent = items(Message("assistant", (Thinking("", {"id": "rs_1"}), CALL), OWN), DONE)
    assert sent[0] == {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    "blocks",
    [(reasoning(1),), (reasoning(1), reasoning(2)), (reasoning(1), PNG)],
    ids=["one", "two", "before lost media"],
)
def test_reasoning_whose_result_is_missing_is_left_out(blocks: tuple[Any, ...]) -> None:
    """400: Item 'rs_…' of type 'reasoning' was provided without its required following item."""
    encoded = encode(
        [user("hi"), Message("assistant", (Text("x", {"id": "msg_1"}), *blocks), OWN), user("y")]
    )
    assert [item.get("type", item.get("role")) for item in encoded.body["input"]] == [
        "user",
        "message",
        "user",
    ]
    assert {done.subject for done in encoded.repairs} == {"reasoning item"}


@pytest.mark.parametrize("provider", ["azure-responses", "openai-chat", "anthropic", "gemini", "ollama"])
def test_ids_and_ciphers_stay_with_openai(provider: str) -> None:
    message = Message(
        "assistant",
        (reasoning(1), Text("x", {"id": "msg_1"}), ToolCall("c1", "get", {}, opaque={"id": "fc_1"})),
        OWN,
    )
    encoded = encode([user("hi"), message, DONE], provider=provider)
    assert not any(mark in str(encoded.body) for mark in ("rs_1", "xyz", "msg_1", "fc_1", "hm"))
    assert lost_subjects(encoded) == ["thinking"]


def test_compaction_of_openai_is_not_sent_to_azure() -> None:
    """Azure's and OpenAI's encrypted items are not interchangeable."""
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "xyz"}
    history = [
        user("hi"),
        Message("assistant", (Foreign("openai-responses", item), Text("x")), OWN),
        user("y"),
    ]
    assert encode(history).body["input"][1] == item
    assert "xyz" not in str(encode(history, provider="azure-responses").body)


# ---- assistant


def test_texts_of_one_item_are_one_item_again() -> None:
    first = Text("a", {"id": "msg_1", "part": {"annotations": []}})
    two = Text("b", {"id": "msg_1", "refusal": True})
    sent = items(
        user("hi"), Message("assistant", (first, two, Text("c", {"id": "msg_2"}), Text("d"), Text("e")), OWN)
    )
    assert sent[1:] == [
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "refusal", "refusal": "b"},
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_2",
            "content": [{"type": "output_text", "text": "c"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "d"}, {"type": "output_text", "text": "e"}],
        },
    ]


def test_built_in_items_go_back_and_media_are_a_loss() -> None:
    search = Foreign("openai-responses", {"type": "web_search_call", "id": "ws_1"})
    encoded = encode([user("hi"), Message("assistant", (search, PNG, Text("x")), OWN)])
    text = {"type": "message", "role": "assistant", "content": "x"}
    assert encoded.body["input"][1:] == [{"type": "web_search_call", "id": "ws_1"}, text]
    assert lost_subjects(encoded) == ["image"]


@pytest.mark.parametrize(
    ("origin", "arguments"), [(OWN, '{"x": "cut'), (None, '{"invalid_arguments":"{\\"x\\": \\"cut"}')]
)
def test_cut_off_arguments(origin: Origin | None, arguments: str) -> None:
    sent = items(Message("assistant", (ToolCall("c1", "get", None, '{"x": "cut'),), origin), DONE)
    assert sent[0]["arguments"] == arguments


@pytest.mark.parametrize(
    ("call", "arguments"),
    [(ToolCall("c1", "f", {}, ""), "{}"), (ToolCall("c1", "f", {}, '{ "x":1}'), '{ "x":1}')],
)
def test_arguments_are_text(call: ToolCall, arguments: str) -> None:
    assert items(assistant(call), DONE)[0]["arguments"] == arguments


# ---- results


@pytest.mark.parametrize(
    ("content", "is_error", "output"),
    [
        ((Text("1"), Text("2")), False, "12"),
        ((), False, ""),
        ((Text("boom"),), True, "Error: boom"),
        ((PNG,), False, [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]),
        (
            (Text("1"), Media("file", "application/pdf", "AA", name="a.pdf")),
            False,
            [
                {"type": "input_text", "text": "1"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
            ],
        ),
        (
            (Media("audio", "audio/wav", "AA"),),
            False,
            [{"type": "input_text", "text": "[audio not shown: audio/wav]"}],
        ),
    ],
    ids=["text", "nothing", "error", "image", "pdf", "audio"],
)
def test_result(content: Any, is_error: bool, output: Any) -> None:
    sent = items(assistant(CALL), tool(ToolResult("c1", content, is_error=is_error)))
    assert sent[1] == {"type": "function_call_output", "call_id": "c1", "output": output}


def test_an_error_with_an_image_is_sent_as_an_error() -> None:
    sent = items(assistant(CALL), tool(ToolResult("c1", (Text("boom"), PNG), is_error=True)))
    texts = "".join(part.get("text", "") for part in sent[1]["output"])
    assert texts.lower().startswith("error")
    assert "boom" in texts


def test_own_state_of_a_result_goes_back() -> None:
    result = ToolResult("c1", (Text("1"),), opaque={"id": "fco_1", "type": "custom_tool_call_output"})
    sent = items(
        Message("tool", (result,), OWN),
        user("hi"),
        extras={"openai-responses": {"previous_response_id": "resp_1"}},
    )
    assert sent[0] == {"type": "custom_tool_call_output", "call_id": "c1", "output": "1", "id": "fco_1"}


# ---- freeform, namespaces, built-ins


def test_freeform_tools_calls_and_choice() -> None:
    sql = ToolDefinition(
        "sql", "Runs.", kind="freeform", grammar={"syntax": "lark", "definition": "start: X"}
    )
    call = ToolCall("c1", "sql", None, "select 1", freeform=True)
    body = encode(
        [assistant(call), DONE],
        tools=(sql, ToolDefinition("raw", kind="freeform")),
        tool_choice=ToolChoice("required", ("sql",)),
    ).body
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    assert body["tools"] == [
        {"type": "custom", "name": "sql", "description": "Runs.", "format": grammar},
        {"type": "custom", "name": "raw"},
    ]
    assert body["tool_choice"] == {"type": "custom", "name": "sql"}
    assert body["input"] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "one"},
    ]


def test_namespaces_are_native_at_openai_and_prefixes_at_azure() -> None:
    opaque = {"namespace": {"description": "Customers."}}
    tools = tuple(
        ToolDefinition(name, "", SCHEMA, namespace="crm", wire="openai-responses", opaque=opaque)
        for name in ("a", "b")
    )
    tools += (ToolDefinition("c", "", SCHEMA, namespace="erp"), GET)
    call = ToolCall("c1", "a", {}, namespace="crm")
    body = encode([assistant(call), DONE], tools=tools).body
    assert [(tool["type"], tool["name"], tool.get("description")) for tool in body["tools"]] == [
        ("namespace", "crm", "Customers."),
        ("namespace", "erp", "erp"),
        ("function", "get", "Gets."),
    ]
    assert [tool["name"] for tool in body["tools"][0]["tools"]] == ["a", "b"]
    assert "namespace" not in body["tools"][0]["tools"][0]
    assert body["input"][0] == {
        "type": "function_call",
        "call_id": "c1",
        "name": "a",
        "namespace": "crm",
        "arguments": "{}",
    }
    azure = encode([assistant(call), DONE], provider="azure-responses", tools=tools)
    assert [tool["name"] for tool in azure.body["tools"]] == ["crm__a", "crm__b", "erp__c", "get"]
    assert azure.body["input"][0]["name"] == "crm__a"
    assert azure.names["crm__a"] == ("crm", "a")


SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c1",
    "action": {"commands": ["ls"]},
    "status": "completed",
}


def shell_call(id: str = "c1") -> ToolCall:
    return ToolCall(id, "shell", {"commands": ["ls"]}, opaque={"item": {**SHELL, "call_id": id}})


@pytest.mark.parametrize(("kind", "result", "fields"), [
    ("shell_call", ToolResult("c1", (Text("a"),)),
        {"output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
    ("shell_call", ToolResult("c1", (Text("a"),), is_error=True),
        {"output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]}),
    ("apply_patch_call", ToolResult("c1", (Text("a"),)), {"status": "completed", "output": "a"}),
    ("apply_patch_call", ToolResult("c1", (Text("a"),), is_error=True), {"status": "failed", "output": "a"}),
    ("local_shell_call", ToolResult("c1", (Text("a"),)), {"output": "a"}),
    ("tool_search_call", ToolResult("c1", data=[{"type": "function"}]),
        {"execution": "client", "status": "completed", "tools": [{"type": "function"}]}),
])  # fmt: skip
def test_built_in_that_the_client_ran_is_answered_in_its_own_form(
    kind: str, result: ToolResult, fields: Doc
) -> None:
    item = {"type": kind, "call_id": "c1"}
    call = Message("assistant", (ToolCall("c1", kind.removesuffix("_call"), {}, opaque={"item": item}),), OWN)
    names = {"tool_search_call": "tool_search_output", "local_shell_call": "function_call_output"}
    output = names.get(kind, f"{kind}_output")
    assert items(call, tool(result)) == [item, {"type": output, "call_id": "c1", **fields}]


def test_built_in_item_and_its_output_go_back_whole() -> None:
    output: Doc = {"type": "shell_call_output", "call_id": "c1", "output": [], "max_output_length": 5}
    result = Message("tool", (ToolResult("c1", (Text("a"),), opaque={"item": output}),), OWN)
    assert items(Message("assistant", (shell_call(),), OWN), result) == [SHELL, output]


def test_unanswered_built_in_beside_an_answered_call_gets_an_output_of_its_kind() -> None:
    message = Message("assistant", (shell_call("c2"), CALL), OWN)
    sent = items(message, Message("tool", (ToolResult("c1", (Text("one"),)),), OWN))
    assert [(item["type"], item["call_id"]) for item in sent] == [
        ("shell_call", "c2"),
        ("function_call", "c1"),
        ("shell_call_output", "c2"),
        ("function_call_output", "c1"),
    ]


def test_built_in_call_is_a_function_call_elsewhere() -> None:
    sent = items(Message("assistant", (shell_call(),), OWN), DONE, provider="azure-responses")
    assert sent[0] == {
        "type": "function_call",
        "call_id": "c1",
        "name": "shell",
        "arguments": '{"commands":["ls"]}',
    }
    assert sent[1]["type"] == "function_call_output"
