"""Tools for a target: which of them it is offered, under which names and schemas, and how the choice among them is said."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text
from toolglot.request import Request, ToolChoice, ToolDefinition
from toolglot.schema import dialects
from toolglot.schema.lower import JsonText, Lowered, Omit, Pairs, Rename, lower, strict_problems
from toolglot.wire.writer import Writer

__all__ = ["Function", "as_function", "as_hosted", "as_typed", "chosen", "claim", "offered"]


class Function(msgspec.Struct, frozen=True):
    """A tool in the words of the target: name, description, schema, whether it binds, and fields for its own wire."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool
    own: dict[str, Any]


# The one parameter of a freeform tool where a wire has functions only.
_TEXT_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input as plain text."}},
    "required": ["input"],
}


def claim(tools: Iterable[ToolDefinition], writer: Writer) -> None:
    """Tools have the first choice of names, before calls of the history; too many strict ones are found out."""
    strict: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if known := as_typed(tool, writer) or _hosted(tool, writer):
            writer.typed[tool.name] = str(known.get("type", ""))
        if tool.kind != "hosted":
            name = writer.tool_name(tool.name, tool.namespace)
            if tool.strict and writer.profile.strict_dialect:
                with suppress(UsageError):  # a broken schema is left out later, with its reason
                    strict[name] = _lower(tool, writer.profile.strict_dialect, writer).schema
    if strict:
        writer.loose = strict_problems(strict, getattr(dialects, writer.profile.strict_dialect))


def offered(request: Request, writer: Writer) -> tuple[list[ToolDefinition], ToolChoice | None]:
    """The tools and the choice as the target can say them. What it cannot say is emulated: tools are left out, and the
    model is told (`nudges`).
    """
    tools = [tool for tool in _unique(request.tools, writer) if _is_usable(tool, writer)]
    most = writer.profile.limits.tools
    if most and len(tools) > most:
        _leave_out(tools[most:], f"{writer.profile.title} takes {most} at most", writer)
        tools = tools[:most]
    choice = request.tool_choice
    if choice is None or not tools:
        if choice and choice.mode == "required":
            writer.lose("tool_choice", "tool_choice", "there are no tools to choose from")
        return tools, None
    names = tuple(tool.name for tool in tools if tool.name in choice.names)
    if choice.names and not names:
        writer.lose("tool_choice", "tool_choice", f"there is no tool {' or '.join(map(repr, choice.names))}")
        return tools, None
    return _choosable(tools, choice.mode, names, writer)


def _choosable(
    tools: list[ToolDefinition], mode: str, names: tuple[str, ...], writer: Writer
) -> tuple[list[ToolDefinition], ToolChoice | None]:
    choices, who = writer.profile.features.choices, writer.model or writer.profile.title
    if mode == "none" and "none" not in choices:
        _leave_out(tools, f"{who} cannot be told to call none", writer)
        return [], None
    single = len(names) == 1 and mode == "required"
    if names and ("named" if single else "subset") not in choices:
        _leave_out([tool for tool in tools if tool.name not in names], f"{who} has no such choice", writer)
        tools, names = [tool for tool in tools if tool.name in names], ()
    if mode == "required" and "required" not in choices:
        writer.lose("tool_choice", "tool_choice", f"{who} cannot be forced to call a tool; it is asked to")
        wanted = " or ".join(writer.tool_name(tool.name, tool.namespace) for tool in tools if not names or tool.name in names)
        writer.nudges.append(f"Answer with a call to {wanted}." if len(tools) <= 3 else "Answer with a call to a tool.")
        mode, names = "auto", ()
    return tools, None if mode == "auto" and "required" not in choices else ToolChoice(mode, names)  # pyright: ignore[reportArgumentType]


def _leave_out(tools: list[ToolDefinition], why: str, writer: Writer) -> None:
    names = [writer.tool_name(tool.name, tool.namespace) for tool in tools]
    for name in names:
        writer.lose(f"tool {name!r}", "tools", f"left out of this request: {why}")
    if names:
        writer.nudges.append(f"These tools cannot be called now: {', '.join(names)}.")


def chosen(choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer) -> list[tuple[ToolDefinition, str]]:
    """The tools that a choice names, with their names on the wire."""
    return [(tool, writer.tool_name(tool.name, tool.namespace)) for tool in tools if tool.name in choice.names]


def _unique(tools: Iterable[ToolDefinition], writer: Writer) -> tuple[ToolDefinition, ...]:
    """Two tools of one name are refused: the first counts."""
    kept: list[ToolDefinition] = []
    seen: dict[tuple[str, str], ToolDefinition] = {}
    for tool in tools:
        first = seen.get((tool.namespace, tool.name))
        if first is None or tool.kind == "hosted":
            seen[(tool.namespace, tool.name)] = tool
            kept.append(tool)
        elif first != tool:
            writer.lose(f"tool {tool.name!r}", "tools", "a second tool of the same name; the first is kept")
    return tuple(kept)


def as_typed(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    """A tool that the model knows by itself: what stands for it on the wire. None for all others."""
    found = tool.typed.get(writer.profile.wire)
    return found if found is not None and found["type"] in writer.profile.features.typed else None


def _hosted(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    return tool.opaque if tool.kind == "hosted" and tool.wire == writer.profile.wire else None


def as_hosted(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    """A tool that a provider runs: its definition there, or None and a Loss."""
    if (found := _hosted(tool, writer)) is not None:
        return found
    why = f"only {tool.wire} runs it" if tool.wire != writer.profile.wire else "it has no definition"
    writer.lose(f"hosted tool {tool.name!r}", "tools", why)
    return None


def as_function(tool: ToolDefinition, writer: Writer) -> Function:
    """A tool as a function. A freeform one becomes a function with one text parameter."""
    name = writer.tool_name(tool.name, tool.namespace)
    if tool.kind == "freeform":
        writer.lose("freeform", f"tool {tool.name!r}", "sent as a function with one text parameter")
        writer.freeform.add(name)
        return Function(name, _described(tool), _TEXT_INPUT, False, {})
    own = (tool.opaque or {}) if tool.wire == writer.profile.wire else {}
    strict = _is_strict(tool, name, writer)
    lowered = writer.lowered[name] = _lower(tool, writer.profile.strict_dialect if strict else writer.profile.dialect, writer)
    writer.losses.extend(lowered.losses)
    _tell(tool, lowered, writer)
    return Function(name, _described(tool, lowered.note), lowered.schema, strict, own)


def _tell(tool: ToolDefinition, lowered: Lowered, writer: Writer) -> None:
    """What is said in another shape, and turned back when the call comes (`wire/back`)."""
    for way in lowered.ways_back:
        where = f"tool {tool.name!r} at {way.at}"
        match way:
            case Pairs():
                writer.lose("map", where, "sent as a list of keys and values; turned back in the call")
            case JsonText():
                writer.lose("free value", where, "asked for as JSON text; turned back in the call")
            case Rename(names=names):
                writer.mend(f"parameters {', '.join(names.values())}", where, "refused names are mapped, and back")
            case Omit(names=names):
                writer.mend(f"parameters {', '.join(names)}", where, "null stands for left out, and is taken out again")


def _lower(tool: ToolDefinition, dialect: str, writer: Writer) -> Lowered:
    key = (tool.namespace, tool.name, dialect)
    if key not in writer.memo:
        writer.memo[key] = lower(tool.parameters, getattr(dialects, dialect), tool=tool.name)
    return writer.memo[key]


def _is_usable(tool: ToolDefinition, writer: Writer) -> bool:
    """One tool with a broken schema must not cost the whole request: it is left out."""
    if tool.kind == "hosted":
        return as_hosted(tool, writer) is not None
    try:
        _lower(tool, writer.profile.dialect, writer)
    except UsageError as e:
        writer.lose(f"tool {tool.name!r}", "tools", f"left out: {e}")
        return False
    return True


def _is_strict(tool: ToolDefinition, name: str, writer: Writer) -> bool:
    if not tool.strict:
        return False
    if not (writer.profile.features.strict and writer.profile.strict_dialect):
        writer.lose("strict", f"tool {tool.name!r}", f"{writer.profile.title} has no strict mode")
        return False
    if why := writer.loose.get(name):
        writer.lose("strict", f"tool {tool.name!r}", why)
        return False
    return True


def _described(tool: ToolDefinition, note: str = "") -> str:
    """The description; what the target has no field for is said in it."""
    lines = [line for line in (tool.description, note) if line]
    for example in tool.examples:
        note = f" ({example.description})" if example.description else ""
        lines.append(f"Example{note}: {dumps_text(example.input)}")
    if tool.kind == "freeform" and tool.grammar:
        lines.append(f"The input must follow this grammar: {dumps_text(tool.grammar)}")
    return "\n".join(lines)
