"""`run` for scripts: which tools, how far, what is printed where, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = '''
import os, subprocess, sys
from toolglot import tool

@tool(effects="read")
def look(what: str) -> str:
    """Looks at something."""
    return f"seen: {what}"

@tool(effects="write")
def delete_all() -> str:
    """Deletes everything."""
    return "deleted"

@tool(approval=True)
def risky() -> str:
    """Asks first."""
    return "risked"

all = [look, delete_all, risky]
'''


class Command:
    """`toolglot` in a folder with tools, without anybody's own configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "my_tools.py").write_text(TOOLS)
        self.env = {**os.environ, "NO_COLOR": "1", "TOOLGLOT_STATE": str(folder / "state"), "TOOLGLOT_MODEL": "simulator"}

    def __call__(self, *words: str, given: bytes = b"", **env: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "toolglot.cli.main", *words]
        done = subprocess.run(command, input=given, capture_output=True, env=self.env | env, cwd=self.folder)
        return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def toolglot(tmp_path: Path) -> Command:
    return Command(tmp_path)


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


class TestTools:
    @pytest.mark.parametrize(
        ("words", "asks", "kinds"),
        [
            (["--allow", "look"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--allow", "l*", "--allow", "risky"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--deny", "delete_*"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--yes"], "call risky {} call delete_all {}", [None, None]),
        ],
    )
    def test_which_may_run(self, toolglot: Command, words: list[str], asks: str, kinds: list[str | None]) -> None:
        code, out, err = toolglot("run", asks, "--tools", "my_tools:all", "--json", *words)
        assert code == 0, err
        results = [one["outcome"]["result"] for one in events(out) if one["type"] == "ToolFinished"]
        assert [one.get("error_kind") for one in sorted(results, key=lambda one: one["call_id"])] == kinds

    def test_a_name_that_no_tool_has_is_wrong_usage(self, toolglot: Command) -> None:
        code, _, err = toolglot("run", "hi", "--tools", "my_tools:all", "--allow", "lock")
        assert code == 2
        assert "unknown tool in --allow 'lock'; did you mean 'look'?" in err

    def test_an_approval_that_nobody_gives_ends_the_run_with_3(self, toolglot: Command) -> None:
        code, out, err = toolglot("run", "call risky {}", "--tools", "my_tools:risky")
        assert (code, out) == (3, "")
        assert "risky needs approval (use --yes to approve)" in err

    def test_so_many_requests_with_tools_and_no_more(self, toolglot: Command) -> None:
        asks = 'call look {"what": "1"} then call look {"what": "2"} then call look {"what": "3"}'
        code, out, _ = toolglot("run", asks, "--tools", "my_tools:look", "--max-turns", "2", "--json")
        assert code == 3
        assert events(out)[-1]["result"]["stop"] == "max_iterations"

    def test_configured_tools_and_rules_count(self, toolglot: Command) -> None:
        config = toolglot.folder / "config.toml"
        config.write_text('tools = ["my_tools:all"]\n[policy]\ndeny = ["risky"]\nmax_turns = 7\n')
        code, out, _ = toolglot("run", "call risky {} call delete_all {}", "--json", TOOLGLOT_CONFIG=str(config))
        assert code == 0
        results = [one["outcome"]["result"].get("error_kind") for one in events(out) if one["type"] == "ToolFinished"]
        assert sorted(results, key=str) == [None, "not_allowed"]


class TestOutput:
    def test_a_reader_that_has_seen_enough_ends_it_quietly(self, toolglot: Command) -> None:
        command = f'"{sys.executable}" -m toolglot.cli.main run --json "say {"word " * 20000}" | head -c 10'
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, env=toolglot.env)
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr

    def test_nothing_but_the_answer_is_printed_without_a_terminal(self, toolglot: Command) -> None:
        code, out, err = toolglot("run", 'call look {"what": "it"}', "--tools", "my_tools:look")
        assert (code, err) == (0, "")
        assert "seen: it" in out

    @pytest.mark.untraced
    def test_more_is_said_where_it_is_asked_for(self, toolglot: Command) -> None:
        log = toolglot.folder / "log.jsonl"
        code, out, err = toolglot("run", "say hi", "-v")
        assert (code, out) == (0, "hi\n")
        assert "replied" in err
        code, out, err = toolglot("run", "say hi", "-vv", "--log-file", str(log))
        assert (code, out, err) == (0, "hi\n", "")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {"time", "level", "logger", "message"} <= set(lines[0])
        assert any("request" in line for line in lines)

    def test_a_log_that_cannot_be_written_is_wrong_usage(self, toolglot: Command) -> None:
        code, out, err = toolglot("run", "say hi", "--log-file", str(toolglot.folder))
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1

    def test_input_that_is_not_text_is_wrong_usage(self, toolglot: Command) -> None:
        code, out, err = toolglot("run", given=b"caf\xe9")
        assert (code, out) == (2, "")
        assert err == "toolglot: the prompt on stdin is not UTF-8 text: byte 3 is 0xe9\n"

    def test_a_bug_is_a_sentence_too(self, toolglot: Command) -> None:
        source = "class Odd(list):\n    def __iter__(self): raise MemoryError('no')\nodd = Odd([1])\n"
        (toolglot.folder / "my_tools.py").write_text(source)
        code, _, err = toolglot("run", "hi", "--tools", "my_tools:odd")
        assert code == 1
        assert err == "toolglot: unexpected MemoryError: no (this is a bug; use -vv for details)\n"


class TestConfiguration:
    def test_a_project_that_is_not_trusted_is_told_about_and_loads_nothing(self, toolglot: Command) -> None:
        (toolglot.folder / "evil.py").write_text("open('loaded', 'w').close()\ntools = []\n")
        (toolglot.folder / "toolglot.toml").write_text('tools = ["evil:tools"]\nmodel = "simulator:gemini"\n')
        code, out, err = toolglot("run", "say hi", TOOLGLOT_MODEL="")
        assert (code, out) == (0, "hi\n")
        assert "toolglot: ignoring tools in" in err
        assert not (toolglot.folder / "loaded").exists()
        assert toolglot("trust")[0] == 0
        assert toolglot("run", "say hi", TOOLGLOT_MODEL="")[::2] == (0, "")
        assert (toolglot.folder / "loaded").exists()

    def test_a_broken_file_names_its_place(self, toolglot: Command) -> None:
        (toolglot.folder / "toolglot.toml").write_text("model = \n")
        code, out, err = toolglot("run", "hi")
        assert (code, out) == (2, "")
        assert "toolglot.toml, line 1, column 9" in err

    @pytest.mark.untraced
    def test_an_alias_is_a_model(self, toolglot: Command) -> None:
        (toolglot.folder / "toolglot.toml").write_text('[aliases]\nwork = "simulator:ollama"\n')
        code, out, _ = toolglot("run", "say hi", "-m", "work", "--json")
        assert code == 0
        assert events(out)[0]["model"] == "simulator:ollama/qwen3"
        assert toolglot("run", "hi", "-m", "wrok")[2].count("did you mean 'work'") == 1
