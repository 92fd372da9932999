"""What a target may see of a conversation: foreign content is removed first, then the rest is repaired.

Opaque state is sent back only to its origin. Thinking is dropped elsewhere, and content of another wire is
shown as text if it contains any; both are Losses.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.wire.cache_marks import can_carry, count_marks, drop_mark, report_lost_marks
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts
from toolglot.wire.repair import HistoryRepairer, split_turns
from toolglot.wire.tools_over_time import describe_loaded, is_native
from toolglot.wire.writer import Writer, is_blank


def prepare_history(
    messages: Sequence[Message], writer: Writer, *, stateful: bool = False, first: int = 0
) -> list[Message]:
    """Return the history as the target accepts it. `first` is the index of the first message, for reports."""
    repairer = HistoryRepairer(writer.profile.history, stateful=stateful)
    prepared: list[Message] = []
    for turn in split_turns(messages):
        visible = filter_visible(messages[turn.start : turn.stop], writer, first + turn.start)
        prepared += repairer.repair_turn(visible, first + turn.start)
    prepared = repairer.repair_ending(prepared)
    writer.repairs.extend(repairer.repairs)
    return prepared


def filter_visible(messages: Sequence[Message], writer: Writer, first: int) -> list[Message]:
    """Return the messages without what the target may not see."""
    visible: list[Message] = []
    for index, message in enumerate(messages, first):
        role = message.opaque.get("role") if message.opaque and message.role == "user" else None
        if role and not writer.owns_state(message.origin):
            writer.enter(f"messages[{index}]", message.origin)
            writer.record_repair(f"role {role!r}", "unknown; sent as a user message")
        if _is_plain(message):
            visible.append(message)
            continue
        writer.enter(f"messages[{index}]", message.origin)
        writer.place = "start" if index < writer.leading_count else message.role
        blocks: list[Block] = []
        for block in message.blocks:
            blocks += _filter_block(block, message.role, writer)
        has_changes = any(isinstance(block, ToolsChanged) for block in message.blocks)
        if has_changes and not blocks:
            continue  # the head declares the tools
        if tuple(blocks) != message.blocks:
            message = replace(message, blocks=tuple(blocks))
        visible.append(message)
    return visible


def count_leading_system(messages: Sequence[Message]) -> int:
    """Count the system messages before anything else: they are sent outside of the history."""
    return next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))


def _is_plain(message: Message) -> bool:
    """Return whether any target may see the whole message: text, calls of the assistant, results of text;
    without marks.
    """
    # `type(...) is` instead of isinstance: this runs for every block of every request.
    for block in message.blocks:
        if type(block) is ToolResult:
            is_plain = _are_plain_texts(block.content)
        elif type(block) is ToolCall:
            is_plain = message.role == "assistant"
        else:
            is_plain = type(block) is Text and block.text != ""
        if not is_plain or getattr(block, "cache", None) is not None:
            return False
    return True


def _are_plain_texts(parts: Sequence[Block]) -> bool:
    for part in parts:  # noqa: SIM110 - a generator would cost more than all it does
        if type(part) is not Text or not part.text or part.cache is not None:
            return False
    return True


def _filter_block(block: Block, role: Role, writer: Writer) -> list[Block]:
    """Return what of a block the target may see: nothing, the block itself, or what stands for it."""
    if isinstance(block, Text | Media | ToolCall | ToolResult) and block.cache:
        if not can_carry(block, writer.place, writer):
            block = drop_mark(block, writer)
    match block:
        case Thinking():
            # Never sent as text instead: Claude starts to imitate <thinking> tags that it finds in the
            # history.
            if writer.is_own and writer.profile.reasoning_echo != "no":
                return [block]
            writer.record_loss("thinking", "it is only sent back to the model that produced it")
            return []
        case Foreign():
            return _filter_foreign(block, writer)
        case Media("image", "application/pdf") if not writer.is_own:  # providers accept it only as a file
            writer.record_repair("image", "it is a PDF; sent as a file")
            return [replace(block, kind="file")]
        case Text(text="") if not writer.is_own:  # it only carried a signature
            return []
        case ToolCall() if role != "assistant":
            writer.record_loss(f"call {block.name!r}", "only the assistant calls tools")
            return []
        case ToolsChanged():
            if is_native(writer.place, writer.origin, writer):
                return [block]
            report_lost_marks(count_marks([block]), (), writer, len(writer.losses))
            return []
        case ToolResult():
            return [_filter_result(block, role, writer)]
        case _:
            return [block]


def _filter_foreign(block: Foreign, writer: Writer) -> list[Block]:
    """Return an item if the target understands it, else its text: the model still reads what was found."""
    if block.wire == writer.profile.wire and writer.is_same_vendor:
        return [block]
    item = as_dict(block.item)
    subject = as_text(item.get("type")) or next(iter(item), "content")
    writer.record_loss(subject, f"only {block.wire} understands it")
    report_lost_marks(count_marks([block]), (), writer, len(writer.losses))
    text = extract_text(block)
    return [Text(text)] if text else []


def _filter_result(result: ToolResult, role: Role, writer: Writer) -> ToolResult:
    """Return a result without what the target may not see. One that only loaded tools says which."""
    content: list[Block] = []
    for part in result.content:
        content += _filter_block(part, role, writer)
    changes = [part for part in result.content if isinstance(part, ToolsChanged)]
    if changes and all(map(is_blank, content)):
        content.append(Text(describe_loaded(changes, writer)))
    if tuple(content) == result.content:
        return result
    return replace(result, content=tuple(content))


def extract_text(block: Foreign) -> str:
    """Return the readable text of foreign content, "" if there is none."""
    item: Doc = as_dict(block.item)
    if code := as_dict(item.get("executableCode")).get("code"):  # Gemini's code execution
        return f"[ran code]\n{code}"
    if output := as_dict(item.get("codeExecutionResult")).get("output"):
        return f"[output]\n{output}"
    if item.get("type") == "search_result":  # Anthropic
        lines = [f"[{as_text(item.get('title'))}] {as_text(item.get('source'))}"]
        lines += (as_text(part.get("text")) for part in iter_dicts(item.get("content")))
        return "\n".join(lines)
    return as_text(item.get("text")) or as_text(item.get("refusal"))
