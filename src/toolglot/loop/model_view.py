"""What one model sees: its tools, system messages and history, under the names that its facade gives them.

Pure: nothing is sent and nothing runs here, so that a request can be previewed, measured and documented.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.value_checks import as_items
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import find_base_tools, resolve_facade
from toolglot.facades.view import Facade
from toolglot.hosting.tool_view import ToolView, resolve_policy_names
from toolglot.loop.deferral import Defer, Deferral, plan_deferral
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL
from toolglot.providers.profile import Profile
from toolglot.tools.calls import AnyCall, InterpretedCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.hosted import HostedTools
from toolglot.tools.policy import RUN_CODE
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.search import SEARCH_TOOLS, describe_names, search_tools_tool
from toolglot.tools.tool import Tool
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Block, Message, Reply, ToolCall, ToolResult, ToolsChanged, system
from toolglot.values.request import BUILTIN_TAG, ToolChoice, ToolDefinition
from toolglot.wire.writer import is_made_by

__all__ = ["Language", "ModelView"]

Language = Literal["javascript", "python"]

log = get_logger("toolglot.loop")
_DEFAULT_CONFIG = ToolConfig()
# which a facade may have a view of
_SEARCH_PLACEHOLDER = ToolDefinition(SEARCH_TOOLS, tags=frozenset({BUILTIN_TAG}))
_CODE_PLACEHOLDER = ToolDefinition(RUN_CODE, tags=frozenset({BUILTIN_TAG}))  # as above
_CODE_NOTE = (
    f"The tools named here are called from {{language}} code, with {RUN_CODE}: do independent steps in one "
    "script, and show "
    "only what you need."
)
_NO_HOSTED_TOOLS = HostedTools()


class ModelView:
    """The tools, system messages and history of one model.

    It stays valid while the registry has the same version.

    `facade`: "auto" picks the facade of the model's own harness. There is none if no tool that it is for is
    registered.
    """

    def __init__(
        self,
        profile: Profile,
        registry: ToolRegistry,
        *,
        facade: str | Facade = "auto",
        config: ToolConfig = _DEFAULT_CONFIG,
        hosted: HostedTools = _NO_HOSTED_TOOLS,
        defer: Defer = None,
        code_language: Language | None = None,
        names: PolicyNames | None = None,
    ) -> None:
        self.profile, self.registry, self.config = profile, registry, config
        self._facade, self._hosted, self._defer = facade, hosted, defer
        self.code_language: Language | None = code_language
        """What the model writes code in that calls its tools; None: it calls them itself."""
        self._registered_tools = ToolView(
            registry,
            config,
            facade,
            profile.model,
            names=names or resolve_policy_names(registry, facade, hosted.all_names),
            hosted_names=hosted.all_names,
        )
        # names of other models' tools -> what this model calls them
        self._translated_names: dict[str, tuple[str, ...]] = {}
        self._tools: tuple[tuple[ToolDefinition, ...], tuple[ToolDefinition, ...]] | None = None

    def is_current(
        self,
        profile: Profile,
        facade: str | Facade,
        config: ToolConfig,
        defer: Defer,
        code_language: Language | None = None,
    ) -> bool:
        """Return whether this is still what the model sees."""
        return (
            self._registered_tools.is_current
            and config is self.config
            and facade is self._facade
            and defer is self._defer
            and code_language == self.code_language
            and (
                profile is self.profile
                or (profile.wire, profile.model) == (self.profile.wire, self.profile.model)
            )
        )

    @cached_property
    def tool_view(self) -> ToolView:
        """The tools of the registry under this model's names, and those that find tools or run code."""
        added: list[ToolDefinition] = []
        if self.deferral is not None and self.code_language is None:
            added.append(_SEARCH_PLACEHOLDER)
        if self.code_language is not None:
            added.append(_CODE_PLACEHOLDER)
        return self._registered_tools.with_added(added)

    @property
    def _allowed(self) -> frozenset[str] | None:
        return self._registered_tools.allowed

    def is_allowed(self, name: str) -> bool:
        """Return whether the configuration lets the model have a tool."""
        return self._registered_tools.is_allowed(name)

    @property
    def facade(self) -> BoundFacade | None:
        """The model's own names for the built-in tools, and for the user's that a custom facade names; None
        without any.
        """
        return self.tool_view.facade

    @property
    def _table(self) -> Facade:
        """The facade by itself, whatever tools there are."""
        return resolve_facade(self._facade, self.profile.model)

    # ---- tools

    @cached_property
    def deferral(self) -> Deferral | None:
        """Which tools the model gets only when it finds them, by their base names; None if it gets all of
        them.
        """
        definitions = self.registry.definitions()
        if not self.config.enabled or self._defer is False:
            return None
        usable = (definition for definition in definitions if self.is_allowed(definition.name))
        builtin = self._table.deferred_base_tools if self._defer is True else ()
        hosted_count = len(self._hosted.definitions_for(self.profile.wire))
        deferral = plan_deferral(usable, self.profile, self._find_deferred(), builtin, hosted_count)
        if deferral is not None and SEARCH_TOOLS in self.registry:
            log.warning("no tools are deferred: a tool of the agent is called %s", SEARCH_TOOLS)
            return None
        if deferral is not None and deferral.is_automatic:
            log.info(
                "%s", deferral.message, extra={"deferred": len(deferral.names), "tokens": deferral.tokens}
            )
        return deferral

    def _find_deferred(self) -> Defer:
        """Return which tools are deferred, with the agent's tools behind native names added."""
        defer = self._defer
        if defer is None or isinstance(defer, bool) or callable(defer):
            return defer
        patterns, names = as_items(defer), self._registered_tools.names
        return frozenset(
            {*patterns, *(tool.name for tool in self.registry if names.is_listed(tool.name, patterns))}
        )

    @cached_property
    def _own_tools(self) -> tuple[tuple[ToolDefinition, ...], Tool | None]:
        """The agent's tools as the model sees them, deferred ones marked, and the tool that finds those."""
        facade, deferral, definitions = self.facade, self.deferral, self.tool_view.definitions
        if deferral is None:
            return definitions, None
        names = {*deferral.names}
        finders: tuple[str, ...] = (SEARCH_TOOLS,)
        if facade is not None:
            names |= {
                view.qualified_name for view in facade.views if view.base_tools & facade.base_tools <= names
            }
            if self._defer is None or self._defer is True:
                names |= {*facade.facade.defers}
            finders = facade.native_names(SEARCH_TOOLS)
        deferred = [item for item in definitions if item.qualified_name in names and item.name not in finders]
        # code looks for them itself
        search = search_tools_tool(deferred) if self.code_language is None else None
        shown: list[ToolDefinition] = []
        for item in definitions:
            if item.name == SEARCH_TOOLS and search is not None:
                item = search.definition
            elif item.name in finders:
                text = f"{item.description}\n\n{describe_names(deferred)}"
                item = replace(item, finds_tools=True, description=text, tags=_SEARCH_PLACEHOLDER.tags)
            is_deferred = item.qualified_name in names and item.name not in finders
            shown.append(replace(item, deferred=is_deferred))
        return tuple(shown), search

    @property
    def search_tool(self) -> Tool | None:
        """Finds the tools that are deferred."""
        return self._own_tools[1] if self.config.enabled else None

    @cached_property
    def inner_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that the model's code calls."""
        if self.code_language is None or not self.config.enabled:
            return ()
        from toolglot.loop.code_mode import list_inner_tools  # not at the top: few agents need it

        return list_inner_tools(self._own_tools[0], self.facade)

    def tools(self, loop_tools: Sequence[Tool] = ()) -> tuple[ToolDefinition, ...]:
        """Return the tool definitions sent to the model.

        `loop_tools`: those that the loop adds to the registry's.
        """
        loop_definitions = tuple(tool.definition for tool in loop_tools)
        if self._tools is not None and self._tools[0] == loop_definitions:
            return self._tools[1]
        if not self.config.enabled:  # a structured output still needs its tool
            return tuple(
                definition for definition in loop_definitions if definition.name == FINAL_ANSWER_TOOL
            )
        tools = self._own_tools[0]
        if loop_definitions:
            tools = self._add_loop_tools(loop_definitions)
        if hosted := self._list_hosted():
            tools = (*tools, *hosted)
        self._tools = (loop_definitions, tools)
        return tools

    def _add_loop_tools(self, added: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
        """Return the agent's tools and those of the loop; if one of these runs code, only those that code
        does not call.
        """
        definitions = self._own_tools[0]
        code_tool = next((definition for definition in added if definition.name == RUN_CODE), None)
        if code_tool is None or self.code_language is None:
            return (*definitions, *added)
        from toolglot.loop.code_mode import list_direct_tools  # not at the top: few agents need it

        others = [definition for definition in added if definition is not code_tool]
        direct = list_direct_tools(definitions, self.inner_tools, code_tool, self.facade, self.code_language)
        return (*direct, *others)

    def _list_hosted(self) -> tuple[ToolDefinition, ...]:
        """Return the tools of the provider that the model may have."""
        hosted, allowed = self._hosted.definitions_for(self.profile.wire), self._allowed
        if allowed is None:
            return hosted
        return tuple(definition for definition in hosted if definition.name in allowed)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        return frozenset(item.qualified_name for item in self._own_tools[0])

    def has_name(self, name: str) -> bool:
        """Return whether a call under this name would mean one of these tools, whether shown or not."""
        if name in self._own_names or self.registry.find(name) is not None:
            return True
        interpreted = self.interpret(ToolCall("", name, {}))
        if not isinstance(interpreted, InterpretedCall):
            return False
        return interpreted.error is not None or interpreted.call.base_call is not None

    def translate_name(self, name: str) -> tuple[str, ...]:
        """Return the names that the model has for a tool, by its base name or another model's name for it."""
        if name in self._own_names:
            return (name,)
        names, facade = self._translated_names, self.facade
        if name not in names and facade is not None:
            bases = (name,) if name in facade.base_tools else find_base_tools(name)
            names[name] = tuple(own for base in bases for own in facade.native_names(base))
        return names.get(name, ())

    def names_for(self, tool: Tool) -> tuple[str, ...]:
        """Return the names under which the model sees a tool; none if it is not shown."""
        facade = self.facade
        if not self.is_allowed(tool.name):
            return ()
        if facade is None or tool.name not in facade.base_tools or tool.name in facade.visible_base_tools:
            return (tool.name,)
        return tuple(view.qualified_name for view in facade.views if tool.name in view.base_tools)

    def map_tool_choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """Return a choice between tools by the names that the model has for them; what its code calls, it
        calls by code.
        """
        if choice is None or not choice.names:
            return choice
        facade = self.facade
        if facade is None and self.code_language is None:
            return choice
        names = [*choice.names]
        if facade is not None:
            names.clear()
            for name in choice.names:
                names += self.translate_name(name) or (name,)
        if self.code_language is not None:
            names = self._route_through_code(names)
        return replace(choice, names=tuple(dict.fromkeys(names)))

    def _route_through_code(self, names: list[str]) -> list[str]:
        """Return names with the tool that runs code in the place of those that only code can call."""
        runner = RUN_CODE if self.facade is None else self.facade.native_names(RUN_CODE)[0]
        inner: set[str] = set()
        for tool in self.inner_tools:
            if "model" not in tool.callers:
                inner |= {tool.name, tool.qualified_name}
        return [runner if name in inner else name for name in names]

    @cached_property
    def hosted_losses(self) -> tuple[Loss, ...]:
        """Hosted tools that the model's provider does not have."""
        profile = self.profile
        return tuple(
            Loss(f"hosted tool {name!r}", "tools", f"{profile.title} has none of this name")
            for name in self._hosted.missing_names(profile.wire)
        )

    @property
    def deferral_repairs(self) -> tuple[Repair, ...]:
        """What was changed without being asked for: tools that are deferred because there are too many."""
        deferral = self.deferral
        return (
            (Repair("tools", "request", deferral.message),)
            if deferral is not None and deferral.is_automatic
            else ()
        )

    # ---- messages

    def system_messages(self, instructions: str) -> tuple[Message, ...]:
        """Return the system prompt, followed by the facade's note on how to work with the built-in tools."""
        note = self._find_note() if self.config.enabled else ""
        text = "\n\n".join(part for part in (instructions, note) if part)
        return (system(text),) if text else ()

    def _find_note(self) -> str:
        """Return the facade's note on how to work with the built-in tools; "" without any."""
        facade = self.facade
        if facade is None or not facade.note:
            return ""
        has_native_code_mode = facade.native_names(RUN_CODE) != (RUN_CODE,)
        if self.code_language is None or has_native_code_mode:
            return facade.note
        # The note is for models that call these tools themselves.
        language = {"javascript": "JavaScript", "python": "Python"}[self.code_language]
        return f"{_CODE_NOTE.format(language=language)} {facade.note}"

    def render_message(self, message: Message, losses: dict[Loss, None]) -> Message:
        """Return a reply with its calls under this model's names; a reply of the model itself stays as it
        was.

        In other messages, changes of the tools are those that this model can be told of.
        """
        if message.role != "assistant":
            blocks = tuple(map(self._render_changes, message.blocks))
            return message if blocks == message.blocks else replace(message, blocks=blocks)
        if self.facade is None:
            return message
        origin, profile = message.origin, self.profile
        is_own = (
            origin is not None
            and (origin.wire, origin.profile) == (profile.wire, profile.id)
            and is_made_by(origin, profile.model)  # under whichever of its names
        )
        return self.facade.render_message(message, is_own=is_own, losses=losses)

    def _render_changes(self, block: Block) -> Any:
        """Return a change of the tools by this model's names, without tools that it may not have."""
        if isinstance(block, ToolResult):
            content = tuple(map(self._render_changes, block.content))
            return block if content == block.content else replace(block, content=content)
        if not isinstance(block, ToolsChanged):
            return block
        added: tuple[ToolDefinition, ...] = ()
        if self.code_language is None:  # otherwise the description of the tool that runs code has them
            added = tuple(tool for tool in block.added if tool.qualified_name in self._own_names)
        loaded = tuple(name for used in block.loaded for name in self.translate_name(used))
        if (added, loaded) == (block.added, block.loaded):
            return block
        return replace(block, added=added, loaded=loaded)

    def interpret(self, call: ToolCall) -> AnyCall:
        """Return what a call means."""
        return self.tool_view.interpret(call)

    def _qualify_call(self, block: Block) -> Block:
        """Return a call of a deferred tool with its namespace: a wire restores only names that a request has
        declared.
        """
        if not isinstance(block, ToolCall) or block.namespace or block.name in self._own_names:
            return block
        namespace, _, name = block.name.replace("__", ".", 1).partition(".")
        return (
            replace(block, name=name, namespace=namespace)
            if f"{namespace}.{name}" in self._own_names
            else block
        )

    def _qualify_calls(self, reply: Reply) -> Reply:
        if not any("__" in call.name or "." in call.name for call in reply.calls):
            return reply
        return replace(reply, blocks=tuple(map(self._qualify_call, reply.blocks)))

    def annotate(self, reply: Reply) -> tuple[Reply, Mapping[str, InterpretedCall]]:
        """Return a reply with the base call attached to each call, and the interpretations by call id."""
        facade = self.facade
        if self.deferral is not None:
            reply = self._qualify_calls(reply)
        if facade is None or not reply.calls:
            return reply, {}
        interpreted = {call.id: facade.interpret(call) for call in reply.calls}
        blocks = tuple(
            interpreted[block.id].call if isinstance(block, ToolCall) else block for block in reply.blocks
        )
        return replace(reply, blocks=blocks), interpreted
