"""Swap races through the tools: `python -m tests.attack.races --tries N [--user ID] [--walk] TOOL …`.

Another process exchanges a directory, and a file, with links to the outside as fast as it can, while each
tool is called. Prints one line of JSON for each tool: {"name", "tries", "leaks"}. `control` is no tool, but
the usual check of a name before it is opened: it has to leak, or the race is none. What is tried below the
tools is in `bench/tools_races.py`."""

import argparse
import asyncio
import inspect
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from bench.tools_races import ONLY_OUTSIDE, SECRET, Arena

from toolglot.builtin.code import ast_query, ast_worker
from toolglot.builtin.code.ast_tools import ast_rewrite_tools, ast_search_tools
from toolglot.builtin.edit.edit_tools import edit_tools
from toolglot.builtin.edit.notebook import notebook_tools
from toolglot.builtin.edit.patch_tool import patch_tools
from toolglot.builtin.files.file_tools import file_tools
from toolglot.builtin.files.read_many import read_many_tools
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.search.glob import glob_tools
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.search.list_dir import list_dir_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.confine import confined_open
from toolglot.tools.context import Context
from toolglot.tools.results import as_result
from toolglot.values.messages import ToolCall

FACTORIES = (
    *(
        file_tools,
        edit_tools,
        patch_tools,
        notebook_tools,
        read_many_tools,
        glob_tools,
        list_dir_tools,
        grep_tools,
    ),
    *(ast_search_tools, ast_rewrite_tools),
)
NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "id": "c", "metadata": {}, "outputs": [], "execution_count": null, '
    '"source": "%s"}],'
    ' "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)


class InlineParser:
    """The parser without its process, whose start would take a thousand times longer than the race."""

    def __init__(self, should_stop: Callable[[], bool], roots: object) -> None:
        del should_stop, roots

    def run(self, task: ast_worker.ParseTask) -> ast_worker.ParseAnswer:
        sink = io.BytesIO()
        ast_worker.serve(io.BytesIO(msgspec.json.encode(task) + b"\n"), sink)
        return msgspec.json.decode(sink.getvalue(), type=ast_worker.ParseAnswer)

    def close(self) -> None:
        pass


class ToolArena(Arena):
    """The arena of `bench.tools_races`, with tools as operations; the outside has a notebook and code, too."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        for directory, text in ((self.outside, SECRET.decode()), (self.root / "flip", "inside")):
            (directory / "n.ipynb").write_text(NOTEBOOK % text)
            (directory / "f.py").write_text(f'print("{text}")\n')
        self.before = self._state()
        self.workspace.close()
        self.workspace = Workspace(self.root, backup_dir=None)
        state = ToolState(self.workspace, state_dir=top / "state", require_read=None)
        self.tools = {tool.name: tool for create in FACTORIES for tool in create(state)}
        self.operations = {
            "control": self.read_after_a_check,
            "read": lambda path: self.shows("read", path=path),
            "read_many": lambda path: self.shows("read_many", include=[path, "flip/**"]),
            "glob": lambda path: self.shows("glob", pattern="**/*.txt", path=os.path.dirname(path) or "."),
            "list_dir": lambda path: self.shows("list_dir", path=os.path.dirname(path) or ".", depth=3),
            "grep": lambda path: self.shows("grep", pattern="SECRET|only", path=os.path.dirname(path) or "."),
            "write": lambda path: self.shows("write", path=path, content="inside"),
            "edit": self.edit,
            "patch": lambda path: self.shows(
                "patch", text=f"*** Begin Patch\n*** Add File: {path}\n+inside\n*** End Patch"
            ),
            "notebook_edit": lambda _: self.shows(
                "notebook_edit", path="flip/n.ipynb", cell_id="c", source="inside"
            ),
            "ast_search": lambda _: self.shows("ast_search", pattern="print($A)", path="flip/f.py"),
            "ast_rewrite": lambda _: self.shows(
                "ast_rewrite", pattern="print($A)", replacement="print($A)", path="flip/f.py"
            ),
        }

    def shows(self, name: str, /, **arguments: Any) -> bool:
        """Call a tool; whether its result has anything from outside."""
        tool, call = self.tools[name], ToolCall("1", name, arguments)
        output: Any = tool.call(tool.bind(call).values, Context(call))
        text = as_result(asyncio.run(output) if inspect.iscoroutine(output) else output, call).text
        return SECRET.decode() in text or ONLY_OUTSIDE in text

    def read_after_a_check(self, path: str) -> bool:
        """The usual way, which checks a name and then opens it."""
        name = str(self.root / path)
        try:
            return os.path.realpath(name).startswith(f"{self.root}/") and Path(name).read_bytes() == SECRET
        except OSError:
            return False

    def edit(self, path: str) -> bool:
        self.number += 1
        old, new = ("inside", "in side") if self.number % 2 else ("in side", "inside")
        return self.shows("edit", path=path, old=old, new=new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="+", metavar="TOOL")
    parser.add_argument("--tries", type=int, default=1000, help="of each tool")
    parser.add_argument("--user", type=int, default=os.getuid())
    parser.add_argument("--walk", action="store_true", help="without openat2, as on other systems")
    options = parser.parse_args()
    if options.walk:
        confined_open.has_openat2 = lambda: False
    setattr(ast_query, "ParserProcess", InlineParser)  # noqa: B010 - not for its type
    with tempfile.TemporaryDirectory() as directory:  # imports everything: later it may not be readable
        arena = ToolArena(Path(directory))
        for name in arena.operations:
            arena.run(name, 3)
    with suppress(ImportError):
        import_module("ast_grep_py")  # on a busy machine, the race kept it from being used
    if options.user != os.getuid():
        os.setgroups([])
        os.setgid(options.user)
        os.setuid(options.user)
    failed = 0
    for name in options.tools:
        with tempfile.TemporaryDirectory(
            dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        ) as directory:
            arena = ToolArena(Path(directory))
            _, _, leaks = arena.run(name, options.tries)
            leaks += arena.count_leftovers()
            failed += leaks if name != "control" else 0
            print(
                json.dumps(
                    {
                        "name": f"race: {name}{' (walk)' if options.walk else ''}",
                        "tries": options.tries,
                        "leaks": leaks,
                    }
                ),
                flush=True,
            )
            arena.workspace.close()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
