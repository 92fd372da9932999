"""The five wires by name, each both ways. A wire's modules are loaded when first asked for."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

import msgspec

from toolglot.errors import LossyEncoding, MalformedRequest, UnknownName
from toolglot.messages import Message, Origin
from toolglot.providers.catalog import WIRE_DEFAULTS, resolve_profile
from toolglot.providers.profile import Profile
from toolglot.request import Request
from toolglot.wire.history import filter_visible, prepare_history
from toolglot.wire.json_values import Doc
from toolglot.wire.reader import ReplyDecoder, ReplyReader
from toolglot.wire.tool_encoding import reserve_names
from toolglot.wire.writer import EncodedRequest, Writer

__all__ = ["WIRES", "RequestEncoder", "create_reader", "decode_request", "encode_request"]

# wire -> (package, its decoder of replies)
_WIRES = {
    "openai-chat": ("openai_chat", "ChatReplyDecoder"),
    "openai-responses": ("openai_responses", "ResponsesReplyDecoder"),
    "anthropic-messages": ("anthropic", "AnthropicReplyDecoder"),
    "gemini": ("gemini", "GeminiReplyDecoder"),
    "ollama-chat": ("ollama", "OllamaReplyDecoder"),
}
WIRES = tuple(_WIRES)


class RequestEncoder(Protocol):
    """What a wire's `encode` module offers."""

    def leading_count(self, messages: Sequence[Message]) -> int:
        """How many leading messages stand outside of the history."""
        ...

    def head_key(self, request: Request, writer: Writer) -> object:
        """What the body around the history depends on in it; None where it does not."""
        ...

    def encode_message(self, message: Message, writer: Writer, where: str) -> list[Doc]:
        """One neutral message as items of the history."""
        ...

    def encode_body(self, request: Request, writer: Writer, system: Sequence[Message], items: list[Any]) -> Doc:
        """The body around the items, which come last."""
        ...


@cache
def _load_module(wire: str, part: str) -> Any:
    if wire not in _WIRES:
        raise UnknownName("wire", wire, WIRES)
    return import_module(f"toolglot.wire.{_WIRES[wire][0]}.{part}")


def load_request_encoder(wire: str) -> RequestEncoder:
    """The encoder of a wire's requests."""
    return cast(RequestEncoder, _load_module(wire, "request_encode"))


def create_reader(
    wire: str, *, streaming: bool = True, content_type: str = "", profile: str = "", model: str = ""
) -> ReplyReader:
    """A reader of one reply of a wire."""
    decoder: type[ReplyDecoder] = getattr(_load_module(wire, "reply_decode"), _WIRES[wire][1])
    return ReplyReader(decoder, Origin(wire, profile, model), streaming=streaming, content_type=content_type)


def encode_request(request: Request, profile: Profile, *, strict: bool = False) -> EncodedRequest:
    """A request as a body that the profile's endpoint accepts. `strict`: a Loss is an error."""
    codec, writer = load_request_encoder(profile.wire), Writer(profile, request.model)
    reserve_names(request.tools, writer)
    count = codec.leading_count(request.messages)
    stateful = is_stateful(request, profile)
    history = prepare_history(request.messages[count:], writer, stateful=stateful, first=count)
    items = encode_messages(history, codec, writer, count)
    body = codec.encode_body(request, writer, filter_visible(request.messages[:count], writer, 0), items)
    if not items and stateful:
        body.pop("input", None)
    if strict and writer.losses:
        raise LossyEncoding(writer.losses)
    return EncodedRequest(
        body, tuple(writer.losses), tuple(writer.repairs), writer.names, writer.lowerings, frozenset(writer.freeform)
    )


def encode_messages(history: Sequence[Message], encoder: RequestEncoder, writer: Writer, first: int) -> list[Doc]:
    """The items of a legal history."""
    items: list[Doc] = []
    for index, message in enumerate(history):
        for call in message.calls:
            writer.calls[call.id] = call
        items += encoder.encode_message(message, writer, f"messages[{first + index}]")
    return items


def is_stateful(request: Request, profile: Profile) -> bool:
    """Whether the provider holds a part of the history (Responses)."""
    own = request.extras.get("openai-responses", {}) if profile.wire == "openai-responses" else {}
    return any(own.get(key) for key in ("previous_response_id", "conversation", "prompt"))


def decode_request(wire: str, body: Any, *, profile: str = "", model: str = "") -> Request:
    """A provider's request body as a Request. Raises MalformedRequest."""
    if not isinstance(body, dict):
        raise MalformedRequest("the request body must be a JSON object")
    decode = _load_module(wire, "request_decode").decode
    try:
        request: Request = decode(cast(Doc, body), resolve_profile(profile or WIRE_DEFAULTS[wire], model))
        msgspec.convert(msgspec.to_builtins(request), Request)  # every value has the type it should have
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as e:
        raise MalformedRequest(f"the request body has an unexpected shape: {e!r}") from e
    return request
