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
from toolglot.jsontext import REFUSED, decode_object, kind, loads
from toolglot.losses import Loss
from toolglot.messages import Origin, Reply
from toolglot.wire.failures import failure
from toolglot.wire.framing import BOM, Frame, FrameDecoder, WholeBody, sniff
from toolglot.wire.shapes import as_dict
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["Decoder", "ReplyReader", "error_of"]


# What a decoder raises where a document is not shaped as its wire has it: decoders read, the reader judges.
_SHAPE = (AttributeError, KeyError, TypeError, IndexError, RecursionError)


class Decoder(Protocol):
    """One wire's reading of frames. `complete` turns true with the wire's terminal."""

    complete: bool

    def __init__(self, tracker: ToolCallTracker) -> None: ...

    def frame(self, doc: dict[str, Any], event: str) -> None:
        """One frame of a stream."""
        ...

    def body(self, doc: dict[str, Any], event: str) -> None:
        """A whole answer in one document."""
        ...

    def done(self) -> None:
        """`[DONE]` came."""
        ...

    def end(self) -> None:
        """The bytes have ended: last words before the reply is made."""
        ...


class ReplyReader:
    """Reads one answer of status 200, streamed or whole: `feed` bytes, then `close`.

    `complete` says whether the terminal has come; `reply` and `losses` are there after `close`.
    """

    def __init__(self, decoder: type[Decoder], origin: Origin, *, streaming: bool = True, content_type: str = "") -> None:
        self._tracker = ToolCallTracker(origin)
        self._decoder = decoder(self._tracker)
        self._streaming = streaming
        self._read = self._decoder.frame if streaming else self._decoder.body
        self._framing: FrameDecoder | None = None if streaming else WholeBody()
        self._content_type = content_type
        self._start = b""
        self.reply: Reply | None = None

    @property
    def complete(self) -> bool:
        """Whether the wire's terminal has come."""
        return self._decoder.complete

    @property
    def losses(self) -> list[Loss]:
        """What of the answer has no place in a reply."""
        return self._tracker.losses

    @property
    def said(self) -> str:
        """The visible text so far: what is left of a reply that was interrupted."""
        return self._tracker.said

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes completed."""
        if self._framing is None:
            data, self._start = self._start + data, b""
            if BOM.startswith(data) or not data.removeprefix(BOM).strip():  # white space before the answer says nothing
                self._start = data if BOM.startswith(data) else b""
                return []
            self._framing = sniff(self._content_type, data)
        if frames := self._framing.feed(data):
            self._frames(frames)
            return self._tracker.drain()
        return []

    def close(self) -> list[Event]:
        """The last events; `reply` is set. Raises TruncatedStream where the terminal has not come."""
        if self._framing is None:
            raise TruncatedStream("the answer is empty")
        try:
            self._frames(self._framing.close())
        except MalformedReply as e:
            if self._streaming and not self._decoder.complete:
                raise TruncatedStream(f"the stream ended in the middle: {e}") from e
            raise
        try:
            self._decoder.end()
            if not self._decoder.complete:
                raise TruncatedStream("the stream ended before its terminal")
            self.reply = self._tracker.finish()
        except _SHAPE as e:
            raise MalformedReply(f"the answer has an unexpected shape ({e!r})") from e
        return self._tracker.drain()

    def _frames(self, frames: list[Frame]) -> None:
        read, doc = self._read, cast(Any, None)
        try:
            for event, data in frames:
                if isinstance(data, bytes):
                    try:
                        doc = decode_object(data)
                    except REFUSED:
                        if (doc := self._odd(data)) is None:
                            continue
                else:
                    doc = data
                read(doc, event)
        except _SHAPE as e:
            raise MalformedReply(f"a frame has an unexpected shape ({e!r}): {_shown(doc)}") from e

    def _odd(self, data: bytes) -> dict[str, Any] | None:
        """Data that is no plain JSON object: the end mark, nothing, an error in a list, or what only `loads` can read."""
        if (text := data.strip()) in (b"[DONE]", b""):
            if text:
                self._decoder.done()
            return None
        try:
            doc: Any = loads(data)
        except ValueError as e:
            raise MalformedReply(f"a frame is not JSON ({e}): {data[:200]!r}") from None
        if isinstance(doc, list) and len(cast(list[Any], doc)) == 1 and "error" in as_dict(doc[0]):
            raise failure(cast(Any, doc))
        if not isinstance(doc, dict):
            raise MalformedReply(f"a frame is {kind(doc)}, not an object: {data[:200]!r}")
        return cast(dict[str, Any], doc)


def _shown(doc: Any) -> str:
    try:
        return str(doc)[:200]
    except RecursionError:  # nested as deeply as a parser allows
        return "…"


def error_of(status: int, body: bytes) -> ProviderError:
    """The error that an answer of any status but 2xx describes."""
    if status < 400:
        return InvalidRequest(f"status {status} is no answer: a redirect is not followed, check the address", status=status)
    try:
        value: Any = loads(body)
    except ValueError:
        value = body.decode("utf-8", "replace")[:2000]
    return failure(value, status)
