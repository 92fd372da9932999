"""DATA: the tools that Anthropic's API defines (text editor, bash, memory), and its agent tool set with
lower-case names.

The first three are declared by their type to models that know them; elsewhere they are functions with the
same parameters.
"""

from functools import partial
from typing import Any

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades import anthropic_rendering as anthropic
from toolglot.facades import rows, shared_views
from toolglot.facades.claude_rendering import render_page, render_search
from toolglot.facades.parameters import array, boolean, integer, object_schema, string
from toolglot.facades.rendering import exited_nonzero
from toolglot.facades.table import Row, Rows, field, make_view
from toolglot.facades.view import Arguments, Case, Facade, Field, RenderContext, Renderer, View, omit
from toolglot.values.messages import Opaque
from toolglot.values.request import Schema
from toolglot.wire.spec import ANTHROPIC_MESSAGES

__all__ = ["TABLES"]

MAX_OUTPUT = 100 * 1024  # characters of output that the agent tool set shows
_VIEW_RANGE = array(
    integer(),
    "First and last line to show, counted from 1; -1 is the end of the file.",
    minItems=2,
    maxItems=2,
)


def _native_type(kind: str, name: str) -> dict[str, Opaque]:
    """Return the declaration of a tool whose schema is built into Claude."""
    return {ANTHROPIC_MESSAGES: {"type": kind, "name": name}}


# ---- line ranges


def start_line(native: Arguments) -> Any:
    if "view_range" not in native:
        return UNSET
    first, last = native["view_range"]
    if 0 < last < first:
        raise ToolError(f"view_range is [{first}, {last}]: it ends before it starts", kind="validation")
    return max(1, first)


def end_line(native: Arguments) -> Any:
    last = native.get("view_range", (0, 0))[1]
    # An end of 0 or less is the end of the file.
    return last if last > 0 else UNSET


def view_range_from_base(base: Arguments) -> Any:
    lines = [base.get("start_line", 1), base.get("end_line", -1)]
    return lines if lines != [1, -1] else UNSET


_RANGE_FIELDS = (
    Field("view_range", "start_line", start_line, view_range_from_base, needs_all_arguments=True),
    Field("view_range", "end_line", end_line, view_range_from_base, needs_all_arguments=True),
)


# ---- the text editor

_COMMANDS = ("view", "create", "str_replace", "insert")
_FILE_TEXT = string("create: the complete content of the file.")
_INSERT_LINE = integer("insert: the line after which to insert; 0 is the top of the file.", minimum=0)
_INSERT_TEXT = string("insert: the text to insert.")


def _command_case(
    command: str, base: str, *fields: Field | str, result: Renderer | None = None, **fixed: Any
) -> Case:
    """Return the case of one command. History names it; the base tool has no such parameter."""
    return Case(
        base=base,
        fields=(Field("command", "command", omit, base_default=command), *fields),
        fixed=fixed,
        result=result,
    )


def select_command(native: Arguments) -> str:
    """Return the case of a call: a path that can only be a directory is listed.

    An unknown command is refused by the schema.
    """
    command = native.get("command")
    path = str(native.get("path", ""))
    is_directory = path.endswith("/") or path in ("", ".")
    if command == "view" and is_directory:
        return "directory"
    return command if command in _COMMANDS else "view"


def insert_text(native: Arguments) -> str:
    text = native.get("insert_text", native.get("new_str"))
    if text is None:
        raise ToolError(
            "str_replace_based_edit_tool: insert needs insert_text; give the lines", kind="validation"
        )
    return text


def directory_from_base(path: str) -> str:
    return "." if path in ("", ".") else path.rstrip("/") + "/"


def require_for(command: str, *parameters: str) -> Schema:
    return {"if": {"properties": {"command": {"const": command}}}, "then": {"required": list(parameters)}}


_EDITOR = View(
    name="str_replace_based_edit_tool",
    description=(
        "View, create and edit files. view shows a file with line numbers, or lists a directory; create "
        "writes a whole file; "
        "str_replace replaces text that occurs exactly once; insert adds lines. View a file before you "
        "change it."
    ),
    parameters=object_schema(
        "command path",
        command=string("What to do.", enum=list(_COMMANDS)),
        path=string("Path of the file or directory, absolute or relative to the workspace."),
        view_range=_VIEW_RANGE,
        file_text=_FILE_TEXT,
        old_str=string("str_replace: the text to replace, exactly as in the file; it must be unique."),
        new_str=string("str_replace: the text to put in its place (default: none, which deletes old_str)."),
        insert_line=_INSERT_LINE,
        insert_text=_INSERT_TEXT,
    ),
    cases={
        "view": _command_case(
            "view", "read", "path", *_RANGE_FIELDS, result=anthropic.render_view, list_depth=2
        ),
        "image": _command_case("view", "view_image", "path"),
        "directory": _command_case(
            "view",
            "list_dir",
            Field(
                "path",
                "path",
                lambda path: path.rstrip("/") or path[:1] or ".",
                directory_from_base,
                base_default=".",
            ),
            result=anthropic.render_directory,
            depth=2,
        ),
        "create": _command_case(
            "create",
            "write",
            "path",
            Field("file_text", "content"),
            result=anthropic.render_create,
            mode="overwrite",
        ),
        "str_replace": _command_case(
            "str_replace",
            "edit",
            "path",
            Field("old_str", "old"),
            Field("new_str", "new", default=""),
            result=anthropic.render_change,
            count="one",
            match="exact",
        ),
        "insert": _command_case(
            "insert",
            "insert",
            "path",
            Field("insert_line", "after_line"),
            Field(
                "insert_text",
                "text",
                insert_text,
                lambda base: base.get("text", ""),
                needs_all_arguments=True,
            ),
            result=anthropic.render_change,
        ),
    },
    aliases=("str_replace_editor",),
    typed=_native_type("text_editor_20250728", "str_replace_based_edit_tool"),
    select_case=select_command,
    required_schema={
        "required": ["command", "path"],
        "allOf": [
            require_for("create", "file_text"),
            require_for("str_replace", "old_str"),
            require_for("insert", "insert_line"),
        ],
    },
)


# ---- bash


def _make_bash_view(result: Renderer, fixed: Arguments, typed: dict[str, Opaque], timeout: Rows) -> View:
    return make_view(
        "bash",
        "Run a command with bash in a sandbox. The working directory persists between commands; variables do "
        "not.",
        "shell",
        {
            "command": string("The command line; required unless restart is true."),
            "restart": boolean(
                "Stop everything that is running and start again in the workspace (default false)."
            ),
            **timeout,
        },
        fixed=fixed,
        result=result,
        failure=anthropic.render_command_failure,
        is_failure=exited_nonzero,
        accepts={"timeout_ms": rows.timeout("bash: timeout_ms", integer())},
        typed=typed,
        required_schema={
            "if": {"properties": {"restart": {"const": True}}, "required": ["restart"]},
            "else": {"required": ["command"]},
        },
    )


# ---- memory


_MEMORY = make_view(
    "memory",
    "Keep notes in files below /memories that persist across conversations. View /memories before you start "
    "a task. "
    "Never store secrets there.",
    "memory",
    {
        "command!": string("What to do.", enum=[*_COMMANDS, "delete", "rename"]),
        "path": string("Path of the file or directory, below /memories."),
        "view_range": _VIEW_RANGE,
        "file_text": _FILE_TEXT,
        "old_str": string("str_replace: the text to replace; it must be unique."),
        "new_str": string("str_replace: the text to put in its place."),
        "insert_line": _INSERT_LINE,
        "insert_text": _INSERT_TEXT,
        "old_path": string("rename: the present path."),
        "new_path": string("rename: the new path."),
    },
    result=anthropic.render_memory,
    typed=_native_type("memory_20250818", "memory"),
)


# ---- the web

render_fetch = partial(render_page, tool="web_fetch")


def render_fetch_failure(context: RenderContext) -> str:
    if context.data and "url" in context.data:
        return render_fetch(context)
    return context.text


_SEARCH = shared_views.make_search_view(
    "web_search",
    "Search the web. Returns titles, URLs and excerpts; open one with web_fetch.",
    {"query!": string("What to search for.")},
    result=render_search,
    page=render_fetch,
    page_failure=render_fetch_failure,
    aliases=("WebSearch",),
)
_FETCH = shared_views.make_fetch_view(
    "web_fetch",
    rows={"url!": rows.URL},
    result=render_fetch,
    failure=render_fetch_failure,
    accepts={"offset": field("start_char", integer())},
    aliases=("WebFetch",),
    ignores={"prompt"},
)


# ---- the agent tool set


def _make_find_view(name: str, description: str, pattern: str, result: Renderer, **fixed: Any) -> View:
    properties = {"pattern!": string(pattern), "path": string("Where to search (default: the workspace).")}
    return make_view(name, description, name, properties, fixed=fixed, result=result)


_TOOLSET_VIEWS = (
    make_view(
        "read",
        "Read a file as it is, without line numbers; images and PDF documents are attached.",
        "read",
        {"file_path!": rows.FILE, "view_range": Row(_VIEW_RANGE, _RANGE_FIELDS)},
        fixed={"max_lines": 100_000, "allow_large": True},
        result=anthropic.render_raw,
        is_failure=anthropic.is_too_large,
        more_cases=rows.image_case("file_path"),
    ),
    make_view(
        "write",
        "Write a whole file, creating parent directories.",
        "write",
        {"file_path!": rows.FILE, "content!": rows.CONTENT},
        fixed={"mode": "overwrite"},
        result=lambda context: f"wrote {context.data['size']} bytes to {context.base['path']}",
    ),
    make_view(
        "edit",
        "Replace old_string with new_string in a file. old_string must match exactly and be unique unless "
        "replace_all is true.",
        "edit",
        {
            "file_path!": rows.FILE,
            "old_string!": field("old", string("The text to replace, exactly as in the file.")),
            "new_string!": rows.NEW_TEXT,
            "replace_all": rows.replace_all(),
        },
        fixed={"match": "exact"},
        result=lambda context: (
            f"edited {context.base['path']} ({context.data['replacements']} replacement(s))"
        ),
    ),
    _make_find_view(
        "glob",
        "Find files whose paths match a glob pattern, newest first, at most 200.",
        "Glob such as '**/*.py'.",
        anthropic.render_paths,
        max_results=200,
        order="mtime",
    ),
    _make_find_view(
        "grep",
        "Search file contents: matching lines with their paths and numbers.",
        "Regular expression to search for.",
        anthropic.render_matches,
        mode="content",
        line_numbers=True,
    ),
    _make_bash_view(
        partial(anthropic.render_command, show_exit_code=False),
        {"max_output": MAX_OUTPUT, "head_share": 0.0},
        {},
        {
            "timeout_ms": rows.timeout(
                "bash: timeout_ms", integer("Milliseconds after which it is stopped (default 120000).")
            )
        },
    ),
)

# ---- the facades

_HIDES = frozenset(
    {"multi_edit", "patch", "notebook_edit", "read_many", "shell_output", "shell_kill", "shell_list", "web"}
)
TABLES = (
    Facade(
        id="anthropic-api",
        title="Anthropic API tools",
        provider="anthropic",
        views=(
            _EDITOR,
            _make_bash_view(
                partial(anthropic.render_command, show_exit_code=True),
                {},
                _native_type("bash_20250124", "bash"),
                {},
            ),
            *(_MEMORY, _FETCH, _SEARCH, shared_views.LIST_VIEW),
        ),
        failure=anthropic.render_failure,
        note=(
            "View, create and edit files with str_replace_based_edit_tool; view a file before you change it. "
            "Find files and "
            "run commands with bash: the working directory persists between commands, variables do not."
        ),
        hides=_HIDES | {"glob", "grep", "todo", "ask_user"},
    ),
    Facade(
        id="agent-toolset",
        title="Anthropic agent tool set",
        provider="anthropic",
        views=(*_TOOLSET_VIEWS, _FETCH, _SEARCH, shared_views.LIST_VIEW),
        failure=anthropic.render_toolset_failure,
        note=(
            "Read files with read, find them with glob and grep, change them with edit, and use write only "
            "for new files and "
            "complete rewrites. Read a file before you change it. Run commands with bash."
        ),
        hides=_HIDES | {"insert", "view_image", "list_dir", "todo", "ask_user"},
    ),
)
