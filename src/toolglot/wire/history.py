"""From a conversation to what a target may see of it: first what is not its own is taken out, then the rest is repaired.

Opaque state goes back to its origin and to nobody else: thinking is dropped, content of another wire is shown as text where it
holds readable text, and both are Losses.
"""

from collections.abc import Sequence

import msgspec

from toolglot.messages import Block, Foreign, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.wire.repair import Mender, turns
from toolglot.wire.shapes import Doc, as_dict, as_text, dicts
from toolglot.wire.writer import Writer

__all__ = ["leading_system", "legal", "readable", "visible"]


def legal(messages: Sequence[Message], writer: Writer, *, stateful: bool = False, first: int = 0) -> list[Message]:
    """The history as the writer's target accepts it. `first`: the number of the first message, for what is said of it."""
    mender = Mender(writer.profile.history, stateful=stateful)
    out: list[Message] = []
    for turn in turns(messages):
        out += mender.turn(visible(messages[turn.start : turn.stop], writer, first + turn.start), first + turn.start)
    out = mender.ending(out)
    writer.repairs.extend(mender.repairs)
    return out


def visible(messages: Sequence[Message], writer: Writer, first: int) -> list[Message]:
    """Messages without what the target may not see."""
    return [_own(message, writer, f"messages[{first + index}]") for index, message in enumerate(messages)]


def leading_system(messages: Sequence[Message]) -> int:
    """How many messages of instructions come before anything else."""
    return next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))


def _own(message: Message, writer: Writer, where: str) -> Message:
    if _is_plain(message):
        return message
    blocks = tuple(kept for block in message.blocks for kept in _visible(block, message, writer, where))
    return message if blocks == message.blocks else msgspec.structs.replace(message, blocks=blocks)


def _is_plain(message: Message) -> bool:
    """Whether everybody may see everything: calls of the assistant, results of text, and text."""
    calls = message.role == "assistant"
    for block in message.blocks:
        kind = type(block)
        if kind is ToolCall:
            if not calls:
                return False
        elif kind is ToolResult:
            for part in block.content:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
                if type(part) is not Text or not part.text:  # pyright: ignore[reportUnknownArgumentType]
                    return False
        elif kind is not Text or not block.text:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return False
    return True


def _visible(block: Block, message: Message, writer: Writer, where: str) -> list[Block]:
    match block:
        case Thinking():
            if writer.owns(message.origin) and writer.profile.reasoning_echo != "no":
                return [block]
            writer.lose("thinking", where, "it goes back only to the model that thought it")
            return []
        case Foreign() if not writer.understands(block, message.origin):
            writer.lose(_name(block), where, f"only {block.wire} understands it")
            text = readable(block)
            return [Text(text)] if text else []
        case Text(text="") if not writer.owns(message.origin):  # it only carried state
            return []
        case ToolCall() if message.role != "assistant":
            writer.lose(f"call {block.name!r}", where, "only the assistant calls tools")
            return []
        case ToolResult():
            content = tuple(kept for part in block.content for kept in _visible(part, message, writer, where))
            return [block if content == block.content else msgspec.structs.replace(block, content=content)]
        case _:
            return [block]


def _name(block: Foreign) -> str:
    item = as_dict(block.item)
    return as_text(item.get("type")) or next(iter(item), "content")


def readable(block: Foreign) -> str:
    """The text in foreign content that a reader would see; "" where there is none."""
    item: Doc = as_dict(block.item)
    if code := as_dict(item.get("executableCode")).get("code"):
        return f"[ran code]\n{code}"
    if output := as_dict(item.get("codeExecutionResult")).get("output"):
        return f"[output]\n{output}"
    if item.get("type") == "search_result":
        texts = [as_text(part.get("text")) for part in dicts(item.get("content"))]
        return "\n".join([f"[{as_text(item.get('title'))}] {as_text(item.get('source'))}", *texts])
    return as_text(item.get("text")) or as_text(item.get("refusal"))
