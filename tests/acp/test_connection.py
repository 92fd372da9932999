"""The connection: wrong requests, messages without sense, programs that end."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from editor_kit import Fields, call_agent, open_editor
from tests.cli.cli_kit import json_lines, run_cli

from acp import RequestError
from toolglot.acp.agent import EditorAgent
from toolglot.acp.session_store import SessionStore
from toolglot.cli.acp import open_agent
from toolglot.cli.startup import Flags

pytestmark = pytest.mark.usefixtures("isolated_home")


async def test_wrong_requests_are_answered_with_a_sentence(tmp_path: Path) -> None:
    async with open_editor(tmp_path) as (editor, session):
        wrong: list[tuple[str, Fields, str]] = [
            ("session/new", {"cwd": "relative", "mcpServers": []}, "must be an absolute path"),
            ("session/new", {"cwd": str(tmp_path / "absent"), "mcpServers": []}, "there is no directory"),
            ("session/new", {}, "invalid parameters for session/new: cwd: Field required"),
            ("session/prompt", {"sessionId": "x", "prompt": []}, "no session 'x' is open"),
            (
                "session/prompt",
                {"sessionId": session, "prompt": [{"type": "nonsense"}]},
                "invalid parameters",
            ),
            ("session/prompt", {"sessionId": session, "prompt": []}, "the prompt is empty"),
            (
                "session/prompt",
                {"sessionId": session, "prompt": [{"type": "text", "text": " "}]},
                "the prompt is empty",
            ),
            (
                "session/set_config_option",
                {"sessionId": session, "configId": "x", "value": "y"},
                "unknown session option",
            ),
            ("authenticate", {"methodId": "x"}, "unknown authentication method"),
            ("no/such/method", {}, "Method not found"),
        ]
        for method, params, message in wrong:
            with pytest.raises(RequestError, match=message) as error:
                await call_agent(editor, method, params)
            assert "\n" not in str(error.value)
        assert (await editor.prompt(session, "say Fine.")).stop_reason == "end_turn"
        assert [update["title"] for update in editor.of("session_info_update")] == ["say Fine."]


async def test_messages_without_sense_do_not_end_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = os.pipe(), os.pipe()
    agent = EditorAgent(
        lambda options: open_agent(Flags(model="simulator"), options),
        SessionStore(tmp_path),
        reader[0],
        writer[1],
    )
    serving = asyncio.create_task(agent.serve())
    nonsense: list[Any] = [
        *(
            "nonsense",
            1,
            None,
            [],
            {},
            {"id": {}},
            {"id": 0, "error": "x"},
            {"id": 0, "method": 5},
            {"method": {}},
        ),
        *(
            {"id": [], "method": "initialize"},
            {"id": 0, "result": 1},
            {"method": "session/cancel"},
            {"method": "unknown"},
        ),
        *(
            {"id": 1, "method": "session/prompt", "params": [1]},
            {"id": 2, "method": "_unknown", "params": {}},
        ),
    ]
    request = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": 1}}
    os.write(reader[1], json_lines(*map(json.dumps, nonsense), request).encode())
    answers: list[Fields] = []
    with os.fdopen(writer[0], "rb") as lines:
        while not any("result" in answer for answer in answers):
            answers.append(json.loads(await asyncio.to_thread(lines.readline)))
        os.close(reader[1])
        await serving
    assert answers[-1]["id"] == 9
    assert {answer["error"]["code"] for answer in answers[:-1]} == {-32600, -32601, -32602}
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "ignored the notification unknown: Method not found" in caplog.text
    for descriptor in (reader[0], writer[1]):
        os.close(descriptor)


async def test_a_missing_key_is_told_when_a_session_starts(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no key for Anthropic Messages: set ANTHROPIC_API_KEY") as error:
        async with open_editor(tmp_path, model="anthropic:claude-sonnet-5"):
            pass
    assert error.value.code == -32000


def test_stdout_has_nothing_but_the_protocol(tmp_path: Path) -> None:
    code = (
        'import os\ndef shout():\n    """Shout."""\n    print("LOUD")\n    os.write(1, b"LOUDER")\n    '
        'return "done"\n'
    )
    (tmp_path / "noisy.py").write_text(code, encoding="utf-8")
    lines = json_lines(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}},
        "this is not JSON",
        [1, 2],
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": str(tmp_path), "mcpServers": []},
        },
    )
    words = ("-m", "simulator", "--tools", "noisy:shout", "--no-builtin")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolglot.cli.main", "acp", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines.encode())
    process.stdin.flush()
    messages: list[Fields] = []
    while not messages or messages[-1].get("id") != 2:
        messages.append(json.loads(process.stdout.readline()))
    assert [message["result"]["protocolVersion"] for message in messages if message.get("id") == 1] == [1]
    assert {message["error"]["code"] for message in messages if "error" in message} == {-32700, -32600}
    prompt = {
        "sessionId": messages[-1]["result"]["sessionId"],
        "prompt": [{"type": "text", "text": "call shout {}"}],
    }
    request = json_lines({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})
    process.stdin.write(request.encode())
    process.stdin.flush()
    while messages[-1].get("id") != 3:
        messages.append(json.loads(process.stdout.readline()))
    _, errors = process.communicate()
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    assert "done" in json.dumps(messages)
    assert "LOUD" in errors.decode()
    assert process.returncode == 0


def test_an_editor_that_stops_reading_keeps_no_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "toolglot.cli.main", "acp", "-m", "simulator", "--no-builtin"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # its answer names the method: more than a pipe holds
    request = {"jsonrpc": "2.0", "id": 1, "method": "m" * 1_000_000}
    process.stdin.write(json_lines(request).encode())
    assert process.stdout.read(1) == b"{"
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_the_command_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "toolglot.acp.agent", raising=False)
    for name in [name for name in sys.modules if name == "acp" or name.startswith("acp.")]:
        monkeypatch.setitem(sys.modules, name, None)
    outcome = run_cli("acp")
    assert (outcome.code, outcome.out) == (2, "")
    assert "pip install 'toolglot[acp]'" in outcome.err
