"""Reads one reply with framing, decoder and tracker. The policy for odd frames is the same for all wires.

Unknown notifications are ignored, and unknown content becomes a Foreign block. Data that is not JSON is a MalformedReply, an
error in a stream or in a 200 a ProviderError, and bytes that end before the terminal event are a TruncatedStream.
"""

from typing import Any, cast

from toolglot.errors import InvalidRequest, MalformedReply, ProviderError, TruncatedStream
from toolglot.events import Event
from toolglot.jsontext import DECODE_ERRORS, decode_object, json_type_name, loads
from toolglot.messages import Message, Origin, Reply, Role
from toolglot.wire.framing import BOM, Frame, FrameDecoder, detect_framing
from toolglot.wire.json_values import Doc, as_dict
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.tracker import ToolCallTracker

# What a decoder raises if a document does not have the wire's shape. Decoders just read: checking every field of every
# frame would cost more than decoding it.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, IndexError, RecursionError)


class ReplyDecoder:
    """Decodes the frames of one wire. `is_complete` turns true with the wire's terminal event."""

    is_complete = False
    has_tail = False
    """Whether more that counts, such as usage, may follow the terminal event."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker

    def read_frame(self, doc: Doc, event: str) -> None:
        """Read one frame of a stream."""
        raise NotImplementedError

    def read_body(self, doc: Doc, event: str) -> None:
        """Read a whole reply in one document."""
        self.read_frame(doc, event)

    def read_done(self) -> None:
        """Note that `[DONE]` arrived."""

    def finish(self) -> None:
        """Report what is only known at the end of the bytes."""

    def to_message(self, role: Role = "assistant") -> Message:
        """Return what was read as a message of the history."""
        self.finish()
        reply = self._tracker.finish()
        return Message(role, reply.blocks, reply.origin, reply.opaque)


class ReplyReader:
    """Reads one reply of status 200, streamed or whole: `feed` bytes, then `close`.

    `is_complete` tells whether the terminal event has arrived. After `close`, `reply` is set, and `losses` has what of the
    provider's answer a reply cannot express.
    """

    def __init__(self, decoder: type[ReplyDecoder], origin: Origin, *, streaming: bool = True, content_type: str = "") -> None:
        self._tracker = ToolCallTracker(origin)
        self._decoder = decoder(self._tracker)
        self._streaming = streaming
        self._read_document = self._decoder.read_frame if streaming else self._decoder.read_body
        self._framing: FrameDecoder | None = None  # of a stream, once its first bytes are known
        self._body: list[bytes] = []  # of a reply that is one document
        self._content_type = content_type
        self._start = b""
        self._is_done = False
        self.losses = self._tracker.losses
        self.reply: Reply | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the wire's terminal event has arrived."""
        return self._decoder.is_complete

    @property
    def is_over(self) -> bool:
        """Whether nothing that counts can follow."""
        return self._decoder.is_complete and (self._is_done or not self._decoder.has_tail)

    @property
    def visible_text(self) -> str:
        """The visible text so far: what remains of a reply that was interrupted."""
        return self._tracker.visible_text

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        if self._framing is None:
            if not self._streaming:
                self._body.append(data)
                return []
            data, self._start = self._start + data, b""
            if BOM.startswith(data) or not data.removeprefix(BOM).strip():  # DeepSeek sends blank lines while it is busy
                self._start = data if BOM.startswith(data) else b""
                return []
            self._framing = detect_framing(self._content_type, data)
        if frames := self._framing.feed(data):
            self._read_frames(frames)
            return self._tracker.drain()
        return []

    def close(self) -> list[Event]:
        """Return the last events and set `reply`. Raises TruncatedStream if the terminal event is missing."""
        if self._streaming and self._framing is None:
            raise TruncatedStream("the reply is empty")
        frames: list[Frame] = self._framing.close() if self._framing else [("", b"".join(self._body))]
        try:
            self._read_frames(frames)
        except MalformedReply as e:
            if self._streaming and not self._decoder.is_complete:  # half a frame after the terminal event is not an early end
                raise TruncatedStream(f"the reply ends in the middle of a frame: {_preview(frames[-1][1])}") from e
            raise
        try:
            self._decoder.finish()
            if not self._decoder.is_complete:
                wire = self._tracker.origin.wire
                hint = "" if self._tracker.has_content else f"; nothing in it is a part of a reply of {wire}"
                raise TruncatedStream(f"the reply ends before its terminal event{hint}")
            self.reply = self._tracker.finish()
        except _SHAPE_ERRORS as e:
            raise MalformedReply(f"the reply has an unexpected shape ({e!r})") from e
        return self._tracker.drain()

    def _read_frames(self, frames: list[Frame]) -> None:
        read_document, doc = self._read_document, cast(Any, None)
        try:
            for event, data in frames:
                if isinstance(data, bytes):
                    try:
                        doc = decode_object(data)
                    except DECODE_ERRORS:
                        if (doc := self._parse_odd_data(data)) is None:
                            continue
                else:
                    doc = data
                read_document(doc, event)
        except _SHAPE_ERRORS as e:
            raise MalformedReply(f"a frame has an unexpected shape ({e!r}): {_preview(doc)}") from e

    def _parse_odd_data(self, data: bytes) -> Doc | None:
        """Parse data that is not a plain JSON object: an end mark, nothing, an error in a list, or lenient JSON."""
        if (text := data.strip()) in (b"[DONE]", b""):
            if text:
                self._is_done = True
                self._decoder.read_done()
            return None
        try:
            doc: Any = loads(data)
        except ValueError as e:
            raise MalformedReply(f"a frame is not JSON ({e}): {_preview(data)}") from None
        if isinstance(doc, list) and len(cast(list[Any], doc)) == 1 and "error" in as_dict(doc[0]):  # Google
            raise error_from_body(cast(Any, doc))
        if not isinstance(doc, dict):
            raise MalformedReply(f"a frame is {json_type_name(doc)}, not an object: {_preview(data)}")
        return cast(Doc, doc)


def _preview(data: Any) -> str:
    try:
        return (data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data))[:200]
    except RecursionError:  # nested as deeply as the parser allows
        return "…"


def error_from_response(status: int, body: bytes) -> ProviderError:
    """Return the error that a response of any status but 2xx describes."""
    if status < 400:  # following a redirect would send the API key to another host
        message = f"status {status} is not a reply, and redirects are not followed; check the base URL"
        return InvalidRequest(message, status=status)
    try:
        value: Any = loads(body)
    except ValueError:
        value = body.decode("utf-8", "replace")[:2000]  # a proxy sends HTML
    return error_from_body(value, status)
