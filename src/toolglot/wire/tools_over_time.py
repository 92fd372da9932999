"""Tools over time: which tools the head of a request declares, and which changes stand in the history itself.

A change of the tools (`ToolsChanged`) is native if the target has a form for it where it stands: the head of the request then
stays as it is. Otherwise the head declares what the model has at the end: tools that were added or loaded stand behind those
that were there before, and removed ones are gone.

A deferred tool that was not loaded yet stays hidden only if the model can find it: by the provider's search, or by a tool that
the caller runs (`finds_tools`). Otherwise it is declared at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from toolglot.common.textutil import pluralize
from toolglot.values.definitions import BUILTIN_TAG, ToolDefinition
from toolglot.values.messages import Message, Origin, ToolResult, ToolsChanged
from toolglot.values.request import Request
from toolglot.wire.spec import SPECS
from toolglot.wire.tool_encoding import can_name
from toolglot.wire.writer import REFERENCE_LENGTH, Place, ToolPlan, Writer


class PlacedChange(NamedTuple):
    """A change of the tools, where it stands, and the origin of its message."""

    change: ToolsChanged
    place: Place
    origin: Origin | None


def find_changes(messages: Sequence[Message], leading_count: int, start: int = 0) -> list[PlacedChange]:
    """Find every change of the tools in the messages from `start` on. The first ones are sent outside of the history."""
    changes: list[PlacedChange] = []
    for index, message in enumerate(messages[start:], start):
        for block in message.blocks:  # `type(...) is` instead of isinstance: this runs for every block of every request
            if type(block) is ToolsChanged:
                changes.append(PlacedChange(block, "start" if index < leading_count else message.role, message.origin))
            elif type(block) is ToolResult:
                changes += [PlacedChange(part, "tool", message.origin) for part in block.content if type(part) is ToolsChanged]
    return changes


def is_native(place: Place, origin: Origin | None, writer: Writer) -> bool:
    """Return whether the target has a form for a change of the tools at this place."""
    form, features = SPECS[writer.profile.wire].tool_changes, writer.profile.features
    if not form or place == "start":
        return False
    if writer.owns_state(origin):
        return True
    if form == "definitions":  # OpenAI: an item with whole definitions, anywhere
        return features.tool_changes
    if place == "tool":  # Anthropic: a result refers to tools of the head
        return features.tool_search
    return place == "system" and features.tool_changes  # what a search of another provider found has no form here


def plan_tools(request: Request, changes: Sequence[PlacedChange], writer: Writer) -> ToolPlan:
    """Plan which tools the head declares, each with `deferred` as it is sent, and which the history brings."""
    wire_form = SPECS[writer.profile.wire].tool_changes
    named = [(tool.qualified_name, tool) for tool in request.tools]
    known = dict(reversed(named))  # the first one counts
    if not changes and not any(tool.deferred or tool.finds_tools for tool in request.tools):  # nearly every request
        writer.known_tools = known
        return ToolPlan(tuple(request.tools), {}, known)
    writer.referred = _find_referred(request.tools, changes, writer)
    # `select_tools` judges tools with one name: they stay apart.
    first_known = dict(known)
    head = {name if known[name] is tool else f"{name}\0{n}": tool for n, (name, tool) in enumerate(named)}
    inline, removed, late_names = dict[str, ToolDefinition](), set[str](), list[str]()
    for change, place, origin in changes:
        form = wire_form if is_native(place, origin, writer) else ""
        if form and "tool" in (change.opaque or {}) and writer.owns_state(origin):
            form = "definitions"  # Anthropic's `tool_definition`: the history has the whole tool
        for name in change.removed if form != "references" else ():  # OpenAI's history cannot take a tool back
            head.pop(name, None)
            inline.pop(name, None)
            removed.add(name)
        known |= {tool.qualified_name: tool for tool in change.added}
        loaded = {*(tool.qualified_name for tool in change.added if not tool.deferred), *change.loaded}
        for name in dict.fromkeys((*(tool.qualified_name for tool in change.added), *change.loaded)):
            if name in known:
                removed.discard(name)
                if name in head and form != "definitions" and replace(known[name], deferred=head[name].deferred) != head[name]:
                    del head[name]  # another definition counts from now on
                if _place_tool(known[name], form, head, inline, is_loaded=name in loaded):
                    late_names.append(name)
    if late_names:
        writer.record_repair(
            f"tools {', '.join(late_names)}", "came later; declared from the start of this request", at="tools"
        )
    if removed_names := [_wire_name(tool, writer) for name, tool in known.items() if name in removed]:
        writer.prompt_hints.append(f"These tools can no longer be called: {', '.join(removed_names)}.")
    tools = _settle_deferred(list(head.values()), inline, writer)
    writer.known_tools = {name: known[name] for name in head if name in known} | first_known
    choice, referable = request.tool_choice, tools
    if choice is not None and choice.names and choice.mode != "none":
        chosen = [tool for tool in tools if choice.includes(tool)]
        referable = chosen if chosen and not can_name(chosen, choice.mode, writer) else tools
    names = frozenset(tool.qualified_name for tool in referable)
    hints = tuple(writer.prompt_hints)
    return ToolPlan(tuple(tools), inline, known, frozenset(removed), names, hints, writer.referred)


def _find_referred(tools: Sequence[ToolDefinition], changes: Sequence[PlacedChange], writer: Writer) -> frozenset[str]:
    """Return the tools with long names that references may name: they have the same short name everywhere."""
    if SPECS[writer.profile.wire].tool_changes != "references":
        return frozenset()
    names = {tool.qualified_name for tool in tools if tool.deferred}
    for change, _, _ in changes:
        names.update(tool.qualified_name for tool in change.added)
        names.update(change.loaded, change.removed)
    return frozenset(name for name in names if len(name) >= REFERENCE_LENGTH)


def _place_tool(
    tool: ToolDefinition, form: str, head: dict[str, ToolDefinition], inline: dict[str, ToolDefinition], *, is_loaded: bool
) -> bool:
    """Put a tool that was added or loaded where the target wants it. Return whether it is new among those of the head."""
    name = tool.qualified_name
    is_callable = name in head and not head[name].deferred
    if form == "references" and name not in head:
        head[name] = replace(tool, deferred=True)
    elif not form and is_loaded and not is_callable:
        head.pop(name, None)  # behind those that were there before
        head[name] = replace(tool, deferred=False)
        return True
    elif not form:
        head.setdefault(name, tool)
    if form and is_loaded and not is_callable:
        inline[name] = tool
    return False


def _settle_deferred(tools: list[ToolDefinition], inline: dict[str, ToolDefinition], writer: Writer) -> list[ToolDefinition]:
    """Declare, hide or defer the tools that the model has not found yet."""
    wire, title = writer.profile.wire, writer.profile.title
    deferred = [tool for tool in tools if tool.deferred and tool.kind != "hosted"]
    # Tools that came from this wire go back as they came, whatever is known of the model.
    has_search = bool(SPECS[wire].tool_changes) and (
        writer.profile.features.tool_search or any(tool.wire == wire for tool in deferred)
    )
    searches = {tool.qualified_name: tool for tool in tools if tool.finds_tools and tool.kind == "hosted"}
    for name, tool in searches.items():
        native = SPECS[wire].search_tool
        if tool.wire != wire and has_search and native:
            writer.record_repair(f"hosted tool {tool.name!r}", f"sent as the search of {title}", at="tools")
            tools[tools.index(tool)] = ToolDefinition(name, kind="hosted", wire=wire, opaque=native, finds_tools=True)
    if not deferred:
        return tools
    can_search = has_search and any(tool.finds_tools and tool.kind == "hosted" and tool.wire == wire for tool in tools)
    finders = [tool for tool in tools if tool.finds_tools and tool.kind != "hosted"]
    if can_search or (has_search and _defers_without_search(finders, deferred, wire)):
        return tools
    is_referenced = SPECS[wire].tool_changes == "references"  # what the history brings is in the head, too
    can_stay = is_referenced and not all(tool.deferred for tool in tools)  # believed to be refused if all are deferred
    kept: list[ToolDefinition] = []
    hidden: list[ToolDefinition] = []
    declared_count = 0
    for tool in tools:
        is_inline = tool.qualified_name in inline
        if not tool.deferred or tool.kind == "hosted" or (is_inline and can_stay):
            kept.append(tool)
        elif finders or (is_inline and not is_referenced):
            hidden.append(tool)
        else:
            kept.append(replace(tool, deferred=False))
            declared_count += 1
    if hidden and finders and BUILTIN_TAG not in finders[0].tags:  # our own search says itself what it finds
        # All of them, whether or not they were loaded since: the head must not change when one is.
        names = ", ".join(_wire_name(tool, writer) for tool in hidden)
        hint = f"Use {_wire_name(finders[0], writer)} to load one of these tools before you call it: {names}."
        writer.prompt_hints.append(hint)
        reason = f"{title} cannot defer tools; hidden until {finders[0].name!r} finds them, and named in the prompt"
        writer.record_repair(pluralize(len(hidden), "deferred tool"), reason, at="tools")
    if declared_count:
        reason = f"declared at once: {title} has no search that could find them"
        writer.record_repair(pluralize(declared_count, "deferred tool"), reason, at="tools")
    return kept


def _defers_without_search(finders: list[ToolDefinition], deferred: list[ToolDefinition], wire: str) -> bool:
    """Return whether deferred tools may be declared although the provider does not search for them."""
    # Anthropic: any result can refer to them. OpenAI: 400 "Deferred tools require tools.tool_search".
    return all(tool.wire == wire for tool in deferred) or (bool(finders) and SPECS[wire].tool_changes == "references")


def _wire_name(tool: ToolDefinition, writer: Writer) -> str:
    name = writer.map_tool_name(tool.name, tool.namespace)
    return f"{tool.namespace}.{name}" if tool.namespace and writer.profile.features.namespaces else name


def describe_loaded(changes: Sequence[ToolsChanged], writer: Writer) -> str:
    """Return the text of a result that loaded tools, for targets that only read text."""
    loaded = [*(tool for change in changes for tool in change.added), *(n for change in changes for n in change.loaded)]
    names: list[str] = []
    for item in loaded:
        tool = item if isinstance(item, ToolDefinition) else writer.plan.known.get(item)
        names.append(_wire_name(tool, writer) if tool else str(item))
    return f"Loaded: {', '.join(dict.fromkeys(names))}." if names else ""
