"""DATA: the built-in tools as Claude Code shows them to its models: the newer generation, and the 2.0 line.

Names, types and required parameters are those of the program; descriptions are ours.
"""

from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades import claude_rendering as claude
from toolglot.facades import rows, shared_views
from toolglot.facades.parameters import array, boolean, closed_schema, integer, number, object_schema, string
from toolglot.facades.rendering import exited_nonzero
from toolglot.facades.table import Rows, aliased, call_field, field, make_view, unmapped
from toolglot.facades.view import Arguments, Facade, Renderer, View
from toolglot.request import Schema

__all__ = ["TABLES"]

_MAX_SAFE_INTEGER = 9007199254740991
_MAX_TIMEOUT, _MAX_BACKGROUND_TIMEOUT, _MAX_WAIT = 600.0, 7200.0, 600.0  # seconds
_view = partial(make_view, closed=True)

# ---- files

_OFFSET, _LIMIT = "Line to start at, counted from 1 (default 1).", "Number of lines to read (default 2000)."


def _make_read_view(offset: Schema, limit: Schema, template: str, shown: Rows) -> View:
    return _view(
        "Read",
        "Read a file. Text is returned as numbered lines, up to 2000 unless limit asks for more; images and PDF documents "
        "are attached, notebooks are returned as JSON. Read a file before you edit it. To list a directory, use LS.",
        "read",
        {"file_path!": rows.FILE, **rows.line_range("Read", 1, offset, limit), **shown},
        accepts={"allow_large": boolean(), "pages": string()},
        result=partial(claude.render_read, template=template),
        more_cases=rows.image_case("file_path"),
        aliases=("View",),
    )


_make_write_view = partial(shared_views.make_write_view, "Write", "Edit", closed=True)


def _make_edit_view(result: Renderer) -> View:
    edit = object_schema("old_string new_string", old_string=string(), new_string=string(), replace_all=boolean())
    return _view(
        "Edit",
        "Replace old_string with new_string in a file you have already read. old_string must match the file exactly, "
        "without line numbers, and must be unique unless replace_all is true. An empty old_string creates a new file.",
        "edit",
        {
            "file_path!": rows.FILE,
            "old_string!": field(
                "old", string("The text to replace, exactly as in the file, with enough context to be unique.")
            ),
            "new_string!": field("new", string("The text to put in its place; it must differ from old_string.")),
            "replace_all": rows.replace_all(default=False),
        },
        fixed={"match": "exact"},
        result=result,
        aliases=("MultiEdit",),
        # MultiEdit, an older tool of the program.
        **rows.accept_edits("edits", "file_path", "old_string", "new_string", array(edit, minItems=1), result),
    )


_LIST = _view(
    "LS",
    "List the files and directories in a directory. To find files by name, use Glob.",
    "list_dir",
    {"path!": rows.LISTED_DIRECTORY, "ignore": rows.EXCLUDED_NAMES},
    result=claude.render_list,
    aliases=("LSTool",),
)

# ---- commands


def timeout_to_base(native: Arguments) -> Any:
    if "timeout" not in native:
        return UNSET
    limit = _MAX_BACKGROUND_TIMEOUT if native.get("run_in_background") else _MAX_TIMEOUT
    return rows.to_seconds("Bash: timeout", native["timeout"], limit)


def _make_bash_view(output_tool: str) -> View:
    background = f"Return at once and keep it running; read its output with {output_tool} (default false)."
    return _view(
        "Bash",
        "Run a command with bash in a sandbox. The working directory persists between commands; variables do not. Prefer Read, "
        "Edit, Grep and Glob for files.",
        "shell",
        {
            "command!": rows.COMMAND,
            "timeout": call_field(
                "timeout",
                number("Milliseconds after which it is stopped (default 120000, at most 600000)."),
                timeout_to_base,
                lambda base: rows.to_milliseconds(base.get("timeout") or 0) or UNSET,
            ),
            "description": string("What the command does, in 5 to 10 words, for the user."),
            "run_in_background": field("background", boolean(background)),
            "dangerouslyDisableSandbox": field(
                "escalate", boolean("Ask the user to run it outside the sandbox (default false).")
            ),
        },
        result=partial(claude.render_command, output_tool=output_tool),
        failure=claude.render_command_failure,
        is_failure=exited_nonzero,
        aliases=("BashTool",),
    )


# A background command was identified by bash_id, then shell_id, then task_id.
_ANY_ID = {"if": {"anyOf": [{"required": ["bash_id"]}, {"required": ["shell_id"]}]}, "else": {"required": ["task_id"]}}
_TASK = field("handle", string("ID of the background command, as returned by Bash."))


def wait_to_base(native: Arguments) -> Any:
    # Only the tool that takes task_id waits; BashOutput returned at once.
    return native.get("block", True) if "task_id" in native else UNSET


def wait_timeout_to_base(native: Arguments) -> Any:
    return min(max(native.get("timeout", 30_000) / 1000, 0), _MAX_WAIT) if "task_id" in native else UNSET


def wait_timeout_from_base(base: Arguments) -> Any:
    waits = bool(base.get("wait") or "timeout" in base)
    return rows.to_milliseconds(min(base.get("timeout", 30.0 if waits else 0.0), _MAX_WAIT))


def _wait_rows(mark: str, block: Schema, timeout: Schema) -> Rows:
    """How long to wait for a background command; `mark` is "!" if that is required."""
    return {
        f"block{mark}": call_field("wait", block, wait_to_base, lambda base: base.get("wait", "timeout" in base)),
        f"timeout{mark}": call_field("timeout", timeout, wait_timeout_to_base, wait_timeout_from_base),
    }


_TASK_OUTPUT = _view(
    "TaskOutput",
    "Read what a background command has printed since the last time, optionally waiting for it to end.",
    "shell_output",
    {
        "task_id!": aliased(_TASK, "bash_id", "shell_id"),
        **_wait_rows(
            "!",
            boolean("Wait until the command ends.", default=True),
            number("Milliseconds to wait at most, 0 to 600000.", default=30_000, minimum=0, maximum=600_000),
        ),
    },
    result=partial(claude.render_output, tag="output"),
    accepts={"filter": string()},
    aliases=("BashOutput", "AgentOutputTool"),
    required_schema=_ANY_ID,
)
_BASH_OUTPUT = _view(
    "BashOutput",
    "Read what a background command has printed since the last time.",
    "shell_output",
    {
        "bash_id!": aliased(_TASK, "task_id", "shell_id"),
        "filter": string("Regular expression: only lines that match are shown."),
    },
    result=partial(claude.render_output, tag="stdout"),
    accepts=_wait_rows("", boolean(), number()),
    aliases=("TaskOutput", "AgentOutputTool"),
)


_TASK_STOP = shared_views.make_stop_view(
    "TaskStop",
    rows={
        "task_id": aliased(_TASK, "bash_id", "shell_id"),
        "shell_id": unmapped(string("Deprecated: use task_id. One of the two is required.")),
    },
    closed=True,
    result=claude.render_kill,
    aliases=("KillShell", "KillBash"),
    required_schema=_ANY_ID,
)
_KILL_SHELL = shared_views.make_stop_view(
    "KillShell",
    rows={"shell_id!": aliased(_TASK, "bash_id", "task_id")},
    closed=True,
    result=claude.render_kill,
    aliases=("TaskStop", "KillBash"),
)

# ---- search

_GREP_NUMBERS = ("-A", "-B", "-C", "context", "head_limit", "offset")
_GREP_NEW: Rows = {
    "context": unmapped(number("Lines to show before and after each match, like -C.")),
    "-o": field("only_matching", boolean("Show only the matching text instead of whole lines (default false).")),
    "offset": field("skip", number("Number of results to skip, for paging (default 0)."), int),
}


def _make_grep_view(shown: Rows) -> View:
    return _view(
        "Grep",
        "Search file contents with a regular expression (ripgrep syntax). Escape literal braces: `\\{`. To find files by name, "
        "use Glob.",
        "grep",
        {
            **rows.GREP_TARGET,
            "output_mode": rows.grep_mode(
                "files_with_matches lists paths, newest first (default); content shows lines; count counts them per file.",
                "count",
            ),
            **rows.context_lines("-A", "-B", ("-C", "context"), number),
            "-C": unmapped(number("Lines to show before and after each match.")),
            "head_limit": field(
                "max_results",
                number("Maximum number of lines or files to show (default 250; 0 for the maximum of 10000)."),
                int,
            ),
            "-n": field("line_numbers", boolean("Show line numbers (default true).")),
            "-i": field("ignore_case", boolean("Match case-insensitively (default false).")),
            "multiline": boolean("Let a match span lines, with . matching newlines (default false)."),
            **shown,
        },
        result=claude.render_grep,
        accepts={
            "-o": field("only_matching", boolean()),
            **dict.fromkeys(_GREP_NUMBERS, unmapped(number(minimum=0))),
            "offset": field("skip", number(minimum=0), int),
        },
    )


_GLOB = _view(
    "Glob",
    "Find files whose paths match a glob pattern, newest first, at most 100. To search file contents, use Grep.",
    "glob",
    {"pattern!": string("Glob such as '**/*.py' or 'src/**/*.ts'."), "path": rows.DIRECTORY},
    fixed={"max_results": 100, "order": "mtime"},
    result=claude.render_glob,
)

# ---- web

_WEB_FETCH = shared_views.make_fetch_view(
    "WebFetch",
    closed=True,
    rows={
        "url!": field(
            "target",
            string("URL of the page (https://…).", format="uri"),
            from_base=lambda target: target if "://" in target else UNSET,
        ),
        "prompt!": rows.prompt("What you want to know; the result lists the lines that contain these words."),
    },
    result=partial(claude.render_page, tool="WebFetch"),
    failure=partial(claude.render_page_failure, tool="WebFetch"),
    accepts={"offset": field("start_char", number(), int)},
    required_schema={"required": ["url"]},
)
_WEB_SEARCH = shared_views.make_search_view(
    "WebSearch",
    "Search the web. Returns titles, URLs and excerpts; open one with WebFetch.",
    {"query!": string("What to search for.", minLength=2), **shared_views.DOMAIN_ROWS},
    closed=True,
    result=claude.render_search,
    page=partial(claude.render_page, tool="WebFetch"),
    page_failure=partial(claude.render_page_failure, tool="WebFetch"),
    aliases=("web_search",),
)

# ---- plans and questions

_TODO = _view(
    "TodoWrite",
    "Replace the list of tasks, which the user sees. Use it for work with several steps; keep one task in progress at a time.",
    "todo",
    {
        "todos!": rows.todos(
            closed_schema(
                "content status activeForm",
                content=string("The task, in the imperative: 'Run the tests'.", minLength=1),
                status=string("State of the task.", enum=["pending", "in_progress", "completed"]),
                activeForm=string("The task as work in progress: 'Running the tests'.", minLength=1),
            ),
            "content",
            extras={"activeForm": "active_form"},
            defaults=lambda item, position: {"activeForm": item["text"]},
        )
    },
    result=claude.render_todo,
)

# ---- the facades

_HIDES = frozenset({"view_image", "multi_edit", "insert", "patch", "read_many", "shell_list", "web"})
_NOTE = (
    "Read files with Read, find them with Glob and Grep, list directories with LS. Change files with Edit; use Write only for "
    "new files and complete rewrites. Read a file before you change it. Run commands with Bash; {output} and {stop} are for "
    "those in the background. Make independent calls in parallel."
)
_NOTEBOOK = shared_views.make_notebook_view("NotebookEdit", claude.render_notebook_edit, requires_source=True)
_ASK = shared_views.make_questions_view(
    "AskUserQuestion",
    shared_views.questions_schema("multiSelect", "header description multiSelect", has_preview=True, closed=True),
    claude.render_answers,
    closed=True,
)
TABLES = (
    Facade(
        id="claude-code",
        title="Claude Code",
        provider="anthropic",
        views=(
            _make_read_view(
                integer(_OFFSET, minimum=0, maximum=_MAX_SAFE_INTEGER),
                integer(_LIMIT, exclusiveMinimum=0, maximum=_MAX_SAFE_INTEGER),
                claude.TAB_NUMBERS,
                {"pages": rows.PDF_PAGES},
            ),
            shared_views.make_write_view(
                "Write", "Edit", closed=True, result=partial(claude.render_write, note=claude.STATE_IS_CURRENT)
            ),
            _make_edit_view(claude.render_edit),
            *(_NOTEBOOK, _GLOB, _make_grep_view(_GREP_NEW), _LIST, _make_bash_view("TaskOutput"), _TASK_OUTPUT, _TASK_STOP),
            *(_WEB_FETCH, _WEB_SEARCH, _ASK, replace(_TODO, hidden=True)),
        ),
        failure=claude.render_failure,
        note=_NOTE.format(output="TaskOutput", stop="TaskStop"),
        hides=_HIDES | {"todo"},
    ),
    Facade(
        id="claude-code-2.0",
        title="Claude Code 2.0",
        provider="anthropic",
        views=(
            _make_read_view(number(_OFFSET), number(_LIMIT), claude.ARROW_NUMBERS, {}),
            _make_write_view(result=claude.render_write),
            _make_edit_view(claude.render_edit_snippet),
            *(_NOTEBOOK, _GLOB, _make_grep_view({}), _LIST, _make_bash_view("BashOutput"), _BASH_OUTPUT, _KILL_SHELL),
            *(_WEB_FETCH, _WEB_SEARCH, _TODO, _ASK),
        ),
        failure=claude.render_failure,
        note=_NOTE.format(output="BashOutput", stop="KillShell")
        + " For work with several steps, keep the list with TodoWrite and complete each task as soon as it is done.",
        hides=_HIDES,
    ),
)
