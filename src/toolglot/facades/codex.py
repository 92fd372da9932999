"""DATA: the tools of Codex, as it shows them to GPT models: commands, patches, a plan, images, questions, and the web.

GPT models outside of Codex have the same as functions, or the API's own `shell` and `apply_patch`. Those are declared by their
type to models that know them; their calls are answered here, with the output and the exit code of each command. Elsewhere they
are functions with the same parameters.
"""

import sys
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades import rows, shared_views
from toolglot.facades.gpt.commands import EXEC_COMMAND, HOSTED_SHELL, SHELL_COMMAND, STOP_SESSION, WRITE_STDIN, make_shell
from toolglot.facades.gpt.patches import APPLY_PATCH, APPLY_PATCH_OPERATION, OPERATION_PARAMETERS, make_apply_patch_function
from toolglot.facades.gpt.web import WEB_RUN, WEB_SEARCH
from toolglot.facades.parameters import array, closed_schema, number, string
from toolglot.facades.table import Row, aliased, call_field, field, make_view
from toolglot.facades.view import Arguments, Facade, RenderContext, View
from toolglot.jsontext import dumps_text

__all__ = ["TABLES"]

# ---- tools for files that Codex had for a while: its models may remember them; they are understood and never shown

_MAX_LINE_LENGTH = 500
_DEFAULT_LINES, _DEFAULT_FILES, _MAX_FILES, _DEFAULT_ENTRIES, _DEFAULT_DEPTH = 2000, 100, 2000, 25, 2
_legacy_view = partial(make_view, closed=True, hidden=True)


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


_LEGACY_VIEWS = (
    _legacy_view(
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
    _legacy_view(
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
    _legacy_view(
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


# ---- the plan, images, questions


def make_update_plan(**status: Any) -> View:
    """The plan. `status`: what the schema says about the status of a step."""
    step = closed_schema(
        "step status", status=string("State of the step.", **status), step=string("What is to be done, in one line.")
    )
    return make_view(
        "update_plan",
        "Replace the whole plan: its steps in order, at most one in progress. The user sees it.",
        "todo",
        {
            "explanation": string("Why the plan changes."),
            "plan!": rows.todos(step, "step", description="All steps, in order."),
        },
        closed=True,
        result=lambda context: "Plan updated",
    )


def make_view_image(*, has_detail: bool) -> View:
    """Images. `has_detail`: whether the model is shown the parameter `detail`."""
    detail = string("high scales the image down (default); original does not.", enum=["high", "original"])
    return make_view(
        "view_image",
        "Show an image file of the workspace.",
        "view_image",
        {**({"detail": detail} if has_detail else {}), "path!": string("Path of the image.")},
        closed=True,
        result=lambda context: "attached local image path",
        failure=lambda context: f"unable to locate image: {context.text}" if context.code == "path_not_found" else context.text,
        accepts={} if has_detail else {"detail": detail},
        ignores={"environment_id"},
    )


def render_answers(context: RenderContext) -> str:
    return dumps_text({"answers": {item["id"]: {"answers": item["answers"]} for item in context.data_list("answers")}})


def render_questions_failure(context: RenderContext) -> str:
    return f"request_user_input failed: {context.text}" if context.kind == "execution" else context.text


REQUEST_USER_INPUT = shared_views.make_questions_view(
    "request_user_input",
    array(
        closed_schema(
            "id header question options",
            header=string("A label of at most 12 characters."),
            id=string("An identifier for the question, in snake_case."),
            options=array(
                closed_schema(
                    "label description",
                    description=string("What this choice means, in one sentence."),
                    label=string("The choice in 1 to 5 words."),
                ),
                "Two to four mutually exclusive choices, the recommended one first.",
            ),
            question=string("The question, in one sentence."),
        ),
        "The questions, at most three.",
    ),
    render_answers,
    description="Ask the user one to three short questions and wait for the answers; they may always answer in their own "
    "words. Use it only when the answer affects your work and you cannot find it yourself.",
    closed=True,
    failure=render_questions_failure,
)


# ---- the facades

_FILES = frozenset({"read", "read_many", "write", "edit", "multi_edit", "insert", "notebook_edit", "grep", "glob", "list_dir"})
_HIDES = _FILES | {"shell_output", "shell_kill", "shell_list", "web"}
_COMMON_VIEWS = (make_update_plan(), make_view_image(has_detail=False), WEB_SEARCH, *_LEGACY_VIEWS)
_SEARCH = "find files with `rg --files` and text with `rg` (or find and grep if it is missing), and read with `sed -n`."
_ARGV = f'Run commands with shell, as ["bash", "-lc", "…"], and set workdir instead of using cd: {_SEARCH}'
_PATCH = "Change files only with apply_patch."
_PLAN = "Track multi-step work with update_plan. Look at lines before you change them, and run checks afterwards."
_SESSIONS = (
    "A command that is still running has a session ID: wait for it or type into it with write_stdin, stop it with shell_kill."
)

TABLES = (
    Facade(
        id="codex",
        title="Codex",
        provider="openai",
        views=(
            *(EXEC_COMMAND, WRITE_STDIN, STOP_SESSION, APPLY_PATCH),
            make_update_plan(enum=["pending", "in_progress", "completed"]),
            *(REQUEST_USER_INPUT, make_view_image(has_detail=True), WEB_RUN),
            *_LEGACY_VIEWS,
        ),
        hides=_FILES | {"shell_list"},
        note=f"Run commands with exec_command, and set workdir instead of using cd: {_SEARCH} {_PATCH} {_SESSIONS} {_PLAN}",
    ),
    Facade(
        id="codex-shell-command",
        title="Codex with shell_command",
        provider="openai",
        views=(SHELL_COMMAND, APPLY_PATCH, *_COMMON_VIEWS),
        hides=_HIDES,
        note=f"Run commands with shell_command, and set workdir instead of using cd: {_SEARCH} {_PATCH} {_PLAN}",
    ),
    Facade(
        id="codex-shell",
        title="Codex with shell",
        provider="openai",
        views=(make_shell(applies_patches=True), replace(make_apply_patch_function(), hidden=True), *_COMMON_VIEWS),
        hides=_HIDES,
        note=f'{_ARGV} Change files only through shell, too: ["apply_patch", "*** Begin Patch\\n…"]. {_PLAN}',
    ),
    Facade(
        id="codex-oss",
        title="Codex for open models",
        provider="openai",
        views=(make_shell(applies_patches=False), make_apply_patch_function(), make_update_plan(), WEB_SEARCH, *_LEGACY_VIEWS),
        hides=_HIDES | {"view_image"},
        note=f"{_ARGV} {_PATCH} {_PLAN}",
    ),
    Facade(
        id="openai",
        title="OpenAI",
        provider="openai",
        views=(make_shell(applies_patches=False), make_apply_patch_function(accepts=OPERATION_PARAMETERS), *_COMMON_VIEWS),
        hides=_HIDES,
        note=f"{_ARGV} {_PATCH} {_PLAN}",
    ),
    Facade(
        id="openai-hosted",
        title="OpenAI hosted shell and apply_patch",
        provider="openai",
        views=(HOSTED_SHELL, APPLY_PATCH_OPERATION, *_COMMON_VIEWS),
        hides=_HIDES,
        note="Run commands with shell; each runs in bash on Linux, in a sandbox, and starts in the workspace: "
        f"{_SEARCH} {_PATCH} {_PLAN}",
    ),
)
