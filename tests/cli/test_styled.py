"""Plain text in a terminal that only prints lines: it is broken between words."""

import io

import pytest

from toolglot.cli.styled import PlainConsole, WordWrapper


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> PlainConsole:
    monkeypatch.setenv("COLUMNS", "11")
    return PlainConsole(_Terminal())


@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (["one two three"], "one two\nthree"),
        (["one t", "wo th", "ree four"], "one two\nthree four"),
        (["  - a b\n    c"], "  - a b\n    c"),
        (["abcdefghijklm no"], "abcdefghij\nklm no"),
        (["a abcdefghijklm"], "a\nabcdefghij\nklm"),
        (["1234567890", " x"], "1234567890\nx"),
        (["日本語 日本語"], "日本語\n日本語"),
        (["a\n\n", "b"], "a\n\nb"),
        ([""], ""),
    ],
)
def test_streamed_text_is_broken_between_words(
    pieces: list[str], written: str, console: PlainConsole
) -> None:
    wrapper = WordWrapper(console)
    assert "".join([*map(wrapper.feed, pieces), wrapper.close()]) == written


def test_a_line_is_broken_in_a_terminal_and_left_alone_in_a_pipe(console: PlainConsole) -> None:
    pipe = PlainConsole(io.StringIO())
    for each in (console, pipe):
        each.print("one two three")
    assert isinstance(console.file, io.StringIO)
    assert isinstance(pipe.file, io.StringIO)
    assert console.file.getvalue() == "one two\nthree\n"
    assert pipe.file.getvalue() == "one two three\n"
