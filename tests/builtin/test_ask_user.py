"""The tool `ask_user`: whole questions go to the user, and each has an answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools

from toolglot.builtin.ask_user import create_tools
from toolglot.builtin.tool_state import AskUser, UserAnswer, UserOption, UserQuestion
from toolglot.errors import ToolError
from toolglot.tools.results import ToolOutput

YES_NO = [{"label": "Yes", "description": "do it"}, {"label": "No", "description": "leave it"}]


def ask_questions(root: Path, ask: AskUser | None, questions: Any) -> ToolOutput:
    return Tools(root, create_tools, ask=ask)("ask_user", questions=questions)


def one(question: Any = "Shall I?", **options: Any) -> dict[str, Any]:
    return {"question": question, "header": "Go", "options": YES_NO, **options}


class TestAnswers:
    def test_questions_arrive_as_they_were_asked(self, tmp_path: Path) -> None:
        seen: list[UserQuestion] = []

        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            seen.extend(questions)
            return ["Yes", "because", "yes", ["Yes", "No"]]

        options = [{"label": "Yes", "description": "do it", "preview": "x = 1"}, {"label": "No"}]
        ask_questions(
            tmp_path,
            ask,
            [
                one(id="q", options=options),
                {"question": "Why?", "kind": "text"},
                {"question": "Sure?", "kind": "yesno"},
                one("Both?", multi=True),
            ],
        )
        first, second, third, fourth = seen
        assert first == UserQuestion(
            question="Shall I?",
            header="Go",
            kind="choice",
            options=[UserOption(label="Yes", description="do it", preview="x = 1"), UserOption(label="No")],
            id="q",
        )
        assert (second.kind, second.options, second.id) == ("text", [], "2")
        assert (third.kind, third.options) == ("yesno", [])
        assert fourth.multi

    @pytest.mark.parametrize(
        ("question", "answer", "answers", "is_free_text"),
        [
            (one(), "Yes", ["Yes"], False),
            (one(), ["Yes"], ["Yes"], False),
            (one(), "neither, wait", ["neither, wait"], True),
            (one(), ["Yes", "No"], ["Yes, No"], False),
            (one(multi=True), ["Yes", "No"], ["Yes", "No"], False),
            (one(multi=True), "No", ["No"], False),
            (one(multi=True), [], [], False),
            (one(), "  ", [], False),
            ({"question": "Why?", "kind": "text"}, " so ", ["so"], False),
            ({"question": "Sure?", "kind": "yesno"}, "yes", ["yes"], False),
        ],
    )
    def test_an_answer_is_reported_by_its_question(
        self, tmp_path: Path, question: Any, answer: UserAnswer, answers: list[str], is_free_text: bool
    ) -> None:
        output = ask_questions(tmp_path, lambda questions: [answer], [question])
        (answer_data,) = output.data["answers"]
        assert answer_data["answers"] == answers
        words = (", ".join(answers) or "(no answer)") + (" (in the user's own words)" if is_free_text else "")
        assert output.content == f"{question['question']}\n  {words}"

    def test_whoever_answers_may_take_time(self, tmp_path: Path) -> None:
        async def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            await asyncio.sleep(0)
            return ["No" for _ in questions]

        output = ask_questions(tmp_path, ask, [one(), one("And now?")])
        assert [answer["answers"] for answer in output.data["answers"]] == [["No"], ["No"]]

    def test_a_long_answer_is_cut(self, tmp_path: Path) -> None:
        output = ask_questions(tmp_path, lambda questions: ["x" * 10**6], [one()])
        assert len(output.content) < 30_000


class TestNoAnswer:
    def test_nobody_is_there(self, tmp_path: Path) -> None:
        with pytest.raises(ToolError, match="nobody is there to answer: decide yourself") as raised:
            ask_questions(tmp_path, None, [one()])
        assert raised.value.kind == "rejected"

    def test_the_user_goes_away(self, tmp_path: Path) -> None:
        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            raise EOFError

        ways: list[AskUser] = [ask, lambda questions: []]
        for way in ways:
            with pytest.raises(ToolError, match="declined to answer") as raised:
                ask_questions(tmp_path, way, [one()])
            assert raised.value.kind == "rejected"

    def test_the_terminal_breaks(self, tmp_path: Path) -> None:
        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            raise OSError(5, "Input/output error")

        with pytest.raises(ToolError, match=r"could not be asked \(Input/output error\)"):
            ask_questions(tmp_path, ask, [one()])

    def test_answers_that_do_not_fit_are_not_guessed_at(self, tmp_path: Path) -> None:
        with pytest.raises(ToolError, match="1 answers came back for 2 questions"):
            ask_questions(tmp_path, lambda questions: ["Yes"], [one(), one("Other?")])
