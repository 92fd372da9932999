"""Make calls of built-in tools in a directory: `python programs_runner.py PLAN`.

Prints the text of each result.
"""

import asyncio
import json
import sys
from typing import Any

import toolglot
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.builtin.web.config import WebConfig
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import as_result
from toolglot.values.messages import ToolCall


async def call_all(plan: dict[str, Any]) -> list[str]:
    level = SandboxLevel(plan["level"]) if plan.get("level") is not None else None
    options = BuiltinOptions(
        shell=ShellOptions(level=level),
        web=WebConfig(allow_private=plan.get("hosts", ()), browser=plan.get("browser", "")),
        require_read=False,
    )
    tools = builtins(plan["root"], options=options, state_dir=plan["state"])
    by_name = {tool.name: tool for tool in tools.tools}
    texts: list[str] = []
    for name, arguments in plan["calls"]:
        call = ToolCall("1", name, arguments)
        try:
            output = await by_name[name].invoke(by_name[name].bind(call).values, Context(call))
            texts.append(as_result(output, call).text)
        except ToolError as e:
            texts.append(f"error: {e}")
    tools.close()
    return texts


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    reason = probe_level(SandboxLevel(plan["level"])) if plan.get("level") else ""
    print(
        json.dumps(
            {"skip": reason}
            if reason
            else {"texts": asyncio.run(call_all(plan)), "package": toolglot.__file__}
        )
    )


if __name__ == "__main__":
    main()
