"""Tools for a target: which ones are sent, under which names and schemas, and how the choice among them is
expressed.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.errors import UsageError
from toolglot.schema import dialects
from toolglot.schema.arguments import find_issues
from toolglot.schema.lower import check_strict_limits, lower
from toolglot.schema.lowering_result import LoweredSchema
from toolglot.values.definitions import ToolExample
from toolglot.values.request import Request, ToolChoice, ToolDefinition
from toolglot.wire.cache_marks import check_tool_mark
from toolglot.wire.writer import Writer


class EncodedFunction(msgspec.Struct, frozen=True):
    """A tool as the target's function. `extra` holds fields that only its own wire understands."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool
    extra: dict[str, Any]
    examples: list[dict[str, Any]] = []
    """Inputs that the description does not contain, if the target has a field for them."""

    def to_fields(self, schema_key: str = "parameters") -> dict[str, Any]:
        """Return name, description if there is one, and schema."""
        description = {"description": self.description} if self.description else {}
        return {"name": self.name, **description, schema_key: self.schema}


# The schema of a freeform tool on wires that have only functions.
FREEFORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input as plain text."}},
    "required": ["input"],
}


# Hosted tools that run code which calls tools. Anthropic names the caller by the type (not the first one of
# 2025-05).
_RUNS_CODE = re.compile(r"programmatic_tool_calling$|code_execution_(?!20250522)\d+$")
_CODE_CALLERS = {"programmatic_tool_calling": "programmatic"}


def reserve_names(tools: Iterable[ToolDefinition], writer: Writer) -> None:
    """Give tools the first choice of names, before calls of the history, and find those that cannot all be
    strict.
    """
    strict: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if definition := native_definition(tool, writer):
            writer.native_types[tool.name] = str(definition.get("type", ""))
        if tool.kind != "hosted":
            name = writer.map_tool_name(tool.name, tool.namespace)  # before any call of the history
            if tool.strict and writer.profile.strict_dialect:
                with suppress(UsageError):  # `select_tools` drops a tool with a broken schema, and says why
                    strict[name] = _lower_schema(tool, writer.profile.strict_dialect, writer).schema
    # limits hold for all strict schemas of a request together: Anthropic allows 20 tools, 24 optional
    # parameters
    if strict:
        limited = check_strict_limits(strict, getattr(dialects, writer.profile.strict_dialect))
        writer.non_strict = {**writer.non_strict, **limited}


def select_tools(request: Request, writer: Writer) -> tuple[list[ToolDefinition], ToolChoice | None]:
    """Select the tools and the choice that the target can express.

    A choice that it cannot express is emulated: tools are omitted, and a prompt hint tells the model.
    """
    writer.enter("tools")
    writer.code_caller = _find_code_caller(request.tools, writer.profile.wire)
    tools = _select_usable(request.tools, writer)
    limit = writer.profile.limits.tools
    declared = [tool for tool in tools if not tool.deferred]
    if limit and len(declared) > limit:
        extra = declared[limit:]
        _omit_tools(extra, f"{writer.profile.title} accepts at most {limit}; defer some of them", writer)
        tools = [tool for tool in tools if tool not in extra]
    return _select_choice(request.tool_choice, tools, writer)


def _find_code_caller(tools: Iterable[ToolDefinition], wire: str) -> str:
    """Return how the wire names the code that calls tools, if the request lets the provider run any."""
    for tool in tools:
        if tool.kind == "hosted" and tool.wire == wire:
            type_name = str((tool.opaque or {}).get("type"))
            if _RUNS_CODE.match(type_name):
                return _CODE_CALLERS.get(type_name, type_name)
    return ""


def _select_usable(tools: Iterable[ToolDefinition], writer: Writer) -> list[ToolDefinition]:
    """Return the tools that can be sent; of several functions with one name, the first one."""
    usable: list[ToolDefinition] = []
    seen: dict[tuple[str, str], ToolDefinition] = {}
    for tool in tools:
        first = seen.get((tool.namespace, tool.name))
        if first is not None and tool.kind != "hosted":  # Anthropic and Gemini refuse two tools with one name
            if tool != first:
                writer.record_loss(
                    f"tool {tool.name!r}", "another tool has the same name; the first one is kept", at="tools"
                )
            continue
        seen[tool.namespace, tool.name] = tool
        tool = check_tool_mark(tool, writer)
        if is_usable(tool, writer):
            usable.append(tool)
    return usable


def _select_choice(
    choice: ToolChoice | None, tools: list[ToolDefinition], writer: Writer
) -> tuple[list[ToolDefinition], ToolChoice | None]:
    """Return the tools with the choice among them, and among those that the history brings, as the target can
    express it.
    """
    inline = writer.plan.inline
    if choice is None:
        return tools, None
    if not tools and not inline:
        if choice.mode == "required":
            writer.record_loss("tool_choice", "there are no tools to choose from", at="tool_choice")
        return tools, None
    # whatever names it has: OpenAI refuses a list of allowed tools with the mode "none"
    if choice.mode == "none":
        return _emulate_choice(tools, "none", [], writer)
    chosen = [tool for tool in tools if choice.includes(tool)]
    names = {tool.qualified_name for tool in tools}  # Anthropic: the head has what the history brings
    for tool in inline.values():
        if tool.qualified_name not in names and choice.includes(tool):
            chosen.append(tool)
    if choice.names and not chosen:
        writer.record_loss(
            "tool_choice", f"there is no tool {' or '.join(map(repr, choice.names))}", at="tool_choice"
        )
        return tools, None
    return _emulate_choice(tools, choice.mode, chosen, writer)


def _emulate_choice(
    tools: list[ToolDefinition], mode: str, chosen: list[ToolDefinition], writer: Writer
) -> tuple[list[ToolDefinition], ToolChoice | None]:
    choices = writer.profile.features.choices
    model = writer.model or writer.profile.title
    if mode == "none":
        if "none" in choices:
            return tools, ToolChoice("none")
        _omit_tools(tools, f"{model} has no choice 'none'", writer)
        return [], None
    if chosen and not can_name(chosen, mode, writer):
        others = [tool for tool in tools if tool not in chosen]
        _omit_tools(others, f"{model} has no such choice", writer)
        tools = [tool for tool in tools if tool in chosen]
        chosen = []
    if "required" in choices:
        names = tuple(tool.qualified_name for tool in chosen)
        return tools, ToolChoice(mode, names)  # pyright: ignore[reportArgumentType]
    if mode == "required":
        reason = f"{model} cannot be forced to call a tool; a prompt hint asks for it"
        writer.record_loss("tool_choice", reason, at="tool_choice")
        writer.prompt_hints.append(_ask_for_call(tools, chosen or tools, writer))
    return tools, None


def _ask_for_call(tools: Sequence[ToolDefinition], wanted: Sequence[ToolDefinition], writer: Writer) -> str:
    """Return the hint for a model that cannot be forced to call a tool."""
    if len(tools) > 3:  # a long list of names distracts the model
        return "Answer with a call to a tool."
    names = [writer.map_tool_name(tool.name, tool.namespace) for tool in wanted]
    return f"Answer with a call to {' or '.join(names)}."


def can_name(chosen: Sequence[ToolDefinition], mode: str, writer: Writer) -> bool:
    """Return whether the target can be told to choose between these tools; otherwise it gets no others."""
    features = writer.profile.features
    # A tool in a namespace cannot be chosen by its name: "Tool choice … not found in 'tools' parameter".
    if features.namespaces and any(tool.namespace for tool in chosen):
        return False
    if len(chosen) == 1 and mode == "required":
        return "named" in features.choices
    return "subset" in features.choices


def _omit_tools(tools: list[ToolDefinition], reason: str, writer: Writer) -> None:
    names: list[str] = []
    for tool in tools:
        name = writer.map_tool_name(tool.name, tool.namespace)
        is_inner = bool(tool.namespace) and writer.profile.features.namespaces
        names.append(f"{tool.namespace}.{name}" if is_inner else name)
    for name in names:
        writer.record_loss(f"tool {name!r}", f"omitted from this request: {reason}", at="tools")
    if names:  # the history may contain calls to them
        writer.prompt_hints.append(f"These tools cannot be called now: {', '.join(names)}.")


def select_chosen(
    choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer
) -> list[tuple[ToolDefinition, str]]:
    """Return the tools that a choice names, with their names on the wire."""
    offered = {tool.qualified_name: tool for tool in (*tools, *writer.plan.inline.values())}
    chosen = [tool for name, tool in offered.items() if name in choice.names]
    return [(tool, writer.map_tool_name(tool.name, tool.namespace)) for tool in chosen]


def native_definition(tool: ToolDefinition, writer: Writer) -> dict[str, Any] | None:
    """Return the vendor's own definition of a tool that it runs, or that the model is trained on; else None."""
    if tool.kind == "hosted":
        return tool.opaque if tool.wire == writer.profile.wire else None
    definition = tool.typed.get(writer.profile.wire)
    if definition is None or definition["type"] not in writer.profile.features.typed:
        return None
    return definition


def encode_function(tool: ToolDefinition, writer: Writer) -> EncodedFunction:
    """Encode a tool as a function. A freeform tool becomes a function with one text parameter."""
    name = writer.map_tool_name(tool.name, tool.namespace)
    if tool.kind == "freeform":
        writer.record_loss("freeform", "sent as a function with one text parameter", at=f"tool {tool.name!r}")
        writer.freeform.add(name)
        return EncodedFunction(name, describe_tool(tool), FREEFORM_SCHEMA, False, {})
    extra = encode_callers(tool, writer)
    if tool.opaque and tool.wire == writer.profile.wire:
        extra |= tool.opaque
    is_strict = bool(tool.strict)
    reason = _why_not_strict(name, writer) if is_strict else ""
    if reason:
        writer.record_loss("strict", reason, at=f"tool {tool.name!r}")
        is_strict = False
    dialect = writer.profile.strict_dialect if is_strict else writer.profile.dialect
    lowered = _lower_schema(tool, dialect, writer)
    if writer.plan.inline.get(tool.qualified_name, tool).parameters == tool.parameters:
        writer.lowerings[name] = lowered  # calls from now on are made for the latest definition
    writer.losses.extend(lowered.losses)
    _report_restorations(tool, lowered, writer)
    inputs: list[dict[str, Any]] = []
    as_texts: list[ToolExample] = []
    for example in tool.examples:
        # An input that does not fit the schema is refused, and a caption has no field: such examples stay
        # text.
        has_field = writer.profile.features.examples and not example.description
        if has_field and not find_issues(example.input, lowered.schema):
            inputs.append(example.input)
        else:
            as_texts.append(example)
    description = describe_tool(replace(tool, examples=tuple(as_texts)), lowered.root_description)
    return EncodedFunction(name, description, lowered.schema, is_strict, extra, inputs)


def _why_not_strict(name: str, writer: Writer) -> str:
    """Return why a strict tool is sent without `strict`, or an empty text."""
    if not writer.profile.features.strict or not writer.profile.strict_dialect:
        return f"{writer.profile.title} has no strict mode"
    return writer.non_strict.get(name, "")


def encode_callers(tool: ToolDefinition, writer: Writer) -> dict[str, Any]:
    """Return who may call a tool, if the target runs code that calls tools; and what that code gets."""
    code_caller = writer.code_caller
    if not code_caller:
        is_for_code = bool(tool.callers) and "model" not in tool.callers
        if is_for_code and tool.wire != writer.profile.wire:
            reason = (
                f"{writer.profile.title} runs no code in this request that could call it; the model "
                "calls it itself"
            )
            writer.record_loss("callers", reason, at=f"tool {tool.name!r}")
        return {}
    fields: dict[str, Any] = {}
    if tool.callers:
        names = {"code": code_caller}
        fields["allowed_callers"] = [names.get(caller, "direct") for caller in tool.callers]
    # Only OpenAI's programmatic calling has a field for results (openai 3.49).
    if tool.output_schema is not None and code_caller == "programmatic":
        fields["output_schema"] = tool.output_schema
    return fields


def _report_restorations(tool: ToolDefinition, lowered: LoweredSchema, writer: Writer) -> None:
    """Report changes of shape that `restore_calls` undoes when the call arrives."""
    for restoration in lowered.restorations:
        where = f"tool {tool.name!r} at {restoration.pointer}"
        names = restoration.names
        match restoration.kind:
            case "pairs":
                writer.record_loss("map", "sent as a list of keys and values; restored in the call", at=where)
            case "json":
                writer.record_loss("free value", "requested as JSON text; restored in the call", at=where)
            case "rename":
                writer.record_repair(
                    f"parameters {', '.join(names.values())}", "invalid names are mapped, and back", at=where
                )
            case "omit":
                writer.record_repair(
                    f"parameters {', '.join(names)}", "null means omitted; it is removed again", at=where
                )


def _lower_schema(tool: ToolDefinition, dialect: str, writer: Writer) -> LoweredSchema:
    key = (tool.namespace, tool.name, dialect)
    cached = writer.lowering_cache.get(key)
    # the history may have more than one definition of a tool
    if cached is None or cached[0] != tool.parameters:
        lowered = lower(tool.parameters, getattr(dialects, dialect), tool_name=tool.name)
        cached = writer.lowering_cache[key] = (tool.parameters, lowered)
    return cached[1]


def is_usable(tool: ToolDefinition, writer: Writer) -> bool:
    """Return whether the tool can be sent. One broken schema must not make the whole request fail."""
    if tool.kind == "hosted":
        if native_definition(tool, writer):
            return True
        reason = f"only {tool.wire} runs it" if tool.wire != writer.profile.wire else "it has no definition"
        writer.record_loss(f"hosted tool {tool.name!r}", reason, at="tools")
        return False
    try:
        _lower_schema(tool, writer.profile.dialect, writer)
    except UsageError as e:
        writer.record_loss(f"tool {tool.name!r}", f"omitted: {e}", at="tools")
        return False
    return True


def describe_tool(tool: ToolDefinition, note: str = "") -> str:
    """Return the description, with what the target has no field for."""
    lines = list(filter(None, (tool.description, note)))
    for example in tool.examples:
        caption = f" ({example.description})" if example.description else ""
        lines.append(f"Example{caption}: {dumps_text(example.input)}")
    if tool.kind == "freeform" and tool.grammar:
        lines.append(f"The input must follow this grammar: {dumps_text(tool.grammar)}")
    return "\n".join(lines)
