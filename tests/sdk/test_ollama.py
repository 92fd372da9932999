"""The official `ollama` client reads what our Ollama codec writes, and the codec reads what the client writes."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import ollama
import pytest

from toolglot.jsontext import dumps
from toolglot.messages import Media, Reply, Stop, Text, Usage
from toolglot.wire.answer import events_of
from toolglot.wire.ollama.answer import OllamaAnswer

from .replies import NAMES, PIXEL, TABLE, Client, Recorded, Seen, as_objects, each_recorded, said, stream
from .server import Loopback

MODEL = "qwen3"
STOPS: dict[Stop, str] = {"end": "stop", "tools": "stop", "length": "length"}

# ---- what the client reads


def seen(responses: Iterable[ollama.ChatResponse]) -> Seen:
    """A whole response is a stream of one. The client does not read the ids of calls."""
    found = Seen("", "", [], "", Usage())
    for response in responses:
        message = response.message
        assert (response.model, message.role) == (response.model, "assistant")
        found.text += message.content or ""
        found.thinking += message.thinking or ""
        found.calls += [("", call.function.name, call.function.arguments) for call in message.tool_calls or []]
        found.media += [cast(str, image.value) for image in message.images or []]
        if response.done:
            found.stop = response.done_reason or ""
            found.usage = Usage(response.prompt_eval_count or 0, response.eval_count or 0)
    return found


def expected(reply: Reply) -> Seen:
    """There are no counts of cached, written or reasoning tokens."""
    found = as_objects(reply, said(reply, STOPS))
    found.calls = [("", name, arguments) for _, name, arguments in found.calls]
    found.usage = Usage(reply.usage.input, reply.usage.output)
    return found


def _stream_in_process(data: bytes) -> Seen:
    return seen(ollama.ChatResponse.model_validate_json(line) for line in data.splitlines())


CLIENT = Client(
    "ollama",
    MODEL,
    OllamaAnswer,
    said=expected,
    body=lambda data: seen([ollama.ChatResponse.model_validate_json(data)]),
    stream=_stream_in_process,
)


@pytest.fixture(scope="module")
def sdk(server: Loopback) -> Iterator[ollama.Client]:
    client = ollama.Client(host=server.url, trust_env=False)
    yield client
    cast(Any, client)._client.close()  # the client itself offers no way to close it


@pytest.fixture(scope="module")
def client(server: Loopback, sdk: ollama.Client) -> Client:
    def body(data: bytes) -> Seen:
        server.say(data)
        return seen([sdk.chat(MODEL, [])])

    def streaming(data: bytes) -> Seen:
        server.say(data, "application/x-ndjson")
        return seen(sdk.chat(MODEL, [], stream=True))

    return Client("ollama", MODEL, OllamaAnswer, expected, body, streaming)


# ---- replies


@pytest.mark.parametrize("record", TABLE, ids=NAMES)
def test_the_client_reads_our_body(record: Recorded, client: Client) -> None:
    client.reads_body(record)


@pytest.mark.parametrize("record", TABLE, ids=NAMES)
def test_the_client_reads_our_stream(record: Recorded, client: Client) -> None:
    client.reads_events(record)


def test_the_client_reads_model_and_time(server: Loopback, sdk: ollama.Client) -> None:
    server.say(dumps(OllamaAnswer(MODEL, created=86_400).body(Reply(()))))
    response = sdk.chat(MODEL, [])
    assert (response.model, response.created_at) == (MODEL, "1970-01-02T00:00:00+00:00")


@pytest.mark.parametrize("streaming", [False, True], ids=["body", "stream"])
def test_an_image_does_not_cost_the_client_the_reply(streaming: bool, client: Client) -> None:
    """The client dies of images in an answer (its `Image` takes no plain text): they are lost, and said to be."""
    reply = Reply((Text("Here: "), Media("image", "image/png", PIXEL), Text("nice?")))
    answer = OllamaAnswer(MODEL)
    data = stream(answer, events_of(reply)) if streaming else dumps(answer.body(reply))
    assert (client.stream if streaming else client.body)(data).text == "Here: nice?"
    assert [loss.what for loss in answer.losses] == ["image"]


@pytest.mark.parametrize(("read", "every"), [("reads_body", 1), ("reads_stream", 1), ("reads_events", 3)])
def test_every_recorded_reply_is_read(read: str, every: int) -> None:
    each_recorded(getattr(CLIENT, read), every)


def test_recorded_replies_are_read_over_http(client: Client) -> None:
    each_recorded(client.reads_body, 60)
    each_recorded(client.reads_stream, 61)
