"""Tools for files that Codex had for a while: its models may remember them. Calls are understood; the tools are never shown."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.mapping import simple_view
from toolglot.facades.parameters import closed_schema, number, string
from toolglot.facades.view import Arguments, Field, RenderContext

__all__ = ["LEGACY_VIEWS"]

_MAX_LINE_LENGTH = 500
_DEFAULT_LINES, _DEFAULT_FILES, _MAX_FILES, _DEFAULT_ENTRIES, _DEFAULT_DEPTH = 2000, 100, 2000, 25, 2


def _start_line(native: Arguments) -> int:
    return max(1, int(native.get("offset", 1)))


def _bounded(name: str, default: int, limit: int | None = None) -> Callable[[Arguments], int]:
    def convert(native: Arguments) -> int:
        value = max(1, int(native.get(name, default)))
        return value if limit is None else min(value, limit)

    return convert


def _call_field(native: str, base: str, to_base: Callable[[Arguments], Any]) -> Field:
    return Field(native, base, to_base=to_base, needs_all_arguments=True)


def render_read(context: RenderContext) -> str:
    data = context.data
    lines = enumerate(data["lines"], data["first"]) if data["kind"] == "text" else ()
    return "\n".join(f"L{number}: {line[:_MAX_LINE_LENGTH]}" for number, line in lines) or context.text


def render_files(context: RenderContext) -> str:
    return "\n".join(file["absolute"] for file in context.data["files"]) or "No matches found."


def render_entries(context: RenderContext) -> str:
    data, marks = context.data, {"directory": "/", "link": "@"}
    lines = [f"{'  ' * (entry['depth'] - 1)}{entry['name']}{marks.get(entry['kind'], '')}" for entry in data["entries"]]
    note = [f"More than {len(lines)} entries found"] if data["truncated"] else []
    return "\n".join([f"Absolute path: {data['path']}", *lines, *note])


_VIEWS = (
    simple_view(
        "read_file",
        "",
        closed_schema("file_path", file_path=string(), offset=number(), limit=number()),
        "read",
        (
            "path",
            Field("file_path", "path"),
            _call_field("offset", "start_line", _start_line),
            _call_field(
                "limit", "end_line", lambda native: _start_line(native) + _bounded("limit", _DEFAULT_LINES)(native) - 1
            ),
        ),
        result=render_read,
        accepts={"path": string()},
        ignored=frozenset({"mode", "indentation"}),
        aliases_for={"file_path": ("path",)},
    ),
    simple_view(
        "grep_files",
        "",
        closed_schema("pattern", pattern=string(), include=string(), path=string(), limit=number()),
        "grep",
        (
            *("pattern", "path"),
            Field("include", "include_glob"),
            _call_field("limit", "max_results", _bounded("limit", _DEFAULT_FILES, _MAX_FILES)),
        ),
        fixed={"mode": "files"},
        result=render_files,
    ),
    simple_view(
        "list_dir",
        "",
        closed_schema("dir_path", dir_path=string(), offset=number(), limit=number(), depth=number()),
        "list_dir",
        (
            "path",
            Field("dir_path", "path"),
            _call_field("offset", "skip", lambda native: _start_line(native) - 1 or UNSET),
            _call_field("limit", "limit", _bounded("limit", _DEFAULT_ENTRIES)),
            _call_field("depth", "depth", _bounded("depth", _DEFAULT_DEPTH)),
        ),
        result=render_entries,
        accepts={"path": string()},
        aliases_for={"dir_path": ("path",)},
    ),
)
LEGACY_VIEWS = tuple(replace(view, hidden=True) for view in _VIEWS)
