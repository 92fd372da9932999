"""Marks for prompt caches: `cache_control` of Anthropic and of routers, and `prompt_cache_breakpoint` of
OpenAI.

A decoder leaves a mark in a block's opaque fields; `lift_marks` makes it neutral. `Profile.cache_field` names
the field that the target takes, and `can_carry` says where. A mark that has no form there is a Loss, and so
is one that an encoded message turns out not to contain (`report_lost_marks`).
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from toolglot.values.definitions import CacheMark, ToolDefinition
from toolglot.values.messages import Block, Foreign, Media, Text, Thinking, ToolCall, ToolResult, ToolsChanged
from toolglot.values.request import Options, Request
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts
from toolglot.wire.spec import ANTHROPIC_MESSAGES, OPENAI_RESPONSES
from toolglot.wire.writer import Place, Writer, is_blank

_FORMS: dict[str, Doc] = {
    "cache_control": {"type": "ephemeral"},
    "prompt_cache_breakpoint": {"mode": "explicit"},
}
_MINUTES = {"m": 1, "h": 60, "d": 1440}
AnyBlock = TypeVar("AnyBlock", bound=Block | ToolDefinition)


def read_mark(fields: Doc) -> CacheMark | None:
    """Return the mark among the fields of a block, a tool or a body.

    One that does not say its only form has it.
    """
    for field, form in _FORMS.items():
        value = fields.get(field)
        if isinstance(value, dict) and form.items() <= {**form, **as_dict(value)}.items():
            return CacheMark(as_text(as_dict(value).get("ttl")))
    return None


def decode_cache_option(body: Doc) -> CacheMark | None:
    """Return the time to live that an OpenAI body asks for."""
    ttl = as_text(as_dict(body.get("prompt_cache_options")).get("ttl"))
    return CacheMark(ttl) if ttl else None


def lift_marks(request: Request) -> Request:
    """Make the marks of a decoded request neutral. Their own wire also gets them back as they came."""
    messages = [replace(message, blocks=tuple(map(_lift, message.blocks))) for message in request.messages]
    return replace(request, messages=messages, tools=tuple(map(_lift, request.tools)))


def _lift(block: AnyBlock) -> AnyBlock:
    if isinstance(block, ToolResult) and block.content:
        block = replace(block, content=tuple(map(_lift, block.content)))
    if isinstance(block, Thinking | ToolsChanged):  # they have no field for it
        return block
    mark = _read_own_mark(block)
    return replace(block, cache=mark) if mark else block


def _read_own_mark(block: Block | ToolDefinition) -> CacheMark | None:
    """Return the mark that a block has in the form of its own wire."""
    opaque = None if isinstance(block, Foreign) else block.opaque
    if not opaque:
        return None
    return read_mark(opaque) or read_mark(as_dict(opaque.get("more")))  # `more`: of OpenAI's media


def count_marks(blocks: Iterable[Block]) -> int:
    """Count the marks of blocks, and of the content of results.

    One of an unknown form counts: only its own wire gets it.
    """
    count = 0
    for block in blocks:  # `type(...) is` instead of isinstance: this runs for every block of every request
        opaque = block.item if type(block) is Foreign else getattr(block, "opaque", None)
        if type(block) is Foreign or type(block) is ToolsChanged:
            item = as_dict(opaque)
            count += _count_fields((item, as_dict(item.get("item"))))
        elif getattr(block, "cache", None) is not None:
            count += 1
        elif opaque and not _read_own_mark(block):
            count += _count_fields((opaque, as_dict(opaque.get("more")))) > 0
        if type(block) is ToolResult:
            for part in block.content:
                # nearly every part is plain text
                if type(part) is not Text or part.cache is not None or part.opaque:
                    count += count_marks((part,))
    return count


def report_lost_marks(count: int, items: Iterable[Doc], writer: Writer, first_loss: int) -> None:
    """Record the marks of a message that its items do not contain.

    Losses before `first_loss` are of other messages.
    """
    known = sum(loss.subject == "cache mark" for loss in writer.losses[first_loss:])
    for _ in range(count - known - _count_fields(items)):
        writer.record_loss("cache mark", f"{writer.profile.title} has no place for it")


def _count_fields(items: Iterable[Doc]) -> int:
    """Count the marks of encoded items. Arguments of calls are not looked into: they may hold anything."""
    count = 0
    for item in items:
        count += sum(item.get(field) is not None for field in _FORMS)
        count += sum(_count_fields(iter_dicts(item.get(key))) for key in ("content", "output"))
    return count


def can_carry(block: Block, place: Place, writer: Writer) -> bool:
    """Return whether the target takes a mark on a block."""
    if writer.is_own and _read_own_mark(block):
        return True
    if is_blank(block):  # blank text is dropped, or refused with a mark
        return False
    wire = writer.profile.wire
    field = writer.profile.cache_field
    if isinstance(block, ToolCall):  # only Messages has a field on a call
        return field == "cache_control" and wire == ANTHROPIC_MESSAGES
    # instructions and answers are plain text
    if field == "prompt_cache_breakpoint" and wire == OPENAI_RESPONSES:
        return place not in ("start", "assistant")
    return field in ("cache_control", "prompt_cache_breakpoint")


def drop_mark(block: AnyBlock, writer: Writer, reason: str = "", *, at: str = "") -> AnyBlock:
    """Return a block without its mark, with a Loss."""
    title = writer.profile.title
    missing = (
        f"{title} has no marks here"
        if writer.profile.cache_field
        else f"{title} chooses itself what it caches"
    )
    writer.record_loss("cache mark", reason or missing, at=at)
    return replace(block, cache=None)


def check_tool_mark(tool: ToolDefinition, writer: Writer) -> ToolDefinition:
    """Return a tool without its mark if the target does not take it."""
    if not tool.cache or _can_carry_on_tool(tool, writer):
        return tool
    reason = ""
    if tool.deferred and writer.profile.cache_field == "cache_control":
        reason = "a deferred tool cannot have one"
    return drop_mark(tool, writer, reason, at=f"tool {tool.name!r}")


def _can_carry_on_tool(tool: ToolDefinition, writer: Writer) -> bool:
    is_own = tool.wire == writer.profile.wire
    if is_own and _read_own_mark(tool):  # it goes back as it came
        return True
    if tool.deferred:  # refused with a mark (recorded 400)
        return False
    if tool.kind == "hosted" and not is_own:  # another vendor's tool is not sent at all
        return False
    return writer.profile.cache_field == "cache_control"


def encode_mark(
    block: Text | Media | ToolCall | ToolResult | ToolDefinition, writer: Writer, *, is_head: bool = False
) -> Doc:
    """Return the field for a block's mark. Those of the head were counted before."""
    if block.cache is None:
        return {}
    writer.mark_count += not is_head
    if writer.is_own and _read_own_mark(block):
        return {}  # it goes back as it came
    limit = writer.profile.limits.cache_marks
    # 400 "A maximum of 4 blocks with cache_control may be provided."
    if not is_head and limit and writer.mark_count > limit:
        writer.record_loss("cache mark", f"{writer.profile.title} accepts at most {limit}")
        return {}
    return format_mark(block.cache, writer)


def format_mark(mark: CacheMark, writer: Writer) -> Doc:
    """Return the target's field for a mark, {} if it has none."""
    field = writer.profile.cache_field
    if not field:
        return {}
    return {field: {**_FORMS[field], **encode_ttl(mark, writer)}}


def encode_cache_option(options: Options, writer: Writer) -> Doc:
    """Return the field of OpenAI's bodies that asks for caching: a router's mark, or a time to live.

    Else it is automatic.
    """
    if not options.cache:
        return {}
    mark = options.cache if isinstance(options.cache, CacheMark) else CacheMark()
    writer.enter("options")
    if writer.profile.cache_field == "cache_control":  # a router that passes the mark on to Anthropic
        return format_mark(mark, writer)
    ttl = encode_ttl(mark, writer)
    return {"prompt_cache_options": ttl} if ttl else {}


def report_lost_cache_option(options: Options, writer: Writer) -> None:
    """Record what a wire without a field for the option loses: its caching is automatic, but has no time to
    live.
    """
    encode_cache_option(options, writer)  # for its Losses only


def encode_ttl(mark: CacheMark, writer: Writer) -> Doc:
    """Return the time to live: the shortest that the target offers and that is long enough, or the longest."""
    ttls = writer.profile.cache_ttls
    if not mark.ttl:
        return {}
    if mark.ttl in ttls:
        return {"ttl": mark.ttl}
    if not ttls:
        writer.record_loss("cache ttl", f"{writer.profile.title} has no time to live")
        return {}
    long_enough = [ttl for ttl in ttls if _minutes(ttl) >= _minutes(mark.ttl)]
    if long_enough:
        ttl = long_enough[0]
        remark = ""
    else:
        ttl = ttls[-1]
        remark = ", the longest there is"
    writer.record_repair(
        f"cache ttl {mark.ttl!r}", f"not offered by {writer.profile.title}; sent as {ttl!r}{remark}"
    )
    return {"ttl": ttl}


def count_head_marks(request: Request, leading_count: int, writer: Writer) -> int:
    """Count the marks outside of the history, which are always sent."""
    count = sum(count_marks(message.blocks) for message in request.messages[:leading_count])
    count += sum(tool.cache is not None and _can_carry_on_tool(tool, writer) for tool in request.tools)
    if not request.options.cache:
        return count
    if any("cache_control" in fields for fields in request.extras.values()):  # the caller's own
        return count + 1
    return count + 1 + any(not tool.deferred for tool in request.tools)  # of the body, and on the last tool


def _minutes(ttl: str) -> float:
    number = ttl[:-1]
    unit = ttl[-1:]
    if not number.isdigit() or unit not in _MINUTES:
        return 0
    return int(number) * _MINUTES[unit]
