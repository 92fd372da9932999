"""Append-only encoding: turn n + 1 costs what is new in it, and the bytes sent before stay a prefix of the body.

A turn is closed when all its calls have results; it is repaired and encoded once, and never touched again. The head of the body
(model, tools, options, instructions) is encoded once and again only where it changes, which starts a new prefix.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from toolglot.jsontext import dumps
from toolglot.losses import Loss, Repair
from toolglot.messages import Message
from toolglot.providers.profile import Profile
from toolglot.request import Request
from toolglot.schema.lowering_result import LoweredSchema
from toolglot.wire.codec import encode_messages, encode_request, is_stateful, load_request_encoder
from toolglot.wire.history import filter_visible
from toolglot.wire.repair import HistoryRepairer, is_turn_closed, split_turns
from toolglot.wire.tool_encoding import reserve_names
from toolglot.wire.writer import Writer

__all__ = ["EncodedBody", "HeadCache", "PrefixEncoder"]


class EncodedBody(msgspec.Struct, frozen=True, gc=False):
    """A request as the bytes of a body. `closed`: so many of them are the start of the next body too."""

    body: bytes
    prefix_length: int
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    names: dict[str, tuple[str, str]] = {}
    lowerings: dict[str, LoweredSchema] = {}
    freeform: frozenset[str] = frozenset()


class HeadCache:
    """The head that was made last for a target, shared by the conversations that begin alike."""

    def __init__(self) -> None:
        self.request: Request | None = None
        self.system: Sequence[Message] = ()
        self.head_key: object = None
        self.writer: Writer | None = None
        self.head = b""

    def matches(self, request: Request, system: Sequence[Message], head_key: object) -> bool:
        """Whether it is the head of this request."""
        return self.writer is not None and head_key == self.head_key and request == self.request and system == self.system


class PrefixEncoder:
    """Encodes the requests of one conversation for one target, one after another.

    `heads`: shared with the encoders of other conversations for the same target, so that tools are lowered once.
    """

    def __init__(self, profile: Profile, head_cache: HeadCache | None = None) -> None:
        self._profile = profile
        self._head_cache = head_cache or HeadCache()
        self._encoder = load_request_encoder(profile.wire)
        self._reset(None)

    def _reset(self, messages: Sequence[Message] | None) -> None:
        self._messages = messages
        self._writer = Writer(self._profile)
        self._leading_count = 0
        self._head_key: object = None
        self._repairer: HistoryRepairer | None = None
        self._closed_count = 0  # messages in closed turns
        self._closed_items = bytearray()  # their encoding, with a comma after each item
        self._request: Request | None = None
        self._head = b""

    def encode(self, request: Request) -> EncodedBody:
        """The body of a request. A conversation that is the same object, or starts with the same messages, keeps its prefix."""
        if not self._can_extend(request):
            self._reset(request.messages)
            self._start_prefix(request)
        self._close_turns(request)
        assert self._repairer is not None
        if (
            self._closed_count == len(request.messages) and self._repairer.awaits_model
        ):  # the next turn of a tool loop: nothing is open
            tail_writer, tail, mended = self._writer, b"", self._repairer.repairs
        else:
            tail_writer = self._writer.copy()
            tail, mended = self._encode_tail(request, tail_writer)
        if self._closed_items or tail:
            *parts, last = [part for part in (self._head, self._closed_items, tail) if part]
            body = b"".join((*parts, memoryview(last)[: len(last) - (last[-1:] == b",")], b"]}"))
        else:  # nothing but what the provider holds
            body = dumps(encode_request(request, self._profile).body)
        return EncodedBody(
            body,
            len(self._head) + len(self._closed_items) - 1 if self._closed_items or tail else 0,
            tuple(tail_writer.losses),
            (*tail_writer.repairs, *mended),
            tail_writer.names,
            tail_writer.lowerings,
            frozenset(tail_writer.freeform),
        )

    def _can_extend(self, request: Request) -> bool:
        before = self._request
        if before is None or self._messages is None:
            return False
        if replace(request, messages=()) != replace(before, messages=()):
            return False
        messages = request.messages
        if len(messages) < self._closed_count or self._encoder.leading_count(messages) != self._leading_count:
            return False
        if self._encoder.head_key(request, self._writer) != self._head_key:
            return False
        if messages is not self._messages:
            same = all(one is other for one, other in zip(messages[: self._closed_count], self._messages, strict=False))
            self._messages = messages
            return same
        return True

    def _start_prefix(self, request: Request) -> None:
        """The head, and everything about it that the history needs to know."""
        count = self._leading_count = self._encoder.leading_count(request.messages)
        self._request, self._closed_count = replace(request, messages=()), count
        self._repairer = HistoryRepairer(self._profile.history, stateful=is_stateful(request, self._profile))
        writer, heads, system = Writer(self._profile, request.model), self._head_cache, request.messages[:count]
        self._head_key = self._encoder.head_key(request, writer)
        if not heads.matches(self._request, system, self._head_key):
            reserve_names(request.tools, writer)
            body = self._encoder.encode_body(request, writer, filter_visible(system, writer, 0), [])
            head = dumps(body)[:-2]
            heads.request, heads.system, heads.head_key = self._request, system, self._head_key
            heads.writer, heads.head = writer, head if head[-1:] == b"[" else head + b","
        assert heads.writer is not None
        self._writer, self._head = heads.writer.copy(), heads.head

    def _close_turns(self, request: Request) -> None:
        assert self._repairer is not None
        for turn in split_turns(request.messages, self._closed_count):
            messages = request.messages[turn.start : turn.stop]
            if turn.stop == len(request.messages) and not self._is_turn_closed(messages):
                break
            self._closed_items += self._encode_items(
                self._repairer.repair_turn(filter_visible(messages, self._writer, turn.start), turn.start),
                self._writer,
                turn.start,
            )
            self._closed_count = turn.stop

    def _is_turn_closed(self, messages: Sequence[Message]) -> bool:
        """An answer that the caller has begun is not over where it is trimmed for the target."""
        begun = messages[-1].role == "assistant" and self._profile.history.plain_prefill
        return not begun and is_turn_closed(messages)

    def _encode_tail(self, request: Request, writer: Writer) -> tuple[bytes, list[Repair]]:
        """What is not closed, and what was mended in all."""
        assert self._repairer is not None
        mender = self._repairer.copy()
        messages = request.messages[self._closed_count :]
        history = (
            mender.repair_turn(filter_visible(messages, writer, self._closed_count), self._closed_count) if messages else []
        )
        return self._encode_items(mender.repair_ending(history), writer, self._closed_count), mender.repairs

    def _encode_items(self, history: Sequence[Message], writer: Writer, first: int) -> bytes:
        return b"".join(dumps(item) + b"," for item in encode_messages(history, self._encoder, writer, first))
