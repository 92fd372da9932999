"""How a server's program is started outside the sandbox: which file, in which directory, with which
variables.

Nothing of the workspace runs by accident. A program that is named is the next one in PATH outside the
workspace. The directory is private to the server, because a server may take its current directory for where
its code, its settings or its files are: `python -m NAME` imports from it, `npx NAME` starts
`node_modules/.bin/NAME` of it or of a directory above it, and a file server serves it, which rules out the
home directory too. A path that the configuration gives is used as it is: whether it may be in the workspace
is decided where servers are configured.
"""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from toolglot.common.user_dirs import ensure_private_directory, state_directory
from toolglot.confine.programs import (
    SYSTEM_DIRECTORIES,
    WorkspaceDirectory,
    current_workspace,
    find_program,
    is_outside,
    safe_search_path,
)
from toolglot.errors import UsageError
from toolglot.mcp.client.servers import McpServer
from toolglot.mcp.names import PREFIX, server_prefix

__all__ = ["prepare_server", "server_directory"]

_PYTHON_RUNNER = re.compile(r"(?:python|pypy)[\d.]*|uvx?|pipx")


def prepare_server(
    name: str, server: McpServer, workspace: Sequence[WorkspaceDirectory] | None = None
) -> McpServer:
    """Return a server with the absolute path of its program, its directory, and the variables that depend on
    the workspace.

    Args:
        name: The server's name.
        server: A server with a command. What is prepared already stays as it is.
        workspace: The directories of the workspace. Default: the current directory, with its repository.

    Raises UsageError if its program is missing, or is in the workspace only.
    """
    workspace = current_workspace() if workspace is None else workspace
    search_path = server.env.get("PATH", os.environ.get("PATH", os.defpath))
    variables = {"PATH": safe_search_path(workspace, search_path)}
    words = [Path(server.command).name, *server.args]
    # A script named by its path may import what is beside it, which this variable would prevent.
    if (
        server.cwd is None
        and _PYTHON_RUNNER.fullmatch(words[0])
        and not any(word.endswith(".py") for word in words)
    ):
        variables = {"PYTHONSAFEPATH": "1", **variables}
    return replace(
        server,
        command=_find_command(server, workspace, search_path),
        cwd=server.cwd if server.cwd is not None else str(server_directory(name, workspace, create=True)),
        env={**variables, **server.env, "PATH": variables["PATH"]},
    )


def server_directory(
    name: str, workspace: Sequence[WorkspaceDirectory] = (), *, create: bool = False
) -> Path:
    """Return the directory of a server that names none: its own, with what it wrote there before."""
    directory = state_directory() / "mcp" / server_prefix(name)[len(PREFIX) :].rstrip("_")
    fallback = Path(os.path.abspath(os.sep))
    # a server may look for programs in the directories above it
    if not is_outside(os.path.realpath(directory), workspace):
        return fallback
    if not create:
        return directory
    with suppress(UsageError):  # the disk is full, or read-only
        return ensure_private_directory(directory)
    return fallback


def _find_command(server: McpServer, workspace: Sequence[WorkspaceDirectory], search_path: str) -> str:
    """Return the path of a server's program. Raises UsageError."""
    command = server.command
    if os.path.dirname(command):
        return os.path.abspath(os.path.join(server.cwd or "", command))
    directories = [*search_path.split(os.pathsep), *SYSTEM_DIRECTORIES]
    if path := find_program(command, workspace, directories):
        return path
    if path := shutil.which(command, path=os.pathsep.join(map(os.path.abspath, directories))):
        raise UsageError(
            f"{command!r} cannot be started: it is only in the workspace ({path}), where a project or a "
            "command can "
            "replace it; install it elsewhere, or set its whole path as the command"
        )
    raise UsageError(f"{command!r} cannot be started: there is no such program")
