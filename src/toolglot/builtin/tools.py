"""All built-in tools for one folder: one call, one list. Each list has a toolbox of its own, for one conversation."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolglot.builtin.ask_user import ask_tools
from toolglot.builtin.code.ast_rewrite import ast_rewrite_tools
from toolglot.builtin.code.ast_search import ast_search_tools
from toolglot.builtin.edit.edit_tools import edit_tools
from toolglot.builtin.edit.notebook import notebook_tools
from toolglot.builtin.edit.patch_tool import patch_tools
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.files.workspace import PROTECTED_NAMES, Root, Workspace
from toolglot.builtin.memory import memory_tools
from toolglot.builtin.search.glob import glob_tools
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.shell.tools import ShellOptions, close_shell, shell_tools
from toolglot.builtin.todo import todo_tools
from toolglot.builtin.tool_state import AskUser, ToolState
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.tools import web_tools
from toolglot.errors import UnknownName
from toolglot.facades.catalog import find_base_tools
from toolglot.request import BUILTIN_TAG
from toolglot.tools.tool import Tool

__all__ = ["BuiltinOptions", "Builtins", "builtins", "coding_tools"]


class BuiltinOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the built-in tools may do."""

    other_roots: tuple[Root, ...] = ()
    """Folders beside the root."""
    unprotected: tuple[str, ...] = ()
    """Names that may be changed although programs obey them: .vscode, .git …"""
    require_read: bool = True
    """A file has to be read before it is overwritten."""
    shell: ShellOptions = ShellOptions()
    web: WebConfig = WebConfig()


class Builtins:
    """The tools, and what they share. `close` ends commands and the browser; so does the end of the program."""

    def __init__(self, root: str | Path, options: BuiltinOptions, state_dir: Path | None, ask: AskUser | None) -> None:
        protected = PROTECTED_NAMES - frozenset(options.unprotected)
        backups = state_dir / "backups" if state_dir is not None else None
        workspace = Workspace(root, other_roots=options.other_roots, protected_names=protected, backup_dir=backups)
        self.state = box = ToolState(workspace, state_dir=state_dir, ask=ask)
        self._web = WebClient(options.web)
        reads = options.require_read
        tools: list[Tool] = [
            *file_tools(box, require_read=reads),
            *edit_tools(box, require_read=reads),
            *patch_tools(box),
            *grep_tools(box),
            *glob_tools(box),
            *list_dir_tools(box),
            *read_many_tools(box),
            *shell_tools(box, options.shell),
            *ast_search_tools(box),
            *ast_rewrite_tools(box),
            *web_tools(box, self._web),
            *notebook_tools(box, require_read=reads),
            *todo_tools(box),
            *ask_tools(box),
            *(memory_tools(box) if state_dir is not None else ()),
        ]
        # what changes files or runs commands keeps its place among the calls of a turn: a test runs after the edit before it
        self.tools = [
            one.replace(tags=one.tags | {BUILTIN_TAG}, ordered=bool(one.effects & {"write", "execute"})) for one in tools
        ]

    def close(self) -> None:
        """Ends what is still running."""
        close_shell(self.state)
        self._web.close()
        self.state.workspace.close()


def builtins(
    root: str | Path = ".", *, options: BuiltinOptions | None = None, state_dir: Path | None = None, ask: AskUser | None = None
) -> Builtins:
    """The built-in tools for a folder. `state`: a private folder for backups, spilt output and memory. Raises UsageError."""
    return Builtins(root, options or BuiltinOptions(), state_dir, ask)


def coding_tools(
    root: str | Path = ".",
    *,
    names: Iterable[str] | None = None,
    options: BuiltinOptions | None = None,
    state_dir: Path | None = None,
    ask: AskUser | None = None,
) -> list[Tool]:
    """The built-in tools for a folder, as `Orchestrator` takes them.

    `names`: only these, also by the names that models have for them (`Bash`). `state`: a private folder for backups, spilt
    output and memory. `ask`: who answers the questions of `ask_user`, which is not there without. Raises UsageError.
    """
    tools = builtins(root, options=options, state_dir=state_dir, ask=ask).tools
    if ask is None:
        tools = [one for one in tools if one.name != "ask_user"]
    if names is None:
        return tools
    known = {one.name for one in tools}
    wanted: set[str] = set()
    for name in names:
        found = {name} & known or known.intersection(find_base_tools(name))
        if not found:
            raise UnknownName("built-in tool", name, known)
        wanted |= found
    return [one for one in tools if one.name in wanted]
