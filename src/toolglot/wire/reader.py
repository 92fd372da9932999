"""Framing + decoder + tracker: the only frame policy.

| what comes                         | what happens                                              |
|------------------------------------|-----------------------------------------------------------|
| a known event                      | the decoder tells the tracker                             |
| an unknown notification            | ignored                                                   |
| unknown content                    | a Foreign block                                           |
| data that is not JSON              | MalformedReply                                            |
| an error in the stream or a 200    | ProviderError                                             |
| the end, before the terminal       | TruncatedStream                                           |
"""

from typing import Any, Protocol, cast

from toolglot.errors import InvalidRequest, MalformedReply, ProviderError, TruncatedStream
from toolglot.events import Event
from toolglot.jsontext import DECODE_ERRORS, decode_object, json_type_name, loads
from toolglot.losses import Loss
from toolglot.messages import Origin, Reply
from toolglot.wire.framing import BOM, Frame, FrameDecoder, WholeBodyDecoder, detect_framing
from toolglot.wire.json_values import as_dict
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["ReplyDecoder", "ReplyReader", "error_from_response"]


# What a decoder raises where a document is not shaped as its wire has it: decoders read, the reader judges.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, IndexError, RecursionError)


class ReplyDecoder(Protocol):
    """One wire's reading of frames. `complete` turns true with the wire's terminal."""

    is_complete: bool

    def __init__(self, tracker: ToolCallTracker) -> None: ...

    def read_frame(self, doc: dict[str, Any], event: str) -> None:
        """One frame of a stream."""
        ...

    def read_body(self, doc: dict[str, Any], event: str) -> None:
        """A whole answer in one document."""
        ...

    def read_done(self) -> None:
        """`[DONE]` came."""
        ...

    def finish(self) -> None:
        """The bytes have ended: last words before the reply is made."""
        ...


class ReplyReader:
    """Reads one answer of status 200, streamed or whole: `feed` bytes, then `close`.

    `complete` says whether the terminal has come; `reply` and `losses` are there after `close`.
    """

    def __init__(self, decoder: type[ReplyDecoder], origin: Origin, *, streaming: bool = True, content_type: str = "") -> None:
        self._tracker = ToolCallTracker(origin)
        self._decoder = decoder(self._tracker)
        self._streaming = streaming
        self._read_document = self._decoder.read_frame if streaming else self._decoder.read_body
        self._framing: FrameDecoder | None = None if streaming else WholeBodyDecoder()
        self._content_type = content_type
        self._start = b""
        self.reply: Reply | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the wire's terminal has come."""
        return self._decoder.is_complete

    @property
    def losses(self) -> list[Loss]:
        """What of the answer has no place in a reply."""
        return self._tracker.losses

    @property
    def visible_text(self) -> str:
        """The visible text so far: what is left of a reply that was interrupted."""
        return self._tracker.visible_text

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes completed."""
        if self._framing is None:
            data, self._start = self._start + data, b""
            if BOM.startswith(data) or not data.removeprefix(BOM).strip():  # white space before the answer says nothing
                self._start = data if BOM.startswith(data) else b""
                return []
            self._framing = detect_framing(self._content_type, data)
        if frames := self._framing.feed(data):
            self._read_frames(frames)
            return self._tracker.drain()
        return []

    def close(self) -> list[Event]:
        """The last events; `reply` is set. Raises TruncatedStream where the terminal has not come."""
        if self._framing is None:
            raise TruncatedStream("the answer is empty")
        try:
            self._read_frames(self._framing.close())
        except MalformedReply as e:
            if self._streaming and not self._decoder.is_complete:
                raise TruncatedStream(f"the stream ended in the middle: {e}") from e
            raise
        try:
            self._decoder.finish()
            if not self._decoder.is_complete:
                raise TruncatedStream("the stream ended before its terminal")
            self.reply = self._tracker.finish()
        except _SHAPE_ERRORS as e:
            raise MalformedReply(f"the answer has an unexpected shape ({e!r})") from e
        return self._tracker.drain()

    def _read_frames(self, frames: list[Frame]) -> None:
        read, doc = self._read_document, cast(Any, None)
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
                read(doc, event)
        except _SHAPE_ERRORS as e:
            raise MalformedReply(f"a frame has an unexpected shape ({e!r}): {_preview(doc)}") from e

    def _parse_odd_data(self, data: bytes) -> dict[str, Any] | None:
        """Data that is no plain JSON object: the end mark, nothing, an error in a list, or what only `loads` can read."""
        if (text := data.strip()) in (b"[DONE]", b""):
            if text:
                self._decoder.read_done()
            return None
        try:
            doc: Any = loads(data)
        except ValueError as e:
            raise MalformedReply(f"a frame is not JSON ({e}): {data[:200]!r}") from None
        if isinstance(doc, list) and len(cast(list[Any], doc)) == 1 and "error" in as_dict(doc[0]):
            raise error_from_body(cast(Any, doc))
        if not isinstance(doc, dict):
            raise MalformedReply(f"a frame is {json_type_name(doc)}, not an object: {data[:200]!r}")
        return cast(dict[str, Any], doc)


def _preview(doc: Any) -> str:
    try:
        return str(doc)[:200]
    except RecursionError:  # nested as deeply as a parser allows
        return "…"


def error_from_response(status: int, body: bytes) -> ProviderError:
    """The error that an answer of any status but 2xx describes."""
    if status < 400:
        return InvalidRequest(f"status {status} is no answer: a redirect is not followed, check the address", status=status)
    try:
        value: Any = loads(body)
    except ValueError:
        value = body.decode("utf-8", "replace")[:2000]
    return error_from_body(value, status)
