"""Reads one reply with framing, decoder and tracker. The policy for odd frames is the same for all wires.

Unknown notifications are ignored, and unknown content becomes a Foreign block. Data that is not JSON is a
MalformedReply, an error in a stream or in a 200 a ProviderError, and bytes that end before the terminal event
are a TruncatedStream.
"""

import re
from typing import Any, cast

from toolglot.common.jsontext import DECODE_ERRORS, decode_object, json_type_name, loads
from toolglot.errors import InvalidRequest, MalformedReply, ProviderError, TruncatedStream, UsageError
from toolglot.values.events import Event
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Message, Reply, Role
from toolglot.wire.framing import BOM, Frame, FrameDecoder, detect_framing
from toolglot.wire.json_values import Doc, as_dict
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.tracker import ToolCallTracker

# Streams: server-sent events, one array, or a line after an object that begins another one, which no JSON
# document has.
_STREAM_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)?:|\[)")
_NEXT_DOCUMENT = re.compile(rb"\}\r?\n\s*\{")
# What a decoder raises if a document does not have the wire's shape. Decoders just read: checking every field
# of every frame would cost more than decoding it. A UsageError comes from a block that checks its fields when
# it is created, such as
# Media: here the values are the server's, not the caller's.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, IndexError, RecursionError, UsageError)


class ReplyDecoder:
    """Decodes the frames of one wire. `is_complete` turns true with the wire's terminal event."""

    is_complete = False
    is_over = False  # nothing more counts: on some wires, usage or text can follow the terminal event

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
        self.is_over = self.is_complete

    def finish(self) -> None:
        """Report what is only known at the end of the bytes."""

    def to_message(self, role: Role = "assistant") -> Message:
        """Return what was read as a message of the history."""
        self.finish()
        reply = self._tracker.finish()
        return Message(role, reply.blocks, reply.origin, reply.opaque)


class ReplyReader:
    """Reads one reply of status 200, streamed or whole: `feed` bytes, then `close`.

    `is_complete` tells whether the terminal event has arrived, `is_over` whether nothing more counts. After
    `close`, `reply` is there, `losses` has what of the provider's answer a reply cannot express or what came
    after its end, and `repairs` what was read differently than the server sent it.
    """

    def __init__(
        self,
        decoder: type[ReplyDecoder],
        tracker: ToolCallTracker,
        *,
        streaming: bool = True,
        content_type: str = "",
    ) -> None:
        self._tracker = tracker
        self._decoder = decoder(self._tracker)
        self._streaming = streaming
        self._read_document = self._decoder.read_frame if streaming else self._decoder.read_body
        self._framing: FrameDecoder | None = None  # of a stream, once its first bytes are known
        self._body: list[bytes] = []  # of a reply that is one document
        self._content_type = content_type
        self._start = b""
        self.losses: list[Loss] = self._tracker.losses
        self.repairs: list[Repair] = self._tracker.repairs
        self._reply: Reply | None = None

    @property
    def reply(self) -> Reply:
        """The reply. Raises UsageError before `close`."""
        if self._reply is None:
            raise UsageError("the reply is not complete: feed all of its bytes, then call close()")
        return self._reply

    @property
    def is_complete(self) -> bool:
        """Whether the wire's terminal event has arrived."""
        return self._decoder.is_complete

    @property
    def is_over(self) -> bool:
        """Whether nothing more counts, so that the caller can stop reading. On some wires it stays false."""
        return self._decoder.is_over

    @property
    def visible_text(self) -> str:
        """The visible text so far: what remains of a reply that was interrupted."""
        return self._tracker.visible_text

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        if self._decoder.is_over:
            return []
        if self._framing is None:
            if not self._streaming:
                self._body.append(data)
                return []
            data = self._start + data
            self._start = b""
            # DeepSeek sends blank lines while it is busy
            if BOM.startswith(data) or not data.removeprefix(BOM).strip():
                self._start = data if BOM.startswith(data) else b""
                return []
            self._framing = detect_framing(self._content_type, data)
        if frames := self._framing.feed(data):
            self._read_frames(frames)
            return self._tracker.drain()
        return []

    def close(self) -> list[Event]:
        """Return the last events; then there is a `reply`.

        Raises TruncatedStream if the terminal event is missing.
        """
        body = b"".join(self._body)
        if self._framing is None and (not body or body.isspace()):
            raise TruncatedStream("the reply is empty")
        if not self._streaming:
            self._read_frames(self._split_body(body))
        elif self._framing and not self._decoder.is_over:
            frames = self._framing.close()
            try:
                self._read_frames(frames)
            except MalformedReply as e:
                raise TruncatedStream(
                    f"the reply ends in the middle of its data: {_preview(frames[-1][1])}"
                ) from e
        try:
            self._decoder.finish()
            if not self._decoder.is_complete:
                wire = self._tracker.origin.wire
                hint = "" if self._tracker.has_content else f"; it does not look like the API format {wire}"
                raise TruncatedStream(f"the reply ends before its terminal event{hint}")
            self._reply = self._tracker.finish()
        except _SHAPE_ERRORS as e:
            raise MalformedReply(f"the reply has an unexpected shape ({e!r})") from e
        return self._tracker.drain()

    def _split_body(self, body: bytes) -> list[Frame]:
        """Return a body as one frame, or the frames of a stream that was not asked for."""
        is_stream = (
            "text/event-stream" in self._content_type or _STREAM_START.match(body) or _has_next_document(body)
        )
        if not is_stream:
            return [("", body)]
        framing = detect_framing(self._content_type, body)
        self._read_document = self._decoder.read_frame
        return framing.feed(body) + framing.close()

    def _read_frames(self, frames: list[Frame]) -> None:
        """Read frames. Damage after the terminal event ends the reply and does not spoil it."""
        try:
            self._read_documents(frames)
        except MalformedReply:
            if not self._decoder.is_complete:
                raise
            self._decoder.is_over = True
            self.losses.append(
                Loss("trailing data", "reply", "it came after the end of the reply and cannot be read")
            )

    def _read_documents(self, frames: list[Frame]) -> None:
        decoder, read_document, doc = self._decoder, self._read_document, cast(Any, None)
        try:
            for event, data in frames:
                if decoder.is_over:
                    return
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
            raise MalformedReply(f"part of the reply has an unexpected form ({e!r}): {_preview(doc)}") from e

    def _parse_odd_data(self, data: bytes) -> Doc | None:
        """Parse data that is not a plain JSON object: an end mark, nothing, an error in a list, or lenient
        JSON.
        """
        if (text := data.strip()) in (b"[DONE]", b""):
            if text:
                self._decoder.read_done()
            return None
        try:
            doc: Any = loads(data)
        except ValueError as e:
            raise MalformedReply(f"part of the reply is not JSON ({e}): {_preview(data)}") from None
        if isinstance(doc, list) and len(cast(list[Any], doc)) == 1 and "error" in as_dict(doc[0]):  # Google
            raise error_from_body(cast(Any, doc))
        if not isinstance(doc, dict):
            raise MalformedReply(
                f"part of the reply is {json_type_name(doc)}, not an object: {_preview(data)}"
            )
        return cast(Doc, doc)


def _has_next_document(body: bytes) -> bool:
    """Return whether an object follows another one.

    A body on one line, as nearly all are, need not be searched.
    """
    return b"\n" in body and _NEXT_DOCUMENT.search(body) is not None


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
