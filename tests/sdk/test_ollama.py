"""The official `ollama` client reads what our Ollama codec writes, and the codec reads what the client
writes.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import ollama
import pytest
from ollama._types import ChatRequest

from toolglot.common.jsontext import dumps
from toolglot.values.messages import Media, Reply, StopReason, Text, Usage
from toolglot.wire.ollama.reply_encode import OllamaReplyEncoder
from toolglot.wire.reply_encoding import split_reply

from .loopback import Loopback
from .sample_replies import PIXEL, Client, Seen, as_objects, stream, to_seen
from .sample_requests import REQUESTS, encode_sample

WIRE = "ollama-chat"
MODEL = "qwen3"
STOPS: dict[StopReason, str] = {"end": "stop", "tools": "stop", "length": "length"}

# ---- what the client reads


def read_responses(responses: Iterable[ollama.ChatResponse]) -> Seen:
    """A whole response is a stream of one. The client does not read the ids of calls."""
    seen = Seen("", "", [], "", Usage())
    for response in responses:
        message = response.message
        assert (response.model, message.role) == (response.model, "assistant")
        seen.text += message.content or ""
        seen.thinking += message.thinking or ""
        seen.calls += [("", call.function.name, call.function.arguments) for call in message.tool_calls or []]
        seen.media += [cast(str, image.value) for image in message.images or []]
        if response.done:
            seen.stop = response.done_reason or ""
            seen.usage = Usage(response.prompt_eval_count or 0, response.eval_count or 0)
    return seen


def expect(reply: Reply) -> Seen:
    """There are no counts of cached, written or reasoning tokens."""
    seen = as_objects(reply, to_seen(reply, STOPS))
    seen.calls = [("", name, arguments) for _, name, arguments in seen.calls]
    seen.usage = Usage(reply.usage.input, reply.usage.output)
    return seen


def _stream_in_process(data: bytes) -> Seen:
    return read_responses(ollama.ChatResponse.model_validate_json(line) for line in data.splitlines())


CLIENT = Client(
    "ollama",
    MODEL,
    OllamaReplyEncoder,
    expect=expect,
    body=lambda data: read_responses([ollama.ChatResponse.model_validate_json(data)]),
    stream=_stream_in_process,
)


@contextmanager
def connect(url: str) -> Generator[ollama.Client]:
    client = ollama.Client(host=url, trust_env=False)
    yield client
    cast(Any, client)._client.close()  # the client itself offers no way to close it


def chat(sdk: ollama.Client, **fields: Any) -> Any:
    return cast(Any, sdk).chat(**{"model": MODEL, "messages": [], **fields})


def live_client(server: Loopback, sdk: ollama.Client) -> Client:
    """A client that reads over HTTP."""

    def body(data: bytes) -> Seen:
        server.say(data)
        return read_responses([chat(sdk)])

    def streaming(data: bytes) -> Seen:
        server.say(data, "application/x-ndjson")
        return read_responses(chat(sdk, stream=True))

    return Client("ollama", MODEL, OllamaReplyEncoder, expect, body, streaming)


# ---- requests

PATH = "/api/chat"
KEPT = {
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "effort",
}
BODIES = {name: encode_sample(name, "ollama-chat", MODEL).body for name in REQUESTS}
# There is no choice of tools: they are left out or the model is asked, in words.
INEXPRESSIBLE = ("choice-none", "choice-required", "choice-named", "choice-subset")


def send(sdk: ollama.Client, fields: Any) -> None:
    """Sends a body through the client."""
    chat(sdk, **fields)


def check_types(name: str) -> None:
    body = BODIES[name]
    assert ChatRequest.model_validate(body).model_dump(exclude_none=True)["messages"] == body["messages"]
    messages = [ollama.Message.model_validate({**message, "images": None}) for message in body["messages"]]
    assert [message.role for message in messages] == [message["role"] for message in body["messages"]]
    assert ollama.Options.model_validate(body.get("options", {})).model_dump(exclude_none=True) == body.get(
        "options", {}
    )


# ---- what only this client has


def drop_unknown(body: Any) -> Any:
    """The body as far as the client knows the API: no ids of calls, `content` only where there is some."""
    messages: list[Any] = []
    for message in body["messages"]:
        shown = {key: value for key, value in message.items() if value and key != "tool_call_id"}
        if "tool_calls" in shown:
            shown["tool_calls"] = [{"function": call["function"]} for call in shown["tool_calls"]]
        messages.append(shown)
    tools = [
        {**tool, "function": {**tool["function"], "parameters": _drop_unknown_keywords(tool)}}
        for tool in body.get("tools", [])
    ]
    return {"stream": False, **body, "messages": messages, "tools": tools}


def _drop_unknown_keywords(tool: Any) -> Any:
    """Of a schema the client knows these words and no more."""
    schema = tool["function"]["parameters"]
    return {
        key: value
        for key, value in schema.items()
        if key in ("type", "$defs", "items", "required", "properties")
    }


def test_the_client_reads_model_and_time(server: Loopback, sdk: ollama.Client) -> None:
    server.say(dumps(OllamaReplyEncoder(MODEL, created=86_400).encode_reply(Reply(()))))
    response = chat(sdk)
    assert (response.model, response.created_at) == (MODEL, "1970-01-02T00:00:00+00:00")


@pytest.mark.parametrize("streaming", [False, True], ids=["body", "stream"])
def test_an_image_does_not_cost_the_client_the_reply(streaming: bool, client: Client) -> None:
    """The client dies of images in an answer (its `Image` takes no plain text): they are lost, and said to
    be.
    """
    reply = Reply((Text("Here: "), Media("image", "image/png", PIXEL), Text("nice?")))
    answer = OllamaReplyEncoder(MODEL)
    data = stream(answer, split_reply(reply)) if streaming else dumps(answer.encode_reply(reply))
    assert (client.stream if streaming else client.body)(data).text == "Here: nice?"
    assert [loss.subject for loss in answer.losses] == ["image"]
