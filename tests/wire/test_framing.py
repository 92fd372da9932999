"""Bytes to frames and back.

Every case is read whole, byte by byte and in random cuts, and must give the same frames.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reply_reading import single, split_at

from aws_events import encode_aws_event
from toolglot.common.jsontext import loads
from toolglot.errors import MalformedReply, TruncatedStream
from toolglot.wire.framing import (
    AwsEventDecoder,
    Frame,
    FrameDecoder,
    JsonStreamDecoder,
    SseDecoder,
    detect_framing,
    encode_json_array,
    encode_line,
    encode_ndjson,
    encode_sse,
)

Make = Callable[[], FrameDecoder]


@pytest.fixture(scope="module", autouse=True)
def _own_event_names() -> Iterator[None]:
    """The many names of these tests must not fill the cache that all streams share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolglot.wire.framing._EVENT_NAMES", {})
        yield


def frames_of(make: Make, pieces: Iterable[bytes]) -> list[Frame]:
    decoder = make()
    return [frame for piece in pieces for frame in decoder.feed(piece)] + decoder.close()


def values_of(frames: Iterable[Frame]) -> list[Any]:
    return [loads(data) if isinstance(data, bytes) else data for _, data in frames]


# ---- SSE: bytes -> frames

SSE: dict[str, tuple[bytes, list[Frame]]] = {
    "lf": (b"data: 1\n\ndata: 2\n\n", [("", b"1"), ("", b"2")]),
    "crlf": (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [("", b"1"), ("", b"2")]),
    "cr": (b"data: 1\r\rdata: 2\r\r", [("", b"1"), ("", b"2")]),
    "mixed line ends": (
        b"event: a\rdata: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n",
        [("a", b"1"), ("", b"2"), ("", b"3")],
    ),
    "event name": (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
    "name after the data": (b"data: {}\nevent: ping\n\n", [("ping", b"{}")]),
    "the last name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1")]),
    "a name holds for one event only": (b"event: a\ndata: 1\n\ndata: 2\n\n", [("a", b"1"), ("", b"2")]),
    "no space after the colon": (b"event:a\ndata:1\n\n", [("a", b"1")]),
    "only one space goes": (b"data:  1\n\n", [("", b" 1")]),
    "several data lines": (b"data: {\ndata: }\n\n", [("", b"{\n}")]),
    "several data lines, crlf": (b"data: {\r\ndata: }\r\n\r\n", [("", b"{\n}")]),
    "data without a colon is empty": (b"data\n\n", [("", b"")]),
    "empty data": (b"data:\n\ndata: \n\n", [("", b""), ("", b"")]),
    "comments": (b": hello\n\n:\ndata: 1\n: more\n\n", [("", b"1")]),
    "a comment only": (b": keep-alive\n\n: keep-alive\n\n", []),
    "a name only": (b"event: ping\n\n", []),
    "unknown fields": (b"what: ever\nnothing\ndata: 1\n\n", [("", b"1")]),
    "a field name in capitals is unknown": (b"DATA: 1\n\n", []),
    "bom": (b"\xef\xbb\xbfdata: 1\n\n", [("", b"1")]),
    "a second bom is not one": (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [("", b"2")]),
    "half a bom": (b"\xef\xbbdata: 1\n\ndata: 2\n\n", [("", b"2")]),
    "id and retry": (b"id: 7\nretry: 10\ndata: 1\n\n", [("", b"1")]),
    "blank lines anywhere": (b"\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n\n", [("", b"1"), ("", b"2")]),
    "utf-8 of two, three and four bytes": ("data: é→🦜\n\n".encode(), [("", "é→🦜".encode())]),
    "utf-8 in a name": ("event: é\ndata: 1\n\n".encode(), [("é", b"1")]),
    "bytes that are no utf-8 in a name": (b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff")]),
    "the last event without its blank line": (b"data: 1\n\nevent: a\ndata: 2\n", [("", b"1"), ("a", b"2")]),
    "the last event without its line break": (b"data: 1\n\ndata: 2", [("", b"1"), ("", b"2")]),
    "a colon in the data": (b'data: {"a": "b:c"}\n\n', [("", b'{"a": "b:c"}')]),
    "done": (b"data: [DONE]\n\n", [("", b"[DONE]")]),
    "a bare error on one line": (
        b'data: 1\n\n{"error": {"code": 503}}\n\n',
        [("", b"1"), ("", b'{"error": {"code": 503}}')],
    ),
    "a bare error over several lines": (
        b'data: 1\r\n\r\n{\r\n  "error": {\r\n    "code": 503\r\n  }\r\n}\r\n',
        [("", b"1"), ("", b'{\n  "error": {\n    "code": 503\n  }\n}')],
    ),
    "a bare error in a list": (
        b'data: 1\n\n[{\n  "error": {}\n}\n]\n',
        [("", b"1"), ("", b'[{\n  "error": {}\n}\n]')],
    ),
    "nothing": (b"", []),
    "line breaks only": (b"\r\n\n\r", []),
}
SSE_CASES = pytest.mark.parametrize(("body", "frames"), SSE.values(), ids=SSE.keys())


@SSE_CASES
def test_sse_read_whole_and_byte_by_byte(body: bytes, frames: list[Frame]) -> None:
    assert frames_of(SseDecoder, [body]) == frames
    assert frames_of(SseDecoder, single(body)) == frames


@SSE_CASES
@settings(max_examples=12)
@given(data=st.data())
def test_sse_read_in_random_cuts(body: bytes, frames: list[Frame], data: st.DataObject) -> None:
    assert frames_of(SseDecoder, split_at(body, data.draw(st.lists(st.integers(0, len(body)))))) == frames


def test_a_frame_comes_out_with_its_last_byte() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n") == []
    assert decoder.feed(b"\n") == [("", b"1")]
    assert decoder.feed(b"data: 2\r\n\r") == [("", b"2")]
    assert decoder.feed(b"\ndata: 3\r\n\r\n") == [("", b"3")]
    assert decoder.close() == []


def test_any_number_of_event_names_is_known() -> None:
    body = b"".join(encode_sse({}, f"name {number % 150}") for number in range(300))
    assert frames_of(SseDecoder, [body]) == [(f"name {number % 150}", b"{}") for number in range(300)]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=6)


def write_event(text: str, name: str) -> bytes:
    lines = ([f"event: {name}"] if name else []) + [f"data: {line}" for line in text.split("\n")]
    return "\n".join([*lines, "", ""]).encode()


@given(
    events=st.lists(st.tuples(NAME, TEXT), max_size=6),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    data=st.data(),
)
def test_events_of_any_text_are_read(events: list[tuple[str, str]], end: bytes, data: st.DataObject) -> None:
    body = b"".join(write_event(text, name) for name, text in events).replace(b"\n", end)
    cuts = data.draw(st.lists(st.integers(0, len(body))))
    assert frames_of(SseDecoder, split_at(body, cuts)) == [(name, text.encode()) for name, text in events]


@given(
    body=st.lists(
        st.sampled_from([b"data: 1", b"\n", b"\r", b"\xef\xbb\xbf", b":", b"{", b" ", b"event: a"])
    ).map(b"".join)
)
def test_sse_of_any_bytes_is_the_same_in_any_cut(body: bytes) -> None:
    whole = frames_of(SseDecoder, [body])
    assert frames_of(SseDecoder, single(body)) == whole
    assert frames_of(SseDecoder, [body[at : at + 2] for at in range(0, len(body), 2)]) == whole


# ---- JSON streams: bytes -> values

A, B, AB = {"a": 1}, {"b": "}"}, [{"a": 1}, {"b": "}"}]
JSON: dict[str, tuple[bytes, list[Any]]] = {
    "a line each": (b'{"a":1}\n{"b":"}"}\n', AB),
    "crlf": (b'{"a":1}\r\n{"b":"}"}\r\n', AB),
    "the last line has no end": (b'{"a":1}\n{"b":"}"}', AB),
    "blank lines": (b'\n\n{"a":1}\n\n  \n{"b":"}"}\n\n', AB),
    "bom": (b'\xef\xbb\xbf{"a":1}\n{"b":"}"}\n', AB),
    "bom on a line of its own": (b'\xef\xbb\xbf\n{"a":1}\n{"b":"}"}\n', AB),
    "values over several lines": (b'{\n "a":\n 1}\n{ "b":\n"}"\n}\n', AB),
    "several values in a line": (b'{"a":1}{"b":"}"}\n', AB),
    "several values in a line, with spaces": (b' {"a":1} \t {"b":"}"} \n', AB),
    "a value ends where another begins": (b'{"a":\n1}{"b":"}"}\n', AB),
    "indented": (json.dumps(A, indent=2).encode() + b"\n" + json.dumps(B, indent=2).encode(), AB),
    "one array, a line each": (b'[{"a":1}\n,\r\n{"b":"}"}\n]\n', AB),
    "one array in one line": (b'[{"a":1},{"b":"}"}]', AB),
    "one array, indented": (json.dumps(AB, indent=2).encode(), AB),
    "one array, comma first": (b'[\n{"a":1}\n, {"b":"}"}]', AB),
    "an array with bom": (b'\xef\xbb\xbf [{"a":1},\n{"b":"}"}]', AB),
    "an empty array": (b"[]", []),
    "an empty array over two lines": (b"[\n]\n", []),
    "objects nested in an array": (
        b'[{"a":[{"b":[]}]},{"c":{"d":{}}}]',
        [{"a": [{"b": []}]}, {"c": {"d": {}}}],
    ),
    "objects nested over lines": (b'{"a":[{"b":\n[]}\n]}\n', [{"a": [{"b": []}]}]),
    "brackets and quotes in strings": (
        b'{"a":"[{\\"]\\\\"}\n{"b":"\\\\\\"}{"\n}\n',
        [{"a": '[{"]\\'}, {"b": '\\"}{'}],
    ),
    "quotes in an array over lines": (b'[{"a":"x\\"]}"\n},\n{"a":"\\\\"}]', [{"a": 'x"]}'}, {"a": "\\"}]),
    "utf-8": ('{"a":"é→🦜"}\n'.encode(), [{"a": "é→🦜"}]),
    "nothing": (b"", []),
    "white space": (b" \r\n\t\n", []),
}
JSON_CASES = pytest.mark.parametrize(("body", "values"), JSON.values(), ids=JSON.keys())


@JSON_CASES
def test_json_read_whole_and_byte_by_byte(body: bytes, values: list[Any]) -> None:
    assert values_of(frames_of(JsonStreamDecoder, [body])) == values
    assert frames_of(JsonStreamDecoder, single(body)) == frames_of(JsonStreamDecoder, [body])


@JSON_CASES
@settings(max_examples=12)
@given(data=st.data())
def test_json_read_in_random_cuts(body: bytes, values: list[Any], data: st.DataObject) -> None:
    assert (
        values_of(
            frames_of(JsonStreamDecoder, split_at(body, data.draw(st.lists(st.integers(0, len(body))))))
        )
        == values
    )


@pytest.mark.parametrize(("body", "count", "remainder"), [
    (b'{"a":1}\n{"b":', 1, b'{"b":'),
    (b'{"a":1}\n{"b":\n', 1, b'{"b":'),
    (b'[{"a":1},\n{"b":"}', 1, b'{"b":"}'),
    (b'{"a":1}\nwhat\n', 1, b"what"),
], ids=["in a line", "after a line", "in an array", "no json"])  # fmt: skip
def test_what_is_no_whole_value_comes_last_as_it_is(body: bytes, count: int, remainder: bytes) -> None:
    for pieces in ([body], single(body)):
        frames = frames_of(JsonStreamDecoder, pieces)
        assert len(frames) == count + 1
        assert frames[-1] == ("", remainder)


@pytest.mark.parametrize(
    "body", [b'{"a":1}\n', b'{"a":\n1}\n', b'[{"a":1}\n'], ids=["line", "lines", "array"]
)
def test_a_value_comes_out_at_the_end_of_its_line(body: bytes) -> None:
    decoder = JsonStreamDecoder()
    assert decoder.feed(body[:-1]) == []
    assert values_of(decoder.feed(body[-1:])) == [A]


SCALAR = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text('a"\\{}[],:\n\r é🦜', max_size=6)
VALUE = st.recursive(
    SCALAR, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text('k"}]', max_size=3), v, max_size=3)
)
DOCUMENTS = st.lists(st.dictionaries(st.text('k"{[', max_size=3), VALUE, max_size=3), max_size=5)
WRITERS: dict[str, Callable[[list[Any]], bytes]] = {
    "ndjson": lambda docs: b"".join(encode_ndjson(doc) for doc in docs),
    "json_array": lambda docs: b"".join(encode_json_array(json.dumps(doc).encode() for doc in docs)),
    "one array": lambda docs: json.dumps(docs).encode(),
    "indented array": lambda docs: json.dumps(docs, indent=1, ensure_ascii=False).encode(),
    "indented": lambda docs: b"\r\n".join(json.dumps(doc, indent=1).encode() for doc in docs),
    "no separator": lambda docs: b"".join(json.dumps(doc).encode() for doc in docs),
}


@pytest.mark.untraced
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
@settings(max_examples=40)
@given(docs=DOCUMENTS, data=st.data())
def test_documents_written_in_any_layout_are_read_back(
    write: Callable[[list[Any]], bytes], docs: list[Any], data: st.DataObject
) -> None:
    body = write(docs)
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=20))
    assert values_of(frames_of(JsonStreamDecoder, split_at(body, cuts))) == docs


@given(VALUE)
def test_one_line_of_json_means_the_same_and_no_client_splits_it(value: Any) -> None:
    data = encode_line([value, "\x85\u2028\u2029"])
    assert json.loads(data) == [value, "\x85\u2028\u2029"]
    assert len(data.decode().splitlines()) == 1


def test_an_array_of_nothing_is_written_as_an_empty_array() -> None:
    assert b"".join(encode_json_array([])) == b"[]"
    assert b"".join(encode_json_array([b"1", b"2"])) == b"[1\n,\r\n2]"


# ---- AWS event stream


def aws(payload: bytes, headers: dict[str, str] | None = None, *, raw_headers: bytes = b"") -> bytes:
    """A message as AWS documents it."""
    head = raw_headers + b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value.encode()).to_bytes(2, "big") + value.encode()
        for name, value in (headers or {}).items()
    )
    prelude = (len(head) + len(payload) + 16).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + head + payload
    return message + crc32(message).to_bytes(4, "big")


def wrap(data: bytes) -> bytes:
    return json.dumps({"bytes": base64.b64encode(data).decode(), "p": "abc"}).encode()


EVENT = {":message-type": "event", ":event-type": "chunk"}
AWS: dict[str, tuple[bytes, list[Frame]]] = {
    "wrapped": (aws(wrap(b'{"a":1}'), EVENT), [("chunk", b'{"a":1}')]),
    "not wrapped": (aws(b'{"a":1}', {":event-type": "messageStart"}), [("messageStart", b'{"a":1}')]),
    "no headers": (aws(b"{}"), [("", b"{}")]),
    "two": (aws(wrap(b"1"), EVENT) + aws(wrap(b""), EVENT), [("chunk", b"1"), ("chunk", b"")]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("body", "frames"), AWS.values(), ids=AWS.keys())
@settings(max_examples=12)
@given(data=st.data())
def test_aws_messages_in_any_cut(body: bytes, frames: list[Frame], data: st.DataObject) -> None:
    assert frames_of(AwsEventDecoder, [body]) == frames
    assert frames_of(AwsEventDecoder, single(body)) == frames
    assert (
        frames_of(AwsEventDecoder, split_at(body, data.draw(st.lists(st.integers(0, len(body)))))) == frames
    )


@given(events=st.lists(st.tuples(st.text("abcXYZ-", max_size=9), st.binary(max_size=40)), max_size=4))
def test_what_aws_event_writes_is_read_back(events: list[tuple[str, bytes]]) -> None:
    body = b"".join(encode_aws_event(data, name) for name, data in events)
    assert frames_of(AwsEventDecoder, single(body)) == events
    assert encode_aws_event(b"x") == encode_aws_event(b"x", "chunk")


@pytest.mark.parametrize("size", range(1, len(AWS["two"][0])))
def test_an_aws_stream_cut_inside_a_message_is_truncated(size: int) -> None:
    body = AWS["two"][0]
    decoder = AwsEventDecoder()
    decoder.feed(body[:size])
    if size == len(aws(wrap(b"1"), EVENT)):
        assert decoder.close() == []
    else:
        with pytest.raises(TruncatedStream, match="truncated"):
            decoder.close()


GOOD = aws(wrap(b"1"), EVENT)
BAD_AWS = {
    "checksum of the prelude": GOOD[:8] + b"\0\0\0\0" + GOOD[12:],
    "checksum of the message": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "a byte of the payload": GOOD[:-10] + bytes([GOOD[-10] ^ 1]) + GOOD[-9:],
    "length too small": (15).to_bytes(4, "big") + GOOD[4:],
    "length too large": (16 * 1024 * 1024 + 1).to_bytes(4, "big") + GOOD[4:],
    "payload is no json": aws(b"hello", EVENT),
    "payload is no object": aws(b"[]", EVENT),
    "payload is no base64": aws(b'{"bytes":"*"}', EVENT),
    "a header that is no string": aws(b"{}", raw_headers=b"\x01a\x05" + bytes(8)),
    "a header that is cut": aws(b"{}", raw_headers=b"\x09a"),
}


@pytest.mark.parametrize("body", BAD_AWS.values(), ids=BAD_AWS.keys())
def test_a_broken_aws_message_is_malformed(body: bytes) -> None:
    for pieces in ([body], single(body)):
        with pytest.raises(MalformedReply, match="AWS event stream"):
            frames_of(AwsEventDecoder, pieces)


# ---- whole bodies, and which framing it is


@pytest.mark.parametrize(("content_type", "start", "framing"), [
    ("text/event-stream", b"data: 1", SseDecoder),
    ("", b": hello", SseDecoder),
    ("", b"event: a", SseDecoder),
    ("application/json", b"data: 1", SseDecoder),
    ("application/x-ndjson", b'{"a"', JsonStreamDecoder),
    ("text/event-stream", b'{"error"', JsonStreamDecoder),
    ("", b"\xef\xbb\xbf \n[", JsonStreamDecoder),
    ("application/vnd.amazon.eventstream", b"\x00", AwsEventDecoder),
    ("", b"\x00\x00\x01", AwsEventDecoder),
    ("application/vnd.amazon.eventstream; charset=x", b"{", AwsEventDecoder),
])  # fmt: skip
def test_the_framing_is_known_by_its_type_or_its_first_bytes(
    content_type: str, start: bytes, framing: type
) -> None:
    assert type(detect_framing(content_type, start)) is framing
