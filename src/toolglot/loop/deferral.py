"""Many tools: which of them a model must search for, and what a conversation says about tools.

Pure: the rule looks at definitions and limits, the timeline at messages. Nothing is stored beside the
conversation, so that what was loaded survives saving, other models, and the truncation of the context.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.textutil import pluralize
from toolglot.common.value_checks import as_items, check_arguments
from toolglot.errors import UsageError
from toolglot.providers.profile import Profile
from toolglot.providers.tokens import estimate_tool, token_factor
from toolglot.values.definitions import ALWAYS_SHOWN_TAG, BUILTIN_TAG, ToolDefinition, to_storable
from toolglot.values.messages import Conversation, Message, ToolsChanged
from toolglot.values.request import iter_changes

__all__ = ["Defer", "Deferral", "ToolTimeline", "matches_pattern", "parse_defer", "plan_deferral"]

log = get_logger("toolglot.loop")

Defer = bool | str | Collection[str] | Callable[[ToolDefinition], bool] | None
"""None: defers tools if there are too many · True: all but the built-in ones · False: none · names, patterns
or tags of tools · a function that decides for each tool."""
WINDOW_SHARE = 0.1
"""Tools are deferred automatically if they would take more than this share of the context window."""
# of the settings; they work in Python, too
_WORDS: dict[str, bool | None] = {"auto": None, "all": True, "none": False}
_MIN_TOOLS = 10  # with fewer, a search costs more than it saves
_LOOP_TOOLS = 2  # that come while a conversation goes on: `read_result` and `final_answer`


class Deferral(msgspec.Struct, frozen=True):
    """The tools that a model must search for before it sees them, and what that saves."""

    names: frozenset[str]
    """The names of the tools."""
    reason: str
    """Why they are deferred."""
    tokens: int
    """Estimated tokens of their definitions, which requests omit."""
    total_tokens: int
    """Estimated tokens of all definitions."""
    is_automatic: bool = False
    """There are too many tools for the model; otherwise, the agent was told to defer these."""
    tool_count: int = 0
    """How many tools there are."""
    window: int = 0
    """The context window of which they would take too much; 0: they are deferred for another reason."""

    def __repr__(self) -> str:
        return f"<Deferral: {self.message}>"

    @property
    def message(self) -> str:
        """One sentence about what is deferred, why, and what that saves."""
        count = pluralize(len(self.names), "tool")
        return f"{count} deferred, which saves about {self.tokens:,} tokens per request: {self.reason}"

    def scale(self, factor: float) -> "Deferral":
        """Return this with other estimates: `factor` times the present ones."""
        tokens, total_tokens = int(factor * self.tokens), int(factor * self.total_tokens)
        reason = self.reason
        if self.window:
            reason = _describe_size(self.tool_count, total_tokens, self.window)
        return replace(self, tokens=tokens, total_tokens=total_tokens, reason=reason)


def parse_defer(defer: Defer | Iterable[str]) -> Defer:
    """Return a rule with its names as a set, and the words of the settings as what they mean.

    Raises UsageError.
    """
    if not isinstance(defer, Iterable):
        return defer
    names = as_items(defer)
    for name in names:
        check_arguments({"defer": name}, {"defer": (str, "names, patterns or tags of tools")})
    return _WORDS[names[0]] if len(names) == 1 and names[0] in _WORDS else frozenset(names)


def plan_deferral(
    tools: Iterable[ToolDefinition],
    profile: Profile,
    defer: Defer,
    builtin: Collection[str] = (),
    hosted_count: int = 0,
) -> Deferral | None:
    """Return which tools to defer for a model, by their qualified names; None if all of them are shown.

    `builtin`: the built-in tools that the model's own harness defers, too; only if the agent says that it
    defers tools.
    `hosted_count`: how many tools of the provider there are besides.
    """
    if defer is False:
        return None
    tools = tuple(tools)
    harness_names = builtin if defer is True else ()
    selected = [tool for tool in tools if _is_selected(tool, defer, harness_names)]
    excess = ""
    if defer is None:
        if len(selected) >= _MIN_TOOLS:
            excess = _describe_excess(tools, profile, hosted_count)
        if not excess:  # only those that are marked, which few agents have
            selected = [tool for tool in selected if tool.deferred]
    if not selected:
        return None
    names = frozenset(tool.qualified_name for tool in selected)
    reason = excess or "the agent defers them"
    tokens, total_tokens = _estimate_tokens(selected, profile), _estimate_tokens(tools, profile)
    window = profile.limits.context or 0
    is_large = window and excess == _describe_size(len(tools), total_tokens, window)
    return Deferral(
        names,
        reason,
        tokens,
        total_tokens,
        is_automatic=bool(excess),
        tool_count=len(tools),
        window=window if is_large else 0,
    )


def _is_selected(tool: ToolDefinition, defer: Defer, harness_names: Collection[str]) -> bool:
    if tool.kind == "hosted":
        return False
    if tool.deferred or tool.name in harness_names:
        return True
    if defer is None or defer is True:
        return not {BUILTIN_TAG, ALWAYS_SHOWN_TAG}.intersection(tool.tags)
    if callable(defer):
        return bool(defer(tool))
    return any(matches_pattern(tool, pattern) for pattern in as_items(defer))


def _describe_excess(tools: tuple[ToolDefinition, ...], profile: Profile, hosted_count: int) -> str:
    """Return why these are too many tools for a model; "" if they are not."""
    limit, window = profile.limits.tools, profile.limits.context
    count = len(tools) + hosted_count + _LOOP_TOOLS
    if limit is not None and count > limit:
        return f"{profile.title} accepts at most {limit} tools, and there are {count}, with those of the loop"
    if not window:
        return ""
    tokens = _estimate_tokens(tools, profile)
    if tokens <= window * WINDOW_SHARE:
        return ""
    return _describe_size(len(tools), tokens, window)


def _describe_size(count: int, tokens: int, window: int) -> str:
    return f"{count} tools would take about {tokens:,} tokens, {tokens / window:.0%} of the context window"


def _estimate_tokens(tools: Iterable[ToolDefinition], profile: Profile) -> int:
    return int(token_factor(profile.model) * sum(map(estimate_tool, tools)))


def matches_pattern(tool: ToolDefinition, pattern: str) -> bool:
    """Return whether a pattern is about a tool: by its name or one of its tags."""
    return (
        pattern in tool.tags or fnmatchcase(tool.name, pattern) or fnmatchcase(tool.qualified_name, pattern)
    )


class ToolTimeline:
    """What one conversation says about tools: which were loaded, called and added, and where.

    Each message is read once.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation, self._count = conversation, 0
        self._loaded: dict[str, int] = {}  # name -> the last message that loaded it
        self._called: dict[str, int] = {}
        self._added: dict[str, tuple[int, ToolDefinition]] = {}
        self._removed: dict[str, int] = {}
        self._has_replies = False
        self._changes = 0
        # What the model was last told of, and what that depends on.
        self._registered: tuple[object, Collection[str], dict[str, ToolDefinition]] | None = None
        # Bytes that were sent have their definitions. What is not known here any more is just not declared.
        self._removed_tools: dict[str, ToolDefinition] = {}
        # tools, key, head
        self._head: tuple[tuple[ToolDefinition, ...], object, tuple[ToolDefinition, ...]] | None = None

    @property
    def change_count(self) -> int:
        """How often tools were loaded, added or removed."""
        self._read()
        return self._changes

    def _read(self) -> None:
        if self._count == len(self._conversation):
            return
        for index, message in enumerate(self._conversation[self._count :], self._count):
            self._has_replies = self._has_replies or message.role == "assistant"
            for change in iter_changes((message,)):
                self._changes += 1
                self._loaded |= dict.fromkeys(change.loaded, index)
                for name in change.loaded:
                    self._removed.pop(name, None)
                for name in change.removed:
                    self._removed[name] = index
                    self._added.pop(name, None)
                for tool in change.added:
                    self._added[tool.qualified_name] = (index, tool)
                    self._removed.pop(tool.qualified_name, None)
            for call in message.calls:
                self._called[call.qualified_name if call.base_call is None else call.base_call.tool] = index
        self._count = len(self._conversation)

    # ---- tools that come and go while the conversation goes on

    def find_changes(
        self, definitions: tuple[ToolDefinition, ...], deferred: Collection[str]
    ) -> Message | None:
        """Return the message that tells of tools that were registered or removed since the last request; None
        without any.

        `definitions`: those of the registry now. Deferred tools are no news, since the model finds them when
        it searches; but what the conversation says about a tool must not grow old.
        """
        self._read()
        if (
            self._registered is not None
            and self._registered[0] is definitions
            and self._registered[1] == deferred
        ):
            return None
        current = {tool.qualified_name: tool for tool in definitions if BUILTIN_TAG not in tool.tags}
        before = self._find_told(current)
        self._registered = (definitions, deferred, current)
        # A tool that was removed, and is here now, has come back.
        known = {name: tool for name, tool in before.items() if name not in self._removed}
        # A tool that the conversation has defined is replaced there, deferred or not.
        unseen = set(deferred) - self._added.keys()
        news: list[ToolDefinition] = []
        for name, tool in current.items():
            if name not in unseen and known.get(name) != tool:
                news.append(tool)
        added = _find_announced(news, known)
        gone = before.keys() - current.keys() - set(deferred)
        removed = {name: tool for name, tool in before.items() if name in gone}
        if not self._has_replies or not (added or removed):
            return None
        self._removed_tools |= removed
        return Message("system", (ToolsChanged(added=added, removed=tuple(removed)),))

    def _find_told(self, current: dict[str, ToolDefinition]) -> dict[str, ToolDefinition]:
        """Return the tools that the model was last told of."""
        if self._registered is not None:
            return self._registered[2]
        # The conversation was loaded, or begins: only what it says itself is known.
        told = {name: tool for name, tool in current.items() if name not in self._removed}
        return told | {name: tool for name, (_, tool) in self._added.items()}

    # ---- what a request declares

    def head_tools(
        self,
        tools: tuple[ToolDefinition, ...],
        start: int,
        limit: int | None,
        translate: Callable[[str], tuple[str, ...]],
    ) -> tuple[ToolDefinition, ...]:
        """Return the tools of a request: the same object while nothing changes, so that what was encoded
        stays valid.

        They do not have what a message adds. Deferred tools are shown from the start if the model has called
        them without a search, or if the search that loaded them is no longer shown. Beyond the provider's
        limit, the tools whose last use is the oldest are left out.

        Args:
            tools: What the model sees of the agent's tools, some of them deferred.
            start: The first message that is shown.
            limit: How many tools the provider accepts.
            translate: Returns the names that the model has for a tool that was used under another name.
        """
        self._read()
        added = {name for name, (index, _) in self._added.items() if index >= start}
        removed = {
            name: tool for name, tool in self._removed_tools.items() if self._removed.get(name, -1) >= start
        }
        deferred = {tool.qualified_name for tool in tools if tool.deferred}
        if not (deferred or added or removed):
            self._head = (tools, None, tools)
            return tools
        last_uses = self._find_last_uses(deferred, translate)
        omitted: set[str] = set()
        if limit is not None:
            excess = len(tools) - len(deferred) + len(last_uses) - limit
            oldest_first = sorted(last_uses, key=lambda name: last_uses[name])
            omitted.update(oldest_first[: max(0, excess)])
        # Those that a message loads which is shown stay deferred.
        loaded = {own for name in _names_since(start, self._loaded) for own in translate(name)}
        declared = last_uses.keys() - loaded - omitted
        key = (declared, added, omitted, removed)
        if self._head is not None and self._head[0] is tools and self._head[1] == key:
            return self._head[2]
        left_out = added | omitted
        head: dict[str, ToolDefinition] = {}
        for tool in tools:
            name = tool.qualified_name
            if name not in left_out:
                head[name] = replace(tool, deferred=False) if name in declared else tool
        if removed and self._head is not None:
            head = _keep_places(head, removed, self._head[2])
        self._head = (tools, key, tuple(head.values()))
        return self._head[2]

    def _find_last_uses(
        self, deferred: set[str], translate: Callable[[str], tuple[str, ...]]
    ) -> dict[str, int]:
        """Return the last message that loaded or called each of the deferred tools, by the name that the
        model has for it.
        """
        last_uses: dict[str, int] = {}
        for uses in (self._loaded, self._called):
            for name, index in uses.items():
                for own in translate(name):
                    if own in deferred:
                        last_uses[own] = max(index, last_uses.get(own, 0))
        return last_uses

    def offered_tools(self, head: tuple[ToolDefinition, ...], start: int) -> list[ToolDefinition]:
        """Return the tools of a request's head that the model has the definitions of, at the end of the
        conversation.
        """
        self._read()
        removed = _names_since(start, self._removed)
        offered: list[ToolDefinition] = []
        for tool in head:
            name = tool.qualified_name
            is_defined = not tool.deferred or self._loaded.get(name, -1) >= start
            if is_defined and name not in removed:
                offered.append(tool)
        return offered

    @property
    def loaded(self) -> tuple[str, ...]:
        """The tools that searches have loaded, under the names that the models had for them."""
        self._read()
        return tuple(self._loaded)


def _names_since(start: int, last_messages: Mapping[str, int]) -> set[str]:
    return {name for name, index in last_messages.items() if index >= start}


def _keep_places(
    head: dict[str, ToolDefinition], removed: dict[str, ToolDefinition], last_head: tuple[ToolDefinition, ...]
) -> dict[str, ToolDefinition]:
    """Return a request's tools, and those that a message in it removes, in the places that they had in the
    last request.
    """
    placed: dict[str, ToolDefinition] = {}
    for name in (*(tool.qualified_name for tool in last_head), *head):
        tool = head.get(name) or removed.get(name)
        if tool is not None:
            placed[name] = tool
    return placed


def _find_announced(
    tools: Iterable[ToolDefinition], known: Mapping[str, ToolDefinition]
) -> tuple[ToolDefinition, ...]:
    """Return what a message tells of these tools, as it will be saved.

    `known`: what the model knows of tools.
    """
    announced: list[ToolDefinition] = []
    for tool in tools:
        try:
            stored = to_storable(tool)
        except UsageError as e:  # a bad tool must not cost the run
            log.warning("the model is not told of the new tool %r: %s", tool.name, e)
            continue
        # A conversation that was loaded has lists where the tool has tuples.
        if stored != known.get(tool.qualified_name):
            announced.append(stored)
    return tuple(announced)
