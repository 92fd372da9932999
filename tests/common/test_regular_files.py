"""What is read as a file is one: nothing waits for a pipe, and every reader of the configuration says so in
one sentence.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import run_program

from toolglot.common.regular_files import read_regular_file
from toolglot.common.skills import read_skill
from toolglot.config.layers import read_configuration
from toolglot.config.mcp_files import read_env_file, read_server_file
from toolglot.config.trust import is_trusted
from toolglot.errors import UsageError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs pipes and sockets in the file system")


@pytest.fixture(params=["pipe", "socket", "device", "link to a pipe"])
def odd_file(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], None]:
    """Puts something in place of a file."""

    def put(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        match request.param:
            case "pipe":
                os.mkfifo(path)
            case "socket":
                with pytest.MonkeyPatch.context() as patch, socket.socket(socket.AF_UNIX) as server:
                    patch.chdir(path.parent)  # the address of a socket is short
                    server.bind(path.name)
            case "device":
                path.symlink_to("/dev/zero")
            case _:
                os.mkfifo(tmp_path / "target")
                path.symlink_to(tmp_path / "target")

    return put


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content\r\n")
    assert read_regular_file(path) == read_regular_file(str(path), 100) == b"content\r\n"
    assert read_regular_file(path, 3) == b"con"
    assert read_regular_file(os.devnull) == b"", "what people name instead of a file"


def test_what_is_no_file_is_an_error(odd_file: Callable[[Path], None], tmp_path: Path) -> None:
    odd_file(tmp_path / "file")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_regular_file(tmp_path / "file")
    with pytest.raises(IsADirectoryError):
        read_regular_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "absent")


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "the user's configuration": (
        "config.toml",
        lambda path: read_configuration(environ={"TOOLGLOT_CONFIG": str(path)}),
    ),
    "MCP servers": (".mcp.json", lambda path: read_server_file(path)),
    "variables": (".env", lambda path: read_env_file(path, within=None)),
    "a skill": ("pdf/SKILL.md", lambda path: read_skill(path.parent)),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_of_the_configuration_waits(
    reader: str, odd_file: Callable[[Path], None], tmp_path: Path
) -> None:
    name, read = READERS[reader]
    path = tmp_path / "project" / name
    odd_file(path)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value).endswith("it is not a regular file")
    assert "\n" not in str(caught.value)


def test_the_list_of_trusted_directories_is_a_file(
    odd_file: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    odd_file(tmp_path / "trust.json")
    with pytest.raises(
        UsageError, match=r"cannot read the list of trusted directories .*: it is not a regular file"
    ):
        is_trusted(tmp_path)


def test_a_command_ends_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    os.mkfifo(path)
    outcome = run_program("config", "show", cwd=tmp_path, TOOLGLOT_CONFIG=str(path))
    assert outcome.code != 0
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert f"cannot read the configuration {str(path)!r}: it is not a regular file" in outcome.err
