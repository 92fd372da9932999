"""The configuration, out of its layers: default < user file < project file < environment < flags.

Laws: every value knows where it came from. What an untrusted project file may not do is held back, and said. Environment and
flags are the user's own and may do anything. Tables with free names are merged entry by entry.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.config.environment import read_environment
from toolglot.config.loading import find_facade_file
from toolglot.config.paths import config_file, home_directory
from toolglot.config.setting_schema import (
    WILDCARD,
    SettingError,
    SettingField,
    convert_value,
    find_field,
    flatten_document,
    format_path,
    parse_key,
    parse_text,
    setting_fields,
)
from toolglot.config.setting_schema import SettingPath as KeyPath
from toolglot.config.settings import Settings
from toolglot.config.trust import is_trusted
from toolglot.config.trust_rules import apply_rule
from toolglot.errors import UsageError

__all__ = [
    "DEFAULT",
    "PROJECT_FILE",
    "Configuration",
    "SettingValue",
    "WithheldSetting",
    "find_project_file",
    "read_configuration",
]

PROJECT_FILE = "toolglot.toml"
DEFAULT = "default"
_MAX_FILE_BYTES = 1_000_000  # bytes of a file
_PATH_SETTINGS = ("audit", "log.file", "facade")  # settings that are files: relative to the file that names them
_FLAG_NAMES = {"log.level": "--verbose", "log.file": "--log-file"}  # where a flag is not called as its key
_TOML_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_HEADER = re.compile(r"\s*\[\[?(?P<key>[^\[\]]+)\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*(?P<key>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", re.ASCII)
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""", re.ASCII)


class SettingValue(msgspec.Struct, frozen=True):
    """One setting as it counts. `origin` is for people."""

    key: str
    value: Any
    origin: str


class WithheldSetting(msgspec.Struct, frozen=True):
    """What an untrusted project file wanted and did not get."""

    key: str
    value: Any
    reason: str


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, and how they came to be."""

    settings: Settings
    values: tuple[SettingValue, ...]
    """Every leaf of the shape, in its order; tables with free names have one for each entry."""
    withheld: tuple[WithheldSetting, ...] = ()
    project: Path | None = None
    """The folder of the project's file."""
    trusted: bool = False
    """Whether that folder is."""


def read_configuration(  # noqa: D417
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    trusted: bool | None = None,
) -> Configuration:
    """Reads all layers.

    Args:
        folder: Where a project's file is looked for, and above it; else the current folder.
        environ: Else the environment of the process.
        flags: Dotted keys -> values; None: not given.
        trusted: Whether the project's folder is; else what the user said of it.

    Raises UsageError: one sentence with the file, variable or flag; MalformedData for a damaged list of trusted folders.
    """
    environ = os.environ if environ is None else environ
    user = config_file(environ)
    layers = _Layers()
    layers.add_layer(_read_file(user), f"user file {user}")
    project = find_project_file(directory)
    if project is not None and not _is_same_path(project, user):
        trusted = is_trusted(project.parent, environ) if trusted is None else trusted
        layers.add_layer(_read_file(project), f"project file {project}", trusted=trusted)
    else:
        project, trusted = None, False
    for path, (value, variable) in read_environment(environ).items():
        layers.add_layer({path: _resolve_path(find_field(path), value)}, f"variable {variable}")
    for key, value in (flags or {}).items():
        if value is not None:
            layers.add_layer(_parse_flag(key, value), f"flag {_flag_name(key)}")
    return Configuration(
        settings=layers.build_settings(),
        values=tuple(layers.list_values()),
        withheld=tuple(layers.withheld),
        project=None if project is None else project.parent,
        trusted=trusted,
    )


def find_project_file(directory: Path | None = None) -> Path | None:
    """The nearest `toolglot.toml`, in the folder or above it; None where there is none.

    It is not looked for above a folder with `.git`, above the home folder, nor in a folder above that anybody may write to.
    """
    try:
        start = Path.cwd() if directory is None else directory.absolute()
    except OSError:  # the current folder is gone
        return None
    home = home_directory()
    for place in (start, *start.parents):
        if place != start and _is_world_writable(place):
            return None
        if os.path.isfile(place / PROJECT_FILE):
            return place / PROJECT_FILE
        if os.path.lexists(place / ".git") or _is_same_path(place, home):
            return None
    return None


def _is_world_writable(directory: Path) -> bool:
    try:
        return os.name == "posix" and bool(directory.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _is_same_path(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


class _Layers:
    """What counts so far: path -> value and origin."""

    def __init__(self) -> None:
        self.withheld: list[WithheldSetting] = []
        self._current: dict[KeyPath, tuple[Any, str]] = {
            leaf.key: (leaf.default, DEFAULT) for leaf in setting_fields() if WILDCARD not in leaf.key
        }

    def add_layer(self, entries: Mapping[KeyPath, Any], origin: str, *, trusted: bool = True) -> None:
        """One layer over the others; where it is not trusted, the laws count."""
        for path, value in entries.items():
            if trusted:
                self._current[path] = value, origin
                continue
            leaf = find_field(path)
            lower = self._current[path][0] if path in self._current else leaf.default
            counts, why = apply_rule(leaf, value, lower)
            if why:
                self.withheld.append(WithheldSetting(format_path(path), value, why))
            elif counts != lower:
                self._current[path] = counts, origin

    def build_settings(self) -> Settings:
        """All of it as one value."""
        document: dict[str, Any] = {}
        for path, (value, _) in self._current.items():
            table = document
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = value
        return msgspec.convert(document, Settings)

    def list_values(self) -> Iterator[SettingValue]:
        """Every leaf in the order of the shape, the providers one after the other."""
        sections = list(dict.fromkeys(path[0] for path in (leaf.key for leaf in setting_fields())))
        providers = list(dict.fromkeys(path[1] for path in self._current if path[0] == "providers"))
        for section in sections:
            own = [leaf for leaf in setting_fields() if leaf.key[0] == section]
            if section != "providers":
                yield from (value for leaf in own for value in self._values_of(leaf.key))
            elif not providers:
                yield SettingValue("providers", {}, DEFAULT)
            for name in providers if section == "providers" else ():
                yield from (value for leaf in own for value in self._values_of(("providers", name, *leaf.key[2:])))

    def _values_of(self, key: KeyPath) -> Iterator[SettingValue]:
        """The value of a key, or one for each of its entries."""
        if key[-1] != WILDCARD:
            default = find_field(key).default
            yield SettingValue(format_path(key), *self._current.get(key, (default, DEFAULT)))
            return
        entries = [path for path in self._current if len(path) == len(key) and path[:-1] == key[:-1]]
        yield from (SettingValue(format_path(path), *self._current[path]) for path in entries)
        if not entries:
            yield SettingValue(format_path(key[:-1]), {}, DEFAULT)


# ---- flags


def _parse_flag(key: str, value: Any) -> dict[KeyPath, Any]:
    try:
        path, leaf = parse_key(key)
    except SettingError as e:
        raise UsageError(f"the flag {_flag_name(key)}: {e}") from None
    try:
        if isinstance(value, os.PathLike):
            value = os.fspath(cast(os.PathLike[str], value))
        return {path: _resolve_path(leaf, parse_text(leaf, value) if isinstance(value, str) else convert_value(leaf, value))}
    except ValueError as e:
        raise UsageError(f"the flag {_flag_name(key)} {e}") from None


def _flag_name(key: str) -> str:
    return _FLAG_NAMES.get(key) or "--" + key.rpartition(".")[2].replace("_", "-")


# ---- files


def _read_file(file: Path) -> dict[KeyPath, Any]:
    """What a file sets; nothing where it is absent. Raises UsageError."""
    text = _read_text(file)
    if text is None:
        return {}
    entries: dict[KeyPath, Any] = {}
    try:
        for path, leaf, value in flatten_document(_parse_toml(file, text)):
            try:
                entries[path] = _resolve_path(leaf, convert_value(leaf, value), file.parent)
            except ValueError as e:
                raise SettingError(f"{format_path(path)} {e}", path) from None
    except SettingError as e:
        line = _find_line(text, e.path)
        raise UsageError(f"{file}{f', line {line}' if line else ''}: {e}") from None
    return entries


def _read_text(file: Path) -> str | None:
    try:
        with file.open("rb") as source:
            data = source.read(_MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise UsageError(f"the configuration {str(file)!r} cannot be read: {e.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"the configuration {str(file)!r} has more than {_MAX_FILE_BYTES:,} bytes: that is no configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UsageError(f"{file}, line {line}: this is not UTF-8; save the file as UTF-8") from None


def _parse_toml(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None
    except ValueError as e:
        place = _TOML_POSITION.search(str(e))
        if place is None:
            raise UsageError(f"{file} is not TOML: {e}") from None
        lines = text.splitlines() or [""]
        line, column = (place[1], place[2]) if place[1] else (len(lines), len(lines[-1]) + 1)
        raise UsageError(f"{file}, line {line}, column {column}: this is not TOML: {str(e)[: place.start()]}") from None


def _resolve_path(field: SettingField, value: Any, directory: Path | None = None) -> Any:
    """A setting that is a file, as a whole path; in a file it is relative to that file, else to the current folder."""
    if field.key_text not in _PATH_SETTINGS or not isinstance(value, str):
        return value
    if field.key_text == "facade":
        return str(find_facade_file(value, directory) or value)
    return str((directory or Path()) / os.path.expanduser(value))


def _find_line(text: str, path: KeyPath) -> int | None:
    """The line where a key is set, or the table that it is in; None where neither is found."""
    best, line_of_best, table, quotes = 0, None, (), ""
    for number, line in enumerate(text.splitlines(), 1):
        if not quotes and (found := _HEADER.fullmatch(line) or _KEY.match(line)):
            is_header = line.lstrip().startswith("[")
            key = _split_key(found["key"]) if is_header else (*table, *_split_key(found["key"]))
            table = key if is_header else table
            shared = min(len(key), len(path))
            if shared > best and path[:shared] == key[:shared]:
                best, line_of_best = shared, number
        quotes = _track_quotes(line, quotes)
    return line_of_best


def _split_key(key: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(key))


def _track_quotes(line: str, quotes: str) -> str:
    """The quotes of a text of several lines that is open after this line."""
    for mark in re.findall(r'"""|\'\'\'', line):
        quotes = "" if mark == quotes else quotes or mark
    return quotes
