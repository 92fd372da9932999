"""What one model sees: its tools, system messages and history, under the names that its facade gives them.

Pure: nothing is sent and nothing runs here, so that a request can be previewed, measured and documented.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import facade_for_model, find_facade
from toolglot.facades.validation import is_bundled
from toolglot.facades.view import Facade
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL
from toolglot.losses import Loss
from toolglot.messages import Message, Reply, ToolCall, system
from toolglot.providers.profile import Profile
from toolglot.request import BUILTIN_TAG, ToolChoice, ToolDefinition
from toolglot.tools.calls import InterpretedCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.hosted import HostedTools
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.wire.writer import is_made_by

__all__ = ["ModelView"]

_DEFAULT_CONFIG = ToolConfig()


_NO_HOSTED_TOOLS = HostedTools()


class ModelView:
    """The tools, system messages and history of one model. It stays valid while the registry has the same version.

    `facade`: "auto" picks the facade of the model's own harness. There is none if no tool that it is for is registered.
    """

    def __init__(
        self,
        profile: Profile,
        registry: ToolRegistry,
        *,
        facade: str | Facade = "auto",
        config: ToolConfig = _DEFAULT_CONFIG,
        hosted: HostedTools = _NO_HOSTED_TOOLS,
    ) -> None:
        self.profile, self.registry, self.config = profile, registry, config
        self._facade, self._hosted = facade, hosted
        self._version = registry.version
        self._tools: tuple[tuple[ToolDefinition, ...], tuple[ToolDefinition, ...]] | None = None

    def is_current(self, profile: Profile, facade: str | Facade, config: ToolConfig) -> bool:
        """Return whether this is still what the model sees."""
        return (
            self.registry.version == self._version
            and config is self.config
            and facade is self._facade
            and (profile is self.profile or (profile.wire, profile.model) == (self.profile.wire, self.profile.model))
        )

    @cached_property
    def facade(self) -> BoundFacade | None:
        """The model's own names for the built-in tools, and for the user's that a custom facade names; None without any."""
        model, facade, allowed = self.profile.model, self._facade, self.config.allowed_tools
        named = facade.base_tools if isinstance(facade, Facade) and not is_bundled(facade) else ()
        base_tools: list[str] = []
        other_names = [*self._hosted.all_names]
        for tool in self.registry:
            is_allowed, is_builtin = allowed is None or tool.name in allowed, BUILTIN_TAG in tool.tags
            if is_allowed and (is_builtin or (tool.name in named and not tool.namespace)):
                base_tools.append(tool.name)
            elif not is_builtin:
                other_names.append(tool.name)
        if not base_tools:
            return None
        if isinstance(facade, str):
            facade = facade_for_model(model) if facade == "auto" else find_facade(facade, model)
        return BoundFacade(facade, model, base_tools, other_names)

    # ---- tools

    def tools(self, loop_tools: Sequence[Tool] = ()) -> tuple[ToolDefinition, ...]:
        """Return the tool definitions sent to the model. `loop_tools`: those that the loop adds to the registry's."""
        added = tuple(tool.definition for tool in loop_tools)
        if self._tools is not None and self._tools[0] == added:
            return self._tools[1]
        if not self.config.enabled:  # a structured output still needs its tool
            return tuple(definition for definition in added if definition.name == FINAL_ANSWER_TOOL)
        facade, allowed = self.facade, self.config.allowed_tools
        definitions = self.registry.definitions()
        if facade is not None:
            definitions = facade.visible_tools(definitions)
        hosted = self._hosted.definitions_for(self.profile.wire)
        if allowed is not None:
            native = {definition.name for definition in facade.definitions} if facade is not None else set[str]()
            definitions = tuple(item for item in definitions if item.name in allowed or item.name in native)
            hosted = tuple(definition for definition in hosted if definition.name in allowed)
        tools = (*definitions, *added, *hosted) if added or hosted else definitions
        self._tools = (added, tools)
        return tools

    def names_for(self, tool: Tool) -> tuple[str, ...]:
        """Return the names under which the model sees a tool; none if it is not shown."""
        allowed, facade = self.config.allowed_tools, self.facade
        if not self.config.enabled or (allowed is not None and tool.name not in allowed):
            return ()
        if facade is None or tool.name not in facade.base_tools or tool.name in facade.visible_base_tools:
            return (tool.name,)
        return tuple(view.qualified_name for view in facade.views if tool.name in view.base_tools)

    def map_tool_choice(self, choice: ToolChoice | None) -> ToolChoice | None:
        """Return a choice between tools by the names that the model has for them."""
        if choice is None or not choice.names or self.facade is None:
            return choice
        return replace(choice, names=tuple(name for base in choice.names for name in self.facade.native_names(base)))

    @property
    def hosted_losses(self) -> tuple[Loss, ...]:
        """Hosted tools that the model's provider does not have."""
        profile = self.profile
        return tuple(
            Loss(f"hosted tool {name!r}", "tools", f"{profile.title} has none of this name")
            for name in self._hosted.missing_names(profile.wire)
        )

    # ---- messages

    def system_messages(self, instructions: str) -> tuple[Message, ...]:
        """Return the system prompt, followed by the facade's note on how to work with the built-in tools."""
        facade = self.facade if self.config.enabled else None
        text = "\n\n".join(part for part in (instructions, facade.note if facade is not None else "") if part)
        return (system(text),) if text else ()

    def render_message(self, message: Message, losses: dict[Loss, None]) -> Message:
        """Return a reply with its calls under this model's names; a reply of the model itself stays as it was."""
        if self.facade is None:
            return message
        origin, profile = message.origin, self.profile
        is_own = (
            origin is not None
            and (origin.wire, origin.profile) == (profile.wire, profile.id)
            and is_made_by(origin, profile.model)  # under whichever of its names
        )
        return self.facade.render_message(message, is_own=is_own, losses=losses)

    def interpret(self, call: ToolCall) -> ToolCall | InterpretedCall:
        """Return what a call means; a call of a tool that is not built in means itself."""
        return call if self.facade is None else self.facade.interpret(call)

    def annotate(self, reply: Reply) -> tuple[Reply, Mapping[str, InterpretedCall]]:
        """Return a reply with the base call attached to each call, and the interpretations by call id."""
        facade = self.facade
        if facade is None or not reply.calls:
            return reply, {}
        interpreted = {call.id: facade.interpret(call) for call in reply.calls}
        blocks = tuple(interpreted[block.id].call if isinstance(block, ToolCall) else block for block in reply.blocks)
        return replace(reply, blocks=blocks), interpreted
