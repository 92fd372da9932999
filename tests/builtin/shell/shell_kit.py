"""The shell tools in a workspace of their own, called as the executor calls them."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.tools import close_shell, shell_tools
from toolglot.builtin.tool_state import AskUser, ToolState
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import Approve
from toolglot.values.events import ToolOutcome, ToolProgress
from toolglot.values.messages import Text, ToolCall


@cache
def unavailable_reason(level: SandboxLevel) -> str:
    """Return why a sandbox does not work here; tried once."""
    return probe_level(level)


class Kit:
    """`await kit.shell(command="ls")`."""

    def __init__(
        self,
        base: Path,
        level: SandboxLevel | None,
        *,
        ask: AskUser | None = None,
        approve: Approve | None = None,
        config: ToolConfig | None = None,
        **options: Any,
    ) -> None:
        self.level, self.work, self.state_dir = level or SandboxLevel.NONE, base / "work", base / "state"
        (base / "other").mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        self.workspace = Workspace(self.work, other_roots=[Root(base / "other")])
        self.state = ToolState(self.workspace, state_dir=self.state_dir, ask=ask)
        self.tools = {
            tool.name: tool for tool in shell_tools(self.state, ShellOptions(level=level, **options))
        }
        registry = ToolRegistry(list(self.tools.values()))
        self.executor = ToolExecutor(
            registry, approve=approve, config=config or ToolConfig(ask=(), max_repeats=0)
        )
        self.progress: list[str] = []
        self._count = 0

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
        close_shell(self.state)
        self.workspace.close()


def text_of(outcome: ToolOutcome) -> str:
    return "".join(block.text for block in outcome.result.content if isinstance(block, Text))


def find_processes(word: str) -> list[int]:
    """Return the processes with this word among their arguments."""
    pids: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                pids.append(int(name))
    return pids


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    """Wait until a condition is true; False if it is not within ten seconds."""
    for _ in range(1000):
        value = condition()
        if (await value) if inspect.isawaitable(value) else value:
            return True
        await asyncio.sleep(0.01)
    return False


def count_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
