"""OpenAI Responses: how an answer ends, what it cost, and errors on the way."""

from typing import Any

import pytest
from reply_reading import Doc, Result, read, read_pieces, read_whole, sse_of

from toolglot.errors import InvalidRequest, MalformedReply, Overloaded, ProviderError, RateLimited, ServerFailed
from toolglot.messages import StopReason, Usage

WIRE = "openai-responses"
CREATED: Doc = {"type": "response.created", "response": {"id": "r1", "model": "m1", "status": "in_progress", "output": []}}


def added(index: int, item: Doc) -> Doc:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item: Doc) -> Doc:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str, **fields: Any) -> Doc:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **fields}


def terminal(*output: Doc, kind: str = "completed", **fields: Any) -> Doc:
    response = {"id": "r1", "model": "m1", "status": kind, "error": None, "output": list(output), **fields}
    return {"type": f"response.{kind}", "response": response}


def message(text: str, id: str = "msg_1") -> Doc:
    return {
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text}],
    }


def function(name: str, arguments: Any, call_id: str = "call_1", **fields: Any) -> Doc:
    return {"type": "function_call", "id": "fc_" + call_id, "call_id": call_id, "name": name, "arguments": arguments, **fields}


STATE = {"id": "msg_1", "status": "completed"}
END = terminal()


def stream(*docs: Doc | str) -> Result:
    return read(WIRE, sse_of(*docs))


def whole(*output: Doc, **fields: Any) -> Result:
    return read_whole(WIRE, terminal(*output)["response"] | fields)


@pytest.mark.parametrize(("fields", "stop"), [
    ({"status": "completed"}, "end"),
    ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "filtered"),
    ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "length"),
    ({"status": "incomplete", "incomplete_details": None}, "length"),
    ({"status": "cancelled"}, "error"),
    ({"status": "queued"}, "pause"),
    ({"status": "in_progress"}, "pause"),
    ({"status": None}, "end"),
])  # fmt: skip
def test_why_it_stopped(fields: Doc, stop: StopReason) -> None:
    assert whole(message("a"), **fields).reply.stop == stop
    kind = fields["status"] if fields["status"] in ("incomplete", "cancelled") else "completed"
    assert stream(CREATED, done(0, message("a")), terminal(kind=kind, **fields)).reply.stop == stop


def test_a_call_cut_by_the_length_limit_says_length() -> None:
    item = function("f", '{"x":', status="incomplete")
    result = stream(CREATED, added(0, item), done(0, item), terminal(item, kind="incomplete"))
    assert (result.call.arguments, result.call.raw, result.reply.stop) == (None, '{"x":', "length")


def test_the_kind_of_the_terminal_decides_where_it_holds_no_status() -> None:
    bare: Doc = {"id": "r1", "output": [message("a")]}
    assert stream(CREATED, {"type": "response.incomplete", "response": bare}).reply.stop == "length"
    with pytest.raises(ProviderError):
        read_pieces(WIRE, [sse_of(CREATED, {"type": "response.failed", "response": bare})])


@pytest.mark.parametrize(("doc", "kind", "words"), [
    (terminal(kind="failed", error={"code": "rate_limit_exceeded", "message": "wait"}), RateLimited, "wait"),
    (terminal(kind="failed", error={"code": "server_error", "message": "oops"}), ServerFailed, "oops"),
    (terminal(kind="failed", error={"code": "invalid_prompt", "message": "bad"}), InvalidRequest, "bad"),
    (terminal(kind="failed"), ServerFailed, "failed"),
    ({"type": "error", "code": "server_is_overloaded", "message": "busy", "param": None}, Overloaded, "busy"),
    ({"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}, InvalidRequest, "bad"),
    ({"error": {"message": "bad", "code": 400}}, InvalidRequest, "bad"),
], ids=["rate", "server", "prompt", "no reason", "error", "nested error", "no type"])  # fmt: skip
def test_errors_in_the_middle(doc: Doc, kind: type[ProviderError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        read_pieces(WIRE, [sse_of(CREATED, done(0, message("a")), doc)])
    assert type(caught.value) is kind


def test_a_whole_body_that_failed_is_an_error() -> None:
    for fields in ({"status": "failed"}, {"error": {"message": "x"}}):
        with pytest.raises(ProviderError):
            whole(message("a"), **fields)
    with pytest.raises(ProviderError, match="not a response"):
        read_whole(WIRE, {"id": "x", "choices": []})


def test_usage() -> None:
    details: Doc = {
        "input_tokens": 9,
        "output_tokens": 4,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    assert stream(CREATED, terminal(usage=details)).reply.usage == Usage(9, 4, 3, 2, 1)
    assert whole(usage={"input_tokens": 9, "input_tokens_details": None}).reply.usage == Usage(9)
    assert whole(usage=None).reply.usage == Usage()


@pytest.mark.parametrize("doc", [
    {"type": "response.output_text.delta", "delta": "a"}, {"type": "response.output_text.delta", "output_index": 0, "delta": 7},
    {"type": "response.output_item.done", "output_index": 0},
    {"type": "response.output_item.done", "output_index": 0, "item": "x"},
    {"type": "response.output_item.done", "output_index": [], "item": {}}, {"type": "response.created"},
    {"type": "response.completed", "response": None}, done(0, {"type": "message", "content": [{"type": "output_text"}]}),
])  # fmt: skip
def test_wrong_shapes_are_malformed(doc: Doc) -> None:
    with pytest.raises(MalformedReply):
        read_pieces(WIRE, [sse_of(doc, END)])
