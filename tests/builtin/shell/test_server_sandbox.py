"""MCP servers in the sandbox: a program that answers lines as a server does, and tries to get out."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from shell_kit import unavailable_reason

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.server_sandbox import ServerSandbox
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.server_worker import PLAN_VARIABLE, ServerPlan
from toolglot.errors import UsageError
from toolglot.mcp.client.client import McpServers
from toolglot.mcp.client.servers import McpServer

# Not that of a virtual environment: a checkout in /tmp is hidden in the sandbox.
PYTHON: str = getattr(sys, "_base_executable", sys.executable)
LEVELS = [
    pytest.param(
        level,
        marks=pytest.mark.skipif(bool(unavailable_reason(level)), reason=f"{level.label} does not work here"),
    )
    for level in (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK)
]
# Answers each line of JSON, an expression, with its value or the name of the error.
SERVER = """
import json, os, socket, subprocess, sys

for line in sys.stdin:
    try:
        value = eval(json.loads(line))
    except BaseException as e:
        value = type(e).__name__
    print(json.dumps(value), flush=True)
sys.stderr.write("the end")
"""


class Server:
    """A server that runs, as a client of MCP sees it."""

    def __init__(self, launched: McpServer) -> None:
        self.process = subprocess.Popen(
            [launched.command, *launched.args],
            env=launched.env,
            cwd=launched.cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def ask(self, expression: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(expression).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def start_server(tmp_path: Path, level: SandboxLevel, **fields: Any) -> Generator[Server]:
    root = tmp_path / "work"
    root.mkdir(exist_ok=True)
    (root / "server.py").write_text(SERVER)
    workspace = Workspace(root)
    sandbox = ServerSandbox(workspace, ShellOptions(level=level), tmp_path / "state")
    server = McpServer(command=PYTHON, args=("server.py",), sandbox=True, **fields)
    running = Server(sandbox("local", server))
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()
        sandbox.close()
        workspace.close()


@pytest.mark.parametrize("level", LEVELS)
def test_a_server_works_inside_and_reaches_nothing_outside(tmp_path: Path, level: SandboxLevel) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with start_server(tmp_path, level, env={"TOKEN": "s3cret-value"}) as server:
        assert server.ask("os.getcwd()") == str(tmp_path / "work")
        assert server.ask("os.environ.get('TOKEN')") == "s3cret-value"
        assert server.ask("[name for name in os.environ if name.startswith('TOOLGLOT')]") == []
        assert server.ask("open('made', 'w').write('x')") == 1
        assert server.ask(f"open({str(outside / 'made')!r}, 'w')") in (
            "OSError",
            "PermissionError",
            "FileNotFoundError",
        )
        assert server.ask("open('.envrc', 'w').write('x') and 0") in (0, "PermissionError")
        with_network = server.ask("socket.create_connection(('127.0.0.1', 9), timeout=5)")
        assert with_network in ("PermissionError", "ConnectionRefusedError", "OSError")
        lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        assert "s3cret-value" not in lines
    assert (tmp_path / "work/made").exists()
    assert not list(outside.iterdir())
    assert not (tmp_path / "work/.envrc").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_a_server_ends_with_its_input(tmp_path: Path, level: SandboxLevel) -> None:
    with start_server(tmp_path, level) as server:
        assert server.ask("1 + 1") == 2
        assert server.process.communicate(timeout=30)[1] == b"the end"
        assert server.process.returncode == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_the_wrapper_ends_everything_in_it(
    tmp_path: Path, level: SandboxLevel, number: signal.Signals
) -> None:
    with start_server(tmp_path, level) as server:
        # A child with a session of its own holds a pipe: when the pipe ends, the child has ended.
        fifo = tmp_path / "work/alive"
        os.mkfifo(fifo)
        ended = threading.Thread(target=fifo.read_bytes, daemon=True)
        ended.start()
        server.ask(
            "subprocess.Popen(['sleep', '600'], stdout=open('alive', 'w'), start_new_session=True).pid"
        )
        os.killpg(server.process.pid, number)
        ended.join(30)
        assert not ended.is_alive()


@pytest.mark.parametrize("level", LEVELS)
def test_a_server_ends_with_the_program_that_started_it(tmp_path: Path, level: SandboxLevel) -> None:
    work, is_running = tmp_path / "work", threading.Event()
    work.mkdir()
    os.mkfifo(work / "alive")
    (work / "server.py").write_text(
        "import time\nfile = open('alive', 'w')\nprint(1, file=file, flush=True)\ntime.sleep(600)\n"
    )

    def follow() -> None:
        with open(work / "alive", "rb") as pipe:
            pipe.readline()
            is_running.set()
            pipe.read()

    watcher = threading.Thread(target=follow, daemon=True)
    watcher.start()
    sandbox = ServerSandbox(Workspace(work), ShellOptions(level=level), tmp_path / "state")
    launched = sandbox("local", McpServer(command=PYTHON, args=("server.py",), sandbox=True))
    # It ignores its input, and its owner is killed.
    program = (
        f"import subprocess; subprocess.run({[launched.command, *launched.args]!r}, stdin=subprocess.DEVNULL)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], env=launched.env)
    assert is_running.wait(30)
    owner.kill()
    owner.wait()
    watcher.join(30)
    sandbox.close()
    assert not watcher.is_alive()


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_that_does_not_exist_is_told_on_stderr(tmp_path: Path, level: SandboxLevel) -> None:
    (tmp_path / "work").mkdir()
    sandbox = ServerSandbox(
        workspace := Workspace(tmp_path / "work"), ShellOptions(level=level), tmp_path / "state"
    )
    server = Server(sandbox("local", McpServer(command="no-such-program", sandbox=True)))
    _, error = server.process.communicate(timeout=30)
    sandbox.close()
    workspace.close()
    assert server.process.returncode == 127
    assert b"no-such-program" in error


def test_what_is_not_started(tmp_path: Path) -> None:
    with_none = ServerSandbox(
        workspace := Workspace(tmp_path), ShellOptions(level=SandboxLevel.NONE), tmp_path / "state"
    )
    assert with_none.label == ""
    with pytest.raises(UsageError, match="no sandbox works here"):
        with_none("x", McpServer(command="x", sandbox=True))
    free = McpServer(command="x")
    assert with_none("x", free) is free
    sandbox = ServerSandbox(workspace, ShellOptions(level=SandboxLevel.LANDLOCK), tmp_path / "state")
    with pytest.raises(UsageError, match="outside the workspace"):
        sandbox("x", McpServer(command="x", sandbox=True, cwd="/usr"))
    workspace.close()


@pytest.mark.parametrize("level", LEVELS[:1])
def test_a_client_never_starts_a_server_without_its_sandbox(tmp_path: Path, level: SandboxLevel) -> None:
    pytest.importorskip("mcp")
    server = McpServer(command=PYTHON, args=("-c", "open('started', 'w')"), cwd=str(tmp_path), sandbox=True)
    with McpServers({"x": server}) as servers:
        assert "it must run in a sandbox" in servers.status()[0].error
    assert not (tmp_path / "started").exists()
    sandbox = ServerSandbox(Workspace(tmp_path), ShellOptions(level=level), tmp_path / "state")
    with McpServers({"x": server}, launch=sandbox) as servers:
        assert servers.status()[0].state == "failed"  # it ends at once
    sandbox.close()
    assert (tmp_path / "started").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_servers_with_long_names_have_files_of_their_own(tmp_path: Path, level: SandboxLevel) -> None:
    sandbox = ServerSandbox(Workspace(tmp_path), ShellOptions(level=level), tmp_path / "state")
    try:
        servers = [sandbox(f"{'n' * 50}{name}", McpServer(command="x", sandbox=True)) for name in "ab"]
        plans = [msgspec.json.decode(server.env[PLAN_VARIABLE], type=ServerPlan) for server in servers]
        assert plans[0].confinement != plans[1].confinement
    finally:
        sandbox.close()
