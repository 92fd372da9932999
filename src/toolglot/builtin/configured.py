"""The built-in tools as the settings describe them. The one module of `builtin` that knows the configuration."""

from collections.abc import Sequence
from pathlib import Path

from toolglot.builtin.files.workspace import Root
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.sandbox import SandboxLevel
from toolglot.builtin.tool_state import AskUser
from toolglot.builtin.tools import BuiltinOptions, Builtins, builtins
from toolglot.builtin.web.config import Secret, WebConfig
from toolglot.config.settings import Settings
from toolglot.engine.signin.environment import read_key_variable
from toolglot.skills import Skill
from toolglot.user_dirs import ensure_private_directory, state_directory

__all__ = ["configured_builtins", "configured_web"]


def configured_web(settings: Settings) -> WebConfig:
    """Return what the settings say about the web tools."""
    own = settings.builtin

    def key(variable: str) -> Secret:
        return (lambda: read_key_variable(variable)) if read_key_variable(variable) else ""

    return WebConfig(
        searxng_url=own.searxng_url or "",
        brave_key=key(own.brave_key_env),
        tavily_key=key(own.tavily_key_env),
        allow_private=own.allow_private,
        browser=own.browser or "",
    )


def configured_builtins(
    settings: Settings, *, ask: AskUser | None = None, require_read: bool = True, skills: Sequence[Skill] = ()
) -> Builtins:
    """Create the built-in tools. `require_read=False`: files may be changed that were not read before. Raises UsageError."""
    own = settings.builtin
    options = BuiltinOptions(
        other_roots=(
            *(Root(Path(path).expanduser(), writable=False) for path in own.read),
            *(Root(Path(path).expanduser()) for path in own.write),
        ),
        unprotected=own.unprotected,
        require_read=own.require_read and require_read,
        shared_memory=own.shared_memory,
        skills=skills,
        shell=ShellOptions(network=own.network, visible=own.visible, level=None if own.sandbox else SandboxLevel.NONE),
        web=configured_web(settings),
    )
    root, state_dir = Path(own.root or ".").expanduser(), ensure_private_directory(state_directory())
    return builtins(root, options=options, state_dir=state_dir, ask=ask)
