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

from toolglot.config.env import environment_layer
from toolglot.config.laws import judged
from toolglot.config.load import facade_file
from toolglot.config.places import config_file, home_folder
from toolglot.config.settings import Settings
from toolglot.config.shape import FREE, Leaf, Stranger, converted, dotted, flattened, found, from_text, leaf_of, leaves
from toolglot.config.shape import Path as KeyPath
from toolglot.config.trust import is_trusted
from toolglot.errors import UsageError

__all__ = ["DEFAULT", "PROJECT_FILE", "Configuration", "HeldBack", "Value", "project_file", "read_configuration"]

PROJECT_FILE = "toolglot.toml"
DEFAULT = "default"
_LARGEST = 1_000_000  # bytes of a file
_FILES = ("audit", "log.file", "facade")  # settings that are files: relative to the file that names them
_FLAGS = {"log.level": "--verbose", "log.file": "--log-file"}  # where a flag is not called as its key
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_HEADER = re.compile(r"\s*\[\[?(?P<key>[^\[\]]+)\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*(?P<key>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", re.ASCII)
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""", re.ASCII)


class Value(msgspec.Struct, frozen=True):
    """One setting as it counts. `origin` is for people."""

    key: str
    value: Any
    origin: str


class HeldBack(msgspec.Struct, frozen=True):
    """What an untrusted project file wanted and did not get."""

    key: str
    value: Any
    why: str


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, and how they came to be."""

    settings: Settings
    values: tuple[Value, ...]
    """Every leaf of the shape, in its order; tables with free names have one for each entry."""
    held_back: tuple[HeldBack, ...] = ()
    project: Path | None = None
    """The folder of the project's file."""
    trusted: bool = False
    """Whether that folder is."""


def read_configuration(
    *,
    folder: Path | None = None,
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
    layers.put(_read(user), f"user file {user}")
    project = project_file(folder)
    if project is not None and not _same(project, user):
        trusted = is_trusted(project.parent, environ) if trusted is None else trusted
        layers.put(_read(project), f"project file {project}", trusted=trusted)
    else:
        project, trusted = None, False
    for path, (value, variable) in environment_layer(environ).items():
        layers.put({path: _placed(leaf_of(path), value)}, f"variable {variable}")
    for key, value in (flags or {}).items():
        if value is not None:
            layers.put(_flag(key, value), f"flag {_flag_name(key)}")
    return Configuration(
        settings=layers.settings(),
        values=tuple(layers.values()),
        held_back=tuple(layers.held_back),
        project=None if project is None else project.parent,
        trusted=trusted,
    )


def project_file(folder: Path | None = None) -> Path | None:
    """The nearest `toolglot.toml`, in the folder or above it; None where there is none.

    It is not looked for above a folder with `.git`, above the home folder, nor in a folder above that anybody may write to.
    """
    try:
        start = Path.cwd() if folder is None else folder.absolute()
    except OSError:  # the current folder is gone
        return None
    home = home_folder()
    for place in (start, *start.parents):
        if place != start and _anybody_writes(place):
            return None
        if os.path.isfile(place / PROJECT_FILE):
            return place / PROJECT_FILE
        if os.path.lexists(place / ".git") or _same(place, home):
            return None
    return None


def _anybody_writes(folder: Path) -> bool:
    try:
        return os.name == "posix" and bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


class _Layers:
    """What counts so far: path -> value and origin."""

    def __init__(self) -> None:
        self.held_back: list[HeldBack] = []
        self._now: dict[KeyPath, tuple[Any, str]] = {
            leaf.key: (leaf.default, DEFAULT) for leaf in leaves() if FREE not in leaf.key
        }

    def put(self, entries: Mapping[KeyPath, Any], origin: str, *, trusted: bool = True) -> None:
        """One layer over the others; where it is not trusted, the laws count."""
        for path, value in entries.items():
            if trusted:
                self._now[path] = value, origin
                continue
            leaf = leaf_of(path)
            lower = self._now[path][0] if path in self._now else leaf.default
            counts, why = judged(leaf, value, lower)
            if why:
                self.held_back.append(HeldBack(dotted(path), value, why))
            elif counts != lower:
                self._now[path] = counts, origin

    def settings(self) -> Settings:
        """All of it as one value."""
        document: dict[str, Any] = {}
        for path, (value, _) in self._now.items():
            table = document
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = value
        return msgspec.convert(document, Settings)

    def values(self) -> Iterator[Value]:
        """Every leaf in the order of the shape, the providers one after the other."""
        sections = list(dict.fromkeys(path[0] for path in (leaf.key for leaf in leaves())))
        providers = list(dict.fromkeys(path[1] for path in self._now if path[0] == "providers"))
        for section in sections:
            own = [leaf for leaf in leaves() if leaf.key[0] == section]
            if section != "providers":
                yield from (value for leaf in own for value in self._of(leaf.key))
            elif not providers:
                yield Value("providers", {}, DEFAULT)
            for name in providers if section == "providers" else ():
                yield from (value for leaf in own for value in self._of(("providers", name, *leaf.key[2:])))

    def _of(self, key: KeyPath) -> Iterator[Value]:
        """The value of a key, or one for each of its entries."""
        if key[-1] != FREE:
            default = leaf_of(key).default
            yield Value(dotted(key), *self._now.get(key, (default, DEFAULT)))
            return
        entries = [path for path in self._now if len(path) == len(key) and path[:-1] == key[:-1]]
        yield from (Value(dotted(path), *self._now[path]) for path in entries)
        if not entries:
            yield Value(dotted(key[:-1]), {}, DEFAULT)


# ---- flags


def _flag(key: str, value: Any) -> dict[KeyPath, Any]:
    try:
        path, leaf = found(key)
    except Stranger as e:
        raise UsageError(f"the flag {_flag_name(key)}: {e}") from None
    try:
        if isinstance(value, os.PathLike):
            value = os.fspath(cast(os.PathLike[str], value))
        return {path: _placed(leaf, from_text(leaf, value) if isinstance(value, str) else converted(leaf, value))}
    except ValueError as e:
        raise UsageError(f"the flag {_flag_name(key)} {e}") from None


def _flag_name(key: str) -> str:
    return _FLAGS.get(key) or "--" + key.rpartition(".")[2].replace("_", "-")


# ---- files


def _read(file: Path) -> dict[KeyPath, Any]:
    """What a file sets; nothing where it is absent. Raises UsageError."""
    text = _text(file)
    if text is None:
        return {}
    entries: dict[KeyPath, Any] = {}
    try:
        for path, leaf, value in flattened(_document(file, text)):
            try:
                entries[path] = _placed(leaf, converted(leaf, value), file.parent)
            except ValueError as e:
                raise Stranger(f"{dotted(path)} {e}", path) from None
    except Stranger as e:
        line = _line_of(text, e.path)
        raise UsageError(f"{file}{f', line {line}' if line else ''}: {e}") from None
    return entries


def _text(file: Path) -> str | None:
    try:
        with file.open("rb") as source:
            data = source.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise UsageError(f"the configuration {str(file)!r} cannot be read: {e.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"the configuration {str(file)!r} has more than {_LARGEST:,} bytes: that is no configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UsageError(f"{file}, line {line}: this is not UTF-8; save the file as UTF-8") from None


def _document(file: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None
    except ValueError as e:
        place = _TOML_PLACE.search(str(e))
        if place is None:
            raise UsageError(f"{file} is not TOML: {e}") from None
        lines = text.splitlines() or [""]
        line, column = (place[1], place[2]) if place[1] else (len(lines), len(lines[-1]) + 1)
        raise UsageError(f"{file}, line {line}, column {column}: this is not TOML: {str(e)[: place.start()]}") from None


def _placed(leaf: Leaf, value: Any, folder: Path | None = None) -> Any:
    """A setting that is a file, as a whole path; in a file it is relative to that file, else to the current folder."""
    if leaf.dotted not in _FILES or not isinstance(value, str):
        return value
    if leaf.dotted == "facade":
        return str(facade_file(value, folder) or value)
    return str((folder or Path()) / os.path.expanduser(value))


def _line_of(text: str, path: KeyPath) -> int | None:
    """The line where a key is set, or the table that it is in; None where neither is found."""
    best, line_of_best, table, quotes = 0, None, (), ""
    for number, line in enumerate(text.splitlines(), 1):
        if not quotes and (found := _HEADER.fullmatch(line) or _KEY.match(line)):
            is_header = line.lstrip().startswith("[")
            key = _parts(found["key"]) if is_header else (*table, *_parts(found["key"]))
            table = key if is_header else table
            shared = min(len(key), len(path))
            if shared > best and path[:shared] == key[:shared]:
                best, line_of_best = shared, number
        quotes = _open_quotes(line, quotes)
    return line_of_best


def _parts(key: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(key))


def _open_quotes(line: str, quotes: str) -> str:
    """The quotes of a text of several lines that is open after this line."""
    for mark in re.findall(r'"""|\'\'\'', line):
        quotes = "" if mark == quotes else quotes or mark
    return quotes
