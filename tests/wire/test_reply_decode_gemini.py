"""Gemini generateContent: parts, parallel calls an event each, streamed arguments, and answers that were blocked."""

import json
from typing import Any

import pytest
from reply_reading import Doc, Result, lines_of, read, read_pieces, read_whole, sse_of

from toolglot.errors import MalformedReply, Overloaded, RateLimited, TruncatedStream
from toolglot.events import BlockReady, ReplyDone, ReplyStarted, TextDelta, ThinkingDelta, ToolCallReady, ToolCallStarted
from toolglot.losses import Loss
from toolglot.messages import Foreign, Media, Origin, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.gemini.reply_decode import snake_to_camel

WIRE = "gemini"


def event(*parts: Doc, reason: Any = None, candidate: Doc | None = None, **top: Any) -> Doc:
    content: Doc = {"content": {"role": "model", "parts": list(parts)}, **(candidate or {})}
    content |= {"finishReason": reason} if reason is not None else {}
    return {"candidates": [content], "modelVersion": "m1", "responseId": "r1", **top}


def call(name: str | None = None, args: Any = None, part: Doc | None = None, **fields: Any) -> Doc:
    body = {key: value for key, value in (("name", name), ("args", args)) if value is not None}
    return {"functionCall": body | fields, **(part or {})}


def piece(path: str, *, more: bool = True, **value: Any) -> Doc:
    return call(partialArgs=[{"jsonPath": path, **value}], willContinue=more)


END = event(reason="STOP")


def stream(*docs: Doc) -> Result:
    return read(WIRE, sse_of(*docs))


# ---- the usual stream


def test_thinking_text_and_a_call_with_their_events() -> None:
    result = stream(
        event({"text": "h", "thought": True}),
        event({"text": "m", "thought": True}),
        event({"text": "a"}),
        event({"text": "b"}),
        event(call("get", {"x": 1}, id="c1", part={"thoughtSignature": "s"})),
        event(reason="STOP", usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 7}),
    )
    made = ToolCall("c1", "get", {"x": 1}, opaque={"thoughtSignature": "s", "id": "c1"})
    assert result.events == [
        ReplyStarted("r1", "m1"),
        ThinkingDelta(0, "h"),
        ThinkingDelta(0, "m"),
        BlockReady(0, Thinking("hm")),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        BlockReady(1, Text("ab")),
        ToolCallStarted(2, "c1", "get", opaque={"thoughtSignature": "s", "id": "c1"}),
        ToolCallReady(2, made),
        ReplyDone(result.reply),
    ]
    assert (result.reply.blocks, result.reply.stop) == ((Thinking("hm"), Text("ab"), made), "tools")
    assert (result.reply.id, result.reply.origin, result.reply.usage) == ("r1", Origin(WIRE, model="m1"), Usage(5, 7))


F, G = call("f", {"x": 1}), call("f", {"x": 2})
CALLS: dict[str, list[Doc]] = {
    "an event each": [event(F), event(G)],
    "an event each, with reasons": [event(F, reason="STOP"), event(G, reason="STOP")],
    "one event": [event(F, G)],
    "one event, with the end": [event(F, G, reason="STOP")],
    "between texts": [event({"text": "a"}, F, {"text": "b"}), event(G)],
    "ids": [event(call("f", {"x": 1}, id="a")), event(call("f", {"x": 2}, id="b"))],
    "one id for both": [event(call("f", {"x": 1}, id="a")), event(call("f", {"x": 2}, id="a"))],
    "empty ids": [event(call("f", {"x": 1}, id=""), call("f", {"x": 2}, id=""))],
}


@pytest.mark.parametrize("docs", CALLS.values(), ids=CALLS.keys())
def test_parallel_calls_of_one_name_stay_two(docs: list[Doc]) -> None:
    for result in (
        stream(*docs, END),
        read(WIRE, json.dumps([*docs, END], indent=1).encode()),
        read(WIRE, lines_of(*docs, END)),
    ):
        assert result.said == [("f", {"x": 1}), ("f", {"x": 2})]
        assert result.reply.stop == "tools"


def test_two_equal_calls_without_ids_get_different_ones() -> None:
    result = stream(event(F), event(F), END)
    assert len({made.id for made in result.reply.calls}) == 2
    assert [made.opaque for made in result.reply.calls] == [None, None]


@pytest.mark.parametrize("args", [None, {}], ids=["missing", "empty"])
def test_a_call_without_arguments(args: Any) -> None:
    result = stream(event(call("f", args)), END)
    assert (result.call.arguments, result.call.raw) == ({}, None)


# ---- arguments in pieces (Vertex)


def test_arguments_that_come_as_paths_and_values() -> None:
    result = stream(
        event(call("f", willContinue=True, id="c")),
        event(piece("$.city", stringValue="Par")),
        event(piece("$.city", stringValue="is")),
        event(piece("$.days[0].n", numberValue=1), piece("$.days[1].n", numberValue=2.5)),
        event(piece("$.deep.er[0]", boolValue=True), piece("$.deep.er[1]", nullValue=None)),
        event(piece("$['a.b'].c", stringValue="q")),
        event(call()),
        event({"text": "x"}),
        END,
    )
    assert result.call.arguments == {
        "city": "Paris",
        "days": [{"n": 1}, {"n": 2.5}],
        "deep": {"er": [True, None]},
        "a.b": {"c": "q"},
    }
    assert (result.call.id, result.call.name, result.reply.text) == ("c", "f", "x")


def test_pieces_of_two_calls_do_not_mix() -> None:
    one = [event(call("f", willContinue=True)), event(piece("$.x", stringValue="1")), event(call())]
    two = [event(call("g", willContinue=True)), event(piece("$.x", stringValue="2", more=False))]
    assert stream(*one, *two, event(F), END).said == [("f", {"x": "1"}), ("g", {"x": "2"}), ("f", {"x": 1})]


def test_a_call_that_never_ends_its_pieces_is_closed_by_what_follows() -> None:
    for after in (event({"text": "a"}, reason="STOP"), event(reason="MAX_TOKENS")):
        result = stream(event(call("f", willContinue=True)), event(piece("$.x[0]", stringValue="1")), after)
        assert result.said == [("f", {"x": ["1"]})]


def test_a_signature_of_a_piece_is_kept() -> None:
    result = stream(
        event(call("f", willContinue=True, part={"thoughtSignature": "s"})),
        event(piece("$.x", numberValue=1)),
        event(call()),
        END,
    )
    assert result.call.opaque == {"thoughtSignature": "s"}


def test_a_piece_without_a_path_changes_nothing() -> None:
    assert stream(event(call("f", {"x": 1}, partialArgs=[{"jsonPath": "$", "stringValue": "y"}])), END).said == [
        ("f", {"x": 1})
    ]


# ---- texts and signatures


def test_a_signature_ends_a_text_and_is_kept_with_it() -> None:
    result = stream(event({"text": "a"}), event({"text": "b", "thoughtSignature": "s"}), event({"text": "c"}), END)
    assert result.reply.blocks == (Text("ab", {"thoughtSignature": "s"}), Text("c"))


def test_a_signature_on_an_empty_text_is_kept() -> None:
    result = stream(event({"text": "a"}), event({"text": "", "thoughtSignature": "s"}, reason="STOP"))
    assert [block.opaque for block in result.reply.blocks if isinstance(block, Text)] == [{"thoughtSignature": "s"}]
    result = stream(event(F), event({"text": "", "thoughtSignature": "s"}, reason="STOP"))
    assert result.reply.blocks[1] == Text("", {"thoughtSignature": "s"})


def test_empty_texts_are_padding() -> None:
    result = stream(
        event({"text": ""}), event({"text": "a"}), event({"text": ""}), event({"text": "b"}), event({"text": ""}, reason="STOP")
    )
    assert result.reply.blocks == (Text("ab"),)
    assert stream(event({"text": ""}, reason="STOP")).reply.blocks == ()


def test_texts_and_thoughts_take_turns() -> None:
    parts: list[Doc] = [
        {"text": "h", "thought": True},
        {"text": "a", "thought": False},
        {"text": "m", "thought": True},
        {"text": "b"},
    ]
    for result in (stream(*map(event, parts), END), stream(event(*parts, reason="STOP"))):
        assert result.reply.blocks == (Thinking("h"), Text("a"), Thinking("m"), Text("b"))


# ---- other parts


@pytest.mark.parametrize("part", [
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}, "thoughtSignature": "s"},
    {"toolCall": {"toolType": "x", "id": "t", "args": {}}}, {"toolResponse": {"id": "t"}},
    {"ofNextYear": {"name": "f", "args": {}}}, {"thoughtSignature": "s"}, {},
], ids=["code", "result", "tool call", "tool response", "new", "only a signature", "nothing"])  # fmt: skip
def test_a_part_of_the_server_is_kept_whole_and_never_a_call(part: Doc) -> None:
    result = stream(event({"text": "a"}), event(part), event({"text": "b"}), END)
    assert result.reply.blocks == (Text("a"), Foreign(WIRE, part), Text("b"))
    assert result.reply.stop == "end"


@pytest.mark.parametrize(("part", "media"), [
    ({"inlineData": {"mimeType": "image/png", "data": "AA=="}}, Media("image", "image/png", "AA==")),
    ({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}}, Media("audio", "audio/wav", "AA==")),
    ({"inlineData": {"data": "AA=="}}, Media("file", "", "AA==")),
    ({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://x", "displayName": "n"}},
        Media("file", "application/pdf", url="gs://x", name="n")),
    ({"inlineData": {"mimeType": "video/mp4", "data": "AA==", "fps": 2}, "thoughtSignature": "s"},
        Media("video", "video/mp4", "AA==", opaque={"thoughtSignature": "s", "source": {"fps": 2}})),
], ids=["image", "audio", "no type", "file", "state"])  # fmt: skip
def test_data_is_media(part: Doc, media: Media) -> None:
    assert stream(event(part), END).reply.blocks == (media,)


# ---- how it ends


@pytest.mark.parametrize(("reason", "stop"), [
    ("STOP", "end"),
    ("MAX_TOKENS", "length"),
    ("SAFETY", "filtered"),
    ("RECITATION", "filtered"),
    ("LANGUAGE", "filtered"),
    ("BLOCKLIST", "filtered"),
    ("PROHIBITED_CONTENT", "filtered"),
    ("SPII", "filtered"),
    ("IMAGE_SAFETY", "filtered"),
    ("CONTINUATION", "pause"),
    ("OTHER", "error"),
    ("MALFORMED_FUNCTION_CALL", "error"),
    ("UNEXPECTED_TOOL_CALL", "error"),
    ("TOO_MANY_TOOL_CALLS", "error"),
    ("MALFORMED_RESPONSE", "error"),
    ("OF_NEXT_YEAR", "error"),
    (1, "end"),
    (2, "length"),
    (3, "filtered"),
    (4, "filtered"),
    (5, "error"),
])  # fmt: skip
def test_why_it_stopped(reason: Any, stop: StopReason) -> None:
    assert stream(event({"text": "a"}), event(reason=reason)).reply.stop == stop
    assert read_whole(WIRE, event({"text": "a"}, reason=reason)).reply.stop == stop


@pytest.mark.parametrize(
    "candidate",
    [{"finishReason": "SAFETY"}, {"finishReason": "SAFETY", "content": {}}, {"finishReason": "SAFETY", "content": None}],
)
def test_a_candidate_may_have_no_content(candidate: Doc) -> None:
    result = stream(event({"text": "a"}), {"candidates": [candidate]})
    assert (result.reply.blocks, result.reply.stop) == ((Text("a"),), "filtered")


def test_a_blocked_prompt_is_a_reply_that_was_filtered() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT"}
    body: Doc = {"promptFeedback": feedback, "modelVersion": "m1"}
    for reply in (stream(body).reply, read_whole(WIRE, body).reply):
        assert (reply.blocks, reply.stop, reply.opaque) == ((), "filtered", {"promptFeedback": feedback})
    with pytest.raises(TruncatedStream):
        read_pieces(WIRE, [sse_of({"promptFeedback": {"safetyRatings": []}})])


NO_PARTS: dict[str, Doc] = {
    "usage": {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m1", "responseId": "r1"},
    "empty": {"candidates": [], "modelVersion": "m1", "responseId": "r1"},
    "null": {"candidates": None, "modelVersion": "m1", "responseId": "r1"},
    "empty candidate": {"candidates": [{}], "modelVersion": "m1", "responseId": "r1"},
    "no parts": {"candidates": [{"content": {"role": "model"}, "index": 0}]},
    "nothing": {},
}


@pytest.mark.parametrize("doc", NO_PARTS.values(), ids=NO_PARTS.keys())
def test_an_event_without_parts_changes_nothing(doc: Doc) -> None:
    docs = [event({"text": "a"}), event({"text": "b"}), event(F), END]
    want = stream(*docs).reply
    for at in range(len(docs) + 1):
        reply = stream(*docs[:at], doc, *docs[at:]).reply
        assert (reply.blocks, reply.stop, reply.id, reply.origin) == (want.blocks, want.stop, want.id, want.origin)
    with pytest.raises(TruncatedStream):
        read_pieces(WIRE, [sse_of(event({"text": "a"}), doc)])


def test_an_id_or_a_model_alone_is_known() -> None:
    end: Doc = {"candidates": END["candidates"]}
    assert stream(end | {"responseId": "r1"}).reply.id == "r1"
    assert stream(end | {"modelVersion": "m1"}).reply.origin == Origin(WIRE, model="m1")
    reply = stream(end | {"responseId": "r1"}, end | {"modelVersion": "m1"}).reply
    assert (reply.id, reply.origin) == ("r1", Origin(WIRE, model="m1"))


def test_only_the_first_candidate_is_read_and_the_others_are_a_loss() -> None:
    two = event({"text": "a"}) | {"candidates": [*event({"text": "a"})["candidates"], *event({"text": "B"})["candidates"]]}
    result = stream(two, two, END)
    assert result.reply.text == "aa"
    assert result.losses == [Loss("candidates", "reply", "only the first candidate is read")]
    assert stream(event({"text": "a"}), END).losses == []


@pytest.mark.parametrize(
    "field", ["groundingMetadata", "citationMetadata", "urlContextMetadata", "continuationToken", "finishMessage"]
)
def test_state_of_the_candidate_is_kept_wherever_it_comes(field: str) -> None:
    for docs in (
        [event({"text": "a"}, candidate={field: {"x": 1}}), END],
        [event({"text": "a"}), event(reason="STOP", candidate={field: {"x": 1}})],
    ):
        assert stream(*docs).reply.opaque == {field: {"x": 1}}


def test_usage_the_last_counts_and_output_includes_the_thoughts() -> None:
    usage: Doc = {
        "promptTokenCount": 9,
        "cachedContentTokenCount": 3,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 2,
        "toolUsePromptTokenCount": 1,
    }
    result = stream(event({"text": "a"}, usageMetadata={"promptTokenCount": 7}), event(reason="STOP", usageMetadata=usage))
    assert result.reply.usage == Usage(input=10, output=6, cached=3, reasoning=2)
    assert read_whole(WIRE, event({"text": "a"}, reason="STOP", usageMetadata=usage)).reply.usage == result.reply.usage


def test_a_whole_body_may_lack_its_reason() -> None:
    assert read_whole(WIRE, event({"text": "a"}, F)).reply.stop == "tools"


def test_names_of_fields_in_both_spellings() -> None:
    assert [snake_to_camel(name) for name in ("function_call", "text", "a_b_cD", "thought")] == [
        "functionCall",
        "text",
        "aBCD",
        "thought",
    ]


def test_bare_json_errors_in_the_middle() -> None:
    body = json.dumps({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}, indent=2).encode()
    for end in (b"\n", b"\r\n"):
        answer = (sse_of(event({"text": "a"})) + body + b"\n").replace(b"\n", end)
        with pytest.raises(Overloaded, match="overloaded"):
            read_pieces(WIRE, [answer])
    listed = json.dumps([{"error": {"code": 429, "message": "wait", "details": [{"retryDelay": "7s"}]}}]).encode()
    for streaming in (True, False):
        with pytest.raises(RateLimited, match="wait") as caught:
            read_pieces(WIRE, [listed], streaming=streaming)
        assert caught.value.retry_after == 7.0


@pytest.mark.parametrize("doc", [
    {"candidates": [None]}, {"candidates": {"a": 1}}, {"candidates": [{"content": {"parts": [None]}}]},
    {"candidates": [{"content": {"parts": 7}}]}, {"candidates": [{"content": "text"}]}, event({"text": 7}),
    event({"text": ["a"]}), event({"functionCall": "f"}), event({"inlineData": "x"}),
    event(call("f", partialArgs=[{"stringValue": "x"}])), event(call("f", partialArgs=[{"jsonPath": 7}])),
    event(call("f", {"a": "x"}, partialArgs=[{"jsonPath": "$.a.b", "stringValue": "x"}])),
    event(call("f", partialArgs=[{"jsonPath": f"$.a[{'9' * 5000}]", "stringValue": "x"}])), event(reason=["STOP"]),
    {"promptFeedback": "no"}, event({"text": "a"}, usageMetadata="no"),
])  # fmt: skip
def test_wrong_shapes_are_malformed(doc: Doc) -> None:
    with pytest.raises(MalformedReply):
        read_pieces(WIRE, [sse_of(doc, END)])
