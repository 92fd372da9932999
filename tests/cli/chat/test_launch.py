"""From flags to a chat, with prompts from a pipe."""

import logging
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import Capture, Patch

from toolglot.cli.chat import launch as module
from toolglot.cli.chat.launch import launch, read_saved
from toolglot.cli.startup import Flags
from toolglot.errors import UsageError
from toolglot.messages import assistant, save, user


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    own = logging.getLogger("toolglot")
    level, handlers = own.level, list(own.handlers)
    yield
    for handler in set(own.handlers) - set(handlers):
        own.removeHandler(handler)
        handler.close()
    own.setLevel(level)


@pytest.fixture
def piped(tmp_path: Path, monkeypatch: Patch) -> Iterator[Path]:
    """What is written to this file is typed."""
    file = tmp_path / "prompts"
    file.write_text("")
    with file.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield file


class TestLaunch:
    def test_prompts_of_a_pipe_are_answered(self, piped: Path, capsys: Capture) -> None:
        piped.write_text('say one\ncall add_reminder {"text": "tea", "date": "2026-12-24"}\ny\n/quit\nsay never\n')
        assert launch(Flags(), None, None) == 0
        shown = capsys.readouterr()
        assert "one" in shown.out
        assert "added for 2026-12-24: tea" in shown.out
        assert "never" not in shown.out
        assert "\x1b" not in shown.out
        assert "the simulator answers" in shown.err

    def test_a_first_prompt_is_answered_before(self, piped: Path, capsys: Capture) -> None:
        piped.write_text("say second\n")
        assert launch(Flags(model="simulator"), "say first", None) == 0
        shown = capsys.readouterr()
        assert shown.out.index("first") < shown.out.index("second")
        assert shown.err == ""

    def test_a_saved_conversation_is_gone_on_with(self, piped: Path, tmp_path: Path, capsys: Capture) -> None:
        (tmp_path / "saved.jsonl").write_bytes(save([user("say old"), assistant("old")]))
        piped.write_text("/undo\n")
        assert launch(Flags(model="simulator"), None, Path("saved.jsonl")) == 0
        shown = capsys.readouterr().out
        assert "loaded 2 messages" in shown
        assert "removed 'say old'" in shown

    def test_a_damaged_one_is_said(self, piped: Path, tmp_path: Path) -> None:
        (tmp_path / "saved.jsonl").write_bytes(b"not json")
        with pytest.raises(UsageError, match="cannot load the conversation: line 1"):
            launch(Flags(model="simulator"), None, Path("saved.jsonl"))

    def test_a_missing_key_is_said_before_anything_is_asked(self, piped: Path) -> None:
        with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
            launch(Flags(model="anthropic:claude-sonnet-4-5"), "hello", None)

    @pytest.mark.parametrize("name", ["nowhere", "~nosuchuser/x", "nul\x00", "."])
    def test_a_file_that_cannot_be_read_is_said(self, name: str) -> None:
        with pytest.raises(UsageError, match="cannot read the conversation"):
            read_saved(Path(name))


class TestHistory:
    def test_it_is_the_user_s_own(self, tmp_path: Path) -> None:
        file = module._history_file()  # pyright: ignore[reportPrivateUsage]
        assert file is not None
        assert file == tmp_path / "state" / "history"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_where_it_cannot_be_there_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("a file where a folder should be")
        assert module._history_file() is None  # pyright: ignore[reportPrivateUsage]


class TestAsking:
    @pytest.mark.parametrize(("said", "means"), [("y", True), (" YES ", True), ("n", False), ("", False), ("yesterday", False)])
    def test_only_yes_is_yes(self, said: str, means: bool, monkeypatch: Patch) -> None:
        def answered(question: str) -> str:
            assert question.startswith("Sure? ")
            return said

        monkeypatch.setattr("builtins.input", answered)
        assert module._confirm("Sure?") is means  # pyright: ignore[reportPrivateUsage]

    @pytest.mark.parametrize("error", [EOFError, KeyboardInterrupt])
    def test_leaving_is_no(self, error: type[BaseException], monkeypatch: Patch) -> None:
        def left(question: str) -> str:
            raise error

        monkeypatch.setattr("builtins.input", left)
        assert module._confirm("Sure?") is False  # pyright: ignore[reportPrivateUsage]


def test_without_rich_the_chat_is_plain_text(piped: Path, capsys: Capture, monkeypatch: Patch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("rich", "markdown_it")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    piped.write_text("say **bold**\n/help\n")
    assert launch(Flags(model="simulator"), None, None) == 0
    out = capsys.readouterr().out
    assert "**bold**" in out
    assert "/help" in out
