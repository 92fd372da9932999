"""The five wires by name, each both ways. A wire's modules are loaded when first asked for."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec

from toolglot.errors import MalformedRequest, UnknownName, WouldLose
from toolglot.messages import Message, Origin
from toolglot.providers.catalog import WIRE_DEFAULTS, resolve
from toolglot.providers.profile import Profile
from toolglot.request import Request
from toolglot.wire.history import legal, visible
from toolglot.wire.offer import claim
from toolglot.wire.reader import Decoder, ReplyReader
from toolglot.wire.shapes import Doc
from toolglot.wire.writer import Encoded, Writer

__all__ = ["WIRES", "RequestEncoder", "decode_request", "encode_request", "reader"]

# wire -> (package, its decoder of replies)
_WIRES = {
    "openai-chat": ("openai_chat", "ChatDecoder"),
    "openai-responses": ("openai_responses", "ResponsesDecoder"),
    "anthropic-messages": ("anthropic", "AnthropicDecoder"),
    "gemini": ("gemini", "GeminiDecoder"),
    "ollama-chat": ("ollama", "OllamaDecoder"),
}
WIRES = tuple(_WIRES)


class RequestEncoder(Protocol):
    """What a wire's `encode` module offers."""

    def hoisted(self, messages: Sequence[Message]) -> int:
        """How many leading messages stand outside of the history."""
        ...

    def varies(self, request: Request, writer: Writer) -> object:
        """What the body around the history depends on in it; None where it does not."""
        ...

    def items(self, message: Message, writer: Writer, where: str) -> list[Doc]:
        """One neutral message as items of the history."""
        ...

    def assemble(self, request: Request, writer: Writer, system: Sequence[Message], items: list[Any]) -> Doc:
        """The body around the items, which come last."""
        ...


@cache
def _module(wire: str, part: str) -> Any:
    if wire not in _WIRES:
        raise UnknownName("wire", wire, WIRES)
    return import_module(f"toolglot.wire.{_WIRES[wire][0]}.{part}")


def request_encoder(wire: str) -> RequestEncoder:
    """The encoder of a wire's requests."""
    return cast(RequestEncoder, _module(wire, "encode"))


def reader(wire: str, *, streaming: bool = True, content_type: str = "", profile: str = "", model: str = "") -> ReplyReader:
    """A reader of one reply of a wire."""
    decoder: type[Decoder] = getattr(_module(wire, "reply"), _WIRES[wire][1])
    return ReplyReader(decoder, Origin(wire, profile, model), streaming=streaming, content_type=content_type)


def encode_request(request: Request, profile: Profile, *, strict: bool = False) -> Encoded:
    """A request as a body that the profile's endpoint accepts. `strict`: a Loss is an error."""
    codec, writer = request_encoder(profile.wire), Writer(profile, request.model)
    claim(request.tools, writer)
    count = codec.hoisted(request.messages)
    stateful = is_stateful(request, profile)
    history = legal(request.messages[count:], writer, stateful=stateful, first=count)
    items = encode_items(history, codec, writer, count)
    body = codec.assemble(request, writer, visible(request.messages[:count], writer, 0), items)
    if not items and stateful:
        body.pop("input", None)
    if strict and writer.losses:
        raise WouldLose(writer.losses)
    return Encoded(body, tuple(writer.losses), tuple(writer.repairs), writer.names, writer.lowered, frozenset(writer.freeform))


def encode_items(history: Sequence[Message], codec: RequestEncoder, writer: Writer, first: int) -> list[Doc]:
    """The items of a legal history."""
    items: list[Doc] = []
    for index, message in enumerate(history):
        for call in message.calls:
            writer.calls[call.id] = call
        items += codec.items(message, writer, f"messages[{first + index}]")
    return items


def is_stateful(request: Request, profile: Profile) -> bool:
    """Whether the provider holds a part of the history (Responses)."""
    own = request.extras.get("openai-responses", {}) if profile.wire == "openai-responses" else {}
    return any(own.get(key) for key in ("previous_response_id", "conversation", "prompt"))


def decode_request(wire: str, body: Any, *, profile: str = "", model: str = "") -> Request:
    """A provider's request body as a Request. Raises MalformedRequest."""
    if not isinstance(body, dict):
        raise MalformedRequest("the request body must be a JSON object")
    decode = _module(wire, "decode").decode
    try:
        request: Request = decode(cast(Doc, body), resolve(profile or WIRE_DEFAULTS[wire], model))
        msgspec.convert(msgspec.to_builtins(request), Request)  # every value has the type it should have
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as e:
        raise MalformedRequest(f"the request body has an unexpected shape: {e!r}") from e
    return request
