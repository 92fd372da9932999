"""The `ask_user` tool's questions in an editor: as a form if it supports forms, otherwise as choices like an
approval.
"""

from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from acp.exceptions import RequestError
from acp.schema import (
    ElicitationBooleanPropertySchema,
    ElicitationMultiSelectPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    EnumOption,
    PermissionOption,
    TitledMultiSelectItems,
    ToolCallUpdate,
)

from toolglot.acp.connection import EditorConnection
from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.common.sanitize import escape_deceptive, escape_line
from toolglot.values.approvals import ApprovalRequest

__all__ = ["ask_questions", "fill_form", "has_forms"]

_DECLINE = "decline"


def has_forms(editor: EditorConnection) -> bool:
    """Return whether the editor can show forms."""
    elicitation = editor.capabilities.elicitation
    return elicitation is not None and elicitation.form is not None


async def ask_questions(
    editor: EditorConnection, session_id: str, questions: list[UserQuestion]
) -> Sequence[UserAnswer]:
    """Ask the user; return no answers if they decline. Raises OSError if the editor cannot ask."""
    try:
        if has_forms(editor):
            properties = {question.id: to_property(question) for question in questions}
            schema = ElicitationSchema(properties=properties, required=[*properties])
            message = "\n".join(question.question for question in questions)
            values = await editor.fill_form(session_id, escape_deceptive(message), schema)
            return [] if values is None else [to_answer(values.get(question.id)) for question in questions]
        answers: list[UserAnswer] = []
        for question in questions:
            if (answer := await _choose(editor, session_id, question)) is None:
                return []
            answers.append(answer)
        return answers
    except RequestError as e:
        raise OSError(0, f"the editor answered: {e}") from None


async def fill_form(
    editor: EditorConnection, session_id: str, request: ApprovalRequest
) -> dict[str, Any] | None:
    """Let the user fill in an MCP server's form; None if they decline. Raises RequestError."""
    try:
        schema = ElicitationSchema.model_validate(request.form)
    except ValueError:
        raise RequestError.invalid_params({"form": "it has fields that editors cannot show"}) from None
    return await editor.fill_form(session_id, escape_line(request.reason), schema)


def to_property(question: UserQuestion) -> Any:
    """Return the form field for a question."""
    title = question.header or question.question
    choices = [
        EnumOption(const=option.label, title=option.label, description=option.description or None)
        for option in question.options
    ]
    text: dict[str, Any] = {"title": title, "description": question.question}
    if question.kind == "yesno":
        return ElicitationBooleanPropertySchema(type="boolean", **text)
    if question.multi:
        return ElicitationMultiSelectPropertySchema(
            type="array", items=TitledMultiSelectItems(any_of=choices), **text
        )
    return ElicitationStringPropertySchema(type="string", one_of=choices or None, **text)


def to_answer(value: Any) -> UserAnswer:
    """Return the answer that a form value stands for."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return [*map(str, cast(list[Any], value))]
        case None:
            return ""
        case _:
            return str(value)


async def _choose(editor: EditorConnection, session_id: str, question: UserQuestion) -> str | None:
    labels = [option.label for option in question.options] if question.kind == "choice" else ["yes", "no"]
    if question.kind == "text":
        raise OSError(0, "this editor cannot ask for text")
    options = [
        PermissionOption(option_id=str(number), name=label, kind="allow_once")
        for number, label in enumerate(labels)
    ]
    options.append(PermissionOption(option_id=_DECLINE, name="Decline to answer", kind="reject_once"))
    call = ToolCallUpdate(
        tool_call_id=f"question-{uuid4().hex[:8]}", title=escape_line(question.question), kind="other"
    )
    chosen = await editor.ask_permission(session_id, call, options)
    return labels[int(chosen)] if chosen.isdecimal() and int(chosen) < len(labels) else None
