"""`toolglot call`: a tool from the shell, under the same rules as in a conversation."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Capture, Patch

from toolglot.cli import main as command_line
from toolglot.cli.call import call_lines, call_once
from toolglot.cli.startup import Flags
from toolglot.errors import UsageError

TOOLS = '''
from toolglot import tool

@tool(approval=True)
def risky(what: str) -> str:
    """Asks first."""
    return f"did {what}"

@tool
def picture() -> list:
    """Gives an image."""
    from toolglot import Media, Text
    return [Text("see"), Media("image", "image/png", "aGk=", name="a.png")]
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path.parent / f"{tmp_path.name}-state"))
    (tmp_path / "call_tools.py").write_text(TOOLS)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def once(name: str, arguments: Any = None, *, yes: bool = False, json: bool = False, **flags: Any) -> int:
    text = None if arguments is None else _dumps(arguments)
    return call_once(Flags(**flags), name, text, yes=yes, json=json)


def _dumps(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class TestOne:
    def test_its_text_is_printed(self, folder: Path, capsys: Capture) -> None:
        assert once("read", {"path": "a.txt"}) == 0
        assert capsys.readouterr().out.startswith("1\tone\n2\ttwo")

    def test_a_failure_is_a_sentence_and_exit_1(self, folder: Path, capsys: Capture) -> None:
        assert once("read", {"path": "b.txt"}) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("toolglot: ")
        assert "b.txt" in said.err

    def test_the_workspace_is_the_root_and_nothing_else(self, folder: Path, capsys: Capture) -> None:
        inner = folder / "inner"
        inner.mkdir()
        assert once("read", {"path": "../a.txt"}, root=inner) == 1
        assert "outside of the workspace" in capsys.readouterr().err

    @pytest.mark.parametrize(("yes", "code", "said"), [(False, 1, "needs approval"), (True, 0, "did it")])
    def test_approvals(self, yes: bool, code: int, said: str, folder: Path, capsys: Capture) -> None:
        assert once("risky", {"what": "it"}, yes=yes, tools=("call_tools:risky",)) == code
        assert said in "".join(capsys.readouterr())

    def test_media_are_named(self, folder: Path, capsys: Capture) -> None:
        assert once("picture", tools=("call_tools:picture",)) == 0
        assert capsys.readouterr().out == "see\n[image image/png a.png]\n"

    @pytest.mark.parametrize("arguments", ["[]", "{", "3"])
    def test_arguments_that_are_no_object_are_wrong_usage(self, arguments: str, folder: Path) -> None:
        with pytest.raises(UsageError, match="not a JSON object"):
            once("read", arguments)

    def test_the_audit_log_has_the_real_target(self, folder: Path, capsys: Capture) -> None:
        (folder / "link.txt").symlink_to("a.txt")
        assert once("write", {"path": "new/b.txt", "content": "x"}) == 0
        assert once("read", {"path": "link.txt"}) == 0
        lines = [json.loads(line) for line in _state(folder, "audit.jsonl").read_text().splitlines()]
        assert [(line["tool"], line["outcome"]) for line in lines] == [("write", "ok"), ("read", "ok")]
        assert lines[0]["target"].endswith("new/b.txt")
        assert lines[1]["target"].endswith("a.txt")
        assert "link" not in lines[1]["target"]


def _state(folder: Path, name: str) -> Path:
    return folder.parent / f"{folder.name}-state" / name


class TestLines:
    def run(self, folder: Path, lines: list[Any], capsysbinary: pytest.CaptureFixture[bytes]) -> tuple[int, list[Any]]:
        file = folder / "calls.jsonl"
        file.write_text("".join(_dumps(line) + "\n" for line in lines))
        code = call_lines(Flags(tools=("call_tools:risky",)), file, yes=False)
        return code, [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]

    def test_one_answer_a_line_in_order(self, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        code, answers = self.run(
            folder,
            [
                {"id": 1, "tool": "write", "arguments": {"path": "b.txt", "content": "hi\n"}},
                {"id": "two", "tool": "read", "arguments": {"path": "b.txt"}},
                {"id": 3, "tool": "read", "arguments": {"path": "nope"}},
                {"id": 4, "tool": "risky", "arguments": {"what": "x"}},
                {"id": 5, "tool": "nope"},
            ],
            capsysbinary,
        )
        assert code == 1
        assert [one["id"] for one in answers] == [1, "two", 3, 4, 5]
        assert [one["ok"] for one in answers] == [True, True, False, False, False]
        assert answers[1]["content"][0]["text"].startswith("1\thi")
        assert [one["error"] and one["error"]["kind"] for one in answers] == [None, None, "not_found", "rejected", "not_found"]
        assert all(set(one) == {"id", "ok", "content", "error", "seconds"} for one in answers)

    def test_lines_that_are_no_calls_are_answered_too(self, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        code, answers = self.run(folder, ["{", {"id": 2}, {"id": 3, "tool": "read", "arguments": []}], capsysbinary)
        assert code == 1
        assert [one["id"] for one in answers] == [None, 2, 3]
        assert all(set(one) == {"id", "ok", "content", "error", "seconds"} for one in answers)
        assert [(one["ok"], one["content"], one["seconds"]) for one in answers] == [(False, [], 0.0)] * 3
        assert [one["error"]["kind"] for one in answers] == ["validation"] * 3
        assert ["JSON object" in answers[0]["error"]["message"], answers[2]["error"]["message"]] == [
            True,
            '"arguments" must be an object',
        ]

    def test_all_good_is_exit_0(self, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert self.run(folder, [{"id": 1, "tool": "list_dir", "arguments": {"path": "."}}], capsysbinary)[0] == 0

    def test_what_still_runs_at_the_end_is_named_once(self, folder: Path, capfd: Capture) -> None:
        line = {"id": 1, "tool": "shell", "arguments": {"command": "sleep 60", "background": True}}
        file = folder / "calls.jsonl"
        file.write_text(f"{_dumps(line)}\n{_dumps(line)}\n")
        assert call_lines(Flags(), file, yes=True) == 0
        said = capfd.readouterr().err
        assert said.startswith("toolglot: 'sleep 60', 'sleep 60' were terminated")
        assert said.count("\n") == 1


class TestWhatEnds:
    @pytest.mark.parametrize(
        ("model", "name", "arguments", "ended"),
        [
            (None, "shell", {"command": "sleep 60", "background": True}, "'sleep 60' was terminated"),
            ("gpt-5.5", "exec_command", {"cmd": "sleep 60", "yield_time_ms": 250}, "'sleep 60' was terminated"),
            (None, "shell", {"command": "true"}, ""),
            (None, "read", {"path": "a.txt"}, ""),
        ],
    )
    def test_a_command_that_goes_on_is_named(
        self, model: str | None, name: str, arguments: Any, ended: str, folder: Path, capsys: Capture
    ) -> None:
        assert call_once(Flags(), name, _dumps(arguments), model=model, yes=True, json=False) == 0
        said = capsys.readouterr().err
        assert ended in said
        assert said.count("\n") == bool(ended)


def entered(monkeypatch: Patch, *words: str) -> object:
    """The exit code of a command line."""
    monkeypatch.setattr(sys, "argv", ["toolglot", *words])
    with pytest.raises(SystemExit) as left:
        command_line.main()
    return left.value.code


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("words", "named"),
        [
            (("read", "--jsonl", "{}"), "remove 'read'"),
            (("read", "--jsonl"), "remove 'read'"),
            (("read", '{"path": "a.txt"}', "--file", "a.txt"), "--file 'a.txt' requires --jsonl"),
            (("--file", "a.txt"), "--file 'a.txt' requires --jsonl"),
        ],
    )
    def test_what_would_be_ignored_is_refused(
        self, words: tuple[str, ...], named: str, folder: Path, monkeypatch: Patch, capsys: Capture
    ) -> None:
        assert entered(monkeypatch, "call", *words) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert named in err

    @pytest.mark.parametrize(
        "words",
        [
            ("call", "read", '{"path": "a.txt"}'),
            ("call", "read", "{}", "--tools", "call_tools:risky"),
            ("run", "hi", "-m", "simulator", "--builtin"),
            ("tools",),
            ("trust",),
            ("trust", "."),
        ],
        ids=" ".join,
    )
    def test_a_folder_that_is_gone_is_one_sentence(
        self, words: tuple[str, ...], folder: Path, monkeypatch: Patch, capsys: Capture
    ) -> None:
        gone = folder / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert entered(monkeypatch, *words) == 2
        assert capsys.readouterr().err == "toolglot: the current directory no longer exists: change to another one\n"

    def test_a_failure_of_the_system_is_a_sentence_too(self, folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
        def fails(**_: object) -> None:
            raise PermissionError(13, "Permission denied", "x")

        monkeypatch.setattr(command_line, "app", fails)
        assert "unexpected PermissionError" in str(entered(monkeypatch))
