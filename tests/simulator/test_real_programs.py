"""Real coding agents run a whole tool loop against the simulator, as their users start them.

They come from npm with the tests. TOOLGLOT_PROGRAMS names a directory with other versions of them.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.npm.packages import native_program, npm_program

from toolglot.common.jsontext import dumps, dumps_text, loads_object
from toolglot.simulator.core import SimulatedResponse, Simulator
from toolglot.simulator.server import serve

SECONDS = 120
CODEX = (
    *(
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "-c",
        'model_provider="simulated"',
        "-c",
    ),
    'model_providers.simulated={{name="simulated",base_url="{url}/v1",wire_api="responses",env_key="OPENAI_API_KEY",'
    "supports_websockets=false}}",
    "-m",
)
CLAUDE = ("--dangerously-skip-permissions", "--model", "claude-opus-4-8", "-p")
SEARCH = {"ENABLE_TOOL_SEARCH": "true"}
SCRIPT = 'const result = await tools.exec_command({cmd: "cat note.txt"}); text(result.output)'
BASH = 'call Bash {"command": "cat note.txt", "description": "Read the note"}'
FIND = 'call ToolSearch {{"query": "select:{}", "max_results": 1}}'
# name -> (program, its arguments, its environment, calls of which one reads the file)
PROGRAMS: dict[str, tuple[str, tuple[str, ...], dict[str, str], str]] = {
    "codex": ("codex", (*CODEX, "gpt-5.5"), {}, 'call exec_command {"cmd": "cat note.txt"}'),
    "codex in code mode": (
        "codex",
        (*CODEX, "gpt-5.6-sol"),
        {},
        f"call exec {dumps_text({'input': SCRIPT})}",
    ),
    "claude": ("claude", CLAUDE, {}, BASH),
    "claude with deferred tools": (
        "claude",
        CLAUDE,
        SEARCH,
        f"{FIND.format('CronList')}\nthen call CronList {{}}\nthen {BASH}",
    ),
    "gemini": ("gemini", ("--yolo", "-p"), {}, 'call read_file {"file_path": "note.txt"}'),
}


class Tap(Simulator):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[tuple[str, int, bytes, bytes]] = []

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, connection: object = None
    ) -> SimulatedResponse:
        answer = super().handle(method, path, headers, body, connection=connection)
        self.exchanges.append((f"{method} {path}", answer.status, body, answer.body))
        return answer


def find_program(name: str) -> list[str]:
    """Return how to start a coding agent; skips the test where it cannot be had."""
    if directory := os.environ.get("TOOLGLOT_PROGRAMS"):
        return [shutil.which(name, path=directory) or pytest.skip(f"{name} is not in TOOLGLOT_PROGRAMS")]
    return native_program("@anthropic-ai/claude-code", name) if name == "claude" else npm_program(name)


async def run_program(name: str, prompt: str, folder: Path) -> tuple[str, Tap]:
    """Run a program with a prompt, and return what it printed, and the simulator it asked."""
    program, arguments, extra, _ = PROGRAMS[name]
    command = find_program(program)
    home, server = folder / "home", Tap()
    (home / ".gemini").mkdir(parents=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_bytes(dumps(settings))
    (folder / "work").mkdir()
    (folder / "work" / "note.txt").write_text("the password is swordfish\n", encoding="utf-8")
    async with serve(server) as url:
        keys = {f"{vendor}_API_KEY": "none" for vendor in ("OPENAI", "ANTHROPIC", "GEMINI")}
        urls = {"ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}
        quiet = {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            *command,
            *(argument.format(url=url) for argument in arguments),
            prompt,
            cwd=folder / "work",
            env={"PATH": os.environ["PATH"], "HOME": str(home), **keys, **urls, **quiet, **trust, **extra},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
    return output.decode(errors="replace"), server


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_whole_tool_loop(name: str, tmp_path: Path) -> None:
    output, server = await run_program(name, f"{PROGRAMS[name][3]}\nthen say It is done.", tmp_path)
    refused = [(path, body) for path, status, _, body in server.exchanges if status != 200]
    assert refused == [], output
    assert "It is done." in output
    *_, (_, _, last, answer) = server.exchanges
    assert "swordfish" in last.decode()
    assert loads_object(last)
    assert b"It is done." in answer
    if "deferred" in name:
        assert any(b'"tool_reference"' in body for _, _, body, _ in server.exchanges)
