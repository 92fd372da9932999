"""The commands as a user or a script runs them: answers, errors of one sentence, exit codes.

They run in this process, because a program takes longer to start than to answer; that a program says the same
is tested."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from tests.cli.cli_kit import Outcome, Patch, json_lines, run_cli, run_program

import toolglot
from aws_events import encode_aws_event
from toolglot.cli.main import COMMANDS
from toolglot.cli.mcp import SUBCOMMANDS
from toolglot.facades.catalog import FACADE_MODULES
from toolglot.providers.catalog import PROFILES

ROOT = Path(__file__).parents[2]
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
REPLY = {
    "id": "c1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
}


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
SEARCH = {"type": "web_search_call", "id": "ws"}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "content": [], "model": "claude"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
    {"type": "message_stop"},
]
THOUGHT: dict[str, Any] = {"type": "thinking", "text": "", "opaque": {"summary": []}}
AWS_STREAM = base64.b64encode(
    b"".join(encode_aws_event(json.dumps(event).encode()) for event in EVENTS)
).decode()


def exchange(body: Any, **options: Any) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    record = {
        "id": "x",
        "streaming": False,
        "status": 200,
        "response_content_type": "application/json",
        "response_body": text,
    }
    return record | options


def decode(wire: str, *lines: Any) -> Outcome:
    return run_cli("decode", "--wire", wire, "--jsonl", stdin=json_lines(*lines))


def convert(source: str, target: str, *lines: Any, model: str = "") -> Outcome:
    words = ("--model", model) if model else ()
    return run_cli("convert", "--from", source, "--to", target, *words, "--jsonl", stdin=json_lines(*lines))


def test_version() -> None:
    code, out, _ = run_cli("--version")
    assert code == 0
    assert out.startswith("toolglot ")


def test_python_m_toolglot_is_the_program() -> None:
    command = [sys.executable, "-W", "error", "-m", "toolglot", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"toolglot {toolglot.__version__}\n", "")


def test_h_is_help() -> None:
    for words in ((), ("call",), ("config", "path")):
        assert run_cli(*words, "-h") == run_cli(*words, "--help") == run_cli("help", *words)
    assert run_cli("-V") == run_cli("--version")
    assert "\n  --help " not in (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


class TestHome:
    """Without a home directory that can be written, everything works that writes nothing; the rest says what
    to do.
    """

    @pytest.fixture(params=["a file", "read-only"])
    def run_homeless(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> Callable[..., subprocess.CompletedProcess[str]]:
        home = tmp_path / "home"
        command = [sys.executable, "-W", "error", "-m", "toolglot"]
        if request.param == "a file":
            home.touch()
        else:  # for root too
            home.mkdir()
            command = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(home), str(home), *command]
            if (
                shutil.which("bwrap") is None
                or subprocess.run([*command[:7], "true"], capture_output=True).returncode
            ):
                pytest.skip("needs bubblewrap")
        (tmp_path / "a.txt").write_text("hello\n")
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("TOOLGLOT", "XDG"))
        } | {"HOME": str(home)}
        return lambda *words: subprocess.run(
            [*command, *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    def test_what_needs_none(self, run_homeless: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        done = run_homeless("run", "hi", "-m", "simulator")
        assert (done.returncode, done.stdout, done.stderr) == (0, "You said: hi\n", "")

    def test_what_needs_one(
        self, run_homeless: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
    ) -> None:
        done = run_homeless("call", "read", '{"path": "a.txt"}')
        assert (done.returncode, done.stdout) == (2, "")
        sentence = (
            rf"toolglot: cannot create the directory '{tmp_path}/home/\S+': [\w -]+; set "
            r"TOOLGLOT_STATE to use another one\n"
        )
        assert re.fullmatch(sentence, done.stderr)
        done = run_homeless("doctor")
        assert (done.returncode, done.stderr) == (1, "")
        assert "set TOOLGLOT_STATE to use another one" in " ".join(done.stdout.split())
        assert "no problems found" not in done.stdout


class TestStreams:
    @pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
    def test_characters_that_the_output_cannot_show_are_replaced(self, encoding: str, tmp_path: Path) -> None:
        def run_encoded(*words: str) -> Outcome:
            return run_program(*words, cwd=tmp_path, HOME=str(tmp_path), PYTHONIOENCODING=encoding)

        assert run_encoded("run", "say a \u65e5 \U0001f44d b", "-m", "simulator") == (0, "a ? ? b\n", "")
        assert run_encoded("models", "\u65e5")[:2] == (2, "")

    @pytest.mark.parametrize(
        ("closed", "code", "out", "err"),
        [
            ("<&-", 0, "You said: hi\n", ""),
            ("2>&-", 0, "You said: hi\n", ""),
            (
                ">&-",
                2,
                "",
                "toolglot: stdout is closed: redirect it to a file, or to /dev/null if you do not need the "
                "output\n",
            ),
        ],
    )
    def test_closed_streams(self, closed: str, code: int, out: str, err: str, tmp_path: Path) -> None:
        command = [sys.executable, "-W", "error", "-m", "toolglot", "run", "hi", "-m", "simulator"]
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *command]
        done = subprocess.run(
            shell, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, out, err)

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    @pytest.mark.parametrize(
        "words", [("models",), ("run", "hi", "-m", "simulator"), ("doctor",), ("demo",)], ids=" ".join
    )
    def test_a_full_disk_is_an_error_of_one_sentence(self, words: tuple[str, ...], tmp_path: Path) -> None:
        command = [sys.executable, "-W", "error", "-m", "toolglot", *words]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (
            1,
            "toolglot: cannot write the output: No space left on device\n",
        )

    @pytest.mark.parametrize(
        "words", [("models",), ("run", "hi", "-m", "simulator"), ("--help",), ("demo",)], ids=" ".join
    )
    def test_a_reader_that_has_left_is_no_error_message(self, words: tuple[str, ...], tmp_path: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        command = [sys.executable, "-m", "toolglot", *words]
        env = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, env=env)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ch", ["chat", "check"]),
        ("decode --wi", ["--wire"]),
        ("decode --wire gem", ["gemini"]),
        ("--v", ["--version"]),
        ("run -m claude", ["claude-sonnet-5", "claude:"]),
        ("chat -m anth", ["anthropic:claude-sonnet-5", "anthropic", "anthropic:"]),
        ("tools -m gemini-", ["gemini-2.5-pro"]),
        ("call -m simulator:an", ["simulator:anthropic"]),
        ("models groq:", ["groq:llama-3.3-70b-versatile", "groq:"]),
        ("call gr", ["grep"]),
        ("call -m claude-opus-5 B", ["Bash"]),
        ("call -m claude-opus-5 todo", [""]),
        ("call --facade nope gr", ["grep"]),
        ("call run_", [""]),
    ],
)
def test_shell_completion(words: str, expected: list[str]) -> None:
    position = str(len(words.split()))
    outcome = run_cli(_TOOLGLOT_COMPLETE="bash_complete", COMP_WORDS=f"toolglot {words}", COMP_CWORD=position)
    assert [line.partition(",")[2] for line in outcome.out.splitlines()] == expected
    assert outcome.err == ""
    assert "_TOOLGLOT_COMPLETE=bash_source" in run_cli("--help").out


def test_shell_completion_knows_your_aliases(isolated_home: Path, monkeypatch: Patch) -> None:
    file = isolated_home / "user" / "config.toml"

    file.write_text('[aliases]\nworkhorse = "anthropic:claude-opus-5"\n')
    monkeypatch.setenv("COMP_WORDS", "toolglot run -m wor")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert run_cli(_TOOLGLOT_COMPLETE="bash_complete").out == "plain,workhorse\n"
    file.write_text("nonsense")
    assert run_cli(_TOOLGLOT_COMPLETE="bash_complete") == (0, "\n", "")


@pytest.mark.parametrize(
    ("words", "stdin", "prints"),
    [
        (["decode", "--wire", "openai-chat", "--jsonl"], json_lines(exchange(REPLY), "not json"), "both"),
        (["convert", "--from", "openai-chat", "--to", "gemini"], json.dumps(CHAT | {"n": 2}), "both"),
        (["decode", "--wire", "morse"], "", "errors"),
        (["check", "-", "--for", "openai-chat", "--for", "gemini"], '[{"name": "f"}]', "output"),
        ([], "", "output"),
    ],
    ids=["lines", "a body", "wrong usage", "tools", "help"],
)
def test_a_program_prints_what_is_printed_in_this_process(words: list[str], stdin: str, prints: str) -> None:
    outcome = run_program(*words, stdin=stdin)
    assert run_cli(*words, stdin=stdin) == outcome
    assert (outcome.out != "", outcome.err != "") == (prints != "errors", prints != "output")


class TestDecode:
    def test_a_batch_answers_in_order(self) -> None:
        limited = exchange(
            {"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, id="b", status=429
        )
        outcome = decode("openai-chat", exchange(REPLY, id="a"), limited)
        first, second = outcome.records()
        assert (outcome.code, outcome.err) == (0, "")
        assert (first["id"], first["reply"]["stop"], first["losses"]) == ("a", "end", [])
        assert first["reply"]["blocks"] == [{"type": "text", "text": "Hello"}]
        assert second == {
            "id": "b",
            "error": {"type": "RateLimited", "message": "Slow down", "retryable": True},
        }

    @pytest.mark.parametrize(
        ("wire", "line", "blocks"),
        [
            (
                "openai-chat",
                exchange({"choices": [{"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}),
                [{"type": "tool_call", "id": "1", "name": "f", "arguments": None, "raw": "[1]"}],
            ),
            (
                "openai-responses",
                exchange(
                    {
                        "model": "m",
                        "status": "completed",
                        "output": [SEARCH, {"type": "reasoning", "summary": []}],
                    }
                ),
                [{"type": "foreign", "wire": "openai-responses", "item": SEARCH}, THOUGHT],
            ),
            (
                "anthropic-messages",
                exchange(AWS_STREAM, streaming=True, response_body_encoding="base64"),
                [{"type": "text", "text": "Hi"}],
            ),
        ],
        ids=["a call has every field", "other blocks", "base64"],
    )
    def test_blocks(self, wire: str, line: dict[str, Any], blocks: list[Any]) -> None:
        (record,) = decode(wire, "", line).records()  # a blank line is ignored
        assert record["reply"]["blocks"] == blocks

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (json.dumps(REPLY), "Hello"),
            (
                'data: {"choices":[{"index":0,"delta":{"content":"Yo"},"finish_reason":"stop"}]}\n\ndata: '
                "[DONE]\n\n",
                "Yo",
            ),
        ],
        ids=["complete", "streamed"],
    )
    def test_a_single_raw_body(self, body: str, text: str, tmp_path: Path) -> None:
        (tmp_path / "answer").write_text(body)
        for outcome in (
            run_cli("decode", "--wire", "openai-chat", str(tmp_path / "answer")),
            run_cli("decode", "--wire", "openai-chat", stdin=body),
        ):
            assert json.loads(outcome.out)["reply"]["blocks"][0]["text"] == text

    def test_a_truncated_stream_is_an_answer(self) -> None:
        stream = 'data: {"choices":[{"index":0,"delta":{"content":"Yo"}}]}\n\n'
        outcome = decode("openai-chat", exchange(stream, streaming=True))
        assert outcome.code == 0
        assert outcome.records()[0]["error"]["type"] == "TruncatedStream"

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("not json", "not a JSON object"),
            ("[1]", "not a JSON object"),
            ({"id": 7, "status": 200}, "response_body"),
            ({"id": 7, "status": "ok", "response_body": "{}"}, "status"),
            (exchange("é", response_body_encoding="base64"), "base64"),
            (exchange("<html>"), "not JSON"),
        ],
        ids=["text", "array", "no body", "status", "base64", "html"],
    )
    def test_a_bad_line_is_named_and_passed(self, line: Any, message: str) -> None:
        outcome = decode("openai-chat", exchange(REPLY, id=1), line, exchange(REPLY, id=3))
        first, second, third = outcome.records()
        assert (outcome.code, first["id"], third["id"]) == (1, 1, 3)
        assert message in second["error"]["message"]
        assert outcome.err.startswith("toolglot: line 2: ")
        assert len(outcome.err.strip().splitlines()) == 1


class TestConvert:
    def test_a_batch(self) -> None:
        lines = {"id": "a", "request": CHAT}, {"id": "b", "request": CHAT | {"logit_bias": {"1": 2}}}
        outcome = convert("openai-chat", "anthropic-messages", *lines)
        first, second = outcome.records()
        assert (outcome.code, outcome.err) == (0, "")
        assert first["model"] == "gpt-4o"
        assert first["request"]["messages"] == [{"role": "user", "content": "Hi"}]
        assert [repair["what"] for repair in first["repairs"]] == ["max_tokens"]
        assert [loss["what"] for loss in second["losses"]] == ["logit_bias"]

    @pytest.mark.parametrize(("model", "expected"), [("gpt-4o", "gpt-4o"), ("", "gemini-2.5-flash")])
    def test_another_model(self, model: str, expected: str) -> None:
        line = {"id": 1, "model": "gemini-2.5-flash", "request": {"contents": [{"parts": [{"text": "Hi"}]}]}}
        (record,) = convert("gemini", "openai-chat", line, model=model).records()
        assert record["model"] == record["request"]["model"] == expected

    def test_a_single_body_is_printed_and_its_losses_go_to_stderr(self, tmp_path: Path) -> None:
        file = tmp_path / "request.json"
        file.write_text(json.dumps(CHAT | {"n": 2}))
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "gemini", str(file))
        assert code == 0
        assert json.loads(out) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
        assert err.startswith("lost: n at request")

    @pytest.mark.parametrize(
        ("words", "note"),
        [
            (
                ["--to", "anthropic-messages"],
                "kept the model 'gpt-4o'; use --model to choose one for anthropic-messages",
            ),
            (["--to", "anthropic-messages", "--model", "claude-sonnet-4-5"], ""),
            (["--to", "openai-responses"], ""),
            (["--to", "gemini"], ""),
        ],
        ids=["another vendor", "a new model", "the same vendor", "not in the body"],
    )
    def test_a_model_of_another_vendor_is_noted(self, words: list[str], note: str) -> None:
        code, _, err = run_cli("convert", "--from", "openai-chat", *words, stdin=json.dumps(CHAT))
        assert (code, [line for line in err.splitlines() if line.startswith("kept")]) == (
            0,
            [note] if note else [],
        )

    @pytest.mark.parametrize("text", ["{}", '{"input": "hi"}', "nope", "[]"])
    def test_what_is_no_request_is_wrong_usage(self, text: str) -> None:
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "gemini", stdin=text)
        assert (code, out, err.count("\n")) == (2, "", 1)

    def test_nothing_to_convert(self) -> None:
        message = "toolglot: the request is empty: specify a file, or pipe the request in\n"
        assert run_cli("convert", "--from", "openai-chat", "--to", "gemini") == (2, "", message)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ({"id": 2}, "request"),
            ({"id": 2, "request": [1]}, "request"),
            ({"id": 2, "request": CHAT, "model": 5}, "model"),
            (
                {"id": 2, "request": {"a": 1}},
                "the request is not in the API format openai-chat: it has no 'messages'",
            ),
            (
                {"id": 2, "request": {"messages": [{"role": "assistant", "content": 5, "tool_calls": [7]}]}},
                "shape",
            ),
        ],
        ids=["missing", "array", "model", "another document", "shape"],
    )
    def test_a_bad_line_is_named_and_passed(self, line: Any, message: str) -> None:
        outcome = convert(
            "openai-chat", "gemini", {"id": 1, "request": CHAT}, line, {"id": 3, "request": CHAT}
        )
        assert outcome.code == 1
        assert [record["id"] for record in outcome.records()] == [1, 2, 3]
        assert message in outcome.records()[1]["error"]["message"]
        assert outcome.err.startswith("toolglot: line 2: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decode"], "Missing option '--wire'"),
        (["decode", "--wire", "morse"], "'morse' is not one of"),
        (["convert", "--from", "gemini"], "Missing option '--to'"),
        (["convert", "--from", "openai-chat", "--to", "gemini"], "the request is not a JSON object"),
        (["decode", "--wire", "gemini", "/no/such/file"], "File '/no/such/file' does not exist"),
        (["config"], "Missing command"),
        (["sing"], f"unknown command 'sing'; known: {', '.join(sorted(COMMANDS)[:2])}, "),
        (["rnu", "hi"], "unknown command 'rnu'; did you mean 'run'?"),
        (["models", "nope"], f"unknown provider 'nope'; known: {min(PROFILES)}, "),
        (["simulate", "--port", "99999"], "--port must be an integer from 0 to 65535, not '99999'"),
        (["mcp", "serve", "--http", "x"], "--http must be an integer from 0 to 65535, not 'x'"),
        (["run", "--temperature", "hot"], "--temperature must be a number of at least 0, not 'hot'"),
        (["run", "--temperature", "nan"], "--temperature must be a number of at least 0, not 'nan'"),
        (["chat", "--max-iterations", "0"], "--max-iterations must be an integer of at least 1, not '0'"),
        (["chat", "--max-tokens", "1.5"], "--max-tokens must be an integer of at least 1, not '1.5'"),
        (["tools", "--facade", "nope"], f"unknown facade 'nope'; known: {min(FACADE_MODULES)}, "),
    ],
)
def test_wrong_usage_is_one_sentence(words: list[str], message: str) -> None:
    code, out, err = run_cli(*words, stdin="{")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("toolglot: ")
    assert message in err


@pytest.mark.parametrize(("name", "table"), [
    *((name, COMMANDS) for name in COMMANDS),
    *((name, SUBCOMMANDS) for name in SUBCOMMANDS),
])  # fmt: skip
def test_numbers_have_our_own_type(name: str, table: dict[str, tuple[str, str]]) -> None:
    """A wrong one is "not a valid float range" for those of click."""
    module, _, attribute = table[name][0].partition(":")
    command: click.Command = getattr(import_module(f"toolglot.cli.{module}"), attribute or name)
    numbers = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))
    options = [option for option in command.params if not (isinstance(option, click.Option) and option.count)]
    assert [option.name for option in options if isinstance(option.type, numbers)] == []


class TestCheck:
    TOOL: ClassVar[dict[str, Any]] = {
        "name": "lookup",
        "description": "d",
        "input_schema": {
            "type": "object",
            "properties": {"n": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
    }

    def test_every_provider_is_checked(self) -> None:
        outcome = run_cli("check", "-", "--json", stdin=json.dumps([self.TOOL]))
        by_provider = {record["provider"]: record for record in outcome.records()}
        assert outcome.code == 0
        assert set(by_provider) == set(PROFILES)
        assert by_provider["anthropic"]["losses"] == []
        assert any(loss["where"].startswith("tool 'lookup'") for loss in by_provider["gemini"]["losses"])

    def test_a_file_without_tools_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "f.json"
        file.write_text("[5]")
        assert run_cli("check", str(file)) == (2, "", f"toolglot: {file}: not a tool: 5\n")

    def test_text_names_what_is_lost(self) -> None:
        code, out, _ = run_cli(
            "check", "-", "--for", "gemini:gemini-2.5-flash", stdin=json.dumps({"tools": [self.TOOL]})
        )
        assert code == 0
        assert out.startswith("changed   gemini:gemini-2.5-flash\n")
        assert "lost: " in out

    @pytest.mark.parametrize(
        "tool",
        [
            {"name": "f", "inputSchema": {"type": "object"}},
            {"name": "f", "input_schema": {"type": "object"}},
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "name": "f"},
            {"functionDeclarations": [{"name": "f"}]},
            {"name": "f", "parameters": {"type": "object"}},
        ],
        ids=["mcp", "anthropic", "chat", "responses", "gemini", "ours"],
    )
    def test_a_tool_in_any_form(self, tool: dict[str, Any]) -> None:
        outcome = run_cli("check", "-", "--for", "openai-chat", "--json", stdin=json.dumps([tool]))
        assert (outcome.code, outcome.records()[0]["losses"]) == (0, [])

    def test_a_module_and_a_model_that_the_catalog_does_not_know(self, isolated_home: Path) -> None:
        source = "from toolglot import tool\n@tool\ndef f() -> str:\n    'F.'\n    return ''\n"
        (isolated_home / "checked_tools.py").write_text(source)
        assert (
            run_cli("check", "checked_tools", "--for", "claude-sonnet-4-5").out
            == "ok        claude-sonnet-4-5\n"
        )
        note = "          note: this model is not in the catalog; its provider's limits are used\n"
        assert (
            run_cli("check", "checked_tools", "--for", "anthropic:nope").out
            == f"ok        anthropic:nope\n{note}"
        )
        assert (
            run_cli("check", "no_such").err == "toolglot: cannot load 'no_such': No module named 'no_such'\n"
        )
        assert (
            run_cli("check", "nope.json").err
            == "toolglot: cannot read 'nope.json': No such file or directory\n"
        )

    def test_over_a_limit_is_refused(self) -> None:
        many = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(129)]
        code, out, _ = run_cli("check", "-", "--for", "openai-chat", stdin=json.dumps(many))
        assert code == 1
        assert "limit: number of tools is 129, the limit is 128" in out

    def test_module_and_object(self, tmp_path: Path) -> None:
        (tmp_path / "mytools.py").write_text(
            "from toolglot import ToolDefinition\nONE = ToolDefinition('a', 'b')\nTOOLS = [ONE]\n"
        )
        for name in ("TOOLS", "ONE"):
            code, out, err = run_program("check", f"mytools:{name}", "--for", "ollama", cwd=tmp_path)
            assert code == 0, err
            assert out.startswith("ok")

    @pytest.mark.parametrize(
        ("words", "stdin", "says", "exits"),
        [
            (["nope.json"], "", "cannot read 'nope.json'", 2),
            (["-"], "[]", "- contains no tools", 2),
            (["nope:tools"], "", "cannot load 'nope:tools'", 2),
            (["-"], "{", "not JSON", 2),
            (["-"], "[5]", "not a tool", 2),
            (["-"], '{"a": 1}', "not a tool", 2),
            (["-", "--for", "opnai"], '[{"name": "f"}]', "unknown provider 'opnai'", 2),
        ],
        ids=["file", "empty", "module", "json", "number", "object", "provider"],
    )
    def test_bad_input_is_one_sentence(self, words: list[str], stdin: str, says: str, exits: int) -> None:
        code, _, err = run_cli("check", *words, stdin=stdin)
        assert code == exits
        assert says in err
        assert len(err.strip().splitlines()) == 1


def test_a_broken_pipe_is_quiet() -> None:
    stdin = json_lines(*({"id": n, "request": CHAT} for n in range(3000)))
    command = (
        f"{sys.executable} -m toolglot.cli.main convert --from openai-chat --to gemini --jsonl | head -n 1"
    )
    done = subprocess.run(command, shell=True, input=stdin.encode(), capture_output=True, env=os.environ)
    assert done.stderr.decode() == ""
    assert len(done.stdout.splitlines()) == 1


def test_modules_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("click", "configparser", "msgspec", "own_tools"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')\n")
    done = subprocess.run(
        [sys.executable, "-m", "toolglot", "tools"], capture_output=True, cwd=tmp_path, env=os.environ
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_recipe_of_a_command(name: str) -> None:
    """A command is a module with a click command of its name and a row in COMMANDS; it is documented, tested
    and described.
    """
    module, summary = COMMANDS[name]
    command: click.Command = getattr(import_module(f"toolglot.cli.{module}"), name)
    assert command.name == name
    assert command.get_short_help_str(limit=100) == summary, (
        "the row of COMMANDS has the first line of the help"
    )
    parameters = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.opts for option in parameters if not option.help] == [], "every option has a help text"
    for page in ("docs/cli.md", "CHANGELOG.md"):
        assert re.search(rf"\b{name}\b", (ROOT / page).read_text(encoding="utf-8")), f"mention it in {page}"
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert any(re.search(rf'(run_cli|run_program|run|invoke)\(\s*"{name}"', text) for text in tests), (
        "test it as a user runs it"
    )


def test_every_command_is_in_the_table() -> None:
    for path in (ROOT / "src/toolglot/cli").rglob("*.py"):
        names = re.findall(
            r"(?ms)^@click\.(?:command|group)\(.*?^def (\w+)", path.read_text(encoding="utf-8")
        )
        known = {*COMMANDS, *SUBCOMMANDS, *(f"{name}_command" for name in SUBCOMMANDS), "app"}
        assert set(names) <= known, f"{path.name} has a command that the table lacks"
