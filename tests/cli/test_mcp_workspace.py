"""A workspace by somebody else, and the user's own MCP servers: each command starts them, and nothing of the
workspace runs.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.user_kit import USERS, become, find_python, user_id

from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_sandbox

SERVER = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
SYSTEM_PATH = "/usr/bin:/bin"
SECRET = "s3cret-of-the-server"
needs_sandbox = pytest.mark.skipif(probe_sandbox().level is SandboxLevel.NONE, reason="no sandbox works here")
# What servers, or the programs that they start, would import, or start by name.
MODULES = ("goodserver", "json", "os", "sitecustomize", "usercustomize", "encodings")
PROGRAMS = ("python3", "python", "node", "npx", "npm", "sh", "env", "git", "dirname", "uname", "goodserver")
ECHO = ("call", "mcp__good__echo", '{"text": "from the real server"}', "--yes")
COMMANDS = {
    "run": ("run", "-m", "simulator", "--yes", 'call mcp__good__echo {"text": "from the real server"}'),
    "chat": ("chat", "-m", "simulator"),
    "tools": ("tools", "--json"),
    "mcp test": ("mcp", "test", "good", "--json"),
    "mcp list": ("mcp", "list", "--start", "--json"),
    "call": ECHO,
}
SIGNS = {"tools": "mcp__good__echo", "mcp test": '"state":"ready"', "mcp list": '"state":"ready'}


class World:
    """A user with servers in the configuration, and a workspace.

    Whatever of it runs leaves a trace outside.
    """

    def __init__(self, base: Path, user: int) -> None:
        self.base, self.user, self.work, self.outside = base, user, base / "work", base / "elsewhere"
        self.log, self.servers = base / "log", list[str]()
        for directory in (
            self.work / "bin",
            self.outside / "bin",
            self.outside / "links",
            base / "home",
            self.log,
        ):
            directory.mkdir(parents=True)
        for name in ("goodserver.py", "site/goodserver.py"):
            (self.outside / name).parent.mkdir(exist_ok=True)
            shutil.copy(SERVER, self.outside / name)

    def add_server(self, name: str, *words: str, **fields: Any) -> None:
        """Configure a server of the user."""
        lines = [
            f"[mcp.servers.{name}]",
            f"command = {json.dumps(words[0])}",
            f"args = {json.dumps(words[1:])}",
        ]
        for key, value in {"start_timeout": 20, **fields}.items():
            is_table = isinstance(value, dict)
            lines.append(
                f"{key} = {json.dumps(value).replace(': ', ' = ') if is_table else json.dumps(value)}"
            )
        self.servers.append("\n".join(lines))

    def add_good_server(self, **fields: Any) -> None:
        """Configure a server that is a module outside the workspace."""
        self.add_server("good", "python3", "-m", "goodserver", str(self.log), **fields)

    def plant_program(self, path: Path, text: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{text or f"""echo "{path.name} $TOKEN" >> {self.base}/escaped"""}\n')
        path.chmod(0o755)

    def plant_module(self, path: Path) -> None:
        path.write_text(f"open({str(self.base / 'escaped')!r}, 'a').write({path.name + chr(10)!r})\n")

    def plant_package(self) -> None:
        """Plant what npm, npx and node would start or load in the workspace."""
        self.plant_program(self.work / "node_modules/.bin/some-docs-server")
        self.plant_program(self.work / "evil")
        package = {
            "name": "some-docs-server",
            "version": "1.0.0",
            "bin": "evil",
            "scripts": {"preinstall": "./evil"},
        }
        (self.work / "package.json").write_text(json.dumps(package))
        (self.work / ".npmrc").write_text(
            f"script-shell={self.work}/evil\nnode-options=--require {self.work}/evil.js\n"
        )
        (self.work / "evil.js").write_text(
            f"require('fs').appendFileSync({str(self.base / 'escaped')!r}, 'node\\n')\n"
        )

    def start(self, *words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run toolglot in the workspace."""
        file = self.base / "home/.config/toolglot/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n\n".join(['policy.approve = ["mcp__*", "shell"]', *self.servers]))
        if os.getuid() == 0:
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)
        python, environment = find_python(self.user)
        directories = [
            "",
            ".",
            "bin",
            f"{self.work}/bin",
            f"{self.outside}/links",
            f"{self.outside}/bin",
            SYSTEM_PATH,
        ]
        environment |= {
            "PATH": os.pathsep.join(directories),
            "HOME": str(self.base / "home"),
            "NO_COLOR": "1",
            "COLUMNS": "500",
        }
        return subprocess.run(
            [python, "-P", "-m", "toolglot.cli.main", *words],
            env={**environment, **variables},
            cwd=self.work,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **become(self.user),
        )

    def list_escaped(self) -> list[str]:
        trace = self.base / "escaped"
        return sorted(set(trace.read_text().splitlines())) if trace.exists() else []


@pytest.fixture(params=USERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    user = user_id(request.param)
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="toolglot-mcp-")))
    base.chmod(0o755)
    yield World(base, user)
    shutil.rmtree(base)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_workspace_brings_no_code(world: World, command: str) -> None:
    for name in MODULES:
        world.plant_module(world.work / f"{name}.py")
    for name in ("mine", "linked", "sh", "env"):
        world.plant_program(world.work / "bin" / name)
    world.plant_package()
    (world.outside / "links/linked").symlink_to(world.work / "bin/linked")
    world.plant_program(
        world.outside / "bin/mine", f"exec /usr/bin/python3 {world.outside}/goodserver.py {world.log}"
    )
    world.add_good_server(env={"PYTHONPATH": str(world.outside / "site")})
    world.add_server("docs", "npx", "--offline", "-y", "some-docs-server", env={"TOKEN": SECRET})
    world.add_server("mine", "mine")
    world.add_server("linked", "linked")
    stdin = f"{COMMANDS['run'][-1]}\n/quit\n" if command == "chat" else ""
    done = world.start(*COMMANDS[command], stdin=stdin)
    assert world.list_escaped() == []
    assert SIGNS.get(command, "from the real server") in done.stdout
    if command == "mcp list":
        states = {row["name"]: row["state"] for row in json.loads(done.stdout)}
        assert states["mine"].startswith("ready")  # the next one in PATH
        assert "it is only in the workspace" in states["linked"]


def test_no_program_of_the_workspace_is_in_path(world: World) -> None:
    for name in PROGRAMS:
        world.plant_program(world.work / "bin" / name)
    world.plant_program(world.outside / "bin/mine", f"env python3 {world.outside}/goodserver.py {world.log}")
    world.add_server("mine", "mine")
    world.add_server("given", "mine", env={"PATH": f"{world.work}/bin:.:${{PATH}}"})
    world.add_good_server(env={"PYTHONPATH": str(world.outside / "site")})
    done = world.start("mcp", "list", "--start", "--json")
    assert {row["name"]: row["state"][:5] for row in json.loads(done.stdout)} == dict.fromkeys(
        ("mine", "given", "good"), "ready"
    )
    assert world.list_escaped() == []


@needs_sandbox
def test_what_a_command_writes_does_not_run_when_a_server_starts(world: World) -> None:
    world.add_server("docs", "npx", "--offline", "-y", "some-docs-server", env={"TOKEN": SECRET})
    world.add_good_server(env={"PYTHONPATH": str(world.outside / "site")})
    escape = f'#!/bin/sh\\necho "$0 $TOKEN" >> {world.base}/escaped\\n'
    places = ("node_modules/.bin/some-docs-server", "bin/python3", "bin/npx")
    script = "".join(
        f"mkdir -p $(dirname {path}); printf '{escape}' > {path}; chmod +x {path};" for path in places
    )
    done = world.start("call", "shell", json.dumps({"command": script}), "--root", ".", "--yes", "--no-mcp")
    assert (done.returncode, os.access(world.work / places[0], os.X_OK)) == (0, True), done.stderr
    assert world.start(*COMMANDS["run"], "--root", ".").returncode == 0
    assert world.list_escaped() == []


@needs_sandbox
def test_what_a_command_writes_does_not_run_when_a_server_is_restarted(world: World) -> None:
    world.add_good_server(env={"PYTHONPATH": str(world.outside / "site")})
    trace = f"open('{world.base}/escaped', 'a').write('restart')"
    script = (
        f'for name in goodserver json; do echo "{trace}" > $name.py; done; mv goodserver.py bin/; cp bin/* .'
    )
    turns = (
        f"call shell {json.dumps({'command': script})}",
        "call mcp__good__die {}",
        'call mcp__good__echo {"text": "started again"}',
        "/quit",
    )
    words = ("chat", "-m", "simulator", "--builtin", "--facade", "neutral", "--root", ".")
    done = world.start(*words, stdin="".join(f"{turn}\n" for turn in turns))
    assert (world.work / "goodserver.py").exists(), done
    assert "mcp__good__echo: started again" in done.stdout, done
    assert world.list_escaped() == []


# Each says that a server of the user runs something of the workspace.
USES: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "directory": (
        ("python3", "-m", "goodserver", "${workspaceFolder}/log"),
        {"cwd": "${workspaceFolder}"},
        "its directory",
    ),
    "script": (("python3", "${workspaceFolder}/goodserver.py", "${workspaceFolder}/log"), {}, "its argument"),
}


@needs_sandbox
@pytest.mark.parametrize("use", USES)
def test_a_server_in_the_workspace_needs_trust_or_a_sandbox(world: World, use: str) -> None:
    words, fields, sentence = USES[use]
    source = f"try:\n    open({str(world.base / 'escaped')!r}, 'a').write('x')\nexcept OSError:\n    pass\n"
    (world.work / "goodserver.py").write_text(
        SERVER.read_text().replace("import json\n", f"{source}import json\n", 1)
    )
    (world.work / "log").mkdir()
    world.add_server("good", *words, **fields)

    done = world.start(*ECHO)
    assert done.stdout == "from the real server\n", done.stderr
    assert "the MCP server good runs in the sandbox: " in done.stderr
    assert sentence in done.stderr
    assert world.list_escaped() == []
    (row,) = json.loads(world.start("mcp", "list", "--json").stdout)
    assert row["sandbox"] is True

    world.servers[0] += "\nsandbox = false"
    done = world.start(*ECHO)
    assert "the MCP server good was not started: " in done.stderr
    assert f"run toolglot trust {world.work}" in done.stderr
    assert world.list_escaped() == []

    world.servers[0] = world.servers[0].removesuffix("\nsandbox = false")
    assert world.start("trust", ".").returncode == 0
    done = world.start(*ECHO)
    assert done.stdout == "from the real server\n", done.stderr
    assert "sandbox" not in done.stderr
    assert world.list_escaped() == ["x"]
