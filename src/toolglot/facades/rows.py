"""Rows, conversions and predicates that several facade tables share. It names no harness."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.parameters import array, boolean, object_schema, string, string_list
from toolglot.facades.table import Row, Rows, call_field, choice_field, field, unmapped
from toolglot.facades.view import Arguments, Case, Field, Renderer
from toolglot.values.request import Schema

MAX_TIMEOUT = 7200.0
"""Seconds that a command may take."""


def to_seconds(name: str, value: float, limit: float = MAX_TIMEOUT) -> float:
    """Return a timeout in milliseconds as seconds, at most `limit`.

    `name` is for the error. Raises ToolError.
    """
    if value <= 0:
        raise ToolError(f"{name} is {value:g}; give a number of milliseconds above 0", kind="validation")
    return min(value / 1000, limit)


def to_milliseconds(seconds: float) -> int | float:
    """Return seconds as milliseconds: an integer if that is exact."""
    value = round(float(seconds) * 1000, 6)
    return int(value) if value.is_integer() else value


SKILL = field("name", string("The skill's name, as the instructions list it."))

# ---- files

FILE = field("path", string("Path of the file, absolute or relative to the workspace."))
DIRECTORY = string("Directory to search (default: the workspace).")
LISTED_DIRECTORY = field(
    "path", string("The directory, absolute or relative to the workspace."), default=".", base_default="."
)
EXCLUDED_NAMES = string_list("Globs of names to exclude.")
CONTENT = string("The complete content of the file.")
PDF_PAGES = string('Pages of a PDF document, such as "3" or "1-5" (at most 20).')
CONTENT_OR_APPENDIX = string("The complete content, or the text to append.")
NEW_TEXT = field("new", string("The text to put in its place."))


def replace_all(**keywords: Any) -> Row:
    """Whether every occurrence is replaced: a boolean here, "all" or "one" in the base tool."""
    flags = {"all": True, "one": False}
    return field(
        "count",
        boolean("Replace every occurrence (default false).", **keywords),
        lambda every: "all" if every else "one",
        lambda count: flags.get(count, UNSET),
    )


def accept_edits(
    parameter: str, path: str, old: str, new: str, schema: Schema, result: Renderer
) -> dict[str, Any]:
    """Return options of a view that also takes a list of replacements, or one: `parameter`, with the keys
    `old` and `new`.
    """

    def to_edit(edit: Arguments) -> Arguments:
        count = "all" if edit.get("replace_all") else "one"
        return {"old": edit[old], "new": edit[new], "count": count, "match": "exact"}

    def to_base(edits: Any) -> list[Arguments]:
        if not isinstance(edits, list):
            return [to_edit(edits)]
        return [to_edit(edit) for edit in cast(list[Arguments], edits)]

    def select_case(native: Arguments) -> str:
        return "edits" if parameter in native else ""

    case = Case(
        base="multi_edit",
        fields=(Field(path, "path"), Field(parameter, "edits", to_base)),
        from_base=lambda base: None,
        result=result,
    )
    return {
        "accepts": {parameter: unmapped(schema)},
        "more_cases": {"edits": case},
        "select_case": select_case,
        "required_schema": {
            "required": [path],
            "if": {"required": [parameter]},
            "else": {"required": ["old_string", "new_string"]},
        },
    }


def image_case(native_path: str) -> dict[str, Case]:
    """Return the case of an image that another model looked at: this one would have read it.

    For history only.
    """
    return {"image": Case(base="view_image", fields=(Field(native_path, "path"),))}


def line_range(tool: str, first_line: int, offset: Schema, limit: Schema) -> Rows:
    """Return rows for a first line and a number of lines, where the first line of a file is number
    `first_line`.
    """

    def start_line(offset: float) -> int:
        return max(int(offset) - first_line, 0) + 1

    def end_line(native: Arguments) -> Any:
        count = native.get("limit")
        if count is None:
            return UNSET
        if count < 1:
            raise ToolError(f"{tool}: limit is {count:g}; give 1 or more lines", kind="validation")
        return start_line(native.get("offset", first_line)) + int(count) - 1

    def limit_from_base(base: Arguments) -> Any:
        if "end_line" not in base:
            return UNSET
        return max(base["end_line"] - base.get("start_line", 1) + 1, 1)

    return {
        "offset": field(
            "start_line", offset, start_line, lambda start: start - 1 + first_line if start else UNSET
        ),
        "limit": call_field("end_line", limit, end_line, limit_from_base),
    }


def ignore_files(tool: str) -> dict[str, Row]:
    """Return rows for the ignore files that a search respects: git's, and those of the harness
    (`.geminiignore`).
    """
    return {
        "respect_git_ignore": field("respect_gitignore", boolean("Respect .gitignore files (default true).")),
        f"respect_{tool}_ignore": field(
            "respect_extra_ignore", boolean(f"Respect .{tool}ignore files (default true).")
        ),
    }


def file_filtering_options(tool: str) -> Row:
    """Return the same as one parameter, an object of switches."""
    rows = ignore_files(tool)
    base_names = {native: row.fields[0].base for native, row in rows.items()}
    schema = object_schema(
        "", "Which ignore files to respect.", **{native: row.schema for native, row in rows.items()}
    )

    def read_option(native: str) -> Callable[[Arguments], Any]:
        return lambda arguments: cast(Arguments, arguments.get("file_filtering_options", {})).get(
            native, UNSET
        )

    def from_base(base: Arguments) -> Any:
        options: Arguments = {}
        for native, name in base_names.items():
            if base.get(name) is not None:
                options[native] = base[name]
        return options or UNSET

    return Row(
        schema,
        tuple(Field("", name, read_option(native), from_base, True) for native, name in base_names.items()),
    )


# ---- search

INCLUDE_GLOB = field("include_glob", string("Only files that match this glob, such as '*.{ts,tsx}'."))
GREP_TARGET: Rows = {
    "pattern!": string("Regular expression to search for."),
    "path": string("File or directory to search (default: the workspace)."),
    "glob": INCLUDE_GLOB,
    "type": field("file_type", string("Only files of this type, such as py, js or rust.")),
}


def grep_mode(description: str, count: str, **keywords: Any) -> Row:
    """Return the row that says what a search returns: lines, paths, or counts, whose native name is `count`."""
    choices = {"content": "content", "files_with_matches": "files", count: "count"}
    schema = string(description, enum=list(choices), **keywords)
    return choice_field("mode", schema, choices, "files_with_matches", "content")


def context_lines(
    after: str, before: str, both: tuple[str, ...], make_schema: Callable[..., Schema], **keywords: Any
) -> Rows:
    """Return rows for the lines to show around a match.

    They are parameters for those after, before, or (by other names) on both sides, which the first two
    override.
    """

    def row(base: str, native: str) -> Row:
        def to_base(arguments: Arguments) -> Any:
            for name in (native, *both):
                if name in arguments:
                    return int(arguments[name])
            return UNSET

        schema = make_schema(f"Lines to show {base} each match.", **keywords)
        return call_field(base, schema, to_base, lambda arguments: arguments.get(base, UNSET))

    return {after: row("after", after), before: row("before", before)}


# ---- commands and the web

COMMAND = string("The command line.")
CWD = field("cwd", string("Directory to run in (default: the workspace)."))
PURPOSE = string("What the command does, in a few words, for the user.")
URL = field("target", string("URL of the page (https://…)."))


def query(**keywords: Any) -> Row:
    """Return the row of one search query, where the base tool takes several."""
    schema = string("What to search for.", **keywords)
    return field(
        "queries", schema, lambda query: [query], lambda queries: queries[0] if len(queries) == 1 else UNSET
    )


def prompt(description: str) -> Row:
    """Return the row for what the model wants to know of a page; required, so it is empty in history if
    nothing is known.
    """
    return field("question", string(description), lambda question: question or UNSET, base_default="")


def timeout(name: str, schema: Schema, limit: float = MAX_TIMEOUT) -> Row:
    """Return the row of a timeout in milliseconds, of at most `limit` seconds. `name` is for errors."""
    return field(
        "timeout",
        schema,
        lambda value: to_seconds(name, value, limit),
        lambda seconds: ceil(to_milliseconds(seconds)) or UNSET,
    )


def numeric_handle(schema: Schema) -> Row:
    """Return the row of a background command by its number: a process or session ID.

    Other handles cannot be expressed.
    """
    row = field(
        "handle",
        schema,
        lambda value: str(int(value)) if isinstance(value, int | float) else str(value),
        lambda handle: int(handle) if str(handle).isdecimal() else UNSET,
    )
    return replace(row, accepts={"type": [schema["type"], "string"]})  # a template for the only command


# ---- plans and questions


def _no_defaults(item: Arguments, position: int) -> Arguments:
    return {}


def todos(
    item: Schema,
    text: str,
    *,
    description: str = "The complete list, in order.",
    done: str = "completed",
    keep_all_statuses: bool = False,
    is_sequential: bool = False,
    extras: Mapping[str, str] | None = None,
    defaults: Callable[[Arguments, int], Arguments] = _no_defaults,
) -> Row:
    """Return the list of a plan, whose items have their text under the key `text`.

    `done` is the native status of a completed item. Without `keep_all_statuses`, "cancelled" and "blocked"
    become `done` and "pending". `extras`: more native keys -> base keys; `defaults` has those of an item (in
    base form, with its position from 1) that has none, and they are not read back. `is_sequential`: only one
    item may be in progress.
    """
    nearest = {"completed": done}
    if not keep_all_statuses:
        nearest |= {"cancelled": done, "blocked": "pending"}
    base_keys = dict(extras or {})

    def item_to_base(item: Arguments, position: int) -> Arguments:
        status = "completed" if item["status"] == done else item["status"]
        base_item: Arguments = {"text": item[text], "status": status}
        usual = defaults(base_item, position)
        for key, base_key in base_keys.items():
            if item.get(key) and item[key] != usual.get(key):
                base_item[base_key] = item[key]
        return base_item

    def item_from_base(base_item: Arguments, position: int) -> Arguments:
        item: Arguments = {
            text: base_item["text"],
            "status": nearest.get(base_item["status"], base_item["status"]),
        }
        item |= defaults(base_item, position)
        for key, base_key in base_keys.items():
            if base_item.get(base_key):
                item[key] = base_item[base_key]
        return item

    def to_base(items: list[Arguments]) -> list[Arguments]:
        running = sum(item["status"] == "in_progress" for item in items)
        if is_sequential and running > 1:
            raise ToolError(
                'Invalid parameters: Only one task can be "in_progress" at a time.', kind="validation"
            )
        return [item_to_base(item, position) for position, item in enumerate(items, 1)]

    def from_base(items: list[Arguments]) -> list[Arguments]:
        return [item_from_base(item, position) for position, item in enumerate(items, 1)]

    return field("items", array(item, description), to_base, from_base)
