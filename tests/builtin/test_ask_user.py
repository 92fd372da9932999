"""The tool `ask_user`: whole questions go to the user, and each has an answer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.ask_user import create_tools
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tool_state import AskUser, ToolState, UserAnswer, UserOption, UserQuestion
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput

YES_NO = [{"label": "Yes", "description": "do it"}, {"label": "No", "description": "leave it"}]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    yield workspace
    workspace.close()


def asked(workspace: Workspace, ask: AskUser | None, questions: Any) -> ToolOutput:
    (tool,) = create_tools(ToolState(workspace, ask=ask))
    call = ToolCall("c1", "ask_user", {"questions": questions})
    return asyncio.run(tool.invoke(tool.bind(call).values, Context(call)))


def one(question: Any = "Shall I?", **more: Any) -> dict[str, Any]:
    return {"question": question, "header": "Go", "options": YES_NO, **more}


class TestAnswers:
    def test_questions_arrive_as_they_were_asked(self, workspace: Workspace) -> None:
        seen: list[UserQuestion] = []

        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            seen.extend(questions)
            return ["Yes", "because", "yes", ["Yes", "No"]]

        options = [{"label": "Yes", "description": "do it", "preview": "x = 1"}, {"label": "No"}]
        asked(
            workspace,
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
        ("question", "answer", "answers", "own"),
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
    def test_an_answer_is_told_by_its_question(
        self, workspace: Workspace, question: Any, answer: UserAnswer, answers: list[str], own: bool
    ) -> None:
        said = asked(workspace, lambda questions: [answer], [question])
        (given,) = said.data["answers"]
        assert given["answers"] == answers
        words = (", ".join(answers) or "(no answer)") + (" (in the user's own words)" if own else "")
        assert said.content == f"{question['question']}\n  {words}"

    def test_whoever_answers_may_take_time(self, workspace: Workspace) -> None:
        async def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            await asyncio.sleep(0)
            return ["No" for _ in questions]

        said = asked(workspace, ask, [one(), one("And now?")])
        assert [given["answers"] for given in said.data["answers"]] == [["No"], ["No"]]

    def test_a_long_answer_is_cut(self, workspace: Workspace) -> None:
        said = asked(workspace, lambda questions: ["x" * 10**6], [one()])
        assert len(said.content) < 30_000


class TestNoAnswer:
    def test_nobody_is_there(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match="nobody is there to answer: decide yourself") as raised:
            asked(workspace, None, [one()])
        assert raised.value.kind == "rejected"

    def test_the_user_goes_away(self, workspace: Workspace) -> None:
        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            raise EOFError

        ways: list[AskUser] = [ask, lambda questions: []]
        for way in ways:
            with pytest.raises(ToolError, match="declined to answer") as raised:
                asked(workspace, way, [one()])
            assert raised.value.kind == "rejected"

    def test_the_terminal_breaks(self, workspace: Workspace) -> None:
        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            raise OSError(5, "Input/output error")

        with pytest.raises(ToolError, match=r"could not be asked \(Input/output error\)"):
            asked(workspace, ask, [one()])

    def test_answers_that_do_not_fit_are_not_guessed_at(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match="1 answers came back for 2 questions"):
            asked(workspace, lambda questions: ["Yes"], [one(), one("Other?")])


def options(*labels: Any) -> list[Any]:
    return [{"label": label, "description": "d"} for label in labels]


def each(*values: Any) -> tuple[Any, ...]:
    return values


BAD: list[Any] = [
    *each(None, 1, True, "x", {"a": 1}, [], [None], [1], ["x"], [[]], [{}], [one()] * 5, [one()] * 1000),
    *([one(value)] for value in each(None, [], {}, ["a", "b"], "", "  ", "\n", "\0", "\ud800", "x" * 4001, "x" * 3_000_000)),
    *([one(header=value)] for value in each([], {}, ["a", "b"], "x" * 101, "\ud800", "a\0")),
    *([one(kind=value)] for value in each(1, "", "Multiple", "radio", [], {}, "\0")),
    *([one(kind=kind)] for kind in ("text", "yesno")),
    *([{"question": "q?", "kind": kind, "multi": True}] for kind in ("text", "yesno")),
    *([one(multi=value)] for value in each([], {}, "perhaps", 7)),
    *([one(id=value)] for value in each([], {}, "x" * 101, "\ud800", "\0")),
    *([one(options=value)] for value in each(5, "x", {}, [], [None], ["a", "b"], [{}, {}], [[], []], YES_NO[:1])),
    [one(options=YES_NO * 3)],
    [one(options=options("a", "b", "c", "d", "e"))],
    [one(options=options("a", "a"))],
    [one(options=options("a", " A "))],
    [one(options=options("a", ""))],
    [one(options=options("a", "  "))],
    [one(options=options("a", None))],
    [one(options=options("a", ["b"]))],
    [one(options=options("a", "\ud800"))],
    [one(options=options("a", "b\0"))],
    [one(options=options("a", "x" * 301))],
    [one(options=[{"label": "a", "description": "x" * 2001}, {"label": "b"}])],
    [one(options=[{"label": "a", "preview": "x" * 20_001}, {"label": "b"}])],
    [one(options=[{"label": "a", "preview": ["x", "y"]}, {"label": "b"}])],
    [one(options=[{"description": "no label"}, {"label": "b"}])],
    [{"question": "no options?"}],
    [{"header": "no question", "options": YES_NO}],
    [one(), one()],
    [one(id="a"), one("Other?", id="a")],
    [one(id="2"), one("Other?")],
    [one(), one("")],
]


class TestBadInput:
    def test_there_is_enough_of_it(self) -> None:
        assert len(BAD) >= 60

    @pytest.mark.parametrize("questions", BAD)
    def test_is_a_sentence_and_nobody_is_asked(self, workspace: Workspace, questions: Any) -> None:
        def ask(questions: list[UserQuestion]) -> list[UserAnswer]:
            raise AssertionError(questions)

        with pytest.raises(ToolError) as raised:
            asked(workspace, ask, questions)
        assert raised.value.kind in ("validation", "limit")
        assert "Traceback" not in str(raised.value)
