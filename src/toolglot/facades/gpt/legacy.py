"""Tools for files that Codex had for a while: its models may remember them. They are understood, and never shown."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.view import Arguments, Case, Field, RenderContext, View, closed_schema, number, string

__all__ = ["LEGACY_VIEWS"]

_MAX_LINE_LENGTH = 500
_DEFAULT_LINES, _DEFAULT_FILES, _MAX_FILES, _DEFAULT_ENTRIES, _DEFAULT_DEPTH = 2000, 100, 2000, 25, 2


def _start_line(native: Arguments) -> int:
    return max(1, int(native.get("offset", 1)))


def _skip_count(native: Arguments) -> Any:
    return _start_line(native) - 1 or UNSET


def _end_line(native: Arguments) -> int:
    return _start_line(native) + max(1, int(native.get("limit", _DEFAULT_LINES))) - 1


def _render_read(context: RenderContext) -> str:
    lines = enumerate(context.data["lines"], context.data["first"]) if context.data["kind"] == "text" else ()
    return "\n".join(f"L{number}: {line[:_MAX_LINE_LENGTH]}" for number, line in lines) or context.text


def _render_files(context: RenderContext) -> str:
    return "\n".join(one["absolute"] for one in context.data["files"]) or "No matches found."


def _render_entries(context: RenderContext) -> str:
    marks = {"folder": "/", "link": "@"}
    lines = [f"{'  ' * (one['depth'] - 1)}{one['name']}{marks.get(one['kind'], '')}" for one in context.data["entries"]]
    more = [f"More than {len(lines)} entries found"] if context.data["truncated"] else []
    return "\n".join([f"Absolute path: {context.data['path']}", *lines, *more])


def _bounded(name: str, default: int, limit: int | None = None) -> Any:
    def found(native: Arguments) -> int:
        given = max(1, int(native.get(name, default)))
        return given if limit is None else min(given, limit)

    return found


def _call_field(native: str, base: str, to_base: Any) -> Field:
    return Field(native=native, base=base, to_base=to_base, needs_all_arguments=True)


_VIEWS = (
    View(
        name="read_file",
        description="",
        parameters=closed_schema("file_path", file_path=string(), offset=number(), limit=number()),
        accepts={"path": string()},
        ignored=frozenset({"mode", "indentation"}),
        aliases_for={"file_path": ("path",)},
        cases={
            "": Case(
                base="read",
                fields=(
                    "path",
                    Field(native="file_path", base="path"),
                    _call_field("offset", "start_line", _start_line),
                    _call_field("limit", "end_line", _end_line),
                ),
                result=_render_read,
            )
        },
    ),
    View(
        name="grep_files",
        description="",
        parameters=closed_schema("pattern", pattern=string(), include=string(), path=string(), limit=number()),
        cases={
            "": Case(
                base="grep",
                fields=(
                    *("pattern", "path"),
                    Field(native="include", base="include_glob"),
                    _call_field("limit", "max_results", _bounded("limit", _DEFAULT_FILES, _MAX_FILES)),
                ),
                fixed={"mode": "files"},
                result=_render_files,
            )
        },
    ),
    View(
        name="list_dir",
        description="",
        parameters=closed_schema("dir_path", dir_path=string(), offset=number(), limit=number(), depth=number()),
        accepts={"path": string()},
        aliases_for={"dir_path": ("path",)},
        cases={
            "": Case(
                base="list_dir",
                fields=(
                    "path",
                    Field(native="dir_path", base="path"),
                    _call_field("offset", "skip", _skip_count),
                    _call_field("limit", "limit", _bounded("limit", _DEFAULT_ENTRIES)),
                    _call_field("depth", "depth", _bounded("depth", _DEFAULT_DEPTH)),
                ),
                result=_render_entries,
            )
        },
    ),
)
LEGACY_VIEWS = tuple(replace(view, hidden=True) for view in _VIEWS)
