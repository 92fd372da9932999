"""The official `google-genai` client reads what our Gemini codec writes, and the codec reads what the client
writes.
"""

import base64
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from google import genai
from google.genai import types
from pydantic.alias_generators import to_camel

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
from toolglot.wire.gemini.reply_encode import GeminiReplyEncoder
from toolglot.wire.json_values import unknown_fields
from toolglot.wire.reply_encoding import split_reply

from .loopback import Loopback
from .sample_replies import DOT, PIXEL, Client, Recorded, Seen, as_objects, sse_data, stream, to_seen
from .sample_requests import REQUESTS, encode_sample

WIRE = "gemini"
MODEL = "gemini-3-pro-preview"
STOPS: dict[StopReason, str] = {
    "end": "STOP",
    "tools": "STOP",
    "length": "MAX_TOKENS",
    "filtered": "SAFETY",
    "pause": "CONTINUATION",
    "error": "OTHER",
}

# ---- what the client reads


def read_responses(responses: Iterable[types.GenerateContentResponse]) -> Seen:
    """A whole response is a stream of one."""
    seen = Seen("", "", [], "", Usage())
    for response in responses:
        for candidate in response.candidates or []:
            for part in (candidate.content and candidate.content.parts) or []:
                _add(part, seen)
            if candidate.finish_reason:
                seen.stop = candidate.finish_reason.value
        if usage := response.usage_metadata:
            thoughts = usage.thoughts_token_count or 0
            seen.usage = Usage(
                usage.prompt_token_count or 0,
                (usage.candidates_token_count or 0) + thoughts,
                usage.cached_content_token_count or 0,
                0,
                thoughts,
            )
            assert usage.total_token_count == seen.usage.input + seen.usage.output
    return seen


def _add(part: types.Part, seen: Seen) -> None:
    if part.text is not None and part.thought:
        seen.thinking += part.text
    elif part.text is not None:
        seen.text += part.text
    elif call := part.function_call:
        seen.calls.append((call.id or "", call.name or "", call.args))
    elif part.inline_data and part.inline_data.data:
        seen.media.append(base64.b64encode(part.inline_data.data).decode())


def expect(reply: Reply) -> Seen:
    """Nothing says how many tokens were written to a cache.

    Calls that came without an id stay so on their own wire; a
    prompt that was blocked has no candidate at all.
    """
    seen = as_objects(reply, to_seen(reply, STOPS))
    if reply.origin and reply.origin.wire == "gemini":
        seen.calls = [
            ((call.opaque or {}).get("id", ""), *mine[1:])
            for mine, call in zip(seen.calls, reply.calls, strict=True)
        ]
    usage = reply.usage
    seen.usage = Usage(usage.input, usage.output, usage.cached, 0, usage.reasoning)
    if "promptFeedback" in (reply.opaque or {}):
        seen.stop = ""
    return seen


def _stream_in_process(data: bytes) -> Seen:
    return read_responses(types.GenerateContentResponse.model_validate_json(text) for text in sse_data(data))


CLIENT = Client(
    "gemini",
    MODEL,
    GeminiReplyEncoder,
    expect=expect,
    body=lambda data: read_responses([types.GenerateContentResponse.model_validate_json(data)]),
    stream=_stream_in_process,
)


@contextmanager
def connect(url: str) -> Generator[genai.Client]:
    options = types.HttpOptions(base_url=url, api_version="v1beta", client_args={"trust_env": False})
    with genai.Client(api_key="none", http_options=options) as client:
        yield client


def generate(sdk: genai.Client, **fields: Any) -> types.GenerateContentResponse:
    return cast(Any, sdk.models).generate_content(model=MODEL, **{"contents": "hi", **fields})


def generate_stream(sdk: genai.Client) -> Iterator[types.GenerateContentResponse]:
    return cast(Any, sdk.models).generate_content_stream(model=MODEL, contents="hi")


def live_client(server: Loopback, sdk: genai.Client) -> Client:
    """A client that reads over HTTP."""

    def body(data: bytes) -> Seen:
        server.say(data)
        return read_responses([generate(sdk)])

    def streaming(data: bytes) -> Seen:
        server.say(data, "text/event-stream")
        return read_responses(generate_stream(sdk))

    return Client("gemini", MODEL, GeminiReplyEncoder, expect, body, streaming)


# ---- requests

PATH = f"/v1beta/models/{MODEL}:generateContent"
KEPT = {
    *("max_tokens", "temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"),
    *("effort", "thinking_budget"),
}
# models before 3 take a budget, later ones a level
BODIES = {
    name: encode_sample(name, "gemini", "gemini-2.5-flash" if name == "budget" else MODEL).body
    for name in REQUESTS
}


def send(sdk: genai.Client, body: Any) -> None:
    """Sends a body through the client."""
    generate(sdk, contents=contents(body), config=config(body))


def check_types(name: str) -> None:
    """Nothing of the body is missing from what the client's types say of it."""
    body = url_safe(BODIES[name])
    said_contents = [
        loads(content.model_dump_json(by_alias=True, exclude_none=True)) for content in contents(body)
    ]
    assert said_contents == body["contents"]
    fields = loads(config(body).model_dump_json(by_alias=True, exclude_none=True))
    assert fields == {
        **(unknown_fields(body, ("contents", "generationConfig")) or {}),
        **body.get("generationConfig", {}),
    }


# ---- what only this client has


def config(body: Any) -> types.GenerateContentConfig:
    """The client's configuration: all of a body but its contents, in one object.

    It refuses fields that it does not know.
    """
    fields = {
        **(unknown_fields(body, ("contents", "generationConfig")) or {}),
        **body.get("generationConfig", {}),
    }
    return types.GenerateContentConfig.model_validate_json(dumps(fields))


def url_safe(body: Any) -> Any:
    """The client writes bytes in the URL-safe alphabet of base64; Google reads both."""
    return loads(dumps(body).replace(PIXEL.encode(), PIXEL.replace("+", "-").replace("/", "_").encode()))


def camel(value: Any) -> Any:
    """The client writes some names in snake case; Google reads both.

    What is data and no name stays as it is.
    """
    if isinstance(value, list):
        return [camel(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    data = ("args", "response", "parameters_json_schema", "responseJsonSchema")
    return {
        to_camel(key): item if key in data else camel(item)
        for key, item in cast(dict[str, Any], value).items()
    }


def contents(body: Any) -> list[types.Content]:
    return [types.Content.model_validate_json(dumps(content)) for content in body["contents"]]


def test_the_client_reads_two_generated_images(client: Client) -> None:
    reply = Reply((Text("Two:"), Media("image", "image/png", PIXEL), Media("image", "image/gif", DOT)))
    record = Recorded("images", reply, list(split_reply(reply)))
    client.reads_body(record)
    client.reads_events(record)


def test_a_model_without_call_ids_gets_none(server: Loopback, sdk: genai.Client) -> None:
    server.say(
        dumps(
            GeminiReplyEncoder("gemini-2.5-flash").encode_reply(
                Reply((ToolCall("call_1", "f", {"a": 1}),), "tools")
            )
        )
    )
    assert read_responses([generate(sdk)]).calls == [("", "f", {"a": 1})]


OWN = Origin("gemini", model=MODEL)
REPLAYED = Reply(
    (
        Thinking("hmm"),
        Thinking("signed", {"thoughtSignature": "c2ln"}),
        Foreign("gemini", {"executableCode": {"language": "PYTHON", "code": "print(1)"}}),
        Text("so", {"thoughtSignature": "dGV4dA=="}),
        ToolCall("x", "f", {"a": 1}, opaque={"id": "fc1", "thoughtSignature": "Y2FsbA=="}),
        ToolCall("y", "g", {}),
    ),
    "tools",
    Usage(3, 4),
    OWN,
    "resp_1",
    {"groundingMetadata": {"webSearchQueries": ["x"]}},
)


@pytest.mark.parametrize("streaming", [False, True], ids=["body", "stream"])
def test_state_of_the_origin_comes_back_whole(streaming: bool, server: Loopback, sdk: genai.Client) -> None:
    """Signatures, ids and code: what a client must send back unchanged.

    A signature may follow its text on an empty part.
    """
    if streaming:
        server.say(stream(GeminiReplyEncoder(MODEL, origin=OWN), split_reply(REPLAYED)), "text/event-stream")
        responses = list(generate_stream(sdk))
    else:
        server.say(dumps(GeminiReplyEncoder(MODEL).encode_reply(REPLAYED)))
        responses = [generate(sdk)]
    parts = [
        part
        for response in responses
        for candidate in response.candidates or []
        for part in (candidate.content and candidate.content.parts) or []
    ]
    assert [part.thought_signature for part in parts if part.thought_signature] == [b"sig", b"text", b"call"]
    assert "".join(part.text or "" for part in parts if part.thought) == "hmmsigned"
    assert [part.executable_code.code for part in parts if part.executable_code] == ["print(1)"]
    assert [(part.function_call.id, part.function_call.name) for part in parts if part.function_call] == [
        ("fc1", "f"),
        (None, "g"),
    ]
    assert {(response.response_id, response.model_version) for response in responses} == {("resp_1", MODEL)}
    grounding = [c.grounding_metadata for r in responses for c in r.candidates or [] if c.grounding_metadata]
    assert [metadata.web_search_queries for metadata in grounding] == [["x"]]


def test_a_blocked_prompt_is_read_as_one(server: Loopback, sdk: genai.Client) -> None:
    reply = Reply((), "filtered", Usage(3), OWN, "resp_1", {"promptFeedback": {"blockReason": "SAFETY"}})
    server.say(dumps(GeminiReplyEncoder(MODEL).encode_reply(reply)))
    responses = [generate(sdk)]
    server.say(stream(GeminiReplyEncoder(MODEL, origin=OWN), split_reply(reply)), "text/event-stream")
    responses += generate_stream(sdk)
    assert [response.candidates for response in responses] == [None, None]
    reasons = [response.prompt_feedback and response.prompt_feedback.block_reason for response in responses]
    assert reasons == [types.BlockedReason.SAFETY] * 2
