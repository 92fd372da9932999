"""The configuration from its layers: defaults < user file < project file < environment < flags.

Every value knows its origin. What an untrusted project file may not do is withheld and reported. Environment
and flags are the user's own and may do anything. Tables with names of the user's choice are merged entry by
entry.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import ceil, inf
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.common.jsontext import dumps_text
from toolglot.common.regular_files import read_regular_file
from toolglot.common.textutil import suggest
from toolglot.common.user_dirs import config_file
from toolglot.config.setting_schema import (
    FORMER_NAMES,
    WILDCARD,
    SettingError,
    SettingField,
    SettingPath,
    convert_value,
    find_field,
    flatten_document,
    format_path,
    parse_key,
    parse_text,
    setting_fields,
)
from toolglot.config.settings import Settings
from toolglot.config.trust import is_trusted
from toolglot.engine.rate_limit import RequestRate
from toolglot.errors import UsageError
from toolglot.tools.config import Rate

__all__ = [
    "DEFAULT",
    "PROJECT_FILE",
    "Configuration",
    "SettingValue",
    "WithheldSetting",
    "apply_rule",
    "describe_withheld",
    "find_project_file",
    "list_project_directories",
    "read_configuration",
    "setting_variables",
]

PROJECT_FILE = "toolglot.toml"
DEFAULT = "default"
_CODE_SETTINGS = frozenset({("tools",), ("facade",)})
# Anybody may have written a project's file, and it is read before it is trusted.
_MAX_FILE_BYTES, _MAX_ENTRIES = 64_000, 1_000
# tomllib reports positions only in its messages (Python 3.11 to 3.13).
_TOML_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_HEADER = re.compile(r"\s*\[\[?(?P<key>[^\[\]]+)\]\]?\s*(#.*)?")
# Strings and comments of TOML; the rest of a file is keys, punctuation and other values.
_QUOTED = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'''
    r"""|'''(?:[^']|'{1,2}(?!'))*+'{3,5}|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|#[^\n]*+""",
    re.DOTALL,
)
_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){20}")
_KEY = re.compile(
    r"""\s*(?P<key>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", re.ASCII
)


class SettingValue(msgspec.Struct, frozen=True):
    """The effective value of one setting. `origin` is for people."""

    key: str
    value: Any
    origin: str


class WithheldSetting(msgspec.Struct, frozen=True):
    """A setting in an untrusted project file that was not applied."""

    key: str
    value: Any
    reason: str


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and their origins."""

    settings: Settings
    values: tuple[SettingValue, ...]
    """Every setting, in the order of declaration; tables have one value for each entry."""
    withheld: tuple[WithheldSetting, ...] = ()
    project: Path | None = None
    """The directory of the project's file."""
    trusted: bool = False
    """Whether that directory is trusted."""
    code_directories: dict[str, Path] = {}
    """For `tools` and `facade`: where to look for the modules they name, unless they are installed. This is
    the directory of the file that names them, or the current directory if a flag does, or a variable does and
    the user trusts it."""
    project_servers: frozenset[str] = frozenset()
    """The MCP servers that the project's file configures."""


def read_configuration(
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    trusted: bool | None = None,
) -> Configuration:
    """Read all layers.

    Args:
        directory: Where to look for a project's file, and above it. Default: the current directory.
        environ: Default: the environment of the process.
        flags: Dotted keys -> values; None: not set.
        trusted: Whether the project's directory is trusted. Default: the user's decision.

    Raises UsageError: one sentence with the file, variable or flag. MalformedData: the list of trusted
    directories is damaged.
    """
    if environ is None:
        environ = os.environ
    user = config_file(environ)
    layers = _Layers()
    layers.add_layer(_read_file(user), f"user file {user}", user.parent)

    project = find_project_file(directory)
    if project is not None and _is_same_path(project, user):
        project = None
    if project is None:
        trusted = False
    else:
        if trusted is None:
            trusted = is_trusted(project.parent, environ)
        entries = _read_file(project)
        layers.add_layer(entries, f"project file {project}", project.parent, trusted=trusted)
        if trusted:
            layers.project_servers = {path[2] for path in entries if path[:2] == ("mcp", "servers")}

    for variable, entries in _read_environment(environ):
        # A variable is the user's own, but a module of that name in the current directory is not, unless it
        # is trusted.
        names_code = not _CODE_SETTINGS.isdisjoint(entries)
        code_directory = Path.cwd() if names_code and is_trusted(Path(), environ) else None
        layers.add_layer(entries, f"variable {variable}", code_directory)
    for key, value in (flags or {}).items():
        if value is not None:
            flag, entries = _read_flag(key, value)
            code_directory = None if _CODE_SETTINGS.isdisjoint(entries) else Path.cwd()
            layers.add_layer(entries, f"flag {flag}", code_directory)
    return Configuration(
        settings=layers.build_settings(),
        values=tuple(layers.list_values()),
        withheld=tuple(layers.withheld),
        project=None if project is None else project.parent,
        trusted=trusted,
        code_directories=layers.code_directories,
        project_servers=frozenset(layers.project_servers),
    )


def describe_withheld(configuration: Configuration) -> str:
    """Name the withheld settings and their file; "" if there are none."""
    if configuration.project is None or not configuration.withheld:
        return ""
    return (
        f"{', '.join(setting.key for setting in configuration.withheld)} in "
        f"{configuration.project}/{PROJECT_FILE}"
    )


def find_project_file(directory: Path | None = None) -> Path | None:
    """Return the nearest `toolglot.toml`, in the directory or above it, as far as `list_project_directories`
    goes.
    """
    files = (candidate / PROJECT_FILE for candidate in list_project_directories(directory))
    return next(filter(os.path.isfile, files), None)


def list_project_directories(directory: Path | None = None) -> list[Path]:
    """Return the directories that may contain a project's files: this one, and those above it.

    The search ends at a repository's root and at the home directory, and before a world-writable directory
    above the first one, where anybody could plant a file.
    """
    try:
        start = Path.cwd() if directory is None else directory.absolute()
    except OSError:  # the current directory is gone
        return []
    home = Path(os.path.expanduser("~"))
    directories: list[Path] = []
    for candidate in (start, *start.parents):
        try:
            if candidate != start and os.name == "posix" and candidate.stat().st_mode & stat.S_IWOTH:
                break
        except OSError:
            pass
        directories.append(candidate)
        if os.path.lexists(candidate / ".git") or _is_same_path(candidate, home):
            break
    return directories


def _is_same_path(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


class _Layers:
    """The effective values so far: path -> value and origin."""

    def __init__(self) -> None:
        self.withheld: list[WithheldSetting] = []
        self.code_directories: dict[str, Path] = {}
        self.project_servers: set[str] = set()
        self._current: dict[SettingPath, tuple[Any, str]] = {
            field.key: (field.default, DEFAULT) for field in setting_fields() if WILDCARD not in field.key
        }

    def add_layer(
        self,
        entries: Mapping[SettingPath, Any],
        origin: str,
        directory: Path | None = None,
        *,
        trusted: bool = True,
    ) -> None:
        """Put one layer on top of the others; unless it is trusted, the trust rules apply.

        `directory`: where modules that it names may be found.
        """
        if not trusted:
            self._add_untrusted(entries, origin)
            return
        self._forget_replaced_servers(entries)
        for path, value in entries.items():
            self._current[path] = value, origin
            if path in _CODE_SETTINGS:
                self.code_directories.pop(path[0], None)
                if directory is not None:
                    self.code_directories[path[0]] = directory

    def _forget_replaced_servers(self, entries: Iterable[SettingPath]) -> None:
        """Forget all about the servers that get a new command or url.

        Another program or address must not get what was meant for the former one: variables with keys,
        headers.
        """
        for path in entries:
            is_target = path[:2] == ("mcp", "servers") and path[3:] in (("command",), ("url",))
            if is_target:
                server = path[:3]
                self._current = {
                    known: value for known, value in self._current.items() if known[:3] != server
                }

    def _add_untrusted(self, entries: Mapping[SettingPath, Any], origin: str) -> None:
        for path, value in entries.items():
            field = find_field(path)
            current = self._current[path][0] if path in self._current else field.default
            applied, reason = apply_rule(field, value, current)
            if reason:
                self.withheld.append(WithheldSetting(format_path(path), value, reason))
            elif applied != current:
                self._current[path] = applied, origin

    def build_settings(self) -> Settings:
        """Return the effective values as one struct."""
        document: dict[str, Any] = {}
        for path, (value, _) in self._current.items():
            table = document
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = value
        return msgspec.convert(document, Settings)

    def list_values(self) -> Iterator[SettingValue]:
        """Yield every setting in the order of declaration; the settings of a provider or a server stay
        together.
        """
        for section in dict.fromkeys(field.key[0] for field in setting_fields()):
            # of tables, such as `providers`: the keys in each
            tables: dict[SettingPath, list[SettingPath]] = {}
            for field in setting_fields():
                if field.key[0] != section:
                    continue
                if WILDCARD in field.key[:-1]:
                    table = field.key[: field.key.index(WILDCARD)]
                    tables.setdefault(table, []).append(field.key)
                else:
                    yield from self._values_of(field.key)
            for table, keys in tables.items():
                yield from self._values_in_table(table, keys)

    def _values_in_table(self, table: SettingPath, keys: list[SettingPath]) -> Iterator[SettingValue]:
        """Yield the settings of all entries of a table such as `providers`, one entry after the other."""
        size = len(table)
        names = dict.fromkeys(path[size] for path in self._current if path[:size] == table)
        if not names:
            yield SettingValue(format_path(table), {}, DEFAULT)
        for name in names:
            for key in keys:
                yield from self._values_of((*table, name, *key[size + 1 :]))

    def _values_of(self, key: SettingPath) -> Iterator[SettingValue]:
        if key[-1] != WILDCARD:
            yield SettingValue(format_path(key), *self._current.get(key, (find_field(key).default, DEFAULT)))
            return
        table = key[:-1]
        entries = [path for path in self._current if path[:-1] == table]
        if not entries:
            yield SettingValue(format_path(table), {}, DEFAULT)
        for path in entries:
            yield SettingValue(format_path(path), *self._current[path])


def apply_rule(field: SettingField, value: Any, current: Any) -> tuple[Any, str]:
    """Return the value to use for a setting in an untrusted file, and why it was changed ("" if it was not).

    `current`: the value without that file, or UNSET. The result never allows more than it does.
    """
    if value == current or _is_free(field, value):
        return value, ""
    match field.trust:
        case "superset":
            # Unset, built-in tools ask before everything except reading: any list could only name fewer
            # effects.
            if current is None:
                return current, "only a trusted directory may set which effects need approval"
            return (*current, *(name for name in value if name not in current)), ""
        case "subset":
            if current is None:
                return value, ""
            for name in value:
                if name not in current:
                    return current, f"{name!r} is not in the current list"
            return value, ""
        case "enable":
            if value:
                return value, ""
            return current, "it would allow losses that are currently errors"
        case "lower":
            if _allows_no_more(field, value, current):
                return value, ""
            shown = dumps_text(current) if isinstance(current, msgspec.Struct) else current
            return current, f"it would allow more than the current {shown}"
        case _:
            return current, "only a trusted directory may set it"


def _is_free(field: SettingField, value: Any) -> bool:
    """Return whether anybody may set a setting to a value, whatever the current one is."""
    if field.trust == "reset":
        return value == field.default
    return field.trust == "free"


def _allows_no_more(field: SettingField, value: Any, current: Any) -> bool:
    """Return whether a limit allows at most what the current one does."""
    match value, current:
        case Rate(), Rate():
            return value.calls * _periods(value.seconds, current.seconds) <= current.calls
        case RequestRate(), RequestRate():
            periods = _periods(value.seconds, current.seconds)
            pairs = ((value.requests, current.requests), (value.tokens, current.tokens))
            return all(
                most is None or (count is not None and count * periods <= most) for count, most in pairs
            )
        case _:
            return _allowed_amount(field, value) <= _allowed_amount(field, current)


def _periods(seconds: float, current_seconds: float) -> int:
    """Return how many periods of a rate the current one's period may touch: in each of them, it allows its
    number again.
    """
    return ceil(min(current_seconds / seconds, 2**63))


def _allowed_amount(field: SettingField, limit: Any) -> float:
    """Return how much a limit allows; infinity if it is none."""
    if not isinstance(limit, int | float):
        return inf
    if limit == 0 and field.declared.zero_is_unlimited:
        return inf
    return limit


# ---- variables and flags


@cache
def setting_variables() -> dict[str, SettingField]:
    """Return the environment variables of all settings that have one: TOOLGLOT_ and the key in capitals, with
    `_` for dots.
    """
    return {field.variable: field for field in setting_fields() if field.variable}


def _read_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, dict[SettingPath, Any]]]:
    """Yield the variables that are set, with their settings.

    An empty variable is treated as unset. Raises UsageError.
    """
    known = setting_variables()
    _check_variable_names(environ, known)
    for name, field in known.items():
        text = environ.get(name, "")
        if not text.strip():
            continue
        try:
            yield name, {field.key: _resolve_path(field, parse_text(field, text))}
        except ValueError as e:
            raise UsageError(f"the variable {name} {e}") from None


def _check_variable_names(environ: Mapping[str, str], known: Mapping[str, SettingField]) -> None:
    """Raise UsageError for a variable that would set a table, or that is an obvious misspelling.

    Other programs may use variables that start like ours.
    """
    tables = {field.key[: field.key.index(WILDCARD)] for field in setting_fields() if WILDCARD in field.key}
    for key in tables:
        name = "TOOLGLOT_" + "_".join(key).upper()
        if name in environ:
            raise UsageError(
                f"the variable {name} cannot hold a table; set {'.'.join(key)} in a configuration file"
            )
    for key, new_key in FORMER_NAMES.items():
        name = "TOOLGLOT_" + key.replace(".", "_").upper()
        if name in environ:
            raise UsageError(f"the variable {name} is not a setting; {key} is now {new_key}")
    for name in environ:
        if not name.startswith("TOOLGLOT_") or name in known:
            continue
        similar = suggest(name, known, limit=1, cutoff=0.92)
        if similar:
            raise UsageError(f"the variable {name} is not a setting; did you mean {similar[0]}?")


def _read_flag(key: str, value: Any) -> tuple[str, dict[SettingPath, Any]]:
    """Return the name of the flag for a key, and what it sets."""
    name = "--" + key.rpartition(".")[2].replace("_", "-")
    path = parse_key(key)
    try:
        field = find_field(path)
    except SettingError as e:
        raise UsageError(f"the flag {name}: {e}") from None
    name = field.declared.flag_name or name
    try:
        if isinstance(value, os.PathLike):
            value = os.fspath(cast(os.PathLike[str], value))
        converted = parse_text(field, value) if isinstance(value, str) else convert_value(field, value)
    except ValueError as e:
        raise UsageError(f"the flag {name} {e}") from None
    return name, {path: _resolve_path(field, converted)}


def _resolve_path(field: SettingField, value: Any, directory: Path | None = None) -> Any:
    """Make a setting that is a file absolute: in a file it is relative to that file, otherwise to the current
    directory.
    """
    if not field.declared.is_path or not isinstance(value, str):
        return value
    return str((directory or Path()) / os.path.expanduser(value))


# ---- files


def _read_file(file: Path) -> dict[SettingPath, Any]:
    """Return what a file sets; nothing if it is absent. Raises UsageError."""
    try:
        data = read_regular_file(file, _MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        raise UsageError(f"cannot read the configuration {str(file)!r}: {e.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"the configuration {str(file)!r} is larger than {_MAX_FILE_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UsageError(f"{file}, line {line}: not UTF-8; save the file as UTF-8") from None
    entries: dict[SettingPath, Any] = {}
    try:
        for path, field, value in flatten_document(_parse_toml(file, text)):
            count = len(cast(list[Any], value)) if isinstance(value, list) else len(entries)
            if count > _MAX_ENTRIES:
                raise SettingError(f"{format_path(path)} exceeds the limit of {_MAX_ENTRIES:,} entries", path)
            try:
                entries[path] = _resolve_path(field, convert_value(field, value), file.parent)
            except ValueError as e:
                raise SettingError(f"{format_path(path)} {e}", path) from None
    except SettingError as e:
        line = _find_line(text, e.path)
        raise UsageError(f"{file}{f', line {line}' if line else ''}: {e}") from None
    return entries


def _parse_toml(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    # tomllib needs time and memory that grow with the square of a key's parts: 6 GB for a file of 80 kB.
    if _LONG_KEY.search(_QUOTED.sub("_", text)):
        raise UsageError(f"{file} has a key with more than 20 parts: settings have at most 4")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None
    except ValueError as e:
        position = _TOML_POSITION.search(str(e))
        if position is None:
            reason = str(e).partition("; use sys.")[0]  # of a number with thousands of digits
            raise UsageError(f"{file}: invalid TOML: {reason}") from None
        lines = text.splitlines() or [""]
        line, column = (position[1], position[2]) if position[1] else (len(lines), len(lines[-1]) + 1)
        raise UsageError(
            f"{file}, line {line}, column {column}: invalid TOML: {str(e)[: position.start()]}"
        ) from None


def _find_line(text: str, path: SettingPath) -> int | None:
    """Return the line that sets a key, or starts its table; None if neither is found."""
    best_length = 0
    best_line = None
    for number, key in _list_keys(text):
        length = min(len(key), len(path))
        if length > best_length and path[:length] == key[:length]:
            best_length = length
            best_line = number
    return best_line


def _list_keys(text: str) -> Iterator[tuple[int, SettingPath]]:
    """Yield the keys and headers of a file with the numbers of their lines.

    tomllib keeps no positions, so this reads the keys again: table headers, dotted keys, and strings of
    several lines, whose content must not be taken for keys.
    """
    table: SettingPath = ()
    open_quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not open_quotes:
            header = _HEADER.fullmatch(line)
            assignment = _KEY.match(line)
            if header is not None:
                table = parse_key(header["key"])
                yield number, table
            elif assignment is not None:
                yield number, (*table, *parse_key(assignment["key"]))
        for mark in re.findall(r'"""|\'\'\'', line):
            if mark == open_quotes:
                open_quotes = ""
            elif not open_quotes:
                open_quotes = mark
