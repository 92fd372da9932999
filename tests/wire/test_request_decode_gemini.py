"""Gemini generateContent: what is read, in both spellings, and that it comes out again as it went in."""

from typing import Any

import pytest

from toolglot.common.jsontext import dumps
from toolglot.errors import MalformedRequest
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.gemini.request_encode import DUMMY_SIGNATURE

Doc = dict[str, Any]
NEW = "gemini-3-pro-preview"
OWN = Origin("gemini", "gemini", NEW)


def decode(*contents: Doc, **options: Any) -> Request:
    return decode_request("gemini", {"contents": list(contents), **options}, model=NEW)


def again(body: Doc, provider: str = "gemini") -> Doc:
    encoded = encode_request(
        decode_request("gemini", body, profile=provider, model=NEW), resolve_profile(provider, NEW)
    )
    assert (encoded.losses, encoded.repairs) == ((), ())
    return encoded.body


def test_rich_body_comes_out_as_it_went_in() -> None:
    body: Doc = {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "get",
                        "description": "Gets.",
                        "parametersJsonSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
                        "behavior": "BLOCKING",
                    }
                ]
            },
            {"googleSearch": {"timeRangeFilter": {}}},
        ],
        "toolConfig": {
            "retrievalConfig": {"languageCode": "de"},
            "functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["get"]},
        },
        "generationConfig": {
            "maxOutputTokens": 9,
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 4,
            "stopSequences": ["a"],
            "seed": 7,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
            "candidateCount": 1,
        },
        "safetySettings": [{"category": "X"}],
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "hi"},
                    {
                        "inlineData": {"mimeType": "image/png", "data": "AA"},
                        "mediaResolution": {"level": "LOW"},
                    },
                    {"fileData": {"fileUri": "gs://b", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 1}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True, "thoughtSignature": "dGhp"},
                    {"text": "x", "thoughtSignature": "dHh0"},
                    {"executableCode": {"language": "PYTHON", "code": "1"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                    {
                        "functionCall": {"name": "get", "args": {"x": "1"}, "id": "i1"},
                        "thoughtSignature": "c2ln",
                    },
                    {"functionCall": {"name": "get", "args": {}, "id": "i2"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "get", "response": {"a": 1, "b": 2}, "id": "i1"}},
                    {
                        "functionResponse": {
                            "name": "get",
                            "response": {"error": "boom"},
                            "id": "i2",
                            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}],
                        }
                    },
                ],
            },
            {"role": "model", "parts": [{"text": "done"}]},
            {"role": "user", "parts": [{"text": "bye"}]},
        ],
    }
    assert again(body) == body


def test_name_of_a_file_goes_back() -> None:
    part = {"inlineData": {"mimeType": "application/pdf", "data": "AA", "displayName": "a.pdf"}}
    body: Doc = {"contents": [{"role": "user", "parts": [part]}]}
    assert again(body, "vertex") == body


def test_budget_beside_a_field_of_its_own_is_not_lost() -> None:
    thinking = {"thinkingBudget": 99, "includeThoughts": True}
    body: Doc = {
        "generationConfig": {"thinkingConfig": thinking},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    request = decode_request("gemini", body, model="gemini-2.5-flash")
    assert request.options.thinking_budget == 99
    assert encode_request(request, resolve_profile("gemini", "gemini-2.5-flash")).body == body


@pytest.mark.parametrize("mode", ["AUTO", "ANY", "VALIDATED"])
def test_fields_of_the_calling_config_that_have_no_neutral_form_go_back(mode: str) -> None:
    """Vertex: `streamFunctionCallArguments`."""
    config = {"mode": mode, "allowedFunctionNames": ["get"], "streamFunctionCallArguments": True}
    if mode == "AUTO":
        del config["allowedFunctionNames"]
    tools = [{"functionDeclarations": [{"name": "get", "description": "Gets."}]}]
    body: Doc = {
        "tools": tools,
        "toolConfig": {"functionCallingConfig": config},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    assert again(body, "vertex") == body


def test_snake_case_and_single_objects() -> None:
    request = decode(
        contents={"role": "user", "parts": {"text": "hi"}},
        system_instruction={"parts": {"text": "s"}},
        generation_config={
            "max_output_tokens": 9,
            "stop_sequences": ["a"],
            "thinking_config": {"thinking_budget": 5},
            "response_mime_type": "application/json",
        },
        tools={"function_declarations": {"name": "f", "parameters_json_schema": {"a": 1}}},
        tool_config={"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
    )
    assert request.messages == [Message("system", (Text("s"),), OWN), Message("user", (Text("hi"),), OWN)]
    assert request.options == Options(9, stop=("a",), thinking_budget=5)
    assert request.output == Output()
    assert request.tools == (ToolDefinition("f", parameters={"a": 1}, wire="gemini"),)
    assert request.tool_choice == ToolChoice("required", ("f",))


def test_snake_case_parts_of_a_loop() -> None:
    request = decode(
        {
            "role": "model",
            "parts": [
                {
                    "function_call": {"name": "f", "args": {"a_b": 1}},
                    "thought_signature": "c2ln",
                    "thought": False,
                }
            ],
        },
        {
            "role": "function",
            "parts": [
                {"function_response": {"name": "f", "response": {"output": "1"}}},
                {"inline_data": {"mime_type": "image/png", "data": "AA"}},
            ],
        },
    )
    (call,) = request.messages[0].calls
    assert (call.name, call.arguments, call.opaque) == ("f", {"a_b": 1}, {"thoughtSignature": "c2ln"})
    assert request.messages[1:] == [
        Message("tool", (ToolResult(call.id, (Text("1"),), "f", {"output": "1"}),), OWN),
        Message("user", (Media("image", "image/png", "AA"),), OWN),
    ]


def test_results_find_their_calls_by_id_then_by_name_in_order() -> None:
    calls = [
        {"functionCall": {"name": "f", "args": {"n": n}, **({"id": id} if id else {})}}
        for n, id in ((1, ""), (2, ""), (3, "x"))
    ]
    answers = [
        {"functionResponse": {"name": "f", "response": {"output": n}, **({"id": id} if id else {})}}
        for n, id in (("c", "x"), ("a", ""), ("b", ""))
    ]
    request = decode({"role": "model", "parts": calls}, {"role": "user", "parts": answers})
    by_id = {call.id: (call.arguments or {})["n"] for call in request.messages[0].calls}
    assert len(by_id) == 3
    assert [(by_id[result.call_id], result.text) for result in request.messages[1].results] == [
        (3, "c"),
        (1, "a"),
        (2, "b"),
    ]


def test_a_call_without_a_result_does_not_shift_later_results() -> None:
    def call(number: int) -> Doc:
        return {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": number}}}]}

    answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "2"}}}]}
    request = decode(call(1), {"role": "user", "parts": [{"text": "?"}]}, call(2), answer)
    assert request.messages[3].results[0].call_id == request.messages[2].calls[0].id


def test_equal_calls_of_two_turns_have_their_own_ids() -> None:
    turn: tuple[Doc, ...] = (
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
    )
    request = decode(*turn, *turn)
    ids = [message.calls[0].id for message in request.messages if message.calls]
    assert len({*ids}) == 2
    assert [message.results[0].call_id for message in request.messages if message.results] == ids


def test_a_name_that_a_signature_was_made_for_is_kept() -> None:
    """A name that no tool has here is changed when it goes back, and the signature with it."""
    names = ("get", "na\u00efve.tool", "a.b")
    contents: list[Doc] = [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": name, "args": {}, "id": name}, "thoughtSignature": "c2ln"}],
        }
        for name in names
    ]
    messages = decode(*contents).messages
    assert [message.calls[0].opaque for message in messages] == [
        {"thoughtSignature": "c2ln", "id": "get"},
        {"thoughtSignature": "c2ln", "id": "na\u00efve.tool", "signed_name": "na\u00efve.tool"},
        {"thoughtSignature": "c2ln", "id": "a.b", "signed_name": "a.b"},
    ]
    profile = resolve_profile("gemini", NEW)
    encoded = encode_request(Request(NEW, messages), profile).body["contents"]
    parts = [part for content in encoded for part in content["parts"] if "functionCall" in part]
    assert [part["thoughtSignature"] for part in parts] == ["c2ln", DUMMY_SIGNATURE, "c2ln"]
    assert [sorted(part["functionCall"]) for part in parts] == [["args", "id", "name"]] * 3
    elsewhere = encode_request(Request("gpt-4o", messages), resolve_profile("openai-chat"))
    assert (b"signed_name" in dumps(elsewhere.body), elsewhere.losses) == (False, ())


@pytest.mark.parametrize(("response", "text", "is_error"), [
    ({"output": "a"}, "a", False),
    ({"result": {"x": 1}}, '{"x":1}', False),
    ({"error": "boom"}, "boom", True),
    ({"a": 1, "error": None}, '{"a":1,"error":null}', False),
    ({"other": 1}, '{"other":1}', False),
    ({}, "", False),
    (None, "", False),
])  # fmt: skip
def test_response_as_text(response: Any, text: str, is_error: bool) -> None:
    (result,) = (
        decode({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]})
        .messages[0]
        .results
    )
    assert (result.call_id, result.text, result.data, result.is_error) == ("f", text, response, is_error)


def test_parts_of_a_response_are_read_too() -> None:
    parts: list[Doc] = [
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        {"odd": 1},
        {"text": "dropped into opaque only"},
    ]
    (result,) = (
        decode(
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "i", "name": "f", "response": {}, "parts": parts}}],
            }
        )
        .messages[0]
        .results
    )
    assert result.content == (Text(""), Media("image", "image/png", "AA"), Foreign("gemini", {"odd": 1}))
    assert result.opaque == {"id": "i", "parts": parts}


def test_model_turn_is_read_as_a_reply_is() -> None:
    parts: list[Doc] = [
        {"text": "hm", "thought": True},
        {"text": "a"},
        {"text": "b", "thoughtSignature": "c2ln"},
        {"text": "c"},
        {"functionCall": {"name": "f", "id": "i"}},
    ]
    (message,) = decode({"role": "model", "parts": parts}).messages
    assert message == Message(
        "assistant",
        (
            Thinking("hm"),
            Text("ab", {"thoughtSignature": "c2ln"}),
            Text("c"),
            ToolCall("i", "f", {}, opaque={"id": "i"}),
        ),
        OWN,
    )


def test_instructions_may_be_plain_text() -> None:
    assert decode(systemInstruction="s").messages == [Message("system", (Text("s"),), OWN)]
    assert decode(systemInstruction=None).messages == []


@pytest.mark.parametrize(("config", "choice", "extras"), [
    ({"mode": "NONE"}, ToolChoice("none"), {}),
    ({"mode": "AUTO"}, ToolChoice("auto"), {}),
    ({"mode": "VALIDATED"}, None, {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}),
    ({"mode": "MODE_OF_TOMORROW"}, None, {"toolConfig": {"functionCallingConfig": {"mode": "MODE_OF_TOMORROW"}}}),
])  # fmt: skip
def test_choice(config: Doc, choice: ToolChoice | None, extras: Doc) -> None:
    request = decode(toolConfig={"functionCallingConfig": config})
    assert request.tool_choice == choice
    assert request.extras == ({"gemini": extras} if extras else {})


def test_schemas_of_openapi_become_json_schema() -> None:
    parameters = {"type": "OBJECT", "properties": {"x": {"type": "STRING", "nullable": True}}}
    request = decode(
        tools=[{"functionDeclarations": [{"name": "f", "parameters": parameters}, {"name": "g"}]}],
        generationConfig={"responseMimeType": "application/json", "responseSchema": {"type": "INTEGER"}},
    )
    assert request.tools[0].parameters is not None
    assert request.tools[0].parameters["type"] == "object"
    assert request.tools[0].parameters["properties"]["x"] == {"type": ["string", "null"]}
    assert request.tools[1].parameters is None
    assert request.output == Output({"type": "integer"})


def test_model_of_the_body_where_nobody_names_one() -> None:
    assert decode_request("gemini", {"model": "models/gemini-x", "contents": []}).model == "gemini-x"
    assert decode().model == NEW


def test_other_fields_are_extras() -> None:
    extras = decode(
        cachedContent="c",
        generationConfig={"responseModalities": ["TEXT"], "thinkingConfig": {"thinkingLevel": "ODD"}},
    ).extras
    assert extras == {
        "gemini": {
            "cachedContent": "c",
            "generationConfig": {"responseModalities": ["TEXT"], "thinkingConfig": {"thinkingLevel": "ODD"}},
        }
    }


@pytest.mark.parametrize("contents", [
    [{"role": "user", "parts": [{"functionResponse": 3}]}],
    [{"role": "model", "parts": [{"functionCall": {"args": 3, "partialArgs": [3]}}]}],
])  # fmt: skip
def test_wrong_shapes_are_malformed_requests(contents: Any) -> None:
    with pytest.raises(MalformedRequest):
        decode(*contents)
