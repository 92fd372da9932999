"""Bytes to frames and back: SSE, JSON streams (NDJSON, concatenated values, one array), AWS event streams.

However the bytes are cut, the frames are the same. `feed` returns the frames that became complete, `close`
what remains at the end. Each byte is looked at a bounded number of times, whatever the size of the reads.
A frame is (event name, data). The name is "" if the framing has none; the data are bytes or an already parsed
object.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

from toolglot.common.jsontext import DECODE_ERRORS, decode_object, dumps, loads_object
from toolglot.errors import MalformedReply, TruncatedStream

Frame = tuple[str, bytes | dict[str, Any]]
BOM = b"\xef\xbb\xbf"
# `event:` lines -> names, shared by all streams: a provider has a few dozen
_EVENT_NAMES: dict[bytes, str] = {}
_MAX_EVENT_NAMES = 200  # a hostile server must not fill the memory


class SseDecoder:
    """Server-sent events as in the WHATWG standard: LF, CRLF or CR, comments, several data lines, BOM.

    A line that starts with a brace counts as data: Google reports errors in the middle of a stream as bare
    JSON.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._ends_line = False  # the stored bytes end with a line break
        self._ends_cr = False  # the last byte was CR: a following LF belongs to it
        self._started = False

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete, as (name, data)."""
        # Fast path: nearly every read ends with a complete event.
        if self._started and not self._pieces and not self._ends_cr:
            if data[-2:] == b"\n\n" and b"\r" not in data:
                return self._split_frames(data[:-2].split(b"\n\n"))
            if data[-4:] == b"\r\n\r\n":
                bare = data.replace(b"\r\n", b"\n")
                if b"\r" not in bare:
                    return self._split_frames(bare[:-2].split(b"\n\n"))
        if not self._started:
            data = self._skip_bom(data)
        if self._ends_cr or b"\r" in data:
            data = self._convert_line_ends(data)
        if not data:
            return []
        is_complete = b"\n\n" in data or (self._ends_line and data[:1] == b"\n")
        self._ends_line = data[-1:] == b"\n"
        self._pieces.append(data)
        if not is_complete:
            return []
        *events, remainder = b"".join(self._pieces).split(b"\n\n")
        self._pieces = [remainder] if remainder else []
        return self._split_frames(events)

    def _skip_bom(self, data: bytes) -> bytes:
        """Return what follows a BOM at the start of the stream; nothing as long as only a part of one has
        come.
        """
        data = b"".join(self._pieces) + data
        if len(data) < len(BOM) and BOM.startswith(data):
            self._pieces = [data]
            return b""
        self._pieces = []
        self._started = True
        return data.removeprefix(BOM)

    def _convert_line_ends(self, data: bytes) -> bytes:
        """Return data with LF alone at the end of lines. CR and LF may come in two reads."""
        if self._ends_cr and data[:1] == b"\n":
            data = data[1:]
            self._ends_cr = False
        if data:
            self._ends_cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def close(self) -> list[Frame]:
        """Return the event that the end of the stream completes, if there is one."""
        remainder, self._pieces = b"".join(self._pieces), []
        return self._split_frames([remainder])

    def _split_frames(self, events: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for event in events:
            if event[:6] == b"data: " and b"\n" not in event:  # nearly every event of most providers
                frames.append(("", event[6:]))
                continue
            head, _, data = event.partition(b"\ndata: ")
            name = _EVENT_NAMES.get(head)
            if name and data and b"\n" not in data:  # and of the others
                frames.append((name, data))
                continue
            frame = self._parse_event(event)
            if frame is None:
                continue
            frames.append(frame)
            is_new = head == b"event: " + frame[0].encode()
            if is_new and len(_EVENT_NAMES) < _MAX_EVENT_NAMES:
                _EVENT_NAMES[head] = frame[0]
        return frames

    def _parse_event(self, event: bytes) -> Frame | None:
        """Parse the lines of an event; None if there is no data in it."""
        name = ""
        data: list[bytes] = []
        for line in event.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode("utf-8", "replace")
            elif field[:1] in (b"{", b"}", b" ", b"]", b"["):
                data.append(line)
        return (name, b"\n".join(data)) if data else None


# A JSON string, or a bracket outside of strings. A string contains no raw line break, so a line never cuts
# one.
_JSON_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\]]')


class JsonStreamDecoder:
    """JSON values one after another: one per line (NDJSON), over several lines, or as the elements of one
    array.

    Its frames are parsed values, because only parsing tells that a line is a complete value.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the last, incomplete line
        self._value: list[bytes] = []  # lines of the incomplete value
        self._depth = 0
        self._floor = -1  # the depth at which values start: 0, or 1 inside an array; -1 before the first byte

    def feed(self, data: bytes) -> list[Frame]:
        self._pieces.append(data)
        if b"\n" not in data and b"\r" not in data:
            return []
        *lines, remainder = b"".join(self._pieces).replace(b"\r", b"\n").split(b"\n")
        self._pieces = [remainder] if remainder else []
        frames: list[Frame] = []
        is_between = self._is_between_values()
        for line in lines:
            if is_between:  # nearly every line is a complete value
                try:
                    frames.append(("", decode_object(line)))
                    continue
                except DECODE_ERRORS:
                    pass
            if line:
                frames += self._read_line(line)
                is_between = self._is_between_values()
        return frames

    def _is_between_values(self) -> bool:
        return not (self._floor or self._depth or self._value)

    def close(self) -> list[Frame]:
        remainder, self._pieces = b"".join(self._pieces), []
        frames = self._read_line(remainder)
        if incomplete := b"\n".join(self._value).strip(b" \t\n,"):
            frames.append(("", incomplete))
        self._value = []
        return frames

    def _read_line(self, line: bytes) -> list[Frame]:
        if self._floor < 0:
            line = line.removeprefix(BOM).lstrip()
            if not line:
                return []
            self._floor = 1 if line[:1] == b"[" else 0
        if self._is_between_values():
            try:
                return [("", loads_object(line))]
            except ValueError:
                pass
        frames: list[Frame] = []
        start = 0
        for match in _JSON_TOKEN.finditer(line):
            token = match[0][:1]
            if token in b"{[":
                self._depth += 1
                if self._depth == self._floor:
                    start = match.end()  # the bracket that opens the array
            elif token in b"}]":
                self._depth -= 1
                if self._depth == self._floor:
                    value = b"\n".join([*self._value, line[start : match.end()]]).lstrip(b" \t\n,")
                    self._value, start = [], match.end()
                    frames.append(("", value))
                elif self._depth < self._floor:
                    self._depth, start = 0, match.end()  # the bracket that closes the array
        if start < len(line):
            self._value.append(line[start:])
        return frames


class AwsEventDecoder:
    """application/vnd.amazon.eventstream: lengths, headers, payload and checksums in binary.

    Claude on Bedrock wraps each event in `{"bytes": base64}`. An exception becomes an error event.
    """

    _PRELUDE = 12
    _MAX_MESSAGE = 16 * 1024 * 1024  # a longer one is taken for damage

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames: list[Frame] = []
        while len(self._buffer) >= self._PRELUDE:
            total = int.from_bytes(self._buffer[:4], "big")
            if not 16 <= total <= self._MAX_MESSAGE:
                raise MalformedReply(f"AWS event stream: a message of {total} bytes")
            if len(self._buffer) < total:
                break
            with memoryview(self._buffer) as view:
                message = bytes(view[:total])
            del self._buffer[:total]  # cheap: a bytearray drops its front without moving the rest
            frames.append(self._parse_message(memoryview(message)))
        return frames

    def close(self) -> list[Frame]:
        if self._buffer:
            raise TruncatedStream(
                f"AWS event stream: the last message is truncated after {len(self._buffer)} bytes"
            )
        return []

    def _parse_message(self, message: memoryview) -> Frame:
        head = int.from_bytes(message[4:8], "big")
        sums = int.from_bytes(message[8:12], "big"), int.from_bytes(message[-4:], "big")
        if (crc32(message[:8]), crc32(message[:-4])) != sums:
            raise MalformedReply("AWS event stream: a checksum does not match")
        headers = dict(_aws_headers(bytes(message[self._PRELUDE : self._PRELUDE + head])))
        payload = message[self._PRELUDE + head : -4]
        # an exception: an object, plain text, or only headers
        if headers.get(":message-type", "event") != "event":
            kind = headers.get(":exception-type") or headers.get(":error-code", "")
            text = headers.get(":error-message", "")
            fields: dict[str, Any] = {"message": text} if text else {}
            try:
                fields |= loads_object(bytes(payload))
            except ValueError:
                if payload:
                    fields["message"] = bytes(payload).decode("utf-8", "replace")
            return "error", dumps({"type": "error", "error": {"type": kind, **fields}})
        try:
            wrapped = decode_object(payload).get("bytes")
            data = base64.b64decode(wrapped, validate=True) if isinstance(wrapped, str) else bytes(payload)
        except (*DECODE_ERRORS, ValueError) as e:
            raise MalformedReply(
                f"AWS event stream: a payload is not a JSON object with base64 ({e})"
            ) from None
        return headers.get(":event-type", ""), data


def _aws_headers(data: bytes) -> Iterator[tuple[str, str]]:
    """Parse headers. Only those of type string (7) occur in these streams."""
    at = 0
    while at < len(data):
        size = data[at]
        name = data[at + 1 : at + 1 + size].decode("utf-8", "replace")
        at += 1 + size
        if data[at : at + 1] != b"\x07":
            raise MalformedReply(f"AWS event stream: header {name!r} is not a string")
        size = int.from_bytes(data[at + 1 : at + 3], "big")
        yield name, data[at + 3 : at + 3 + size].decode("utf-8", "replace")
        at += 3 + size


FrameDecoder = SseDecoder | JsonStreamDecoder | AwsEventDecoder


def detect_framing(content_type: str, start: bytes) -> FrameDecoder:
    """Choose the framing by the content type or, because that is often missing or wrong, by the first bytes."""
    # a NUL byte starts an AWS message: none above 16 MiB is accepted
    first = start.removeprefix(BOM).lstrip()[:1]
    if "vnd.amazon.eventstream" in content_type or first == b"\x00":
        return AwsEventDecoder()
    if first in (b"{", b"["):
        return JsonStreamDecoder()
    return SseDecoder()


# ---- encoders


# Some clients split lines with str.splitlines, which also splits at U+0085, U+2028 and U+2029. JSON can
# escape them.
_LINE_SEPARATORS = re.compile(b"\xc2\x85|\xe2\x80[\xa8\xa9]")


def encode_line(value: Any) -> bytes:
    """Write JSON in one line that no client splits."""
    return _LINE_SEPARATORS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), dumps(value))


def encode_sse(value: Any, event: str = "") -> bytes:
    """Encode one server-sent event."""
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + encode_line(value) + b"\n\n"


def encode_ndjson(value: Any) -> bytes:
    """Encode one line of a stream of lines."""
    return encode_line(value) + b"\n"


def encode_json_array(documents: Iterable[bytes]) -> Iterator[bytes]:
    """Encode the pieces of one array, as Gemini streams without `alt=sse`."""
    before = b"["
    for document in documents:
        yield before + document
        before = b"\n,\r\n"
    yield b"]" if before != b"[" else b"[]"
