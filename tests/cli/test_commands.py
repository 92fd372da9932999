"""The commands as a user or a script runs them: answers, errors of one sentence, exit codes.

They run in this process, because a program takes longer to start than to answer; that a program says the same is tested.
"""

import base64
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import click
import pytest
from cli_kit import json_lines, run_cli, run_program

from toolglot.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
REPLY = {"id": "c1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}


def records(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def exchange(body: Any, **more: Any) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    return {
        "id": "x",
        "streaming": False,
        "status": 200,
        "response_content_type": "application/json",
        "response_body": text,
    } | more


def test_version() -> None:
    code, out, _ = run_cli("--version")
    assert code == 0
    assert out.startswith("toolglot ")


AS_A_PROGRAM: dict[str, tuple[list[str], str]] = {
    "an answer in a line": (["decode", "--wire", "openai-chat", "--jsonl"], json_lines(exchange(REPLY), "not json")),
    "a body": (["convert", "--from", "openai-chat", "--to", "gemini"], json.dumps(CHAT | {"n": 2})),
    "no JSON": (["convert", "--from", "openai-chat", "--to", "gemini"], "{"),
    "wrong usage": (["decode", "--wire", "morse"], ""),
    "tools": (["check", "-", "--for", "openai-chat", "--for", "gemini"], '[{"name": "f"}]'),
    "a file that is missing": (["check", "nope.json"], ""),
    "help": ([], ""),
}


@pytest.mark.parametrize("what", AS_A_PROGRAM)
def test_a_program_says_what_is_said_in_this_process(what: str) -> None:
    words, stdin = AS_A_PROGRAM[what]
    code, out, err = run_program(*words, stdin=stdin)
    assert run_cli(*words, stdin=stdin) == (code, out, err)
    assert out or err


class TestDecode:
    def test_a_batch_answers_in_order(self) -> None:
        stdin = json_lines(
            exchange(REPLY, id="a"),
            exchange({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, id="b", status=429),
        )
        code, out, err = run_cli("decode", "--wire", "openai-chat", "--jsonl", stdin=stdin)
        first, second = records(out)
        assert (code, err) == (0, "")
        assert first["id"] == "a"
        assert first["reply"]["blocks"] == [{"type": "text", "text": "Hello"}]
        assert first["reply"]["stop"] == "end"
        assert first["losses"] == []
        assert second["id"] == "b"
        assert second["error"] == {"type": "RateLimited", "message": "Slow down", "retryable": True}

    def test_calls_have_every_field(self) -> None:
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
        body = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
        _, out, _ = run_cli("decode", "--wire", "openai-chat", "--jsonl", stdin=json_lines(exchange(body)))
        assert records(out)[0]["reply"]["blocks"] == [
            {"type": "tool_call", "id": "1", "name": "f", "arguments": None, "raw": "[1]"}
        ]

    def test_other_blocks_and_blank_lines(self) -> None:
        item = {"type": "web_search_call", "id": "ws"}
        body: dict[str, Any] = {
            "id": "r",
            "model": "m",
            "status": "completed",
            "output": [item, {"type": "reasoning", "summary": []}],
        }
        _, out, _ = run_cli("decode", "--wire", "openai-responses", "--jsonl", stdin="\n" + json_lines(exchange(body)))
        reply = records(out)[0]["reply"]
        assert reply["blocks"] == [
            {"type": "foreign", "wire": "openai-responses", "item": item},
            {"type": "thinking", "text": "", "opaque": {"summary": []}},
        ]
        assert reply["model"] == "m"

    def test_base64_bodies(self) -> None:
        from aws_events import encode_aws_event

        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"id": "m", "content": [], "model": "claude"}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
            {"type": "message_stop"},
        ]
        body = base64.b64encode(b"".join(encode_aws_event(json.dumps(event).encode()) for event in events)).decode()
        _, out, _ = run_cli(
            "decode",
            "--wire",
            "anthropic-messages",
            "--jsonl",
            stdin=json_lines(exchange(body, streaming=True, response_body_encoding="base64")),
        )
        assert records(out)[0]["reply"]["blocks"] == [{"type": "text", "text": "Hi"}]

    def test_a_single_raw_body_whole_or_streamed(self, tmp_path: Path) -> None:
        file = tmp_path / "answer"
        file.write_text(json.dumps(REPLY))
        assert json.loads(run_cli("decode", "--wire", "openai-chat", str(file))[1])["reply"]["blocks"][0]["text"] == "Hello"
        stream = 'data: {"choices":[{"index":0,"delta":{"content":"Yo"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        assert json.loads(run_cli("decode", "--wire", "openai-chat", stdin=stream)[1])["reply"]["blocks"][0]["text"] == "Yo"

    def test_a_truncated_stream_is_an_answer(self) -> None:
        stream = 'data: {"choices":[{"index":0,"delta":{"content":"Yo"}}]}\n\n'
        code, out, _ = run_cli("decode", "--wire", "openai-chat", "--jsonl", stdin=json_lines(exchange(stream, streaming=True)))
        assert code == 0
        assert records(out)[0]["error"]["type"] == "TruncatedStream"

    @pytest.mark.parametrize(
        ("bad", "words"),
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
    def test_a_bad_line_is_named_and_passed(self, bad: Any, words: str) -> None:
        code, out, err = run_cli(
            "decode", "--wire", "openai-chat", "--jsonl", stdin=json_lines(exchange(REPLY, id=1), bad, exchange(REPLY, id=3))
        )
        said = records(out)
        assert code == 1
        assert [one["id"] for one in said[::2]] == [1, 3]
        assert words in said[1]["error"]["message"]
        assert err.startswith("line 2: ")
        assert len(err.strip().splitlines()) == 1


class TestConvert:
    def test_a_batch(self) -> None:
        stdin = json_lines({"id": "a", "request": CHAT}, {"id": "b", "request": CHAT | {"logit_bias": {"1": 2}}})
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "anthropic-messages", "--jsonl", stdin=stdin)
        first, second = records(out)
        assert (code, err) == (0, "")
        assert first["model"] == "gpt-4o"
        assert first["request"]["messages"] == [{"role": "user", "content": "Hi"}]
        assert [one["what"] for one in first["repairs"]] == ["max_tokens"]
        assert [one["what"] for one in second["losses"]] == ["logit_bias"]

    def test_another_model(self) -> None:
        stdin = json_lines({"id": 1, "model": "gemini-2.5-flash", "request": {"contents": [{"parts": [{"text": "Hi"}]}]}})
        _, out, _ = run_cli("convert", "--from", "gemini", "--to", "openai-chat", "--model", "gpt-4o", "--jsonl", stdin=stdin)
        assert records(out)[0]["model"] == records(out)[0]["request"]["model"] == "gpt-4o"
        _, out, _ = run_cli("convert", "--from", "gemini", "--to", "openai-chat", "--jsonl", stdin=stdin)
        assert records(out)[0]["request"]["model"] == "gemini-2.5-flash"

    def test_one_body_prints_the_body_and_says_the_rest_on_stderr(self, tmp_path: Path) -> None:
        file = tmp_path / "request.json"
        file.write_text(json.dumps(CHAT | {"n": 2}))
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "gemini", str(file))
        assert code == 0
        assert json.loads(out) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
        assert err.startswith("lost: n at request")

    @pytest.mark.parametrize(
        ("bad", "words"),
        [
            ({"id": 2}, "request"),
            ({"id": 2, "request": [1]}, "request"),
            ({"id": 2, "request": CHAT, "model": 5}, "model"),
            ({"id": 2, "request": {"messages": [{"role": "assistant", "content": 5, "tool_calls": [7]}]}}, "shape"),
        ],
        ids=["missing", "array", "model", "shape"],
    )
    def test_a_bad_line_is_named_and_passed(self, bad: Any, words: str) -> None:
        stdin = json_lines({"id": 1, "request": CHAT}, bad, {"id": 3, "request": CHAT})
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "gemini", "--jsonl", stdin=stdin)
        assert code == 1
        assert [one["id"] for one in records(out)] == [1, 2, 3]
        assert words in records(out)[1]["error"]["message"]
        assert err.startswith("line 2: ")

    def test_no_json_is_one_sentence(self) -> None:
        code, out, err = run_cli("convert", "--from", "openai-chat", "--to", "gemini", stdin="{")
        assert (code, out) == (2, "")
        assert err.startswith("toolglot: the request is not a JSON object")
        assert "Traceback" not in err


class TestUsage:
    @pytest.mark.parametrize(
        "words",
        [
            ["decode"],
            ["decode", "--wire", "morse"],
            ["convert", "--from", "gemini"],
            ["decode", "--wire", "gemini", "/no/such/file"],
            ["sing"],
        ],
        ids=["no wire", "unknown wire", "no target", "no file", "no command"],
    )
    def test_wrong_usage_exits_2(self, words: list[str]) -> None:
        code, _, err = run_cli(*words)
        assert code == 2
        assert "Traceback" not in err


class TestCheck:
    TOOL: ClassVar[dict[str, Any]] = {
        "name": "lookup",
        "description": "d",
        "input_schema": {"type": "object", "properties": {"n": {"type": "object", "additionalProperties": {"type": "string"}}}},
    }

    def test_every_provider_is_checked(self) -> None:
        from toolglot.providers.catalog import PROFILES

        code, out, _ = run_cli("check", "-", "--json", stdin=json.dumps([self.TOOL]))
        found = {one["provider"]: one for one in records(out)}
        assert code == 0
        assert set(found) == set(PROFILES)
        assert found["anthropic"]["losses"] == []
        assert any(loss["where"].startswith("tool 'lookup'") for loss in found["gemini"]["losses"])

    def test_text_names_what_is_lost(self) -> None:
        code, out, _ = run_cli("check", "-", "--for", "gemini:gemini-2.5-flash", stdin=json.dumps({"tools": [self.TOOL]}))
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
        code, out, _ = run_cli("check", "-", "--for", "openai-chat", "--json", stdin=json.dumps([tool]))
        assert (code, records(out)[0]["losses"]) == (0, [])

    def test_over_a_limit_is_refused(self) -> None:
        many = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(129)]
        code, out, _ = run_cli("check", "-", "--for", "openai-chat", stdin=json.dumps(many))
        assert code == 1
        assert "limit: number of tools is 129, the limit is 128" in out

    def test_module_and_object(self, tmp_path: Path) -> None:
        (tmp_path / "mytools.py").write_text("from toolglot import ToolDefinition\nTOOLS = [ToolDefinition('a', 'b')]\n")
        code, out, err = run_program("check", "mytools:TOOLS", "--for", "ollama", cwd=tmp_path)
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
    command = f"{sys.executable} -m toolglot.cli.main convert --from openai-chat --to gemini --jsonl | head -n 1"
    done = subprocess.run(command, shell=True, input=stdin.encode(), capture_output=True, env=os.environ)
    assert done.stderr.decode() == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_recipe_of_a_command(name: str) -> None:
    """A command is a module with a click command of its name and a row in COMMANDS; it is documented, tested and described."""
    module, summary = COMMANDS[name]
    command: click.Command = getattr(import_module(f"toolglot.cli.{module}"), name)
    assert command.name == name
    assert command.get_short_help_str(limit=100) == summary, "the row of COMMANDS has the first line of the help"
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
        names = re.findall(r"(?ms)^@click\.(?:command|group)\(.*?^def (\w+)", path.read_text(encoding="utf-8"))
        assert set(names) <= {*COMMANDS, "app"}, f"{path.name} has a command that the table lacks"
