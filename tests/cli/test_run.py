"""`run`, `simulate` and `demo` as a user or a script runs them."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.cli.cli_kit import PLAIN, WAYS, Outcome, run_cli, run_program

HOSTILE = "\x1b]0;PWNED\x07\x1b[8mhidden\u202e\u2066"
ESCAPED = "␛]0;PWNED␇␛[8mhidden⟨U+202E⟩⟨U+2066⟩"
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
    context.report("half {HOSTILE} done")
    return "all {HOSTILE} done"

@tool(inline=True)
def fails() -> str:
    """Fail with control characters."""
    raise ValueError("no {HOSTILE} luck")

all = [get_weather, look, delete_all, risky, odd, fails]
'''


@pytest.fixture(autouse=True)
def directory(isolated_home: Path) -> Path:
    """A directory with tools, without the user's own configuration."""
    os.environ["TOOLGLOT_MODEL"] = "simulator"
    (isolated_home / "my_tools.py").write_text(TOOLS)
    return isolated_home


def run(*words: str, **options: Any) -> Outcome:
    return run_cli("run", *words, **options)


def run_with_tools(*words: str) -> Outcome:
    return run(*words, "--tools", "my_tools:all")


class TestOutput:
    def test_only_the_answer_is_written_to_stdout(self) -> None:
        code, out, err = run_with_tools("What is the weather in Paris?")
        assert code == 0
        assert "Paris: 21 degrees" in out
        assert "noise" not in out
        assert "noise" in err
        assert run_with_tools('call look {"what": "it"}')[::2] == (0, "")

    def test_events_are_json_lines(self) -> None:
        outcome = run_with_tools("What is the weather in Paris?", "--json")
        events = outcome.records()
        assert outcome.code == 0
        assert events[0] == {
            "type": "RunStarted",
            "version": 1,
            "model": "simulator:anthropic/claude-sonnet-4-5",
        }
        kinds = [event["type"] for event in events]
        assert kinds.count("ToolStarted") == kinds.count("ToolFinished") == 1
        assert kinds[-1] == "RunDone"
        assert events[-1]["result"]["stop"] == "end"

    @pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, which is not installed")
    def test_the_documented_jq_filter_prints_the_answer(self) -> None:
        document = (Path(__file__).parents[2] / "docs" / "run.md").read_text()
        (words,) = re.findall(r"(jq -.*)$", document, re.MULTILINE)
        events = run("say one\ntwo words", "-m", "simulator", "--json").out
        done = subprocess.run(shlex.split(words), input=events, capture_output=True, text=True, check=True)
        assert done.stdout == run("say one\ntwo words", "-m", "simulator").out.removesuffix("\n")

    def test_failure_is_an_event_too(self) -> None:
        outcome = run("fault unauthorized", "--json")
        assert outcome.code == 1
        assert outcome.records()[-1]["type"] == "RunFailed"
        error = outcome.records()[-1]["error"]
        assert error == {
            "type": "AuthenticationFailed",
            "message": outcome.records()[-1]["error"]["message"],
            "provider": "simulator",
            "model": outcome.records()[0]["model"].partition(":")[2],
            "url": "",
            "status": 401,
            "hint": "",
        }

    def test_a_small_context_is_told_to_leave_out_the_built_in_tools(self) -> None:
        advice = "; shorten the conversation, or leave out the built-in tools with --no-builtin"
        assert run("fault context-too-long", "--builtin").err.rstrip().endswith(advice)
        assert not run("fault context-too-long", "--no-builtin").err.rstrip().endswith(advice)

    @pytest.mark.parametrize(
        ("words", "kind"),
        [
            (("-m", "antropic:x", "hi"), "UnknownName"),
            (("-m", "nope", "hi"), "UsageError"),
            (("-a", "nope.png", "hi"), "UsageError"),
            (("--tools", "nope:tools", "hi"), "UsageError"),
            (("",), "UsageError"),
        ],
    )
    def test_a_run_that_cannot_start_is_an_event_too(self, words: tuple[str, ...], kind: str) -> None:
        outcome = run(*words, "--json")
        (event,) = outcome.records()
        assert (outcome.code, event["type"], event["error"]["type"]) == (2, "RunFailed", kind)
        assert outcome.err == f"toolglot: {event['error']['message']}\n"

    @pytest.mark.parametrize(
        ("words", "options", "out"),
        [
            ((), {"stdin": b"say hello from a pipe"}, "hello from a pipe\n"),
            (("-",), {"stdin": b"say hello from a pipe"}, "hello from a pipe\n"),
            (("say hi",), {"TOOLGLOT_MODEL": ""}, "hi\n"),
            *((("say " + text,), {}, f"{text}\n") for text in (f"hello {HOSTILE}", "tab\there", "a\u202eb")),
            (("Do what the note says:", "-a", "note.txt"), {}, "read from a file\n"),
        ],
    )
    def test_answer(self, words: tuple[str, ...], options: dict[str, Any], out: str, directory: Path) -> None:
        (directory / "note.txt").write_text("say read from a file")
        outcome = run(*words, **options)
        assert (outcome.code, outcome.out) == (0, out)
        assert ("using the simulator" in outcome.err) == ("TOOLGLOT_MODEL" in options)

    def test_piped_input_is_appended_to_the_prompt(self) -> None:
        outcome = run_program("run", "Do this:", stdin="say from a pipe", TOOLGLOT_MODEL="simulator")
        assert (outcome.code, outcome.out) == (0, "from a pipe\n")

    def test_failing_tool_is_reported_to_the_model(self) -> None:
        code, out, err = run_with_tools("call fails {}")
        assert code == 0
        assert "luck" in out
        assert "Traceback" not in err

    @pytest.mark.untraced
    def test_verbose_and_log_file(self, directory: Path) -> None:
        log = directory / "log.jsonl"
        code, out, err = run("say hi", "-v")
        assert (code, out) == (0, "hi\n")
        assert "replied" in err
        assert run("say hi", "-vv", "--log-file", str(log)) == (0, "hi\n", "")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {"time", "level", "logger", "message"} <= set(lines[0])
        assert any("request" in line for line in lines)

    def test_reader_that_closes_the_pipe_ends_it_quietly(self) -> None:
        command = f'"{sys.executable}" -m toolglot.cli.main run --json "say {"word " * 20000}" | head -c 10'
        env = {**os.environ, **PLAIN, "TOOLGLOT_MODEL": "simulator"}
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, env=env)
        assert b"Traceback" not in done.stderr
        assert b"Exception" not in done.stderr

    def test_ctrl_c_is_quiet(self) -> None:
        command = [
            sys.executable,
            "-m",
            "toolglot.cli.main",
            "run",
            "-m",
            "simulator",
            "--json",
            "fault stall",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it has started
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert json.loads(out.splitlines()[-1])["error"]["type"] == "Interrupted"
        assert b"Traceback" not in err


@pytest.mark.parametrize("on_error", ["continue", "abort"])
def test_terminal_gets_control_characters_escaped(directory: Path, on_error: str) -> None:
    terminal = pytest.importorskip("terminal", reason="there are no pseudo-terminals here")
    prompt = "call odd {} call fails {}"
    command = [
        sys.executable,
        "-m",
        "toolglot.cli.main",
        "run",
        "-m",
        "simulator",
        prompt,
        "--tools",
        "my_tools:all",
    ]
    env = terminal.surroundings(TOOLGLOT_POLICY_ON_ERROR=on_error)
    with terminal.Terminal(command, cwd=directory, columns=200, env=env) as screen:
        screen.wait_exit()
    answer = (
        [f"odd: all {ESCAPED} done. fails: ValueError: no {ESCAPED} luck"] if on_error == "continue" else []
    )
    for text in (f"half {ESCAPED} done", f"all {ESCAPED} done", f"no {ESCAPED} luck", *answer):
        assert text in screen.one_line, screen.one_line
    for control in (b"\x1b]", b"\x07", b"\x1b[8m", "\u202e".encode(), "\u2066".encode()):
        assert control not in bytes(screen.raw)


def test_a_log_does_not_continue_the_answer_on_a_terminal(directory: Path) -> None:
    terminal = pytest.importorskip("terminal", reason="there are no pseudo-terminals here")
    command = [sys.executable, "-m", "toolglot.cli.main", "run", "-v", "-m", "simulator", "say hello"]
    with terminal.Terminal(command, cwd=directory, columns=400, env=terminal.surroundings()) as screen:
        screen.wait_exit()
    assert "hello" in screen.everything.splitlines(), screen.everything
    assert re.search(r"^\d\d:\d\d:\d\d engine ", screen.everything, re.MULTILINE)


class TestTools:
    @pytest.mark.parametrize(
        ("words", "prompt", "kinds"),
        [
            (["--allow", "look"], 'call look {"what": "a"} call! delete_all {}', [None, "not_allowed"]),
            (
                ["--allow", "l*", "--allow", "risky"],
                'call look {"what": "a"} call! delete_all {}',
                [None, "not_allowed"],
            ),
            (["--deny", "delete_*"], 'call look {"what": "a"} call! delete_all {}', [None, "not_allowed"]),
            (["--yes"], "call risky {} call delete_all {}", [None, None]),
        ],
    )
    def test_flags_decide_which_may_run(self, words: list[str], prompt: str, kinds: list[str | None]) -> None:
        outcome = run_with_tools(prompt, "--json", *words)
        assert outcome.code == 0, outcome.err
        results = [
            event["outcome"]["result"] for event in outcome.records() if event["type"] == "ToolFinished"
        ]
        assert [
            result.get("error_kind") for result in sorted(results, key=lambda result: result["call_id"])
        ] == kinds

    def test_missing_approval_ends_the_run_with_3(self) -> None:
        code, out, err = run_with_tools("call risky {}")
        assert (code, out) == (3, "")
        assert "? risky wants to run" in err
        assert "risky needs approval (use --approve RULE, or --yes)" in err

    @pytest.mark.parametrize(
        ("answer", "result"), [("y", "done"), ("n", "did not approve"), ("", "did not approve")]
    )
    def test_a_terminal_asks(self, answer: str, result: str) -> None:
        words = ("run", "call risky {}", "-m", "simulator", "--tools", "my_tools:all")
        outcome = run_cli(*words, stdin=f"{answer}\n", is_terminal=True)
        assert outcome.code == 0
        assert "? risky wants to run" in outcome.err
        assert "Run it? [y/N]" in outcome.err
        assert result in outcome.out

    @pytest.mark.parametrize("words", [(), ("--json",)])
    def test_nobody_is_asked_without_a_terminal_or_about_events(self, words: tuple[str, ...]) -> None:
        base = ("run", "call risky {}", "-m", "simulator", "--tools", "my_tools:all", *words)
        outcome = run_cli(*base, stdin="y\n", is_terminal=bool(words))
        assert (outcome.code, "Run it?" in outcome.err) == (3, False)

    @pytest.mark.untraced
    @pytest.mark.parametrize(("key", "code"), [("y", 0), ("ctrl-c", 130), ("ctrl-d", 0)])
    def test_a_question_in_a_real_terminal(self, key: str, code: int, directory: Path) -> None:
        terminal = pytest.importorskip("terminal", reason="there are no pseudo-terminals here")
        words = ("call risky {}", "-m", "simulator", "--tools", "my_tools:all")
        command = [sys.executable, "-m", "toolglot", "run", *words]
        with terminal.Terminal(command, cwd=directory, env=terminal.surroundings()) as screen:
            screen.wait_for("Run it? [y/N]")
            screen.wait_quiet()
            if key == "y":
                screen.type("y\n")
            else:
                screen.press(key)
            assert screen.wait_exit() == code
        lines = screen.everything.splitlines()
        assert any(line.startswith("? risky wants to run") for line in lines)
        assert any("← risky" in line for line in lines) == (key == "y")
        assert "Traceback" not in screen.everything

    def test_max_iterations(self) -> None:
        prompt = 'call look {"what": "1"} then call look {"what": "2"} then call look {"what": "3"}'
        # the last turn allows no calls, and the model obeys
        assert run_with_tools(prompt, "--max-iterations", "2").code == 0
        prompt = 'call look {"what": "1"} then call look {"what": "2"}\nthen fault unknown-tool'
        outcome = run_with_tools(prompt, "--max-iterations", "2", "--json")
        assert outcome.code == 3
        assert outcome.records()[-1]["result"]["stop"] == "max_iterations"

    def test_a_run_that_used_up_its_time_says_so(self) -> None:
        outcome = run_cli("run", "fault stall", "--json", TOOLGLOT_LIMITS_RUN_TIMEOUT="0.05")
        assert (outcome.code, outcome.records()[-1]["result"]["stop"]) == (3, "timeout")
        outcome = run_cli("run", "fault stall", TOOLGLOT_LIMITS_RUN_TIMEOUT="0.05")
        assert (outcome.code, outcome.err) == (
            3,
            "toolglot: stopped early (timeout): the run used up its time (limits.run_timeout)\n",
        )

    def test_a_call_that_waits_for_its_answer_is_said_in_one_sentence(self, directory: Path) -> None:
        """Beside one that needs approval, too: nobody can approve an answer."""
        (directory / "later.py").write_text(
            "from toolglot import Tool, ToolDefinition, tool_from_definition\n"
            "def send() -> str:\n    return 'sent'\n"
            "both = [tool_from_definition(ToolDefinition('pick', 'Pick.')), Tool(send, approval=True)]\n",
            encoding="utf-8",
        )
        outcome = run_cli("run", "--tools", "later:both", "call pick {}")
        assert (outcome.code, outcome.err) == (
            3,
            "toolglot: stopped: a call waits for an answer from elsewhere, which a program can pass with resume; "
            "a new prompt gives the call up\n",
        )
        outcome = run_cli("run", "--tools", "later:both", "call pick {} call send {}")
        assert outcome.code == 3
        assert "send needs approval" in outcome.err
        assert "pick" not in outcome.err


class TestErrors:
    @pytest.mark.untraced
    @pytest.mark.parametrize(
        ("words", "code", "message"),
        [
            (["-m", "antropic:x", "hi"], 2, "did you mean 'anthropic'?"),
            (["-m", "anthropc", "hi"], 2, "nor an alias in [aliases]; did you mean 'anthropic:claude-"),
            (["-m", "simulatr", "hi"], 2, "'simulatr' is neither PROVIDER:MODEL"),
            (["-m", "simulatr", "hi"], 2, "did you mean 'simulator'?"),
            (["-m", "gtp-4o", "hi"], 2, "did you mean 'openai:gpt-4o'?"),
            (["-m", "anthropic", "hi"], 2, "no key for Anthropic Messages: set ANTHROPIC_API_KEY"),
            (["-m", "ollama", "hi"], 2, "'ollama' is a provider: add a model, as in ollama:MODEL"),
            (["-m", "anthropic:claude-sonnet-4-5", "hi"], 2, "set ANTHROPIC_API_KEY"),
            (["-m", "compatible:x", "hi"], 2, "needs a base URL"),
            (["-a", "nope.png", "hi"], 2, "cannot read attachment 'nope.png'"),
            (["--tools", "nope:tools", "hi"], 2, "cannot load 'nope:tools'"),
            (["--tools", "my_toolz", "hi"], 2, "cannot load 'my_toolz': No module named 'my_toolz'"),
            (["--tools", "json:dumps.nope", "hi"], 2, "cannot load"),
            (
                ["--tools", "my_tools:all", "--allow", "lock", "hi"],
                2,
                "unknown tool in --allow 'lock'; did you mean 'look'?",
            ),
            (
                ["--tools", "my_tools:all", "--defer", "lock", "hi"],
                2,
                "unknown tool or tag in --defer 'lock'; did you mean 'look'?",
            ),
            (["--deny", "shel(git push *)", "hi"], 2, "unknown tool in --deny 'shel'; did you mean 'shell'"),
            (["--log-file", ".", "say hi"], 2, "cannot write the log"),
            ([""], 2, "the prompt is empty"),
            (["fault unauthorized"], 1, ""),
            (
                ["-m", "openai-chat:gpt-4o", "--base-url", "http://127.0.0.1:1", "hi"],
                1,
                "could not connect to 127.0.0.1:1",
            ),
            (
                ["-m", "openai-chat:gpt-4o", "--base-url", "ftp://x", "hi"],
                2,
                "must start with http:// or https://",
            ),
        ],
    )
    def test_error_is_one_sentence(self, words: list[str], code: int, message: str) -> None:
        keys = {"OPENAI_API_KEY": "k", "TOOLGLOT_RETRY_MAX_RETRIES": "0"}
        outcome = run(*words, **keys)
        assert outcome[:2] == (code, "")
        assert message in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1

    def test_invalid_input_and_bugs_are_sentences_too(self, directory: Path) -> None:
        message = "toolglot: the prompt on stdin is not UTF-8 text: byte 3 is 0xe9\n"
        assert run(stdin=b"caf\xe9") == (2, "", message)
        source = "class Odd(list):\n    def __iter__(self): raise MemoryError('no')\nall = Odd([1])\n"
        (directory / "my_tools.py").write_text(source)
        code, _, err = run_with_tools("hi")
        match = re.fullmatch(
            r"toolglot: unexpected MemoryError: no \(this is a bug; please report it where you got toolglot from, "
            r"with (.+)\)\n",
            err,
        )
        assert code == 1
        assert match
        traceback = Path(match[1])
        assert "in __iter__" in traceback.read_text()
        traceback.unlink()


class TestConfiguration:
    def test_configured_tools_and_rules_apply(self, directory: Path) -> None:
        config = directory / "config.toml"
        config.write_text(
            'tools = ["my_tools:all"]\n[policy]\ndeny = ["risky"]\n[limits]\nmax_iterations = 7\n'
        )
        outcome = run("call risky {} call! delete_all {}", "--json", TOOLGLOT_CONFIG=str(config))
        assert outcome.code == 0
        results = [
            event["outcome"]["result"] for event in outcome.records() if event["type"] == "ToolFinished"
        ]
        assert sorted((result.get("error_kind") for result in results), key=str) == [None, "not_allowed"]

    def test_untrusted_project_loads_nothing(self, directory: Path) -> None:
        (directory / "evil.py").write_text("open('loaded', 'w').close()\ntools = []\n")
        (directory / "toolglot.toml").write_text('tools = ["evil:tools"]\nmodel = "simulator:gemini"\n')
        code, out, err = run("say hi", TOOLGLOT_MODEL="")
        assert (code, out) == (0, "hi\n")
        assert "toolglot: ignoring tools, model in" in err
        assert not (directory / "loaded").exists()
        assert run_cli("trust").code == 0
        assert run("say hi", TOOLGLOT_MODEL="")[::2] == (0, "")
        assert (directory / "loaded").exists()

    def test_broken_file_is_an_error_with_its_position(self, directory: Path) -> None:
        (directory / "toolglot.toml").write_text("model = \n")
        code, out, err = run("hi")
        assert (code, out) == (2, "")
        assert "toolglot.toml, line 1, column 9" in err

    @pytest.mark.untraced
    def test_a_file_that_is_named_but_absent_is_reported(self, directory: Path) -> None:
        note = "toolglot: TOOLGLOT_CONFIG is set to '/nowhere/config.toml', which does not exist\n"
        assert run("say hi", "-m", "simulator", TOOLGLOT_CONFIG="/nowhere/config.toml") == (0, "hi\n", note)

    def test_rules_that_match_no_tool_are_notes_in_the_words_of_the_file(self, directory: Path) -> None:
        rules = (
            "[policy.max_uses]\nlok = 1\nshell = 2\n[policy.rates]\nlok.calls = 3\n'web_*'.calls = "
            "1\n'x*'.calls = 1\n"
        )
        (directory / "toolglot.toml").write_text(rules)
        outcome = run_with_tools("say hi")
        notes = "".join(
            f"toolglot: a configured rule names '{name}', which matches no tool\n" for name in ("lok", "x*")
        )
        assert outcome == (0, "hi\n", notes)

    def test_alias_is_a_model(self, directory: Path) -> None:
        (directory / "toolglot.toml").write_text('[aliases]\nwork = "simulator:ollama"\n')
        for command in (("run", "-m", "work", "hi"), ("tools", "my_tools:all", "-m", "work")):
            outcome = run_cli(*command)
            assert outcome.code == 2
            assert "ignoring aliases.work in" in outcome.err
            assert "(run `toolglot trust`)" in outcome.err
        assert run_cli("trust", ".").code == 0
        outcome = run("say hi", "-m", "work", "--json")
        assert outcome.code == 0
        assert outcome.records()[0]["model"] == "simulator:ollama/qwen3"
        assert run("hi", "-m", "wrok").err.count("did you mean 'work'") == 1


@pytest.fixture
def simulator() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, "-m", "toolglot.cli.main", "simulate", "--port", "0", "-v"]
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
        with urlopen(f"{url}/v1/models") as response:
            assert "gpt-5.1" in [model["id"] for model in json.load(response)["data"]]
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=20)
        assert process.returncode == 0
        assert b"simulator POST /v1/chat/completions -> 200\n" in log


def test_demo_runs_a_conversation_on_every_wire() -> None:
    code, out, err = run_cli("demo")
    assert (code, err) == (0, "")
    for title in (
        "OpenAI Chat Completions",
        "OpenAI Responses",
        "Anthropic Messages",
        "Google Gemini",
        "Ollama",
    ):
        assert title in out
    assert out.count("⇄ handed over to") == 5
    assert out.count("(2 attempts)") == 5
    assert "gemini → anthropic" in out


def test_demo_of_an_unknown_provider() -> None:
    assert run_cli("demo", "--provider", "gemni")[::2] == (
        2,
        "toolglot: unknown demo provider 'gemni'; did you mean 'gemini'?\n",
    )


@pytest.mark.parametrize("call", [
    'web_find {"target": "http://127.0.0.1:1/?secret", "pattern": "x"}', 'web_search {"queries": ["secret"]}',
    'web {"open": [{"ref_id": "http://127.0.0.1:1/?secret"}]}', 'write {"path": "a", "content": "x"}',
    'shell {"command": "ls"}',
])  # fmt: skip
def test_an_unattended_run_sends_and_changes_nothing_without_yes_or_a_rule(call: str) -> None:
    words = ("run", f"call! {call}", "-m", "simulator", "--builtin", "--facade", "neutral")
    outcome = run_cli(
        *words,
        TOOLGLOT_BUILTIN_ALLOW_PRIVATE="127.0.0.1:1",
        TOOLGLOT_BUILTIN_SEARXNG_URL="http://127.0.0.1:1",
    )
    assert outcome.code == 3
    name = call.split()[0]
    ways = WAYS if name in ("write", "shell") else "use --approve RULE, or --yes"
    assert f"{name} needs approval ({ways})" in outcome.err
    assert f"? {call.split()[0]} wants to run" in outcome.err
    assert ("secret" in outcome.err) == ("secret" in call), "what it would do is shown"
