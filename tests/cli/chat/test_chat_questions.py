"""Questions that a tool puts to the user."""

import pytest
from chat_harness import a_screen

from toolglot.builtin.tool_state import UserAnswer, UserOption, UserQuestion
from toolglot.cli.chat.questions import parse_answer, show_question

OPTIONS = [UserOption(label="red", description="like a rose"), UserOption(label="blue")]


@pytest.mark.parametrize(
    ("question", "line", "meant"),
    [
        (UserQuestion(question="Which?", options=OPTIONS), "2", "blue"),
        (UserQuestion(question="Which?", options=OPTIONS), "green", "green"),
        (UserQuestion(question="Which?", options=OPTIONS), "3", None),
        (UserQuestion(question="Which?", options=OPTIONS), "", None),
        (UserQuestion(question="Which?", options=OPTIONS, multi=True), "1, blue", ["red", "blue"]),
        (UserQuestion(question="Which?", options=OPTIONS, multi=True), "1,9", None),
        (UserQuestion(question="How many?", kind="text"), "7", "7"),
    ],
)
def test_a_number_is_an_option_and_words_are_words(
    question: UserQuestion, line: str, meant: UserAnswer | None
) -> None:
    assert parse_answer(question, line) == meant


def test_everything_is_shown_and_nothing_is_obeyed() -> None:
    screen, out = a_screen()
    show_question(
        UserQuestion(question="Which\x1b[2J?", header="Colour", options=OPTIONS, multi=True), screen
    )
    output = out.getvalue()
    assert "? Colour: Which␛[2J?" in output
    assert "1 red  like a rose" in output
    assert "you can choose several" in output
