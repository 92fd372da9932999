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
    """A timeout in milliseconds as seconds, at most `limit`. `name` is for the error. Raises ToolError."""
    if value <= 0:
        raise ToolError(f"{name} is {value:g}; give a number of milliseconds above 0", kind="validation")
    return min(value / 1000, limit)


def to_milliseconds(seconds: float) -> int | float:
    """Seconds as milliseconds: an integer if that is exact."""
    value = round(float(seconds) * 1000, 6)
    return int(value) if value.is_integer() else value


SKILL = field("name", string("The skill's name, as the instructions list it."))

# ---- files

FILE = field("path", string("Path of the file, absolute or relative to the workspace."))
DIRECTORY = string("Directory to search (default: the workspace).")
LISTED_DIRECTORY = field("path", string("The directory, absolute or relative to the workspace."), default=".", base_default=".")
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


def accept_edits(parameter: str, path: str, old: str, new: str, schema: Schema, result: Renderer) -> dict[str, Any]:
    """Options of a view that also takes a list of replacements, or one: `parameter`, with the keys `old` and `new`."""

    def to_base(edits: Any) -> list[Arguments]:
        return [
            {"old": edit[old], "new": edit[new], "count": "all" if edit.get("replace_all") else "one", "match": "exact"}
            for edit in (cast(list[Arguments], edits) if isinstance(edits, list) else [edits])
        ]

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
    """For history only: an image that another model looked at, this one would have read."""
    return {"image": Case(base="view_image", fields=(Field(native_path, "path"),))}


def line_range(tool: str, first_line: int, offset: Schema, limit: Schema) -> Rows:
    """A first line and a number of lines, where the first line of a file is number `first_line`."""

    def start_line(offset: float) -> int:
        return max(int(offset) - first_line, 0) + 1

    def end_line(native: Arguments) -> Any:
        if (count := native.get("limit")) is None:
            return UNSET
        if count < 1:
            raise ToolError(f"{tool}: limit is {count:g}; give 1 or more lines", kind="validation")
        return start_line(native.get("offset", first_line)) + int(count) - 1

    def limit_from_base(base: Arguments) -> Any:
        return max(base["end_line"] - base.get("start_line", 1) + 1, 1) if "end_line" in base else UNSET

    return {
        "offset": field("start_line", offset, start_line, lambda start: start - 1 + first_line if start else UNSET),
        "limit": call_field("end_line", limit, end_line, limit_from_base),
    }


def ignore_files(tool: str) -> dict[str, Row]:
    """Which ignore files a search respects: git's, and those of the harness (`.geminiignore`)."""
    return {
        "respect_git_ignore": field("respect_gitignore", boolean("Respect .gitignore files (default true).")),
        f"respect_{tool}_ignore": field("respect_extra_ignore", boolean(f"Respect .{tool}ignore files (default true).")),
    }


def file_filtering_options(tool: str) -> Row:
    """The same as one parameter, an object of switches."""
    options = {native: (row.schema, row.fields[0].base) for native, row in ignore_files(tool).items()}
    schema = object_schema("", "Which ignore files to respect.", **{native: schema for native, (schema, _) in options.items()})

    def read_option(native: str) -> Callable[[Arguments], Any]:
        return lambda arguments: cast(Arguments, arguments.get("file_filtering_options", {})).get(native, UNSET)

    def from_base(base: Arguments) -> Any:
        return {native: base[name] for native, (_, name) in options.items() if base.get(name) is not None} or UNSET

    return Row(schema, tuple(Field("", name, read_option(native), from_base, True) for native, (_, name) in options.items()))


# ---- search

INCLUDE_GLOB = field("include_glob", string("Only files that match this glob, such as '*.{ts,tsx}'."))
GREP_TARGET: Rows = {
    "pattern!": string("Regular expression to search for."),
    "path": string("File or directory to search (default: the workspace)."),
    "glob": INCLUDE_GLOB,
    "type": field("file_type", string("Only files of this type, such as py, js or rust.")),
}


def grep_mode(description: str, count: str, **keywords: Any) -> Row:
    """What a search returns: lines, paths, or counts, whose native name is `count`."""
    choices = {"content": "content", "files_with_matches": "files", count: "count"}
    schema = string(description, enum=list(choices), **keywords)
    return choice_field("mode", schema, choices, "files_with_matches", "content")


def context_lines(after: str, before: str, both: tuple[str, ...], make_schema: Callable[..., Schema], **keywords: Any) -> Rows:
    """Lines to show around a match: after, before, or (by other parameters) on both sides, which the first two override."""

    def row(base: str, native: str) -> Row:
        def to_base(arguments: Arguments) -> Any:
            return next((int(arguments[name]) for name in (native, *both) if name in arguments), UNSET)

        schema = make_schema(f"Lines to show {base} each match.", **keywords)
        return call_field(base, schema, to_base, lambda arguments: arguments.get(base, UNSET))

    return {after: row("after", after), before: row("before", before)}


# ---- commands and the web

COMMAND = string("The command line.")
CWD = field("cwd", string("Directory to run in (default: the workspace)."))
PURPOSE = string("What the command does, in a few words, for the user.")
URL = field("target", string("URL of the page (https://…)."))


def query(**keywords: Any) -> Row:
    """One search query, where the base tool takes several."""
    schema = string("What to search for.", **keywords)
    return field("queries", schema, lambda query: [query], lambda queries: queries[0] if len(queries) == 1 else UNSET)


def prompt(description: str) -> Row:
    """What the model wants to know of a page; required, so it is empty in history if nothing is known."""
    return field("question", string(description), lambda question: question or UNSET, base_default="")


def timeout(name: str, schema: Schema, limit: float = MAX_TIMEOUT) -> Row:
    """A timeout in milliseconds, of at most `limit` seconds. `name` is for errors."""
    return field(
        "timeout",
        schema,
        lambda value: to_seconds(name, value, limit),
        lambda seconds: ceil(to_milliseconds(seconds)) or UNSET,
    )


def numeric_handle(schema: Schema) -> Row:
    """A background command by a number: a process or session ID. Other handles cannot be expressed."""
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
    """The list of a plan, whose items have their text under the key `text`.

    `done` is the native status of a completed item. Without `keep_all_statuses`, "cancelled" and "blocked" become `done` and
    "pending". `extras`: more native keys -> base keys; `defaults` has those of an item (in base form, with its position from 1)
    that has none, and they are not read back. `is_sequential`: only one item may be in progress.
    """
    nearest = {"completed": done} if keep_all_statuses else {"completed": done, "cancelled": done, "blocked": "pending"}

    def to_base(items: list[Arguments]) -> list[Arguments]:
        if is_sequential and sum(item["status"] == "in_progress" for item in items) > 1:
            raise ToolError('Invalid parameters: Only one task can be "in_progress" at a time.', kind="validation")
        converted: list[Arguments] = []
        for position, item in enumerate(items, 1):
            base_item: Arguments = {"text": item[text], "status": "completed" if item["status"] == done else item["status"]}
            usual = defaults(base_item, position)
            for native_key, base_key in (extras or {}).items():
                if item.get(native_key) and item[native_key] != usual.get(native_key):
                    base_item[base_key] = item[native_key]
            converted.append(base_item)
        return converted

    def from_base(items: list[Arguments]) -> list[Arguments]:
        return [
            {
                text: item["text"],
                "status": nearest.get(item["status"], item["status"]),
                **defaults(item, position),
                **{name: item[base] for name, base in (extras or {}).items() if item.get(base)},
            }
            for position, item in enumerate(items, 1)
        ]

    return field("items", array(item, description), to_base, from_base)
