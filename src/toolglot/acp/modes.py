"""A session's options in the editor: the approval mode, the model and its reasoning effort."""

from collections.abc import Callable, Iterable
from typing import get_args

import msgspec
from acp.schema import (
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from msgspec.structs import replace

from toolglot.tools.config import ToolConfig
from toolglot.tools.policy import allow_only_readers
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Effect
from toolglot.values.request import BUILTIN_TAG, Effort

__all__ = ["DEFAULT_EFFORT", "DEFAULT_MODE", "EFFORTS", "MODES", "SANDBOXED", "config_options", "mode_state"]

DEFAULT_MODE = "ask"
SANDBOXED = "sandboxed"
DEFAULT_EFFORT = "default"
EFFORTS = (DEFAULT_EFFORT, *get_args(Effort))
_FILE_EFFECTS: frozenset[Effect] = frozenset({"read", "write"})


class Mode(msgspec.Struct, frozen=True):
    """A mode: its name, its description, and how it changes the configured tool rules."""

    name: str
    description: str
    apply: Callable[[ToolConfig, Iterable[Tool]], ToolConfig]


def accept_edits(config: ToolConfig, tools: Iterable[Tool]) -> ToolConfig:
    """Let the built-in tools that edit files run without approval."""
    return replace(
        config, mode="ask", approve=(*config.approve, *(tool.name for tool in tools if _is_edit(tool)))
    )


def _is_edit(tool: Tool) -> bool:
    """Whether a tool edits files, which is shown as a diff and can be undone from a backup; commands are not
    included.
    """
    if BUILTIN_TAG not in tool.tags or tool.preview is None:
        return False
    return "write" in tool.effects and tool.effects <= _FILE_EFFECTS


def _ask(config: ToolConfig, tools: Iterable[Tool]) -> ToolConfig:
    return replace(config, mode="ask")


def _use_sandbox(config: ToolConfig, tools: Iterable[Tool]) -> ToolConfig:
    return replace(config, mode="sandboxed")


def _allow_all(config: ToolConfig, tools: Iterable[Tool]) -> ToolConfig:
    return replace(config, ask=())


MODES = {
    DEFAULT_MODE: Mode("Ask", "Asks before changing files, running commands or using the network", _ask),
    "accept-edits": Mode(
        "Accept edits",
        "Changes files in the workspace without asking; asks about everything else",
        accept_edits,
    ),
    SANDBOXED: Mode(
        "Sandboxed",
        "Changes files in the workspace and runs commands in the sandbox without asking; asks about the rest",
        _use_sandbox,
    ),
    "read-only": Mode("Read only", "Offers only tools that read", allow_only_readers),
    "auto": Mode(
        "Auto",
        "Uses all tools, the network and MCP servers without asking; asks only about commands that leave the "
        "sandbox",
        _allow_all,
    ),
}


def mode_state(mode: str) -> SessionModeState:
    """Return all modes, for editors without config options."""
    modes = [SessionMode(id=id, name=mode.name, description=mode.description) for id, mode in MODES.items()]
    return SessionModeState(current_mode_id=mode, available_modes=modes)


def config_options(
    mode: str, model: str, models: Iterable[str], effort: str
) -> list[SessionConfigOptionSelect]:
    """Return the options with their current values."""
    modes = [
        SessionConfigSelectOption(value=id, name=mode.name, description=mode.description)
        for id, mode in MODES.items()
    ]
    return [
        SessionConfigOptionSelect(
            type="select", id="mode", name="Mode", category="mode", current_value=mode, options=modes
        ),
        SessionConfigOptionSelect(
            type="select",
            id="model",
            name="Model",
            category="model",
            current_value=model,
            options=[
                SessionConfigSelectOption(value=name, name=name) for name in dict.fromkeys((model, *models))
            ],
        ),
        SessionConfigOptionSelect(
            type="select",
            id="effort",
            name="Thinking",
            category="thought_level",
            current_value=effort,
            options=[SessionConfigSelectOption(value=name, name=name.capitalize()) for name in EFFORTS],
        ),
    ]
