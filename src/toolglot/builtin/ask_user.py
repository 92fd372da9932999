"""The tool `ask_user`: questions that only a person can answer.

Only complete questions are asked: each question and each option has a text, and no two questions, or options
of one question, have the same. The result has an answer to each question, in the user's own words if no
option fits. If nobody can answer, the model is told to decide.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from toolglot.builtin.files.text import check_text
from toolglot.builtin.tool_state import ToolState, UserAnswer, UserOption, UserQuestion
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool
from toolglot.values.failures import invalid_argument

__all__ = ["create_tools"]

MAX_QUESTIONS = 4
MIN_OPTIONS, MAX_OPTIONS = 2, 4
TIMEOUT_SECONDS = 24 * 3600.0
_MAX_CHARS = {
    "question": 4000,
    "header": 100,
    "label": 300,
    "description": 2000,
    "preview": 20_000,
    "id": 100,
}
_MAX_ANSWER_CHARS = 20_000
_OPTIONS = [
    {"label": "SQLite", "description": "Nothing to install; in memory"},
    {"label": "PostgreSQL", "description": "As in production; needs a server"},
]
_EXAMPLE = {
    "questions": [
        {"question": "Which database should the tests use?", "header": "Database", "options": _OPTIONS}
    ],
}


def create_tools(state: ToolState) -> list[Tool]:
    """Return the tool `ask_user`."""

    def list_questions(arguments: dict[str, Any]) -> str:
        questions = cast(list[dict[str, Any]], arguments.get("questions") or [])
        return "\n".join(str(question.get("question", "")) for question in questions)

    @tool(
        name="ask_user",
        effects="read",
        action="other",
        verb="Ask",
        approval=False,
        timeout=TIMEOUT_SECONDS,
        examples=[_EXAMPLE],
        target=lambda arguments: "the user",
        preview=list_questions,
    )
    async def ask_user(questions: list[UserQuestion], context: Context) -> ToolOutput:  # noqa: D417
        """Ask the user up to four questions and wait for the answers. The user can always answer in their own words.

        Use only when the answer affects your work and you cannot find it yourself; not to ask for permission to continue.

        Args:
            questions: 1 to 4 questions that do not depend on each other.
        """
        if not 1 <= len(questions) <= MAX_QUESTIONS:
            raise invalid_argument(
                "questions", f"has {len(questions)} entries; ask 1 to {MAX_QUESTIONS} at once"
            )
        validated = [_validate_question(question, number) for number, question in enumerate(questions, 1)]
        # No two questions may be equal: the user interface and the model match answers by id or by question.
        for name in ("id", "question"):
            if len({getattr(question, name) for question in validated}) < len(validated):
                raise invalid_argument("questions", f"must differ, and two have the same {name}: change one")
        inner = context.inner_tools
        if inner is None:
            answers = await _ask(state, validated)
        else:
            inner.on_ask(True)
            try:
                answers = await _ask(state, validated)
            finally:
                inner.on_ask(False)
        answered: list[dict[str, Any]] = []
        lines: list[str] = []
        for question, answer in zip(validated, answers, strict=True):
            texts = _split_answer(answer)
            suffix = " (in the user's own words)" if _is_in_own_words(question, texts) else ""
            if len(texts) > 1 and not question.multi:
                texts = [", ".join(texts)]
            answered.append({"id": question.id, "question": question.question, "answers": texts})
            lines.append(f"{question.question}\n  {', '.join(texts) or '(no answer)'}{suffix}")
        return ToolOutput("\n".join(lines), {"answers": answered})

    return [ask_user]


def _split_answer(answer: UserAnswer) -> list[str]:
    texts = [answer] if isinstance(answer, str) else list(map(str, answer))
    stripped = [text.strip() for text in texts]
    return [text[:_MAX_ANSWER_CHARS] for text in stripped if text]


def _is_in_own_words(question: UserQuestion, texts: list[str]) -> bool:
    """Whether an answer to a choice has a text that is not one of the options."""
    labels = {option.label for option in question.options}
    return question.kind == "choice" and not labels.issuperset(texts)


def _validate_question(question: UserQuestion, number: int) -> UserQuestion:
    """Return a question without white space around its texts, and with an id.

    Raises ToolError if it is not complete.
    """
    position = f"question {number}"
    _check_question(question, position)

    def check_field(name: str, text: str) -> str:
        return check_text(text, f"the {name} of {position}", _MAX_CHARS[name]).strip()

    return replace(
        question,
        question=check_field("question", question.question),
        header=check_field("header", question.header),
        options=[
            UserOption(
                label=check_field("label", option.label),
                description=check_field("description", option.description),
                preview=check_field("preview", option.preview),
            )
            for option in question.options
        ],
        id=check_field("id", question.id) or str(number),
    )


def _check_question(question: UserQuestion, position: str) -> None:
    """Raise ToolError unless a question has a text, and a choice its options.

    `position`: which one it is, in words.
    """
    if not question.question.strip():
        raise invalid_argument(
            "questions", f"are incomplete: {position} has no text; say what you want to know"
        )
    labels = [option.label.strip() for option in question.options]
    if question.kind == "choice" and not MIN_OPTIONS <= len(labels) <= MAX_OPTIONS:
        advice = f"offer {MIN_OPTIONS} to {MAX_OPTIONS}, or use kind=text"
        raise invalid_argument("questions", f"are incomplete: {position} has {len(labels)} options; {advice}")
    if question.kind != "choice" and (labels or question.multi):
        excess = "options" if labels else "several answers"
        problem = (
            f"contradict themselves: {position} has kind={question.kind}, which has no {excess}; use "
            "kind=choice"
        )
        raise invalid_argument("questions", problem)
    has_equal_labels = len(set(map(str.casefold, labels))) < len(labels)
    if "" in labels or has_equal_labels:
        problem = f"are ambiguous: two options of {position} have the same label, or none; give each its own"
        raise invalid_argument("questions", problem)


async def _ask(state: ToolState, questions: list[UserQuestion]) -> Sequence[UserAnswer]:
    if state.ask is None:
        message = "nobody is there to answer: decide yourself, and say what you assumed"
        raise ToolError(message, kind="rejected", code="user_unavailable")
    try:
        result = state.ask(questions)
        answers = await result if inspect.isawaitable(result) else result
    except EOFError:
        answers = list[UserAnswer]()
    except OSError as e:
        message = f"the user could not be asked ({e.strerror or type(e).__name__}): decide yourself"
        raise ToolError(message, code="user_unavailable") from None
    if not answers:
        message = "the user declined to answer: decide yourself, or ask what they want instead"
        raise ToolError(message, kind="rejected", code="user_declined")
    if len(answers) != len(questions):
        message = f"{len(answers)} answers came back for {len(questions)} questions: ask them one by one"
        raise ToolError(message, code="user_unavailable")
    return answers
