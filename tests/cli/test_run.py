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
from cli_kit import PLAIN, Outcome, run_program

TITLE, HIDDEN = "\x1b]0;PWNED\x07", "\x1b[8mhidden"
TOOLS = f'''
from toolglot import Context, tool

@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    print("noise of a tool")
    return f"{{city}}: 21 degrees"

@tool(effects="read")
def look(what: str) -> str:
    """Look at something."""
    return f"seen: {{what}}"

@tool(effects="write")
def delete_all() -> str:
    """Delete everything."""
    return "deleted"

@tool(approval=True)
def risky() -> str:
    """Needs approval."""
    return "done"

@tool(inline=True)
def odd(context: Context) -> str:
    """Return control characters."""
    context.report("half {TITLE}{HIDDEN} done")
    return "all {TITLE}{HIDDEN} done"

@tool(inline=True)
def fails() -> str:
    """Fail with control characters."""
    raise ValueError("no {TITLE}{HIDDEN} luck")

all = [get_weather, look, delete_all, risky, odd, fails]
'''


class Command:
    """`toolglot` in a directory with tools, without the user's own configuration."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "my_tools.py").write_text(TOOLS)

    def __call__(self, *words: str, stdin: str | bytes = b"", **env: str) -> Outcome:
        defaults = {"TOOLGLOT_STATE": str(self.directory / "state"), "TOOLGLOT_MODEL": "simulator"}
        return run_program(*words, stdin=stdin, cwd=self.directory, **(defaults | env))

    def run(self, *words: str, **options: Any) -> Outcome:
        return self("run", *words, "--tools", "my_tools:all", **options)


@pytest.fixture
def toolglot(tmp_path: Path) -> Command:
    return Command(tmp_path)


class TestOutput:
    def test_only_the_answer_is_written_to_stdout(self, toolglot: Command) -> None:
        code, out, err = toolglot.run("What is the weather in Paris?")
        assert code == 0
        assert "Paris: 21 degrees" in out
        assert "noise" not in out
        assert "noise" in err
        assert toolglot.run('call look {"what": "it"}')[::2] == (0, "")

    def test_events_are_json_lines(self, toolglot: Command) -> None:
        outcome = toolglot.run("What is the weather in Paris?", "--json")
        events = outcome.records()
        assert outcome.code == 0
        assert events[0] == {"type": "RunStarted", "version": 1, "model": "simulator:anthropic/claude-sonnet-4-5"}
        kinds = [event["type"] for event in events]
        assert kinds.count("ToolStarted") == kinds.count("ToolFinished") == 1
        assert kinds[-1] == "RunDone"
        assert events[-1]["result"]["stop"] == "end"

    def test_failure_is_an_event_too(self, toolglot: Command) -> None:
        outcome = toolglot("run", "fault unauthorized", "--json")
        assert outcome.code == 1
        assert outcome.records()[-1]["type"] == "RunFailed"
        assert outcome.records()[-1]["error"]["type"] == "AuthenticationFailed"

    @pytest.mark.parametrize("words", [(), ("-",)])
    def test_prompt_can_come_from_stdin(self, toolglot: Command, words: tuple[str, ...]) -> None:
        assert toolglot("run", *words, stdin=b"say hello from a pipe")[:2] == (0, "hello from a pipe\n")

    def test_without_a_model_the_simulator_answers_and_says_so(self, toolglot: Command) -> None:
        code, out, err = toolglot("run", "say hi", TOOLGLOT_MODEL="")
        assert (code, out) == (0, "hi\n")
        assert "the simulator answers" in err

    def test_attached_file_is_sent(self, toolglot: Command) -> None:
        (toolglot.directory / "note.txt").write_text("say read from a file")
        code, out, _ = toolglot("run", "Do what the note says:", "-a", "note.txt")
        assert code == 0
        assert "read from a file" in out

    def test_failing_tool_is_reported_to_the_model(self, toolglot: Command) -> None:
        code, out, err = toolglot.run("call fails {}")
        assert code == 0
        assert "luck" in out
        assert "Traceback" not in err

    @pytest.mark.parametrize("answer", [f"hello {HIDDEN}", "tab\there", "a\u202eb"])
    def test_answer_is_unchanged_in_a_pipe(self, toolglot: Command, answer: str) -> None:
        assert toolglot("run", f"say {answer}")[:2] == (0, f"{answer}\n")

    @pytest.mark.untraced
    def test_verbose_and_log_file(self, toolglot: Command) -> None:
        log = toolglot.directory / "log.jsonl"
        code, out, err = toolglot("run", "say hi", "-v")
        assert (code, out) == (0, "hi\n")
        assert "replied" in err
        assert toolglot("run", "say hi", "-vv", "--log-file", str(log)) == (0, "hi\n", "")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {"time", "level", "logger", "message"} <= set(lines[0])
        assert any("request" in line for line in lines)

    def test_reader_that_closes_the_pipe_ends_it_quietly(self, toolglot: Command) -> None:
        command = f'"{sys.executable}" -m toolglot.cli.main run --json "say {"word " * 20000}" | head -c 10'
        env = {**os.environ, **PLAIN, "TOOLGLOT_MODEL": "simulator"}
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, env=env)
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr

    def test_ctrl_c_is_quiet(self) -> None:
        command = [sys.executable, "-m", "toolglot.cli.main", "run", "-m", "simulator", "--json", "fault stall"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it has started
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert json.loads(out.splitlines()[-1])["error"]["type"] == "Interrupted"
        assert b"Traceback" not in err


class TestTerminalOutput:
    """What a terminal would interpret is escaped."""

    @pytest.mark.parametrize(
        ("prompt", "seen"),
        [
            (f"say hello {TITLE}{HIDDEN}", "hello ␛]0;PWNED␇␛[8mhidden"),
            ("call odd {}", "half ␛]0;PWNED␇␛[8mhidden done"),
            ("call odd {}", "all ␛]0;PWNED␇␛[8mhidden done"),
            ("call fails {}", "no ␛]0;PWNED␇␛[8mhidden luck"),
            ("say a\u202eb\u2066c", "a⟨U+202E⟩b⟨U+2066⟩c"),
        ],
        ids=["answer", "progress", "result", "error of a tool", "bidi controls"],
    )
    @pytest.mark.parametrize("on_error", ["continue", "abort"])
    def test_control_characters_are_escaped(self, toolglot: Command, prompt: str, seen: str, on_error: str) -> None:
        terminal = pytest.importorskip("terminal", reason="there are no pseudo-terminals here")
        command = [sys.executable, "-m", "toolglot.cli.main", "run", "-m", "simulator", prompt, "--tools", "my_tools:all"]
        env = terminal.surroundings(TOOLGLOT_POLICY_ON_ERROR=on_error)
        with terminal.Terminal(command, cwd=toolglot.directory, columns=200, env=env) as screen:
            screen.wait_exit()
        assert seen in screen.unwrapped, screen.unwrapped
        for control in (b"\x1b]", b"\x07", b"\x1b[8m", "\u202e".encode(), "\u2066".encode()):
            assert control not in bytes(screen.raw)


class TestTools:
    @pytest.mark.parametrize(
        ("words", "prompt", "kinds"),
        [
            (["--allow", "look"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--allow", "l*", "--allow", "risky"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--deny", "delete_*"], 'call look {"what": "a"} call delete_all {}', [None, "not_allowed"]),
            (["--yes"], "call risky {} call delete_all {}", [None, None]),
        ],
    )
    def test_flags_decide_which_may_run(
        self, toolglot: Command, words: list[str], prompt: str, kinds: list[str | None]
    ) -> None:
        outcome = toolglot.run(prompt, "--json", *words)
        assert outcome.code == 0, outcome.err
        results = [event["outcome"]["result"] for event in outcome.records() if event["type"] == "ToolFinished"]
        assert [result.get("error_kind") for result in sorted(results, key=lambda result: result["call_id"])] == kinds

    def test_missing_approval_ends_the_run_with_3(self, toolglot: Command) -> None:
        code, out, err = toolglot.run("call risky {}")
        assert (code, out) == (3, "")
        assert "risky needs approval (use --yes to approve)" in err

    def test_max_turns(self, toolglot: Command) -> None:
        prompt = 'call look {"what": "1"} then call look {"what": "2"} then call look {"what": "3"}'
        outcome = toolglot.run(prompt, "--max-turns", "2", "--json")
        assert outcome.code == 3
        assert outcome.records()[-1]["result"]["stop"] == "max_iterations"


class TestErrors:
    @pytest.mark.untraced
    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            (["-m", "antropic:x", "hi"], 2, "did you mean 'anthropic'?"),
            (["-m", "anthropic", "hi"], 2, "'anthropic' is neither PROVIDER:MODEL"),
            (["-m", "anthropic:claude-sonnet-4-5", "hi"], 2, "set ANTHROPIC_API_KEY"),
            (["-m", "compatible:x", "hi"], 2, "needs a base URL"),
            (["-a", "nope.png", "hi"], 2, "cannot read attachment 'nope.png'"),
            (["--tools", "nope:tools", "hi"], 2, "cannot load 'nope:tools'"),
            (["--tools", "json:dumps.nope", "hi"], 2, "cannot load"),
            (["--tools", "my_tools:all", "--allow", "lock", "hi"], 2, "unknown tool in --allow 'lock'; did you mean 'look'?"),
            (["--log-file", ".", "say hi"], 2, "cannot write the log"),
            ([""], 2, "the prompt is empty"),
            (["fault unauthorized"], 1, ""),
            (["-m", "openai-chat:gpt-4o", "--base-url", "http://127.0.0.1:1", "hi"], 1, "could not connect to 127.0.0.1:1"),
            (["-m", "openai-chat:gpt-4o", "--base-url", "ftp://x", "hi"], 2, "not an http or https URL"),
        ],
    )
    def test_error_is_one_sentence(self, toolglot: Command, words: list[str], code: int, message: str) -> None:
        keys = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "", "OPENAI_API_KEY": "k"}
        outcome = toolglot("run", *words, **keys)
        assert outcome[:2] == (code, "")
        assert message in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1

    def test_invalid_input_and_bugs_are_sentences_too(self, toolglot: Command) -> None:
        message = "toolglot: the prompt on stdin is not UTF-8 text: byte 3 is 0xe9\n"
        assert toolglot("run", stdin=b"caf\xe9") == (2, "", message)
        source = "class Odd(list):\n    def __iter__(self): raise MemoryError('no')\nall = Odd([1])\n"
        (toolglot.directory / "my_tools.py").write_text(source)
        message = "toolglot: unexpected MemoryError: no (this is a bug; use -vv for details)\n"
        assert toolglot.run("hi")[::2] == (1, message)


class TestConfiguration:
    def test_configured_tools_and_rules_apply(self, toolglot: Command) -> None:
        config = toolglot.directory / "config.toml"
        config.write_text('tools = ["my_tools:all"]\n[policy]\ndeny = ["risky"]\nmax_turns = 7\n')
        outcome = toolglot("run", "call risky {} call delete_all {}", "--json", TOOLGLOT_CONFIG=str(config))
        assert outcome.code == 0
        results = [event["outcome"]["result"] for event in outcome.records() if event["type"] == "ToolFinished"]
        assert sorted((result.get("error_kind") for result in results), key=str) == [None, "not_allowed"]

    def test_untrusted_project_loads_nothing(self, toolglot: Command) -> None:
        (toolglot.directory / "evil.py").write_text("open('loaded', 'w').close()\ntools = []\n")
        (toolglot.directory / "toolglot.toml").write_text('tools = ["evil:tools"]\nmodel = "simulator:gemini"\n')
        code, out, err = toolglot("run", "say hi", TOOLGLOT_MODEL="")
        assert (code, out) == (0, "hi\n")
        assert "toolglot: ignoring tools in" in err
        assert not (toolglot.directory / "loaded").exists()
        assert toolglot("trust").code == 0
        assert toolglot("run", "say hi", TOOLGLOT_MODEL="")[::2] == (0, "")
        assert (toolglot.directory / "loaded").exists()

    def test_broken_file_is_an_error_with_its_position(self, toolglot: Command) -> None:
        (toolglot.directory / "toolglot.toml").write_text("model = \n")
        code, out, err = toolglot("run", "hi")
        assert (code, out) == (2, "")
        assert "toolglot.toml, line 1, column 9" in err

    @pytest.mark.untraced
    def test_alias_is_a_model(self, toolglot: Command) -> None:
        (toolglot.directory / "toolglot.toml").write_text('[aliases]\nwork = "simulator:ollama"\n')
        outcome = toolglot("run", "say hi", "-m", "work", "--json")
        assert outcome.code == 0
        assert outcome.records()[0]["model"] == "simulator:ollama/qwen3"
        assert toolglot("run", "hi", "-m", "wrok").err.count("did you mean 'work'") == 1


@pytest.fixture
def simulator() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, "-m", "toolglot.cli.main", "simulate", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        match = re.search(rb"http://\S+", process.stdout.readline())
        assert match
        yield process, match[0].decode()
        process.kill()


class TestSimulate:
    def test_serves_until_ctrl_c(self, simulator: tuple[subprocess.Popen[bytes], str]) -> None:
        process, url = simulator
        body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "say hi"}]}).encode()
        headers = {"content-type": "application/json", "authorization": "Bearer any"}
        with urlopen(Request(f"{url}/v1/chat/completions", body, headers)) as response:
            value: Any = json.load(response)
        assert value["choices"][0]["message"]["content"] == "hi"
        words = ["run", "-m", "openai-chat:gpt-4o", "--base-url", f"{url}/v1", "say over HTTP"]
        assert run_program(*words, OPENAI_API_KEY="any")[:2] == (0, "over HTTP\n")
        code, _, err = run_program("simulate", "--port", url.rpartition(":")[2])
        assert code == 1
        assert "cannot listen on" in err
        assert len(err.splitlines()) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_demo_runs_a_conversation_on_every_wire() -> None:
    code, out, err = run_program("demo")
    assert (code, err) == (0, "")
    for title in ("OpenAI Chat Completions", "OpenAI Responses", "Anthropic Messages", "Google Gemini", "Ollama"):
        assert title in out
    assert out.count("⇄ handed over to") == 5
    assert out.count("(2 attempts)") == 5
    assert "anthropic → gemini" in out
    code, _, err = run_program("demo", "--wire", "gemni")
    assert code == 2
    assert "'gemini'" in err
