"""The official `openai` client reads what our Chat Completions codec writes, and the codec reads what the
client writes.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter

from toolglot.common.jsontext import dumps, loads
from toolglot.values.messages import Media, Reply, StopReason, Usage
from toolglot.wire.openai_chat.reply_encode import ChatReplyEncoder
from toolglot.wire.reply_encoding import split_reply

from .loopback import Loopback
from .sample_replies import DOT, PIXEL, Client, Seen, is_marked, parse_arguments, sse_data, stream, to_seen
from .sample_requests import REQUESTS, encode_sample, exhaust

WIRE = "openai-chat"
MODEL = "gpt-4.1"
STOPS: dict[StopReason, str] = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "filtered": "content_filter",
}

# ---- what the client reads


def read_completion(completion: ChatCompletion) -> Seen:
    (choice,) = completion.choices
    message, extra = choice.message, choice.message.model_extra or {}
    usage = completion.usage
    assert usage is not None
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    assert prompt is not None
    assert output is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    images: list[Any] = extra.get("images") or []
    refused = message.refusal and choice.finish_reason == "stop"
    return Seen(
        text=(message.content or "") + (message.refusal or ""),
        thinking=next(
            (
                extra[field]
                for field in ("reasoning_content", "reasoning", "reasoning_text")
                if field in extra
            ),
            "",
        ),
        calls=[_call(call.model_dump()) for call in message.tool_calls or []],
        stop="refusal" if refused else choice.finish_reason,
        usage=Usage(
            usage.prompt_tokens,
            usage.completion_tokens,
            prompt.cached_tokens or 0,
            prompt.cache_write_tokens or 0,
            output.reasoning_tokens or 0,
        ),
        media=[image["image_url"]["url"].partition(",")[2] for image in images],
    )


def expect(reply: Reply) -> Seen:
    """There is no finish reason for a refusal: only the text that is one says so."""
    return to_seen(reply, {**STOPS, "refusal": "refusal"} if is_marked(reply) else STOPS)


def _call(call: Any) -> tuple[str, str, Any]:
    if call["type"] == "custom":
        return call["id"], call["custom"]["name"], call["custom"]["input"]
    return call["id"], call["function"]["name"], parse_arguments(call["function"]["arguments"])


def assemble(chunks: Iterable[ChatCompletionChunk]) -> Seen:
    """The client's own assembly of a stream.

    Its last step (`get_final_completion`) does not know custom tools yet.
    """
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    return read_completion(state.current_completion_snapshot)


def _in_process(data: bytes) -> Seen:
    documents = [loads(text) for text in sse_data(data)]
    for document in documents:
        if b'"custom"' not in data:  # the client's type of a chunk does not know custom tools yet
            ChatCompletionChunk.model_validate(document)
    return assemble(ChatCompletionChunk.construct(**document) for document in documents)


CLIENT = Client(
    "openai-chat",
    MODEL,
    ChatReplyEncoder,
    expect=expect,
    body=lambda data: read_completion(ChatCompletion.model_validate_json(data)),
    stream=_in_process,
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
        return read_completion(sdk.chat.completions.create(model=MODEL, messages=[]))

    def streaming(data: bytes) -> Seen:
        server.say(data, "text/event-stream")
        return assemble(sdk.chat.completions.create(model=MODEL, messages=[], stream=True))

    return Client("openai-chat", MODEL, ChatReplyEncoder, CLIENT.expect, body, streaming)


# ---- requests

PATH = "/chat/completions"
KEPT = {
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "effort",
}
PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)
BODIES = {
    name: encode_sample(name, "openai-chat", "gpt-5" if name == "effort" else MODEL).body for name in REQUESTS
}


def send(sdk: openai.OpenAI, fields: Any) -> None:
    """Sends a body through the client."""
    cast(Any, sdk.chat.completions.create)(**fields)


def check_types(name: str) -> None:
    """A field that the client's types do not know would be missing from what they return."""
    assert exhaust(PARAMS.validate_python(BODIES[name])) == BODIES[name]


# ---- what only this client has


def test_the_client_reads_id_model_and_time(server: Loopback, sdk: openai.OpenAI) -> None:
    server.say(dumps(ChatReplyEncoder(MODEL, created=7).encode_reply(Reply((), id="chatcmpl-1"))))
    body = sdk.chat.completions.create(model=MODEL, messages=[])
    assert (body.id, body.model, body.created) == ("chatcmpl-1", MODEL, 7)
    server.say(
        stream(ChatReplyEncoder(MODEL, created=7), split_reply(Reply((), id="chatcmpl-1"))),
        "text/event-stream",
    )
    chunks = list(sdk.chat.completions.create(model=MODEL, messages=[], stream=True))
    assert {(chunk.id, chunk.model, chunk.created) for chunk in chunks} == {("chatcmpl-1", MODEL, 7)}


def test_the_client_reads_two_generated_images(server: Loopback, sdk: openai.OpenAI) -> None:
    """OpenRouter's form.

    The chunks are joined here: the client's own assembly asks for an index in every list.
    """
    reply = Reply((Media("image", "image/png", PIXEL), Media("image", "image/gif", DOT)))
    server.say(dumps(ChatReplyEncoder(MODEL).encode_reply(reply)))
    assert read_completion(sdk.chat.completions.create(model=MODEL, messages=[])).media == [PIXEL, DOT]
    server.say(stream(ChatReplyEncoder(MODEL), split_reply(reply)), "text/event-stream")
    images: list[Any] = []
    for chunk in sdk.chat.completions.create(model=MODEL, messages=[], stream=True):
        for choice in chunk.choices:
            images += (choice.delta.model_extra or {}).get("images") or []
    assert [image["image_url"]["url"] for image in images] == [
        f"data:image/png;base64,{PIXEL}",
        f"data:image/gif;base64,{DOT}",
    ]
