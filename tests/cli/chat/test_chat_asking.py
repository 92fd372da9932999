"""Questions that a tool puts to the user."""

import pytest
from chatting import a_screen

from toolglot.builtin.toolbox import Answer, Question
from toolglot.cli.chat.asking import show, understood

OPTIONS = ({"label": "red", "description": "like a rose"}, {"label": "blue"})


@pytest.mark.parametrize(
    ("question", "said", "meant"),
    [
        (Question(question="Which?", options=OPTIONS), "2", "blue"),
        (Question(question="Which?", options=OPTIONS), "green", "green"),
        (Question(question="Which?", options=OPTIONS), "3", None),
        (Question(question="Which?", options=OPTIONS), "", None),
        (Question(question="Which?", options=OPTIONS, multi=True), "1, blue", ["red", "blue"]),
        (Question(question="Which?", options=OPTIONS, multi=True), "1,9", None),
        (Question(question="How many?", kind="text"), "7", "7"),
    ],
)
def test_a_number_is_an_option_and_words_are_words(question: Question, said: str, meant: Answer | None) -> None:
    assert understood(question, said) == meant


def test_everything_is_shown_and_nothing_is_obeyed() -> None:
    screen, out = a_screen()
    show(Question(question="Which\x1b[2J?", header="Colour", options=OPTIONS, multi=True), screen)
    said = out.getvalue()
    assert "? Colour: Which␛[2J?" in said
    assert "1 red  like a rose" in said
    assert "several numbers may be given" in said
