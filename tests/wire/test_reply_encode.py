"""The five reply encoders: their frames, and what they do with state, content and media that not every wire
has.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from reply_writing import MODELS, each_way, each_wire, read, write, write_and_read, write_events

from toolglot.common.jsontext import loads
from toolglot.values.events import BlockReady, Event, ReplyDone, ReplyStarted, ToolCallReady
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Origin,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolglot.wire.framing import JsonStreamDecoder, SseDecoder

PIXEL = "iVBORw0KGgo="


def replay(reply: Reply, *, streaming: bool) -> Reply:
    """Return a reply of some wire, written for that wire and read again."""
    assert reply.origin is not None
    return write_and_read(reply.origin.wire, reply, streaming=streaming)


def own(wire: str, *blocks: Block, **fields: Any) -> Reply:
    return Reply(blocks, origin=Origin(wire, model=MODELS[wire]), id="id_1", **fields)


def frames(data: bytes) -> Iterator[tuple[str, Any]]:
    decoder = SseDecoder() if not data.startswith(b"{") else JsonStreamDecoder()
    for event, frame in [*decoder.feed(data), *decoder.close()]:
        yield event, frame if isinstance(frame, dict) or frame == b"[DONE]" else loads(frame)


# ---- frames

SMALL = Reply(
    (Thinking("hm"), Text("Hi"), ToolCall("c1", "f", {"a": 1}, '{"a":1}')),
    "tools",
    Usage(9, 5, 3, 2, 1),
    id="id_1",
)


def test_chat_sends_deltas_a_reason_the_usage_and_done() -> None:
    data, _ = write("openai-chat", SMALL, streaming=True)
    *chunks, last, done = (frame for _, frame in frames(data))
    head = {"id": "id_1", "object": "chat.completion.chunk", "created": 0, "model": "gpt-4.1"}
    assert all(head.items() <= chunk.items() for chunk in [*chunks, last])
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks] == [
        ({"role": "assistant", "content": ""}, None),
        ({"reasoning_content": "hm"}, None),
        ({"content": "Hi"}, None),
        ({"tool_calls": [call]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}, None),
        ({}, "tool_calls"),
    ]
    assert last["choices"] == []
    assert (
        last["usage"]["prompt_tokens"],
        last["usage"]["completion_tokens"],
        last["usage"]["total_tokens"],
    ) == (9, 5, 14)
    assert done == b"[DONE]"


def test_responses_announces_fills_and_closes_every_item() -> None:
    data, _ = write("openai-responses", SMALL, streaming=True)
    written = list(frames(data))
    assert [event.removeprefix("response.") for event, _ in written] == [
        *(
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
        ),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *(
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        ),
        "completed",
    ]
    assert [frame["sequence_number"] for _, frame in written] == list(range(len(written)))
    assert all(event == frame["type"] for event, frame in written)
    added = {
        frame["output_index"]: frame["item"]["id"] for event, frame in written if event.endswith("item.added")
    }
    assert all(added[frame["output_index"]] == frame["item_id"] for _, frame in written if "item_id" in frame)
    assert [item["id"] for item in written[-1][1]["response"]["output"]] == list(added.values())


def test_anthropic_opens_fills_and_closes_every_block() -> None:
    data, _ = write("anthropic-messages", SMALL, streaming=True)
    written = list(frames(data))
    assert all(event == frame["type"] for event, frame in written)
    assert [frame for _, frame in written[1:-2]] == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": "", "citations": None},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {
                "type": "tool_use",
                "id": "c1",
                "name": "f",
                "input": {},
                "caller": {"type": "direct"},
            },
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
        },
        {"type": "content_block_stop", "index": 2},
    ]
    assert [frame["type"] for _, frame in (written[0], *written[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert written[-2][1]["delta"] == {
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    assert written[-2][1]["usage"]["input_tokens"] == 4  # neither cached nor written


def test_gemini_sends_parts_and_calls_whole() -> None:
    data, _ = write("gemini", SMALL, streaming=True)
    *earlier, last = (frame for _, frame in frames(data))
    assert [frame["candidates"][0]["content"]["parts"] for frame in earlier] == [
        [{"text": "hm", "thought": True}],
        [{"text": "Hi"}],
        [{"functionCall": {"name": "f", "args": {"a": 1}, "id": "c1"}}],
    ]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"] == {
        "promptTokenCount": 9,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 1,
        "cachedContentTokenCount": 3,
        "totalTokenCount": 14,
    }


def test_ollama_sends_lines_and_calls_whole() -> None:
    data, _ = write("ollama-chat", SMALL, streaming=True)
    *earlier, last = (loads(line) for line in data.splitlines())
    assert [frame["message"] for frame in earlier] == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "Hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
    ]
    assert [frame["done"] for frame in [*earlier, last]] == [False, False, False, True]
    assert (last["done_reason"], last["prompt_eval_count"], last["eval_count"]) == ("stop", 9, 5)


@each_wire
def test_blocks_that_come_whole_are_written_like_any_other(wire: str) -> None:
    """A decoder may tell a block only when it is ready, without a delta before."""
    text, thought, call = Text("Hi"), Thinking("hm"), ToolCall("c1", "f", {"a": 1}, '{"a":1}')
    reply = Reply((thought, text, call), "tools")
    events: list[Event] = [
        ReplyStarted("r", "m"),
        BlockReady(0, thought),
        BlockReady(1, text),
        ToolCallReady(2, call),
    ]
    decoded = write_events(wire, [*events, ReplyDone(reply)])
    assert decoded.text == "Hi"
    assert [block.text for block in decoded.blocks if isinstance(block, Thinking)] == ["hm"]
    assert [(call.id, call.name, call.arguments) for call in decoded.calls] == [("c1", "f", {"a": 1})]


# ---- state of the origin

SECRET = "c2VjcmV0LXN0YXRl"
SAID = Text("x", {"part": {"annotations": []}, "id": "msg_1", "status": "completed"})
SIGNED = ToolCall("c1", "f", {}, opaque={"thoughtSignature": SECRET, "id": "c1"})
STATEFUL = {
    "openai-chat": own(
        "openai-chat",
        Text("x"),
        opaque={"reasoning_details": [{"type": "reasoning.encrypted", "data": SECRET}]},
    ),
    "openai-responses": own(
        "openai-responses", Thinking("", {"id": "rs_1", "summary": [], "encrypted_content": SECRET}), SAID
    ),
    "anthropic-messages": own("anthropic-messages", Thinking("hm", {"signature": SECRET}), Text("x")),
    "gemini": own("gemini", Text("x", {"thoughtSignature": SECRET}), SIGNED, stop="tools"),
}


@each_way
@each_wire
@pytest.mark.parametrize("origin", STATEFUL)
def test_state_goes_to_its_own_wire_and_to_no_other(origin: str, wire: str, streaming: bool) -> None:
    data, _ = write(wire, STATEFUL[origin], streaming=streaming)
    assert (SECRET.encode() in data) == (wire == origin)


@each_way
@pytest.mark.parametrize("wire", ["anthropic-messages", "gemini"])
def test_state_that_is_bound_to_a_model_stays_with_it(wire: str, streaming: bool) -> None:
    other = msgspec.structs.replace(STATEFUL[wire], origin=Origin(wire, model="another-model"))
    data, _ = write(wire, other, streaming=streaming)
    assert SECRET.encode() not in data


@each_way
@pytest.mark.parametrize("reply", [
    *STATEFUL.values(),
    own("anthropic-messages", Thinking("", {"redacted": SECRET}), Thinking("", {"signature": SECRET}), Text("x")),
    own("anthropic-messages", Text("x", {"citations": [{"cited_text": "a"}, {"cited_text": "b"}]})),
    own("anthropic-messages", Text("x"), opaque={"container": {"id": "c1"}}),
    own("gemini", Thinking("hm", {"thoughtSignature": SECRET}), Text("x"), opaque={"groundingMetadata": {"a": 1}}),
    own("openai-chat", Thinking("hm", {"field": "reasoning"}), Text("x"), opaque={"annotations": [{"type": "url_citation"}]}),
    own("openai-chat", Text("No.", {"refusal": True}), stop="refusal"),
    own("openai-responses", Text("No.", {"refusal": True, "id": "msg_1", "status": "completed"}), stop="refusal"),
    own("openai-responses", ToolCall("c1", "f", {}, "{}", False, "ns", {"id": "fc_1", "status": "completed"}), stop="tools"),
    own("openai-responses", ToolCall("c1", "p", None, "+a", True, "", {"id": "ctc_1", "status": "completed"}), stop="tools"),
], ids=lambda reply: f"{reply.origin.wire}-{type(reply.blocks[0]).__name__}-{reply.stop}")  # fmt: skip
def test_a_reply_of_a_wire_is_replayed_whole(reply: Reply, streaming: bool) -> None:
    assert replay(reply, streaming=streaming) == reply


@each_way
@pytest.mark.parametrize("fields", [{}, {"name": "sh"}], ids=["nameless", "named"])
def test_a_built_in_call_of_responses_is_replayed_as_its_item(
    fields: dict[str, str], streaming: bool
) -> None:
    action: dict[str, Any] = {"type": "exec", "command": ["ls"], "env": {}}
    item: dict[str, Any] = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c1",
        "status": "completed",
        "action": action,
        **fields,
    }
    reply = own(
        "openai-responses", ToolCall("c1", "local_shell", action, opaque={"item": item}), stop="tools"
    )
    assert replay(reply, streaming=streaming) == reply


@each_way
def test_a_blocked_prompt_of_gemini_has_no_candidate(streaming: bool) -> None:
    reply = own("gemini", stop="filtered", opaque={"promptFeedback": {"blockReason": "SAFETY"}})
    data, _ = write("gemini", reply, streaming=streaming)
    assert b'"candidates"' not in data
    assert replay(reply, streaming=streaming) == reply


@each_way
def test_readable_state_is_a_loss_elsewhere(streaming: bool) -> None:
    reply = own("anthropic-messages", Text("x", {"citations": [{"cited_text": "a"}]}))
    _, answer = write("openai-responses", reply, streaming=streaming)
    assert {loss.subject for loss in answer.losses} == {"citations"}


# ---- content of one wire only

ITEMS = {
    "openai-chat": {"type": "reference", "reference_ids": [1]},
    "openai-responses": {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    "anthropic-messages": {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
    },
    "gemini": {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
}


@each_way
@pytest.mark.parametrize("wire", ITEMS)
def test_foreign_content_comes_back_on_its_own_wire_or_is_a_loss(wire: str, streaming: bool) -> None:
    reply = own(wire, Foreign(wire, ITEMS[wire]), Text("x"))
    data, answer = write(wire, reply, streaming=streaming)
    decoded = read(wire, data, streaming=streaming)
    assert decoded.text == "x"
    comes_back = [block for block in decoded.blocks if isinstance(block, Foreign)] == [reply.blocks[0]]
    assert comes_back == (not answer.losses)


@each_way
@each_wire
def test_foreign_content_of_another_wire_is_a_loss_and_the_rest_is_sent(wire: str, streaming: bool) -> None:
    data, answer = write(
        wire, Reply((Foreign("elsewhere", {"type": "odd", "data": SECRET}), Text("x"))), streaming=streaming
    )
    assert read(wire, data, streaming=streaming).text == "x"
    assert SECRET.encode() not in data
    assert [(loss.subject, loss.where) for loss in answer.losses] == [("content", "reply")]


@each_wire
def test_a_stray_result_is_no_part_of_an_answer(wire: str) -> None:
    data, _ = write(wire, Reply((ToolResult("c1", (Text(SECRET),)), Text("x"))), streaming=False)
    assert SECRET.encode() not in data
    assert read(wire, data, streaming=False).text == "x"


# ---- media

MEDIA = {
    "image": Media("image", "image/png", PIXEL),
    "image-url": Media("image", "image/png", url="https://example.org/a.png"),
    "audio": Media("audio", "audio/mpeg", PIXEL),
    "file-id": Media("file", "application/pdf", file_id="file_1"),
}


@each_way
@pytest.mark.parametrize("name", MEDIA)
@each_wire
def test_media_is_read_again_as_what_it_was_or_is_a_loss(wire: str, name: str, streaming: bool) -> None:
    media = MEDIA[name]
    data, answer = write(wire, Reply((Text("see"), media)), streaming=streaming)
    decoded = read(wire, data, streaming=streaming)
    media_blocks = [
        (block.kind, block.data, block.url) for block in decoded.blocks if isinstance(block, Media)
    ]
    # image_generation_call
    drawn = [block.item.get("result") for block in decoded.blocks if isinstance(block, Foreign)]
    comes_back = media_blocks == [(media.kind, media.data, media.url)] or drawn == [PIXEL]
    assert comes_back == (not answer.losses)


@each_way
@each_wire
def test_two_images_stay_two(wire: str, streaming: bool) -> None:
    reply = Reply((Media("image", "image/png", PIXEL), Media("image", "image/gif", "R0lGODlh")))
    data, answer = write(wire, reply, streaming=streaming)
    decoded = read(wire, data, streaming=streaming)
    images = [block for block in decoded.blocks if isinstance(block, Media | Foreign)]
    assert len(images) + len(answer.losses) == 2
