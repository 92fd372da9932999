"""Document 001: tool definitions, history and results in each provider's format, and streams."""

import asyncio
from typing import Any, cast

import pytest

from toolglot import encode_results, encode_tools, tool
from toolglot.loop.agent.agent import Orchestrator
from toolglot.providers.catalog import resolve_profile
from toolglot.values.events import RunDone, ToolCallDelta, ToolCallReady, ToolCallStarted
from toolglot.values.messages import Conversation, Text, ToolResult, assistant, tool_results, user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request

from .kit import FIVE_WIRES, MODELS, call, load_payload, make_agent

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = {"city": "Oslo"}


def find_tool(body: dict[str, Any]) -> dict[str, Any]:
    [tool] = body["tools"]
    return tool["functionDeclarations"][0] if "functionDeclarations" in tool else tool


def find_keys(value: Any) -> set[str]:
    """All keys of a payload, at any depth."""
    if isinstance(value, list):
        return {key for item in cast(list[Any], value) for key in find_keys(item)}
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    return {*fields, *(key for item in fields.values() for key in find_keys(item))}


@pytest.mark.parametrize(
    "provider", ["openai-chat", "openai-responses", "claude", "gemini", "copilot", "openrouter"]
)
def test_a_definition_in_the_format_of_each_provider(provider: str) -> None:
    expected = load_payload("001_tool_formats")[provider]
    target = MODELS[provider].partition("/")[0]
    tool = find_tool(encode_tools([ToolDefinition("name", "description", SCHEMA)], target).body)
    # today's API takes JSON Schema under a name of its own
    if provider == "gemini" and "parametersJsonSchema" in tool:
        tool["parameters"] = tool.pop("parametersJsonSchema")
    inner, expected_inner = tool.get("function", tool), expected.get("function", expected)
    assert tool.get("type") == expected.get("type")
    assert ("function" in tool) is ("function" in expected)
    assert {key for key in inner if key != "strict"} == expected_inner.keys()
    assert (inner["name"], inner["description"]) == (expected_inner["name"], expected_inner["description"])
    assert inner["parameters" if "parameters" in inner else "input_schema"]["properties"].keys() == {"city"}


HISTORY = Conversation(
    [
        user("What is the weather in Oslo?"),
        assistant([Text("Let me look."), call("weather", ARGUMENTS)]),
        tool_results(ToolResult("call_1", (Text("sunny"),), "weather")),
        user("And tomorrow?"),
    ]
)


def encode_history(provider: str) -> list[dict[str, Any]]:
    profile, _, model = MODELS[provider].partition("/")
    target = resolve_profile(profile, model)
    tools = [ToolDefinition("weather", "Weather.", SCHEMA)]
    body = encode_request(Request(messages=tuple(HISTORY), tools=tools), target).body
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "claude", "gemini"])
def test_history_holds_the_call_and_its_result(provider: str) -> None:
    # The document leaves out calls for two providers. All of them refuse a result whose call is missing:
    # Responses gets function_call and function_call_output items, Claude gets tool_use blocks.
    expected = load_payload("001_history")[provider]
    sent = {
        "openai-responses": {"call": "function_call", "result": "function_call_output"},
        "claude": {"call": "tool_use", "result": "tool_result"},
    }
    messages = encode_history(provider)
    kinds = [item.get("type") for message in messages for item in (message, *parts_of(message))]
    for name in sent.get(provider, {}).values():
        assert kinds.count(name) == 1
    keys = find_keys(messages)
    for half in ("call", "result"):
        # there it is an item of its own, not a content part
        if (provider, half) != ("openai-responses", "result"):
            assert find_keys(expected[half]) <= keys, half


def parts_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content: list[Any] = message.get("content") or message.get("parts") or []
    return [part for part in content if isinstance(part, dict)]


@pytest.mark.parametrize("provider", ["openai-chat", "claude", "gemini", "openrouter", "copilot"])
def test_a_result_is_paired_by_the_field_of_its_provider(provider: str) -> None:
    field = load_payload("001_result_fields")[provider]
    result = ToolResult("call_1", (Text("sunny"),), "weather")
    messages = encode_results([result], MODELS[provider].partition("/")[0]).messages
    text = str(messages)
    assert f"'{field}': '{'weather' if field == 'name' else 'call_1'}'" in text


def weather(city: str) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


def read_documents_history(provider: str) -> Conversation:
    """The history that the document writes in the format of a provider that gets both the call and its
    result.
    """
    document = load_payload("001_history")[provider]
    question = "What is the weather in Oslo?"
    if provider == "gemini":
        contents = [{"role": "model", **document["call"]}, {"role": "user", **document["result"]}]
        body = {"contents": [{"role": "user", "parts": [{"text": question}]}, *contents]}
    else:
        # the document leaves it out
        document["call"]["tool_calls"][0]["id"] = document["result"]["tool_call_id"]
        messages = [{"role": "assistant", **document["call"]}, document["result"]]
        body = {"messages": [{"role": "user", "content": question}, *messages]}
    return Conversation(decode_request(provider, body).messages)


@pytest.mark.parametrize("provider", FIVE_WIRES)
@pytest.mark.parametrize("source", ["openai-chat", "gemini"])
def test_a_conversation_with_tool_history_is_never_refused(provider: str, source: str) -> None:
    # the history has the first reply
    agent, transport = make_agent(provider, call("name", {}), tools=[weather])
    assert agent.run_sync("And tomorrow?", conversation=read_documents_history(source)).text == "done"
    [request] = transport.sent
    assert request.status == 200
    # `name` is what the document calls its tool.
    assert [call.name for message in request.history for call in message.calls] == ["name"]
    assert [len(message.results) for message in request.history] == [0, 0, 1, 0]


@pytest.mark.parametrize("provider", FIVE_WIRES)
def test_a_conversation_goes_on_after_a_call(provider: str) -> None:
    document = load_payload("001_history")["openai-chat"]
    name = document["call"]["tool_calls"][0]["function"]["name"]
    agent, transport = make_agent(provider, call(name, {}), tools=[tool(lambda: "sunny", name=name)])
    agent.run_sync("What is the weather in Oslo?")
    agent.run_sync("And tomorrow?")
    assert [request.status for request in transport.sent] == [200] * 3
    assert len(agent.conversation) == 6


@pytest.mark.parametrize("provider", FIVE_WIRES)
def test_streamed_calls_emit_their_events_in_order(provider: str) -> None:
    names = load_payload("001_stream_events")
    kinds = dict(zip(names, (ToolCallStarted, ToolCallDelta, ToolCallReady), strict=True))
    agent, _ = make_agent(provider, call("weather", ARGUMENTS), tools=[weather])
    events: list[Any] = [type(event) for event in asyncio.run(gather(agent))]
    order = [name for event in events for name, kind in kinds.items() if event is kind]
    # these send a call in one piece
    expected = names if provider not in ("gemini", "ollama") else [names[0], names[2]]
    assert list(dict.fromkeys(order)) == expected
    assert order[0] == names[0]
    assert order[-1] == names[-1]
    assert events[-1] is RunDone


async def gather(agent: Orchestrator) -> list[Any]:
    return [event async for event in agent.stream("What is the weather in Oslo?")]
