"""DATA: the tools of Codex, as it shows them to GPT models: commands, patches, a plan, images, questions, and the web."""

from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.gpt.commands import EXEC_COMMAND, SHELL_COMMAND, WRITE_STDIN, make_shell
from toolglot.facades.gpt.legacy import LEGACY_VIEWS
from toolglot.facades.gpt.patches import APPLY_PATCH, make_apply_patch_function
from toolglot.facades.gpt.web import WEB_RUN, WEB_SEARCH
from toolglot.facades.view import Arguments, Case, Facade, Field, RenderContext, View, closed_schema, string
from toolglot.jsontext import dumps_text

__all__ = ["ARGV_NOTE", "OTHER_BASE_TOOLS", "SEARCH_HINT", "TABLES", "make_update_plan", "make_view_image"]

# ---- the plan, images, questions

_STATUSES = ("pending", "in_progress", "completed")
_NEAREST_STATUS = {"cancelled": "completed", "blocked": "pending"}


def _plan_to_base(plan: Any) -> list[Arguments]:
    return [{"text": one["step"], "status": one["status"]} for one in plan]


def _plan_from_base(items: Any) -> Any:
    return [{"step": one["text"], "status": _NEAREST_STATUS.get(one["status"], one["status"])} for one in items]


def make_update_plan(**status: Any) -> View:
    """The plan. `status`: what the schema says of a step's status."""
    step = closed_schema("step status", status=string(**status), step=string(description="What is to be done, in a line."))
    return View(
        name="update_plan",
        description="Writes the whole plan anew: its steps in order, at most one of them in progress. The user sees it.",
        parameters=closed_schema(
            "plan",
            explanation=string(description="Why the plan changes."),
            plan={"type": "array", "items": step, "description": "All steps."},
        ),
        cases={
            "": Case(
                base="todo",
                can_express=lambda base: base.get("items") is not None,  # a plan is always written
                fields=("explanation", Field(native="plan", base="items", to_base=_plan_to_base, from_base=_plan_from_base)),
                result=lambda said: "Plan updated",
            )
        },
    )


def make_view_image(*, has_detail: bool) -> View:
    """Images. `detail`: whether the model is told that it can look more closely."""
    closer = string(enum=["high", "original"], description="original: without making it smaller; high without.")
    said = frozenset({"high", "original"} if has_detail else ())
    return View(
        name="view_image",
        description="Shows an image file of the workspace.",
        parameters=closed_schema("path", **({"detail": closer} if has_detail else {}), path=string(description="The image.")),
        cases={
            "": Case(
                base="view_image",
                fields=(
                    "path",
                    Field(native="detail", base="detail", from_base=lambda given: given if given in said else UNSET),
                ),
                result=lambda said: "attached local image path",
                failure=lambda said: f"unable to locate image: {said.text}" if said.kind == "not_found" else said.text,
            )
        },
        accepts={} if has_detail else {"detail": closer},
        ignored=frozenset({"environment_id"}),
    )


def _questions_to_base(questions: Any) -> list[Arguments]:
    kept = ("id", "header", "question", "options")
    return [
        {**{name: one[name] for name in kept if name in one}, "kind": "choice" if one.get("options") else "text"}
        for one in questions
    ]


def _question_from_base(question: Arguments, position: int) -> Arguments:
    options = cast(list[Arguments], question.get("options") or ())
    return {
        "id": question.get("id") or str(position),
        "header": question.get("header") or "",
        "question": question["question"],
        "options": [{"label": option["label"], "description": option.get("description", "")} for option in options],
    }


def _questions_from_base(questions: Any) -> Any:
    return [_question_from_base(one, place) for place, one in enumerate(questions, 1)]


def _render_answers(context: RenderContext) -> str:
    return dumps_text({"answers": {one["id"]: {"answers": one["answers"]} for one in context.data_list("answers")}})


REQUEST_USER_INPUT = View(
    name="request_user_input",
    description=(
        "Asks the user one to three short questions and waits for the answers. They may always answer in words of their own. "
        "Only where the answer changes what you do."
    ),
    parameters=closed_schema(
        "questions",
        questions={
            "type": "array",
            "description": "The questions, three at most.",
            "items": closed_schema(
                "id header question options",
                header=string(description="The matter in a word or two, 12 characters at most."),
                id=string(description="A name for the question, in snake_case."),
                options={
                    "type": "array",
                    "description": "Two to four answers that exclude each other, the best one first.",
                    "items": closed_schema(
                        "label description",
                        description=string(description="What it would mean, in a sentence."),
                        label=string(description="The answer in a few words."),
                    ),
                },
                question=string(description="The question, in one sentence."),
            ),
        },
    ),
    cases={
        "": Case(
            base="ask_user",
            fields=(Field(native="questions", base="questions", to_base=_questions_to_base, from_base=_questions_from_base),),
            result=_render_answers,
            failure=lambda said: f"request_user_input failed: {said.text}" if said.kind == "execution" else said.text,
        )
    },
)


# ---- the tables

_STATUS = {"enum": list(_STATUSES)}
_COMMON_BASE_TOOLS = frozenset({"ast_search", "ast_rewrite", "memory"})
OTHER_BASE_TOOLS = _COMMON_BASE_TOOLS | {"ask_user", "web_open", "web_find"}
SEARCH_HINT = "find files with `rg --files` and text with `rg` (or find and grep where it is missing), and read with `sed -n`."
_PATCH_ONLY = "Change files with apply_patch only."
_REVIEW_HINT = "Look at the lines that you change before you change them, and run what checks them afterwards."
ARGV_NOTE = f'Run commands with shell, as ["bash", "-lc", "…"], and set workdir in the place of cd: {SEARCH_HINT}'

TABLES = (
    Facade(
        id="codex",
        title="Codex",
        views=(
            EXEC_COMMAND,
            WRITE_STDIN,
            APPLY_PATCH,
            make_update_plan(**_STATUS),
            REQUEST_USER_INPUT,
            make_view_image(has_detail=True),
            WEB_RUN,
            *LEGACY_VIEWS,
        ),
        shows=_COMMON_BASE_TOOLS | {"shell_kill"},
        note=(
            f"Run commands with exec_command, and set workdir in the place of cd: {SEARCH_HINT} {_PATCH_ONLY} "
            "A command that still runs has a session ID: wait for it or type into it with write_stdin, end it with shell_kill, "
            f"whose handle is the session ID. Keep longer work in update_plan. {_REVIEW_HINT}"
        ),
    ),
    Facade(
        id="codex-shell-command",
        title="Codex with shell_command",
        views=(SHELL_COMMAND, APPLY_PATCH, make_update_plan(), make_view_image(has_detail=False), WEB_SEARCH, *LEGACY_VIEWS),
        shows=OTHER_BASE_TOOLS,
        note=(
            f"Run commands with shell_command, and set workdir in the place of cd: {SEARCH_HINT} {_PATCH_ONLY} "
            f"Keep longer work in update_plan. {_REVIEW_HINT}"
        ),
    ),
    Facade(
        id="codex-shell",
        title="Codex with shell",
        views=(
            *(make_shell(applies_patches=True), make_update_plan(), make_view_image(has_detail=False), WEB_SEARCH),
            replace(make_apply_patch_function(), hidden=True),
            *LEGACY_VIEWS,
        ),
        shows=OTHER_BASE_TOOLS,
        note=(
            f'{ARGV_NOTE} Change files with shell too, and only so: ["apply_patch", "*** Begin Patch\\n…"]. '
            f"Keep longer work in update_plan. {_REVIEW_HINT}"
        ),
    ),
    Facade(
        id="codex-oss",
        title="Codex for open models",
        views=(make_shell(applies_patches=False), make_apply_patch_function(), make_update_plan(), WEB_SEARCH, *LEGACY_VIEWS),
        shows=OTHER_BASE_TOOLS,
        note=f"{ARGV_NOTE} {_PATCH_ONLY} Keep longer work in update_plan. {_REVIEW_HINT}",
    ),
)
