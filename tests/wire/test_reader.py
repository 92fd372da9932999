"""The only frame policy: what a reader makes of frames that it knows, does not know, or should never have
got.
"""

import json
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from reply_reading import Doc, lines_of, read, read_pieces, single, sse_of

from aws_events import encode_aws_event
from toolglot.errors import (
    InvalidRequest,
    MalformedReply,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFailed,
    ToolglotError,
    TruncatedStream,
    UsageError,
)
from toolglot.values.events import ReplyStarted, TextDelta
from toolglot.values.messages import Origin, Text
from toolglot.wire.codec import create_reader
from toolglot.wire.reader import error_from_response
from toolglot.wire.spec import WIRES


def chunk(text: str, reason: str | None = None) -> Doc:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}],
    }


def part(text: str, reason: str | None = None) -> Doc:
    candidate: Doc = {"content": {"role": "model", "parts": [{"text": text}]}}
    return {
        "candidates": [candidate | ({"finishReason": reason} if reason else {})],
        "modelVersion": "m",
        "responseId": "g",
    }


def block(kind: str, **fields: Any) -> Doc:
    return {"type": kind, "index": 0, **fields}


# One short answer "hé" + "y" of every wire; the last document is the terminal.
ANSWERS: dict[str, list[Doc]] = {
    "openai-chat": [chunk("hé"), chunk("y"), chunk("", "stop")],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hé"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "y"},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ],
    "anthropic-messages": [
        {"type": "message_start", "message": {"id": "a", "model": "m", "content": []}},
        block("content_block_start", content_block={"type": "text", "text": ""}),
        block("content_block_delta", delta={"type": "text_delta", "text": "hé"}),
        block("content_block_delta", delta={"type": "text_delta", "text": "y"}),
        block("content_block_stop"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "gemini": [part("hé"), part("y", "STOP")],
    "ollama-chat": [
        {"model": "m", "message": {"role": "assistant", "content": "hé"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": "y"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ],
}
LAYOUTS: dict[str, Callable[[list[Doc]], bytes]] = {
    "sse": lambda docs: sse_of(*docs),
    "sse with crlf": lambda docs: sse_of(*docs).replace(b"\n", b"\r\n"),
    "sse with bom": lambda docs: b"\xef\xbb\xbf" + sse_of(*docs),
    "sse after blank lines": lambda docs: b"\n\r\n\n" + sse_of(*docs),
    "sse, no last blank line": lambda docs: sse_of(*docs)[:-1],
    "sse, no last line break": lambda docs: sse_of(*docs)[:-2],
    "lines": lambda docs: lines_of(*docs),
    "lines with bom": lambda docs: b"\xef\xbb\xbf" + lines_of(*docs),
    "lines, no last line break": lambda docs: lines_of(*docs)[:-1],
    "utf-8, not escaped": lambda docs: "\n".join(
        json.dumps(doc, ensure_ascii=False) for doc in docs
    ).encode(),
    "array": lambda docs: json.dumps(docs, indent=2).encode(),
    "aws": lambda docs: b"".join(encode_aws_event(json.dumps(doc).encode()) for doc in docs),
}
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)


@EVERY_WIRE
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_answer_reads_the_same_in_every_framing(wire: str, layout: str) -> None:
    reply = read(wire, LAYOUTS[layout](ANSWERS[wire])).reply
    assert (reply.blocks, reply.stop) == ((Text("héy"),), "end")
    assert reply.origin == Origin(wire, model="m")


@EVERY_WIRE
def test_complete_turns_true_with_the_terminal_and_only_then(wire: str) -> None:
    body = sse_of(*ANSWERS[wire])
    reading = create_reader(wire)
    states = [reading.is_complete]
    for byte in single(body):
        reading.feed(byte)
        states.append(reading.is_complete)
    assert states == [False] * len(body) + [True]
    with pytest.raises(UsageError, match="call close"):
        _ = reading.reply
    reading.close()
    assert reading.reply.stop == "end"


@EVERY_WIRE
@pytest.mark.parametrize("layout", ["sse", "lines", "aws"])
def test_an_answer_cut_anywhere_before_its_terminal_is_truncated(wire: str, layout: str) -> None:
    body = LAYOUTS[layout](ANSWERS[wire])
    last = len(body) if layout == "aws" else body.rindex(b"}") + 1
    for size in range(last):
        with pytest.raises(TruncatedStream):
            read_pieces(wire, [body[:size]])


@EVERY_WIRE
@pytest.mark.parametrize(
    "body", [b"", b"\n", b" \r\n ", b"\xef", b"\xef\xbb\xbf", b": hello\n\n", b"data:\n\n", b"[]"]
)
def test_an_empty_reply_is_truncated(wire: str, body: bytes) -> None:
    for pieces in ([body], single(body)):
        with pytest.raises(TruncatedStream):
            read_pieces(wire, pieces)


@EVERY_WIRE
def test_a_whole_body_that_is_no_answer_is_refused(wire: str) -> None:
    for body in (b"{}", b"", b"null", b"[]", b"7", b'"text"', b"<html>", b'{"hello":1}'):
        with pytest.raises(ToolglotError):
            read_pieces(wire, [body], streaming=False)


@EVERY_WIRE
@pytest.mark.parametrize("frame", ["hello", "{", '{"a":}', "[1,2]", "[]", "7", '"text"', "null", "true"])
def test_a_frame_that_is_no_json_object_is_malformed(wire: str, frame: str) -> None:
    body = sse_of(frame) + sse_of(*ANSWERS[wire])
    with pytest.raises(MalformedReply, match=r"^part of the reply is ") as caught:
        read_pieces(wire, [body])
    assert not isinstance(caught.value, TruncatedStream)


@EVERY_WIRE
@pytest.mark.parametrize(
    "frame",
    ['{"type": "keepalive"}', '{"type": "response.new_thing", "x": [1]}', '{"type": "ping"}', "", " "],
    ids=["keepalive", "new", "ping", "empty", "blank"],
)
def test_an_unknown_notification_is_ignored_wherever_it_comes(wire: str, frame: str) -> None:
    want = read(wire, sse_of(*ANSWERS[wire])).reply
    for at in range(len(ANSWERS[wire]) + 1):
        assert read(wire, sse_of(*ANSWERS[wire][:at], frame, *ANSWERS[wire][at:])).reply == want


@EVERY_WIRE
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize(("error", "kind", "words"), [
    ({"error": "boom"}, ServerFailed, "boom"),
    ({"error": {"message": "busy", "code": 503}}, Overloaded, "busy"),
    ({"error": {"message": "wait", "status": "RESOURCE_EXHAUSTED"}}, RateLimited, "wait"),
    ({"error": {"message": "bad", "type": "invalid_request_error"}}, InvalidRequest, "bad"),
], ids=["text", "code", "status", "type"])  # fmt: skip
def test_an_error_inside_a_200_is_the_providers_error(
    wire: str, at: int, error: Doc, kind: type[ProviderError], words: str
) -> None:
    docs = ANSWERS[wire][:at] if at >= 0 else ANSWERS[wire][:-1]
    for body in (
        sse_of(*docs, error),
        lines_of(*docs, error),
        sse_of(*docs) + json.dumps(error, indent=2).encode(),
    ):
        for pieces in ([body], single(body)):
            with pytest.raises(kind, match=words) as caught:
                read_pieces(wire, pieces)
            assert type(caught.value) is kind


@EVERY_WIRE
def test_an_error_instead_of_a_whole_body_is_the_providers_error(wire: str) -> None:
    for body in ({"error": {"message": "busy", "code": 503}}, [{"error": {"message": "busy", "code": 503}}]):
        for streaming in (False, True):
            with pytest.raises(Overloaded, match="busy"):
                read_pieces(wire, [json.dumps(body).encode()], streaming=streaming)


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_an_error_event_is_an_error_whatever_it_holds(wire: str) -> None:
    with pytest.raises(ProviderError, match="boom"):
        read_pieces(wire, [b'event: error\ndata: {"type": "error", "message": "boom"}\n\n'])


def exception(headers: dict[str, str], payload: bytes) -> bytes:
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in headers.items()
    )
    prelude = (len(head) + len(payload) + 16).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    message = prelude + crc32(prelude).to_bytes(4, "big") + head + payload
    return message + crc32(message).to_bytes(4, "big")


@pytest.mark.parametrize(("kind", "error"), [
    ("throttlingException", RateLimited),
    ("validationException", InvalidRequest),
    ("serviceUnavailableException", Overloaded),
    ("internalServerException", ServerFailed),
    ("modelStreamErrorException", ServerFailed),
])  # fmt: skip
def test_an_aws_exception_is_the_providers_error(kind: str, error: type[ProviderError]) -> None:
    body = exception({":message-type": "exception", ":exception-type": kind}, b'{"message":"no luck"}')
    for before in ([], ANSWERS["anthropic-messages"][:2]):
        answer = b"".join(encode_aws_event(json.dumps(doc).encode()) for doc in before) + body
        with pytest.raises(error, match="no luck") as caught:
            read_pieces("anthropic-messages", single(answer))
        assert (type(caught.value), caught.value.code) == (error, kind)


@pytest.mark.parametrize("payload", [b"", b"{}", b"no luck"], ids=["nothing", "empty", "text"])
def test_an_aws_error_without_a_json_payload_is_the_providers_error_too(payload: bytes) -> None:
    """Unmodelled errors have only headers: `:error-code` and `:error-message`."""
    headers = {":message-type": "error", ":error-code": "internalFailure", ":error-message": "no luck"}
    with pytest.raises(ServerFailed) as caught:
        read_pieces("anthropic-messages", [exception(headers, payload)])
    assert (caught.value.code, str(caught.value)) == ("internalFailure", "no luck")


@EVERY_WIRE
def test_frames_after_the_terminal_do_not_undo_it(wire: str) -> None:
    want = read(wire, sse_of(*ANSWERS[wire])).reply
    assert read(wire, sse_of(*ANSWERS[wire], {"type": "ping"}, "[DONE]")).reply == want


def test_events_come_as_soon_as_their_bytes_do() -> None:
    reading = create_reader("openai-chat")
    assert reading.feed(b"\n") == []
    assert reading.feed(sse_of(chunk("a"))) == [ReplyStarted("c", "m"), TextDelta(0, "a")]
    assert reading.feed(sse_of(chunk("b"))[:-1]) == []
    assert reading.feed(b"\n") == [TextDelta(0, "b")]


def test_a_content_type_that_lies_does_not_matter() -> None:
    for content_type in ("application/json", "text/event-stream", "", "application/x-ndjson"):
        for body in (sse_of(*ANSWERS["gemini"]), lines_of(*ANSWERS["gemini"])):
            assert read_pieces("gemini", [body], content_type=content_type).reply.text == "héy"


@pytest.mark.parametrize(("status", "body", "kind", "words"), [
    (500, b"<html>oops</html>", ServerFailed, "oops"),
    (503, b"", Overloaded, "no reason"),
    (400, b'{"error": {"message": "bad"}}', InvalidRequest, "bad"),
    (429, b'[{"error": {"message": "wait"}}]', RateLimited, "wait"),
    (400, b"\xff\xfe", InvalidRequest, "\ufffd"),
], ids=["html", "nothing", "object", "list", "no utf-8"])  # fmt: skip
def test_the_body_of_an_http_error(status: int, body: bytes, kind: type[ProviderError], words: str) -> None:
    error = error_from_response(status, body)
    assert (type(error), error.status) == (kind, status)
    assert words in str(error)
