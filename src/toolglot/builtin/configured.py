"""The built-in tools as configured in the settings.

The only module in `builtin` that knows the configuration.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.server_sandbox import ServerSandbox
from toolglot.builtin.tool_state import AskUser
from toolglot.builtin.tools import BuiltinOptions, Builtins, builtins
from toolglot.builtin.web.config import Secret, WebConfig
from toolglot.common.skills import Skill
from toolglot.common.user_dirs import ensure_private_directory, state_directory
from toolglot.config.settings import Settings
from toolglot.confine.sandbox import SandboxLevel
from toolglot.engine.signin.environment import read_key_variable

__all__ = ["configured_builtins", "configured_server_sandbox", "configured_web"]


def configured_web(settings: Settings) -> WebConfig:
    """Return the configuration of the web tools from the settings."""
    own = settings.builtin

    def key(variable: str) -> Secret:
        if not read_key_variable(variable):
            return ""
        return lambda: read_key_variable(variable)

    return WebConfig(
        searxng_url=own.searxng_url or "",
        brave_key=key(own.brave_key_env),
        tavily_key=key(own.tavily_key_env),
        allow_private=own.allow_private,
        browser=own.browser or "",
    )


def configured_builtins(
    settings: Settings,
    *,
    ask_user: AskUser | None = None,
    require_read: bool = True,
    skills: Sequence[Skill] = (),
) -> Builtins:
    """Create the built-in tools.

    `require_read=False`: files may be changed without being read first. Raises UsageError.
    """
    own = settings.builtin
    level = None if own.sandbox else SandboxLevel.NONE
    options = BuiltinOptions(
        other_roots=_other_roots(settings),
        unprotected=own.unprotected,
        require_read=own.require_read and require_read,
        shared_memory=own.shared_memory,
        skills=skills,
        shell=ShellOptions(network=own.network, visible=own.visible, level=level),
        web=configured_web(settings),
    )
    root, state_dir = Path(own.root or ".").expanduser(), ensure_private_directory(state_directory())
    return builtins(root, options=options, state_dir=state_dir, ask_user=ask_user)


def configured_server_sandbox(settings: Settings, root: Path, readable: Iterable[Path]) -> ServerSandbox:
    """Create the sandbox for MCP servers: the workspace, and readable directories of projects.

    Raises UsageError.
    """
    own, state_dir = settings.builtin, ensure_private_directory(state_directory())
    root = root.expanduser().absolute()
    projects = [
        Root(path, writable=False) for path in dict.fromkeys(readable) if not path.is_relative_to(root)
    ]
    # Not `builtin.sandbox`: disabling it for commands does not imply disabling it for programs that a project
    # names.
    options = ShellOptions(network=own.network, visible=own.visible)
    others = (*projects, *_other_roots(settings))
    return ServerSandbox(
        Workspace(root, other_roots=others, unprotected=own.unprotected, private=(state_dir,)),
        options,
        state_dir,
    )


def _other_roots(settings: Settings) -> tuple[Root, ...]:
    return (
        *(Root(Path(path).expanduser(), writable=False) for path in settings.builtin.read),
        *(Root(Path(path).expanduser()) for path in settings.builtin.write),
    )
