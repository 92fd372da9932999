"""DATA: the tools of Codex, as it shows them to GPT models: commands, patches, a plan, images, questions, and the web."""

from typing import Any, cast

from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.gpt.commands import exec_command, shell_command, shell_view, write_stdin
from toolglot.facades.gpt.older import OLDER
from toolglot.facades.gpt.patches import apply_patch, apply_patch_function
from toolglot.facades.gpt.web import web_run, web_search
from toolglot.facades.view import Arguments, Case, Facade, Field, Said, View, closed, text
from toolglot.jsontext import dumps_text

__all__ = ["ARGV_NOTE", "FINDING", "OTHERS", "TABLES", "update_plan", "view_image"]

# ---- the plan, images, questions

_STATUSES = ("pending", "in_progress", "completed")
_NEAREST = {"cancelled": "completed", "blocked": "pending"}


def _items(plan: Any) -> list[Arguments]:
    return [{"text": one["step"], "status": one["status"]} for one in plan]


def _steps(items: Any) -> Any:
    return [{"step": one["text"], "status": _NEAREST.get(one["status"], one["status"])} for one in items]


def update_plan(**status: Any) -> View:
    """The plan. `status`: what the schema says of a step's status."""
    step = closed("step status", status=text(**status), step=text(description="What is to be done, in a line."))
    return View(
        name="update_plan",
        description="Writes the whole plan anew: its steps in order, at most one of them in progress. The user sees it.",
        parameters=closed(
            "plan",
            explanation=text(description="Why the plan changes."),
            plan={"type": "array", "items": step, "description": "All steps."},
        ),
        cases={
            "": Case(
                base="todo",
                says=lambda base: base.get("items") is not None,  # a plan is always written
                fields=("explanation", Field(native="plan", base="items", into=_items, back=_steps)),
                result=lambda said: "Plan updated",
            )
        },
    )


def view_image(*, detail: bool) -> View:
    """Images. `detail`: whether the model is told that it can look more closely."""
    closer = text(enum=["high", "original"], description="original: without making it smaller; high without.")
    said = frozenset({"high", "original"} if detail else ())
    return View(
        name="view_image",
        description="Shows an image file of the workspace.",
        parameters=closed("path", **({"detail": closer} if detail else {}), path=text(description="The image.")),
        cases={
            "": Case(
                base="view_image",
                fields=(
                    "path",
                    Field(native="detail", base="detail", back=lambda given: given if given in said else UNSET),
                ),
                result=lambda said: "attached local image path",
                failure=lambda said: f"unable to locate image: {said.text}" if said.kind == "not_found" else said.text,
            )
        },
        accepts={} if detail else {"detail": closer},
        ignored=frozenset({"environment_id"}),
    )


def _asked(questions: Any) -> list[Arguments]:
    kept = ("id", "header", "question", "options")
    return [
        {**{name: one[name] for name in kept if name in one}, "kind": "choice" if one.get("options") else "text"}
        for one in questions
    ]


def _question(one: Arguments, place: int) -> Arguments:
    options = cast(list[Arguments], one.get("options") or ())
    return {
        "id": one.get("id") or str(place),
        "header": one.get("header") or "",
        "question": one["question"],
        "options": [{"label": option["label"], "description": option.get("description", "")} for option in options],
    }


def _questions(questions: Any) -> Any:
    return [_question(one, place) for place, one in enumerate(questions, 1)]


def _answers(said: Said) -> str:
    return dumps_text({"answers": {one["id"]: {"answers": one["answers"]} for one in said.part("answers")}})


request_user_input = View(
    name="request_user_input",
    description=(
        "Asks the user one to three short questions and waits for the answers. They may always answer in words of their own. "
        "Only where the answer changes what you do."
    ),
    parameters=closed(
        "questions",
        questions={
            "type": "array",
            "description": "The questions, three at most.",
            "items": closed(
                "id header question options",
                header=text(description="The matter in a word or two, 12 characters at most."),
                id=text(description="A name for the question, in snake_case."),
                options={
                    "type": "array",
                    "description": "Two to four answers that exclude each other, the best one first.",
                    "items": closed(
                        "label description",
                        description=text(description="What it would mean, in a sentence."),
                        label=text(description="The answer in a few words."),
                    ),
                },
                question=text(description="The question, in one sentence."),
            ),
        },
    ),
    cases={
        "": Case(
            base="ask_user",
            fields=(Field(native="questions", base="questions", into=_asked, back=_questions),),
            result=_answers,
            failure=lambda said: f"request_user_input failed: {said.text}" if said.kind == "execution" else said.text,
        )
    },
)


# ---- the tables

_STATUS = {"enum": list(_STATUSES)}
_OWN = frozenset({"ast_search", "ast_rewrite", "memory"})
OTHERS = _OWN | {"ask_user", "web_open", "web_find"}
FINDING = "find files with `rg --files` and text with `rg` (or find and grep where it is missing), and read with `sed -n`."
_CHANGING = "Change files with apply_patch only."
_CARE = "Look at the lines that you change before you change them, and run what checks them afterwards."
ARGV_NOTE = f'Run commands with shell, as ["bash", "-lc", "…"], and set workdir in the place of cd: {FINDING}'

TABLES = (
    Facade(
        id="codex",
        title="Codex",
        views=(
            exec_command,
            write_stdin,
            apply_patch,
            update_plan(**_STATUS),
            request_user_input,
            view_image(detail=True),
            web_run,
            *OLDER,
        ),
        shows=_OWN | {"shell_kill"},
        note=(
            f"Run commands with exec_command, and set workdir in the place of cd: {FINDING} {_CHANGING} "
            "A command that still runs has a session ID: wait for it or type into it with write_stdin, end it with shell_kill, "
            f"whose handle is the session ID. Keep longer work in update_plan. {_CARE}"
        ),
    ),
    Facade(
        id="codex-shell-command",
        title="Codex with shell_command",
        views=(shell_command, apply_patch, update_plan(), view_image(detail=False), web_search, *OLDER),
        shows=OTHERS,
        note=(
            f"Run commands with shell_command, and set workdir in the place of cd: {FINDING} {_CHANGING} "
            f"Keep longer work in update_plan. {_CARE}"
        ),
    ),
    Facade(
        id="codex-shell",
        title="Codex with shell",
        views=(
            *(shell_view(patches=True), update_plan(), view_image(detail=False), web_search),
            replace(apply_patch_function(), hidden=True),
            *OLDER,
        ),
        shows=OTHERS,
        note=(
            f'{ARGV_NOTE} Change files with shell too, and only so: ["apply_patch", "*** Begin Patch\\n…"]. '
            f"Keep longer work in update_plan. {_CARE}"
        ),
    ),
    Facade(
        id="codex-oss",
        title="Codex for open models",
        views=(shell_view(patches=False), apply_patch_function(), update_plan(), web_search, *OLDER),
        shows=OTHERS,
        note=f"{ARGV_NOTE} {_CHANGING} Keep longer work in update_plan. {_CARE}",
    ),
)
