"""Estimates token counts without a tokenizer. The first real count corrects the estimates (`loop.context`).

Latin text has about four characters per token, code and JSON about three, other scripts one or two (OpenAI's tokenizer guide).
Vendors differ by a factor.
"""

import re
from functools import cache

from toolglot.jsontext import dumps
from toolglot.messages import Foreign, Media, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.request import ToolDefinition

__all__ = ["estimate_by_kind", "estimate_message", "estimate_text", "estimate_tool", "token_factor"]

_MESSAGE_OVERHEAD = 4  # role and separators
_IMAGE_TOKENS = 1_500  # an image of usual size; vendors scale larger ones down
_MEDIA_BYTES_PER_TOKEN = 40  # of a document or audio
# Tokens relative to OpenAI's tokenizer. Anthropic documents that its own makes more of the same text.
_MODEL_FACTORS = ((r"claude", 1.2), (r"gemini|gemma", 1.05), (r"qwen|deepseek|kimi|llama|mi[sx]tral", 1.1))
_TEXT_KINDS = {Text: "text", Thinking: "thinking"}


@cache
def token_factor(model: str) -> float:
    """Return how many tokens a model makes of a text, relative to OpenAI's."""
    return next((factor for pattern, factor in _MODEL_FACTORS if re.search(pattern, model)), 1.0)


def estimate_text(text: str, *, is_code: bool = False) -> int:
    """Estimate the tokens of a text."""
    length = len(text)
    if text.isascii():
        return -(-length // (3 if is_code else 4))
    wide = (len(text.encode("utf-8", "surrogatepass")) - length) // 2  # an accented letter counts half, an ideogram one
    return -(-max(0, length - wide) // (3 if is_code else 4)) + wide


def estimate_tool(tool: ToolDefinition) -> int:
    """Estimate the tokens of a tool's definition."""
    return 8 + estimate_text(tool.name) + estimate_text(tool.description) + len(dumps(tool.parameters or {})) // 3


def estimate_message(message: Message) -> int:
    """Estimate the tokens of a message."""
    tokens = _MESSAGE_OVERHEAD
    for block in message.blocks:
        tokens += _estimate_block(block)[1]
    return tokens


def estimate_by_kind(message: Message) -> dict[str, int]:
    """Estimate the tokens of a message by kind: text, thinking, tool calls, tool results, media."""
    counts: dict[str, int] = {}
    for block in message.blocks:
        kind, tokens = _estimate_block(block)
        counts[kind] = counts.get(kind, 0) + tokens
    kind = next(iter(counts), "text")
    counts[kind] = counts.get(kind, 0) + _MESSAGE_OVERHEAD
    return counts


def _estimate_block(block: object) -> tuple[str, int]:
    match block:  # the most frequent kinds first: this runs for every block of a conversation
        case Text() | Thinking():
            return _TEXT_KINDS[type(block)], estimate_text(block.text)
        case ToolCall():
            return "tool calls", 10 + estimate_text(block.name) + estimate_text(block.text, is_code=True)
        case ToolResult():
            return "tool results", 8 + sum(_estimate_block(part)[1] for part in block.content)
        case Media():
            return "media", _IMAGE_TOKENS if block.kind == "image" or not block.data else len(
                block.data
            ) * 3 // 4 // _MEDIA_BYTES_PER_TOKEN
        case Foreign():
            return "other", len(dumps(block.item)) // 3
        case _:
            return "other", 0
