"""From flags to a chat, with prompts from a pipe."""

import io
import os
import stat
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.cli.cli_kit import Patch, run_cli

from toolglot.cli.chat import launch
from toolglot.cli.chat.screen import PrintCapture, Screen
from toolglot.cli.styled import PlainConsole
from toolglot.values.messages import assistant, save, user


class TestLaunch:
    def test_prompts_of_a_pipe_are_answered(self) -> None:
        stdin = 'say one\ncall add_reminder {"text": "tea", "date": "2026-12-24"}\ny\n/quit\nsay never\n'
        code, out, err = run_cli("chat", stdin=stdin)
        assert code == 0
        assert "one" in out
        assert "added for 2026-12-24: tea" in out
        assert "never" not in out
        assert "\x1b" not in out
        assert "using the simulator" in err

    def test_a_first_prompt_is_answered_before(self) -> None:
        code, out, err = run_cli("chat", "say first", "-m", "simulator", stdin="say second\n")
        assert (code, err) == (0, "")
        assert out.index("first") < out.index("second")

    def test_a_saved_conversation_is_resumed(self, tmp_path: Path) -> None:
        (tmp_path / "saved.jsonl").write_bytes(save([user("say old"), assistant("old")]))
        code, out, _ = run_cli("chat", "-m", "simulator", "--load", "saved.jsonl", stdin="/undo\n")
        assert code == 0
        assert "loaded 2 messages" in out
        assert "removed 'say old'" in out

    @pytest.mark.parametrize(
        ("model", "words", "note"),
        [
            (
                "simulator:gemini",
                (),
                "using simulator:gemini: the conversation was saved with this model (use -m to choose "
                "another)",
            ),
            ("simulator:gemini", ("-m", "simulator:ollama"), ""),
            (
                "openai:gpt-5",
                (),
                "using simulator:xai: the conversation's model, openai:gpt-5, cannot be used (no key for",
            ),
            ("nope\x1b:x", (), "using simulator:xai: the conversation's model, nope"),
            (5, (), ""),
        ],
    )
    def test_a_conversation_continues_with_its_model(
        self, model: Any, words: tuple[str, ...], note: str, tmp_path: Path
    ) -> None:
        (tmp_path / "saved.jsonl").write_bytes(save([user("say old"), assistant("old")], model=model))
        os.environ["TOOLGLOT_MODEL"] = "simulator:xai"
        code, out, err = run_cli("chat", *words, "--load", "saved.jsonl", stdin="/model\n")
        assert code == 0
        assert err.startswith(f"toolglot: {note}") if note else err == ""
        assert "\x1b" not in err
        expected = words[1] if words else model if "saved with" in note else "simulator:xai"
        assert f"\n{expected}/" in out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("-m", "simulator", "--load", "damaged"), "cannot load the conversation: line 1"),
            (("-m", "simulator", "--load", "nowhere"), "cannot read the conversation 'nowhere'"),
            (("-m", "simulator", "--load", "~nosuchuser/x"), "cannot read the conversation"),
            (("-m", "simulator", "--load", "."), "cannot read the conversation"),
            (("-m", "anthropic:claude-sonnet-4-5", "hello"), "ANTHROPIC_API_KEY"),
        ],
    )
    def test_what_cannot_work_is_an_error_before_anything_is_sent(
        self, words: tuple[str, ...], message: str, tmp_path: Path
    ) -> None:
        (tmp_path / "damaged").write_bytes(b"not json")
        code, out, err = run_cli("chat", *words)
        assert (code, out) == (2, "")
        assert message in err

    def test_without_a_terminal_the_chat_is_plain_text_and_loads_no_rich(self, monkeypatch: Patch) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("rich", "markdown_it")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "rich.console", None)
        code, out, _ = run_cli("chat", "-m", "simulator", stdin="say **bold**\n/help\n")
        assert code == 0
        assert "**bold**" in out
        assert "/help" in out


def test_history_is_private(tmp_path: Path) -> None:
    file = launch._history_file()  # pyright: ignore[reportPrivateUsage]
    assert file is not None
    assert file == tmp_path / "state" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_there_is_no_history_if_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file instead of a directory")
    assert launch._history_file() is None  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("answer", "is_confirmed"),
    [("y", True), (" YES ", True), ("n", False), ("", False), (EOFError, False), (KeyboardInterrupt, False)],
)
def test_only_yes_is_yes(answer: str | type[BaseException], is_confirmed: bool, monkeypatch: Patch) -> None:
    def read(prompt: str) -> str:
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("click.termui.visible_prompt_func", read)
    assert launch._confirm("Sure?") is is_confirmed  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_reader_that_has_left_ends_the_chat_quietly(terminal: str, monkeypatch: Patch) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setattr("sys.stdout", Mock(isatty=lambda: True, encoding="utf-8"))
    console = launch.create_console()
    assert isinstance(console, PlainConsole) is (terminal == "dumb")
    console.file = io.StringIO()
    console.file.write = Mock(side_effect=BrokenPipeError)
    with redirect_stdout(PrintCapture(Screen(console))), pytest.raises(BrokenPipeError):
        console.print("hello")
