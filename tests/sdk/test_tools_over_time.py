"""The official clients read replies in which the provider searched for tools, whole and streamed, and so does
our decoder.
"""

from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessageParam
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from pydantic import TypeAdapter

from toolglot.common.jsontext import dumps, loads
from toolglot.providers.catalog import resolve_profile
from toolglot.values.definitions import ToolDefinition
from toolglot.values.messages import (
    Foreign,
    Origin,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Request
from toolglot.wire.codec import create_reader, encode_request, load_reply_encoder
from toolglot.wire.reply_encoding import split_reply

from .sample_replies import sse_data

Doc = dict[str, Any]
SCHEMA: Doc = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Doc = {
    "type": "function",
    "name": "get_weather",
    "parameters": SCHEMA,
    "strict": False,
    "defer_loading": True,
}
SEARCH_CALL: Doc = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": None,
    "execution": "server",
    "status": "completed",
    "arguments": {"paths": ["get_weather"]},
}
SEARCH_OUTPUT: Doc = {
    "type": "tool_search_output",
    "id": "tso_1",
    "call_id": None,
    "execution": "server",
    "status": "completed",
    "tools": [FUNCTION],
}
SERVER_USE: Doc = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "tool_search_tool_bm25",
    "input": {"query": "weather"},
}
SERVER_RESULT: Doc = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "get_weather"}],
    },
}
CASES: dict[str, tuple[Doc, Doc, Doc]] = {
    "openai-responses": (
        SEARCH_CALL,
        SEARCH_OUTPUT,
        {"id": "fc_1", "status": "completed", "namespace": "get_weather"},
    ),
    "anthropic-messages": (SERVER_USE, SERVER_RESULT, {}),
}
READERS: dict[str, tuple[Any, Any]] = {
    "openai-responses": (Response, TypeAdapter[Any](ResponseStreamEvent)),
    "anthropic-messages": (Message, TypeAdapter[Any](RawMessageStreamEvent)),
}


def reply_of(wire: str) -> Reply:
    call, loaded, state = CASES[wire]
    blocks = (
        Text("Let me look.", {"id": "msg_1", "status": "completed"} if wire == "openai-responses" else None),
        Foreign(wire, call),
        ToolsChanged(loaded=("get_weather",), opaque={"item": loaded}),
        ToolCall("call_1", "get_weather", {"city": "Rome"}, '{"city":"Rome"}', opaque=state or None),
    )
    return Reply(blocks, "tools", origin=Origin(wire, model="m"), id="resp_1")


@pytest.mark.parametrize("wire", CASES)
def test_clients_read_a_search_of_the_provider(wire: str) -> None:
    reply, (whole, event) = reply_of(wire), READERS[wire]
    body = load_reply_encoder(wire)("m").encode_reply(reply)
    read = whole.model_validate(body)
    kinds = [item.type for item in (read.output if wire == "openai-responses" else read.content)]
    assert CASES[wire][1]["type"] in kinds
    encoder = load_reply_encoder(wire)("m", origin=reply.origin)
    data = b"".join(map(encoder.feed, split_reply(reply)))
    for frame in sse_data(data):
        event.validate_python(loads(frame))
    for streaming, content in ((False, dumps(body)), (True, data)):
        reader = create_reader(
            wire, streaming=streaming, content_type="" if streaming else "application/json", model="m"
        )
        reader.feed(content)
        reader.close()
        assert [type(block) for block in reader.reply.blocks] == [type(block) for block in reply.blocks]
        assert reader.reply.blocks[1:3] == reply.blocks[1:3]
        assert (reader.reply.calls[0].name, reader.reply.calls[0].namespace) == ("get_weather", "")


SEARCH = ToolDefinition("search_tools", "Find tools.", SCHEMA, finds_tools=True)
WEATHER = ToolDefinition("get_weather", "Weather.", SCHEMA, deferred=True)
LATE = ToolDefinition("late", "Later.", SCHEMA)
STORY = [
    user("Weather?"),
    assistant(ToolCall("c1", "search_tools", {"city": "x"})),
    tool_results(ToolResult("c1", (Text("Found."), ToolsChanged(loaded=("get_weather",))), "search_tools")),
    system(ToolsChanged((LATE,))),
]


def test_clients_know_the_items_of_requests() -> None:
    responses = encode_request(
        Request("gpt-5.6", STORY, (SEARCH, WEATHER)), resolve_profile("openai-responses", "gpt-5.6")
    ).body
    added = [item for item in responses["input"] if item.get("type") == "additional_tools"]
    assert [tool["name"] for item in added for tool in item["tools"]] == ["get_weather", "late"]
    for item in added:
        TypeAdapter[Any](ResponseInputItemParam).validate_python(item)
    profile = resolve_profile("anthropic", "claude-opus-4-8")
    claude = encode_request(Request("claude-opus-4-8", STORY, (SEARCH, WEATHER)), profile).body
    for message in claude["messages"]:
        TypeAdapter[Any](BetaMessageParam).validate_python(message)
    assert claude["messages"][-1]["content"][0]["type"] == "tool_addition"
