"""Code that a provider runs and that calls tools: who may call a tool, who made a call, and the program
itself.
"""

from typing import Any

import pytest
from tests.wire.reply_reading import read_whole
from tests.wire.reply_writing import MODELS, write_and_read

from toolglot.providers.catalog import resolve_profile
from toolglot.values.definitions import ToolDefinition
from toolglot.values.messages import Foreign, Origin, Reply, ToolCall
from toolglot.values.request import Request
from toolglot.wire.codec import decode_request, encode_request, load_reply_encoder
from toolglot.wire.reply_encoding import split_reply

Doc = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PROGRAM = {
    "type": "program",
    "id": "prog_1",
    "call_id": "call_p",
    "code": "await tools.weather({})",
    "fingerprint": "f1",
}
OUTPUT = {
    "type": "program_output",
    "id": "po_1",
    "call_id": "call_p",
    "result": "sunny",
    "status": "completed",
}
CALLER = {"type": "program", "caller_id": "call_p"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Rome"}',
    "status": "completed",
    "caller": CALLER,
}
RESPONSES: Doc = {
    "model": "gpt-5.6",
    "tools": [
        {"type": "programmatic_tool_calling"},
        {
            "type": "function",
            "name": "weather",
            "parameters": SCHEMA,
            "strict": False,
            "allowed_callers": ["programmatic"],
            "output_schema": {"type": "object", "properties": {"sky": {"type": "string"}}},
        },
    ],
    "input": [
        {"role": "user", "content": "Rome?"},
        PROGRAM,
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny", "caller": CALLER},
        OUTPUT,
    ],
}
USE = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "code_execution",
    "input": {"code": "print(weather())"},
}
ANTHROPIC: Doc = {
    "model": "claude-opus-4-8",
    "max_tokens": 100,
    "tools": [
        {"type": "code_execution_20260120", "name": "code_execution"},
        {"name": "weather", "input_schema": SCHEMA, "allowed_callers": ["direct", "code_execution_20260120"]},
    ],
    "messages": [
        {"role": "user", "content": "Rome?"},
        {
            "role": "assistant",
            "content": [
                USE,
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "weather",
                    "input": {"city": "Rome"},
                    "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
                },
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]},
    ],
}


@pytest.mark.parametrize(
    ("wire", "profile", "body", "caller", "callers"),
    [
        ("openai-responses", "openai", RESPONSES, "call_p", ("code",)),
        ("anthropic-messages", "anthropic", ANTHROPIC, "srvtoolu_1", ("model", "code")),
    ],
)
def test_calls_of_a_program_go_back_as_they_came(
    wire: str, profile: str, body: Doc, caller: str, callers: tuple[str, ...]
) -> None:
    request = decode_request(wire, body, profile=profile, model=body["model"])
    tool = next(tool for tool in request.tools if tool.name == "weather")
    calls = [block for message in request.messages for block in message.blocks if isinstance(block, ToolCall)]
    assert (tool.callers, [call.caller for call in calls]) == (callers, [caller])
    again = encode_request(request, resolve_profile(profile, body["model"])).body
    assert again["tools"] == body["tools"]
    if wire == "openai-responses":
        assert tool.output_schema == body["tools"][1]["output_schema"]
        items = {item.get("type"): item for item in again["input"]}
        assert (items["program"], items["program_output"]) == (PROGRAM, OUTPUT)
        assert items["function_call"]["caller"] == CALLER
    else:
        assert again["messages"][1]["content"] == body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("wire", "body"), [("openai-responses", RESPONSES), ("anthropic-messages", ANTHROPIC)]
)
def test_another_provider_does_not_know_the_program(wire: str, body: Doc) -> None:
    request = decode_request(wire, body)
    for profile, model in (
        ("openai", "gpt-5.6"),
        ("anthropic", "claude-opus-4-8"),
        ("gemini", "m"),
        ("ollama", "m"),
    ):
        target = resolve_profile(profile, model)
        losses = [loss.subject for loss in encode_request(request, target).losses]
        assert ("caller" in losses) == (target.wire != wire)


def test_a_reply_for_clients_of_another_provider_does_not_tell_the_program() -> None:
    direct = ToolCall("c2", "weather", {}, opaque={"caller": {"type": "direct"}})
    call = ToolCall("c1", "weather", {}, caller="call_p", opaque={"caller": CALLER})
    reply = Reply((call, direct), "tools", origin=Origin("openai-responses", "", "gpt-5.6"))
    for wire in ("anthropic-messages", "openai-chat", "openai-responses"):
        whole, stream = (load_reply_encoder(wire)("gpt-5.6", origin=reply.origin) for _ in range(2))
        whole.encode_reply(reply)
        for event in split_reply(reply):
            stream.feed(event)
        wanted = ["caller"] * (wire != "openai-responses")
        assert [loss.subject for loss in whole.losses] == [loss.subject for loss in stream.losses] == wanted


def test_a_new_tool_says_who_may_call_it_in_the_words_of_the_provider() -> None:
    output = {"type": "object", "properties": {"sky": {"type": "string"}}}
    tool = ToolDefinition("weather", "", SCHEMA, callers=("model", "code"), output_schema=output)
    code_only = ToolDefinition("only", "", SCHEMA, callers=("code",))
    direct = ToolDefinition("direct", "", SCHEMA, callers=("model",))

    def tools(profile: str, model: str, *hosted: ToolDefinition) -> tuple[dict[str, Doc], list[str]]:
        request = Request(model, (), (*hosted, tool, code_only, direct))
        encoded = encode_request(request, resolve_profile(profile, model))
        functions = [item.get("function", item) for item in encoded.body["tools"]]
        return {item["name"]: item for item in functions if "name" in item}, [
            str(loss) for loss in encoded.losses
        ]

    program = ToolDefinition(
        "p", kind="hosted", wire="openai-responses", opaque={"type": "programmatic_tool_calling"}
    )
    sent, losses = tools("openai", "gpt-5.6", program)
    assert (sent["weather"]["allowed_callers"], sent["weather"]["output_schema"]) == (
        ["direct", "programmatic"],
        output,
    )
    assert (sent["only"]["allowed_callers"], sent["direct"]["allowed_callers"], losses) == (
        ["programmatic"],
        ["direct"],
        [],
    )
    code = {"type": "code_execution_20260120", "name": "code_execution"}
    runner = ToolDefinition("code_execution", kind="hosted", wire="anthropic-messages", opaque=code)
    sent, losses = tools("anthropic", "claude-opus-4-8", runner)
    assert sent["weather"]["allowed_callers"] == ["direct", "code_execution_20260120"]
    assert ("output_schema" in sent["weather"], losses) == (False, [])
    for profile, model in (
        ("openai", "gpt-5.6"),
        ("anthropic", "claude-opus-4-8"),
        ("openai-chat", "gpt-5.1"),
    ):
        sent, losses = tools(profile, model)
        elsewhere = tools(profile, model, runner if profile.startswith("openai") else program)[0]
        assert sent == elsewhere  # code that another provider runs is not there
        assert not any("allowed_callers" in item or "output_schema" in item for item in sent.values())
        assert (
            [loss for loss in losses if "runs no code" in loss]
            == [loss for loss in losses if "'only'" in loss]
            != []
        )


def test_a_reply_tells_which_program_made_a_call() -> None:
    body = {
        "id": "r",
        "object": "response",
        "model": "gpt-5.6",
        "status": "completed",
        "output": [PROGRAM, CALL, OUTPUT],
    }
    reply = read_whole("openai-responses", body).reply
    assert [call.caller for call in reply.calls] == ["call_p"]
    assert [block.item for block in reply.blocks if isinstance(block, Foreign)] == [PROGRAM, OUTPUT]
    for streaming in (False, True):
        again = write_and_read("openai-responses", reply, streaming=streaming)
        assert [call.caller for call in again.calls] == ["call_p"]
        assert [block.item for block in again.blocks if isinstance(block, Foreign)] == [PROGRAM, OUTPUT]
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": MODELS["anthropic-messages"],
        "stop_reason": "tool_use",
    }
    content = ANTHROPIC["messages"][1]["content"]
    reply = read_whole("anthropic-messages", {**message, "content": content, "usage": {}}).reply
    for streaming in (False, True):
        assert (
            write_and_read("anthropic-messages", reply, streaming=streaming).calls[0].caller == "srvtoolu_1"
        )
