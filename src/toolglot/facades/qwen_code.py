"""DATA: the tools of Qwen Code, as Qwen models know them. It began as a copy of Gemini CLI.

Lines are counted from 0 here, times are milliseconds, and searches are case-insensitive. Every command starts
in the workspace.
"""

from msgspec import UNSET

from toolglot.facades import gemini_rendering as gemini
from toolglot.facades import qwen_rendering as qwen
from toolglot.facades import rows, shared_views
from toolglot.facades.parameters import boolean, integer, number, object_schema, string, string_list
from toolglot.facades.table import aliased, field, make_view
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

MAX_TIMEOUT, MAX_OUTPUT = 600.0, 30_000
"""Seconds that a command may take, and characters of its output."""
_TASK = field("handle", string("The ID that run_shell_command returned."))
_TIMEOUT = "Milliseconds after which it is stopped (default 120000)."

_VIEWS = (
    make_view(
        "read_file",
        "Read a file: text without line numbers; images and PDF documents are attached.",
        "read",
        {
            "file_path!": rows.FILE,
            **rows.line_range(
                "read_file",
                0,
                integer("First line to read, counted from 0; give limit too (default 0).", minimum=0),
                integer("Number of lines to read (default 2000)."),
            ),
            "pages": rows.PDF_PAGES,
        },
        result=qwen.render_read,
    ),
    shared_views.make_write_view("write_file", "edit", result=qwen.render_write),
    make_view(
        "edit",
        "Replace old_string with new_string in a file you have already read. old_string must be unique "
        "unless replace_all is "
        "true. An empty old_string creates a new file.",
        "edit",
        {
            "file_path!": rows.FILE,
            "old_string!": field(
                "old", string("The text to replace, exactly as in the file, with lines to make it unique.")
            ),
            "new_string!": rows.NEW_TEXT,
            "replace_all": rows.replace_all(),
        },
        fixed={"match": "exact"},
        result=qwen.render_edit,
        accepts={
            "expected_replacements": field(
                "count", integer(minimum=1), lambda count: "one" if count == 1 else count
            )
        },
        ignores={"instruction"},
        aliases=("replace",),
    ),
    make_view(
        "grep_search",
        "Search file contents with a regular expression (ripgrep syntax), case-insensitively.",
        "grep",
        {
            "pattern!": rows.GREP_TARGET["pattern!"],
            "glob": aliased(rows.INCLUDE_GLOB, "include"),
            "path": rows.GREP_TARGET["path"],
            "limit": field(
                "max_results", integer("Maximum number of lines to show (default 250).", minimum=1)
            ),
        },
        fixed={"ignore_case": True, "mode": "content", "line_numbers": True},
        result=qwen.render_grep,
        aliases=("search_file_content",),
    ),
    make_view(
        "glob",
        "Find files whose paths match a glob pattern, recently changed files first, at most 100.",
        "glob",
        {"pattern!": string("Glob such as 'src/**/*.ts'."), "path": rows.DIRECTORY},
        fixed={"max_results": 100, "order": "recent_first", "case_sensitive": False},
        result=gemini.render_glob,
        accepts={"case_sensitive": boolean(), "respect_git_ignore": field("respect_gitignore", boolean())},
    ),
    make_view(
        "list_directory",
        "List the files and directories directly in a directory, at most 100.",
        "list_dir",
        {
            "path!": rows.LISTED_DIRECTORY,
            "ignore": rows.EXCLUDED_NAMES,
            "file_filtering_options": rows.file_filtering_options("qwen"),
        },
        fixed={"limit": 100},
        result=gemini.render_list,
    ),
    make_view(
        "run_shell_command",
        "Run a command with bash in a sandbox. Use is_background for servers and watchers.",
        "shell",
        {
            "command!": rows.COMMAND,
            "is_background": field(
                "background", boolean("Return at once and keep it running (default false).")
            ),
            "timeout": rows.timeout(
                "run_shell_command: timeout", number(_TIMEOUT, maximum=600_000), MAX_TIMEOUT
            ),
            "description": rows.PURPOSE,
            "directory": rows.CWD,
        },
        fixed={"cwd": ".", "max_output": MAX_OUTPUT},
        result=qwen.render_command,
        failure=qwen.render_command,
    ),
    shared_views.make_stop_view(
        "task_stop", rows={"task_id!": field("handle", string("The ID that run_shell_command returned."))}
    ),
    shared_views.make_fetch_view(
        "web_fetch",
        rows={
            "url!": rows.URL,
            "prompt!": rows.prompt("What you want to know about the page."),
            "format": field(
                "format",
                string(
                    "Form of the text (default auto, which is markdown).",
                    enum=["auto", "markdown", "html", "text"],
                ),
                lambda form: UNSET if form == "auto" else form,
            ),
        },
        result=gemini.render_pages,
        failure=gemini.render_pages,
        accepts={"start_line": integer(minimum=1), "start_char": integer(minimum=0)},
    ),
    make_view(
        "web_search",
        "Search the web. Open a result with web_fetch.",
        "web_search",
        {"query!": rows.query(minLength=2)},
        result=gemini.render_search,
    ),
    make_view(
        "todo_write",
        "Replace the list of tasks, which the user sees. Use it for work with several steps; keep one task "
        "in progress.",
        "todo",
        {
            "todos!": rows.todos(
                object_schema(
                    "content status id",
                    content=string("What is to be done.", minLength=1),
                    status=string("State of the task.", enum=["pending", "in_progress", "completed"]),
                    id=string("A unique ID."),
                    blockedBy=string_list("IDs of tasks that must be completed first."),
                ),
                "content",
                extras={"id": "id", "blockedBy": "blocked_by"},
                defaults=lambda item, position: {"id": str(position)},
            )
        },
        result=qwen.render_todos,
    ),
    shared_views.make_questions_view(
        "ask_user_question",
        shared_views.questions_schema("multiSelect", "header description"),
        gemini.render_answers,
        ignores={"metadata"},
    ),
    shared_views.make_notebook_view("notebook_edit"),
    shared_views.make_skill_view("skill", rows={"skill!": rows.SKILL}),
)
TABLES = (
    Facade(
        id="qwen-code",
        title="Qwen Code",
        provider="qwen",
        views=_VIEWS,
        failure=qwen.render_failure,
        note=(
            "Find files with glob and grep_search, read them with read_file, change them with edit, and run "
            "commands with "
            "run_shell_command. Read a file before you change it, and give edit text exactly as it is in the "
            "file. "
            "read_file counts lines from 0; timeouts are milliseconds. Paths may be absolute or relative to "
            "the workspace. "
            "For work with several steps, keep a plan with todo_write."
        ),
        hides=frozenset({"view_image", "multi_edit", "insert", "patch", "read_many", "shell_list", "web"}),
        differences={
            "read_file": "A file that has not changed since it was read is shown again, because the model "
            "may have lost it.",
            "run_shell_command": "The output of a background command is read with shell_output, not from a "
            "file. Notes on the "
            "sandbox follow the output.",
            "web_fetch": "The page itself is returned: no second model answers the prompt.",
        },
    ),
)
