"""From a conversation to what a target may see of it: first what is not its own is taken out, then the rest is repaired.

Opaque state goes back to its origin and to nobody else: thinking is dropped, content of another wire is shown as text where it
holds readable text, and both are Losses.
"""

from collections.abc import Sequence

import msgspec

from toolglot.messages import Block, Foreign, Message, Text, Thinking, ToolCall, ToolResult
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts
from toolglot.wire.repair import HistoryRepairer, split_turns
from toolglot.wire.writer import Writer

__all__ = ["count_leading_system", "extract_text", "filter_visible", "prepare_history"]


def prepare_history(messages: Sequence[Message], writer: Writer, *, stateful: bool = False, first: int = 0) -> list[Message]:
    """The history as the writer's target accepts it. `first`: the number of the first message, for what is said of it."""
    mender = HistoryRepairer(writer.profile.history, stateful=stateful)
    out: list[Message] = []
    for turn in split_turns(messages):
        out += mender.repair_turn(
            filter_visible(messages[turn.start : turn.stop], writer, first + turn.start), first + turn.start
        )
    out = mender.repair_ending(out)
    writer.repairs.extend(mender.repairs)
    return out


def filter_visible(messages: Sequence[Message], writer: Writer, first: int) -> list[Message]:
    """Messages without what the target may not see."""
    return [_filter_message(message, writer, f"messages[{first + index}]") for index, message in enumerate(messages)]


def count_leading_system(messages: Sequence[Message]) -> int:
    """How many messages of instructions come before anything else."""
    return next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))


def _filter_message(message: Message, writer: Writer, where: str) -> Message:
    if _is_plain(message):
        return message
    blocks = tuple(kept for block in message.blocks for kept in _filter_block(block, message, writer, where))
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


def _filter_block(block: Block, message: Message, writer: Writer, where: str) -> list[Block]:
    match block:
        case Thinking():
            if writer.owns_state(message.origin) and writer.profile.reasoning_echo != "no":
                return [block]
            writer.record_loss("thinking", where, "it goes back only to the model that thought it")
            return []
        case Foreign() if not writer.accepts_foreign(block, message.origin):
            writer.record_loss(_foreign_type(block), where, f"only {block.wire} understands it")
            text = extract_text(block)
            return [Text(text)] if text else []
        case Text(text="") if not writer.owns_state(message.origin):  # it only carried state
            return []
        case ToolCall() if message.role != "assistant":
            writer.record_loss(f"call {block.name!r}", where, "only the assistant calls tools")
            return []
        case ToolResult():
            content = tuple(kept for part in block.content for kept in _filter_block(part, message, writer, where))
            return [block if content == block.content else msgspec.structs.replace(block, content=content)]
        case _:
            return [block]


def _foreign_type(block: Foreign) -> str:
    item = as_dict(block.item)
    return as_text(item.get("type")) or next(iter(item), "content")


def extract_text(block: Foreign) -> str:
    """The text in foreign content that a reader would see; "" where there is none."""
    item: Doc = as_dict(block.item)
    if code := as_dict(item.get("executableCode")).get("code"):
        return f"[ran code]\n{code}"
    if output := as_dict(item.get("codeExecutionResult")).get("output"):
        return f"[output]\n{output}"
    if item.get("type") == "search_result":
        texts = [as_text(part.get("text")) for part in iter_dicts(item.get("content"))]
        return "\n".join([f"[{as_text(item.get('title'))}] {as_text(item.get('source'))}", *texts])
    return as_text(item.get("text")) or as_text(item.get("refusal"))
