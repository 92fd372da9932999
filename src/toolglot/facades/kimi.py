"""DATA: the tools of Kimi Code, as Kimi models know them; older names are accepted too.

Results are rendered as Claude Code's.

Lines are counted from 1, and from the end if they are negative; times are seconds. Every command starts in
the workspace.
"""

import math
from functools import partial
from typing import Any

from msgspec import UNSET

from toolglot.facades import claude_rendering as claude
from toolglot.facades import rows, shared_views
from toolglot.facades.claude_failures import render_tagged_failure
from toolglot.facades.parameters import array, boolean, integer, object_schema, string
from toolglot.facades.table import aliased, call_field, field, ignored, make_view, pick, unmapped
from toolglot.facades.view import Arguments, Facade

__all__ = ["TABLES"]

DEFAULT_TIMEOUT, MAX_TIMEOUT, MAX_BACKGROUND_TIMEOUT, MAX_WAIT = 60, 300, 7200, 3600  # seconds
MAX_LINES = 1000
"""Lines of a file that are read at once."""
_MODE = string(
    "overwrite replaces the file; append adds to its end.", enum=["overwrite", "append"], default="overwrite"
)
_TASK = field("handle", string("The task_id that Bash returned."))


def read_to_base(native: Arguments) -> Arguments:
    base = pick(native, "path")
    first = native.get("line_offset", 1)
    count = min(native.get("n_lines", MAX_LINES), MAX_LINES)
    if first < 0:
        base["tail_lines"] = min(-first, MAX_LINES)
        if "n_lines" in native:
            base["max_lines"] = count
        return base
    first = max(first, 1)
    if "line_offset" in native:
        base["start_line"] = first
    if "n_lines" in native:
        base["end_line"] = first + count - 1
    else:
        base["max_lines"] = count
    return base


def read_from_base(base: Arguments) -> Arguments:
    native = pick(base, "path")
    start, end, count = base.get("start_line"), base.get("end_line"), base.get("max_lines")
    if base.get("tail_lines"):
        native["line_offset"] = -base["tail_lines"]
    elif start:
        native["line_offset"] = start
    if end:
        count = max(end - (start or 1) + 1, 1)
    if count:
        native["n_lines"] = count
    return native


def timeout_to_base(native: Arguments) -> Any:
    if not native.get("run_in_background"):
        return min(native.get("timeout", DEFAULT_TIMEOUT), MAX_TIMEOUT)
    if native.get("disable_timeout") or "timeout" not in native:
        return UNSET
    return min(native["timeout"], MAX_BACKGROUND_TIMEOUT)


def timeout_from_base(base: Arguments) -> Any:
    return UNSET if base.get("timeout") is None else max(1, math.ceil(base["timeout"]))


def block_from_base(base: Arguments) -> Any:
    return True if base.get("timeout") is not None else base.get("wait", UNSET)


def _flip(value: Any) -> bool:
    return not value


_LEGACY_EDIT = object_schema("old new", old=string(minLength=1), new=string(), replace_all=boolean())
_LEGACY_EDITS = {"anyOf": [_LEGACY_EDIT, array(_LEGACY_EDIT, minItems=1)]}
_VIEWS = (
    make_view(
        "Read",
        "Read a text file as numbered lines, at most 1000 at once. For images, use ReadMediaFile.",
        "read",
        {
            "path!": rows.FILE,
            "line_offset": integer(
                "First line to read, counted from 1; a negative number counts from the end (default 1)."
            ),
            "n_lines": integer("Number of lines to read (default 1000).", exclusiveMinimum=0),
        },
        to_base=read_to_base,
        from_base=read_from_base,
        result=partial(claude.render_read, template=claude.TAB_NUMBERS, continuation="line_offset"),
        aliases=("ReadFile",),
    ),
    make_view(
        "Write",
        "Write a whole file, or append to it. An existing file must have been read first. To change part of "
        "a file, use Edit.",
        "write",
        {"path!": rows.FILE, "content!": rows.CONTENT_OR_APPENDIX, "mode": _MODE},
        result=claude.render_write,
        aliases=("WriteFile",),
    ),
    make_view(
        "Edit",
        "Replace old_string with new_string in a file you have already read. old_string must match the file "
        "exactly, "
        "without line numbers, and be unique unless replace_all is true.",
        "edit",
        {
            "path!": rows.FILE,
            "old_string!": field("old", string("The text to replace, exactly as in the file.", minLength=1)),
            "new_string!": rows.NEW_TEXT,
            "replace_all": rows.replace_all(),
        },
        fixed={"match": "exact"},
        result=claude.render_edit,
        ignores={"allow_large_delete"},
        aliases=("StrReplaceFile",),
        **rows.accept_edits("edit", "path", "old", "new", _LEGACY_EDITS, claude.render_edit),
    ),
    make_view(
        "Bash",
        "Run a command with bash in a sandbox. Use run_in_background for servers; TaskOutput and TaskStop "
        "take its task_id.",
        "shell",
        {
            "command!": string("The command line.", minLength=1),
            "cwd": rows.CWD,
            "timeout": call_field(
                "timeout",
                integer(
                    "Seconds after which it is stopped, at most 300 (7200 in the background).",
                    exclusiveMinimum=0,
                    default=DEFAULT_TIMEOUT,
                ),
                timeout_to_base,
                timeout_from_base,
            ),
            "description": rows.PURPOSE,
            "run_in_background": field(
                "background", boolean("Return at once and keep it running (default false).")
            ),
            "disable_timeout": unmapped(
                boolean("In the background: run without a time limit (default false).")
            ),
        },
        fixed={"cwd": "."},
        result=partial(claude.render_command, output_tool="TaskOutput"),
        failure=claude.render_command_failure,
        aliases=("Shell",),
    ),
    make_view(
        "Glob",
        "Find files whose paths match a glob pattern, newest first, at most 100. To search file contents, "
        "use Grep.",
        "glob",
        {
            "pattern!": string("Glob such as 'src/**/*.py'."),
            "path": aliased(field("path", rows.DIRECTORY), "directory"),
            "include_ignored": field(
                "respect_gitignore",
                boolean("Also find files that .gitignore names (default false)."),
                _flip,
                _flip,
            ),
        },
        fixed={"max_results": 100},
        result=claude.render_glob,
        ignores={"include_dirs"},
    ),
    make_view(
        "Grep",
        "Search file contents with a regular expression (ripgrep syntax). Escape literal braces: `\\{`.",
        "grep",
        {
            **rows.GREP_TARGET,
            "output_mode": rows.grep_mode(
                "files_with_matches lists paths; content shows lines; count_matches counts them per file.",
                count="count_matches",
                default="files_with_matches",
            ),
            "-i": field("ignore_case", boolean("Match case-insensitively.", default=False)),
            "-n": field("line_numbers", boolean("Show line numbers.", default=True)),
            **rows.context_lines("-A", "-B", ("-C", "context"), integer, minimum=0),
            "-C": unmapped(integer("Lines to show before and after each match.", minimum=0)),
            "head_limit": field(
                "max_results",
                integer(
                    "Maximum number of lines or files to show; 0 for the maximum of 10000.",
                    minimum=0,
                    default=250,
                ),
            ),
            "offset": field("skip", integer("Number of results to skip, for paging.", minimum=0, default=0)),
            "multiline": boolean("Let a match span lines, with . matching newlines.", default=False),
            "include_ignored": field(
                "no_ignore", boolean("Also search files that .gitignore names.", default=False)
            ),
        },
        result=claude.render_grep,
        accepts={"context": unmapped(integer(minimum=0))},
    ),
    make_view(
        "WebSearch",
        "Search the web. Open a result with FetchURL.",
        "web_search",
        {"query!": rows.query()},
        result=claude.render_search,
        accepts={"limit": field("max_results", integer(), lambda limit: min(max(limit, 1), 20))},
        ignores={"include_content"},
        aliases=("SearchWeb",),
    ),
    shared_views.make_fetch_view(
        "FetchURL",
        rows={"url!": rows.URL},
        result=partial(claude.render_page, tool="FetchURL", continuation="start_char"),
        failure=partial(claude.render_page_failure, tool="FetchURL", continuation="start_char"),
        accepts={"start_line": integer(minimum=1), "start_char": integer(minimum=0)},
    ),
    make_view(
        "TodoList",
        "Replace or read the list of tasks, which the user sees. Use it for work with several steps; keep "
        "one in progress.",
        "todo",
        {
            "todos": rows.todos(
                object_schema(
                    "title status",
                    title=string("What is to be done.", minLength=1),
                    status=string("State of the task.", enum=["pending", "in_progress", "done"]),
                ),
                "title",
                description="The complete list, in order; an empty list clears it (default: the list is only "
                "read).",
                done="done",
            )
        },
        aliases=("SetTodoList",),
    ),
    make_view(
        "ReadMediaFile",
        "Show an image file: PNG, JPEG, GIF or WebP.",
        "view_image",
        {"path!": string("Path of the image, absolute or relative to the workspace.")},
    ),
    shared_views.make_questions_view(
        "AskUserQuestion",
        shared_views.questions_schema("multi_select"),
        claude.render_answers,
        multi="multi_select",
        ignores={"background"},
    ),
    make_view(
        "TaskOutput",
        "Read what a background command has printed since the last time, optionally waiting for it to end.",
        "shell_output",
        {
            "task_id!": _TASK,
            "block": call_field(
                "wait",
                boolean("Wait until the command ends.", default=False),
                lambda native: native.get("block", UNSET),
                block_from_base,
            ),
            # Models send a timeout even if block is false; it is ignored then.
            "timeout": call_field(
                "timeout",
                integer("Seconds to wait at most.", default=30, minimum=0, maximum=MAX_WAIT),
                lambda native: native.get("timeout", UNSET) if native.get("block") else UNSET,
                timeout_from_base,
            ),
        },
        result=partial(claude.render_output, tag="output"),
    ),
    shared_views.make_stop_view(
        "TaskStop",
        rows={"task_id!": _TASK, "reason": ignored(string("Why it is stopped, for the user."))},
        result=claude.render_kill,
    ),
    make_view(
        "TaskList",
        "List background commands: those that are running and those that ended recently.",
        "shell_list",
        {
            "active_only": ignored(boolean("Ignored: all are listed.", default=True)),
            "limit": ignored(integer("Ignored: all are listed.", minimum=1, maximum=100, default=20)),
        },
    ),
)
TABLES = (
    Facade(
        id="kimi",
        title="Kimi Code",
        provider="moonshotai",
        views=_VIEWS,
        failure=render_tagged_failure,
        note=(
            "Find files with Glob and Grep, read them with Read, change them with Edit, and run commands "
            "with Bash. "
            "Read a file before you change it, and give Edit text exactly as it is in the file, without line "
            "numbers. "
            "Timeouts are seconds; run servers in the background and read what they print with TaskOutput. "
            "For work with several steps, keep a plan with TodoList."
        ),
        hides=frozenset({"multi_edit", "insert", "patch", "list_dir", "read_many", "web"}),
        differences=dict.fromkeys(
            ("Read", "Write", "Edit", "Bash", "Glob", "Grep"),
            "Results are written as Claude Code writes them, because none of Kimi Code's have been recorded.",
        ),
    ),
)
