"""Tools for files that Codex had for a while: its models may remember them. They are understood, and never shown."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.view import Arguments, Case, Field, Said, View, closed, number, text

__all__ = ["OLDER"]

_LONGEST_LINE = 500
_USUAL_LINES, _USUAL_FILES, _MOST_FILES, _USUAL_ENTRIES, _USUAL_DEPTH = 2000, 100, 2000, 25, 2


def _first(native: Arguments) -> int:
    return max(1, int(native.get("offset", 1)))


def _skipped(native: Arguments) -> Any:
    return _first(native) - 1 or UNSET


def _last(native: Arguments) -> int:
    return _first(native) + max(1, int(native.get("limit", _USUAL_LINES))) - 1


def _read(said: Said) -> str:
    lines = enumerate(said.data["lines"], said.data["first"]) if said.data["kind"] == "text" else ()
    return "\n".join(f"L{number}: {line[:_LONGEST_LINE]}" for number, line in lines) or said.text


def _files(said: Said) -> str:
    return "\n".join(one["absolute"] for one in said.data["files"]) or "No matches found."


def _entries(said: Said) -> str:
    marks = {"folder": "/", "link": "@"}
    lines = [f"{'  ' * (one['depth'] - 1)}{one['name']}{marks.get(one['kind'], '')}" for one in said.data["entries"]]
    more = [f"More than {len(lines)} entries found"] if said.data["truncated"] else []
    return "\n".join([f"Absolute path: {said.data['path']}", *lines, *more])


def _or(name: str, usual: int, most: int | None = None) -> Any:
    def found(native: Arguments) -> int:
        given = max(1, int(native.get(name, usual)))
        return given if most is None else min(given, most)

    return found


def _whole(native: str, base: str, into: Any) -> Field:
    return Field(native=native, base=base, into=into, whole=True)


_VIEWS = (
    View(
        name="read_file",
        description="",
        parameters=closed("file_path", file_path=text(), offset=number(), limit=number()),
        accepts={"path": text()},
        ignored=frozenset({"mode", "indentation"}),
        instead={"file_path": ("path",)},
        cases={
            "": Case(
                base="read",
                fields=(
                    "path",
                    Field(native="file_path", base="path"),
                    _whole("offset", "start_line", _first),
                    _whole("limit", "end_line", _last),
                ),
                result=_read,
            )
        },
    ),
    View(
        name="grep_files",
        description="",
        parameters=closed("pattern", pattern=text(), include=text(), path=text(), limit=number()),
        cases={
            "": Case(
                base="grep",
                fields=(
                    *("pattern", "path"),
                    Field(native="include", base="include_glob"),
                    _whole("limit", "max_results", _or("limit", _USUAL_FILES, _MOST_FILES)),
                ),
                fixed={"mode": "files"},
                result=_files,
            )
        },
    ),
    View(
        name="list_dir",
        description="",
        parameters=closed("dir_path", dir_path=text(), offset=number(), limit=number(), depth=number()),
        accepts={"path": text()},
        instead={"dir_path": ("path",)},
        cases={
            "": Case(
                base="list_dir",
                fields=(
                    "path",
                    Field(native="dir_path", base="path"),
                    _whole("offset", "skip", _skipped),
                    _whole("limit", "limit", _or("limit", _USUAL_ENTRIES)),
                    _whole("depth", "depth", _or("depth", _USUAL_DEPTH)),
                ),
                result=_entries,
            )
        },
    ),
)
OLDER = tuple(replace(view, hidden=True) for view in _VIEWS)
