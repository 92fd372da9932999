"""Document 002: the same tools with every provider, handlers by name, and the follow-up."""

import asyncio
import re
from typing import Any

import pytest
from tests.wire.reply_reading import read, read_whole, sse_of

from toolglot import ToolExecutor, ToolRegistry, encode_results, encode_tools
from toolglot.common.jsontext import dumps_text, loads
from toolglot.tools.tool import tool_from_definition, tool_from_schema
from toolglot.values.events import RunDone, TextDelta, ToolCallDelta, ToolCallReady
from toolglot.values.messages import Origin, ToolCall
from toolglot.values.request import ToolDefinition
from toolglot.wire.tracker import ToolCallTracker

from .kit import MODELS, call, find_results, load_payload, make_agent

WEATHER = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
WIRES = {"claude": "anthropic-messages", "ollama": "ollama-chat", "gemini": "gemini"}
PROVIDERS = ("openai", "claude", "ollama", "gemini", "grok", "azure", "deepseek")


def profile_of(provider: str) -> str:
    """The profile in the format of the document: today Azure has OpenAI's other API too, and that is our
    default.
    """
    return "azure-chat" if provider == "azure" else MODELS[provider].partition("/")[0]


def find_tool(body: dict[str, Any]) -> dict[str, Any]:
    [tool] = body["tools"]
    return tool["functionDeclarations"][0] if "functionDeclarations" in tool else tool


@pytest.mark.parametrize("provider", ["openai", "claude", "ollama", "gemini", "grok", "azure"])
def test_the_documents_tool_in_each_format(provider: str) -> None:
    [example] = load_payload("002_tools")
    # Gemini's field is named functionDeclarations, holds a list, and its parameters are JSON Schema under
    # another name.
    expected = load_payload("002_tool_formats")[provider]
    tool = find_tool(encode_tools([ToolDefinition(**example)], profile_of(provider)).body)
    if provider == "gemini":
        assert tool.keys() - {"parametersJsonSchema", "parameters"} == {"name", "description"}
        expected = expected["functionDeclaration"]
    else:
        assert tool.keys() == expected.keys()
    inner = tool.get("function", tool)
    wanted = expected.get("function", expected)
    assert {
        key for key in inner if key not in ("parameters", "parametersJsonSchema", "strict")
    } == wanted.keys() - {"parameters"}
    assert (inner["name"], inner["description"]) == ("test", "test")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_tool_choices(provider: str) -> None:
    tool = ToolDefinition(**load_payload("002_tools")[0])
    automatic, none, named = load_payload("002_tool_choice")["openai"]
    # Claude and Ollama are "automatic" in the document: Claude has choices today, on Ollama they are emulated
    # with a Loss.
    for word, native in {"auto": automatic, "none": none, "test": named}.items():
        encoded = encode_tools([tool], profile_of(provider), tool_choice=word)
        if provider in ("openai", "grok", "azure"):
            assert encoded.body.get("tool_choice", "auto") == native
        elif provider == "gemini":
            assert load_payload("002_tool_choice")["gemini"] == "toolConfig.functionCallingConfig.mode"
            mode = encoded.body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode", "AUTO")
            assert mode == {"auto": "AUTO", "none": "NONE", "test": "ANY"}[word]
        elif provider == "claude":
            kind = encoded.body.get("tool_choice", {"type": "auto"})["type"]
            assert kind == {"auto": "auto", "none": "none", "test": "tool"}[word]
        elif provider == "ollama":
            assert "tool_choice" not in encoded.body
            assert bool(encoded.losses) == (word != "auto")


def test_names_follow_the_pattern_or_are_mapped() -> None:
    pattern = load_payload("002_name_pattern")
    for name in ("get_weather", "a.b", "é", "x" * 105, "server/tool"):
        sent = find_tool(encode_tools([ToolDefinition(name)], "openai-chat").body)["function"]["name"]
        assert re.fullmatch(pattern, sent)
        assert (sent == name) == bool(re.fullmatch(pattern, name))


def get_time(location: str) -> str:
    return f"noon in {location}"


async def get_weather(location: str) -> dict[str, Any]:
    return {"location": location, "sky": "clear"}


def make_registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("get_weather", get_weather)
    registry.register("get_time", tool_from_schema("get_time", "The time.", WEATHER, get_time))
    return registry


def test_handlers_are_registered_by_name_and_run_alone_or_together() -> None:
    message = load_payload("002_tool_call")
    message["id"] = "c1"
    message["function"].update(name="get_weather", arguments=dumps_text({"location": "Oslo"}))
    executor = ToolExecutor(make_registry())
    tool_call = ToolCall(message["id"], message["function"]["name"], loads(message["function"]["arguments"]))
    outcome = asyncio.run(executor.run(tool_call))
    assert outcome.result.data == {"location": "Oslo", "sky": "clear"}
    outcomes = asyncio.run(executor.run_all([tool_call, call("get_time", {"location": "Oslo"}, "c2")]))
    assert [outcome.result.call_id for outcome in outcomes] == ["c1", "c2"]
    assert outcomes[1].result.text == "noon in Oslo"
    [response] = encode_results([outcome.result], "openai-chat").messages
    expected = load_payload("002_handler_response")
    assert response.keys() == expected.keys()
    assert (response["role"], response["tool_call_id"]) == (expected["role"], "c1")
    assert loads(response["content"]) == {"location": "Oslo", "sky": "clear"}


@pytest.mark.parametrize("provider", ["openai", "ollama", "claude", "gemini"])
def test_the_follow_up_in_each_format(provider: str) -> None:
    agent, transport = make_agent(provider, call("get_weather", {"location": "Oslo"}), tools=make_registry())
    agent.run_sync("What is the weather in Oslo?")
    body = transport.sent[-1].body
    sent = body["contents" if provider == "gemini" else "messages"]
    expected = load_payload("002_follow_up")[provider]
    if provider in ("openai", "ollama"):
        assert [message["role"] for message in sent[-2:]] == [message["role"] for message in expected]
        assert expected[0].keys() <= sent[-2].keys()
        assert expected[1].keys() <= sent[-1].keys()
        assert loads(sent[-1]["content"]) == {"location": "Oslo", "sky": "clear"}
    elif provider == "claude":
        [message] = expected
        assert sent[-1]["role"] == message["role"]
        assert message["content"][0].keys() <= sent[-1]["content"][0].keys()
    else:  # the API takes contents with a role and parts: the document's bare list of responses is refused
        [part] = expected
        assert sent[-1]["role"] == "user"
        assert part["functionResponse"].keys() <= sent[-1]["parts"][0]["functionResponse"].keys()
        assert sent[-1]["parts"][0]["functionResponse"]["response"] == {"location": "Oslo", "sky": "clear"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_yields_content_then_calls_then_its_end(provider: str) -> None:
    content, calls, end = (event["type"] for event in load_payload("002_stream"))
    agent, _ = make_agent(
        provider, call("get_weather", {"location": "Oslo"}), tools=make_registry(), answer="Clear."
    )

    async def gather() -> list[Any]:
        return [event async for event in agent.stream("What is the weather in Oslo?")]

    names = {TextDelta: content, ToolCallReady: calls, RunDone: end}
    kinds = [names[type(event)] for event in asyncio.run(gather()) if type(event) in names]
    assert list(dict.fromkeys(kinds)) == [calls, content, end]  # the answer streams after the call's result


# The rest of a reply, of which the document has the part with the call.
REPLIES: dict[str, dict[str, Any]] = {
    "claude": {"type": "message", "role": "assistant", "stop_reason": "tool_use"},
    "ollama": {"done": True},
}


@pytest.mark.parametrize("provider", WIRES)
def test_the_call_is_read_where_each_provider_has_it(provider: str) -> None:
    reply = load_payload("002_responses")[provider]
    arguments = {"location": "Oslo"}
    if provider == "claude":
        [part] = reply["content"]
        part.update(id="c1", name="get_weather", input=arguments)
    elif provider == "ollama":
        # the document parses the arguments as text: the API sends an object, and both are read
        reply["message"]["tool_calls"][0]["function"].update(
            name="get_weather", arguments=dumps_text(arguments)
        )
    else:  # functionCalls() is what the SDK collects from the parts
        [part] = reply["functionCalls"]
        part.update(name="get_weather", args=arguments)
        reply = {"candidates": [{"content": {"parts": [{"functionCall": part}]}, "finishReason": "STOP"}]}
    [tool_call] = read_whole(WIRES[provider], {**REPLIES.get(provider, {}), **reply}).reply.calls
    assert (tool_call.name, tool_call.arguments) == ("get_weather", arguments)


def test_openais_chunks_are_read_by_their_index() -> None:
    def make_chunk(index: int, **function: str) -> dict[str, Any]:
        chunk = load_payload("002_responses")["openai"]
        [piece] = chunk["choices"][0]["delta"]["tool_calls"]
        piece["index"] = index
        piece["function"] = {**piece["function"], **function}
        return chunk

    chunks = [make_chunk(0, name="get_weather"), make_chunk(1, name="get_time")]
    for piece in ('{"loca', 'tion": "Os', 'lo"}'):
        chunks += [make_chunk(0, arguments=piece), make_chunk(1, arguments=piece)]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reply = read("openai-chat", sse_of(*chunks, "[DONE]")).reply
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("get_weather", {"location": "Oslo"}),
        ("get_time", {"location": "Oslo"}),
    ]


def test_chunks_of_a_call_are_accumulated() -> None:
    empty = load_payload("002_tool_call")
    assert empty["function"] == {"name": "", "arguments": ""}
    tracker = ToolCallTracker(Origin("openai-chat"))
    tracker.begin("r1", "gpt-4o")
    tracker.update_call(0, id="c1", name="get_weather")
    for piece in ('{"loca', 'tion": "Os', 'lo"}'):
        tracker.add_arguments(0, piece)
        assert [type(event) for event in tracker.drain()][-1] is ToolCallDelta
    tracker.close(0)
    assert ToolCallReady in [type(event) for event in tracker.drain()]
    [tool_call] = tracker.finish().calls
    assert (tool_call.id, tool_call.name, tool_call.arguments) == ("c1", "get_weather", {"location": "Oslo"})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_definition_of_a_server_works_with_every_provider(provider: str) -> None:
    assert provider in load_payload("002_mcp_providers")

    def run_remote(_all: dict[str, Any]) -> str:
        return f"remote {_all['location']}"

    remote = tool_from_definition(ToolDefinition("mcp__weather__get", "Weather.", WEATHER), run_remote)
    agent, transport = make_agent(provider, call("mcp__weather__get", {"location": "Oslo"}), tools=[remote])
    agent.run_sync("go")
    assert [result.text for result in find_results(agent.conversation)] == ["remote Oslo"]
    assert [request.status for request in transport.sent] == [200, 200]
