"""Run the attacks in a sandbox, as some user: `python shell_runner.py PLAN`.

Rights are dropped after all imports.
"""

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolglot.builtin.files.workspace import Root, Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.tools import close_shell, shell_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.values.messages import ToolCall

# later it may not be readable
ATTACKS = Path(__file__).with_name("shell_attacks.py").read_text(encoding="utf-8")

# Each line is what it could do that it should not.
HOG = """exec 2>&-
python3 -I -c 'print(len(b"x" * 300_000_000), "bytes of memory")'
truncate -s 100T big && echo a file of 100 TB
memory=$(grep -o '[0-9]*' -m 1 /proc/meminfo)
for directory in $(grep -w tmpfs /proc/mounts | cut -d ' ' -f 2); do
  (: >$directory/file) && test $(df --output=size $directory | tail -n 1) -gt $((memory / 7)) && echo too large: $directory
done
test $(cat /proc/self/oom_score_adj) = 1000 || echo does not die first
exit 0"""


def python() -> str:
    """One that every user may start."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """One command that tries everything, and one that makes a bomb of processes."""
    workspace = Workspace(plan["work"], other_roots=[Root(Path(plan["reading"]), writable=False)])
    state = ToolState(workspace, state_dir=Path(plan["state"]))
    options = ShellOptions(
        level=SandboxLevel(plan["level"]), processes=64, memory=200_000_000, visible=["shown"]
    )
    tools = {tool.name: tool for tool in shell_tools(state, options)}

    async def shell(**arguments: Any) -> ToolOutput:
        call = ToolCall("1", "shell", arguments)
        return await tools["shell"].invoke(tools["shell"].bind(call).values, Context(call))

    try:
        attack = await shell(argv=[python(), "-I", "-B", "-c", ATTACKS, json.dumps(plan)], timeout=60)
        hook = await shell(
            command="echo evil > .git/hooks/post-commit; echo evil >> .git/config; echo evil > .envrc; cd .."
        )
        bomb = await shell(
            command="for i in $(seq 200); do sleep 5 & done 2>/dev/null; jobs -pr | wc -l", timeout=1.5
        )
        hog = await shell(command=HOG)
        return {"attack": attack.data, "hook": hook.data, "bomb": bomb.data, "hog": hog.data}
    finally:
        close_shell(state)
        workspace.close()


def _import_all() -> None:
    """What is imported when it is first needed: afterwards it may not be readable."""
    with tempfile.TemporaryDirectory() as directory:
        state = ToolState(Workspace(directory))
        for tool in shell_tools(state, ShellOptions(level=SandboxLevel.NONE)):
            call = ToolCall("1", tool.name, {"argv": ["true"]} if tool.name == "shell" else {"handle": "1"})
            with suppress(ToolError):
                asyncio.run(tool.invoke(tool.bind(call).values, Context(call)))
        close_shell(state)


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    _import_all()
    if plan["user"] != os.getuid():
        os.setgroups([])
        os.setgid(plan["user"])
        os.setuid(plan["user"])
    os.environ.update(
        HOME=plan["home"], PATH=f"{plan['home']}/.special/bin:/usr/bin:/bin", TMPDIR=plan["base"]
    )
    if reason := probe_level(SandboxLevel(plan["level"])):
        print(json.dumps({"skip": reason}))
        return
    handle, plan["temporary"] = tempfile.mkstemp(dir="/tmp")
    os.write(handle, b"secret")
    victim = subprocess.Popen(["sleep", "600"])
    libc, librt = ctypes.CDLL(None), ctypes.CDLL("librt.so.1")
    _, terminal = os.openpty()
    segment = libc.shmget(0, 4096, 0o600)
    semaphores = libc.semget(0, 1, 0o600)
    messages = libc.msgget(0, 0o600)
    queue = f"/toolglot-{os.getpid()}"
    librt.mq_open(queue.encode(), os.O_RDWR | os.O_CREAT, 0o600, None)
    try:
        plan.update(
            victim=victim.pid,
            parent=os.getpid(),
            terminal=os.ttyname(terminal),
            terminal_fd=terminal,
            queue=queue,
        )
        plan.update({"shared memory": segment, "semaphores": semaphores, "messages": messages})
        report = asyncio.run(run(plan))
        report["victim lives"] = victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
        librt.mq_unlink(queue.encode())
        os.unlink(plan["temporary"])
        for remove, number in ((libc.shmctl, segment), (libc.msgctl, messages)):
            remove(number, 0, None)
        libc.semctl(semaphores, 0, 0)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
