"""A toolbox with the shell's tools, in a folder of its own, driven as the executor drives it."""

import asyncio
import os
from collections.abc import Coroutine
from functools import cache
from pathlib import Path
from typing import Any

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell import SandboxLevel, ShellOptions, close_shell, shell_tools
from toolglot.builtin.shell.sandbox import probe_level
from toolglot.builtin.tool_state import AskUser, ToolState
from toolglot.events import ToolOutcome, ToolProgress
from toolglot.messages import Text, ToolCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import Approve, ToolExecutor
from toolglot.tools.registry import ToolRegistry


@cache
def unavailable_reason(level: SandboxLevel) -> str:
    """Why a level does not hold here; tried once."""
    return probe_level(level)


class Kit:
    """`kit.run(kit.shell(command="ls"))`."""

    def __init__(
        self, base: Path, level: SandboxLevel, *, ask: AskUser | None = None, approve: Approve | None = None, **options: Any
    ) -> None:
        self.work, self.state = base / "work", base / "state"
        (base / "other").mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        self.workspace = Workspace(self.work, other_roots=[Root(base / "other")])
        self.box = ToolState(self.workspace, state_dir=self.state, ask=ask)
        self.tools = {one.name: one for one in shell_tools(self.box, ShellOptions(level=level, **options))}
        if level is SandboxLevel.NONE and approve is None:
            approve = lambda _: "yes"  # noqa: E731
        self.executor = ToolExecutor(ToolRegistry(list(self.tools.values())), approve=approve, config=ToolConfig(max_repeats=0))
        self.progress: list[str] = []
        self._count = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        self._count += 1
        call = ToolCall(f"c{self._count}", name, arguments)

        def emit(event: Any) -> None:
            if isinstance(event, ToolProgress):
                self.progress.append(event.text)

        return await self.executor.run(call, emit=emit)

    async def data(self, name: str, **arguments: Any) -> dict[str, Any]:
        outcome = await self.call(name, arguments)
        assert outcome.result.data is not None, outcome.result
        return dict(outcome.result.data)

    async def shell(self, **arguments: Any) -> dict[str, Any]:
        return await self.data("shell", **arguments)

    async def text(self, name: str = "shell", **arguments: Any) -> str:
        return text_of(await self.call(name, arguments))

    def close(self) -> None:
        close_shell(self.box)
        self.workspace.close()


def text_of(outcome: ToolOutcome) -> str:
    return "".join(block.text for block in outcome.result.content if isinstance(block, Text))


def processes(word: str) -> list[int]:
    """Those that have a word among theirs."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(name))
    return found


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
