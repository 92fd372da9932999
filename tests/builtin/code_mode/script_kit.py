"""Scripts in tests: an executor whose tools a script can call."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from toolglot.builtin.code_mode.process import find_level, find_runtime
from toolglot.builtin.code_mode.run_code import ScriptHost
from toolglot.confine.sandbox import SandboxLevel
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Media, Text, ToolCall

needs_javascript = pytest.mark.skipif(not find_runtime("javascript"), reason="mini-racer is not installed")
needs_python = pytest.mark.skipif(not find_runtime("python"), reason="pydantic-monty is not installed")
needs_sandbox = pytest.mark.skipif(find_level() is SandboxLevel.NONE, reason="no sandbox works here")


def _approve(request: ApprovalRequest) -> bool:
    return True


class Scripts:
    """One conversation whose model runs code."""

    def __init__(self, tools: Sequence[Tool] = (), language: Any = "javascript", **options: Any) -> None:
        options = {"approve": _approve, **options}
        registry = ToolRegistry(tools)
        self.executor = ToolExecutor(registry, **options)
        self.host = ScriptHost(language)
        self.executor.caller = replace(
            self.executor.caller, added_tools={"run_code": self.host.tool}, inner_tools=registry.definitions()
        )
        self.calls = 0

    async def outcome(self, code: str = "", **arguments: Any) -> ToolOutcome:
        self.calls += 1
        call = ToolCall(f"call_{self.calls}", "run_code", {**({"code": code} if code else {}), **arguments})
        return await self.executor.run(call)

    async def run(self, code: str = "", **arguments: Any) -> list[str]:
        """The state of the script, and the texts that it showed."""
        content = (await self.outcome(code, **arguments)).result.content
        header, *parts = [
            block.text.removesuffix("\n") if isinstance(block, Text) else str(cast(Media, block).data)
            for block in content
        ]
        return [header.partition("\n")[0], *parts]
