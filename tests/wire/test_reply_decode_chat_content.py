"""Chat Completions: reasoning under its many names, content that is no text, fields that only one server knows."""

from typing import Any

import pytest
from reply_reading import Doc, Result, read, read_whole, sse_of

from toolglot.messages import Foreign, Media, Text, Thinking

WIRE = "openai-chat"


def chunk(delta: Any, reason: str | None = None) -> Doc:
    return {"id": "c1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


END = chunk({}, "stop")


def stream(*docs: Doc) -> Result:
    return read(WIRE, sse_of(*docs))


def whole(message: Doc) -> Result:
    return read_whole(WIRE, {"id": "c1", "model": "m1", "choices": [{"message": message, "finish_reason": "stop"}]})


# ---- reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
def test_reasoning_under_each_of_its_names(field: str) -> None:
    result = stream(chunk({field: "h"}), chunk({field: "m", "content": ""}), chunk({"content": "a"}), END)
    assert result.reply.blocks == (Thinking("hm", {"field": field}), Text("a"))


def test_one_text_under_two_names_is_said_once() -> None:
    result = stream(
        chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"reasoning": "!", "reasoning_content": "!"}), END
    )
    assert result.reply.blocks == (Thinking("hm!", {"field": "reasoning_content"}),)


def test_copilots_cipher_is_kept_with_the_message() -> None:
    result = stream(chunk({"reasoning_text": "hm"}), chunk({"reasoning_opaque": "cipher"}), chunk({"content": "a"}), END)
    assert result.reply.blocks == (Thinking("hm", {"field": "reasoning_text"}), Text("a"))
    assert result.reply.opaque == {"reasoning_opaque": "cipher"}


def test_fragments_of_reasoning_details_are_joined_by_type_and_index() -> None:
    result = stream(
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a", "format": "x", "signature": None}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s1", "text": None}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s2"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "id": "k", "data": "x"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "id": "l", "data": "y"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.summary", "index": 1, "summary": "p"}, "odd"]}),
        chunk({"reasoning_details": [{"type": "reasoning.summary", "index": 1, "summary": "q"}]}),
        END,
    )
    assert result.reply.opaque == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "format": "x", "signature": "s2"},
            {"type": "reasoning.encrypted", "index": 1, "id": "k", "data": "x"},
            {"type": "reasoning.encrypted", "index": 1, "id": "l", "data": "y"},
            {"type": "reasoning.summary", "index": 1, "summary": "pq"},
        ]
    }


# ---- content that is no text


def test_mistrals_content_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]}
    parts = [thought, {"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}]
    for result in (
        stream(chunk({"content": parts}), chunk({"content": "b"}), END),
        whole({"content": [*parts, {"type": "text", "text": "b"}]}),
    ):
        thinking, text, foreign = result.reply.blocks
        assert thinking == Thinking("hm", {"field": "thinking_part"})
        assert (text, foreign) == (Text("ab"), Foreign(WIRE, {"type": "reference", "reference_ids": [1]}))
    assert stream(chunk({"content": [{"type": "thinking", "thinking": "hm"}, 7]}), END).reply.blocks[0] == thinking


def test_the_signature_of_mistrals_thinking_is_kept() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "sig"}
    (thinking,) = stream(chunk({"content": [part]}), END).reply.blocks
    assert isinstance(thinking, Thinking)
    assert "sig" in (thinking.opaque or {}).values()


def test_content_as_a_json_value_is_its_text() -> None:
    assert stream(chunk({"content": {"a": 1}}), END).reply.blocks == (Text('{"a":1}'),)


def image(url: Any, **fields: Any) -> Doc:
    return {"type": "image_url", "image_url": {"url": url}, **fields}


def test_generated_images_are_media() -> None:
    png, link = Media("image", "image/png", "AA=="), Media("image", url="https://x/y.png")
    odd = image(7)
    result = stream(chunk({"images": [image("data:image/png;base64,AA=="), image("https://x/y.png"), odd]}), END)
    assert result.reply.blocks == (png, link, Foreign(WIRE, odd))


def test_images_of_several_deltas_are_all_kept() -> None:
    deltas = [chunk({"images": [image(f"https://x/{number}", index=number)]}) for number in range(2)]
    assert stream(*deltas, END).reply.blocks == (Media("image", url="https://x/0"), Media("image", url="https://x/1"))


def test_other_fields_of_the_message_are_kept_for_the_way_back() -> None:
    result = stream(
        chunk({"content": "a", "annotations": [{"n": 1}], "audio": {"id": "au"}, "executed_tools": "x"}),
        chunk({"annotations": [{"n": 2}], "audio": {"expires_at": 9}}),
        END,
    )
    want = {"annotations": [{"n": 1}, {"n": 2}], "audio": {"id": "au", "expires_at": 9}, "executed_tools": "x"}
    assert result.reply.opaque == want
