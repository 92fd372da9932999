"""Helpers for the tests of the searching tools."""

import os
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.tool_state import ToolState
from toolglot.tools.context import Context
from toolglot.values.messages import ToolCall


def plant(root: Path, files: Mapping[str, str | bytes] | Iterable[str]) -> Path:
    """Create files with their content; with their own path as content if only paths are given."""
    for path in files:
        content = cast(Mapping[str, str | bytes], files)[path] if isinstance(files, Mapping) else path
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def plant_byte_names(root: Path, names: Iterable[bytes], content: bytes = b"") -> None:
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(root), name))).write_bytes(content)


def make_state(root: Path, *other_roots: Path) -> ToolState:
    return ToolState(Workspace(root, other_roots=[Root(path, writable=False) for path in other_roots]))


def make_context(name: str, *, cancelled: bool = False, reports: list[str] | None = None) -> Context:
    flag = threading.Event()
    if cancelled:
        flag.set()
    return Context(
        ToolCall("1", name, {}), cancel_flag=flag, report=None if reports is None else reports.append
    )


def flatten_table(table: Mapping[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in table.items() for value in values]


def count_fds() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@contextmanager
def swap_directories(root: Path) -> Generator[None]:
    """While it is active, `root/real` is replaced again and again by `root/link`, which leads out of the
    root.
    """
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "real", root / "spare")
            os.rename(root / "link", root / "real")
            os.rename(root / "real", root / "link")
            os.rename(root / "spare", root / "real")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
