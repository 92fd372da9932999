"""All built-in tools for one directory, with their state for one conversation.

A new tool needs one file: a module `builtin/NAME.py` with `create_tools(state) -> list[Tool]` is discovered
automatically. Tools that need options, or that are in a package of their own, are listed in `Builtins`.
"""

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import msgspec

from toolglot import builtin
from toolglot.builtin.code.ast_tools import ast_rewrite_tools, ast_search_tools
from toolglot.builtin.code.ast_worker import NO_PARSER, find_parser
from toolglot.builtin.edit.edit_tools import edit_tools
from toolglot.builtin.edit.notebook import notebook_tools
from toolglot.builtin.edit.patch_tool import patch_tools
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.search.glob import glob_tools
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.tools import close_shell, reset_shell, shell_tools
from toolglot.builtin.skills import find_skill_roots
from toolglot.builtin.todo import clear_todos
from toolglot.builtin.tool_state import AskUser, ToolState
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import NO_SEARCH_SERVICE, WebConfig
from toolglot.builtin.web.tools import web_tools
from toolglot.common.loggers import get_logger
from toolglot.common.skills import Skill
from toolglot.common.user_dirs import is_writable, state_directory
from toolglot.common.value_checks import OptionMeta, as_items, check_arguments, check_values
from toolglot.confine.sandbox_probe import describe_weakness
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import find_base_tools
from toolglot.tools.tool import Tool
from toolglot.values.request import BUILTIN_TAG

__all__ = ["BuiltinOptions", "Builtins", "builtins", "coding_tools", "find_unusable"]

log = get_logger("toolglot.builtin")


class BuiltinOptions(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """What the built-in tools may do."""

    other_roots: Sequence[Root] = ()
    """Further directories besides the root."""
    unprotected: Collection[str] = frozenset()
    """Names that may be changed although they are protected by default: .vscode, .git …"""
    require_read: bool = True
    """A file must be read before it is changed, unless the model's own agent does not require that."""
    backups: bool = True
    """Keep a copy of every file that is overwritten or removed, for 30 days and up to 1 GB in total."""
    shared_memory: bool = False
    """All projects share the notes of `memory`, and writing one needs approval. By default, each directory
    has its own."""
    skills: Sequence[Skill] = ()
    """Skills that the model can load with `load_skill`; it can read their directories."""
    shell: ShellOptions = ShellOptions()
    """What commands may do."""
    web: WebConfig = WebConfig()
    """How pages are found and opened."""

    def __post_init__(self) -> None:
        check_values(self)


def find_unusable(web: WebConfig, roots: Iterable[Root]) -> dict[str, str]:
    """Return the built-in tools that cannot work here, whatever their arguments: name -> what is missing."""
    unusable = {} if find_parser(roots) else {"ast_search": NO_PARSER, "ast_rewrite": NO_PARSER}
    return unusable if web.can_search else {**unusable, "web_search": NO_SEARCH_SERVICE}


class Builtins:
    """The built-in tools and their shared state.

    `close` ends commands and the browser; so does the end of the program.

    `tools` are offered to models. `unusable` maps the names of tools that cannot work here to what is
    missing. `notices` are sentences that the user should read before starting.
    """

    def __init__(
        self,
        root: str | Path,
        options: BuiltinOptions,
        state_dir: str | Path | None,
        ask_user: AskUser | None,
    ) -> None:
        check_arguments({"options": options}, {"options": (BuiltinOptions, "BuiltinOptions")})
        state_dir = Path(state_dir) if state_dir is not None else None
        workspace = Workspace(
            root,
            other_roots=(*options.other_roots, *find_skill_roots(options.skills, root, options.other_roots)),
            unprotected=options.unprotected,
            backup_dir=_find_backup_dir(state_dir) if options.backups else None,
            backup_name=f"{time.strftime('%Y-%m-%dT%H.%M.%S')}-{secrets.token_hex(4)}",
            private=() if state_dir is None else (state_dir,),
        )
        self.state = state = ToolState(
            workspace,
            state_dir=state_dir,
            shared_memory=options.shared_memory,
            ask=ask_user,
            require_read=options.require_read,
            skills=tuple(options.skills),
        )
        self._web = WebClient(options.web, roots=workspace.roots)
        tools: list[Tool] = [
            *file_tools(state),
            *edit_tools(state),
            *patch_tools(state),
            *grep_tools(state),
            *glob_tools(state),
            *list_dir_tools(state),
            *read_many_tools(state),
            *shell_tools(state, options.shell),
            *ast_search_tools(state),
            *ast_rewrite_tools(state),
            *web_tools(self._web),
            *notebook_tools(state),
            *_discover_tools(state),
        ]
        # Calls that change files or run commands run in order within a turn: a test runs after the edit that
        # precedes it.
        self.all_tools: list[Tool] = [
            tool.replace(tags=tool.tags | {BUILTIN_TAG}, ordered=bool(tool.effects & {"write", "execute"}))
            for tool in tools
        ]
        self.notices: list[str] = (
            [workspace.closed_paths.notice] if workspace.closed_paths.home is not None else list[str]()
        )
        self.notices += filter(None, [describe_weakness(workspace.roots, options.shell.level)])
        self.unusable: dict[str, str] = find_unusable(options.web, workspace.roots)
        hidden = set(self.unusable)
        if not any(skill.is_listed for skill in state.skills):
            hidden.add("load_skill")
        self.tools: list[Tool] = [tool for tool in self.all_tools if tool.name not in hidden]

    def __iter__(self) -> Iterator[Tool]:
        """Iterate over `tools`, so that it can be passed to an agent as it is, or as part of its tools."""
        return iter(self.tools)

    def check_usable(self, name: str) -> None:
        """Raise UsageError if a tool, given by its own or a model's native name, cannot be used here."""
        bases = {name, *find_base_tools(name)}
        reasons = [self.unusable[base] for base in bases if base in self.unusable]
        is_usable = any(tool.name in bases for tool in self.tools)
        if reasons and not is_usable:
            raise UsageError(f"{name} cannot be used: {reasons[0]}")

    def begin_conversation(self) -> None:
        """Reset the state for a new conversation: end commands, clear the to-do list, and require files to be
        read again.
        """
        reset_shell(self.state)
        clear_todos(self.state)
        self.state.seen_versions.clear()

    def close(self) -> None:
        """End everything that is still running."""
        close_shell(self.state)
        self._web.close()
        self.state.workspace.close()


def _find_backup_dir(state_dir: Path | None) -> Path | None:
    """Return the directory for backups; None, with a warning, if the user has no writable directory."""
    directory = (state_dir or state_directory()) / "backups"
    if state_dir is not None or is_writable(directory):
        return directory
    log.warning(
        "files are changed without backups: %s cannot be written; pass state_dir=, or backups=False",
        directory,
    )
    return None


def _discover_tools(state: ToolState) -> Iterator[Tool]:
    for module in sorted(iter_modules(builtin.__path__), key=lambda module: module.name):
        if module.ispkg or module.name == "tools":
            continue
        create_tools = getattr(import_module(f"{builtin.__name__}.{module.name}"), "create_tools", None)
        if create_tools is not None:
            yield from create_tools(state)


def builtins(
    root: str | Path = ".",
    *,
    options: BuiltinOptions | None = None,
    state_dir: str | Path | None = None,
    ask_user: AskUser | None = None,
) -> Builtins:
    """Return the built-in tools for a directory. Raises UsageError.

    `state_dir`: a private directory for backups, saved output and memory; without it, there is no memory, and
    backups go to the user's own state directory. `ask_user`: the function with which the `ask_user` tool asks
    the user.
    """
    return Builtins(root, options or BuiltinOptions(), state_dir, ask_user)


def coding_tools(
    root: str | Path = ".",
    *,
    names: Iterable[str] | None = None,
    options: BuiltinOptions | None = None,
    state_dir: str | Path | None = None,
    ask_user: AskUser | None = None,
) -> list[Tool]:
    """Return the built-in tools for a directory as a list for `Agent`. Raises UsageError.

    Tools that need an extra or a search service are absent without it; `builtins` says which, in `unusable`.

    `names`: only these tools; models' native names work, too (`Bash`). `state_dir`: see `builtins`.
    `ask_user`: the function with which the `ask_user` tool asks the user; without it, the tool is absent.
    """
    loaded = builtins(root, options=options, state_dir=state_dir, ask_user=ask_user)
    tools = loaded.tools
    if ask_user is None:
        tools = [tool for tool in tools if tool.name != "ask_user"]
    if names is None:
        return tools
    known = {tool.name for tool in tools}
    wanted: set[str] = set()
    for name in as_items(names):
        matches = {name} & known or known.intersection(find_base_tools(name))
        if not matches:
            loaded.check_usable(name)
            raise UnknownName("built-in tool", name, known)
        wanted |= matches
    return [tool for tool in tools if tool.name in wanted]
