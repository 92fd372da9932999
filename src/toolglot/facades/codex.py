"""DATA: the tools of Codex, as it shows them to GPT models: commands, patches, a plan, images, questions, and
the web.

GPT models outside of Codex have the same as functions, or the API's own `shell` and `apply_patch`. Those are
declared by their type to models that know them; their calls are answered here, with the output and the exit
code of each command. Elsewhere they are functions with the same parameters.
"""

from functools import partial
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.facades import rows, shared_views
from toolglot.facades.gpt.code_mode import EXEC, WAIT
from toolglot.facades.gpt.command_rendering import render_failure
from toolglot.facades.gpt.commands import (
    EXEC_COMMAND,
    HOSTED_SHELL,
    LOCAL_SHELL,
    SHELL_COMMAND,
    STOP_SESSION,
    WRITE_STDIN,
    make_shell,
)
from toolglot.facades.gpt.patches import (
    APPLY_PATCH,
    APPLY_PATCH_OPERATION,
    OPERATION_PARAMETERS,
    make_apply_patch_function,
)
from toolglot.facades.gpt.web import WEB_RUN, WEB_SEARCH
from toolglot.facades.parameters import array, closed_schema, string
from toolglot.facades.table import field, make_view
from toolglot.facades.view import Facade, RenderContext, View
from toolglot.values.request import Schema

__all__ = ["TABLES"]

_STATES = ["pending", "in_progress", "completed"]

# ---- the plan, images, questions


def make_update_plan(**status: Any) -> View:
    """Return the view of the plan. `status`: what the schema says about the status of a step."""

    def make_step(**keywords: Any) -> Schema:
        states = string("State of the step: pending, in_progress or completed.", **keywords)
        return closed_schema("step status", status=states, step=string("What is to be done, in one line."))

    plan = rows.todos(make_step(**status), "step", description="All steps, in order.")
    return make_view(
        "update_plan",
        "Replace the whole plan: its steps in order, at most one in progress. The user sees it.",
        "todo",
        {
            "explanation": string("Why the plan changes."),
            # checked even where it is not shown
            "plan!": replace(plan, accepts=array(make_step(enum=_STATES))),
        },
        closed=True,
        result=lambda context: "Plan updated",
    )


def render_image_failure(context: RenderContext) -> str:
    path = context.native.get("path", "")
    match context.code:
        case "path_not_found":
            return f"unable to locate image at `{path}`: {context.text}"
        case "is_directory":
            return f"image path `{path}` is not a file"
        case "not_image":
            return f"unable to process image: {context.text}"
        case _:
            return render_failure(context)


def make_view_image(*, has_detail: bool) -> View:
    """Return the view of images.

    `has_detail`: whether the model is shown the parameter `detail`, and then the image alone.
    """
    detail = string("high scales the image down (default); original does not.", enum=["high", "original"])
    path_row = {"path!": string("Path of the image.")}
    options: dict[str, Any] = {"rows": path_row, "accepts": {"detail": detail}}
    answer = "attached local image path"
    if has_detail:
        options = {"rows": {"detail": field("detail", detail, default="high"), **path_row}}
        answer = ""
    return make_view(
        "view_image",
        "Show an image file of the workspace.",
        "view_image",
        closed=True,
        result=lambda context: answer,
        failure=render_image_failure,
        ignores={"environment_id"},
        **options,
    )


def render_answers(context: RenderContext) -> str:
    return dumps_text(
        {"answers": {item["id"]: {"answers": item["answers"]} for item in context.data_list("answers")}}
    )


def render_questions_failure(context: RenderContext) -> str:
    if context.kind == "execution":
        return f"request_user_input failed: {context.text}"
    return render_failure(context)


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
    description="Ask the user one to three short questions and wait for the answers; they may always answer "
    "in their own "
    "words. Use it only when the answer affects your work and you cannot find it yourself.",
    closed=True,
    failure=render_questions_failure,
)


# ---- the facades

_FILES = frozenset(
    {
        "read",
        "read_many",
        "write",
        "edit",
        "multi_edit",
        "insert",
        "notebook_edit",
        "grep",
        "glob",
        "list_dir",
    }
)
_HIDES = _FILES | {"shell_output", "shell_kill", "shell_list", "web"}
_COMMON_VIEWS = (make_update_plan(), make_view_image(has_detail=False), WEB_SEARCH)
_EXEC_VIEWS = (
    EXEC_COMMAND,
    WRITE_STDIN,
    STOP_SESSION,
    APPLY_PATCH,
    replace(REQUEST_USER_INPUT, direct=True),
    make_view_image(has_detail=True),
    WEB_RUN,
)
# Parts of the notes: what most of the facades below say in the same words.
_NOTE_SEARCH = (
    "find files with `rg --files` and text with `rg` (or find and grep if it is missing), and "
    "read with `sed -n`."
)
_NOTE_PATCH = "Change files only with apply_patch."
_NOTE_CHECK = "Look at lines before you change them, and run checks afterwards."
_NOTE_PLAN = f"Track multi-step work with update_plan. {_NOTE_CHECK}"
_NOTE_SESSIONS = (
    "A command that is still running has a session ID: wait for it or type into it with "
    "write_stdin, stop it with shell_kill."
)
_NOTE_SCRIPTS = (
    "Call all other tools from JavaScript, with exec: do independent steps in one script, and "
    "show only what you need."
)
_NOTE_EXEC = (
    f"Run commands with exec_command, and set workdir instead of using cd: {_NOTE_SEARCH} "
    f"{_NOTE_PATCH} {_NOTE_SESSIONS}"
)


def describe_argv(shell: str = "shell", directory: str = "workdir", *, applies_patches: bool = False) -> str:
    """Return how to work with a tool that takes a program with its arguments.

    `applies_patches`: it also changes files.
    """
    commands = (
        f'Run commands with {shell}, as ["bash", "-lc", "…"], and set {directory} instead of using '
        f"cd: {_NOTE_SEARCH}"
    )
    patches = (
        f'Change files only through {shell}, too: ["apply_patch", "*** Begin Patch\\n…"].'
        if applies_patches
        else _NOTE_PATCH
    )
    return f"{commands} {patches} {_NOTE_PLAN}"


# Codex puts no error flag on its results: their text says what failed.
_codex_facade = partial(Facade, provider="openai", failure=render_failure, flags_errors=False)
_PATCH_DIFFERENCE = {
    "apply_patch": "A call as a function is accepted, too: where there are no custom tools, it is the only "
    "form."
}
_IMAGE_DIFFERENCE = {
    "view_image": "The image is part of the result; this version of Codex sent it in a message after it."
}

TABLES = (
    # gpt-5.5, since 0.166
    _codex_facade(
        id="codex",
        title="Codex",
        views=_EXEC_VIEWS,
        hides=_FILES | {"shell_list", "todo"},
        note=f"{_NOTE_EXEC} {_NOTE_CHECK}",
        differences=_PATCH_DIFFERENCE,
    ),
    # gpt-5.6 and newer, since 0.166
    _codex_facade(
        id="codex-code-mode",
        title="Codex in code mode",
        views=(EXEC, WAIT, *_EXEC_VIEWS),
        hides=_FILES | {"shell_list", "todo"},
        note=f"{_NOTE_SCRIPTS} {_NOTE_EXEC} {_NOTE_CHECK}",
        differences=_PATCH_DIFFERENCE,
    ),
    # gpt-5.2 to 5.4 and gpt-5.1-codex-max, since 0.142
    _codex_facade(
        id="codex-0.142",
        title="Codex with exec_command and a plan",
        views=(*_EXEC_VIEWS, make_update_plan(enum=_STATES)),
        hides=_FILES | {"shell_list"},
        note=f"{_NOTE_EXEC} {_NOTE_PLAN}",
        differences=_PATCH_DIFFERENCE,
    ),
    # gpt-5.1 to 5.4 and gpt-5-codex, in 0.77
    _codex_facade(
        id="codex-shell-command",
        title="Codex with shell_command",
        views=(SHELL_COMMAND, APPLY_PATCH, *_COMMON_VIEWS),
        hides=_HIDES,
        note=f"Run commands with shell_command, and set workdir instead of using cd: {_NOTE_SEARCH} "
        f"{_NOTE_PATCH} {_NOTE_PLAN}",
        differences=_PATCH_DIFFERENCE | _IMAGE_DIFFERENCE,
    ),
    # gpt-5, gpt-4.1 and o3, in 0.77
    _codex_facade(
        id="codex-shell",
        title="Codex with shell",
        views=(
            make_shell(applies_patches=True),
            replace(make_apply_patch_function(), hidden=True),
            *_COMMON_VIEWS,
        ),
        hides=_HIDES,
        note=describe_argv(applies_patches=True),
        differences=_IMAGE_DIFFERENCE,
    ),
    # gpt-oss, in 0.77
    _codex_facade(
        id="codex-oss",
        title="Codex for open models",
        views=(make_shell(applies_patches=False), make_apply_patch_function(), *_COMMON_VIEWS),
        hides=_HIDES,
        note=describe_argv(),
        differences=_IMAGE_DIFFERENCE,
    ),
    # codex-mini, in 0.77
    _codex_facade(
        id="codex-local-shell",
        title="Codex with local_shell",
        views=(LOCAL_SHELL, replace(make_apply_patch_function(), hidden=True), *_COMMON_VIEWS),
        hides=_HIDES,
        note=describe_argv("local_shell", "working_directory", applies_patches=True),
        differences=_IMAGE_DIFFERENCE,
    ),
    # all other models of OpenAI, outside of Codex
    Facade(
        id="openai",
        title="OpenAI",
        provider="openai",
        views=(
            make_shell(applies_patches=False),
            make_apply_patch_function(accepts=OPERATION_PARAMETERS),
            *_COMMON_VIEWS,
        ),
        hides=_HIDES,
        note=describe_argv(),
    ),
    # only on request: models that know the tools of the API by their types
    Facade(
        id="openai-hosted",
        title="OpenAI hosted shell and apply_patch",
        provider="openai",
        views=(HOSTED_SHELL, APPLY_PATCH_OPERATION, *_COMMON_VIEWS),
        hides=_HIDES,
        note="Run commands with shell; each runs in bash on Linux, in a sandbox, and starts in the "
        "workspace: "
        f"{_NOTE_SEARCH} {_NOTE_PATCH} {_NOTE_PLAN}",
    ),
)
