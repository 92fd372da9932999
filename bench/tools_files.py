"""The guarded directory against the bare system calls: what safety costs."""

import asyncio
import os
import tempfile
from pathlib import Path

from bench.measure import Table, cpu_seconds
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.confine.confined_open import open_beneath
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.messages import ToolCall

_DEEP_FILE = "a/b/c/d/file.txt"


def files_table(*, quick: bool) -> Table:
    """Opening, reading, writing and listing: ours, the bare call, and the usual check of a real path before
    it.
    """
    table = Table("built-in tools: files")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "a/b/c/d").mkdir(parents=True)
        (root / _DEEP_FILE).write_text("".join(f"line {number}\n" for number in range(200)))
        for number in range(200):
            (root / f"a/b/f{number}.py").write_text("x = 1\n")
        workspace = Workspace(root)
        for name, ours, bare, usual in _operations(root, workspace):
            runs = {"ours": ours, "bare": bare, "usual": usual}
            expected = {key: run() for key, run in runs.items()}
            took = cpu_seconds(runs, expected, 5 if quick else 25)
            table.rows.append(
                {
                    "": name,
                    "µs": took["ours"] * 1e6,
                    "÷ bare call": took["ours"] / took["bare"],
                    "÷ realpath check": took["ours"] / took["usual"],
                }
            )
        for name, seconds in _time_calls(workspace, 20 if quick else 200):
            table.rows.append({"": name, "µs": seconds * 1e6, "÷ bare call": "", "÷ realpath check": ""})
        workspace.close()
    return table


def _operations(root: Path, workspace: Workspace):
    path = str(root / _DEEP_FILE)

    def open_ours() -> int:
        with workspace.open_file(_DEEP_FILE) as opened:
            return opened.status.st_size

    def open_bare() -> int:
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.fstat(handle).st_size
        finally:
            os.close(handle)

    def open_usual() -> int:
        real = os.path.realpath(path)
        assert os.path.commonpath((real, root)) == str(root)
        return open_bare()

    def write_ours() -> int:
        return len(str(workspace.write("new.txt", b"hello\n").path.name))

    def write_bare() -> int:
        handle = os.open(root / "new.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(handle, b"hello\n")
        os.fsync(handle)
        os.close(handle)
        os.rename(root / "new.tmp", root / "new.txt")
        return len("new.txt")

    def list_ours() -> int:
        with workspace.open_directory("a/b") as opened, os.scandir(opened.fd) as entries:
            return sum(1 for _ in entries)

    def list_bare() -> int:
        with os.scandir(root / "a/b") as entries:
            return sum(1 for _ in entries)

    def open_below() -> int:
        handle = open_beneath(root_handle, _DEEP_FILE, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.fstat(handle).st_size
        finally:
            os.close(handle)

    root_handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield "open a file below the root, five directories deep", open_below, open_bare, open_usual
    yield "the same, with its kind, version and real path", open_ours, open_bare, open_usual
    yield "write a file, whole or not at all", write_ours, write_bare, write_bare
    yield "list 201 entries", list_ours, list_bare, list_bare


def _time_calls(workspace: Workspace, rounds: int) -> list[tuple[str, float]]:
    """Whole calls, as a model makes them."""
    import time

    box = ToolState(workspace)
    executor = ToolExecutor(ToolRegistry([*file_tools(box), *list_dir_tools(box), *read_many_tools(box)]))
    calls = {
        "call of read (200 lines)": ToolCall("1", "read", {"path": _DEEP_FILE}),
        "call of write": ToolCall("2", "write", {"path": "other.txt", "content": "hello\n"}),
        "call of list_dir (201 entries)": ToolCall("3", "list_dir", {"path": "a/b"}),
    }

    async def run(call: ToolCall) -> float:
        executor.host.policy.begin_prompt()
        start = time.perf_counter()
        outcome = await executor.run(call)
        assert not outcome.result.is_error, outcome.result.text
        return time.perf_counter() - start

    async def all_of(call: ToolCall) -> float:
        return sorted([await run(call) for _ in range(rounds)])[rounds // 2]

    return [(name, asyncio.run(all_of(call))) for name, call in calls.items()]


if __name__ == "__main__":
    print(files_table(quick=False))
