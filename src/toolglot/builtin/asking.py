"""The tool `ask_user`: questions that only a person can answer.

Laws: nothing is asked that was not whole (every question and option has its words, once). Each question has one answer in the
result, in the user's own words where none of the options was right. Where nobody is there, the model is told to decide.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from toolglot.builtin.text import checked
from toolglot.builtin.toolbox import Answer, Question, Toolbox, built
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["AskedOption", "AskedQuestion", "GivenAnswer", "GivenAnswers", "ask_tools"]

Kind = Literal["choice", "text", "yesno"]

MOST_QUESTIONS = 4
FEWEST_OPTIONS, MOST_OPTIONS = 2, 4
PATIENCE = 24 * 3600.0
"""Seconds that a person may take."""
_LONGEST = {"question": 4000, "header": 100, "label": 300, "description": 2000, "preview": 20_000, "id": 100}
_LONGEST_ANSWER = 20_000
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
class AskedOption:
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
class AskedQuestion:
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
    options: list[AskedOption] = field(default_factory=list[AskedOption])
    multi: bool = False
    id: str = ""


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
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


class GivenAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The answers, in the order of the questions."""

    answers: list[GivenAnswer]


def ask_tools(box: Toolbox) -> list[Tool]:
    """The tool `ask_user`."""

    @tool(
        name="ask_user",
        effects="read",
        approval=False,
        timeout=PATIENCE,
        examples=[_EXAMPLE],
        target=lambda arguments: "the user",
        preview=_preview,
    )
    async def ask_user(questions: list[AskedQuestion]) -> ToolOutput:
        """Asks the user up to four questions and waits for the answers. The user may always answer in words of their own.

        Use it where the answer changes what you do and cannot be found out; not for leave to go on.

        Args:
            questions: 1 to 4 questions that do not depend on each other.
        """
        asked = [_question(one, number) for number, one in enumerate(_counted(questions), 1)]
        _check_apart(asked)
        said = await _answers(box, asked)
        given = [_given(one, answer) for one, answer in zip(asked, said, strict=True)]
        return ToolOutput("\n".join(map(_told, given)), built(GivenAnswers(answers=given)))

    return [ask_user]


# ---- questions


def _counted(questions: list[AskedQuestion]) -> list[AskedQuestion]:
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise ToolError(f"{len(questions)} questions: ask 1 to {MOST_QUESTIONS} at once", kind="validation")
    return questions


def _question(asked: AskedQuestion, number: int) -> Question:
    where = f"question {number}"
    if not asked.question.strip():
        raise ToolError(f"{where} has no words: say what you want to know", kind="validation")
    if asked.kind == "choice" and not FEWEST_OPTIONS <= len(asked.options) <= MOST_OPTIONS:
        why = f"{where} has {len(asked.options)} options, and a choice has {FEWEST_OPTIONS} to {MOST_OPTIONS}"
        raise ToolError(f"{why}: change them, or use kind=text", kind="validation")
    if asked.kind != "choice" and (asked.options or asked.multi):
        what = "options" if asked.options else "`multi`"
        raise ToolError(f"{where} is of kind {asked.kind}, which goes without {what}: use kind=choice", kind="validation")
    labels = [option.label.strip() for option in asked.options]
    if "" in labels or len(set(map(str.casefold, labels))) < len(labels):
        raise ToolError(f"the options of {where} are not told apart: give each its own label", kind="validation")
    return Question(
        question=_text(asked.question, "question", where),
        header=_text(asked.header, "header", where),
        kind=asked.kind,
        options=tuple(_option(option, where) for option in asked.options),
        multi=asked.multi,
        id=_text(asked.id, "id", where) or str(number),
    )


def _option(option: AskedOption, where: str) -> dict[str, str]:
    fields = {"label": option.label, "description": option.description, "preview": option.preview}
    return {name: _text(text, name, where) for name, text in fields.items() if text or name != "preview"}


def _text(text: str, what: str, where: str) -> str:
    return checked(text, f"the {what} of {where}", _LONGEST[what]).strip()


def _check_apart(questions: Sequence[Question]) -> None:
    """Answers are found by id or by question, so both must be clear."""
    for what, words in (("id", [one.id for one in questions]), ("text", [one.question for one in questions])):
        if len(set(words)) < len(words):
            raise ToolError(f"two questions have the same {what}: give each its own", kind="validation")


def _preview(arguments: dict[str, Any]) -> str:
    questions = cast(list[dict[str, Any]], arguments.get("questions") or [])
    return "\n".join(str(one.get("question", "")) for one in questions)


# ---- answers


async def _answers(box: Toolbox, questions: list[Question]) -> list[Answer]:
    if box.ask is None:
        raise ToolError("nobody is there to answer: decide yourself, and say what you assumed", kind="rejected")
    try:
        said = box.ask(questions)
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


def _given(question: Question, answer: Answer) -> GivenAnswer:
    words = [answer] if isinstance(answer, str) else [str(one) for one in answer]
    words = [one.strip()[:_LONGEST_ANSWER] for one in words if one.strip()]
    labels = {option["label"] for option in question.options}
    return GivenAnswer(
        id=question.id,
        question=question.question,
        header=question.header,
        kind=cast(Kind, question.kind),
        multi=question.multi,
        answers=words if question.multi or len(words) < 2 else [", ".join(words)],
        own_words=question.kind == "choice" and any(one not in labels for one in words),
    )


def _told(given: GivenAnswer) -> str:
    said = ", ".join(given.answers) or "(no answer)"
    return f"{given.question}\n  {said}" + (" (in the user's own words)" if given.own_words else "")
