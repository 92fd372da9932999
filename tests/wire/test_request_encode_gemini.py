"""Gemini generateContent: what is written."""

import base64
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

DUMMY_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
OLD, NEW = "gemini-2.5-flash", "gemini-3-pro-preview"
OWN = Origin("gemini", "gemini", NEW)


def encode(
    messages: list[Message], model: str = OLD, provider: str = "gemini", **options: Any
) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile(provider, model))


def contents(*messages: Message, model: str = OLD, **options: Any) -> list[Doc]:
    return encode(list(messages), model, **options).body["contents"]


def test_whole_request() -> None:
    options = Options(100, 0.5, 0.9, 4, ("END",), 7, 0.1, 0.2, thinking_budget=99)
    history = [system("Be kind."), user(["Look:", PNG]), assistant(["So.", CALL]), DONE, user("And?")]
    encoded = encode(
        history,
        tools=(GET,),
        tool_choice=ToolChoice("required", ("get",)),
        options=options,
        output=Output(SCHEMA),
        stream=True,
    )
    assert encoded.body == {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "get", "description": "Gets.", "parametersJsonSchema": SCHEMA}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get"]}},
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 4,
            "stopSequences": ["END"],
            "seed": 7,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "thinkingConfig": {"thinkingBudget": 99},
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look:"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                ],
            },
            {
                "role": "model",
                "parts": [{"text": "So."}, {"functionCall": {"name": "get", "args": {"x": "1"}}}],
            },
            {"role": "user", "parts": [{"functionResponse": {"name": "get", "response": {"output": "one"}}}]},
            {"role": "user", "parts": [{"text": "And?"}]},
        ],
    }
    assert list(encoded.body)[-1] == "contents"
    assert (encoded.losses, encoded.repairs) == ((), ())


# ---- signatures and ids


def test_first_call_of_a_turn_carries_the_documented_dummy_where_it_was_not_made_here() -> None:
    encoded = encode(
        [user("hi"), assistant([CALL, ToolCall("c2", "get", {})]), tool(ToolResult("c1"), ToolResult("c2"))],
        NEW,
    )
    assert encoded.body["contents"][1]["parts"] == [
        {
            "functionCall": {"name": "get", "args": {"x": "1"}, "id": "c1"},
            "thoughtSignature": DUMMY_SIGNATURE,
        },
        {"functionCall": {"name": "get", "args": {}, "id": "c2"}},
    ]
    assert [done.subject for done in encoded.repairs] == ["thoughtSignature"]


@pytest.mark.parametrize(
    ("provider", "model", "kept"),
    [("gemini", NEW, True), ("vertex", NEW, False), ("gemini", "gemini-3-flash", False)],
)
def test_real_signatures_go_back_to_the_endpoint_that_made_them(
    provider: str, model: str, kept: bool
) -> None:
    call = ToolCall("x1", "get", {}, opaque={"thoughtSignature": "c2ln", "id": "x1"})
    message = Message(
        "assistant",
        (Thinking("hm", {"thoughtSignature": "dGhp"}), Text("x", {"thoughtSignature": "dHh0"}), call),
        OWN,
    )
    encoded = encode([user("hi"), message, tool(ToolResult("x1", (Text("1"),)))], model, provider)
    parts = encoded.body["contents"][1]["parts"]
    if kept:
        assert parts == [
            {"text": "hm", "thought": True, "thoughtSignature": "dGhp"},
            {"text": "x", "thoughtSignature": "dHh0"},
            {"functionCall": {"name": "get", "args": {}, "id": "x1"}, "thoughtSignature": "c2ln"},
        ]
    else:
        assert parts == [
            {"text": "x"},
            {"functionCall": {"name": "get", "args": {}, "id": "x1"}, "thoughtSignature": DUMMY_SIGNATURE},
        ]
    assert (lost_subjects(encoded) == []) is kept
    assert encoded.body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "get", "response": {"output": "1"}, "id": "x1"}}
    ]


@pytest.mark.parametrize("model", [OLD, NEW])
@pytest.mark.parametrize("opaque", [None, {"id": "c1"}], ids=["call without id", "call with id"])
def test_result_has_an_id_where_its_call_has_one(model: str, opaque: Doc | None) -> None:
    """Ids are echoed: a model that sent none gets none, one that sent some gets them back."""
    message = Message(
        "assistant", (ToolCall("c1", "get", {}, opaque=opaque),), Origin("gemini", "gemini", model)
    )
    sent = contents(user("hi"), message, DONE, model=model)
    assert sent[1]["parts"][0]["functionCall"].get("id") == (opaque or {}).get("id")
    assert sent[2]["parts"][0]["functionResponse"].get("id") == (opaque or {}).get("id")


def test_own_result_with_an_id_follows_its_call_that_has_none() -> None:
    call = Message("assistant", (ToolCall("c1", "get", {}, opaque={"thoughtSignature": "c2ln"}),), OWN)
    result = Message("tool", (ToolResult("c1", (Text("1"),), opaque={"id": "c1"}),), OWN)
    sent = contents(user("hi"), call, result, model=NEW)
    assert sent[2]["parts"] == [{"functionResponse": {"name": "get", "response": {"output": "1"}}}]


def test_old_models_get_no_ids_of_others() -> None:
    assert "id" not in contents(user("hi"), assistant(CALL), DONE)[1]["parts"][0]["functionCall"]


def test_a_signature_of_another_name_is_replaced() -> None:
    """A tool that came later has the name that the model had made up; the call is sent under another one."""
    odd = ToolDefinition("na\u00efve.tool", "", SCHEMA)
    name = encode([user("hi")], NEW, tools=(odd,)).body["tools"][0]["functionDeclarations"][0]["name"]
    calls = [
        ToolCall(id, called, {}, opaque={"id": id, "thoughtSignature": "c2ln"})
        for id, called in (("a", name), ("b", "get"))
    ]
    messages = [
        user("hi"),
        Message("assistant", tuple(calls), OWN),
        tool(*(ToolResult(call.id, name=call.name) for call in calls)),
    ]
    kept, changed = (encode(messages, NEW, tools=tools) for tools in ((), (odd,)))
    assert [part["thoughtSignature"] for part in kept.body["contents"][1]["parts"]] == ["c2ln", "c2ln"]
    assert [part["thoughtSignature"] for part in changed.body["contents"][1]["parts"]] == [
        DUMMY_SIGNATURE,
        "c2ln",
    ]
    assert changed.body["contents"][1]["parts"][0]["functionCall"]["name"] != name
    # A tool that was offered under this name keeps the signatures of its calls.
    message = Message(
        "assistant", (ToolCall("a", odd.name, {}, opaque={"id": "a", "thoughtSignature": "c2ln"}),), OWN
    )
    part = encode([user("hi"), message], NEW, tools=(odd,)).body["contents"][1]["parts"][0]
    assert (part["functionCall"]["name"], part["thoughtSignature"]) == (name, "c2ln")


def test_own_ids_and_mapped_ids_are_kept_apart() -> None:
    long = "long" * 40
    mapped = contents(user("hi"), assistant(ToolCall(long, "get", {})), model=NEW)[1]["parts"][0][
        "functionCall"
    ]["id"]
    message = Message("assistant", (ToolCall(mapped, "get", {}, opaque={"id": mapped}),), OWN)
    sent = contents(user("hi"), assistant(ToolCall(long, "get", {})), message, model=NEW)
    ids = [
        part["functionCall"]["id"] for content in sent for part in content["parts"] if "functionCall" in part
    ]
    answers = [
        part["functionResponse"]["id"]
        for content in sent
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert (len({*ids}), answers) == (2, ids)


# ---- results


@pytest.mark.parametrize(("result", "response"), [
    (ToolResult("c1", (Text("a"), Text("b"))), {"output": "ab"}),
    (ToolResult("c1"), {"output": ""}),
    (ToolResult("c1", (Text("boom"),), is_error=True), {"error": "boom"}),
    (ToolResult("c1", (Text("{}"),), data={"a": 1}), {"a": 1}),
    (ToolResult("c1", (Text('["a","b"]'),), data=["a", "b"]), {"output": ["a", "b"]}),
    (ToolResult("c1", (Text("two files"),), data=["a", "b"]), {"output": "two files"}),
    (ToolResult("c1", (Text('[{"$ref":"a"}]'),), data=[{"$ref": "a"}]), {"output": '[{"$ref":"a"}]'}),
], ids=["text", "nothing", "error", "object", "list", "text of a list", "reference"])  # fmt: skip
def test_response_is_an_object(result: ToolResult, response: Doc) -> None:
    assert (
        contents(user("hi"), assistant(CALL), tool(result))[2]["parts"][0]["functionResponse"]["response"]
        == response
    )


def test_an_error_with_data_is_sent_as_an_error() -> None:
    result = ToolResult("c1", (Text("boom"),), data={"code": 3}, is_error=True)
    response = contents(user("hi"), assistant(CALL), tool(result))[2]["parts"][0]["functionResponse"][
        "response"
    ]
    assert "error" in response
    assert "boom" in str(response)


def test_second_result_of_a_call_is_not_lost_behind_the_data_of_the_first() -> None:
    first = ToolResult("c1", (Text('{"a":1}'),), data={"a": 1})
    history = [
        user("hi"),
        assistant([CALL, ToolCall("c2", "get", {})]),
        tool(first),
        tool(ToolResult("c1", (Text("more"),)), ToolResult("c2")),
    ]
    assert "more" in str(contents(*history))


def test_results_stand_alone_in_call_order_and_media_beside_them() -> None:
    calls = [CALL, ToolCall("c2", "shot", {})]
    history = [
        user("hi"),
        assistant(calls),
        tool(ToolResult("c2", (Text("2"), PNG)), ToolResult("c1", (Text("1"),))),
        user("x"),
    ]
    encoded = encode(history)
    sent = encoded.body["contents"]
    assert [part["functionResponse"]["name"] for part in sent[2]["parts"]] == ["get", "shot"]
    assert sent[3] == {
        "role": "user",
        "parts": [
            {"text": "[media of the result of shot]"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ],
    }
    assert sent[4] == {"role": "user", "parts": [{"text": "x"}]}
    assert "media of a tool result" in [done.subject for done in encoded.repairs]


def test_gemini_3_takes_media_inside_the_result() -> None:
    result = ToolResult(
        "c1", (Text("1"), PNG, Media("audio", "audio/wav", "AA"), Media("image", url="http://x/y.png"))
    )
    sent = contents(user("hi"), assistant(CALL), tool(result), model=NEW)
    answer = sent[2]["parts"][0]["functionResponse"]
    assert answer["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]
    assert [next(iter(part)) for part in sent[3]["parts"]] == ["text", "inlineData", "fileData"]


def test_own_parts_of_a_result_go_back() -> None:
    opaque = {
        "id": "c1",
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}],
        "willContinue": False,
    }
    call = Message(
        "assistant", (ToolCall("c1", "get", {}, opaque={"id": "c1", "thoughtSignature": "c2ln"}),), OWN
    )
    result = ToolResult(
        "c1", (Text("1"), Media("image", "image/png", "AA")), "get", {"output": "1"}, opaque=opaque
    )
    sent = contents(user("hi"), call, Message("tool", (result,), OWN), model=NEW)
    assert sent[2]["parts"] == [{"functionResponse": {"name": "get", "response": {"output": "1"}, **opaque}}]


@pytest.mark.parametrize(("call", "args"), [
    (ToolCall("c1", "sql", None, "select 1", freeform=True), {"input": "select 1"}),
    (ToolCall("c1", "get", None, '{"x'), {"invalid_arguments": '{"x'}),
])  # fmt: skip
def test_arguments_are_an_object(call: ToolCall, args: Doc) -> None:
    assert contents(user("hi"), assistant(call), DONE)[1]["parts"][0]["functionCall"]["args"] == args


# ---- turns


def test_a_conversation_starts_with_the_user_and_later_instructions_become_user_messages() -> None:
    encoded = encode([assistant("x"), system("now"), user("hi")])
    assert [(content["role"], content["parts"][0]["text"]) for content in encoded.body["contents"]] == [
        ("user", "(start of the conversation)"),
        ("model", "x"),
        ("user", "<system>\nnow\n</system>"),
        ("user", "hi"),
    ]
    assert {"user message", "system message"} == {done.subject for done in encoded.repairs}


def test_own_parts_go_back_and_those_of_others_do_not_get_into_the_instructions() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"}
    assert contents(user("hi"), Message("assistant", (Foreign("gemini", code),), OWN))[1]["parts"] == [code]
    encoded = encode([system(["s", Foreign("openai-chat", {"type": "odd", "text": "t"})]), user("hi")])
    assert encoded.body["systemInstruction"] == {"parts": [{"text": "s"}, {"text": "t"}]}
    assert lost_subjects(encoded) == ["odd"]


@pytest.mark.parametrize(("media", "part"), [
    (Media("image", data="R0lGODlh"), {"inlineData": {"mimeType": "image/gif", "data": "R0lGODlh"}}),
    (Media("video", url="gs://b/x.mp4"), {"fileData": {"fileUri": "gs://b/x.mp4", "mimeType": "video/mp4"}}),
    (Media("file", "text/plain", "aGVsbG8="), {"inlineData": {"mimeType": "text/plain", "data": "aGVsbG8="}}),
])  # fmt: skip
def test_media(media: Media, part: Doc) -> None:
    assert contents(user(media))[0]["parts"] == [part]


def test_own_fields_of_media_go_back() -> None:
    film = Media(
        "video", "video/mp4", url="gs://b", opaque={"videoMetadata": {"fps": 1}, "source": {"extra": 1}}
    )
    sent = contents(Message("user", (film,), OWN), model=NEW)[0]["parts"]
    assert sent == [
        {"fileData": {"fileUri": "gs://b", "mimeType": "video/mp4", "extra": 1}, "videoMetadata": {"fps": 1}}
    ]


def test_file_of_another_provider_is_a_loss() -> None:
    encoded = encode([user(Media("file", file_id="file-1", name="a.pdf"))])
    assert encoded.body["contents"][0]["parts"] == [{"text": "[file not shown: a.pdf]"}]
    assert lost_subjects(encoded) == ["file"]


# ---- tools, options


def test_tools() -> None:
    search = ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    tools = (
        GET,
        ToolDefinition("now", "", {"type": "object", "properties": {}}),
        ToolDefinition("9x", "N.", None, wire="gemini", opaque={"behavior": "BLOCKING"}),
        search,
    )
    encoded = encode([user("hi")], NEW, tools=tools, parallel=False)
    name = encoded.body["tools"][0]["functionDeclarations"][2]["name"]
    assert encoded.body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "get", "description": "Gets.", "parametersJsonSchema": SCHEMA},
                {"name": "now", "description": "now"},
                {"name": name, "description": "N.", "behavior": "BLOCKING"},
            ]
        },
        {"googleSearch": {}},
    ]
    assert name.startswith("_9x_")
    assert encoded.names[name] == ("", "9x")
    assert lost_subjects(encoded) == ["parallel"]


@pytest.mark.parametrize(("choice", "config"), [
    (ToolChoice("auto"), {"mode": "AUTO"}),
    (ToolChoice("none"), {"mode": "NONE"}),
    (ToolChoice("required"), {"mode": "ANY"}),
    (ToolChoice("auto", ("get",)), {"mode": "VALIDATED", "allowedFunctionNames": ["get"]}),
])  # fmt: skip
def test_choice(choice: ToolChoice, config: Doc) -> None:
    assert encode([user("hi")], tools=(GET,), tool_choice=choice).body["toolConfig"] == {
        "functionCallingConfig": config
    }


def test_choice_without_functions_is_not_sent() -> None:
    """400: Function calling config is set without function_declarations."""
    search = ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    assert "toolConfig" not in encode([user("hi")], tools=(search,), tool_choice=ToolChoice("auto")).body


def test_levels_of_thinking_or_a_budget() -> None:
    level = encode([user("hi")], NEW, options=Options(effort="medium")).body["generationConfig"]
    assert level == {"thinkingConfig": {"thinkingLevel": "HIGH"}}  # of two levels as near
    encoded = encode([user("hi")], OLD, options=Options(effort="high", thinking_budget=0))
    assert encoded.body["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 0}}
    assert lost_subjects(encoded) == ["effort"]


def test_level_and_budget_are_never_sent_together() -> None:
    """400: you can only set one of thinking budget and thinking level."""
    for model in (NEW, "gemini-3.5-flash"):
        encoded = encode([user("hi")], model, options=Options(effort="high", thinking_budget=99))
        assert len(encoded.body["generationConfig"]["thinkingConfig"]) == 1
        assert len(encoded.losses) == 1


def test_most_stop_sequences_and_json_without_a_schema() -> None:
    encoded = encode([user("hi")], options=Options(stop=tuple("123456")), output=Output())
    assert encoded.body["generationConfig"] == {
        "stopSequences": list("12345"),
        "responseMimeType": "application/json",
    }
    assert lost_subjects(encoded) == ["stop"]


def test_extras_are_merged_with_neutral_fields() -> None:
    extras: dict[str, Doc] = {
        "gemini": {
            "generationConfig": {"thinkingConfig": {"includeThoughts": True}, "candidateCount": 1},
            "toolConfig": {"retrievalConfig": {}},
            "cachedContent": "c",
        }
    }
    body = encode(
        [user("hi")],
        NEW,
        tools=(GET,),
        tool_choice=ToolChoice("auto"),
        options=Options(9, effort="low"),
        extras=extras,
    ).body
    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
        "candidateCount": 1,
    }
    assert body["toolConfig"] == {"retrievalConfig": {}, "functionCallingConfig": {"mode": "AUTO"}}
    assert body["cachedContent"] == "c"
