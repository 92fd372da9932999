"""Estimates token counts without a tokenizer. The first real count corrects the estimates (`loop.context`).

Latin text has about four characters per token, code and JSON about three, other scripts one or two (OpenAI's
tokenizer guide). Vendors differ by a factor.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from toolglot.common.jsontext import dumps
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import ToolDefinition

__all__ = ["estimate_by_kind", "estimate_message", "estimate_text", "estimate_tool", "token_factor"]

_MESSAGE_OVERHEAD = 4  # role and separators
_IMAGE_TOKENS = 1_500  # an image of usual size; vendors scale larger ones down
_MEDIA_BYTES_PER_TOKEN = 40  # of a document or audio
# Tokens relative to OpenAI's tokenizer. Anthropic documents that its own makes more of the same text.
_MODEL_FACTORS = ((r"claude", 1.2), (r"gemini|gemma", 1.05), (r"qwen|deepseek|kimi|llama|mi[sx]tral", 1.1))


@cache
def token_factor(model: str) -> float:
    """Return how many tokens a model makes of a text, relative to OpenAI's."""
    return next((factor for pattern, factor in _MODEL_FACTORS if re.search(pattern, model)), 1.0)


def estimate_text(text: str, *, is_code: bool = False) -> int:
    """Estimate the tokens of a text."""
    length = len(text)
    if text.isascii():
        return -(-length // (3 if is_code else 4))
    # an accented letter counts half, an ideogram one
    wide = (len(text.encode("utf-8", "surrogatepass")) - length) // 2
    return -(-max(0, length - wide) // (3 if is_code else 4)) + wide


def estimate_tool(tool: ToolDefinition) -> int:
    """Estimate the tokens of a tool's definition."""
    return (
        8
        + estimate_text(tool.name)
        + estimate_text(tool.description)
        + len(dumps(tool.parameters or {})) // 3
    )


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message."""
    tokens = _MESSAGE_OVERHEAD
    for block in message.blocks:
        tokens += _ESTIMATES[type(block)](block)
    return tokens


def estimate_by_kind(message: Message) -> dict[str, int]:
    """Estimate the tokens of a message by kind: text, thinking, tool calls, tool results, media."""
    counts: dict[str, int] = {}
    for block in message.blocks:
        kind = _KINDS[type(block)]
        counts[kind] = counts.get(kind, 0) + _ESTIMATES[type(block)](block)
    kind = next(iter(counts), "text")
    counts[kind] = counts.get(kind, 0) + _MESSAGE_OVERHEAD
    return counts


def _estimate_call(call: ToolCall) -> int:
    return 10 + estimate_text(call.name) + estimate_text(call.text, is_code=True)


def _estimate_result(result: ToolResult) -> int:
    tokens = 8
    for part in result.content:
        tokens += estimate_text(part.text) if type(part) is Text else _ESTIMATES[type(part)](part)
    return tokens


def _estimate_change(change: ToolsChanged) -> int:
    return sum([estimate_tool(tool) for tool in change.added]) + 8 * (
        len(change.loaded) + len(change.removed)
    )


def _estimate_media(media: Media) -> int:
    if media.kind == "image" or not media.data:
        return _IMAGE_TOKENS
    return len(media.data) * 3 // 4 // _MEDIA_BYTES_PER_TOKEN


_KINDS: dict[type[Block], str] = {
    Text: "text",
    Thinking: "thinking",
    ToolCall: "tool calls",
    ToolResult: "tool results",
    Media: "media",
    ToolsChanged: "tools",
    Foreign: "other",
}
# By type instead of `match`: one of these runs for every block of every request.
_ESTIMATES: dict[type[Block], Callable[[Any], int]] = {
    Text: lambda block: estimate_text(block.text),
    Thinking: lambda block: estimate_text(block.text),
    ToolCall: _estimate_call,
    ToolsChanged: _estimate_change,
    ToolResult: _estimate_result,
    Media: _estimate_media,
    Foreign: lambda block: len(dumps(block.item)) // 3,
}
