"""The official `openai` client reads what our Responses codec writes, and the codec reads what the client
writes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import openai
import pytest
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter

from toolglot.common.jsontext import dumps, loads
from toolglot.values.messages import (
    Foreign,
    Media,
    Origin,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from toolglot.wire.openai_responses.reply_encode import ResponsesReplyEncoder
from toolglot.wire.reply_encoding import split_reply

from .loopback import Loopback
from .sample_replies import (
    DOT,
    PIXEL,
    Client,
    Recorded,
    Seen,
    check_document,
    is_marked,
    parse_arguments,
    sse_data,
    to_seen,
    types_by_name,
)
from .sample_requests import REQUESTS, encode_sample, exhaust

WIRE = "openai-responses"
MODEL = "gpt-5"
OWN = Origin("openai-responses", model=MODEL)
STOPS: dict[StopReason, str] = {
    "end": "completed",
    "tools": "completed",
    "length": "max_output_tokens",
    "filtered": "content_filter",
}
EVENTS = types_by_name(ResponseStreamEvent)
OURS = {"message", "reasoning", "function_call", "custom_tool_call", "image_generation_call"}

# ---- what the client reads


def read_response(response: Response) -> Seen:
    seen = Seen("", "", [], "completed", Usage())
    thoughts: list[str] = []
    for item in response.output:
        match item.type:
            case "message":
                for part in item.content:
                    if part.type == "refusal":
                        seen.text, seen.stop = seen.text + part.refusal, "refusal"
                    else:
                        seen.text += part.text
            case "reasoning":
                thoughts.append("\n\n".join(part.text for part in item.summary or item.content or []))
            case "function_call":
                name = f"{item.namespace}__{item.name}" if item.namespace else item.name
                seen.calls.append((item.call_id, name, parse_arguments(item.arguments)))
            case "custom_tool_call":
                seen.calls.append((item.call_id, item.name, item.input))
            case "image_generation_call":
                seen.media.append(item.result or "")
            case _:
                pass
    seen.thinking = "".join(thoughts)
    if response.status == "incomplete":
        assert response.incomplete_details is not None
        seen.stop = response.incomplete_details.reason or ""
    usage = response.usage
    assert usage is not None
    seen.usage = Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.input_tokens_details.cache_write_tokens,
        usage.output_tokens_details.reasoning_tokens,
    )
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    return seen


def expect(reply: Reply) -> Seen:
    """There is no status for a refusal: only the part that is one says so.

    Built-ins are items of their own.
    """
    seen = to_seen(reply, {**STOPS, "refusal": "refusal"} if is_marked(reply) else STOPS)
    seen.calls = [
        mine for mine, call in zip(seen.calls, reply.calls, strict=True) if "item" not in (call.opaque or {})
    ]
    foreign = [block.item for block in reply.blocks if isinstance(block, Foreign) and block.wire == OWN.wire]
    seen.media += [item["result"] for item in foreign if item["type"] == "image_generation_call"]
    return seen


def _body_in_process(data: bytes) -> Seen:
    document = loads(data)
    return read_response(check_document(Response, document, document["output"], OURS))


def _stream_in_process(data: bytes) -> Seen:
    """Every event is one of the client's, and its own assembly ends with the response."""
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    final: Response | None = None
    for number, text in enumerate(sse_data(data)):
        document = loads(text)
        items = [document["item"]] if "item" in document else document.get("response", {}).get("output", [])
        event = check_document(EVENTS[document["type"]], document, items, OURS)
        assert event.sequence_number == number
        for stream_event in state.handle_event(event):
            if stream_event.type in ("response.completed", "response.incomplete"):
                final = cast(Any, stream_event).response
    assert final is not None
    return read_response(final)


CLIENT = Client(
    "openai-responses",
    MODEL,
    ResponsesReplyEncoder,
    expect=expect,
    body=_body_in_process,
    stream=_stream_in_process,
)


@contextmanager
def connect(url: str) -> Generator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=http) as client:
        yield client


def live_client(server: Loopback, sdk: openai.OpenAI) -> Client:
    """A client that reads over HTTP."""

    def body(data: bytes) -> Seen:
        server.say(data)
        return read_response(sdk.responses.create(model=MODEL, input="hi"))

    def streaming(data: bytes) -> Seen:
        server.say(data, "text/event-stream")
        final: Any = None
        with sdk.responses.stream(model=MODEL, input="hi") as events:
            for event in events:  # `get_final_response` knows only completed ones
                if event.type in ("response.completed", "response.incomplete"):
                    final = cast(Any, event).response
        return read_response(final)

    return Client("openai-responses", MODEL, ResponsesReplyEncoder, expect, body, streaming)


# ---- requests

PATH = "/responses"
KEPT = {"max_tokens", "temperature", "top_p", "effort"}
PARAMS: TypeAdapter[Any] = TypeAdapter(ResponseCreateParams)
BODIES = {
    name: encode_sample(name, "openai-responses", MODEL if name == "effort" else "gpt-4.1").body
    for name in REQUESTS
}


def send(sdk: openai.OpenAI, fields: Any) -> None:
    """Sends a body through the client."""
    cast(Any, sdk.responses.create)(**fields)


def check_types(name: str) -> None:
    """A field that the client's types do not know would be missing from what they return.

    They ask for an image's `detail`,
    which the service does not (recorded with status 200).
    """
    body = loads(
        dumps(BODIES[name]).replace(b'"type":"input_image",', b'"type":"input_image","detail":"auto",')
    )
    assert exhaust(PARAMS.validate_python(body)) == body


# ---- what only this client has


REPLAYED = {
    "text": Reply(
        (Text("a", {"id": "msg_1", "status": "completed"}), Text("b", {"id": "msg_2", "status": "completed"}))
    ),
    "text of two parts": Reply(
        (
            Text("a", {"id": "msg_1", "status": "completed", "part": {"annotations": []}}),
            Text("b", {"id": "msg_1", "status": "completed", "part": {"annotations": []}}),
        )
    ),
    "reasoning": Reply(
        (
            Thinking(
                "why",
                {
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "why"}],
                    "encrypted_content": "x",
                },
            ),
            Text("so", {"id": "msg_1", "status": "completed"}),
        )
    ),
    "call": Reply(
        (ToolCall("call_1", "f", {"a": 1}, '{"a":1}', opaque={"id": "fc_1", "status": "completed"}),), "tools"
    ),
    "custom call": Reply((ToolCall("call_1", "f", None, "+a", True, opaque={"id": "ctc_1"}),), "tools"),
    "namespaced call": Reply(
        (ToolCall("call_1", "f", {}, "{}", namespace="ns", opaque={"id": "fc_1"}),), "tools"
    ),
    "refusal": Reply((Text("No.", {"refusal": True, "id": "msg_1", "status": "completed"}),), "refusal"),
    "hosted search": Reply(
        (
            Foreign(
                "openai-responses",
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": None},
            ),
            Text("x"),
        )
    ),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_the_client_reads_a_replayed_stream(name: str, client: Client) -> None:
    """Ids of the origin's own items are the same from the first event of an item to its last."""
    client.reads_stream(Recorded(name, *_with_origin(REPLAYED[name])))


def _with_origin(reply: Reply) -> tuple[Reply, list[Any]]:
    native = Reply(reply.blocks, reply.stop, Usage(3, 4), OWN, "resp_1")
    return native, list(split_reply(native))


def test_the_client_reads_id_model_and_time(server: Loopback, sdk: openai.OpenAI) -> None:
    server.say(dumps(ResponsesReplyEncoder(MODEL, created=7).encode_reply(Reply((), id="resp_1"))))
    body = sdk.responses.create(model=MODEL, input="hi")
    assert (body.id, body.model, body.created_at) == ("resp_1", MODEL, 7)


def test_the_client_reads_two_generated_images(client: Client) -> None:
    reply = Reply((Text("Two:"), Media("image", "image/png", PIXEL), Media("image", "image/gif", DOT)))
    record = Recorded("images", reply, list(split_reply(reply)))
    client.reads_body(record)
    client.reads_events(record)
