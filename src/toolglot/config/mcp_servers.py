"""The configured MCP servers: where each comes from, and what it starts with.

Servers come from `--mcp-config` files, the settings `[mcp.servers.NAME]`, and the project's files, in this
order: if two have the same name, the first is used, and the user is notified. Settings without a command or a
url override those of a server in a project's file. A project's servers are used only if its directory is
trusted, and run in the same sandbox as commands unless the user configures otherwise. So does a server of the
user that runs in the workspace, unless that is trusted. Variables are expanded when a server is started, so
that nothing else ever sees their values.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from toolglot.common.known_keys import remember_key
from toolglot.common.redact import redact, redact_words
from toolglot.common.user_dirs import config_file
from toolglot.config.layers import PROJECT_FILE, Configuration, list_project_directories, read_configuration
from toolglot.config.mcp_files import PROJECT_FILES, ServerFile, ServerInput, read_env_file, read_server_file
from toolglot.config.server_code import list_code_paths, list_relied_paths
from toolglot.config.settings import ServerSettings
from toolglot.config.trust import is_trusted
from toolglot.confine.programs import WorkspaceDirectory, is_startable
from toolglot.engine.signin.environment import KEY_VARIABLES, read_key_variable
from toolglot.errors import UsageError
from toolglot.mcp.client.launch import server_directory
from toolglot.mcp.client.servers import SECRET_NAME, McpOAuth, McpServer, remember_secrets

__all__ = ["AskInput", "ServerCatalog", "ServerEntry", "find_servers"]

AskInput = Callable[[ServerInput], str | None]
"""Asks the user for a VS Code input; None: not answered."""
_VARIABLE = re.compile(r"\$?\$\{([^${}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULTS = ServerSettings()


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and where it comes from. Nothing is expanded: it can be shown after redaction."""

    name: str
    settings: ServerSettings
    origin: str
    """The file that defines it."""
    directory: Path
    """The workspace directory of the file, to which its paths are relative."""
    workspace: tuple[WorkspaceDirectory, ...] = ()
    """The directories with files of the project, or that tools may write to."""
    is_workspace_trusted: bool | None = None
    """Whether the user trusts them; None: as decided for each."""
    is_project: bool = False
    """It is defined, or changed, by a project's file."""
    is_setting: bool = False
    """It is in a toolglot settings file, not in another program's file."""
    env_file: str = ""
    inputs: dict[str, ServerInput] = {}
    forbidden_variables: frozenset[str] = frozenset()
    """Provider keys, which a project's servers do not receive."""
    problem: str = ""
    """Why it cannot be used, in one sentence."""

    @property
    def is_sandboxed(self) -> bool:
        """Whether it runs in the same sandbox as commands."""
        return self._needs_sandbox(_Expander(self, None).expand_known)

    def _needs_sandbox(self, expand: Callable[[str], str]) -> bool:
        if not self.settings.command:
            return False
        if self.settings.sandbox is not None:
            return self.settings.sandbox
        return self.is_project or bool(self.find_workspace_use(expand)[0])

    def find_workspace_use(self, expand: Callable[[str], str] | None = None) -> tuple[str, Path]:
        """Return what a server would run or load from a workspace that is not trusted, in words, and the
        directory to trust.
        """
        expand = expand or _Expander(self, None).expand_known
        env_file = self._join(expand(self.env_file)) if self.env_file else None
        for description, path in list_code_paths(self._expand(expand), env_file, self.directory):
            if is_startable(os.path.abspath(path), self.workspace):
                continue
            trusted = is_trusted(path) if self.is_workspace_trusted is None else self.is_workspace_trusted
            if not trusted:
                real = Path(os.path.realpath(path))
                directories = (
                    root.path for root in self.workspace if real.is_relative_to(os.path.realpath(root.path))
                )
                return description, next(directories, real)
        return "", self.directory

    def _expand(self, expand: Callable[[str], str]) -> ServerSettings:
        """Return the settings that say what is started, with their variables replaced."""
        settings = self.settings
        return replace(
            settings,
            command=os.path.expanduser(expand(settings.command)),
            args=tuple(map(expand, settings.args)),
            env={name: expand(value) for name, value in settings.env.items()},
            cwd=os.path.expanduser(expand(settings.cwd or "")) or None,
        )

    def _join(self, path: str) -> Path:
        return self.directory / os.path.expanduser(path)

    def describe_directory(self) -> str:
        """Return the directory in which its program runs, for display; "" for a URL."""
        if not self.settings.command:
            return ""
        settings = self._expand(_Expander(self, None).expand_known)
        directory = self._resolve_directory(settings, is_sandboxed=self.is_sandboxed)
        return directory or str(server_directory(self.name, self.workspace))

    def _resolve_directory(self, settings: ServerSettings, *, is_sandboxed: bool) -> str | None:
        """Return the directory in which its program starts; None: one of its own, outside the workspace."""
        if not settings.command:
            return None
        starts_in_workspace = is_sandboxed or self.is_project
        if settings.cwd is None and not starts_in_workspace:
            return None
        return os.path.abspath(self._join(settings.cwd or ""))

    @property
    def target(self) -> str:
        """Its command or URL for display, without secrets."""
        if self.settings.url:
            return redact(self.settings.url, by_name=True)
        return shlex.join(redact_words((self.settings.command, *self.settings.args)))

    @property
    def claim(self) -> str:
        """What trusting it means, for display: its command or URL, and which of the user's variables it
        receives.
        """
        settings, places = self.settings, _Expander(self, None).places
        texts = (
            *(settings.command, *settings.args, *settings.env.values(), settings.cwd or "", self.env_file),
            *(
                settings.url,
                *settings.headers.values(),
                settings.oauth.client_id,
                settings.oauth.client_secret,
            ),
        )
        variables: dict[str, None] = {}
        for text in texts:
            for match in _VARIABLE.finditer(text):
                name = match[1].removeprefix("env:").partition(":-")[0]
                is_escaped = match[0].startswith("$$")
                if not is_escaped and name not in places and _NAME.fullmatch(name):
                    variables[name] = None
        if not variables:
            return self.target
        return f"{self.target} (receives your variables {', '.join(variables)})"

    def resolve(self, ask: AskInput | None = None) -> McpServer:
        """Return the server with variables, inputs and its env file resolved. Raises UsageError."""
        if self.problem:
            raise UsageError(self.problem)
        expand = _Expander(self, ask).expand
        settings = self._expand(expand)
        is_sandboxed = self._needs_sandbox(expand)  # with what `ask` answers
        if settings.command and not self.is_project and not is_sandboxed:
            use, place = self.find_workspace_use(expand)
            if use:  # and `sandbox = false`
                raise UsageError(
                    f"the MCP server {self.name} was not started: {use} is in the workspace, which is not "
                    "trusted; "
                    f"run toolglot trust {shlex.quote(str(place))}, or set sandbox = true for it"
                )
        oauth: McpOAuth | None = replace(
            settings.oauth,
            client_id=expand(settings.oauth.client_id),
            client_secret=expand(settings.oauth.client_secret),
        )
        if oauth == McpOAuth():
            oauth = None
        values: dict[str, Any] = {
            **asdict(settings),
            "env": {**self._read_env_file(expand), **settings.env},
            "cwd": self._resolve_directory(settings, is_sandboxed=is_sandboxed),
            "url": expand(settings.url),
            "headers": {name: expand(value) for name, value in settings.headers.items()},
            "sandbox": is_sandboxed,
            "oauth": oauth,
        }
        try:
            server = McpServer(**values)
        except UsageError as e:
            raise UsageError(f"the MCP server {self.name} ({self.origin}) is not valid: {e}") from None
        remember_secrets(server)
        return server

    def _read_env_file(self, expand: Callable[[str], str]) -> dict[str, str]:
        """Return the variables of its env file, without those that it must not have. Raises UsageError."""
        if not self.env_file:
            return {}
        path = self._join(expand(self.env_file))
        try:
            variables = read_env_file(path, within=self.directory if self.is_project else None)
        except UsageError as e:
            raise UsageError(
                f"the env file {str(path)!r} of the MCP server {self.name} cannot be read: {e}"
            ) from None
        return {name: value for name, value in variables.items() if name not in self.forbidden_variables}


class ServerCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """All configured servers."""

    servers: tuple[ServerEntry, ...] = ()
    withheld: tuple[ServerEntry, ...] = ()
    """Servers in the files of an untrusted project."""
    notes: tuple[str, ...] = ()
    workspace: tuple[WorkspaceDirectory, ...] = ()
    """The directories with files of the project, or that tools may write to."""

    def find(self, name: str) -> ServerEntry | None:
        """Return a server by name, trusted or not."""
        return next((entry for entry in (*self.servers, *self.withheld) if entry.name == name), None)

    def confine(self, server: McpServer, directory: Path) -> tuple[McpServer, str]:
        """Return a server that is not configured here but by an editor, in the sandbox if need be, and why it
        is there.

        `directory`: the directory of the session.
        """
        if not server.command:
            return server, ""
        for description, path in list_code_paths(server, None, directory):
            if not is_startable(os.path.abspath(path), self.workspace) and not is_trusted(path):
                return replace(server, sandbox=True, cwd=str(directory)), description
        return server, ""


def find_servers(
    configuration: Configuration,
    *,
    files: Iterable[Path] = (),
    directory: Path | None = None,
    trusted: bool | None = None,
) -> ServerCatalog:
    """Find all servers. Raises UsageError if one of the `files`, which the user named, cannot be read.

    Args:
        configuration: The settings.
        files: The `--mcp-config` files.
        directory: Where to look for the project's files; its parents are searched, too. Default: the current
            directory.
        trusted: Whether the project is trusted. Default: the user's decision about each directory.
    """
    workspace = (directory or Path()).absolute()
    settings = configuration.settings.mcp
    finder = _ServerFinder(configuration, workspace, trusted)
    if settings.enabled:
        if settings.project_files:
            finder.add_project_files()
        finder.add_settings()
        finder.add_withheld_settings()
    for file in map(read_server_file, files):
        finder.add_file(file)
    finder.apply_overlays()

    directories = _find_workspace(configuration, workspace)
    servers = [
        replace(entry, workspace=directories, is_workspace_trusted=trusted) for entry in finder.found.values()
    ]
    withheld = [
        replace(entry, workspace=directories, is_workspace_trusted=trusted)
        for entry in finder.withheld.values()
    ]
    for entry in servers:
        finder.notes += _describe_workspace_use(entry)
    return ServerCatalog(
        servers=tuple(servers), withheld=tuple(withheld), notes=tuple(finder.notes), workspace=directories
    )


class _ServerFinder:
    """Collects servers from their sources, which are added in rising order of precedence."""

    def __init__(self, configuration: Configuration, workspace: Path, trusted: bool | None) -> None:
        self.found: dict[str, ServerEntry] = {}
        self.withheld: dict[str, ServerEntry] = {}
        self.notes: list[str] = []
        self._overlays: dict[str, ServerSettings] = {}
        self._configuration, self._workspace, self._trusted = configuration, workspace, trusted

    def add_project_files(self) -> None:
        """Add the servers in the project's files; those of directories that are not trusted are withheld."""
        directories = list_project_directories(self._workspace)
        forbidden_variables = _forbidden(self._configuration)
        for name in PROJECT_FILES:
            directory = next((each for each in directories if os.path.isfile(each / name)), None)
            if directory is None:
                continue
            is_usable = is_trusted(directory) if self._trusted is None else self._trusted
            try:
                file = read_server_file(directory / name, is_project=True)
            except UsageError as e:
                if is_usable:
                    self.notes.append(f"{e}; its servers are left out")
                continue
            if is_usable:
                self.notes += file.notes
            table = self.found if is_usable else self.withheld
            for entry in _read_entries(file, directory):
                entry = replace(entry, is_project=True, forbidden_variables=forbidden_variables)
                if entry.name in table:
                    self._report_conflict(entry, table[entry.name])
                else:
                    table[entry.name] = entry

    def add_settings(self) -> None:
        """Add the servers in settings; a table without a command or a url changes a server of the project."""
        for entry in _read_settings(self._configuration, self._workspace):
            if entry.settings.command or entry.settings.url:
                self._replace(entry)
            else:
                self._overlays[entry.name] = entry.settings
        servers = self._configuration.settings.mcp.servers
        for name in sorted(self._configuration.project_servers):
            if servers[name].trust:
                self.notes.append(
                    f"mcp.servers.{name}.trust was ignored, because {PROJECT_FILE} defines or changes this "
                    "server: allow its "
                    "tools with a rule in your own settings"
                )

    def add_withheld_settings(self) -> None:
        """Add the servers in the project's settings as withheld ones, if that is what they are."""
        if not any(setting.key.startswith("mcp.servers.") for setting in self._configuration.withheld):
            return
        with suppress(UsageError):  # problems with the file are reported once it is trusted
            trusting = read_configuration(directory=self._configuration.project, trusted=True)
            for entry in _read_settings(trusting, self._workspace):
                if entry.is_project and entry.name not in self.found:
                    self.withheld[entry.name] = entry

    def add_file(self, file: ServerFile) -> None:
        """Add the servers of a file that the user named."""
        self.notes += file.notes
        for entry in _read_entries(file, self._workspace):
            self._replace(entry)

    def apply_overlays(self) -> None:
        """Change servers as the settings without a command or a url say."""
        for name, overlay in self._overlays.items():
            table = self.found if name in self.found else self.withheld
            entry = table.get(name)
            if entry is None:
                self.notes.append(
                    f"mcp.servers.{name} has neither a command nor a url, and no project file defines that "
                    "server"
                )
                continue
            changes = {
                field: value for field, value in asdict(overlay).items() if value != getattr(_DEFAULTS, field)
            }
            changes["env"] = {**entry.settings.env, **overlay.env}
            changes["headers"] = {**entry.settings.headers, **overlay.headers}
            table[name] = replace(entry, settings=replace(entry.settings, **changes))

    def _replace(self, entry: ServerEntry) -> None:
        """Use a server instead of another with the same name."""
        former = self.found.pop(entry.name, None)
        if former is not None:
            self._report_conflict(former, entry)
        self.withheld.pop(entry.name, None)
        self.found[entry.name] = entry

    def _report_conflict(self, other: ServerEntry, used: ServerEntry) -> None:
        if other.settings != used.settings:
            self.notes.append(
                f"the MCP server {used.name} is in {used.origin} and in {other.origin}: the first is used"
            )


def _find_workspace(configuration: Configuration, workspace: Path) -> tuple[WorkspaceDirectory, ...]:
    """Return the directories with files of the project, or that tools may write to."""
    settings = configuration.settings.builtin
    directories = [workspace]
    for path in (settings.root or workspace, *settings.write):
        directories.append(Path(path).expanduser().absolute())
    home = Path(os.path.realpath(os.path.expanduser("~")))
    # Above the current directory, the repository counts, but the user's home directory is nobody else's
    # project.
    for path in list_project_directories(workspace)[-1:]:
        if not home.is_relative_to(os.path.realpath(path)):
            directories.append(path)
    contain_home = any(home.is_relative_to(os.path.realpath(path)) for path in directories)
    if contain_home:
        for name in settings.unprotected:  # otherwise closed to tools
            directories.append(home / name)
    unique = dict.fromkeys(directories)
    return tuple(WorkspaceDirectory(path) for path in unique if path != path.parent)  # not the root


def _describe_workspace_use(entry: ServerEntry) -> Iterable[str]:
    """Yield what the user has to know about a server that uses the workspace, or used to start in it."""
    settings = entry.settings
    is_started = settings.enabled and settings.command != ""
    if entry.is_project or not is_started:
        return
    use, place = entry.find_workspace_use()
    if use and settings.sandbox is None:
        yield (
            f"the MCP server {entry.name} runs in the sandbox: {use} is in the workspace, which is not "
            "trusted "
            f"(run `toolglot trust {shlex.quote(str(place))}` to run it with your permissions)"
        )
    if settings.cwd is not None or entry.is_sandboxed:
        return
    words = [*list_relied_paths(settings, entry.directory)]
    if words:
        yield (
            f"the MCP server {entry.name} does not start in the workspace, so {words[0]!r} is not looked for "
            "there: "
            f'if it should be, set cwd = "${{workspaceFolder}}" for it'
        )


def _read_settings(configuration: Configuration, workspace: Path) -> Iterable[ServerEntry]:
    """Yield the tables `[mcp.servers.NAME]`."""
    for name, server in configuration.settings.mcp.servers.items():
        if name not in configuration.project_servers:
            yield ServerEntry(
                name=name, settings=server, origin=str(config_file()), directory=workspace, is_setting=True
            )
            continue
        directory = configuration.project or workspace
        yield ServerEntry(
            name=name,
            # What a project defines or changes is its server: neither it nor your trust in the former one
            # makes it trusted.
            settings=replace(server, trust=False),
            origin=str(directory / PROJECT_FILE),
            directory=directory,
            is_project=True,
            is_setting=True,
            forbidden_variables=_forbidden(configuration),
        )


def _read_entries(file: ServerFile, directory: Path) -> Iterable[ServerEntry]:
    for name, server in file.servers.items():
        yield ServerEntry(
            name=name,
            settings=server.settings,
            origin=str(file.path),
            directory=directory,
            env_file=server.env_file,
            inputs=file.inputs,
            problem=server.problem,
        )


def _forbidden(configuration: Configuration) -> frozenset[str]:
    settings = configuration.settings
    names = {settings.builtin.brave_key_env, settings.builtin.tavily_key_env}
    names |= {section.key_env for section in settings.providers.values() if section.key_env}
    return (KEY_VARIABLES | names).difference(settings.policy.keep_env)


class _Expander:
    """Replaces `${…}` in the settings of a server."""

    def __init__(self, entry: ServerEntry, ask: AskInput | None) -> None:
        self._entry, self._ask = entry, ask
        self._inputs: dict[str, str] = {}
        home, directory = os.path.expanduser("~"), str(entry.directory)
        self.places = {
            **dict.fromkeys(("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR", "cwd"), directory),
            "workspaceFolderBasename": entry.directory.name,
            "userHome": home,
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def expand(self, text: str) -> str:
        """Replace the variables in a text by their values. Raises UsageError."""

        def replace_variable(match: "re.Match[str]") -> str:
            if match[0].startswith("$$"):  # an escaped `${…}`
                return match[0][1:]
            return self._find(match[1])

        return _VARIABLE.sub(replace_variable, text)

    def expand_known(self, text: str) -> str:
        """Replace the variables in a text; return nothing if one of them is not known yet."""
        with suppress(UsageError):
            return self.expand(text)
        return ""

    def _find(self, word: str) -> str:
        if word in self.places:
            return self.places[word]
        kind, colon, rest = word.partition(":")
        if kind == "input" and colon:
            return self._find_input(rest)
        name, _, default = word.removeprefix("env:").partition(":-")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"the MCP server {self._entry.name} uses ${{{word}}}, which is not supported: write the "
                "value instead, "
                f"or $${{{word}}} if the program itself substitutes it"
            )
        # names are case-insensitive on Windows
        if not {name, name.upper()}.isdisjoint(self._entry.forbidden_variables):
            raise UsageError(
                f"the MCP server {self._entry.name} in {self._entry.origin} requests {name}, which is a "
                "provider key: "
                "add it to policy.keep_env to allow that"
            )
        if value := read_key_variable(name):
            if SECRET_NAME.search(name):
                remember_key(value)
            return value
        if ":-" in word:
            return default
        if name in os.environ:  # but empty
            return ""
        raise UsageError(f"the MCP server {self._entry.name} needs the variable {name}, which is not set")

    def _find_input(self, id: str) -> str:
        if id in self._inputs:
            return self._inputs[id]
        wanted = self._entry.inputs.get(id)
        if wanted is None:
            raise UsageError(
                f"the MCP server {self._entry.name} uses ${{input:{id}}}, which its file does not define"
            )
        if self._ask is not None:
            answer = self._ask(wanted)
        else:
            answer = wanted.default or None
        if answer is None:
            needed = f"the MCP server {self._entry.name} needs an input ({wanted.description or id})"
            raise UsageError(f"{needed}: start toolglot chat in a terminal to be asked for it")
        if wanted.is_password:
            remember_key(answer)
        self._inputs[id] = answer
        return answer
