"""Helpers for the tests of the file tools: calling a tool as the executor does, and a workspace full of traps."""

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.messages import ToolCall
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, as_result
from toolglot.tools.tool import Tool


class Tools:
    """The tools of a folder, called as an executor calls them."""

    def __init__(self, box: ToolState, made: list[Tool]) -> None:
        self.box, self.tools = box, {tool.name: tool for tool in made}

    def __call__(self, tool_name: str, flag: threading.Event | None = None, /, **arguments: Any) -> ToolOutput:
        tool = self.tools[tool_name]
        call = ToolCall("c", tool_name, arguments)
        output = tool.call(tool.bind(call).values, Context(call, cancel_flag=flag))
        assert isinstance(output, ToolOutput)
        result = as_result(output, call)
        assert not result.is_error, result
        return output

    def data(self, tool_name: str, /, **arguments: Any) -> dict[str, Any]:
        return self(tool_name, **arguments).data

    def failure(self, tool_name: str, /, **arguments: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self(tool_name, **arguments)
        return caught.value

    def preview(self, tool_name: str, /, **arguments: Any) -> str:
        tell = self.tools[tool_name].preview
        assert tell is not None
        return tell(arguments)


def snapshot(folder: Path) -> dict[str, Any]:
    """All that is in a folder, so that any change shows."""
    found: dict[str, Any] = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(above, name)
            status = os.lstat(path)
            is_file = not os.path.islink(path) and os.path.isfile(path)
            content = Path(path).read_bytes() if is_file and status.st_size < 10_000_000 else os.path.islink(path)
            found[os.path.relpath(path, folder)] = (status.st_mode, status.st_ino, status.st_size, content)
    return found


def trapped(tmp_path: Path) -> Path:
    """A workspace with what can go wrong in it, and secrets beside it."""
    root = tmp_path / "work"
    outside = tmp_path / "work_evil"
    for folder in (root / "sub", outside):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("the secret\n")
    (root / "text.txt").write_text("one\ntwo\nthree\n")
    (root / "binary").write_bytes(b"\x7fELF\0\0\0")
    (root / "late").write_bytes(b"text\n" * 20_000 + b"\0\0")
    (root / "out").symlink_to(outside / "secret")
    (root / "outdir").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "absent")
    (root / "relative").symlink_to("../work_evil/secret")
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to("/proc/self/root")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(root, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)
    return root


BAD_PATHS: list[Any] = [
    *("", "\0", "a\0b", "text.txt\0.png", "..", "../", ".", "/", "//", "./", "sub", "sub/", "text.txt/", "text.txt/x"),
    *("../work_evil/secret", "sub/../../work_evil/secret", "/etc/passwd", "//etc/passwd", "/etc/../etc/passwd"),
    *("out", "outdir", "outdir/secret", "dangling", "relative", "loop", "loop/x", "proc", "proc/etc/passwd"),
    *("/proc/self/root/etc/passwd", "/proc/self/cwd", "/dev/zero", "/dev/null", "fifo", "socket", "fifo/x"),
    *("x" * 256, "d/" * 3000 + "x", "é" * 200, "\ud800", "a/\ud800/b"),
    *(None, [], {}, ["text.txt"], {"path": "text.txt"}, True, 1.5),
]
"""Paths at which no text file may be read or changed."""
NOT_THERE = [
    "nothing",
    "sub/nothing",
    "nothing/x",
    "text.tx",
    "TEXT.TXT",
    "file:///etc/passwd",
    "%2e%2e/x",
    "..\\x",
    "~/.bashrc",
]
