"""Tools over time: which tools the head of a request declares, and which changes stand in the history itself.

A change of the tools (`ToolsChanged`) is native if the target has a form for it where it stands: the head of
the request then stays as it is. Otherwise the head declares what the model has at the end: tools that were
added or loaded stand behind those that were there before, and removed ones are gone.

A deferred tool that was not loaded yet stays hidden only if the model can find it: by the provider's search,
or by a tool that the caller runs (`finds_tools`). Otherwise it is declared at once.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeGuard

from msgspec.structs import replace

from toolglot.common.textutil import pluralize
from toolglot.values.definitions import BUILTIN_TAG, ToolDefinition
from toolglot.values.messages import Message, Origin, ToolResult, ToolsChanged
from toolglot.values.request import Request, ToolChoice
from toolglot.wire.spec import SPECS
from toolglot.wire.tool_encoding import can_name
from toolglot.wire.writer import REFERENCE_LENGTH, Place, ToolPlan, Writer

# Which changes of the tools have a form in the history: (form of the wire, place) -> what the model has to
# support. What is not listed, the head has to express.
_NATIVE_PLACES: dict[tuple[str, Place], Literal["tool_changes", "tool_search"]] = {
    # OpenAI: the item `additional_tools` has whole definitions, and stands anywhere in the input (openai SDK
    # 3.49).
    ("definitions", "system"): "tool_changes",
    ("definitions", "user"): "tool_changes",
    ("definitions", "assistant"): "tool_changes",
    ("definitions", "tool"): "tool_changes",
    # Anthropic: any result may hold a `tool_reference` to a deferred tool of the head (anthropic SDK 2.8).
    ("references", "tool"): "tool_search",
    # Anthropic: `tool_addition` and `tool_removal` stand in a system message (Anthropic's page on system
    # messages in the middle of a conversation, recorded 200). There is no form for what a search of another
    # provider found.
    ("references", "system"): "tool_changes",
}

_Fate = Literal["keep", "hide", "declare"]
# What becomes of a deferred tool that the provider would never find: (how the history brings it, whether a
# tool of the caller can find it) -> keep it in the head as it is, hide it from the request, or declare it at
# once.
_FATES: dict[tuple[str, bool], _Fate] = {
    # Anthropic: the history refers to tools of the head; without this one, 400 `tool_reference_unresolved`
    # (anthropic SDK 2.8).
    ("references", True): "keep",
    ("references", False): "keep",
    # OpenAI: the history has the whole tool (`additional_tools`, openai SDK 3.49); left in the head, it would
    # be deferred there without a search: 400 "Deferred tools require tools.tool_search" (live-tested by
    # pydantic-ai 2.66).
    ("definitions", True): "hide",
    ("definitions", False): "hide",
    # Every provider: a result of the caller's tool brings it later.
    ("", True): "hide",
    # Every provider: nothing would ever bring it.
    ("", False): "declare",
}


class PlacedChange(NamedTuple):
    """A change of the tools, where it stands, and the origin of its message."""

    change: ToolsChanged
    place: Place
    origin: Origin | None


def find_changes(messages: Sequence[Message], leading_count: int, start: int = 0) -> list[PlacedChange]:
    """Find every change of the tools in the messages from `start` on.

    The first ones are sent outside of the history.
    """
    changes: list[PlacedChange] = []
    for index, message in enumerate(messages[start:], start):
        place: Place = "start" if index < leading_count else message.role
        # `type(...) is` instead of isinstance: this runs for every block of every request
        for block in message.blocks:
            if type(block) is ToolsChanged:
                changes.append(PlacedChange(block, place, message.origin))
            elif type(block) is ToolResult:
                for part in block.content:
                    if type(part) is ToolsChanged:
                        changes.append(PlacedChange(part, "tool", message.origin))
    return changes


def is_native(place: Place, origin: Origin | None, writer: Writer) -> bool:
    """Return whether the target has a form for a change of the tools at this place."""
    form = SPECS[writer.profile.wire].tool_changes
    if not form or place == "start":
        return False
    if writer.owns_state(origin):  # it goes back as it came, whatever is known of the model
        return True
    feature = _NATIVE_PLACES.get((form, place))
    return feature is not None and getattr(writer.profile.features, feature)


def plan_tools(request: Request, changes: Sequence[PlacedChange], writer: Writer) -> ToolPlan:
    """Plan which tools the head declares, each with `deferred` as it is sent, and which the history brings."""
    known = _index_tools(request.tools)
    are_static = not any(tool.deferred or tool.finds_tools for tool in request.tools)
    if are_static and not changes:  # nearly every request
        writer.known_tools = known
        return ToolPlan(tuple(request.tools), {}, known)
    writer.referred = _find_referred(request.tools, changes, writer)
    planned = _PlannedTools(request.tools)
    for placed in changes:
        planned.apply(placed.change, _find_form(placed, writer))
    if planned.late_names:
        writer.record_repair(
            f"tools {', '.join(planned.late_names)}",
            "came later; declared from the start of this request",
            at="tools",
        )
    removed_names = [
        _wire_name(tool, writer) for name, tool in planned.known.items() if name in planned.removed
    ]
    if removed_names:
        writer.prompt_hints.append(f"These tools can no longer be called: {', '.join(removed_names)}.")
    tools = _settle_deferred(list(planned.head.values()), planned.inline, writer)
    writer.known_tools = {name: planned.known[name] for name in planned.head if name in planned.known} | known
    return ToolPlan(
        tuple(tools),
        planned.inline,
        planned.known,
        frozenset(planned.removed),
        _find_referable(request.tool_choice, tools, writer),
        tuple(writer.prompt_hints),
        writer.referred,
    )


def _index_tools(tools: Sequence[ToolDefinition]) -> dict[str, ToolDefinition]:
    """Return tools by their qualified names. Of several with one name, the first one counts."""
    return {tool.qualified_name: tool for tool in reversed(tools)}


def _find_form(placed: PlacedChange, writer: Writer) -> str:
    """Return how the history expresses a change: with `references` to the head, with `definitions`, or not at
    all: "".
    """
    if not is_native(placed.place, placed.origin, writer):
        return ""
    if "tool" in (placed.change.opaque or {}) and writer.owns_state(placed.origin):
        # Anthropic's `tool_definition` (beta inline-tools-2026-09-15): the history has the whole tool
        return "definitions"
    return SPECS[writer.profile.wire].tool_changes


class _PlannedTools:
    """The tools of a request while its changes are applied, one after the other. Names are qualified."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        self.known = _index_tools(tools)
        self.head: dict[str, ToolDefinition] = {}
        self.inline: dict[str, ToolDefinition] = {}  # the history itself brings these
        self.removed: set[str] = set()
        # tools that the head declares, although the model has seen a head without them
        self.late_names: list[str] = []
        for number, tool in enumerate(tools):
            name = tool.qualified_name
            # `select_tools` judges tools with one name: they stay apart.
            key = name if self.known[name] is tool else f"{name}\0{number}"
            self.head[key] = tool

    def apply(self, change: ToolsChanged, form: str) -> None:
        """Apply a change that the history expresses in this form."""
        if form != "references":  # Anthropic has `tool_removal`; OpenAI's history cannot take a tool back
            for name in change.removed:
                self.head.pop(name, None)
                self.inline.pop(name, None)
                self.removed.add(name)
        added = {tool.qualified_name: tool for tool in change.added}
        self.known |= added
        loaded = {*change.loaded, *(tool.qualified_name for tool in change.added if not tool.deferred)}
        for name in dict.fromkeys((*added, *change.loaded)):
            if name in self.known:
                self.removed.discard(name)
                self._place(self.known[name], form, is_loaded=name in loaded)

    def _place(self, tool: ToolDefinition, form: str, *, is_loaded: bool) -> None:
        """Put a tool that was added, or loaded, where the target wants it."""
        name = tool.qualified_name
        if form != "definitions":
            declared = self.head.get(name)
            if declared is not None and replace(tool, deferred=declared.deferred) != declared:
                del self.head[name]  # another definition counts from now on
        is_callable = name in self.head and not self.head[name].deferred
        becomes_callable = is_loaded and not is_callable
        match form:
            case "references":
                # Anthropic: the head declares all tools, and the history says from where on they are there
                if name not in self.head:
                    self.head[name] = replace(tool, deferred=True)
                if becomes_callable:
                    self.inline[name] = tool
            case "definitions":  # OpenAI: the head stays as it is
                if becomes_callable:
                    self.inline[name] = tool
            case _ if becomes_callable:
                # behind those that were there before: they stay in the prompt cache
                self.head.pop(name, None)
                self.head[name] = replace(tool, deferred=False)
                self.late_names.append(name)
            case _:
                self.head.setdefault(name, tool)


def _find_referred(
    tools: Sequence[ToolDefinition], changes: Sequence[PlacedChange], writer: Writer
) -> frozenset[str]:
    """Return the tools with long names that references may name: they have the same short name everywhere."""
    if SPECS[writer.profile.wire].tool_changes != "references":
        return frozenset()
    names = {tool.qualified_name for tool in tools if tool.deferred}
    for change, _, _ in changes:
        names.update(change.loaded, change.removed)
        for tool in change.added:
            names.add(tool.qualified_name)
    return frozenset(name for name in names if len(name) >= REFERENCE_LENGTH)


def _find_referable(
    choice: ToolChoice | None, tools: Sequence[ToolDefinition], writer: Writer
) -> frozenset[str]:
    """Return the tools that the history may refer to: those that the choice leaves in the head."""
    referable = tools
    if _limits_tools(choice):
        chosen = [tool for tool in tools if choice.includes(tool)]
        if chosen and not can_name(chosen, choice.mode, writer):
            referable = chosen
    return frozenset(tool.qualified_name for tool in referable)


def _limits_tools(choice: ToolChoice | None) -> TypeGuard[ToolChoice]:
    """Return whether a choice names the only tools that may be called."""
    if choice is None or choice.mode == "none":
        return False
    return bool(choice.names)


# ---- tools that the model has not found yet


def _settle_deferred(
    tools: list[ToolDefinition], inline: dict[str, ToolDefinition], writer: Writer
) -> list[ToolDefinition]:
    """Declare, hide or defer the tools that the model has not found yet."""
    deferred = [tool for tool in tools if _waits_for_search(tool)]
    has_search = _has_search(deferred, writer)
    if has_search:
        _replace_foreign_searches(tools, writer)
    if not deferred or (has_search and _may_stay_deferred(tools, deferred, writer.profile.wire)):
        return tools
    return _settle_unfindable(tools, inline, writer)


def _waits_for_search(tool: ToolDefinition) -> bool:
    """Return whether the model does not see a tool before it has been found."""
    return tool.deferred and tool.kind != "hosted"


def _is_provider_search(tool: ToolDefinition) -> bool:
    return tool.finds_tools and tool.kind == "hosted"


def _is_caller_search(tool: ToolDefinition) -> bool:
    return tool.finds_tools and tool.kind != "hosted"


def _has_search(deferred: Sequence[ToolDefinition], writer: Writer) -> bool:
    """Return whether the model can load deferred tools."""
    wire = writer.profile.wire
    if not SPECS[wire].tool_changes:
        return False
    # Tools that came from this wire go back as they came, whatever is known of the model.
    return writer.profile.features.tool_search or any(tool.wire == wire for tool in deferred)


def _replace_foreign_searches(tools: list[ToolDefinition], writer: Writer) -> None:
    """Put the search of the target in the place of those that other providers run."""
    wire = writer.profile.wire
    title = writer.profile.title
    native = SPECS[wire].search_tool
    if not native:
        return
    searches = {tool.qualified_name: tool for tool in tools if _is_provider_search(tool)}
    for name, tool in searches.items():
        if tool.wire != wire:
            writer.record_repair(f"hosted tool {tool.name!r}", f"sent as the search of {title}", at="tools")
            tools[tools.index(tool)] = ToolDefinition(
                name, kind="hosted", wire=wire, opaque=native, finds_tools=True
            )


def _may_stay_deferred(
    tools: Sequence[ToolDefinition], deferred: Sequence[ToolDefinition], wire: str
) -> bool:
    """Return whether the model will find the deferred tools where the target has a search for them."""
    own_searches = [tool for tool in tools if _is_provider_search(tool) and tool.wire == wire]
    if own_searches:
        return True
    if all(tool.wire == wire for tool in deferred):  # they go back as they came
        return True
    if SPECS[wire].tool_changes != "references":  # OpenAI: 400 "Deferred tools require tools.tool_search"
        return False
    return any(map(_is_caller_search, tools))  # Anthropic: any result can refer to them


def _settle_unfindable(
    tools: Sequence[ToolDefinition], inline: dict[str, ToolDefinition], writer: Writer
) -> list[ToolDefinition]:
    """Keep, hide or declare each deferred tool, where the provider itself finds none: see `_FATES`."""
    form = SPECS[writer.profile.wire].tool_changes
    if form == "references" and all(tool.deferred for tool in tools):
        form = ""  # Anthropic is believed to refuse a head in which every tool is deferred
    finder = next(filter(_is_caller_search, tools), None)
    kept: list[ToolDefinition] = []
    hidden: list[ToolDefinition] = []
    declared_count = 0
    for tool in tools:
        if not _waits_for_search(tool):
            kept.append(tool)
            continue
        brought_as = form if tool.qualified_name in inline else ""
        match _FATES[brought_as, finder is not None]:
            case "keep":
                kept.append(tool)
            case "hide":
                hidden.append(tool)
            case "declare":
                kept.append(replace(tool, deferred=False))
                declared_count += 1
    if hidden and finder is not None:
        _explain_search(finder, hidden, writer)
    if declared_count:
        reason = f"declared at once: {writer.profile.title} has no search that could find them"
        writer.record_repair(pluralize(declared_count, "deferred tool"), reason, at="tools")
    return kept


def _explain_search(finder: ToolDefinition, hidden: Sequence[ToolDefinition], writer: Writer) -> None:
    """Tell the model which tools it does not see, and which tool brings them."""
    if BUILTIN_TAG in finder.tags:  # our own search says itself what it finds
        return
    # All of them, whether or not they were loaded since: the head must not change when one is.
    names = ", ".join(_wire_name(tool, writer) for tool in hidden)
    hint = f"Use {_wire_name(finder, writer)} to load one of these tools before you call it: {names}."
    writer.prompt_hints.append(hint)
    reason = (
        f"{writer.profile.title} cannot defer tools; hidden until {finder.name!r} finds them, and "
        "named "
        "in the prompt"
    )
    writer.record_repair(pluralize(len(hidden), "deferred tool"), reason, at="tools")


def _wire_name(tool: ToolDefinition, writer: Writer) -> str:
    """Return how the model knows a tool: in a namespace, its name alone says too little."""
    name = writer.map_tool_name(tool.name, tool.namespace)
    is_inner = bool(tool.namespace) and writer.profile.features.namespaces
    return f"{tool.namespace}.{name}" if is_inner else name


def describe_loaded(changes: Sequence[ToolsChanged], writer: Writer) -> str:
    """Return the text of a result that loaded tools, for targets that only read text."""
    names: list[str] = []
    for change in changes:
        names += [_wire_name(tool, writer) for tool in change.added]
    for change in changes:
        for name in change.loaded:
            if tool := writer.plan.known.get(name):
                name = _wire_name(tool, writer)
            names.append(name)
    if not names:
        return ""
    return f"Loaded: {', '.join(dict.fromkeys(names))}."
