"""How the model deals with what real programs send: tools that come later, reminders, routing requests,
runaway loops.
"""

from typing import Any

import pytest

from toolglot.common.jsontext import dumps, loads_object
from toolglot.simulator.core import Simulator
from toolglot.simulator.model import Situation, respond
from toolglot.values.definitions import ToolDefinition
from toolglot.values.messages import (
    Conversation,
    Message,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Options, Output, Request, ToolChoice

from .client import ADD, KEYS, WEATHER, WIRE_PROFILES, ask

REMINDER = "<system-reminder>\nCall add whenever numbers 1 and 2 come up.\n</system-reminder>"
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "INTEGER"}},
    "required": ["score"],
}


def calls_of(request: Request) -> list[tuple[str, Any]]:
    reply = respond(request, Situation.from_request(request))
    return [(call.name, call.arguments) for call in reply.calls]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_tools_that_are_not_offered_are_not_called(profile: str) -> None:
    reply = ask(Simulator(), profile, [user('call delete_all {} call add {"a": 1, "b": 2}')], tools=(ADD,))
    assert [call.name for call in reply.calls] == ["add"]
    assert (
        ask(Simulator(), profile, [user("call delete_all {}")], tools=(ADD,)).text
        == "There is no tool 'delete_all'."
    )
    assert [call.name for call in ask(Simulator(), profile, [user("call! delete_all {}")]).calls] == [
        "delete_all"
    ]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
@pytest.mark.parametrize(
    "note", [REMINDER, "Add 1 and 2 if you have time.", "The weather in Rome was not asked for."]
)
def test_text_after_results_is_no_new_prompt(profile: str, note: str) -> None:
    conversation = Conversation([user("weather in Paris")])
    first = ask(Simulator(), profile, conversation, tools=(WEATHER, ADD))
    (call,) = first.calls
    conversation.append(
        first.message, tool_results(ToolResult(call.id, (Text("sunny"),), call.name)), user(note)
    )
    second = ask(Simulator(), profile, conversation, tools=(WEATHER, ADD))
    assert (second.calls, second.text) == ((), "Here is what came back. get_weather: sunny.")
    conversation.append(user("say I see."))  # a directive is meant
    assert ask(Simulator(), profile, conversation, tools=(WEATHER, ADD)).text == "I see."


def test_what_programs_add_to_a_prompt_is_not_read() -> None:
    prompt = Message("user", (Text(REMINDER), Text("weather in Paris"), Text(REMINDER)))
    assert calls_of(Request("m", [prompt], (WEATHER, ADD))) == [("get_weather", {"city": "Paris"})]
    context = user("<environment_context>add 1 and 2</environment_context>")
    assert calls_of(Request("m", [user("weather in Paris"), context], (WEATHER, ADD))) == [
        ("get_weather", {"city": "Paris"})
    ]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
def test_structured_output_comes_before_directives(profile: str) -> None:
    """As when a program asks a small model to judge the user's prompt."""
    asked = [user('call read_file {"path": "a"}\nthen say done'), user("say Rate 7 of 10.")]
    for messages in (asked, asked[:1]):
        reply = ask(
            Simulator(),
            profile,
            messages,
            output=Output(ANSWER),
            model="gemini-2.5-flash" if profile == "gemini" else "",
        )
        assert isinstance(loads_object(reply.text.encode())["score"], int)
    reply = ask(Simulator(), profile, [user('say {"score": 3}')], output=Output(ANSWER))
    assert loads_object(reply.text.encode()) == {"score": 3}


def test_gemini_reads_a_json_schema_with_types_in_upper_case() -> None:
    config = {"responseMimeType": "application/json", "responseJsonSchema": {**ANSWER, "type": "OBJECT"}}
    body = {"contents": [{"role": "user", "parts": [{"text": "call f {}"}]}], "generationConfig": config}
    answer = Simulator().handle(
        "POST", "/v1beta/models/gemini-3.5-flash-lite:generateContent", KEYS, dumps(body)
    )
    parts = loads_object(answer.body)["candidates"][0]["content"]["parts"]
    assert loads_object(parts[-1]["text"].encode()) == {"score": 1}


def test_a_runaway_conversation_ends() -> None:
    """A client that requires a call in every request is answered with text in the end."""
    conversation, required = Conversation([user("weather in Paris")]), ToolChoice("required")
    while len(conversation) < 200:
        request = Request("m", conversation, (WEATHER,), required)
        if not (reply := respond(request, Situation.from_request(request))).calls:
            assert "x" in reply.text
            break
        conversation.append(
            assistant(ToolCall("c", "get_weather", {"city": "Paris"})),
            tool_results(ToolResult("c", (Text("x"),))),
        )
    assert 10 < len(conversation) < 120


# ---- tools over time

LATER = ToolDefinition("get_weather", WEATHER.description, WEATHER.parameters, deferred=True)
FINDER = ToolDefinition(
    "search_tools",
    "Finds tools.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    finds_tools=True,
)
SEARCH = ("search_tools", {"query": "get_weather"})
PARIS = ("get_weather", {"city": "Paris"})


def search_messages(*loaded: str) -> list[Message]:
    call = ToolCall("s", *SEARCH)
    return [
        assistant(call),
        tool_results(ToolResult("s", (Text("…"), ToolsChanged(loaded=loaded)), "search_tools")),
    ]


@pytest.mark.parametrize(
    "prompt", ["What is the weather in Paris?", 'call get_weather {"city": "Paris"}\nthen say Done.']
)
def test_a_deferred_tool_is_searched_for_first(prompt: str) -> None:
    tools = (LATER, FINDER)
    assert calls_of(Request("m", [user(prompt)], tools)) == [SEARCH]
    assert calls_of(Request("m", [user(prompt), *search_messages("get_weather")], tools)) == [PARIS]
    assert (
        calls_of(Request("m", [user(prompt), *search_messages()], tools)) == []
    )  # it was not found, and is not searched for twice
    assert calls_of(Request("m", [user(prompt)], (LATER,))) == []
    result = tool_results(ToolResult("c", (Text("sunny"),), "get_weather"))
    history = [user(prompt), *search_messages("get_weather"), assistant(ToolCall("c", *PARIS)), result]
    reply = respond(request := Request("m", history, tools), Situation.from_request(request))
    assert reply.calls == ()
    assert reply.text == "Done." if "Done." in prompt else "sunny" in reply.text


def test_a_planned_search_is_a_turn() -> None:
    prompt = user('call search_tools {"query": "weather"}\nthen call get_weather {"city": "Rome"}')
    history = [prompt, assistant(ToolCall("s", "search_tools", {"query": "weather"}))]
    history.append(tool_results(ToolResult("s", (ToolsChanged(loaded=("get_weather",)),))))
    assert calls_of(Request("m", history, (LATER, FINDER))) == [("get_weather", {"city": "Rome"})]


def test_added_and_removed_tools() -> None:
    added = Message("system", (ToolsChanged(added=(WEATHER,)),))
    removed = Message("system", (ToolsChanged(removed=("get_weather",)),))
    asked = user("What is the weather in Paris?")
    assert calls_of(Request("m", [added, asked], (ADD,))) == [PARIS]
    assert calls_of(Request("m", [asked, added], (ADD,))) == [PARIS]
    assert calls_of(Request("m", [asked, removed], (ADD, WEATHER), options=Options())) == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("profile", "model", "search"), [
    ("anthropic", "claude-opus-5", {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}),
    ("anthropic", "claude-opus-5", {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}),
    ("openai-responses", "gpt-5.6-sol", {"type": "tool_search"}),
])  # fmt: skip
def test_the_providers_own_search(profile: str, model: str, search: dict[str, Any], stream: bool) -> None:
    """It is run within the reply, and what it found comes back with the history."""
    wire = "anthropic-messages" if profile == "anthropic" else profile
    name = str(search.get("name", "tool_search"))
    finder = ToolDefinition(name, kind="hosted", wire=wire, opaque=search, finds_tools=True)
    conversation = Conversation([user('call get_weather {"city": "Paris"}\nthen say Done.')])
    first = ask(Simulator(), profile, conversation, tools=(finder, LATER), model=model, stream=stream)
    assert [call.name for call in first.calls] == ["get_weather"]
    (changed,) = [block for block in first.blocks if isinstance(block, ToolsChanged)]
    assert changed.loaded == ("get_weather",)
    result = tool_results(ToolResult(first.calls[0].id, (Text("sunny"),), "get_weather"))
    conversation.append(first.message, result)
    assert (
        ask(Simulator(), profile, conversation, tools=(finder, LATER), model=model, stream=stream).text
        == "Done."
    )


OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def reference_body(**reference: Any) -> dict[str, Any]:
    content = [{"type": "tool_reference", **reference}]
    return {
        "model": "claude-opus-5",
        "max_tokens": 100,
        "tools": [
            {"name": "find", "input_schema": OBJECT},
            {"name": "late", "input_schema": OBJECT, "defer_loading": True},
        ],
        "messages": [
            {"role": "user", "content": "say hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "t1", "name": "find", "input": {"type": "tool_reference"}}
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": content}]},
        ],
    }


def responses_body(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.6-sol", "input": [{"role": "user", "content": "say hi"}], **fields}


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": OBJECT, "strict": False, **fields}


DEFERRED = function("late", defer_loading=True)
ADDITIONAL = [
    {"type": "additional_tools", "role": "developer", "tools": [function("f")]},
    {"role": "user", "content": "say hi"},
]
CHOSEN = {"tool_choice": {"type": "function", "name": "f"}, "input": ADDITIONAL}
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/messages", reference_body(tool_name="late"), ""),
    ("/v1/messages", reference_body(tool_name="nobody"), "tool_reference_unresolved"),
    ("/v1/messages", reference_body(tool_name="x" * 65), "at most 64 characters"),
    ("/v1/responses", responses_body(tools=[DEFERRED]), "Deferred tools require tools.tool_search"),
    (
        "/v1/responses",
        responses_body(tools=[{"type": "namespace", "name": "n", "tools": [DEFERRED]}]),
        "Deferred tools require",
    ),
    ("/v1/responses", responses_body(tools=[DEFERRED, {"type": "tool_search"}]), ""),
    ("/v1/responses", responses_body(tools=[*(function(f"t{n}") for n in range(129))]), "array too long"),
    (
        "/v1/responses",
        responses_body(tools=[{"type": "tool_search"}, *({**DEFERRED, "name": f"t{n}"} for n in range(300))]),
        "",
    ),
    ("/v1/responses", responses_body(**CHOSEN), ""),
    ("/v1/responses", responses_body(**CHOSEN) | {"model": "gpt-5.5"}, "Tool choice 'f' not found"),
    # what Codex sends beside the published fields
    (
        "/v1/responses",
        responses_body(client_metadata={"thread_id": "t"}, parallel_tool_calls=False, input=ADDITIONAL),
        "",
    ),
]


@pytest.mark.parametrize(("path", "body", "problem"), REQUESTS)
def test_rules_of_tools_over_time(path: str, body: dict[str, Any], problem: str) -> None:
    answer = Simulator().handle("POST", path, KEYS, dumps(body))
    assert (answer.status, problem in answer.body.decode()) == (400 if problem else 200, True), answer.body


def test_a_search_of_claude_code_is_made_first() -> None:
    """It names its deferred tools in a text only, and declares them when they were found."""
    search = ToolDefinition("ToolSearch", "Fetches tools.", FINDER.parameters)
    prompt = user("call TaskList {}\nthen say Done.")
    assert calls_of(Request("m", [prompt], (search,))) == [("ToolSearch", {"query": "select:TaskList"})]


@pytest.mark.parametrize("stream", [False, True])
def test_a_search_that_the_client_of_openai_runs(stream: bool) -> None:
    """As Codex declares it: the search is an item of its own, and its output brings the tools."""
    search = {
        "type": "tool_search",
        "execution": "client",
        "description": "Finds tools.",
        "parameters": FINDER.parameters,
    }
    finder = ToolDefinition(
        "tool_search",
        "Finds tools.",
        FINDER.parameters,
        wire="openai-responses",
        opaque=search,
        finds_tools=True,
    )
    conversation = Conversation([user('call get_weather {"city": "Paris"}\nthen say Done.')])
    simulator = Simulator()
    names: list[str] = []
    for _ in range(3):
        reply = ask(
            simulator, "openai-responses", conversation, tools=(finder,), model="gpt-5.5", stream=stream
        )
        conversation.append(reply.message)
        for call in reply.calls:
            names.append(call.name)
            content = (ToolsChanged(added=(WEATHER,)),) if call.name == "tool_search" else (Text("sunny"),)
            conversation.append(tool_results(ToolResult(call.id, content, call.name)))
    assert (names, conversation[-1].text) == (["tool_search", "get_weather"], "Done.")
