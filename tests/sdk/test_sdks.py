"""The official clients read what our codecs write, and our codecs read what the clients write: the same for
all of them.

Each client's module says how it is asked, what it reads of a reply and what it should; it also has the tests
of what only that client has.
"""

from typing import Any

import msgspec
import pytest

from toolglot.common.jsontext import dumps
from toolglot.values.messages import Reply, Usage
from toolglot.wire.codec import decode_request
from toolglot.wire.reply_encoding import split_reply

from . import test_anthropic, test_gemini, test_ollama, test_openai_chat, test_openai_responses
from .loopback import Loopback
from .sample_replies import NAMES, TABLE, Client, Recorded, each_recorded, stream
from .sample_requests import REQUESTS, encode_sample, gist, select_options

pytestmark = pytest.mark.untraced
ADAPTERS: list[Any] = [test_openai_chat, test_openai_responses, test_anthropic, test_gemini, test_ollama]


@pytest.fixture(scope="module", params=ADAPTERS, ids=[adapter.WIRE for adapter in ADAPTERS])
def adapter(request: pytest.FixtureRequest) -> Any:
    """The module of a client."""
    return request.param


# ---- replies


@pytest.mark.parametrize("record", TABLE, ids=NAMES)
def test_the_client_reads_our_body(record: Recorded, client: Client) -> None:
    client.reads_body(record)


@pytest.mark.parametrize("record", TABLE, ids=NAMES)
def test_the_client_reads_our_stream(record: Recorded, client: Client) -> None:
    client.reads_events(record)


@pytest.mark.parametrize("record", TABLE, ids=NAMES)
def test_every_event_has_the_clients_type(record: Recorded, adapter: Any) -> None:
    adapter.CLIENT.reads_events(record)


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("number", range(3), ids=["bodies", "streams", "events"])
def test_recorded_replies_are_read(number: int, share: int, adapter: Any) -> None:
    client: Client = adapter.CLIENT
    each_recorded((client.reads_body, client.reads_stream, client.reads_events)[number], share)


def test_recorded_replies_are_read_over_http(client: Client) -> None:
    each_recorded(client.reads_body, 60)
    each_recorded(client.reads_stream, 61)


# ---- requests


def send(adapter: Any, server: Loopback, sdk: Any, body: Any) -> Any:
    """Send a body through the client; return what arrived."""
    client: Client = adapter.CLIENT
    server.say(dumps(client.answer(client.model).encode_reply(Reply(()))))
    adapter.send(sdk, body)
    assert server.paths == [adapter.PATH]
    return server.body


@pytest.mark.parametrize("name", REQUESTS)
def test_the_clients_types_know_all_of_our_body(name: str, adapter: Any) -> None:
    adapter.check_types(name)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_client_sends_our_body(name: str, adapter: Any, server: Loopback, sdk: Any) -> None:
    body = adapter.BODIES[name]
    arrived = send(adapter, server, sdk, body)
    if adapter is test_gemini:
        arrived, body = test_gemini.camel(arrived), test_gemini.url_safe(body)
    assert arrived == (test_ollama.drop_unknown(body) if adapter is test_ollama else body)


@pytest.mark.parametrize("name", REQUESTS)
def test_what_the_client_sends_decodes_to_the_request(
    name: str, adapter: Any, server: Loopback, sdk: Any
) -> None:
    if name in getattr(adapter, "INEXPRESSIBLE", ()):
        pytest.skip("the wire cannot express it: see the module of the client")
    request, body = REQUESTS[name], adapter.BODIES[name]
    decoded = decode_request(
        adapter.WIRE, send(adapter, server, sdk, body), model=body.get("model", adapter.MODEL)
    )
    mine, theirs, options = gist(decoded), gist(request), request.options
    if adapter is test_ollama:  # results find their calls by name and order, and schemas lose keywords
        mine.tools, theirs.tools = [tool[:2] for tool in mine.tools], [tool[:2] for tool in theirs.tools]
        mine.choice = theirs.choice
    if adapter is test_anthropic:  # a blank stop sequence is refused
        options = msgspec.structs.replace(options, stop=tuple(stop for stop in options.stop if stop.strip()))
    assert mine == theirs
    assert decoded.options == select_options(options, adapter.KEPT)
    assert decoded.model == body.get("model", adapter.MODEL)
    if adapter not in (test_gemini, test_ollama):  # they have no switch for parallel calls
        assert decoded.parallel == request.parallel
    if adapter in (test_gemini, test_anthropic):  # the others have no flag for errors
        errors = [[result.is_error for result in message.results] for message in request.messages]
        assert [[result.is_error for result in message.results] for message in decoded.messages] == errors


@pytest.mark.parametrize("adapter", [test_openai_chat, test_openai_responses, test_anthropic], indirect=True)
def test_the_client_sends_the_stream_flag(adapter: Any, server: Loopback, sdk: Any) -> None:
    client: Client = adapter.CLIENT
    body = encode_sample("user", adapter.WIRE, adapter.MODEL, stream=True).body
    assert body["stream"] is True
    server.say(
        stream(client.answer(client.model), split_reply(Reply((), usage=Usage()))), "text/event-stream"
    )
    adapter.send(sdk, body)
    assert server.body == body
