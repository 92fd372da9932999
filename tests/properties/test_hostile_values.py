"""Awkward requests, written by hand, for every target: the checkers, the referee and the simulator accept
what is sent.
"""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.simulator.client import post

from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.simulator.opaque_state import sign_state
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
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition, ToolExample
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.repair import make_interrupted_result

from .legality import find_refusals, illegal
from .strategies import PDF, PNG, TARGETS, TOOLS

pytestmark = pytest.mark.untraced

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
GET = ToolDefinition("get", "Gets.", SCHEMA)
HI, ON = user("hi"), user("go on")
CALL = ToolCall("call_1", "get", {"x": "1"})
OK = ToolResult("call_1", (Text("one"),), "get")
PICTURE, PAPER = Media("image", "image/png", PNG), Media("file", "application/pdf", PDF, name="a.pdf")
CLAUDE = Origin("anthropic-messages", "anthropic", "claude-sonnet-4-5")
GPT = Origin("openai-responses", "openai-responses", "gpt-5")
GEMINI = Origin("gemini", "gemini", "gemini-3-pro-preview")
HOSTED = (
    ToolDefinition("web_search", kind="hosted", wire="openai-responses", opaque={"type": "web_search"}),
    ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}}),
    ToolDefinition(
        "bash", kind="hosted", wire="anthropic-messages", opaque={"type": "bash_20250124", "name": "bash"}
    ),
)
DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"$ref": "#/$defs/A"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["a"],
    "$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}, "k": {"const": 1}}}},
    "anyOf": [{"required": ["a"]}, {"required": ["m"]}],
}


SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
ORPHANS: list[tuple[str, dict[str, Any]]] = [
    ("openai-chat", {"role": "tool", "tool_call_id": "x", "content": ""}),
    ("anthropic", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}),
    ("gemini", {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}),
    ("ollama", {"role": "tool", "tool_call_id": "x", "content": ""}),
]


def request_of(*messages: Message, **options: Any) -> Request:
    return Request("", list(messages), **options)


def state(origin: Origin, text: str) -> str:
    return sign_state(resolve_profile(origin.profile, origin.model), text)


def reply_of(origin: Origin | None, *blocks: Any) -> Message:
    return Message("assistant", blocks, origin)


REQUESTS: dict[str, Request] = {
    "unanswered call": request_of(HI, assistant(CALL), ON),
    "unanswered call at the end": request_of(HI, assistant(["So.", CALL])),
    "orphan result": request_of(HI, tool(OK), ON),
    "one id twice in a turn": request_of(HI, assistant([CALL, CALL]), tool(OK, OK)),
    "one id in two turns": request_of(HI, assistant(CALL), tool(OK), assistant(CALL), tool(OK)),
    "results out of order": request_of(
        HI, assistant([CALL, ToolCall("b", "get", {})]), tool(ToolResult("b"), OK)
    ),
    "results not adjacent": request_of(
        HI, assistant([CALL, ToolCall("b", "get", {})]), tool(OK), ON, system("now"), tool(ToolResult("b"))
    ),
    "interrupted and rejected": request_of(
        HI,
        assistant([CALL, ToolCall("b", "get", {})]),
        tool(make_interrupted_result(CALL), make_interrupted_result(ToolCall("b", "get"), kind="rejected")),
    ),
    "nothing but empty turns": request_of(user(""), assistant([]), user(" "), user("x")),
    "text after a call": request_of(HI, assistant([CALL, "said", Thinking("hm")]), tool(OK)),
    "thinking of three wires": request_of(
        HI,
        reply_of(CLAUDE, Thinking("a", {"signature": state(CLAUDE, "a")}), CALL),
        tool(OK),
        reply_of(
            GPT,
            Thinking(
                "b",
                {
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "b"}],
                    "encrypted_content": state(GPT, "b"),
                },
            ),
            ToolCall("c2", "get", {}, opaque={"id": "fc_2"}),
        ),
        tool(ToolResult("c2")),
        reply_of(
            GEMINI,
            Thinking("c", {"thoughtSignature": "c2ln"}),
            ToolCall("c3", "get", {}, opaque={"thoughtSignature": state(GEMINI, "get")}),
        ),
        tool(ToolResult("c3")),
    ),
    "reasoning without a partner": request_of(
        HI,
        reply_of(
            GPT, Thinking("", {"id": "rs_1", "summary": []}), Thinking("", {"id": "rs_2", "summary": []})
        ),
        ON,
    ),
    "ids of every kind": request_of(
        HI,
        assistant([ToolCall(id, "get", {}) for id in ("", "a|b:c", "x" * 90, "ü", "call_ok")]),
        tool(ToolResult("x" * 90)),
    ),
    "names of every kind": request_of(
        HI,
        assistant([ToolCall(f"c{n}", t.name, {}, namespace=t.namespace) for n, t in enumerate(TOOLS)]),
        tools=TOOLS,
    ),
    "arguments that are none": request_of(
        HI,
        assistant(
            [
                ToolCall("a", "get", None, '{"x": "cut'),
                ToolCall("b", "get", None, "[1]"),
                ToolCall("c", "get", {}, ""),
            ]
        ),
        ON,
    ),
    "pictures and papers in results": request_of(
        HI,
        assistant([CALL, ToolCall("b", "get", {})]),
        tool(ToolResult("call_1", (PICTURE, Text("1"))), ToolResult("b", (PAPER,))),
        ON,
    ),
    "media of all kinds": request_of(
        user(
            [
                "x",
                PICTURE,
                PAPER,
                Media("audio", "audio/wav", "UklGRg=="),
                Media("video", "video/mp4", "AAAA"),
                Media("file", file_id="file-1"),
                Media("file", "text/plain", "aGVsbG8="),
            ]
        )
    ),
    "instructions between turns": request_of(
        system("a"), system("b"), HI, system("c"), assistant(CALL), system("d"), tool(OK), system("e"), ON
    ),
    "starts with the assistant": request_of(assistant("hello"), HI),
    "starts with a call": request_of(assistant(CALL), tool(OK), ON),
    "ends with the assistant": request_of(HI, assistant("I begin ")),
    "instructions alone": request_of(system("s")),
    "blank instructions": request_of(system([" ", "s"]), system(""), HI),
    "hosted tools of every wire": request_of(HI, tools=HOSTED),
    "freeform tools and calls": request_of(
        HI,
        assistant(ToolCall("a", "sql", None, "select 1", freeform=True)),
        tool(ToolResult("a")),
        tools=(TOOLS[-1],),
    ),
    "many strict tools": request_of(
        HI, tools=tuple(ToolDefinition(f"t{n}", "", SCHEMA, strict=True) for n in range(25))
    ),
    "more tools than anybody takes": request_of(
        HI, tools=tuple(ToolDefinition(f"t{n}", "T.", SCHEMA) for n in range(600))
    ),
    "deep schemas": request_of(
        HI,
        tools=(
            ToolDefinition("deep", "", DEEP),
            ToolDefinition("tight", "", DEEP, strict=True, examples=(ToolExample({"a": {}}),)),
        ),
    ),
    "all options": request_of(
        HI,
        tools=(GET,),
        options=Options(9000, 1.5, 0.9, 40, ("1", "2", "3", "4", "5", "6", " "), 7, 0.5, 0.5, "max", 20_000),
    ),
    "forced call while thinking": request_of(
        HI,
        tools=(GET,),
        tool_choice=ToolChoice("required", ("get",)),
        options=Options(9000, 0.5, thinking_budget=5000),
    ),
    "thinking in a loop begun without": request_of(
        HI, assistant(CALL), tool(OK), ON, tools=(GET,), options=Options(9000, thinking_budget=5000)
    ),
    "no call": request_of(HI, tools=(GET,), tool_choice=ToolChoice("none")),
    "some call": request_of(HI, tools=(GET,), tool_choice=ToolChoice("required"), parallel=False),
    "one of two": request_of(HI, tools=(GET, TOOLS[1]), tool_choice=ToolChoice("auto", ("get", "9lives"))),
    "any JSON": request_of(user("As JSON."), output=Output()),
    "effort": request_of(HI, tools=(GET,), options=Options(5, effort="max")),
    "structured output": request_of(HI, output=Output(DEEP, "deep", strict=True)),
    "content of other wires": request_of(
        HI,
        assistant(
            [Foreign("gemini", {"executableCode": {"code": "1"}}), Foreign("anthropic-messages", SEARCH), "x"]
        ),
        ON,
    ),
}


@pytest.mark.parametrize("target", TARGETS, ids=":".join)
def test_awkward_requests_are_legal_and_can_be_read_and_sent_again(target: tuple[str, str]) -> None:
    provider, model = target
    profile = resolve_profile(provider, model)
    wrong: dict[str, list[Any]] = {}
    for name, request in REQUESTS.items():
        body = encode_request(replace(request, model=model), profile).body
        decoded = decode_request(profile.wire, body, profile=profile.id, model=profile.model)
        again = encode_request(decoded, profile)
        tools = decode_request(profile.wire, again.body, profile=profile.id, model=profile.model).tools
        changed = [] if tools == decoded.tools else [(tools, decoded.tools)]
        wrong[name] = [*illegal(profile, body), *find_refusals(profile, body), *again.losses, *changed]
        for stream in (False, True):
            streamed = (
                {}
                if profile.wire == "gemini"
                else {"stream": stream, **(profile.stream_defaults if stream else {})}
            )
            answer = post(Simulator(), profile, {**body, **profile.defaults, **streamed}, stream=stream)
            wrong[name] += [answer.body] if answer.status != 200 else []
    assert {name: problems for name, problems in wrong.items() if problems} == {}


@pytest.mark.parametrize(("provider", "broken"), ORPHANS)
def test_checkers_find_an_orphan(provider: str, broken: dict[str, Any]) -> None:
    """The judges of this file can say no."""
    key = "contents" if provider == "gemini" else "messages"
    assert illegal(resolve_profile(provider), {key: [broken]}) != []
