"""Views that several harnesses have under their own names, with the same parameters but for a detail."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from toolglot.facades.mapping import default_field, questions_case, simple_view
from toolglot.facades.parameters import array, boolean, object_schema, string
from toolglot.facades.view import Field, Renderer, View
from toolglot.request import Schema

__all__ = ["make_notebook_view", "make_questions_view"]

_SchemaMaker = Callable[..., Schema]


def make_questions_view(
    name: str,
    multi: str,
    result: Renderer,
    *,
    required: tuple[str, ...] = (),
    has_preview: bool = False,
    make_schema: _SchemaMaker = object_schema,
    ignored: frozenset[str] = frozenset(),
) -> View:
    """Up to four multiple-choice questions.

    `multi`: the flag that allows several choices. `required`: which of "header", "description" and `multi` must be given. A
    harness that requires none of them declares defaults instead.
    """
    option: dict[str, Any] = {
        "label": string("The choice in 1 to 5 words."),
        "description": string("What this choice means.", **({} if "description" in required else {"default": ""})),
    }
    if has_preview:
        option["preview"] = string("Text to show while the choice is highlighted.")
    flag = boolean("Allow more than one choice.", **({} if required else {"default": False}))
    question = {
        "question": string("The complete question."),
        "header": string("A label of one or two words.", **({} if "header" in required else {"default": ""})),
        "options": array(
            make_schema("label description" if "description" in required else "label", **option),
            "The choices, the recommended one first.",
            minItems=2,
            maxItems=4,
        ),
        multi: flag,
    }
    names = [key for key in question if key in ("question", "options") or key in required]
    return simple_view(
        name,
        "Ask the user up to four multiple-choice questions and wait; they may always answer in their own words. Use it only "
        "when the answer affects your work and you cannot find it yourself.",
        make_schema(
            "questions", questions=array(make_schema(" ".join(names), **question), "The questions.", minItems=1, maxItems=4)
        ),
        questions_case(multi, result, required=required, option_extras=("preview",) if has_preview else ()),
        ignored=ignored,
    )


def make_notebook_view(
    name: str, required: str, result: Renderer | None = None, make_schema: _SchemaMaker = object_schema
) -> View:
    """One cell of a Jupyter notebook is replaced, inserted or deleted."""
    source = default_field("new_source", "source", "", "") if "new_source" in required else Field("new_source", "source")
    return simple_view(
        name,
        "Replace, insert or delete one cell of a Jupyter notebook you have already read.",
        make_schema(
            required,
            notebook_path=string("Path of the notebook, absolute or relative to the workspace."),
            cell_id=string("The cell to change; with insert, the new cell goes after it (default: at the top)."),
            new_source=string("The complete new source of the cell."),
            cell_type=string("Type of the cell; required for insert.", enum=["code", "markdown"]),
            edit_mode=string("What to do (default replace).", enum=["replace", "insert", "delete"]),
        ),
        "notebook_edit",
        (
            Field("notebook_path", "path"),
            "cell_id",
            source,
            Field("cell_type", "cell_type", from_base=lambda kind: UNSET if kind == "raw" else kind),
            Field("edit_mode", "mode"),
        ),
        result=result,
    )
