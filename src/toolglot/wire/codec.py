"""Encoding and decoding by the name of a wire. A wire's modules are imported when they are first needed."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from toolglot.common.plugins import plugin_error
from toolglot.errors import LossyEncoding, MalformedRequest, UnknownName, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.definitions import Schema
from toolglot.values.messages import Message, Origin, Text
from toolglot.values.request import Request
from toolglot.wire.cache_marks import count_head_marks, count_marks, lift_marks, report_lost_marks
from toolglot.wire.history import filter_visible, prepare_history
from toolglot.wire.json_values import Doc
from toolglot.wire.reader import ReplyDecoder, ReplyReader
from toolglot.wire.repair import START_TEXT
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.spec import SPECS, WIRES
from toolglot.wire.tool_encoding import reserve_names
from toolglot.wire.tools_over_time import find_changes, plan_tools
from toolglot.wire.tracker import ToolCallTracker
from toolglot.wire.writer import EncodedRequest, Writer


class RequestEncoder(NamedTuple):
    """The functions of a wire's `request_encode` module, of which the last three are optional."""

    encode_message: Callable[[Message, Writer], list[Doc]]
    """Encodes one neutral message as items of the history."""
    encode_body: Callable[[Request, Writer, Sequence[Message], list[Any]], Doc]
    """Encodes the body around the items, which come last. The messages are those that `leading_count` left
    out."""
    leading_count: Callable[[Sequence[Message]], int] = lambda messages: 0
    """Returns how many leading system messages are sent outside of the history."""
    head_key: Callable[[Request, Writer], object] = lambda request, writer: None
    """Returns what the body around the history depends on in the history."""
    encode_end: Callable[[Writer], list[Doc]] = lambda writer: []
    """Encodes what must stand at the end of the history for now."""


@cache
def _load(wire: str, module: str, suffix: str = "") -> Any:
    try:
        spec = SPECS[wire]
    except KeyError:
        raise UnknownName("wire", wire, WIRES) from None
    try:
        loaded = import_module(f"{spec.package}.{module}")
        return getattr(loaded, spec.class_prefix + suffix) if suffix else loaded
    except (ImportError, AttributeError) as e:
        if wire in WIRES:
            raise
        raise plugin_error("wires", wire, f"cannot be loaded: {e}") from e


@cache
def load_request_encoder(wire: str) -> RequestEncoder:
    """Return the functions that encode requests of a wire."""
    functions = cast(Doc, vars(_load(wire, "request_encode")))
    return RequestEncoder(**{name: functions[name] for name in RequestEncoder._fields if name in functions})


def load_reply_encoder(wire: str) -> type[ReplyEncoder]:
    """Return the class that encodes replies of a wire."""
    return _load(wire, "reply_encode", "ReplyEncoder")


def create_reader(
    wire: str,
    *,
    streaming: bool = True,
    content_type: str = "",
    profile: str = "",
    model: str = "",
    id_seed: str = "",
    text_calls: Mapping[str, Schema] | None = None,
    bare_calls: bool = True,
    wants_call_events: bool = True,
) -> ReplyReader:
    """Create a reader for one reply of a wire.

    `id_seed`: calls without an id get one that depends on this and on their content. It should differ from
    turn to turn.
    `text_calls`: tools (name on the wire -> schema) whose calls the server may leave in the text; they are
    read from it.
    `bare_calls`: also calls without any mark, such as a JSON object. False if the reply itself is to be JSON.
    `wants_call_events`: False if nobody looks at the events of calls, but only at the reply: they may be
    missing then.
    """
    decoder: type[ReplyDecoder] = _load(wire, "reply_decode", "ReplyDecoder")
    tracker = ToolCallTracker(Origin(wire, profile, model), id_seed, wants_call_events=wants_call_events)
    if text_calls:
        from toolglot.wire.text_calls.tracker import TextCallTracker

        tracker = TextCallTracker(tracker.origin, id_seed, text_calls, bare=bare_calls)
    return ReplyReader(decoder, tracker, streaming=streaming, content_type=content_type)


def encode_request(request: Request, profile: Profile, *, strict: bool = False) -> EncodedRequest:
    """Encode a request as a body that the profile's endpoint accepts.

    With `strict`, any `Loss` raises LossyEncoding.
    """
    request = request if request.model else replace(request, model=profile.model)
    encoder = load_request_encoder(profile.wire)
    writer = Writer(profile, request.model)
    count = writer.leading_count = encoder.leading_count(request.messages)
    writer.plan = plan_tools(request, find_changes(request.messages, count), writer)
    request = replace(request, tools=writer.plan.head)
    writer.mark_count = count_head_marks(request, count, writer)
    reserve_names(writer.plan.head, writer)
    reserve_names(writer.plan.inline.values(), writer)
    stateful = is_stateful(request, profile)
    history = prepare_history(request.messages[count:], writer, stateful=stateful, first=count)
    items = encode_messages(history, encoder, writer, count)
    items += encoder.encode_end(writer)
    if not items and not stateful:  # nothing of the history can be sent: reasoning without what followed it
        writer.record_repair("user message", "added, because there must be one", at="messages[0]")
        items = encoder.encode_message(Message("user", (Text(START_TEXT),)), writer)
    body = encoder.encode_body(request, writer, filter_visible(request.messages[:count], writer, 0), items)
    if not items and stateful:
        body.pop("input", None)  # the provider continues from what it stores; there is nothing to add
    if strict and writer.losses:
        raise LossyEncoding(writer.losses)
    return writer.finish(body)


def encode_messages(
    history: Sequence[Message], encoder: RequestEncoder, writer: Writer, first: int
) -> list[Doc]:
    """Encode a legal history. `first` is the index of its first message in the conversation."""
    items: list[Doc] = []
    for index, message in enumerate(history, first):
        for call in message.calls:
            writer.calls[call.id] = call  # a result is encoded by the call that it answers
        writer.enter(f"messages[{index}]", message.origin)
        first_loss = len(writer.losses)
        encoded = encoder.encode_message(message, writer)
        if mark_count := count_marks(message.blocks):
            report_lost_marks(mark_count, encoded, writer, first_loss)
        items += encoded
    return items


def is_stateful(request: Request, profile: Profile) -> bool:
    """Return whether the provider supplies a part of the history itself."""
    extras = request.extras.get(profile.wire, {})
    return any(extras.get(key) for key in SPECS[profile.wire].stateful_extras)


def decode_request(wire: str, body: Any, *, profile: str = "", model: str = "") -> Request:
    """Decode a provider's request body. Raises MalformedRequest."""
    if not isinstance(body, dict):
        raise MalformedRequest("the request body must be a JSON object")
    decode = _load(wire, "request_decode").decode
    resolved = resolve_profile(profile or SPECS[wire].default_profile, model)
    try:
        request: Request = lift_marks(decode(cast(Doc, body), resolved))
        # Decoders copy values without looking at their types; a client may have sent anything.
        msgspec.convert(msgspec.to_builtins(request), Request)
    except UsageError as e:
        raise MalformedRequest(f"the request body has an invalid value: {e}") from None
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as e:
        raise MalformedRequest(f"the request body has an unexpected shape: {e!r}") from e
    return request
