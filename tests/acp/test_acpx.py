"""A client that others wrote drives `toolglot acp`: acpx, from npm, as its users start it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.npm.packages import npm_program

PROMPT = """\
call Read {"file_path": "note.txt"}
then call Edit {"file_path": "note.txt", "old_string": "two", "new_string": "TWO"}
then say It is done."""


def test_acpx_has_a_conversation_with_an_edit_and_an_approval(tmp_path: Path) -> None:
    acpx = npm_program("acpx")
    (work := tmp_path / "work").mkdir()
    note = work / "note.txt"
    note.write_text("one\ntwo\nthree\n", encoding="utf-8")
    (home := tmp_path / "home").mkdir()
    agent = shlex.join(
        [sys.executable, "-m", "toolglot.cli.main", "acp", "-m", "simulator:anthropic", "--builtin"]
    )
    environment = {
        **os.environ,
        "HOME": str(home),
        "TOOLGLOT_STATE": str(tmp_path / "state"),
        "NO_COLOR": "1",
    }

    def run(*words: str) -> str:
        command = [
            *acpx,
            "--agent",
            agent,
            "--cwd",
            str(work),
            "--approve-all",
            "--ttl",
            "60",
            "--format",
            "json",
            *words,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def send(prompt: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in run("prompt", prompt).splitlines()]

    run("sessions", "new")  # one process of the agent starts the session, another one resumes it
    try:
        messages = send(PROMPT)
        again = send("say Still here.")
    finally:
        run("sessions", "close")
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert [message for message in messages if "error" in message] == []
    [request] = [
        message["params"] for message in messages if message.get("method") == "session/request_permission"
    ]
    assert request["toolCall"]["content"][0]["newText"] == "one\nTWO\nthree\n"
    updates = [
        message["params"]["update"] for message in messages if message.get("method") == "session/update"
    ]
    assert [update["status"] for update in updates if "status" in update] == [
        "pending",
        "in_progress",
        "completed",
    ] * 2
    assert updates[-2]["content"]["text"] == "It is done."
    stop_reasons = [
        message["result"]["stopReason"] for message in messages if "stopReason" in message.get("result", {})
    ]
    assert stop_reasons == ["end_turn"]
    assert "Still here." in json.dumps(again)
