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
from toolglot.schema.lower import Lowered
from toolglot.wire.codec import encode_items, encode_request, is_stateful, request_encoder
from toolglot.wire.history import visible
from toolglot.wire.offer import claim
from toolglot.wire.repair import Mender, is_closed, turns
from toolglot.wire.writer import Writer

__all__ = ["EncodedBody", "Heads", "PrefixEncoder"]


class EncodedBody(msgspec.Struct, frozen=True, gc=False):
    """A request as the bytes of a body. `closed`: so many of them are the start of the next body too."""

    body: bytes
    closed: int
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    names: dict[str, tuple[str, str]] = {}
    lowered: dict[str, Lowered] = {}
    freeform: frozenset[str] = frozenset()


class Heads:
    """The head that was made last for a target, shared by the conversations that begin alike."""

    def __init__(self) -> None:
        self.request: Request | None = None
        self.system: Sequence[Message] = ()
        self.varies: object = None
        self.writer: Writer | None = None
        self.head = b""

    def holds(self, request: Request, system: Sequence[Message], varies: object) -> bool:
        """Whether it is the head of this request."""
        return self.writer is not None and varies == self.varies and request == self.request and system == self.system


class PrefixEncoder:
    """Encodes the requests of one conversation for one target, one after another.

    `heads`: shared with the encoders of other conversations for the same target, so that tools are lowered once.
    """

    def __init__(self, profile: Profile, heads: Heads | None = None) -> None:
        self._profile = profile
        self._heads = heads or Heads()
        self._codec = request_encoder(profile.wire)
        self._forget(None)

    def _forget(self, messages: Sequence[Message] | None) -> None:
        self._messages = messages
        self._writer = Writer(self._profile)
        self._hoisted = 0
        self._varies: object = None
        self._mender: Mender | None = None
        self._count = 0  # messages in closed turns
        self._items = bytearray()  # their encoding, with a comma after each item
        self._request: Request | None = None
        self._head = b""

    def encode(self, request: Request) -> EncodedBody:
        """The body of a request. A conversation that is the same object, or starts with the same messages, keeps its prefix."""
        if not self._goes_on(request):
            self._forget(request.messages)
            self._start(request)
        self._close_turns(request)
        assert self._mender is not None
        if self._count == len(request.messages) and self._mender.waits:  # the next turn of a tool loop: nothing is open
            tail_writer, tail, mended = self._writer, b"", self._mender.repairs
        else:
            tail_writer = self._writer.copy()
            tail, mended = self._tail(request, tail_writer)
        if self._items or tail:
            *parts, last = [part for part in (self._head, self._items, tail) if part]
            body = b"".join((*parts, memoryview(last)[: len(last) - (last[-1:] == b",")], b"]}"))
        else:  # nothing but what the provider holds
            body = dumps(encode_request(request, self._profile).body)
        return EncodedBody(
            body,
            len(self._head) + len(self._items) - 1 if self._items or tail else 0,
            tuple(tail_writer.losses),
            (*tail_writer.repairs, *mended),
            tail_writer.names,
            tail_writer.lowered,
            frozenset(tail_writer.freeform),
        )

    def _goes_on(self, request: Request) -> bool:
        before = self._request
        if before is None or self._messages is None:
            return False
        if replace(request, messages=()) != replace(before, messages=()):
            return False
        messages = request.messages
        if len(messages) < self._count or self._codec.hoisted(messages) != self._hoisted:
            return False
        if self._codec.varies(request, self._writer) != self._varies:
            return False
        if messages is not self._messages:
            same = all(one is other for one, other in zip(messages[: self._count], self._messages, strict=False))
            self._messages = messages
            return same
        return True

    def _start(self, request: Request) -> None:
        """The head, and everything about it that the history needs to know."""
        count = self._hoisted = self._codec.hoisted(request.messages)
        self._request, self._count = replace(request, messages=()), count
        self._mender = Mender(self._profile.history, stateful=is_stateful(request, self._profile))
        writer, heads, system = Writer(self._profile, request.model), self._heads, request.messages[:count]
        self._varies = self._codec.varies(request, writer)
        if not heads.holds(self._request, system, self._varies):
            claim(request.tools, writer)
            body = self._codec.assemble(request, writer, visible(system, writer, 0), [])
            head = dumps(body)[:-2]
            heads.request, heads.system, heads.varies = self._request, system, self._varies
            heads.writer, heads.head = writer, head if head[-1:] == b"[" else head + b","
        assert heads.writer is not None
        self._writer, self._head = heads.writer.copy(), heads.head

    def _close_turns(self, request: Request) -> None:
        assert self._mender is not None
        for turn in turns(request.messages, self._count):
            messages = request.messages[turn.start : turn.stop]
            if turn.stop == len(request.messages) and not self._is_closed(messages):
                break
            self._items += self._encoded(
                self._mender.turn(visible(messages, self._writer, turn.start), turn.start), self._writer, turn.start
            )
            self._count = turn.stop

    def _is_closed(self, messages: Sequence[Message]) -> bool:
        """An answer that the caller has begun is not over where it is trimmed for the target."""
        begun = messages[-1].role == "assistant" and self._profile.history.plain_prefill
        return not begun and is_closed(messages)

    def _tail(self, request: Request, writer: Writer) -> tuple[bytes, list[Repair]]:
        """What is not closed, and what was mended in all."""
        assert self._mender is not None
        mender = self._mender.copy()
        messages = request.messages[self._count :]
        history = mender.turn(visible(messages, writer, self._count), self._count) if messages else []
        return self._encoded(mender.ending(history), writer, self._count), mender.repairs

    def _encoded(self, history: Sequence[Message], writer: Writer, first: int) -> bytes:
        return b"".join(dumps(item) + b"," for item in encode_items(history, self._codec, writer, first))
