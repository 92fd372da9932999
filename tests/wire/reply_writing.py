"""How the tests of this folder write replies as a provider would, and read them again."""

from collections.abc import Iterable

import pytest
from reply_reading import read_pieces

from toolglot.common.jsontext import dumps
from toolglot.values.events import Event
from toolglot.values.messages import Origin, Reply
from toolglot.wire.codec import load_reply_encoder
from toolglot.wire.reply_encoding import ReplyEncoder, split_reply

MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5",
    "anthropic-messages": "claude-opus-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama-chat": "qwen3",
}
each_wire = pytest.mark.parametrize("wire", MODELS)
each_way = pytest.mark.parametrize("streaming", [False, True], ids=["body", "stream"])


def make_encoder(wire: str, origin: Origin | None = None) -> ReplyEncoder:
    return load_reply_encoder(wire)(MODELS[wire], origin=origin)


def write(wire: str, reply: Reply, *, streaming: bool, piece_size: int = 24) -> tuple[bytes, ReplyEncoder]:
    """Encode a reply; also return the encoder, which has the losses."""
    encoder = make_encoder(wire, reply.origin)
    if streaming:
        return b"".join(map(encoder.feed, split_reply(reply, piece_size))), encoder
    return dumps(encoder.encode_reply(reply)), encoder


def read(wire: str, data: bytes, *, streaming: bool = True) -> Reply:
    return read_pieces(wire, [data], streaming=streaming).reply


def write_events(wire: str, events: Iterable[Event]) -> Reply:
    """Encode events one by one, and read the stream again."""
    return read(wire, b"".join(map(make_encoder(wire).feed, events)))


def write_and_read(wire: str, reply: Reply, *, streaming: bool, piece_size: int = 24) -> Reply:
    return read(wire, write(wire, reply, streaming=streaming, piece_size=piece_size)[0], streaming=streaming)
