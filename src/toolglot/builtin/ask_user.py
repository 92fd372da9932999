"""The tool `ask_user`: questions that only a person can answer.

Laws: nothing is asked that was not whole (every question and option has its words, once). Each question has one answer in the
result, in the user's own words where none of the options was right. Where nobody is there, the model is told to decide.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from toolglot.builtin.files.text import check_text
from toolglot.builtin.tool_state import ToolState, UserAnswer, UserQuestion, to_data
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["AnsweredQuestion", "AskUserResult", "OptionInput", "QuestionInput", "ask_tools"]

Kind = Literal["choice", "text", "yesno"]

MAX_QUESTIONS = 4
MIN_OPTIONS, MAX_OPTIONS = 2, 4
TIMEOUT_SECONDS = 24 * 3600.0
"""Seconds that a person may take."""
_MAX_CHARS = {"question": 4000, "header": 100, "label": 300, "description": 2000, "preview": 20_000, "id": 100}
_MAX_ANSWER_CHARS = 20_000
_EXAMPLE = {
    "questions": [
        {
            "question": "Which database should the tests use?",
            "header": "Database",
            "options": [
                {"label": "SQLite", "description": "Nothing to install; in memory"},
                {"label": "PostgreSQL", "description": "As in production; needs a server"},
            ],
        }
    ]
}


@dataclass(frozen=True, kw_only=True)
class OptionInput:
    """An answer that is offered.

    Attributes:
        label: The answer, in a few words.
        description: What it would mean to choose it.
        preview: Code or text that shows what the user would get.
    """

    label: str
    description: str = ""
    preview: str = ""


@dataclass(frozen=True, kw_only=True)
class QuestionInput:
    """Something that the user is asked.

    Attributes:
        question: The whole question, which ends with a question mark.
        header: The matter in a word or two, at most 12 characters.
        kind: choice has options; text is answered freely; yesno with yes or no.
        options: 2 to 4 answers, for a choice only.
        multi: Whether several options may be chosen.
        id: A name for the question; its number without one.
    """

    question: str
    header: str = ""
    kind: Kind = "choice"
    options: list[OptionInput] = field(default_factory=list[OptionInput])
    multi: bool = False
    id: str = ""


class AnsweredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said to one question."""

    id: str
    question: str
    header: str
    kind: Kind
    multi: bool
    answers: list[str]
    """One; several or none where it is multi; none where the user left it open."""
    own_words: bool
    """Some of it is not among the options."""


class AskUserResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answers, in the order of the questions."""

    answers: list[AnsweredQuestion]


def ask_tools(state: ToolState) -> list[Tool]:
    """The tool `ask_user`."""

    @tool(
        name="ask_user",
        effects="read",
        approval=False,
        timeout=TIMEOUT_SECONDS,
        examples=[_EXAMPLE],
        target=lambda arguments: "the user",
        preview=_preview_questions,
    )
    async def ask_user(questions: list[QuestionInput]) -> ToolOutput:
        """Asks the user up to four questions and waits for the answers. The user may always answer in words of their own.

        Use it where the answer changes what you do and cannot be found out; not for leave to go on.

        Args:
            questions: 1 to 4 questions that do not depend on each other.
        """
        asked = [_validate_question(one, number) for number, one in enumerate(_check_question_count(questions), 1)]
        _check_unique(asked)
        said = await _ask(state, asked)
        given = [_build_answer(one, answer) for one, answer in zip(asked, said, strict=True)]
        return ToolOutput("\n".join(map(_render_answer, given)), to_data(AskUserResult(answers=given)))

    return [ask_user]


# ---- questions


def _check_question_count(questions: list[QuestionInput]) -> list[QuestionInput]:
    if not 1 <= len(questions) <= MAX_QUESTIONS:
        raise ToolError(f"{len(questions)} questions: ask 1 to {MAX_QUESTIONS} at once", kind="validation")
    return questions


def _validate_question(question: QuestionInput, number: int) -> UserQuestion:
    where = f"question {number}"
    if not question.question.strip():
        raise ToolError(f"{where} has no words: say what you want to know", kind="validation")
    if question.kind == "choice" and not MIN_OPTIONS <= len(question.options) <= MAX_OPTIONS:
        why = f"{where} has {len(question.options)} options, and a choice has {MIN_OPTIONS} to {MAX_OPTIONS}"
        raise ToolError(f"{why}: change them, or use kind=text", kind="validation")
    if question.kind != "choice" and (question.options or question.multi):
        what = "options" if question.options else "`multi`"
        raise ToolError(f"{where} is of kind {question.kind}, which goes without {what}: use kind=choice", kind="validation")
    labels = [option.label.strip() for option in question.options]
    if "" in labels or len(set(map(str.casefold, labels))) < len(labels):
        raise ToolError(f"the options of {where} are not told apart: give each its own label", kind="validation")
    return UserQuestion(
        question=_check_field(question.question, "question", where),
        header=_check_field(question.header, "header", where),
        kind=question.kind,
        options=tuple(_build_option(option, where) for option in question.options),
        multi=question.multi,
        id=_check_field(question.id, "id", where) or str(number),
    )


def _build_option(option: OptionInput, where: str) -> dict[str, str]:
    fields = {"label": option.label, "description": option.description, "preview": option.preview}
    return {name: _check_field(text, name, where) for name, text in fields.items() if text or name != "preview"}


def _check_field(text: str, field_name: str, where: str) -> str:
    return check_text(text, f"the {field_name} of {where}", _MAX_CHARS[field_name]).strip()


def _check_unique(questions: Sequence[UserQuestion]) -> None:
    """Answers are found by id or by question, so both must be clear."""
    for what, words in (("id", [one.id for one in questions]), ("text", [one.question for one in questions])):
        if len(set(words)) < len(words):
            raise ToolError(f"two questions have the same {what}: give each its own", kind="validation")


def _preview_questions(arguments: dict[str, Any]) -> str:
    questions = cast(list[dict[str, Any]], arguments.get("questions") or [])
    return "\n".join(str(one.get("question", "")) for one in questions)


# ---- answers


async def _ask(state: ToolState, questions: list[UserQuestion]) -> list[UserAnswer]:
    if state.ask is None:
        raise ToolError("nobody is there to answer: decide yourself, and say what you assumed", kind="rejected")
    try:
        said = state.ask(questions)
        found = await said if inspect.isawaitable(said) else said
    except EOFError:
        found = []
    except OSError as e:
        raise ToolError(f"the user could not be asked ({e.strerror or type(e).__name__}): decide yourself") from None
    if not found:
        raise ToolError("the user did not want to answer: decide yourself, or ask what they want instead", kind="rejected")
    if len(found) != len(questions):
        raise ToolError(f"{len(found)} answers came to {len(questions)} questions: ask them one by one", kind="execution")
    return found


def _build_answer(question: UserQuestion, answer: UserAnswer) -> AnsweredQuestion:
    words = [answer] if isinstance(answer, str) else [str(one) for one in answer]
    words = [one.strip()[:_MAX_ANSWER_CHARS] for one in words if one.strip()]
    labels = {option["label"] for option in question.options}
    return AnsweredQuestion(
        id=question.id,
        question=question.question,
        header=question.header,
        kind=cast(Kind, question.kind),
        multi=question.multi,
        answers=words if question.multi or len(words) < 2 else [", ".join(words)],
        own_words=question.kind == "choice" and any(one not in labels for one in words),
    )


def _render_answer(answered: AnsweredQuestion) -> str:
    said = ", ".join(answered.answers) or "(no answer)"
    return f"{answered.question}\n  {said}" + (" (in the user's own words)" if answered.own_words else "")
