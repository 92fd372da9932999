"""Which sandbox works here.

What is promised was tried: a canary that must not get out has run on this machine.
"""

import os
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from toolglot.confine.environment import safe_environment
from toolglot.confine.limits import describe_limits, remove_cgroups
from toolglot.confine.programs import find_program, find_programs, run_program
from toolglot.confine.roots import Root
from toolglot.confine.sandbox import (
    Confinement,
    Program,
    SandboxLevel,
    find_shell,
    landlock_version,
    prepare_launch,
)
from toolglot.confine.seccomp import MACHINES
from toolglot.errors import ToolError, UsageError

__all__ = [
    "SandboxProbe",
    "check_sandbox",
    "describe_sandbox",
    "describe_weakness",
    "probe_level",
    "probe_sandbox",
]

_CANARY_TIMEOUT = 10
# Works inside, then tries to write to a protected directory, outside in two ways, and to reach a port of this
# machine. A PATH without chmod and touch is not the fault of the sandbox.
_CANARY_SCRIPT = (
    'PATH="$PATH:/usr/bin:/bin"; echo in >"$1/in"; chmod 700 "$1/in"; touch -d @1 "$1/in"; '
    'echo in 2>&- >"$1/protected/in"; echo out 2>&- >"$2/out"; : 2>&- >>"$2/there"; exec 2>&-; '
    '(exec 3<>"/dev/tcp/127.0.0.1/$3") && echo net; echo done'
)


class SandboxProbe(msgspec.Struct, frozen=True):
    """The best level that works here. `reasons`: label of a better level -> why it does not."""

    level: SandboxLevel
    reasons: dict[str, str] = {}
    bubblewrap: str = ""


def probe_sandbox(roots: Iterable[Root] = ()) -> SandboxProbe:
    """Return the best level that works here, with programs outside the roots."""
    reasons: dict[str, str] = {}
    programs = dict.fromkeys(map(os.path.realpath, find_programs("bwrap", roots))) or {"": None}
    for level, program in (
        *((SandboxLevel.BUBBLEWRAP, program) for program in programs),
        (SandboxLevel.LANDLOCK, ""),
    ):
        reason = probe_level(level, program)
        if not reason:
            return SandboxProbe(level, reasons, program)
        reasons.setdefault(level.label, reason)
    return SandboxProbe(SandboxLevel.NONE, reasons)


def check_sandbox(purpose: str, roots: Iterable[Root] = ()) -> None:
    """Raise UsageError if no sandbox works here. `purpose`: what needs one."""
    probe = probe_sandbox(roots)
    if probe.level is SandboxLevel.NONE:
        reasons = "; ".join(probe.reasons.values())
        raise UsageError(f"{purpose} needs a sandbox, and none works here: {reasons}")


@cache
def probe_level(level: SandboxLevel, bubblewrap: str | None = None) -> str:
    """Return why a level does not work here; "" if it does.

    Tried once per process and program (default: the first of PATH).
    """
    if sys.platform != "linux":
        return "it needs Linux"
    if platform.machine() not in MACHINES:
        return f"the system calls of {platform.machine()} are not known"
    bubblewrap = find_program("bwrap") if bubblewrap is None else bubblewrap
    if level is SandboxLevel.BUBBLEWRAP and not bubblewrap:
        return "bubblewrap is not installed: install the package 'bubblewrap'"
    if level is SandboxLevel.LANDLOCK and not landlock_version():
        return "the kernel has no Landlock, or it is disabled"
    if not find_shell().endswith("bash"):
        return "there is no bash to test it with"
    try:
        return _run_canary(level, bubblewrap)
    except (OSError, ToolError, subprocess.SubprocessError) as e:
        return f"it could not be tested: {e}"


def _run_canary(level: SandboxLevel, bubblewrap: str) -> str:
    with tempfile.TemporaryDirectory(prefix="toolglot-") as directory, socket.socket() as listener:
        base = Path(os.path.realpath(directory))
        work, outside, scratch = (base / name for name in ("work", "outside", "scratch"))
        for path in (work, outside, scratch, protected := work / "protected"):
            path.mkdir()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        confinement = Confinement(
            level=level,
            roots=(Root(work),),
            scratch=scratch,
            protected_paths=(protected,),
            bubblewrap=bubblewrap,
        )
        argv = [
            find_shell(),
            "-c",
            _CANARY_SCRIPT,
            "bash",
            str(work),
            str(outside),
            str(listener.getsockname()[1]),
        ]
        with ExitStack() as stack:
            launch = prepare_launch(confinement, Program(argv=argv, cwd=work), stack, stack)
            stack.callback(remove_cgroups, launch.cgroups)
            process = run_program(
                launch.argv,
                roots=confinement.roots,
                env=safe_environment(),
                pass_fds=launch.pass_fds,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CANARY_TIMEOUT,
            )
        words = process.stdout.decode(errors="replace").split()
        error = process.stderr.decode(errors="replace").strip().partition("\n")[0]
        if "done" not in words:
            return f"it does not run: {error or f'exit code {process.returncode}'}"
        if not (work / "in").exists():
            return "the workspace cannot be written from inside"
        status = (work / "in").stat()
        if status.st_mode & 0o777 != 0o700 or status.st_mtime != 1:
            return f"modes and times of files in the workspace cannot be changed from inside: {error}"
        if level is SandboxLevel.BUBBLEWRAP and any(protected.iterdir()):
            return "it does not keep commands from changing protected files"
        if any(outside.iterdir()):
            return "it does not keep commands from writing elsewhere"
        return "it does not keep commands from the network" if "net" in words else ""


def describe_weakness(roots: Iterable[Root], level: SandboxLevel | None = None) -> str:
    """Return what the user should know before the start: that commands are not in the best sandbox, and why;
    "" if they are.
    """
    if level is SandboxLevel.NONE:
        return "commands run without a sandbox, with all your rights, as you asked for"
    if level is SandboxLevel.LANDLOCK:
        return "commands run in a weaker sandbox (Landlock), as you asked for"
    probe = probe_sandbox(roots) if level is None else SandboxProbe(level)
    reason = next(iter(probe.reasons.values()), "")
    if probe.level is SandboxLevel.LANDLOCK:
        return f"commands run in a weaker sandbox (Landlock), as bubblewrap cannot be used: {reason}"
    return (
        ""
        if probe.level is SandboxLevel.BUBBLEWRAP
        else f"no sandbox works here, so you are asked about each command: {reason}"
    )


def describe_sandbox(roots: Iterable[Root] = ()) -> dict[str, Any]:
    """Return what `toolglot doctor` shows: the level, why better ones do not work, and the gaps of the one
    that does.
    """
    probe = probe_sandbox(roots)
    gaps: list[str] = []
    if probe.level is SandboxLevel.LANDLOCK:
        gaps += [
            "other processes and the names of hidden files are visible",
            "protected files in the workspace are only restored after a command",
        ]
        if landlock_version() < 6:
            gaps.append("your processes elsewhere can be sent signals (fixed by Linux 6.12)")
    if probe.level is SandboxLevel.NONE:
        gaps.append("commands are not sandboxed: each one needs an approval")
    return {
        "level": int(probe.level),
        "sandbox": probe.level.label,
        "reasons": probe.reasons,
        "bwrap": probe.bubblewrap,
        "landlock": landlock_version(),
        "limits": describe_limits(),
        "gaps": gaps,
    }
