"""The official `anthropic` client reads what our Messages codec writes, and the codec reads what the client
writes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import anthropic
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, MessageCreateParams, RawMessageStreamEvent
from pydantic import TypeAdapter

from toolglot.common.jsontext import dumps, loads
from toolglot.values.messages import Foreign, Origin, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.anthropic.reply_encode import AnthropicReplyEncoder
from toolglot.wire.json_values import unknown_fields
from toolglot.wire.reply_encoding import split_reply

from .loopback import Loopback
from .sample_replies import Client, Seen, as_objects, check_document, sse_data, stream, to_seen, types_by_name
from .sample_requests import REQUESTS, encode_sample, exhaust

WIRE = "anthropic-messages"
MODEL = "claude-opus-4-5"
STOPS: dict[StopReason, str] = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "pause": "pause_turn",
}
EVENTS = types_by_name(RawMessageStreamEvent)
OURS = {"text", "thinking", "redacted_thinking", "tool_use"}

# ---- what the client reads


def read_message(message: Message) -> Seen:
    usage = message.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    assert usage.output_tokens_details is not None
    return Seen(
        text="".join(block.text for block in message.content if block.type == "text"),
        thinking="".join(block.thinking for block in message.content if block.type == "thinking"),
        calls=[(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
        stop=message.stop_reason or "",
        usage=Usage(
            usage.input_tokens + cached + written,
            usage.output_tokens,
            cached,
            written,
            usage.output_tokens_details.thinking_tokens,
        ),
    )


def expect(reply: Reply) -> Seen:
    return as_objects(reply, to_seen(reply, STOPS))


def expect_streamed(reply: Reply) -> Seen:
    """Arguments that were cut are streamed as they came; the client reads as much of them as it can."""
    seen = expect(reply)
    for at, call in enumerate(reply.calls):
        if call.arguments is None and (call.raw or "").startswith("{") and not call.freeform:
            seen.calls[at] = (*seen.calls[at][:2], ...)
    return seen


def _body_in_process(data: bytes) -> Seen:
    document = loads(data)
    return read_message(check_document(Message, document, document["content"], OURS))


def _stream_in_process(data: bytes) -> Seen:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for text in sse_data(data):
        document = loads(text)
        inner = [document["content_block"]] if "content_block" in document else []
        event = check_document(EVENTS[document["type"]], document, inner, OURS)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    return read_message(snapshot)


CLIENT = Client(
    "anthropic",
    MODEL,
    AnthropicReplyEncoder,
    expect=expect,
    body=_body_in_process,
    stream=_stream_in_process,
    expect_streamed=expect_streamed,
)


@contextmanager
def connect(url: str) -> Generator[anthropic.Anthropic]:
    http = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, http_client=http) as client:
        yield client


def live_client(server: Loopback, sdk: anthropic.Anthropic) -> Client:
    """A client that reads over HTTP."""

    def body(data: bytes) -> Seen:
        server.say(data)
        return read_message(sdk.messages.create(model=MODEL, max_tokens=9, messages=[]))

    def streaming(data: bytes) -> Seen:
        server.say(data, "text/event-stream")
        with sdk.messages.stream(model=MODEL, max_tokens=9, messages=[]) as events:
            return read_message(events.get_final_message())

    return Client("anthropic", MODEL, AnthropicReplyEncoder, expect, body, streaming, expect_streamed)


# ---- requests

PATH = "/v1/messages"
KEPT = {"max_tokens", "temperature", "top_p", "top_k", "stop", "effort", "thinking_budget"}
PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParams)
# claude-3-5-sonnet takes temperature and top_p together
MODELS = {"options": "claude-3-5-sonnet-20241022"}
BODIES = {name: encode_sample(name, "anthropic-messages", MODELS.get(name, MODEL)).body for name in REQUESTS}
SAMPLING = ("temperature", "top_p", "top_k")  # gone from the client with the models that took them
# "json": there is no JSON mode without a schema. "choice-subset": there is no such choice; other tools are
# left out.
INEXPRESSIBLE = ("json", "choice-subset")


def send(sdk: anthropic.Anthropic, fields: Any) -> None:
    """Sends a body through the client."""
    extra = {name: fields[name] for name in SAMPLING if name in fields}
    cast(Any, sdk.messages.create)(**(unknown_fields(fields, SAMPLING) or {}), extra_body=extra)


def check_types(name: str) -> None:
    """A field that the client's types do not know would be missing from what they return."""
    assert exhaust(PARAMS.validate_python(BODIES[name])) == unknown_fields(BODIES[name], SAMPLING)


# ---- what only this client has


def test_a_blank_stop_sequence_is_refused_and_so_a_loss() -> None:
    encoded = encode_sample("options", "anthropic-messages", MODELS["options"])
    assert encoded.body["stop_sequences"] == ["END"]
    assert {loss.subject for loss in encoded.losses} == {
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
    }


OWN = Origin("anthropic-messages", model=MODEL)
CITATION = {
    "type": "char_location",
    "cited_text": "b",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
    "file_id": None,
}
REPLAYED = Reply(
    (
        Thinking("hmm", {"signature": "c2ln"}),
        Thinking("", {"redacted": "Y2lwaGVy"}),
        Thinking("", {"signature": "b25seQ=="}),
        Foreign(
            OWN.wire,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        ),
        Text("b", {"citations": [CITATION]}),
        ToolCall("toolu_1", "f", {"a": 1}, '{"a": 1}', opaque={"caller": {"type": "direct"}}),
    ),
    "tools",
    Usage(3, 4),
    OWN,
    "msg_1",
    {"stop_details": None, "container": {"id": "c1", "expires_at": "2026-01-01T00:00:00Z"}},
)


@pytest.mark.parametrize("streaming", [False, True], ids=["body", "stream"])
def test_state_of_the_origin_comes_back_whole(
    streaming: bool, server: Loopback, sdk: anthropic.Anthropic
) -> None:
    """Signatures, ciphers, citations, callers and hosted tools: what a client must send back unchanged."""
    if streaming:
        server.say(
            stream(AnthropicReplyEncoder(MODEL, origin=OWN), split_reply(REPLAYED)), "text/event-stream"
        )
        with sdk.messages.stream(model=MODEL, max_tokens=9, messages=[]) as events:
            message: Message = events.get_final_message()
    else:
        server.say(dumps(AnthropicReplyEncoder(MODEL).encode_reply(REPLAYED)))
        message = sdk.messages.create(model=MODEL, max_tokens=9, messages=[])
    content = [block.to_dict(mode="json") for block in message.content]
    assert content == [
        {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "Y2lwaGVy"},
        {"type": "thinking", "thinking": "", "signature": "b25seQ=="},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "text", "text": "b", "citations": [CITATION]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
    ]
    assert message.container is not None
    assert (message.id, message.model, message.container.id) == ("msg_1", MODEL, "c1")
