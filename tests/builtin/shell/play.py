"""Play calls of built-in tools as some user: `python play.py USER PLANS`.

Rights are dropped after all imports.

A plan: `environ`, `root`, `level`, `calls` (tool and arguments), perhaps `hidden` (paths) and `options` (of
BuiltinOptions). Prints for each call whether it failed, and its text.
"""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
LEVELS = {"bwrap": 2, "landlock": 1}
USERS = {"root": 0, "user": NOBODY}


def play(user: str, *plans: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Play plans in a process of their own; skip the test if this sandbox or this user is not available."""
    if user == "root" and os.getuid() != 0:
        pytest.skip("this needs root")
    uid = USERS[user] if os.getuid() == 0 else os.getuid()
    done = subprocess.run(
        [sys.executable, __file__, str(uid), json.dumps(plans)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: Any = json.loads(done.stdout.splitlines()[-1])
    if isinstance(report, str):
        pytest.skip(f"this sandbox does not work here: {report}")
    return report


def give_to(user: str, *directories: Path) -> None:
    """Make everything in these directories the user's own."""
    for path in (path for directory in directories for path in (directory, *directory.rglob("*"))):
        if os.getuid() == 0:
            os.chown(path, USERS[user], USERS[user], follow_symlinks=False)


def visible_directory() -> str:
    """A directory that the sandbox shows: in the usual ones for temporary files, which it hides, nothing
    could be proved.
    """
    return next(path for path in ("/srv", "/opt", os.path.expanduser("~")) if os.access(path, os.W_OK))


async def _run(plan: dict[str, Any]) -> list[dict[str, Any]]:
    from toolglot.builtin.shell.manager import ShellOptions
    from toolglot.builtin.tools import BuiltinOptions, builtins
    from toolglot.common.user_dirs import state_directory
    from toolglot.confine.sandbox import SandboxLevel
    from toolglot.tools.config import ToolConfig
    from toolglot.tools.executor import ToolExecutor
    from toolglot.tools.registry import ToolRegistry
    from toolglot.values.messages import ToolCall

    shell = ShellOptions(
        level=SandboxLevel(plan["level"]), hidden=[Path(path) for path in plan.get("hidden", ())]
    )
    options = BuiltinOptions(shell=shell, require_read=False, **plan.get("options", {}))
    tools = builtins(plan["root"], options=options, state_dir=state_directory())
    executor = ToolExecutor(ToolRegistry(tools.tools), ToolConfig(max_repeats=0), approve=lambda _: True)
    report: list[dict[str, Any]] = []
    try:
        for number, (name, arguments) in enumerate(plan["calls"]):
            result = (await executor.run(ToolCall(f"c{number}", name, arguments))).result
            report.append({"failed": result.is_error, "text": result.text})
    finally:
        tools.close()
    return report


def main() -> None:
    import tempfile

    from toolglot.confine.sandbox import SandboxLevel
    from toolglot.confine.sandbox_probe import probe_level

    user, plans = int(sys.argv[1]), json.loads(sys.argv[2])
    # imports what is imported when first needed
    with tempfile.TemporaryDirectory() as directory, suppress(Exception):
        calls = [
            ["shell", {"command": "true"}],
            ["write", {"path": "a", "content": "b"}],
            ["grep", {"pattern": "b"}],
        ]
        calls += [["glob", {"pattern": "*"}], ["read", {"path": "a"}]]
        asyncio.run(_run({"root": directory, "level": 0, "calls": calls}))
    if user != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    reports: list[Any] = []
    for plan in plans:
        for name in (
            "TOOLGLOT_STATE",
            "TOOLGLOT_CONFIG",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
        ):
            os.environ.pop(name, None)
        os.environ.update({"PATH": "/usr/bin:/bin", **plan["environ"]})
        tempfile.tempdir = None
        if reason := probe_level(SandboxLevel(plan["level"])):
            print(json.dumps(reason))
            return
        reports.append(asyncio.run(_run(plan)))
    print(json.dumps(reports))


if __name__ == "__main__":
    main()
