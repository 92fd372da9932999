"""Estimates of tokens by script, block and vendor."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.providers.tokens import (
    estimate_by_kind,
    estimate_message,
    estimate_text,
    estimate_tool,
    token_factor,
)
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import ToolDefinition

TEXTS = st.text(st.characters(codec=None), max_size=60)
ENGLISH = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. " * 20
BLOCKS: dict[str, tuple[Any, str, int]] = {
    "text": (Text("x" * 40), "text", 10),
    "a thought": (Thinking("x" * 40), "thinking", 10),
    "a call": (ToolCall("c", "name", {"a": 1}), "tool calls", 10 + 1 + 3),
    "a call as it came": (ToolCall("c", "name", None, "x" * 9), "tool calls", 10 + 1 + 3),
    "a result": (ToolResult("c", (Text("x" * 40),)), "tool results", 8 + 10),
    "an empty result": (ToolResult("c"), "tool results", 8),
    "a result with a picture": (
        ToolResult("c", (Text("x"), Media("image", "image/png", "AAAA"))),
        "tool results",
        8 + 1 + 1_500,
    ),
    "a picture": (Media("image", "image/png", "A" * 9_999), "media", 1_500),
    "a file that lies elsewhere": (Media("file", url="https://example.org/a.pdf"), "media", 1_500),
    "a file": (Media("file", "application/pdf", "A" * 16_000), "media", 300),
    "a sound": (Media("audio", "audio/wav", "A" * 16_000), "media", 300),
    "what only one wire knows": (Foreign("gemini", {"key": "x" * 20}), "other", 10),
}


class TestText:
    @pytest.mark.parametrize(("text", "tokens", "dense"), [
        ("", 0, 0),
        ("a", 1, 1),
        ("four", 1, 2),
        ("fives", 2, 2),
        ("a" * 120, 30, 40),
        ("日" * 10, 10, 10),
        ("é" * 8, 5, 6),
        ("я" * 8, 5, 6),
        ("😀" * 4, 6, 6),
        ("\ud800", 1, 1),
    ])  # fmt: skip
    def test_scripts(self, text: str, tokens: int, dense: int) -> None:
        assert (estimate_text(text), estimate_text(text, is_code=True)) == (tokens, dense)

    def test_english_estimate_is_close(self) -> None:
        """The words and the points are what any tokenizer makes at least."""
        words = len(ENGLISH.split()) + ENGLISH.count(",") + ENGLISH.count(".")
        assert words * 0.8 < estimate_text(ENGLISH) < words * 1.5

    @given(TEXTS)
    def test_tokens_are_between_one_and_the_bytes(self, text: str) -> None:
        tokens = estimate_text(text)
        assert bool(tokens) == bool(text)
        assert tokens <= estimate_text(text, is_code=True) <= len(text.encode("utf-8", "surrogatepass"))

    @given(TEXTS, TEXTS)
    def test_parts_add_up_to_the_whole(self, left: str, other: str) -> None:
        apart = estimate_text(left) + estimate_text(other)
        assert apart - 2 <= estimate_text(left + other) <= apart + 1


class TestMessages:
    @pytest.mark.parametrize(("block", "kind", "tokens"), BLOCKS.values(), ids=BLOCKS)
    def test_blocks(self, block: Any, kind: str, tokens: int) -> None:
        message = Message("user", (block,))
        assert estimate_message(message) == 4 + tokens
        assert estimate_by_kind(message) == {kind: 4 + tokens}

    def test_an_empty_message_has_overhead(self) -> None:
        empty = Message("assistant", ())
        assert (estimate_message(empty), estimate_by_kind(empty)) == (4, {"text": 4})

    @given(st.lists(st.sampled_from([block for block, _, _ in BLOCKS.values()]), max_size=6))
    def test_kinds_add_up_to_the_message(self, blocks: list[Any]) -> None:
        message = Message("assistant", tuple(blocks))
        assert sum(estimate_by_kind(message).values()) == estimate_message(message)

    def test_roles_do_not_matter(self) -> None:
        result = ToolResult("c", (Text("words"),))
        assert estimate_message(user("words")) == estimate_message(assistant("words"))
        assert estimate_message(tool_results(result)) == estimate_message(Message("user", (result,)))


class TestTools:
    @pytest.mark.parametrize(("tool", "tokens"), [
        (ToolDefinition("name"), 8 + 1),
        (ToolDefinition("name", "d" * 40), 8 + 1 + 10),
        (ToolDefinition("name", "", {"type": "object"}), 8 + 1 + 5),
    ])  # fmt: skip
    def test_tool(self, tool: ToolDefinition, tokens: int) -> None:
        assert estimate_tool(tool) == tokens

    def test_a_longer_schema_costs_more(self) -> None:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(20)},
        }
        assert estimate_tool(ToolDefinition("name", "", schema)) > 100


@pytest.mark.parametrize(("model", "factor"), [
    ("gpt-4o", 1.0),
    ("", 1.0),
    ("claude-sonnet-4-5", 1.2),
    ("anthropic/claude-opus-4-1", 1.2),
    ("gemini-3-pro-preview", 1.05),
    ("qwen3", 1.1),
    ("mixtral-8x7b", 1.1),
    ("mistral-large-latest", 1.1),
])  # fmt: skip
def test_model_factors(model: str, factor: float) -> None:
    assert token_factor(model) == factor
