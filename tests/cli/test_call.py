"""`toolglot call`: a tool from the shell, under the same rules as in a conversation."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import WAYS, Outcome, Patch, json_lines, run_cli, run_program

from toolglot.cli import main as command_line

TOOLS = '''
from toolglot import tool

@tool(approval=True)
def risky(what: str) -> str:
    """Ask first."""
    print("noise")
    return f"did {what}"

@tool
def noisy() -> str:
    """Print in every way."""
    import subprocess
    import sys
    sys.stdout.reconfigure(line_buffering=True)
    sys.stdout.buffer.write("bytes \N{SNOWMAN}\\n".encode())
    print("lone \\ud800")
    subprocess.run([sys.executable, "-c", "print('program')"], stdout=sys.stdout, check=True)
    return "done"

@tool(effects={"write"})
def note(text: str) -> str:
    """Note a text."""
    return text

@tool
def picture() -> list:
    """Return an image."""
    from toolglot import Media, Text
    return [Text("see"), Media("image", "image/png", "aGk=", name="a.png")]
'''
OWN_FACADE = """
from toolglot import Case, Facade, Field, View

look = View(
    name="look",
    description="Look at a file.",
    parameters={"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
    cases={"": Case(base="read", fields=(Field(native="file", base="path"),))},
    models="^grok",
)
own = Facade(id="own", title="Own", views=(look,))
"""
PATCH = "*** Begin Patch\n*** Add File: b.txt\n+two\n*** End Patch"
RISKY = ("--tools", "call_tools:risky")
NOT_JSON = "toolglot: the arguments must be a JSON object or words KEY=VALUE, such as '{{{}}}' or {}\n"
READ_EXAMPLE = ('"path":"src/main.py","start_line":1', "path=src/main.py start_line=1")
SLEEP = {"command": "sleep 60", "background": True}


@pytest.fixture(autouse=True)
def directory(isolated_home: Path, monkeypatch: Patch) -> Path:
    work = isolated_home / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "call_tools.py").write_text(TOOLS)
    (work / "own_facade.py").write_text(OWN_FACADE)
    (work / "a.txt").write_text("one\ntwo\n")
    return work


def call(tool: str, arguments: Any = None, *words: str) -> Outcome:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return run_cli("call", tool, text, *words)


def call_lines(*lines: Any, words: tuple[str, ...] = ()) -> Outcome:
    return run_cli("call", "--jsonl", *RISKY, *words, stdin=json_lines(*lines))


READ = {"path": "a.txt"}
LINES = "1\tone\n2\ttwo\n"


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (("read", READ), 0, LINES, ""),
        (("read", {"path": "b.txt"}), 1, "", "toolglot: .*b.txt.*\n"),
        (("read", {"path": "../a.txt"}), 1, "", ".* outside the workspace.*\n"),
        (("picture", None, "--tools", "call_tools:picture"), 0, "see\n\\[image image/png a.png\\]\n", ""),
        (
            ("risky", {"what": "it"}, *RISKY),
            1,
            "",
            "toolglot: risky needs approval \\(use --approve RULE, or --yes\\)\n",
        ),
        (("risky", {"what": "it"}, *RISKY, "--yes"), 0, "did it\n", "noise\n"),
        (
            ("nope",),
            2,
            "",
            "toolglot: There is no such tool: 'nope'; known: ask_user, .*, edit, .*, shell, .*, write\n",
        ),
        (
            ("grep",),
            1,
            "",
            "toolglot: The call to grep was not run because its arguments are invalid:\n- pattern: is "
            "missing\n",
        ),
        (("read", "[]"), 2, "", NOT_JSON.format(*READ_EXAMPLE)),
        (("read", "a.txt"), 2, "", NOT_JSON.format(*READ_EXAMPLE)),
        (("risky", "it", *RISKY), 2, "", NOT_JSON.format('"what":"text"', "what=text")),
        (
            ("Read", "a.txt", "-m", "claude-opus-5"),
            2,
            "",
            NOT_JSON.format('"file_path":"text"', "file_path=text"),
        ),
        (("nope", "x"), 2, "", NOT_JSON.format('"name":"value"', "name=value")),
        (("read", "path=a.txt", "end_line=1"), 0, "1\tone\n.*\n", ""),
        (("Read", "file_path=a.txt", "limit=1", "-m", "claude-opus-5"), 0, "1\tone\n", ""),
        (("read", "path=a.txt", "end_line=one"), 2, "", "toolglot: end_line must be an integer, not 'one'\n"),
        (("read", "path=a.txt", "1"), 2, "", "toolglot: '1' is no argument: write path=src/main.py .*\n"),
        (("read", "pth=a.txt"), 1, "", "(?s).*pth: is not a parameter; did you mean 'path'\\?\n"),
        (("risky", "what=a=b c", *RISKY, "--yes"), 0, "did a=b c\n", "noise\n"),
        (
            ("Bash", {"command": "ls"}),
            2,
            "",
            "toolglot: Bash is a model's name for shell: use that name, or choose the model with -m\n",
        ),
        (("Read", None, "-m", "claude-opus-5"), 1, "", "toolglot: [^<]*file_path[^<]*\n"),
        (("read", READ, "-m", "foo:x"), 2, "", "toolglot: unknown provider 'foo'.*\n"),
        # By the names of a model, and in its forms.
        (("Read", {"file_path": "a.txt"}, "-m", "anthropic:claude-opus-5"), 0, LINES + "3\t\n", ""),
        (("read_file", {"file_path": "a.txt"}, "-m", "gemini-3-pro"), 0, "one\ntwo\n", ""),
        (
            ("shell", {"command": ["cat", "a.txt"]}, "-m", "ollama:gpt-oss:20b", "-y"),
            0,
            '.*"exit_code":0.*\n',
            "",
        ),
        (("apply_patch", PATCH, "-m", "gpt-5.5", "-y"), 0, "(?s).*A b.txt\n", ""),
        (("apply_patch", {"input": PATCH}, "-m", "gpt-5.5", "-y"), 0, "(?s).*A b.txt\n", ""),
        (("look", {"file": "a.txt"}, "--facade", "own_facade:own", "-m", "xai:grok-4"), 0, LINES, ""),
        (("look", {"file": "a.txt"}, "--facade", "own_facade:own", "-m", "grok-4"), 0, LINES, ""),
        (
            ("look", {"file": "a.txt"}, "--facade", "own_facade:own", "-m", "simulator:xai/grok-4"),
            0,
            LINES,
            "",
        ),
        (("look", {"file": "a.txt"}, "--facade", "own_facade:own", "-m", "gpt-5"), 2, "", ".*look.*\n"),
        # What ends with the program is named.
        (("shell", SLEEP, "-y"), 0, "(?s).*", "toolglot: 'sleep 60' was terminated.*\n"),
        (
            ("exec_command", {"cmd": "sleep 60", "yield_time_ms": 250}, "-m", "gpt-5.5", "-y"),
            0,
            "(?s).*",
            ".*was terminated.*\n",
        ),
        (("shell", {"command": "true"}, "-y"), 0, "(?s).*", ""),
    ],
)
def test_call(words: tuple[Any, ...], code: int, out: str, err: str) -> None:
    outcome = call(*words)
    assert outcome.code == code
    assert re.fullmatch(out, outcome.out), outcome.out
    assert re.fullmatch(err, outcome.err), outcome.err


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_is_left_out_of_a_call_is_reported(words: tuple[str, ...]) -> None:
    code, out, err = call("read_file", {"file_path": "a.txt", "zoom": 2}, "-m", "gemini-3-pro", *words)
    assert (code, "one" in out) == (0, True)
    assert err == "toolglot: parameter 'zoom' at read_file: there is no such parameter; it was ignored\n"


@pytest.mark.parametrize(
    "name",
    [
        "call_tools",
        "call_tools.py",
        "./call_tools.py",
        "call_tools.py:picture",
        "inner/json.py",
        "call_tools:picture",
    ],
)
def test_tools_of_a_file_or_a_module(name: str, directory: Path) -> None:
    (directory / "inner").mkdir()
    (directory / "inner" / "json.py").write_text(TOOLS)  # the name of a module that is loaded already
    assert call("picture", None, "--tools", name)[:2] == (0, "see\n[image image/png a.png]\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope.py", "cannot load 'nope.py': .*No such file"),
        ("listed.py", "'listed.py' has no top-level tools: write listed.py:all"),
        ("empty", "'empty' has no top-level tools: decorate a function with @tool, or write MODULE:OBJECT"),
    ],
)
def test_files_without_tools(name: str, message: str, directory: Path) -> None:
    (directory / "listed.py").write_text("def f(): pass\nall = [f]\n")
    (directory / "empty.py").write_text("")
    code, _, err = call("f", None, "--tools", name)
    assert code == 2
    assert re.search(message, err), err


def test_arguments_from_stdin() -> None:
    assert run_cli("call", "read", "-", stdin=json.dumps(READ))[:2] == (0, LINES)


def test_the_root_is_the_workspace(directory: Path) -> None:
    (directory / "inner").mkdir()
    code, _, err = call("read", {"path": "../a.txt"}, "--root", "inner")
    assert (code, "outside the workspace" in err) == (1, True)


def test_the_audit_log_has_the_real_target(directory: Path) -> None:
    (directory / "link.txt").symlink_to("a.txt")
    assert call("write", {"path": "new/b.txt", "content": "x"}, "--yes").code == 0
    assert call("read", {"path": "link.txt"}).code == 0
    lines = [
        json.loads(line) for line in (directory.parent / "state" / "audit.jsonl").read_text().splitlines()
    ]
    assert [(line["tool"], line["outcome"]) for line in lines] == [("write", "ok"), ("read", "ok")]
    assert lines[0]["target"].endswith("new/b.txt")
    assert lines[1]["target"].endswith("a.txt")
    assert "link" not in lines[1]["target"]


WRITE = {"path": "a.txt", "content": "new\n"}
CHANGES = [
    ("write", WRITE),
    ("edit", {"path": "a.txt", "old": "one", "new": "new"}),
    ("shell", {"command": "rm a.txt"}),
]


class TestApproval:
    @pytest.mark.parametrize(("tool", "arguments"), CHANGES)
    def test_a_change_is_refused_without_a_terminal_and_without_yes(
        self, tool: str, arguments: Any, directory: Path
    ) -> None:
        assert call(tool, arguments) == (
            1,
            "",
            f"toolglot: {tool} needs approval ({WAYS})\n",
        )
        assert (directory / "a.txt").read_text() == "one\ntwo\n"

    @pytest.mark.parametrize(
        ("tool", "arguments", "text"),
        [(*change, text) for change, text in zip(CHANGES, ("new\n", "new\ntwo\n", None), strict=True)],
    )
    def test_yes_stands_for_the_approval_and_the_earlier_read(
        self, tool: str, arguments: Any, text: str | None, directory: Path
    ) -> None:
        assert call(tool, arguments, "--yes").code == 0
        file = directory / "a.txt"
        assert (file.read_text() if file.exists() else None) == text

    @pytest.mark.parametrize(
        ("answer", "code", "text"), [("y", 0, "new\n"), ("n", 1, "one\ntwo\n"), ("", 1, "one\ntwo\n")]
    )
    def test_a_terminal_asks_and_shows_the_change(
        self, answer: str, code: int, text: str, directory: Path
    ) -> None:
        outcome = run_cli("call", "write", json.dumps(WRITE), stdin=f"{answer}\n", is_terminal=True)
        assert outcome.code == code
        assert "? write wants to run (write)" in outcome.err
        assert "+new" in outcome.err
        assert "Run it? [y/N]" in outcome.err
        assert ("did not approve" in outcome.err) == (code == 1)
        assert (directory / "a.txt").read_text() == text

    @pytest.mark.untraced
    @pytest.mark.parametrize(("key", "code"), [("ctrl-c", 130), ("ctrl-d", 1)])
    def test_ctrl_c_at_the_question_refuses_at_once(self, key: str, code: int, directory: Path) -> None:
        terminal = pytest.importorskip("terminal", reason="there are no pseudo-terminals here")
        command = [sys.executable, "-m", "toolglot", "call", "write", json.dumps(WRITE)]
        with terminal.Terminal(command, cwd=directory, env=terminal.surroundings()) as screen:
            screen.wait_for("Run it? [y/N]")
            screen.wait_quiet()  # until it reads: a signal just before that is seen only at the next key
            screen.press(key)
            assert screen.wait_exit() == code
        message = "toolglot: The user did not approve the call. It did not run."
        assert (message in screen.everything.splitlines()) == (key == "ctrl-d")
        assert "Traceback" not in screen.everything
        assert (directory / "a.txt").read_text() == "one\ntwo\n"

    def test_reading_is_not_asked_about(self) -> None:
        assert run_cli("call", "read", json.dumps(READ), is_terminal=True) == (0, LINES, "")

    def test_effects_of_other_tools_need_approval_if_the_configuration_says_so(self) -> None:
        help = " ".join(run_cli("call", "--help").out.split())
        assert "as do tools of MCP servers and tools with approval=True; other tools run immediately." in help
        words = ("note", {"text": "hi"}, "--tools", "call_tools:note")
        assert call(*words) == (0, "hi\n", "")
        os.environ["TOOLGLOT_POLICY_ASK"] = "write"
        assert call(*words) == (1, "", "toolglot: note needs approval (use --approve RULE, or --yes)\n")

    def test_lines_are_refused_without_yes_even_in_a_terminal(self, directory: Path) -> None:
        line = json_lines({"id": 1, "tool": "write", "arguments": WRITE})
        outcome = run_cli("call", "--jsonl", stdin=line, is_terminal=True)
        assert (outcome.code, outcome.err) == (
            1,
            f"toolglot: write needs approval ({WAYS})\n",
        )
        assert outcome.records()[0]["error"]["kind"] == "rejected"
        assert (directory / "a.txt").read_text() == "one\ntwo\n"

    def test_yes_approves_lines(self, directory: Path) -> None:
        outcome = call_lines({"id": 1, "tool": "write", "arguments": WRITE}, words=("--yes",))
        assert (outcome.code, outcome.err, outcome.records()[0]["ok"]) == (0, "", True)
        assert (directory / "a.txt").read_text() == "new\n"


class TestLines:
    def test_one_answer_a_line_in_order(self) -> None:
        outcome = call_lines(
            {"id": 1, "tool": "list_dir"},
            {"id": "two", "tool": "read", "arguments": READ},
            {"id": 3, "tool": "read", "arguments": {"path": "nope"}},
            {"id": 4, "tool": "risky", "arguments": {"what": "x"}},
            {"id": 5, "tool": "nope"},
        )
        answers = outcome.records()
        assert outcome.code == 1
        assert [answer["id"] for answer in answers] == [1, "two", 3, 4, 5]
        assert [answer["ok"] for answer in answers] == [True, True, False, False, False]
        assert answers[1]["content"][0]["text"] == LINES.rstrip("\n")
        kinds = [answer["error"] and answer["error"]["kind"] for answer in answers]
        assert kinds == [None, None, "not_found", "rejected", "not_found"]
        assert all(set(answer) == {"id", "ok", "content", "error", "seconds"} for answer in answers)

    def test_invalid_lines_are_answered_too(self) -> None:
        outcome = call_lines("{", {"id": 2}, {"id": 3, "tool": "read", "arguments": []})
        assert outcome.code == 1
        messages = [answer["error"].pop("message") for answer in outcome.records()]
        assert "JSON object" in messages[0]
        assert messages[1:] == [
            "Object missing required field `tool`",
            "Expected `str | object`, got `array` - at `$.arguments`",
        ]
        rejected: dict[str, Any] = {"ok": False, "content": [], "seconds": 0.0}
        for id, answer in zip((None, 2, 3), outcome.records(), strict=True):
            assert {**answer, "error": answer["error"]["kind"]} == {
                "id": id,
                "error": "validation",
                **rejected,
            }

    def test_success_is_exit_0_and_the_output_of_a_tool_is_not_a_line(self) -> None:
        line = {"id": 1, "tool": "risky", "arguments": {"what": "it"}}
        outcome = run_cli("call", "--jsonl", *RISKY, "--yes", stdin=json_lines(line))
        assert (outcome.code, outcome.err) == (0, "noise\n")
        assert [answer["ok"] for answer in outcome.records()] == [True]

    def test_terminated_commands_are_named_once(self) -> None:
        line = {"id": 1, "tool": "shell", "arguments": SLEEP}
        outcome = run_cli("call", "--jsonl", "--yes", stdin=json_lines(line, line))
        assert outcome.code == 0
        assert outcome.err.startswith("toolglot: 'sleep 60', 'sleep 60' were terminated")
        assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a tool"),
        (("read", "--jsonl", "{}"), "remove 'read'"),
        (("read", "--jsonl"), "remove 'read'"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], message: str) -> None:
    code, out, err = run_cli("call", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    "words", [("run_code",), ("search_tools", "{}"), ("exec", "text(1)", "-m", "gpt-5.6"), ("exec",)]
)
def test_a_tool_that_a_conversation_adds_cannot_be_called(words: tuple[str, ...], directory: Path) -> None:
    message = f"{words[0]} exists only in a conversation: use toolglot run or toolglot chat"
    assert run_cli("call", *words) == (2, "", f"toolglot: {message}\n")
    (record,) = call_lines({"id": 1, "tool": words[0]}).records()
    assert record["error"] == {"kind": "validation", "message": message}
    (directory / "own.py").write_text(
        "from toolglot import tool\n@tool\ndef run_code() -> str:\n    return 'mine'\n"
    )
    assert call("run_code", None, "--tools", "own.py").out == "mine\n"


@pytest.mark.parametrize(
    "words",
    [
        ("call", "read", '{"path": "a.txt"}'),
        ("call", "read", "{}", *RISKY),
        ("run", "hi", "-m", "simulator", "--builtin"),
        ("tools",),
        ("trust",),
        ("trust", "."),
    ],
    ids=" ".join,
)
def test_a_deleted_directory_is_one_sentence(
    words: tuple[str, ...], directory: Path, monkeypatch: Patch
) -> None:
    deleted = directory / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    deleted.rmdir()
    assert run_cli(*words)[::2] == (
        2,
        "toolglot: the current directory no longer exists: change to another one\n",
    )


def test_a_failure_of_the_system_is_a_sentence_too(monkeypatch: Patch, directory: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "x")

    monkeypatch.setattr(command_line, "app", fail)
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    code, _, err = run_cli()
    assert code == 1
    assert "unexpected PermissionError" in err


@pytest.mark.parametrize(
    "words",
    [("web_search",), ("WebSearch", "-m", "claude-opus-5"), ("google_web_search", "--facade", "gemini")],
)
def test_a_tool_that_cannot_be_used_says_what_is_missing(words: tuple[str, ...]) -> None:
    name, *flags = words
    reason = (
        "no search service is configured: set BRAVE_API_KEY, TAVILY_API_KEY or builtin.searxng_url (in "
        "Python: WebConfig)"
    )
    assert call(name, {"query": "x"}, *flags) == (2, "", f"toolglot: {name} cannot be used: {reason}\n")
    line = run_cli("call", "--jsonl", *flags, stdin=json_lines({"id": 1, "tool": name}))
    assert (line.code, line.records()[0]["error"]["message"]) == (1, f"{name} cannot be used: {reason}")


@pytest.mark.parametrize(
    ("facade", "name", "is_ok"), [("codex", "exec_command", True), ("claude-code", "Bash", False)]
)
def test_a_failure_is_flagged_as_the_program_flags_it(facade: str, name: str, is_ok: bool) -> None:
    outcome = run_cli(
        "call",
        "--jsonl",
        "--yes",
        "--facade",
        facade,
        stdin=json_lines({"id": 1, "tool": name, "arguments": {}}),
    )
    (record,) = outcome.records()
    assert (outcome.code, record["ok"], record["error"]["kind"]) == (1, is_ok, "validation")


_WRITE = {"path": "a.txt", "content": "new\n"}
_CLAUDE_WRITE = {"file_path": "a.txt", "content": "new\n"}


@pytest.mark.parametrize(("flags", "write", "read", "is_written"), [
    ((), ("write", _WRITE), ("read", READ), True),  # whoever calls has decided
    (("-m", "claude-sonnet-4-5"), ("Write", _CLAUDE_WRITE), ("Read", {"file_path": "a.txt"}), False),
    (("-m", "claude-opus-4-8"), ("Write", _CLAUDE_WRITE), ("Read", {"file_path": "a.txt"}), True),
    (("-m", "gemini-3-pro"), ("write_file", _CLAUDE_WRITE), ("read_file", {"file_path": "a.txt"}), True),
], ids=str)  # fmt: skip
def test_the_lines_share_what_was_read_and_each_program_has_its_rule(
    flags: tuple[str, ...], write: tuple[str, Any], read: tuple[str, Any], is_written: bool, directory: Path
) -> None:
    lines = [
        {"id": i, "tool": tool, "arguments": arguments}
        for i, (tool, arguments) in enumerate((write, read, write))
    ]
    records = run_cli("call", "--jsonl", "--yes", *flags, stdin=json_lines(*lines)).records()
    assert [record["ok"] for record in records] == [is_written, True, True]
    assert (directory / "a.txt").read_text() == "new\n"


class TestRules:
    """Rules decide on calls from the shell as they do in a conversation."""

    def test_what_a_rule_allows_runs_without_a_question(self, directory: Path) -> None:
        assert call("shell", {"command": "echo hi"}, "--approve", "shell(echo *)").code == 0
        assert (
            call("edit", {"path": "a.txt", "old": "one", "new": "new"}, "--approve", "write(*.txt)").code == 0
        )
        assert (directory / "a.txt").read_text() == "new\ntwo\n"
        refused = (1, "", f"toolglot: shell needs approval ({WAYS})\n")
        for command in ("echo hi; rm a.txt", "echo hi > a.txt", "rm a.txt", "echo $(rm a.txt)"):
            assert call("shell", {"command": command}, "--approve", "shell(echo *)") == refused
        assert (directory / "a.txt").read_text() == "new\ntwo\n"

    def test_lines_are_judged_one_by_one(self, directory: Path) -> None:
        lines = [
            {"id": number, "tool": "write", "arguments": {**WRITE, "path": path}}
            for number, path in enumerate("ab")
        ]
        outcome = call_lines(*lines, words=("--approve", "write(b)"))
        assert [record["ok"] for record in outcome.records()] == [False, True]
        assert (outcome.code, (directory / "a").exists(), (directory / "b").exists()) == (1, False, True)

    @pytest.mark.parametrize(("arguments", "words", "code", "text"), [
        ({"command": "ls -l"}, ("--approve", "shell(ls *)"), 0, "shell runs: the rule 'shell(ls *)' allows "
                                                                "it\n"),
        ({"command": "ls; cp a b"}, ("--approve", "shell(ls *)"), 0,
         "shell asks: it can change files and run commands, and no rule allows 'cp a b'\n"),
        ({"command": "ls > a.txt"}, ("--approve", "Bash(ls *)"), 0,
         "shell asks: it can change files and run commands, and the command contains a redirection\n"),
        ({"command": "ls"}, (), 0, "shell asks: it can change files and run commands, and no rule allows "
                                   "it\n"),
        ({"command": "rm a.txt"}, (), 1, "shell is refused: the rule 'shell(rm *)' denies it\n"),
        ({"command": "rm a.txt", "escalate": True}, ("--yes",), 1, "shell is refused: the rule 'shell(rm *)' "
                                                                   "denies it\n"),
        ({"command": "ls -l"}, ("--yes", "--deny", "Bash(ls *)"), 1, "shell is refused: the rule 'Bash(ls "
                                                                     "*)' denies it\n"),
        ({"command": "ls"}, ("--yes", "--deny", "exec_command"), 1, "shell is refused: the rule "
                                                                    "'exec_command' denies it\n"),
        ({"command": "ls"}, ("--yes", "--deny", "sh*"), 1, "shell is refused: the rule 'sh*' denies it\n"),
    ])  # fmt: skip
    def test_explain_says_what_would_happen_and_does_nothing(
        self, arguments: dict[str, Any], words: tuple[str, ...], code: int, text: str, directory: Path
    ) -> None:
        os.environ["TOOLGLOT_POLICY_DENY"] = "shell(rm *), shell(cut -d, *)"
        assert call("shell", arguments, *words, "--explain") == (code, text, "")
        assert (directory / "a.txt").read_text() == "one\ntwo\n"

    def test_explain_needs_a_call_that_can_be_judged(self) -> None:
        outcome = call("nothing", {}, "--explain")
        reason = "no tool has this name, or the arguments are not valid"
        assert (outcome.code, outcome.out, outcome.err) == (
            2,
            "",
            f"toolglot: cannot explain nothing: {reason}\n",
        )

    def test_an_untrusted_project_cannot_allow_anything(self, directory: Path) -> None:
        (directory / "toolglot.toml").write_text('[policy]\napprove = ["write", "shell", "*"]\n')
        outcome = call("write", WRITE)
        assert outcome.code == 1
        assert "ignoring policy.approve" in outcome.err
        assert (directory / "a.txt").read_text() == "one\ntwo\n"

    def test_a_rule_that_is_none_is_an_error(self) -> None:
        outcome = call("write", WRITE, "--approve", "write(")
        assert (outcome.code, "'write(' is not a rule: write TOOL or TOOL(PATTERN)" in outcome.err) == (
            2,
            True,
        )

    def test_a_rule_for_no_tool_is_reported(self) -> None:
        outcome = call("read", {"path": "a.txt"}, "--approve", "shel(ls)")
        assert outcome.err == "toolglot: --approve names 'shel(ls)', which matches no tool\n"


def test_whatever_a_tool_prints_goes_to_stderr() -> None:
    outcome = run_program("call", "noisy", "--tools", "call_tools:noisy")
    assert (outcome.code, outcome.out, outcome.err) == (
        0,
        "done\n",
        "bytes \N{SNOWMAN}\nlone \\ud800\nprogram\n",
    )
