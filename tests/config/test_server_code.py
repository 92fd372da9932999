"""What a server of the user runs of the workspace decides where it runs."""

import json
from typing import Any

import pytest
from homes import Home

from toolglot.config.mcp_servers import ServerCatalog, find_servers
from toolglot.config.trust import refuse_trust, trust_directory
from toolglot.errors import UsageError
from toolglot.mcp import McpServer


def read(home: Home, settings: str = "", **fields: Any) -> ServerCatalog:
    """Return the servers of a user, with one that has these fields."""
    tables: dict[str, dict[str, Any]] = {
        name: value for name, value in fields.items() if isinstance(value, dict)
    }
    lines = [f"[mcp.servers.s.{name}]\n{toml(value)}" for name, value in tables.items()]
    lines.insert(
        0, "[mcp.servers.s]\n" + toml({name: value for name, value in fields.items() if name not in tables})
    )
    return find_servers(home.read("\n".join([settings, *lines])), directory=home.project)


def toml(values: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


USES: list[tuple[dict[str, Any], str]] = [
    ({"command": "x", "cwd": "${workspaceFolder}"}, "its directory"),
    ({"command": "x", "cwd": "."}, "its directory"),
    ({"command": "x", "cwd": "${CLAUDE_PROJECT_DIR}/sub"}, "its directory"),
    ({"command": "x", "cwd": "${HOME}/project/sub"}, "its directory"),
    ({"command": "x", "cwd": "${HOME}/link"}, "its directory"),
    ({"command": "x", "cwd": "${HOME}/other/../project"}, "its directory"),
    ({"command": "x", "cwd": "${HOME}/notes/a"}, "its directory"),  # tools may write there
    ({"command": "bin/server"}, "its program"),
    ({"command": "./server"}, "its program"),
    ({"command": "~/project/bin/server"}, "its program"),
    ({"command": "${workspaceFolder}/.venv/bin/python", "args": ["-m", "x"]}, "its program"),
    ({"command": "${HOME}/link/server"}, "its program"),
    ({"command": "python3", "args": ["-u", "${workspaceFolder}/server.py"]}, "its argument"),
    ({"command": "node", "args": ["${workspaceFolder}"]}, "its argument"),
    ({"command": "uv", "args": ["run", "--directory", "${workspaceFolder}", "server"]}, "its argument"),
    ({"command": "uv", "args": ["--directory=${workspaceFolder}", "run", "server"]}, "its argument"),
    ({"command": "npx", "args": ["${workspaceFolder}/package.tgz"]}, "its argument"),
    ({"command": "npm", "args": ["--prefix", "${workspaceFolder}", "exec", "server"]}, "its argument"),
    ({"command": "/usr/bin/env", "args": ["A=b", "bash", "${workspaceFolder}/start.sh"]}, "its argument"),
    ({"command": "bash", "args": ["-c", "cd ${workspaceFolder} && npm start"]}, "its argument"),
    ({"command": "bash", "args": ["-lc", "sleep 1; exec ${workspaceFolder}/server"]}, "its argument"),
    (
        {"command": "sh", "args": ["-c", "PYTHONPATH='${workspaceFolder}/src' python3 -m server"]},
        "its argument",
    ),
    ({"command": "sh", "args": ["-c", "bash -c 'cd ${workspaceFolder}; ./server'"]}, "its argument"),
    (
        {"command": "env", "args": ["PYTHONPATH=${workspaceFolder}", "python3", "-m", "server"]},
        "its argument",
    ),
    ({"command": "env", "args": ["--chdir=${workspaceFolder}", "python3", "-m", "server"]}, "its argument"),
    ({"command": "timeout", "args": ["60", "python3", "${workspaceFolder}/server.py"]}, "its argument"),
    ({"command": "make", "args": ["-C", "${workspaceFolder}", "serve"]}, "its argument"),
    (
        {"command": "cargo", "args": ["run", "--manifest-path", "${workspaceFolder}/Cargo.toml"]},
        "its argument",
    ),
    ({"command": "go", "args": ["run", "-C", "${workspaceFolder}", "./cmd"]}, "its argument"),
    (
        {"command": "docker", "args": ["compose", "-f", "${workspaceFolder}/compose.yml", "run", "x"]},
        "its argument",
    ),
    ({"command": "poetry", "args": ["--directory", "${workspaceFolder}", "run", "server"]}, "its argument"),
    (
        {"command": "python3", "args": ["-c", "import sys; sys.path.insert(0, '${workspaceFolder}')"]},
        "its argument",
    ),
    ({"command": "x", "env": {"PYTHONPATH": "/opt:${workspaceFolder}/src"}}, "PYTHONPATH"),
    ({"command": "x", "env": {"NODE_OPTIONS": "--require=${workspaceFolder}/hook.js"}}, "NODE_OPTIONS"),
    ({"command": "x", "env": {"LD_PRELOAD": "${workspaceFolder}/lib.so"}}, "LD_PRELOAD"),
]
HARMLESS: list[dict[str, Any]] = [
    {"command": "x"},
    {"command": "x", "cwd": "${HOME}/other"},
    {"command": "/usr/bin/x", "cwd": "/opt"},
    # data: what a file server serves
    {"command": "npx", "args": ["-y", "some-server", "${workspaceFolder}"]},
    {"command": "uvx", "args": ["mcp-server-git", "--repository", "${workspaceFolder}"]},
    {"command": "python3", "args": ["-m", "server", "--database", "${workspaceFolder}/a.db"]},
    {"command": "python3", "args": ["/opt/server.py"]},
    {"command": "bash", "args": ["-lc", "npx -y some-server ${workspaceFolder}"]},
    {"command": "docker", "args": ["run", "-i", "-v", "${workspaceFolder}:/data", "some-server"]},
    {"command": "python3", "args": ["-c", "import server; server.main('/opt')"]},
    {"command": "x", "env": {"TOKEN": "${workspaceFolder}", "PYTHONPATH": "/opt"}},
    {"command": "x", "env": {"NOTES": "${workspaceFolder}/notes"}},
    {"url": "https://x"},
]


@pytest.fixture(autouse=True)
def directories(home: Home) -> None:
    for name in ("project/sub", "project/bin", "other", "notes/a"):
        (home.directory / name).mkdir(parents=True, exist_ok=True)
    (home.directory / "link").symlink_to("project/bin")


NOTES = 'builtin.write = ["~/notes"]'


@pytest.mark.parametrize(("fields", "sentence"), USES)
def test_code_of_the_workspace_needs_trust_or_a_sandbox(
    home: Home, fields: dict[str, Any], sentence: str
) -> None:
    catalog = read(home, NOTES, **fields)
    (entry,) = catalog.servers
    assert entry.is_sandboxed
    assert entry.resolve().sandbox
    (note,) = catalog.notes
    assert note.startswith("the MCP server s runs in the sandbox: ")
    assert sentence in note

    (entry,) = read(home, NOTES, **fields, sandbox=False).servers
    with pytest.raises(
        UsageError,
        match=r"is in the workspace, which is not trusted; run toolglot trust .*, or set sandbox = true",
    ):
        entry.resolve()
    (entry,) = read(home, NOTES, **fields, sandbox=True).servers
    assert entry.resolve().sandbox

    for directory in (home.project, home.directory / "notes"):
        trust_directory(directory)
    catalog = read(home, NOTES, **fields)
    assert (catalog.servers[0].is_sandboxed, catalog.servers[0].resolve().sandbox, catalog.notes) == (
        False,
        False,
        (),
    )
    refuse_trust(home.project / "sub")
    assert read(home, command="x", cwd="${workspaceFolder}/sub").servers[0].is_sandboxed


@pytest.mark.parametrize("fields", HARMLESS)
def test_other_servers_run_as_the_user_in_a_directory_of_their_own(
    home: Home, fields: dict[str, Any]
) -> None:
    catalog = read(home, NOTES, **fields)
    (entry,) = catalog.servers
    server = entry.resolve()
    assert (server.sandbox, catalog.notes) == (False, ())
    assert server.cwd == (fields["cwd"].replace("${HOME}", str(home.directory)) if "cwd" in fields else None)
    private = str(home.state / "mcp" / "s") if "command" in fields else ""
    assert entry.describe_directory() == (server.cwd or private)


def test_a_directory_above_the_current_one_is_the_workspace_too(home: Home) -> None:
    (home.project / ".git").mkdir()
    home.read(f'[mcp.servers.s]\ncommand = "x"\ncwd = "{home.project}/bin"')
    configuration = home.read(home.user_file.read_text())
    (entry,) = find_servers(configuration, directory=home.project / "sub").servers
    assert entry.is_sandboxed


def test_an_env_file_of_the_workspace_decides_what_is_loaded(home: Home) -> None:
    (home.project / ".env").write_text("LD_PRELOAD=/x/evil.so\n")
    file = home.directory / "servers.json"
    file.write_text(json.dumps({"servers": {"s": {"command": "x", "envFile": "${workspaceFolder}/.env"}}}))
    (entry,) = find_servers(home.read(), files=[file], directory=home.project).servers
    assert entry.is_sandboxed
    assert (
        "its env file is in the workspace"
        in find_servers(home.read(), files=[file], directory=home.project).notes[0]
    )


def test_an_answer_can_name_the_workspace(home: Home) -> None:
    file = home.directory / "servers.json"
    inputs = [{"id": "where", "type": "promptString"}]
    server = {"command": "x", "cwd": "${input:where}"}
    file.write_text(json.dumps({"servers": {"s": server}, "inputs": inputs}))
    (entry,) = find_servers(home.read(), files=[file], directory=home.project).servers
    assert not entry.is_sandboxed  # as far as is known
    assert [
        entry.resolve(lambda wanted, directory=directory: directory).sandbox
        for directory in (str(home.project), "/opt", "")
    ] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("args", "word"), [
    (["."], "."),
    (["-y", "some-server", "./sub"], "./sub"),
    (["server.py"], "server.py"),
    (["-m", "package.module"], "-m package.module"),
    (["-m", "server"], "-m server"),
    (["-y", "@scope/some-server", "sub", "/opt", "no/such/file", "bin"], ""),
    (["-m", "installed"], ""),
])  # fmt: skip
def test_who_relied_on_the_workspace_is_told(home: Home, args: list[str], word: str) -> None:
    (home.project / "package").mkdir()
    for name in ("server.py", "package/module.py"):
        (home.project / name).touch()
    notes = read(home, command="python3", args=args).notes
    hint = 'if it should be, set cwd = "${workspaceFolder}" for it'
    expected = (
        f"the MCP server s does not start in the workspace, so {word!r} is not looked for there: {hint}"
    )
    assert notes == ((expected,) if word else ())
    trust_directory(home.project)
    assert read(home, command="python3", args=args, cwd="${workspaceFolder}").notes == ()


def test_an_editors_server_follows_the_same_rule(home: Home) -> None:
    catalog = read(home, command="x")
    server = McpServer(command=str(home.project / "bin/server"))
    confined, reason = catalog.confine(server, home.project)
    assert (confined.sandbox, confined.cwd, reason) == (True, str(home.project), "its program")
    harmless = McpServer(command="npx", args=("-y", "x", str(home.project)))
    assert catalog.confine(harmless, home.project) == (harmless, "")
    trust_directory(home.project)
    assert catalog.confine(server, home.project) == (server, "")
