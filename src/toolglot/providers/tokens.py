"""How many tokens something is, about: no tokenizer is loaded. The first real count corrects the rest (`loop.context`).

Latin text has about four characters a token, code and JSON about three, other scripts one or two (OpenAI's tokenizer guide).
Vendors differ by a factor.
"""

import re

from toolglot.jsontext import dumps
from toolglot.messages import Foreign, Media, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.request import ToolDefinition

__all__ = ["estimate_by_kind", "estimate_message", "estimate_text", "estimate_tool", "token_factor"]

_MESSAGE_OVERHEAD = 4  # what a message costs beside its words
_IMAGE_TOKENS = 1_500  # an image of a usual size, scaled down by the vendor
_MEDIA_BYTES_PER_TOKEN = 40  # of a document or a sound, a token
# Tokens of a text, compared with OpenAI's. Anthropic says of its own tokenizer that it makes more of them.
_MODEL_FACTORS = ((r"claude", 1.2), (r"gemini|gemma", 1.05), (r"qwen|deepseek|kimi|llama|mi[sx]tral", 1.1))
_TEXT_KINDS = {Text: "text", Thinking: "thinking"}


def token_factor(model: str) -> float:
    """How many tokens a model makes of a text, compared with OpenAI's."""
    return next((factor for pattern, factor in _MODEL_FACTORS if re.search(pattern, model)), 1.0)


def estimate_text(text: str, *, is_code: bool = False) -> int:
    """Tokens of a text. `dense`: code or JSON."""
    length = len(text)
    if text.isascii():
        return -(-length // (3 if is_code else 4))
    wide = (len(text.encode("utf-8", "surrogatepass")) - length) // 2  # a letter with an accent counts half, an ideogram one
    return -(-max(0, length - wide) // (3 if is_code else 4)) + wide


def estimate_tool(tool: ToolDefinition) -> int:
    """Tokens of a tool as it is offered."""
    return 8 + estimate_text(tool.name) + estimate_text(tool.description) + len(dumps(tool.parameters or {})) // 3


def estimate_message(message: Message) -> int:
    """Tokens of a message."""
    return _MESSAGE_OVERHEAD + sum(_estimate_block(block)[1] for block in message.blocks)


def estimate_by_kind(message: Message) -> dict[str, int]:
    """Tokens of a message by what they are for: text, thinking, tool calls, tool results, media."""
    found: dict[str, int] = {}
    for block in message.blocks:
        kind, tokens = _estimate_block(block)
        found[kind] = found.get(kind, 0) + tokens
    kind = next(iter(found), "text")
    found[kind] = found.get(kind, 0) + _MESSAGE_OVERHEAD
    return found


def _estimate_block(block: object) -> tuple[str, int]:
    match block:
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
