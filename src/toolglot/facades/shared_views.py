"""Views that several harnesses have under their own names: questions for the user, and cells of a notebook."""

from typing import Any, cast

from toolglot.facades.parameters import array, boolean, closed_schema, object_schema, string
from toolglot.facades.table import field, make_view
from toolglot.facades.view import Arguments, Renderer, View
from toolglot.request import Schema

__all__ = ["make_notebook_view", "make_questions_view", "questions_schema"]

QUESTIONS_DESCRIPTION = (
    "Ask the user up to four multiple-choice questions and wait; they may always answer in their own words. Use it only "
    "when the answer affects your work and you cannot find it yourself."
)


def questions_schema(multi: str, required: str = "", *, has_preview: bool = False, closed: bool = False) -> Schema:
    """The list of up to four questions with two to four options each.

    `multi`: the flag that allows several choices. `required`: which of "header", "description" and `multi` must be given; a
    harness that requires none of them declares defaults instead.
    """
    make_schema = closed_schema if closed else object_schema
    header, description, flag = (
        {} if name in required.split() or (name == multi and required) else {"default": default}
        for name, default in (("header", ""), ("description", ""), (multi, False))
    )
    option = {
        "label": string("The choice in 1 to 5 words."),
        "description": string("What this choice means.", **description),
        **({"preview": string("Text to show while the choice is highlighted.")} if has_preview else {}),
    }
    options = make_schema("label" if description else "label description", **option)
    question = {
        "question": string("The complete question."),
        "header": string("A label of one or two words.", **header),
        "options": array(options, "The choices, the recommended one first.", minItems=2, maxItems=4),
        multi: boolean("Allow more than one choice.", **flag),
    }
    names = [key for key in question if key in ("question", "options", *required.split())]
    return array(make_schema(" ".join(names), **question), "The questions.", minItems=1, maxItems=4)


def make_questions_view(
    name: str,
    questions: Schema,
    result: Renderer,
    *,
    multi: str = "multiSelect",
    description: str = QUESTIONS_DESCRIPTION,
    **options: Any,
) -> View:
    """Questions for the user. Their schema decides what can be expressed: which keys there are, and how many options."""
    question_schema: Schema = questions["items"]
    option_schema: Schema = question_schema["properties"]["options"]["items"]
    has_types = "type" in question_schema["properties"]

    def to_base(question: Arguments) -> Arguments:
        options = [_nonempty(option, "label", "description", "preview") for option in question.get("options") or ()]
        kind = question.get("type") or ("choice" if options else "text")
        base = _nonempty(question, "id", "question", "header")
        if kind != "choice":
            return {**base, "kind": kind}
        return {**base, "options": options, **({"multi": True} if question.get(multi) else {})}

    def get_options(question: Arguments) -> list[Arguments]:
        if question.get("kind") == "yesno" and not has_types:
            return [{"label": "yes"}, {"label": "no"}]
        return cast(list[Arguments], question.get("options") or [])

    def from_base(question: Arguments, position: int) -> Arguments:
        native: Arguments = {
            "id": question.get("id") or str(position),
            "question": question.get("question", ""),
            "header": question.get("header", ""),
            "type": question.get("kind", "choice"),
            "options": [_fit({"description": "", **option}, option_schema) for option in get_options(question)],
            multi: bool(question.get("multi")),
        }
        return _fit(native, question_schema)

    def can_express(base: Arguments) -> bool:
        asked = cast(list[Arguments], base.get("questions") or [])
        limits = question_schema["properties"]["options"]
        return _fits_length(asked, questions) and all(_fits_length(get_options(question), limits) for question in asked)

    row = field(
        "questions",
        questions,
        lambda items: [to_base(question) for question in items],
        lambda items: [from_base(question, position) for position, question in enumerate(items, 1)],
    )
    return make_view(name, description, "ask_user", {"questions!": row}, result=result, can_express=can_express, **options)


def _nonempty(arguments: Arguments, *names: str) -> Arguments:
    return {name: arguments[name] for name in names if arguments.get(name)}


def _fit(values: Arguments, schema: Schema) -> Arguments:
    """What an object schema asks for: its properties that have a value, and those that are required."""
    return {name: values[name] for name in schema["properties"] if values.get(name) or name in schema["required"]}


def _fits_length(items: list[Arguments], schema: Schema) -> bool:
    return schema.get("minItems", 0) <= len(items) <= schema.get("maxItems", len(items))


def make_notebook_view(name: str, result: Renderer | None = None, *, requires_source: bool = False) -> View:
    """One cell of a Jupyter notebook is replaced, inserted or deleted."""
    source = string("The complete new source of the cell.")
    return make_view(
        name,
        "Replace, insert or delete one cell of a Jupyter notebook you have already read.",
        "notebook_edit",
        {
            "notebook_path!": field("path", string("Path of the notebook, absolute or relative to the workspace.")),
            "cell_id": string("The cell to change; with insert, the new cell goes after it (default: at the top)."),
            **(
                {"new_source!": field("source", source, default="", base_default="")}
                if requires_source
                else {"new_source": field("source", source)}
            ),
            "cell_type": string("Type of the cell; required for insert.", enum=["code", "markdown"]),
            "edit_mode": field("mode", string("What to do (default replace).", enum=["replace", "insert", "delete"])),
        },
        result=result,
        closed=requires_source,
    )
