"""Tools for files that Codex had for a while: its models may remember them. Calls are understood; the tools are never shown."""

import sys
from functools import partial

from msgspec import UNSET

from toolglot.facades.parameters import number, string
from toolglot.facades.table import Row, aliased, call_field, field, make_view
from toolglot.facades.view import Arguments, RenderContext

__all__ = ["LEGACY_VIEWS"]

_MAX_LINE_LENGTH = 500
_DEFAULT_LINES, _DEFAULT_FILES, _MAX_FILES, _DEFAULT_ENTRIES, _DEFAULT_DEPTH = 2000, 100, 2000, 25, 2
_view = partial(make_view, closed=True, hidden=True)


def _count(base: str, default: int, limit: int = sys.maxsize) -> Row:
    """A number of at least 1 and at most `limit`."""
    return field(base, number(), lambda value: min(max(1, int(value)), limit), default=default)


def end_line(native: Arguments) -> int:
    return max(1, int(native.get("offset", 1))) + max(1, int(native.get("limit", _DEFAULT_LINES))) - 1


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


LEGACY_VIEWS = (
    _view(
        "read_file",
        "",
        "read",
        {
            "file_path!": aliased(field("path", string()), "path"),
            "offset": _count("start_line", 1),
            "limit": call_field("end_line", number(), end_line),
        },
        result=render_read,
        ignores={"mode", "indentation"},
    ),
    _view(
        "grep_files",
        "",
        "grep",
        {
            "pattern!": string(),
            "include": field("include_glob", string()),
            "path": string(),
            "limit": _count("max_results", _DEFAULT_FILES, _MAX_FILES),
        },
        fixed={"mode": "files"},
        result=render_files,
    ),
    _view(
        "list_dir",
        "",
        "list_dir",
        {
            "dir_path!": aliased(field("path", string()), "path"),
            "offset": field("skip", number(), lambda offset: max(1, int(offset)) - 1 or UNSET),
            "limit": _count("limit", _DEFAULT_ENTRIES),
            "depth": _count("depth", _DEFAULT_DEPTH),
        },
        result=render_entries,
    ),
)
