"""OpenAI Responses: items, their events, and backends that leave some of them out."""

from typing import Any

import pytest
from reply_reading import Doc, Result, read, read_pieces, read_whole, sse_of

from toolglot.errors import (
    InvalidRequest,
    MalformedReply,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFailed,
    TruncatedStream,
)
from toolglot.events import (
    BlockReady,
    BlockStarted,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.messages import Foreign, Origin, StopReason, Text, Thinking, ToolCall, Usage

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


# ---- the usual stream


def test_reasoning_text_and_a_call_with_their_events() -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "x",
    }
    call_item = function("get", '{"x":1}')
    result = stream(
        CREATED,
        {"type": "response.in_progress", "response": {}},
        added(0, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "unfinished"}),
        delta("reasoning_summary_text", 0, "h", summary_index=0),
        delta("reasoning_summary_text", 0, "m", summary_index=0),
        done(0, reasoning),
        added(1, message("") | {"content": [], "status": "in_progress"}),
        {"type": "response.content_part.added", "output_index": 1, "part": {}},
        delta("output_text", 1, "a", content_index=0),
        delta("output_text", 1, "b", content_index=0),
        {"type": "response.output_text.done", "output_index": 1, "text": "ab"},
        done(1, message("ab")),
        added(2, function("get", "")),
        delta("function_call_arguments", 2, '{"x"'),
        delta("function_call_arguments", 2, ":1}"),
        {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"x":1}'},
        done(2, call_item),
        terminal(reasoning, message("ab"), call_item, usage={"input_tokens": 5, "output_tokens": 7}),
    )
    thinking = Thinking("hm", {"id": "rs_1", "summary": reasoning["summary"], "encrypted_content": "x"})
    text, call = Text("ab", STATE), ToolCall("call_1", "get", {"x": 1}, '{"x":1}', opaque={"id": "fc_call_1"})
    assert result.events[:-1] == [
        ReplyStarted("r1", "m1"),
        BlockStarted(0, Thinking("", {"id": "rs_1"})),
        ThinkingDelta(0, "h"),
        ThinkingDelta(0, "m"),
        BlockReady(0, thinking),
        BlockStarted(1, Text("", {"id": "msg_1"})),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        BlockReady(1, text),
        ToolCallStarted(2, "call_1", "get"),
        ToolCallDelta(2, '{"x"'),
        ToolCallDelta(2, ":1}"),
        ToolCallReady(2, call),
    ]
    assert (result.reply.blocks, result.reply.stop) == ((thinking, text, call), "tools")
    assert (result.reply.id, result.reply.origin) == ("r1", Origin(WIRE, model="m1"))
    assert result.reply.usage == Usage(5, 7)


F, G = function("f", '{"x":1}', "a"), function("g", "", "b")
CALLS: dict[str, list[Doc]] = {
    "announced and done": [added(0, F | {"arguments": ""}), done(0, F), added(1, G), done(1, G), terminal(F, G)],
    "only done": [done(0, F), done(1, G), END],
    "completed with an empty output": [added(0, F), done(0, F), added(1, G), done(1, G), END],
    "only in the terminal": [terminal(F, G)],
    "the second only in the terminal": [added(0, F), done(0, F), terminal(F, G)],
    "woven": [
        added(0, F | {"arguments": ""}),
        added(1, G),
        delta("function_call_arguments", 0, '{"x"'),
        delta("function_call_arguments", 0, ":1}"),
        done(1, G),
        done(0, F),
        terminal(F, G),
    ],
    "never done": [added(0, F | {"arguments": ""}), delta("function_call_arguments", 0, '{"x":1}'), added(1, G), END],
    "other ids in the terminal": [done(0, F), done(1, G), terminal(F | {"id": "other"}, G | {"id": "another"})],
    "no ids": [done(0, F | {"id": None}), done(1, G | {"id": None}), terminal(F | {"id": None}, G | {"id": None})],
    "arguments as an object": [done(0, F | {"arguments": {"x": 1}}), done(1, G | {"arguments": {}}), END],
    "arguments null": [done(0, F), done(1, G | {"arguments": None}), END],
}


@pytest.mark.parametrize("docs", CALLS.values(), ids=CALLS.keys())
def test_two_calls_however_they_come(docs: list[Doc]) -> None:
    result = stream(CREATED, *docs)
    assert [(call.id, call.name, call.arguments) for call in result.reply.calls] == [("a", "f", {"x": 1}), ("b", "g", {})]
    assert len(result.reply.blocks) == 2
    assert result.reply.stop == "tools"


@pytest.mark.parametrize("last", ["response.completed", "response.done"])
def test_completed_is_a_terminal_under_both_names(last: str) -> None:
    assert stream(CREATED, done(0, message("a")), terminal() | {"type": last}).reply.text == "a"


def test_done_marks_and_the_end_of_bytes_are_no_terminal() -> None:
    with pytest.raises(TruncatedStream):
        read_pieces(WIRE, [sse_of(CREATED, done(0, message("a")), "[DONE]")])
    assert stream(CREATED, done(0, message("a")), END, "[DONE]").reply.text == "a"


def test_what_done_says_replaces_what_was_announced() -> None:
    body = sse_of(CREATED, added(0, function("f", "", "old")), done(0, function("f", "{}", "new")), END)
    assert read_pieces(WIRE, [body]).call.id == "new"
    thought: Doc = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "whole"}
    result = stream(CREATED, added(0, thought | {"encrypted_content": "half"}), done(0, thought), END)
    assert result.reply.blocks == (Thinking("", {"id": "rs", "summary": [], "encrypted_content": "whole"}),)


def test_items_in_the_terminal_that_were_never_announced_come_last() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    result = stream(CREATED, added(0, message("")), done(0, message("a")), terminal(message("a"), search, function("f", "{}")))
    assert result.reply.blocks == (
        Text("a", STATE),
        Foreign(WIRE, search),
        ToolCall("call_1", "f", {}, "{}", opaque={"id": "fc_call_1"}),
    )


def test_the_id_and_model_of_the_terminal_count_where_created_was_left_out() -> None:
    reply = stream(terminal(message("a"))).reply
    assert (reply.id, reply.origin) == ("r1", Origin(WIRE, model="m1"))


# ---- kinds of items


def test_a_freeform_call_is_text() -> None:
    item = {"type": "custom_tool_call", "id": "ctc", "call_id": "a", "name": "apply_patch", "input": "*** Begin"}
    call = ToolCall("a", "apply_patch", None, "*** Begin", True, opaque={"id": "ctc"})
    result = stream(
        CREATED,
        added(0, item | {"input": ""}),
        delta("custom_tool_call_input", 0, "*** "),
        delta("custom_tool_call_input", 0, "Begin"),
        done(0, item),
        END,
    )
    assert result.reply.blocks == (call,)
    assert result.events[1] == ToolCallStarted(0, "a", "apply_patch", True)
    assert whole(item | {"input": None}).call == ToolCall("a", "apply_patch", None, "", True, opaque={"id": "ctc"})


def test_a_call_of_a_namespace_has_its_bare_name() -> None:
    item = function("get_user", "{}", namespace="crm")
    for result in (whole(item), stream(CREATED, added(0, item), done(0, item), END), stream(CREATED, added(0, item), END)):
        assert (result.call.name, result.call.namespace) == ("get_user", "crm")


def test_a_call_without_call_id_goes_by_its_item_id() -> None:
    assert whole({"type": "function_call", "id": "fc_9", "name": "f", "arguments": "{}"}).call.id == "fc_9"


BUILT_INS: list[tuple[Doc, str, Any]] = [
    ({"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}}, "shell", {"commands": ["ls"]}),
    ({"type": "local_shell_call", "call_id": "a", "action": {"command": ["ls"]}}, "local_shell", {"command": ["ls"]}),
    ({"type": "apply_patch_call", "call_id": "a", "operation": {"path": "x"}}, "apply_patch", {"path": "x"}),
    ({"type": "computer_call", "call_id": "a", "action": {"type": "wait"}}, "computer", {"type": "wait"}),
    ({"type": "tool_search_call", "call_id": "a", "execution": "client", "arguments": {"q": 1}}, "tool_search", {"q": 1}),
]


@pytest.mark.parametrize(("item", "name", "arguments"), BUILT_INS, ids=[name for _, name, _ in BUILT_INS])
def test_a_built_in_that_the_client_runs_is_a_call(item: Doc, name: str, arguments: Any) -> None:
    for result in (whole(item), stream(CREATED, added(0, item), done(0, item), END)):
        assert result.reply.blocks == (ToolCall("a", name, arguments, opaque={"item": item}),)
        assert result.reply.stop == "tools"


@pytest.mark.parametrize("item", [
    {"type": "web_search_call", "id": "w", "action": {"query": "q"}}, {"type": "file_search_call", "id": "w", "queries": ["q"]},
    {"type": "code_interpreter_call", "id": "w", "code": "1"}, {"type": "image_generation_call", "id": "w", "result": "AA=="},
    {"type": "mcp_call", "id": "w", "name": "f", "arguments": "{}", "output": "1"},
    {"type": "mcp_list_tools", "id": "w", "tools": []},
    {"type": "mcp_approval_request", "id": "w", "name": "f", "arguments": "{}"},
    {"type": "tool_search_call", "id": "w", "call_id": "a", "execution": "server", "arguments": {}},
    {"type": "shell_call", "id": "w", "call_id": None, "action": {}},
    {"type": "compaction", "id": "w", "encrypted_content": "x"},
    {"type": "of_next_year", "id": "w", "call_id": "a", "name": "f", "arguments": "{}"},
], ids=lambda item: item["type"])  # fmt: skip
def test_an_item_of_the_server_is_kept_whole_and_never_a_call(item: Doc) -> None:
    for result in (
        whole(item, message("a")),
        stream(CREATED, added(0, item), done(0, item), done(1, message("a")), END),
        stream(CREATED, added(0, item), done(1, message("a")), terminal(item, message("a"))),
    ):
        assert result.reply.blocks == (Foreign(WIRE, item), Text("a", STATE))
        assert result.reply.stop == "end"


def test_an_item_that_is_announced_and_never_done_makes_no_empty_text() -> None:
    """Its place in the order of events stays empty."""
    result = read_pieces(WIRE, [sse_of(CREATED, added(0, {"type": "web_search_call", "id": "w"}), done(1, message("a")), END)])
    assert [block for block in result.reply.blocks if isinstance(block, Text)] == [Text("a", STATE)]


def test_a_refusal_is_text_and_the_reason_to_stop() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I won't"}]}
    for result in (
        whole(item),
        stream(
            CREATED,
            added(0, item | {"content": []}),
            delta("refusal", 0, "I ", content_index=0),
            delta("refusal", 0, "won't", content_index=0),
            done(0, item),
            END,
        ),
    ):
        assert (result.reply.blocks, result.reply.stop) == ((Text("I won't", {"refusal": True, "id": "msg_1"}),), "refusal")


def test_parts_of_a_message_are_blocks_and_unknown_ones_are_kept() -> None:
    annotation = {"type": "output_text", "text": "a", "annotations": [{"url": "u"}]}
    odd = {"type": "output_hologram", "data": 1}
    item = {
        "type": "message",
        "role": "assistant",
        "id": "m",
        "content": [annotation, {"type": "output_text", "text": "b"}, odd],
    }
    for result in (
        whole(item),
        stream(CREATED, delta("output_text", 0, "a"), delta("output_text", 0, "b", content_index=1), done(0, item), END),
    ):
        assert result.reply.blocks == (
            Text("a", {"part": {"annotations": [{"url": "u"}]}, "id": "m"}),
            Text("b", {"id": "m"}),
            Foreign(WIRE, {"type": "message", "role": "assistant", "id": "m", "content": [odd]}),
        )
    assert whole({"type": "message", "role": "assistant", "content": "plain"}).reply.blocks == (Text("plain"),)


@pytest.mark.parametrize(
    ("kind", "field", "part"),
    [("reasoning_summary_text", "summary", "summary_index"), ("reasoning_text", "content", "content_index")],
)
def test_parts_of_reasoning_are_paragraphs(kind: str, field: str, part: str) -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], field: [{"text": "ab"}, {"text": "c"}, {"text": "d"}]}
    result = stream(
        CREATED,
        added(0, {"type": "reasoning", "id": "rs", "summary": []}),
        delta(kind, 0, "a", **{part: 0}),
        delta(kind, 0, "b", **{part: 0}),
        delta(kind, 0, "c", **{part: 1}),
        delta(kind, 0, "d", **{part: 2}),
        done(0, item),
        END,
    )
    assert [block.text for block in result.reply.blocks if isinstance(block, Thinking)] == ["ab\n\nc\n\nd"]
    assert whole(item).reply.blocks == result.reply.blocks


def test_reasoning_that_is_never_done_has_no_state_of_ours() -> None:
    result = stream(CREATED, delta("reasoning_summary_text", 0, "hm", summary_index=0), done(1, message("a")), END)
    assert result.reply.blocks == (Thinking("hm"), Text("a", STATE))


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
