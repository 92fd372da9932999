"""`run`, `simulate` and `demo` as a user or a script runs them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", "TOOLGLOT_MODEL": "simulator"}
TOOLS = '''
from toolglot import tool

@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    print("noise of a tool")
    return f"{city}: 21 degrees"

@tool
def broken(x: int) -> str:
    """Always fails."""
    raise RuntimeError("no luck")

@tool(approval=True)
def risky() -> str:
    """Needs an approval."""
    return "done"

all = [get_weather, broken, risky]
'''


def environment() -> dict[str, str]:
    """That of this moment: whether coverage watches is in it."""
    return {**os.environ, **PLAIN}


def run(*words: str, given: bytes = b"", cwd: Path | None = None, **env: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "toolglot.cli.main", "run", *words]
    done = subprocess.run(command, input=given, capture_output=True, env=environment() | env, cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    return tmp_path


class TestRun:
    def test_the_answer_and_nothing_else_is_on_stdout(self, folder: Path) -> None:
        code, out, err = run("What is the weather in Paris?", "--tools", "my_tools:all", cwd=folder)
        assert code == 0
        assert "Paris: 21 degrees" in out
        assert "noise" not in out
        assert "noise" in err

    def test_events_are_json_lines(self, folder: Path) -> None:
        code, out, _ = run("What is the weather in Paris?", "--tools", "my_tools:get_weather", "--json", cwd=folder)
        events = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert events[0] == {"type": "RunStarted", "version": 1, "model": "simulator:anthropic/claude-sonnet-4-5"}
        kinds = [event["type"] for event in events]
        assert kinds.count("ToolStarted") == kinds.count("ToolFinished") == 1
        assert kinds[-1] == "RunDone"
        assert events[-1]["result"]["stop"] == "end"

    def test_the_prompt_may_come_from_stdin(self) -> None:
        assert run(given=b"say hello from a pipe")[:2] == (0, "hello from a pipe\n")
        assert run("-", given=b"say hello from a pipe")[:2] == (0, "hello from a pipe\n")

    def test_without_a_model_the_simulator_answers_and_says_so(self) -> None:
        code, out, err = run("say hi", TOOLGLOT_MODEL="")
        assert (code, out) == (0, "hi\n")
        assert "the simulator answers" in err

    def test_a_file_is_shown_to_the_model(self, tmp_path: Path) -> None:
        (tmp_path / "note.txt").write_text("say read from a file")
        code, out, _ = run("Do what the note says:", "-a", str(tmp_path / "note.txt"))
        assert code == 0
        assert "read from a file" in out

    def test_a_failing_tool_is_told_to_the_model(self, folder: Path) -> None:
        code, out, err = run('call broken {"x": 1}', "--tools", "my_tools:all", cwd=folder)
        assert code == 0
        assert "no luck" in out
        assert "Traceback" not in err

    def test_a_run_that_waits_for_approval_exits_with_3(self, folder: Path) -> None:
        code, _, err = run("call risky {}", "--tools", "my_tools:all", cwd=folder)
        assert code == 3
        assert "risky needs approval" in err

    @pytest.mark.untraced
    @pytest.mark.parametrize(
        ("words", "exits", "says"),
        [
            (["-m", "antropic:x", "hi"], 2, "did you mean 'anthropic'?"),
            (["-m", "anthropic", "hi"], 2, "'anthropic' is neither PROVIDER:MODEL"),
            (["-m", "anthropic:claude-sonnet-4-5", "hi"], 2, "set ANTHROPIC_API_KEY"),
            (["-m", "compatible:x", "hi"], 2, "needs a base URL"),
            (["-a", "nope.png", "hi"], 2, "cannot read attachment 'nope.png'"),
            (["--tools", "nope:tools", "hi"], 2, "cannot load 'nope:tools'"),
            (["--tools", "json:dumps.nope", "hi"], 2, "cannot load"),
            ([""], 2, "the prompt is empty"),
            (["fault unauthorized"], 1, ""),
            (["-m", "openai-chat:gpt-4o", "--base-url", "http://127.0.0.1:1", "hi"], 1, "could not connect to 127.0.0.1:1"),
            (["-m", "openai-chat:gpt-4o", "--base-url", "ftp://x", "hi"], 2, "not an http or https URL"),
        ],
    )
    def test_bad_input_is_one_sentence(self, words: list[str], exits: int, says: str) -> None:
        code, out, err = run(*words, ANTHROPIC_API_KEY="", ANTHROPIC_AUTH_TOKEN="", OPENAI_API_KEY="k")
        assert (code, out) == (exits, "")
        assert says in err
        assert len(err.strip().splitlines()) == 1

    def test_a_failure_is_an_event_too(self) -> None:
        code, out, _ = run("fault unauthorized", "--json")
        last = json.loads(out.splitlines()[-1])
        assert code == 1
        assert last["type"] == "RunFailed"
        assert last["error"]["type"] == "AuthenticationFailed"

    def test_ctrl_c_is_quiet(self) -> None:
        command = [sys.executable, "-m", "toolglot.cli.main", "run", "--json", "fault stall"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()  # it has begun
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert json.loads(out.splitlines()[-1])["error"]["type"] == "Interrupted"
        assert b"Traceback" not in err


@pytest.fixture
def simulator() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, "-m", "toolglot.cli.main", "simulate", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        found = re.search(rb"http://\S+", process.stdout.readline())
        assert found
        yield process, found[0].decode()
        process.kill()


class TestSimulate:
    def test_it_serves_until_ctrl_c(self, simulator: tuple[subprocess.Popen[bytes], str]) -> None:
        process, url = simulator
        body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "say hi"}]}).encode()
        asked = Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json", "authorization": "Bearer any"})
        with urlopen(asked) as answer:
            value: Any = json.load(answer)
        assert value["choices"][0]["message"]["content"] == "hi"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0

    def test_run_talks_to_it(self, simulator: tuple[subprocess.Popen[bytes], str]) -> None:
        words = ["-m", "openai-chat:gpt-4o", "--base-url", f"{simulator[1]}/v1", "say over HTTP"]
        assert run(*words, OPENAI_API_KEY="any")[:2] == (0, "over HTTP\n")

    def test_a_port_that_is_taken_is_one_sentence(self, simulator: tuple[subprocess.Popen[bytes], str]) -> None:
        port = simulator[1].rpartition(":")[2]
        command = [sys.executable, "-m", "toolglot.cli.main", "simulate", "--port", port]
        done = subprocess.run(command, capture_output=True, env=environment())
        assert done.returncode == 1
        assert b"cannot listen on" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_demo_is_a_conversation_on_every_wire() -> None:
    done = subprocess.run([sys.executable, "-m", "toolglot.cli.main", "demo"], capture_output=True, env=environment())
    out = done.stdout.decode()
    assert (done.returncode, done.stderr.decode()) == (0, "")
    for title in ("OpenAI Chat Completions", "OpenAI Responses", "Anthropic Messages", "Google Gemini", "Ollama"):
        assert f"{title}" in out
    assert out.count("⇄ handed over to") == 5
    assert out.count("(2 attempts)") == 5
    assert "anthropic → gemini" in out


def test_demo_of_an_unknown_provider_names_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toolglot.cli.main", "demo", "--wire", "gemni"], capture_output=True, env=environment()
    )
    assert done.returncode == 2
    assert b"'gemini'" in done.stderr
