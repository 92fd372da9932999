"""Tools for a target: which of them it is offered, under which names and schemas, and how the choice among them is said."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text
from toolglot.request import Request, ToolChoice, ToolDefinition
from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.schema.lowering_result import JsonText, LoweredSchema, Omit, Pairs, Rename
from toolglot.schema.strict_limits import check_strict_limits
from toolglot.wire.writer import Writer

__all__ = [
    "EncodedFunction",
    "encode_function",
    "encode_hosted",
    "native_definition",
    "reserve_names",
    "select_chosen",
    "select_tools",
]


class EncodedFunction(msgspec.Struct, frozen=True):
    """A tool in the words of the target: name, description, schema, whether it binds, and fields for its own wire."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool
    extra: dict[str, Any]


# The one parameter of a freeform tool where a wire has functions only.
_FREEFORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input as plain text."}},
    "required": ["input"],
}


def reserve_names(tools: Iterable[ToolDefinition], writer: Writer) -> None:
    """Tools have the first choice of names, before calls of the history; too many strict ones are found out."""
    strict: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if known := native_definition(tool, writer) or _hosted_definition(tool, writer):
            writer.native_types[tool.name] = str(known.get("type", ""))
        if tool.kind != "hosted":
            name = writer.map_tool_name(tool.name, tool.namespace)
            if tool.strict and writer.profile.strict_dialect:
                with suppress(UsageError):  # a broken schema is left out later, with its reason
                    strict[name] = _lower_schema(tool, writer.profile.strict_dialect, writer).schema
    if strict:
        writer.non_strict = check_strict_limits(strict, getattr(dialects, writer.profile.strict_dialect))


def select_tools(request: Request, writer: Writer) -> tuple[list[ToolDefinition], ToolChoice | None]:
    """The tools and the choice as the target can say them. What it cannot say is emulated: tools are left out, and the
    model is told (`nudges`).
    """
    tools = [tool for tool in _drop_duplicates(request.tools, writer) if _is_usable(tool, writer)]
    most = writer.profile.limits.tools
    if most and len(tools) > most:
        _omit_tools(tools[most:], f"{writer.profile.title} takes {most} at most", writer)
        tools = tools[:most]
    choice = request.tool_choice
    if choice is None or not tools:
        if choice and choice.mode == "required":
            writer.record_loss("tool_choice", "tool_choice", "there are no tools to choose from")
        return tools, None
    names = tuple(tool.name for tool in tools if tool.name in choice.names)
    if choice.names and not names:
        writer.record_loss("tool_choice", "tool_choice", f"there is no tool {' or '.join(map(repr, choice.names))}")
        return tools, None
    return _apply_choice(tools, choice.mode, names, writer)


def _apply_choice(
    tools: list[ToolDefinition], mode: str, names: tuple[str, ...], writer: Writer
) -> tuple[list[ToolDefinition], ToolChoice | None]:
    choices, who = writer.profile.features.choices, writer.model or writer.profile.title
    if mode == "none" and "none" not in choices:
        _omit_tools(tools, f"{who} cannot be told to call none", writer)
        return [], None
    single = len(names) == 1 and mode == "required"
    if names and ("named" if single else "subset") not in choices:
        _omit_tools([tool for tool in tools if tool.name not in names], f"{who} has no such choice", writer)
        tools, names = [tool for tool in tools if tool.name in names], ()
    if mode == "required" and "required" not in choices:
        writer.record_loss("tool_choice", "tool_choice", f"{who} cannot be forced to call a tool; it is asked to")
        wanted = " or ".join(
            writer.map_tool_name(tool.name, tool.namespace) for tool in tools if not names or tool.name in names
        )
        writer.prompt_hints.append(f"Answer with a call to {wanted}." if len(tools) <= 3 else "Answer with a call to a tool.")
        mode, names = "auto", ()
    return tools, None if mode == "auto" and "required" not in choices else ToolChoice(mode, names)  # pyright: ignore[reportArgumentType]


def _omit_tools(tools: list[ToolDefinition], reason: str, writer: Writer) -> None:
    names = [writer.map_tool_name(tool.name, tool.namespace) for tool in tools]
    for name in names:
        writer.record_loss(f"tool {name!r}", "tools", f"left out of this request: {reason}")
    if names:
        writer.prompt_hints.append(f"These tools cannot be called now: {', '.join(names)}.")


def select_chosen(choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer) -> list[tuple[ToolDefinition, str]]:
    """The tools that a choice names, with their names on the wire."""
    return [(tool, writer.map_tool_name(tool.name, tool.namespace)) for tool in tools if tool.name in choice.names]


def _drop_duplicates(tools: Iterable[ToolDefinition], writer: Writer) -> tuple[ToolDefinition, ...]:
    """Two tools of one name are refused: the first counts."""
    kept: list[ToolDefinition] = []
    seen: dict[tuple[str, str], ToolDefinition] = {}
    for tool in tools:
        first = seen.get((tool.namespace, tool.name))
        if first is None or tool.kind == "hosted":
            seen[(tool.namespace, tool.name)] = tool
            kept.append(tool)
        elif first != tool:
            writer.record_loss(f"tool {tool.name!r}", "tools", "a second tool of the same name; the first is kept")
    return tuple(kept)


def native_definition(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    """A tool that the model knows by itself: what stands for it on the wire. None for all others."""
    found = tool.typed.get(writer.profile.wire)
    return found if found is not None and found["type"] in writer.profile.features.typed else None


def _hosted_definition(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    return tool.opaque if tool.kind == "hosted" and tool.wire == writer.profile.wire else None


def encode_hosted(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    """A tool that a provider runs: its definition there, or None and a Loss."""
    if (found := _hosted_definition(tool, writer)) is not None:
        return found
    why = f"only {tool.wire} runs it" if tool.wire != writer.profile.wire else "it has no definition"
    writer.record_loss(f"hosted tool {tool.name!r}", "tools", why)
    return None


def encode_function(tool: ToolDefinition, writer: Writer) -> EncodedFunction:
    """A tool as a function. A freeform one becomes a function with one text parameter."""
    name = writer.map_tool_name(tool.name, tool.namespace)
    if tool.kind == "freeform":
        writer.record_loss("freeform", f"tool {tool.name!r}", "sent as a function with one text parameter")
        writer.freeform.add(name)
        return EncodedFunction(name, _describe(tool), _FREEFORM_SCHEMA, False, {})
    own = (tool.opaque or {}) if tool.wire == writer.profile.wire else {}
    strict = _is_strict(tool, name, writer)
    lowered = writer.lowerings[name] = _lower_schema(
        tool, writer.profile.strict_dialect if strict else writer.profile.dialect, writer
    )
    writer.losses.extend(lowered.losses)
    _report_restorations(tool, lowered, writer)
    return EncodedFunction(name, _describe(tool, lowered.root_description), lowered.schema, strict, own)


def _report_restorations(tool: ToolDefinition, lowered: LoweredSchema, writer: Writer) -> None:
    """What is said in another shape, and turned back when the call comes (`wire/back`)."""
    for way in lowered.restorations:
        where = f"tool {tool.name!r} at {way.pointer}"
        match way:
            case Pairs():
                writer.record_loss("map", where, "sent as a list of keys and values; turned back in the call")
            case JsonText():
                writer.record_loss("free value", where, "asked for as JSON text; turned back in the call")
            case Rename(names=names):
                writer.record_repair(f"parameters {', '.join(names.values())}", where, "refused names are mapped, and back")
            case Omit(names=names):
                writer.record_repair(
                    f"parameters {', '.join(names)}", where, "null stands for left out, and is taken out again"
                )


def _lower_schema(tool: ToolDefinition, dialect: str, writer: Writer) -> LoweredSchema:
    key = (tool.namespace, tool.name, dialect)
    if key not in writer.lowering_cache:
        writer.lowering_cache[key] = lower(tool.parameters, getattr(dialects, dialect), tool_name=tool.name)
    return writer.lowering_cache[key]


def _is_usable(tool: ToolDefinition, writer: Writer) -> bool:
    """One tool with a broken schema must not cost the whole request: it is left out."""
    if tool.kind == "hosted":
        return encode_hosted(tool, writer) is not None
    try:
        _lower_schema(tool, writer.profile.dialect, writer)
    except UsageError as e:
        writer.record_loss(f"tool {tool.name!r}", "tools", f"left out: {e}")
        return False
    return True


def _is_strict(tool: ToolDefinition, name: str, writer: Writer) -> bool:
    if not tool.strict:
        return False
    if not (writer.profile.features.strict and writer.profile.strict_dialect):
        writer.record_loss("strict", f"tool {tool.name!r}", f"{writer.profile.title} has no strict mode")
        return False
    if why := writer.non_strict.get(name):
        writer.record_loss("strict", f"tool {tool.name!r}", why)
        return False
    return True


def _describe(tool: ToolDefinition, note: str = "") -> str:
    """The description; what the target has no field for is said in it."""
    lines = [line for line in (tool.description, note) if line]
    for example in tool.examples:
        note = f" ({example.description})" if example.description else ""
        lines.append(f"Example{note}: {dumps_text(example.input)}")
    if tool.kind == "freeform" and tool.grammar:
        lines.append(f"The input must follow this grammar: {dumps_text(tool.grammar)}")
    return "\n".join(lines)
