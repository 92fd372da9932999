"""DATA: the built-in tools as Claude Code shows them to its models: today's program for newer and older
models, 2.1.197, 2.0.

Names, types and required parameters are those of the program; descriptions are ours.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import UNSET

from toolglot.facades import claude_rendering as claude
from toolglot.facades import rows, shared_views
from toolglot.facades.claude_failures import render_failure, render_failure_in_2_0
from toolglot.facades.parameters import array, boolean, closed_schema, integer, number, object_schema, string
from toolglot.facades.table import Row, Rows, aliased, call_field, field, make_view, unmapped, with_fixed
from toolglot.facades.view import Arguments, Facade, Field, RenderContext, Renderer, View, omit
from toolglot.values.request import Schema

__all__ = ["TABLES"]

_MAX_SAFE_INTEGER = 9007199254740991
_MAX_TIMEOUT, _MAX_BACKGROUND_TIMEOUT, _MAX_WAIT = 600.0, 7200.0, 600.0  # seconds
_view = partial(make_view, closed=True)

# ---- files

_OFFSET, _LIMIT = "Line to start at, counted from 1 (default 1).", "Number of lines to read (default: all)."
# bytes; a page is 25,000 tokens of four characters
_READ_LIMITS = {"max_size": 256 * 1024, "max_page": 100_000}


def _make_read_view(offset: Schema, limit: Schema, template: str, shown: Rows, *, has_pages: bool) -> View:
    return _view(
        "Read",
        "Read a file. Text is returned as numbered lines; images and PDF documents are attached, notebooks "
        "are returned as "
        "cells. Files above 256 KB need offset and limit. Read a file before you edit it.",
        "read",
        {"file_path!": rows.FILE, **rows.line_range("Read", 1, offset, limit), **shown},
        fixed=_READ_LIMITS,
        result=partial(claude.render_file, template=template, has_pages=has_pages),
        is_failure=partial(claude.exceeds_page, has_pages=has_pages),
        successes=frozenset({"line_out_of_range"}),
        more_cases=rows.image_case("file_path"),
        aliases=("View",),
    )


def _make_write_view(read_first: str, result: Renderer) -> View:
    return shared_views.make_write_view("Write", "Edit", read_first, closed=True, result=result)


def _make_edit_view(read_first: str, result: Renderer) -> View:
    edit = object_schema(
        "old_string new_string", old_string=string(), new_string=string(), replace_all=boolean()
    )
    return _view(
        "Edit",
        "Replace old_string with new_string in a file you have already read. old_string must match the file "
        "exactly, "
        "without line numbers, and must be unique unless replace_all is true. An empty old_string creates a "
        "new file.",
        "edit",
        {
            "file_path!": rows.FILE,
            "old_string!": field(
                "old",
                string("The text to replace, exactly as in the file, with enough context to be unique."),
            ),
            "new_string!": field(
                "new", string("The text to put in its place; it must differ from old_string.")
            ),
            "replace_all": rows.replace_all(default=False),
        },
        fixed={"match": "exact", "read_first": read_first},
        result=result,
        aliases=("MultiEdit",),
        # MultiEdit, an older tool of the program.
        **rows.accept_edits(
            "edits", "file_path", "old_string", "new_string", array(edit, minItems=1), result
        ),
    )


# ---- commands


def timeout_to_base(native: Arguments) -> Any:
    if "timeout" not in native:
        return UNSET
    limit = _MAX_BACKGROUND_TIMEOUT if native.get("run_in_background") else _MAX_TIMEOUT
    return rows.to_seconds("Bash: timeout", native["timeout"], limit)


_BARE_SLEEP = re.compile(r"\s*sleep\s+[\d.]+[smhd]?\s*;?\s*")


def on_timeout_to_base(native: Arguments) -> Any:
    # A command goes on in the background, but for one that does nothing but wait.
    only_waits = _BARE_SLEEP.fullmatch(native["command"]) is not None
    return "kill" if only_waits and not native.get("run_in_background") else "background"


def _make_bash_view(
    background: str, describe: Callable[[RenderContext, str], str], failure: Renderer, empty: str = ""
) -> View:
    """Return the view of commands. `background`: how to read the output of one in the background."""
    return _view(
        "Bash",
        "Run a command with bash in a sandbox. The working directory persists between commands; variables do "
        "not. A command "
        "that exceeds its timeout goes on in the background. Prefer Read, Edit, Grep and Glob for files.",
        "shell",
        {
            "command!": Row(
                rows.COMMAND,
                (
                    Field("", "command"),
                    Field("", "on_timeout", on_timeout_to_base, omit, needs_all_arguments=True),
                ),
            ),
            "timeout": call_field(
                "timeout",
                number(
                    "Milliseconds after which it goes on in the background (default 120000, at most 600000)."
                ),
                timeout_to_base,
                lambda base: rows.to_milliseconds(base.get("timeout") or 0) or UNSET,
            ),
            "description": string("What the command does, in 5 to 10 words, for the user."),
            "run_in_background": field(
                "background", boolean(f"Return at once and keep it running; {background}.")
            ),
            "dangerouslyDisableSandbox": field(
                "escalate", boolean("Ask the user to run it outside the sandbox (default false).")
            ),
        },
        fixed={"max_output": 30_000, "head_share": 1.0, "keep_escapes": True},
        result=partial(claude.render_bash, empty=empty, describe_background=describe),
        failure=partial(claude.render_bash_failure, failure=failure),
        is_failure=claude.exited_with_error,
        aliases=("BashTool",),
    )


_TASK = field("handle", string("ID of the background command, as returned by Bash."))


def wait_timeout_from_base(base: Arguments) -> Any:
    default = 30.0 if base.get("wait") else 0.0
    return rows.to_milliseconds(min(base.get("timeout", default), _MAX_WAIT))


_TASK_OUTPUT = _view(
    "TaskOutput",
    "Read what a background command has printed since the last time, optionally waiting for it to end.",
    "shell_output",
    {
        "task_id!": _TASK,
        "block!": call_field(
            "wait",
            boolean("Wait until the command ends.", default=True),
            lambda native: native.get("block", True),
            lambda base: base.get("wait", "timeout" in base),
        ),
        "timeout!": call_field(
            "timeout",
            number("Milliseconds to wait at most, 0 to 600000.", default=30_000, minimum=0, maximum=600_000),
            lambda native: min(max(native.get("timeout", 30_000) / 1000, 0), _MAX_WAIT),
            wait_timeout_from_base,
        ),
    },
    result=partial(claude.render_output, tag="output"),
    aliases=("AgentOutputTool",),
    required_schema={"required": ["task_id"]},
)
_BASH_OUTPUT = _view(
    "BashOutput",
    "Read what a background command has printed.",
    "shell_output",
    {"bash_id!": _TASK, "filter": string("Regular expression: only lines that match are shown.")},
    fixed={"tail_lines": 1_000_000},  # all of them, also those that were shown before
    result=partial(claude.render_output, tag="stdout"),
)


_TASK_STOP = shared_views.make_stop_view(
    "TaskStop",
    rows={
        "task_id": aliased(_TASK, "shell_id"),
        "shell_id": unmapped(string("Deprecated: use task_id. One of the two is required.")),
    },
    closed=True,
    result=partial(claude.render_stop, noun="task", verb="stopped", more=("task_type", "command")),
    is_failure=claude.had_ended,
    aliases=("KillShell", "KillBash"),
    required_schema={"if": {"required": ["shell_id"]}, "else": {"required": ["task_id"]}},
)
_KILL_SHELL = shared_views.make_stop_view(
    "KillShell",
    rows={"shell_id!": _TASK},
    closed=True,
    result=partial(claude.render_stop, noun="shell", verb="killed"),
    is_failure=claude.had_ended,
)

# ---- search

_GREP_NEW: Rows = {
    "context": unmapped(number("Lines to show before and after each match, like -C.")),
    "-o": field(
        "only_matching", boolean("Show only the matching text instead of whole lines (default false).")
    ),
    "offset": field("skip", number("Number of results to skip, for paging (default 0)."), int),
}


def _make_grep_view(limit: Row, numbers: Row, result: Renderer, shown: Rows) -> View:
    return _view(
        "Grep",
        "Search file contents with a regular expression (ripgrep syntax). Escape literal braces: `\\{`. To "
        "find files by name, "
        "use Glob.",
        "grep",
        {
            **rows.GREP_TARGET,
            "output_mode": rows.grep_mode(
                "files_with_matches lists paths, newest first (default); content shows lines; count counts "
                "them per file.",
                "count",
            ),
            **rows.context_lines("-A", "-B", ("-C", "context"), number),
            "-C": unmapped(number("Lines to show before and after each match.")),
            "head_limit": limit,
            "-n": numbers,
            "-i": field("ignore_case", boolean("Match case-insensitively (default false).")),
            "multiline": boolean("Let a match span lines, with . matching newlines (default false)."),
            **shown,
        },
        result=result,
        accepts={
            name: unmapped(number(minimum=0))
            for name in ("-A", "-B", "-C", "head_limit", *shown)
            if name != "-o"
        },
    )


_GREP = _make_grep_view(
    field(
        "max_results",
        number("Maximum number of lines or files to show (default 250; 0 for the maximum of 10000)."),
        int,
    ),
    field("line_numbers", boolean("Show line numbers (default true).")),
    claude.render_grep,
    _GREP_NEW,
)
_GREP_IN_2_0 = _make_grep_view(
    field("max_results", number("Maximum number of lines or files to show (default: all)."), int, default=0),
    field("line_numbers", boolean("Show line numbers (default false)."), default=False, base_default=True),
    claude.render_grep_in_2_0,
    {},
)


def _make_glob_view(path_key: str) -> View:
    return _view(
        "Glob",
        "Find files whose paths match a glob pattern: the 100 newest, oldest first. To search file contents, "
        "use Grep.",
        "glob",
        {"pattern!": string("Glob such as '**/*.py' or 'src/**/*.ts'."), "path": rows.DIRECTORY},
        fixed={"max_results": 100, "order": "mtime"},
        result=partial(claude.render_files, path_key=path_key),
    )


# ---- web

_FETCH_OFFSET = field(
    "start_char", number("Character to start at, for a page that is too long (default 0)."), int
)


def _make_fetch_view(failure: Renderer, shown: Rows) -> View:
    return shared_views.make_fetch_view(
        "WebFetch",
        closed=True,
        rows={
            "url!": field(
                "target",
                string("URL of the page (https://…).", format="uri"),
                from_base=lambda target: target if "://" in target else UNSET,
            ),
            "prompt!": rows.prompt(
                "What you want to know; the result lists the lines that contain these words."
            ),
            **shown,
        },
        result=partial(claude.render_page, tool="WebFetch"),
        failure=partial(claude.render_page_failure, tool="WebFetch", failure=failure),
        accepts={} if shown else {"offset": _FETCH_OFFSET},  # older versions could not continue a long page
    )


_WEB_SEARCH = _view(
    "WebSearch",
    "Search the web. Returns titles, URLs and excerpts; open one with WebFetch.",
    "web_search",
    {"query!": rows.query(minLength=2), **shared_views.DOMAIN_ROWS},
    result=claude.render_search,
)


def _make_action_view(failure: Renderer) -> View:
    """Return a hidden view that searches, opens pages and finds text, for models that remember a tool with
    actions.
    """
    return shared_views.make_search_view(
        "web_search",
        "Search the web, open a page, or find text in it.",
        {"query!": rows.query()},
        result=claude.render_search,
        page=partial(claude.render_page, tool="WebFetch"),
        page_failure=partial(claude.render_page_failure, tool="WebFetch", failure=failure),
        hidden=True,
    )


# ---- plans and questions

_TODO = _view(
    "TodoWrite",
    "Replace the list of tasks, which the user sees. Use it for work with several steps; keep one task in "
    "progress at a time.",
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

# ---- skills

_ARGUMENTS = field("arguments", string("What the skill should work on, if it asks for that."), default="")
_SKILL = shared_views.make_skill_view(
    "Skill", rows={"skill!": rows.SKILL, "args": _ARGUMENTS}, closed=True, result=claude.render_skill
)
_SKILL_IN_2_0 = shared_views.make_skill_view(
    "Skill", rows={"command!": rows.SKILL}, closed=True, result=claude.render_skill
)

# ---- tools that are deferred

_TOOL_SEARCH = _view(
    "ToolSearch",
    "Find deferred tools and load them: they are known by name only, and can be called once they are loaded. "
    "Search by what a "
    "tool does, or load tools by name with select:NAME,NAME.",
    "search_tools",
    {
        "query!": string("What the tool should do, in a few words, or select:NAME,NAME."),
        "max_results!": field(
            "limit", number("Tools to load at most.", default=5), int, default=5, base_default=5
        ),
    },
    result=claude.render_tool_search,
    required_schema={"required": ["query"]},
)
_LOADED = frozenset(
    {"Bash", "Edit", "Read", "Write", "Skill", "ToolSearch"}
)  # the others are deferred, if the agent defers any

# ---- the facades

_HIDES = frozenset(
    {
        "view_image",
        "multi_edit",
        "insert",
        "patch",
        "read_many",
        "shell_list",
        "web",
        "list_dir",
        "shell_output",
        "todo",
    }
)
_NOTE = (
    "Read files with Read, find them with Glob and Grep. Change files with Edit; use Write only for new "
    "files and complete "
    "rewrites. Read a file before you change it. Run commands with Bash; {background} Make independent calls "
    "in parallel."
)
_PLAN_NOTE = (
    " For work with several steps, keep the list with TodoWrite and complete each task as soon as it is done."
)
_NOTEBOOK = shared_views.make_notebook_view("NotebookEdit", claude.render_notebook_edit, requires_source=True)
_ASK = shared_views.make_questions_view(
    "AskUserQuestion",
    shared_views.questions_schema(
        "multiSelect", "header description multiSelect", has_preview=True, closed=True
    ),
    claude.render_answers,
    closed=True,
)
_TODAY_OFFSET = integer(_OFFSET, minimum=0, maximum=_MAX_SAFE_INTEGER)
_TODAY_LIMIT = integer(_LIMIT, exclusiveMinimum=0, maximum=_MAX_SAFE_INTEGER)
_ALLOW_LARGE = boolean("Read a text file of any size, up to 8 MB (default false).")
_OUTPUT_FILE_NOTE = "the output of those in the background is in a file, and TaskStop ends them."


def _make_today_views(
    shown: Rows, write_rule: str, edit_rule: str, fetch: Rows, commands: tuple[View, ...]
) -> tuple[View, ...]:
    """Return the views of version 2.1, whose rules about unread files depend on the model."""
    return (
        _make_read_view(
            _TODAY_OFFSET,
            _TODAY_LIMIT,
            claude.TAB_NUMBERS,
            {"pages": rows.PDF_PAGES, **shown},
            has_pages=True,
        ),
        _make_write_view(write_rule, partial(claude.render_write, note=claude.STATE_IS_CURRENT)),
        _make_edit_view(edit_rule, claude.render_edit_today),
        with_fixed(_NOTEBOOK, read_first=edit_rule),
        *(_make_glob_view("path"), _GREP, *commands, _TASK_STOP),
        *(_make_fetch_view(render_failure, fetch), _WEB_SEARCH, _ASK, _SKILL),
    )


_DIFFERENCES = {
    "Grep": "Matches are sorted by path, so that a search can be repeated; the program prints them as its "
    "threads find them.",
    "TaskStop": "A template instead of an ID is an error.",
    "BashOutput": "A template instead of an ID is an error while several commands run. There is no line with "
    "the time.",
    "KillShell": "A template instead of an ID is an error.",
    "LS": "A call of this older tool, which is not shown, is answered; the program has no such tool any "
    "more.",
}
# Of version 2.0 only.
_DIFFERENCES_IN_2_0 = {
    "Bash": "Output and errors come in the order in which they were written; the program put errors first.",
    "Edit": "None; some recorded edits follow a Read that is not among the open calls, and are refused "
    "without it.",
}


def _make_facade(
    facade_id: str, title: str, views: tuple[View, ...], background: str, failure: Renderer = render_failure
) -> Facade:
    """Return a facade; `background`: for the instructions, how commands in the background are read and ended."""
    covered = {base for view in views for base in view.base_tools}
    names = [view.name for view in views]
    all_views = (*views, _make_action_view(failure), shared_views.LIST_VIEW)
    note = _NOTE.format(background=background)
    if "todo" in covered:
        note += _PLAN_NOTE
    differences = _DIFFERENCES
    if failure is not render_failure:
        differences = {**_DIFFERENCES, **_DIFFERENCES_IN_2_0}
    return Facade(
        id=facade_id,
        title=title,
        provider="anthropic",
        views=all_views,
        failure=failure,
        note=note,
        hides=_HIDES - covered,
        defers=frozenset(names) - _LOADED if _TOOL_SEARCH in views else frozenset(),
        differences={view.name: differences[view.name] for view in all_views if view.name in differences},
        refuses_unknown_parameters=True,
    )


_EMPTY = "(Bash completed with no output)"
_BASH = _make_bash_view(
    "its output is written to a file", claude.describe_output_file, render_failure, _EMPTY
)
_TASK_BASH = _make_bash_view(
    "read its output with TaskOutput",
    partial(claude.describe_handle, output_tool="TaskOutput"),
    render_failure,
    _EMPTY,
)
_BASH_IN_2_0 = _make_bash_view(
    "read its output with BashOutput",
    partial(claude.describe_handle, output_tool="BashOutput"),
    render_failure_in_2_0,
)
TABLES = (
    # Version 2.1.325, models since Opus 4.8: they may change files that they have not read, and have no tool
    # for a plan.
    _make_facade(
        "claude-code",
        "Claude Code",
        (
            *_make_today_views(
                {"allow_large": _ALLOW_LARGE}, "current", "none", {"offset": _FETCH_OFFSET}, (_BASH,)
            ),
            _TOOL_SEARCH,
        ),
        _OUTPUT_FILE_NOTE,
    ),
    _make_facade(
        "claude-code-4.5",
        "Claude Code, models before Opus 4.8",
        (
            *_make_today_views(
                {"allow_large": _ALLOW_LARGE}, "required", "once", {"offset": _FETCH_OFFSET}, (_BASH,)
            ),
            *(_TODO, _TOOL_SEARCH),
        ),
        _OUTPUT_FILE_NOTE,
    ),
    _make_facade(
        "claude-code-2.1",
        "Claude Code 2.1.197",
        _make_today_views({}, "required", "once", {}, (_TASK_BASH, _TASK_OUTPUT)),
        "TaskOutput and TaskStop are for those in the background.",
    ),
    _make_facade(
        "claude-code-2.0",
        "Claude Code 2.0",
        (
            _make_read_view(number(_OFFSET), number(_LIMIT), claude.ARROW_NUMBERS, {}, has_pages=False),
            _make_write_view("shown", claude.render_write_in_2_0),
            _make_edit_view("shown", claude.render_edit_in_2_0),
            *(with_fixed(_NOTEBOOK, read_first="shown"), _make_glob_view("absolute"), _GREP_IN_2_0),
            *(_BASH_IN_2_0, _BASH_OUTPUT, _KILL_SHELL),
            *(_make_fetch_view(render_failure_in_2_0, {}), _WEB_SEARCH, _TODO, _ASK, _SKILL_IN_2_0),
        ),
        "BashOutput and KillShell are for those in the background.",
        render_failure_in_2_0,
    ),
)
