"""Every body that our encoder makes of awkward requests is taken, on every profile."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.jsontext import dumps
from toolglot.messages import (
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
    tool_results,
    user,
)
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.simulator.core import Simulator
from toolglot.simulator.opaque_state import sign_state
from toolglot.wire.codec import encode_request

from .client import ADD, KEYS, WEATHER, pick_model, request_path

pytestmark = pytest.mark.untraced

HI = user("hi")
CALL, OTHER = ToolCall("call_1", "add", {"a": 1, "b": 2}), ToolCall("call|2:ü", "get weather", {"city": "Rome"})
DONE, ALSO = ToolResult("call_1", (Text("3"),), "add"), ToolResult("call|2:ü", (Text(""),), "get weather", is_error=True)
PNG = Media("image", "image/png", "iVBORw0KGgo=")
CLAUDE = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")
GEMINI = Origin("gemini", "gemini", "gemini-3-pro-preview")
GPT = Origin("openai-responses", "openai-responses", "gpt-5.1")


def state(origin: Origin, words: str) -> str:
    return sign_state(resolve_profile(origin.profile, origin.model), words)


MODELS_SAID = (
    Message("assistant", (Thinking("a", {"signature": state(CLAUDE, "a")}), CALL), CLAUDE),
    tool_results(DONE),
    Message(
        "assistant",
        (
            Thinking(
                "b", {"id": "rs_1", "summary": [{"type": "summary_text", "text": "b"}], "encrypted_content": state(GPT, "b")}
            ),
            ToolCall("call_2", "add", {}, opaque={"id": "fc_2"}),
        ),
        GPT,
    ),
    tool_results(ToolResult("call_2")),
    Message("assistant", (ToolCall("call_3", "add", {}, opaque={"thoughtSignature": state(GEMINI, "add")}),), GEMINI),
    tool_results(ToolResult("call_3")),
)
DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}},
    "required": ["a"],
    "$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}, "k": {"const": 1}}}},
    "anyOf": [{"required": ["a"]}, {"required": ["m"]}],
}


def asked(*messages: Message, **fields: Any) -> Request:
    return Request("", list(messages), **fields)


REQUESTS: dict[str, Request] = {
    "plain": asked(system("Be brief."), HI),
    "instructions everywhere": asked(
        system("a"), HI, system("b"), assistant(CALL), system("c"), tool_results(DONE), system("d"), HI
    ),
    "parallel calls with odd ids and names": asked(HI, assistant([CALL, OTHER]), tool_results(ALSO, DONE), HI),
    "unanswered, orphaned, doubled": asked(
        HI, assistant([CALL, CALL, OTHER]), tool_results(DONE, DONE), tool_results(ALSO), HI
    ),
    "ends in a call": asked(HI, assistant(["So.", CALL])),
    "starts with a call": asked(assistant(CALL), tool_results(DONE), HI),
    "text after a call": asked(HI, assistant([CALL, "said", Thinking("hm")]), tool_results(DONE)),
    "blank turns": asked(user(""), assistant([]), user(" "), HI, assistant("I begin ")),
    "thinking of three models": asked(HI, *MODELS_SAID),
    "arguments that are none": asked(HI, assistant([ToolCall("a", "add", None, '{"a": 1'), ToolCall("b", "add", {}, "")]), HI),
    "media": asked(
        user(["x", PNG, Media("file", "application/pdf", "JVBERi0="), Media("audio", "audio/wav", "UklGRg==")]),
        assistant(CALL),
        tool_results(ToolResult("call_1", (Text("seen"), PNG), "add")),
        HI,
    ),
    "content of other wires": asked(HI, assistant([Foreign("gemini", {"executableCode": {"code": "1"}}), "x"]), HI),
    "tools": asked(HI, tools=(WEATHER, ADD, ToolDefinition("deep.one", "", DEEP), ToolDefinition("now"))),
    "strict tools": asked(HI, tools=(ToolDefinition("tight", "", DEEP, strict=True),)),
    "freeform": asked(
        HI,
        assistant(ToolCall("a", "sql", None, "select 1", freeform=True)),
        tool_results(ToolResult("a")),
        tools=(ToolDefinition("sql", "Runs SQL.", kind="freeform"),),
    ),
    "too many tools": asked(HI, tools=tuple(ToolDefinition(f"t{n}", "T.", WEATHER.parameters) for n in range(520))),
    "no call": asked(HI, tools=(ADD,), tool_choice=ToolChoice("none")),
    "some call": asked(HI, tools=(ADD,), tool_choice=ToolChoice("required"), parallel=False),
    "one call": asked(HI, tools=(ADD, WEATHER), tool_choice=ToolChoice("required", ("add",))),
    "one of two": asked(HI, tools=(ADD, WEATHER), tool_choice=ToolChoice("auto", ("add", "get_weather"))),
    "output": asked(user("As JSON."), output=Output(DEEP, "deep", strict=True)),
    "any JSON": asked(user("As JSON."), output=Output()),
    "hot": asked(HI, options=Options(9000, 1.9, 0.9, 40, ("1", "2", "3", "4", "5", "6"))),
    "seed and penalties": asked(HI, options=Options(seed=7, presence_penalty=0.5, frequency_penalty=0.5)),
    "effort": asked(HI, tools=(ADD,), options=Options(5, effort="max")),
    "budget": asked(HI, assistant(CALL), tool_results(DONE), tools=(ADD,), options=Options(9000, 0.5, thinking_budget=5000)),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", REQUESTS)
def test_encoded_requests_are_accepted(name: str, profile: str) -> None:
    target = resolve_profile(profile, pick_model(profile))
    body = {**encode_request(replace(REQUESTS[name], model=target.model), target).body, **target.defaults}
    for stream in (False, True):
        if target.wire != "gemini":
            body |= {"stream": stream, **(target.stream_defaults if stream else {})}
        answer = Simulator().handle("POST", request_path(target, stream=stream), {**KEYS, **target.headers}, dumps(body))
        assert answer.status == 200, answer.body
