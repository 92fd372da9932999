"""Files that define MCP servers, in other programs' formats: Claude's and Cursor's `mcpServers`, VS Code's
`servers`.

An invalid entry has a `problem` and does not affect the others. Unknown keys are reported, never ignored
silently. A file cannot grant approvals: keys that would (`alwaysAllow`) are reported, too.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.common.jsontext import dumps_text, json_type_name, loads
from toolglot.common.regular_files import read_regular_file
from toolglot.common.textutil import did_you_mean, pluralize, suggest
from toolglot.config.settings import ServerSettings
from toolglot.errors import UsageError

__all__ = [
    "PROJECT_FILES",
    "FileServer",
    "ServerFile",
    "ServerInput",
    "parse_env_file",
    "parse_server_file",
    "read_env_file",
    "read_server_file",
]

PROJECT_FILES = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""A project's files, in order of precedence."""
_MAX_BYTES = 256_000
_MAX_NAMED_BYTES = 16_000_000  # for a file that the user names: Claude Code keeps much more in ~/.claude.json
# Untrusted projects' files are read, too: unterminated strings and comments must not take quadratic time.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
# VS Code's files may have comments and trailing commas.
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])")
_ENV_LINE = re.compile(r"\s*+(?:export\s++)?([A-Za-z_][A-Za-z0-9_.]*)\s*+=(.*)", re.DOTALL)
# Key -> ours. Windsurf: serverUrl; Gemini CLI: httpUrl, includeTools, excludeTools; Copilot CLI: tools.
_KEYS = {
    **{name: name for name in ("command", "args", "env", "cwd", "url", "headers", "enabled")},
    "serverUrl": "url",
    "httpUrl": "url",
    "tools": "allow",
    "includeTools": "allow",
    "excludeTools": "deny",
}
_OTHER_KEYS = ("type", "transport", "envFile", "disabled", "timeout", "oauth", "auth")
_OAUTH_KEYS = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "callbackPort": "redirect_port",
    "scopes": "scopes",
    "CLIENT_ID": "client_id",
    "CLIENT_SECRET": "client_secret",  # Cursor
}
_APPROVALS = frozenset({"alwaysAllow", "autoApprove", "trust"})
# Meant for other programs, or for people.
_IGNORED = frozenset(
    {
        "description",
        "name",
        "title",
        "displayName",
        "version",
        "gallery",
        "icon",
        "dev",
        "alwaysLoad",
        "$schema",
    }
)
_TRANSPORTS = {
    **dict.fromkeys(("stdio", "local"), "command"),
    **dict.fromkeys(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"), "url"),
}


class ServerInput(msgspec.Struct, frozen=True, kw_only=True):
    """A value that VS Code asks the user for before it starts a server: `${input:ID}`."""

    id: str
    description: str = ""
    is_password: bool = False
    default: str = ""
    options: tuple[str, ...] = ()


class FileServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a file describes it; variables are not expanded."""

    settings: ServerSettings = ServerSettings()
    env_file: str = ""
    problem: str = ""
    """Why it cannot be used."""


class ServerFile(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a file."""

    path: Path
    servers: dict[str, FileServer] = {}
    inputs: dict[str, ServerInput] = {}
    notes: tuple[str, ...] = ()
    """Unknown or ignored keys, one sentence each."""


def read_server_file(path: Path, *, is_project: bool = False) -> ServerFile:
    """Read a user's or a project's file. Raises UsageError, one sentence with the path."""
    limit = _MAX_BYTES if is_project else _MAX_NAMED_BYTES
    try:
        data = read_regular_file(path, limit + 1)
        if len(data) > limit:
            raise UsageError(f"{path} is larger than {limit:,} bytes, too large for a file with MCP servers")
        return parse_server_file(data.decode("utf-8-sig"), path)
    except OSError as e:
        raise UsageError(f"cannot read the MCP servers in {str(path)!r}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text: save it as UTF-8") from None


def parse_server_file(text: str, path: Path) -> ServerFile:
    """Parse the text of a file. Raises UsageError."""
    try:
        document = _parse_lenient_json(text)
    except ValueError as e:
        raise UsageError(f"{path} is not JSON: {e}") from None
    content = cast(dict[str, Any], document) if isinstance(document, dict) else {}
    tables = [content[key] for key in ("mcpServers", "servers") if key in content]
    if not tables:
        raise UsageError(
            f'{path} defines no MCP servers: it needs a key "mcpServers" (Claude, Cursor) or "servers" (VS '
            "Code)"
        )
    notes: list[str] = []
    unknown = [key for key in content if key not in ("mcpServers", "servers", "inputs", *_IGNORED)]
    if len(unknown) == 1:
        notes.append(f"{path}: the key {unknown[0]!r} is unknown and was ignored")
    elif unknown:
        others = pluralize(len(unknown) - 1, "other")
        notes.append(f"{path}: the key {unknown[0]!r} and {others} are unknown and were ignored")
    servers: dict[str, FileServer] = {}
    for table in tables:
        if not isinstance(table, dict):
            raise UsageError(
                f"{path}: the servers must be an object with one entry per server, not "
                f"{json_type_name(table)}"
            )
        for name, entry in cast(dict[str, Any], table).items():
            reader = _EntryReader(f"{path}: {name}")
            servers[name] = reader.read(entry)
            notes += reader.notes
    inputs = {each.id: each for each in _read_inputs(content.get("inputs"))}
    return ServerFile(path=path, servers=servers, inputs=inputs, notes=tuple(notes))


def _parse_lenient_json(text: str) -> Any:
    """Parse JSON that may have comments and trailing commas. Raises ValueError."""
    try:
        return loads(text)
    except ValueError:
        without_comments = _COMMENT.sub(lambda match: match[1] or " ", text)
        return loads(_LAST_COMMA.sub(lambda match: match[1] or "", without_comments))


def _read_inputs(inputs: Any) -> Iterator[ServerInput]:
    for entry in _dicts(inputs):
        if "id" not in entry or "command" in entry:  # only VS Code can run its own commands
            continue
        yield ServerInput(
            id=str(entry["id"]),
            description=str(entry.get("description", "")),
            is_password=entry.get("password") is True,
            default=str(entry.get("default", "")),
            options=tuple(_read_options(entry.get("options"))),
        )


def _read_options(options: Any) -> list[str]:
    """Return the values to choose from: texts, then those of objects with a label."""
    if not isinstance(options, list):
        return []
    texts = [option for option in cast(list[Any], options) if isinstance(option, str)]
    return [*texts, *(str(option.get("value", "")) for option in _dicts(options))]


def _dicts(values: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none if it is not one."""
    if not isinstance(values, list):
        return []
    return [value for value in cast(list[Any], values) if isinstance(value, dict)]


class _EntryReader:
    """Reads one server."""

    def __init__(self, place: str) -> None:
        self.notes: list[str] = []
        self._place = place

    def read(self, entry: Any) -> FileServer:
        if not isinstance(entry, dict):
            return FileServer(problem=f"{self._place} must be an object, not {json_type_name(entry)}")
        given = cast(dict[str, Any], entry)
        fields = self._read_keys(given)
        if given.get("disabled") is True:
            fields["enabled"] = False
        for name in ("env", "headers"):
            if isinstance(fields.get(name), dict):
                fields[name] = _read_texts(fields[name])
        timeout = given.get("timeout")
        if isinstance(timeout, int | float) and timeout > 0:
            # Claude Code and Gemini CLI use milliseconds, Cline seconds.
            fields["timeout"] = timeout / 1000 if timeout >= 1000 else timeout
        fields |= self._read_oauth(given.get("oauth") or given.get("auth"))
        if fields.get("allow") in (["*"], "*"):
            del fields["allow"]
        try:
            settings = msgspec.convert(fields, ServerSettings)
        except msgspec.ValidationError as e:
            message, _, place = str(e).partition(" - at ")
            name = place.strip("`").removeprefix("$.") or "it"
            return FileServer(
                problem=f"{self._place} is not valid: {name}: {message[:1].lower()}{message[1:]}"
            )
        problem = self._check_transport(given.get("type", given.get("transport")), settings)
        env_file = given.get("envFile")
        if not isinstance(env_file, str):
            env_file = ""
        return FileServer(settings=settings, env_file=env_file, problem=problem)

    def _read_keys(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return the values of the keys that need no conversion, under our names; report keys that are not
        used.
        """
        fields: dict[str, Any] = {}
        for key, value in entry.items():
            if key in _KEYS:
                fields[_KEYS[key]] = value
            elif key in _APPROVALS:
                self._note(
                    f"{key!r} was ignored: only you approve calls (policy.approve, mcp.servers.NAME.trust)"
                )
            elif key not in _OTHER_KEYS and key not in _IGNORED:
                hint = did_you_mean(suggest(key, [*_KEYS, *_OTHER_KEYS], limit=1))
                self._note(f"the key {key!r} is unknown and was ignored{hint and f'; {hint}'}")
        return fields

    def _note(self, text: str) -> None:
        self.notes.append(f"{self._place}: {text}")

    def _read_oauth(self, oauth: Any) -> dict[str, Any]:
        if not isinstance(oauth, dict):
            return {}
        fields: dict[str, Any] = {}
        for key, value in cast(dict[str, Any], oauth).items():
            if key not in _OAUTH_KEYS:
                self._note(f"its sign-in key {key!r} is unknown and was ignored")
            elif key == "scopes" and isinstance(value, str):
                fields["scopes"] = value.split()
            else:
                fields[_OAUTH_KEYS[key]] = value
        return {"oauth": fields}

    def _check_transport(self, transport: Any, settings: ServerSettings) -> str:
        """Return why the server cannot be used; "" if it can."""
        if transport == "sse":
            return (
                f"{self._place} uses SSE, which MCP has replaced: use its Streamable HTTP URL, with type http"
            )
        needed = ""
        if transport is not None:
            is_known = isinstance(transport, str) and transport in _TRANSPORTS
            if not is_known:
                return f"{self._place} has the unknown type {transport!r}: use stdio or http"
            needed = _TRANSPORTS[transport]
        if not settings.command and not settings.url:
            return f"{self._place} has neither a command nor a url: set one of them"
        if settings.command and settings.url:
            return f"{self._place} has both a command and a url: remove one of them"
        if needed and not getattr(settings, needed):
            return f"{self._place} has type {transport}, which requires a {needed}"
        return ""


def _read_texts(table: dict[str, Any]) -> dict[str, Any]:
    """Return variables or headers as texts: some files have numbers here, and null for none."""
    texts: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, int | float):
            texts[key] = dumps_text(value)
        elif value is not None:
            texts[key] = value
    return texts


def read_env_file(path: Path, *, within: Path | None) -> dict[str, str]:
    """Read the variables in a file.

    `within`: a directory that must contain it. Raises UsageError with a brief reason.
    """
    real_path = os.path.realpath(path)
    if within is not None and not Path(real_path).is_relative_to(os.path.realpath(within)):
        raise UsageError("it is not in the project's directory")
    try:
        data = read_regular_file(real_path, _MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UsageError(f"it is larger than {_MAX_BYTES:,} bytes")
        return parse_env_file(data.decode("utf-8-sig"))
    except OSError as e:
        raise UsageError(e.strerror or "it cannot be opened") from None
    except ValueError:
        raise UsageError("it is not UTF-8 text") from None


def parse_env_file(text: str) -> dict[str, str]:
    """Parse NAME=value lines, with comments, `export` and quotes. Other lines are ignored."""
    variables: dict[str, str] = {}
    for line in text.splitlines():
        match = _ENV_LINE.match(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        value = match[2].strip()
        quote = value[0] if len(value) >= 2 and value[0] == value[-1] else ""
        if quote == "'":
            value = value[1:-1]
        elif quote == '"':
            value = value[1:-1].replace("\\n", "\n").replace('\\"', '"')
        else:
            value = re.sub(r"\s#.*", "", value).rstrip()
        variables[match[1]] = value
    return variables
