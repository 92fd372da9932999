"""How many tokens something is, about: no tokenizer is loaded. The first real count corrects the rest (`loop.context`).

Latin text has about four characters a token, code and JSON about three, other scripts one or two (OpenAI's tokenizer guide).
Vendors differ by a factor.
"""

import re

from toolglot.jsontext import dumps
from toolglot.messages import Foreign, Media, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.request import ToolDefinition

__all__ = ["factor_of", "tokens_by_kind", "tokens_of_message", "tokens_of_text", "tokens_of_tool"]

_MESSAGE = 4  # what a message costs beside its words
_IMAGE = 1_500  # an image of a usual size, scaled down by the vendor
_BYTES_OF_MEDIA = 40  # of a document or a sound, a token
# Tokens of a text, compared with OpenAI's. Anthropic says of its own tokenizer that it makes more of them.
_FACTORS = ((r"claude", 1.2), (r"gemini|gemma", 1.05), (r"qwen|deepseek|kimi|llama|mi[sx]tral", 1.1))
_TAGS = {Text: "text", Thinking: "thinking"}


def factor_of(model: str) -> float:
    """How many tokens a model makes of a text, compared with OpenAI's."""
    return next((factor for pattern, factor in _FACTORS if re.search(pattern, model)), 1.0)


def tokens_of_text(text: str, *, dense: bool = False) -> int:
    """Tokens of a text. `dense`: code or JSON."""
    length = len(text)
    if text.isascii():
        return -(-length // (3 if dense else 4))
    wide = (len(text.encode("utf-8", "surrogatepass")) - length) // 2  # a letter with an accent counts half, an ideogram one
    return -(-max(0, length - wide) // (3 if dense else 4)) + wide


def tokens_of_tool(tool: ToolDefinition) -> int:
    """Tokens of a tool as it is offered."""
    return 8 + tokens_of_text(tool.name) + tokens_of_text(tool.description) + len(dumps(tool.parameters or {})) // 3


def tokens_of_message(message: Message) -> int:
    """Tokens of a message."""
    return _MESSAGE + sum(_block(block)[1] for block in message.blocks)


def tokens_by_kind(message: Message) -> dict[str, int]:
    """Tokens of a message by what they are for: text, thinking, tool calls, tool results, media."""
    found: dict[str, int] = {}
    for block in message.blocks:
        kind, tokens = _block(block)
        found[kind] = found.get(kind, 0) + tokens
    kind = next(iter(found), "text")
    found[kind] = found.get(kind, 0) + _MESSAGE
    return found


def _block(block: object) -> tuple[str, int]:
    match block:
        case Text() | Thinking():
            return _TAGS[type(block)], tokens_of_text(block.text)
        case ToolCall():
            return "tool calls", 10 + tokens_of_text(block.name) + tokens_of_text(block.text, dense=True)
        case ToolResult():
            return "tool results", 8 + sum(_block(part)[1] for part in block.content)
        case Media():
            return "media", _IMAGE if block.kind == "image" or not block.data else len(block.data) * 3 // 4 // _BYTES_OF_MEDIA
        case Foreign():
            return "other", len(dumps(block.item)) // 3
        case _:
            return "other", 0
