"""Helpers for the tests of the file tools: calling a tool as the executor does, and a workspace full of
traps.
"""

import asyncio
import inspect
import os
import socket
import stat
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput, as_result
from toolglot.tools.tool import Tool
from toolglot.values.messages import ToolCall


class Tools:
    """The tools of a directory, called as an executor calls them."""

    def __init__(self, root: Path, *factories: Callable[[ToolState], list[Tool]], **options: Any) -> None:
        self.root, self.state = root, ToolState(Workspace(root), **options)
        self.tools = {tool.name: tool for create in factories for tool in create(self.state)}

    def __call__(
        self, tool_name: str, flag: threading.Event | None = None, /, **arguments: Any
    ) -> ToolOutput:
        tool = self.tools[tool_name]
        call = ToolCall("c", tool_name, arguments)
        output = tool.call(tool.bind(call).values, Context(call, cancel_flag=flag))
        output = asyncio.run(output) if inspect.iscoroutine(output) else output
        assert isinstance(output, ToolOutput)
        result = as_result(output, call)
        assert not result.is_error, result
        return output

    def data(self, tool_name: str, /, **arguments: Any) -> dict[str, Any]:
        return self(tool_name, **arguments).data

    def failure(self, tool_name: str, flag: threading.Event | None = None, /, **arguments: Any) -> ToolError:
        with pytest.raises(ToolError) as raised:
            self(tool_name, flag, **arguments)
        return raised.value

    def preview(self, tool_name: str, /, **arguments: Any) -> str:
        preview = self.tools[tool_name].preview
        assert preview is not None
        return preview(arguments)

    def target(self, tool_name: str, /, **arguments: Any) -> str:
        target = self.tools[tool_name].target
        assert target is not None
        return target(arguments)


def snapshot(directory: Path) -> dict[str, Any]:
    """Everything below a directory, so that any change shows."""
    entries: dict[str, Any] = {}
    for path in directory.rglob("*"):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) and status.st_size < 10_000_000 else None
        entries[str(path)] = (status.st_mode, status.st_ino, status.st_size, content)
    return entries


def read_tree(root: Path) -> dict[str, bytes]:
    """The content of every file below a directory."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def create_trapped_workspace(tmp_path: Path) -> Path:
    """Create a workspace with what can go wrong in it, and secrets beside it."""
    root = tmp_path / "work"
    outside = tmp_path / "work_evil"
    for directory in (root / "sub", outside):
        directory.mkdir(parents=True)
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


def fork() -> int:
    with warnings.catch_warnings():
        # threads of other tests: the child uses none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
