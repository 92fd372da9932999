"""How a server's program is started: never from the workspace, wherever it is named."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from client_kit import SCRIPT, call, lines

from toolglot.common.user_dirs import state_directory
from toolglot.confine.programs import WorkspaceDirectory
from toolglot.errors import UsageError
from toolglot.mcp import McpServer, McpServers
from toolglot.mcp.client.launch import prepare_server, server_directory


def plant(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with programs that PATH finds first."""
    work = tmp_path / "work"
    plant(*(work / "bin" / name for name in ("tool", "only-here", "python3", "uvx")), tmp_path / "good/tool")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/tool").symlink_to(work / "bin/tool")
    monkeypatch.chdir(work)
    monkeypatch.setenv(
        "PATH",
        os.pathsep.join(["", ".", "bin", f"{work}/bin", f"{tmp_path}/links", f"{tmp_path}/good", "/bin"]),
    )
    return work


def test_a_program_is_the_next_one_in_path_outside_the_workspace(work: Path, tmp_path: Path) -> None:
    prepared = prepare_server("s", McpServer(command="tool"))
    assert prepared.command == str(tmp_path / "good/tool")
    assert prepared.env["PATH"] == os.pathsep.join([f"{tmp_path}/links", f"{tmp_path}/good", "/bin"])
    assert prepare_server("s", prepared) == prepared
    parameters = prepare_server(
        "s", McpServer(command="tool", env={"PATH": f"bin:{work}/bin:{tmp_path}/good:/x"})
    )
    assert (parameters.command, parameters.env["PATH"]) == (
        str(tmp_path / "good/tool"),
        f"{tmp_path}/good:/x",
    )
    for words, sentence in (
        ("only-here", f"it is only in the workspace ({work}/bin/only-here)"),
        ("no-such-program", "'no-such-program' cannot be started: there is no such program"),
    ):
        with pytest.raises(UsageError) as e:
            prepare_server("s", McpServer(command=words))
        assert sentence in str(e.value)
    elsewhere = [WorkspaceDirectory(tmp_path / "good"), WorkspaceDirectory(work)]
    with pytest.raises(UsageError, match="only in the workspace"):
        prepare_server("s", McpServer(command="tool"), elsewhere)


def test_a_path_is_relative_to_the_directory_that_is_given(work: Path, tmp_path: Path) -> None:
    assert prepare_server("s", McpServer(command="bin/tool")).command == str(work / "bin/tool")
    assert prepare_server("s", McpServer(command="./tool", cwd=str(tmp_path / "good"))).command == str(
        tmp_path / "good/tool"
    )


@pytest.mark.parametrize(("words", "fields", "is_set"), [
    (("python3", "-m", "server"), {}, True),
    (("uvx", "mcp-server-time"), {}, True),
    (("python3.11", "-c", "pass"), {}, True),
    (("python3", "/opt/server.py"), {}, False),  # what is beside a script is its own
    (("python3", "-m", "server"), {"cwd": "/opt"}, False),
    (("node", "server.js"), {}, False),
])  # fmt: skip
def test_python_imports_nothing_from_where_it_happens_to_be(
    work: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], fields: dict[str, Any], is_set: bool
) -> None:
    programs = work.parent / "programs"
    plant(programs / words[0])
    monkeypatch.setenv("PATH", str(programs))
    prepared = prepare_server("s", McpServer(command=words[0], args=words[1:], **fields))
    assert prepared.env.get("PYTHONSAFEPATH") == ("1" if is_set else None)
    settings = McpServer(command=words[0], args=words[1:], env={"PYTHONSAFEPATH": ""})
    assert prepare_server("s", settings).env["PYTHONSAFEPATH"] == ""


def test_a_servers_directory_is_its_own(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = [
        prepare_server(name, McpServer(command="tool")).cwd for name in ("s", "t", "../../x", "a/b", "s")
    ]
    assert len(set(prepared)) == 4
    for path in map(Path, filter(None, prepared)):
        assert (path.parent, path.stat().st_mode & 0o777) == (state_directory() / "mcp", 0o700)
    assert prepare_server("s", McpServer(command="tool", cwd="/opt")).cwd == "/opt"
    # A server may look for programs in the directories above its own.
    monkeypatch.setenv("TOOLGLOT_STATE", str(work / "state"))
    assert prepare_server("s", McpServer(command="tool")).cwd == "/"
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "good/tool"))  # a file: nothing can be created there
    assert prepare_server("s", McpServer(command="tool")).cwd == "/"
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "new"))
    assert server_directory("s") == tmp_path / "new/mcp/s"
    assert not (tmp_path / "new").exists()


def test_a_server_in_python_starts_outside_the_workspace_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, log = tmp_path / "work", tmp_path / "log"
    work.mkdir()
    log.mkdir()
    monkeypatch.chdir(work)
    settings = McpServer(
        command=sys.executable,
        args=("-m", "scripted_server", str(log)),
        env={"PYTHONPATH": str(SCRIPT.parent)},
    )
    with McpServers({"s": settings}) as servers:
        assert servers.status()[0].state == "ready"
        for name in ("scripted_server", "json"):
            (work / f"{name}.py").write_text(f"open({str(tmp_path / 'escaped')!r}, 'w')")
        call(servers, "die")
        assert call(servers, "echo", text="again").text == "again"
    assert len(lines(log, "starts")) == 2
    assert not (tmp_path / "escaped").exists()
