"""Run an MCP server in the sandbox of commands, in a Python of its own: `plan_worker` says how to start it,
it calls `worker`.

A server lives longer than a command and speaks through its own pipes, so this process makes the sandbox,
passes its streams on and waits. Whoever ends it, however hard, ends everything in the sandbox: the kernel
ends bubblewrap with its parent, and the supervisor ends the server when its control pipe is closed.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec.structs import replace

from toolglot.confine.environment import safe_environment
from toolglot.confine.limits import remove_cgroups
from toolglot.confine.programs import own_python, start_program
from toolglot.confine.sandbox import Confinement, Program, build_program_argv, kill_tree, prepare_launch
from toolglot.errors import ToolError

__all__ = ["PLAN_VARIABLE", "ServerPlan", "WorkerCommand", "plan_worker", "worker"]

PLAN_VARIABLE = "TOOLGLOT_SERVER"
_START = "import sys; sys.path += sys.argv[1:]; from toolglot.confine.server_worker import worker; worker()"
_PDEATHSIG = 1  # linux/prctl.h: the signal when the thread that started us ends


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, as a variable: arguments can be read by other users."""

    argv: list[str]
    cwd: str
    variables: dict[str, str]
    confinement: str
    """The file that has it: it may be longer than a variable can be."""


class WorkerCommand(msgspec.Struct, frozen=True):
    """The program that runs a server, to be started in "/"."""

    command: str
    args: tuple[str, ...]
    variables: dict[str, str]


def plan_worker(
    argv: Sequence[str], cwd: Path, variables: dict[str, str], confinement: Confinement, file: Path
) -> WorkerCommand:
    """Return what to start instead of a server.

    `file`: where the worker finds how to confine it; it deletes the file.
    """
    from toolglot.confine.child_process import library_variables  # not at the top: the worker does without it

    # The program of ours finds other prefixes than this process has, which may be in a virtual environment.
    visible = (*confinement.visible_paths, sys.prefix, sys.base_prefix)
    file.write_bytes(msgspec.json.encode(replace(confinement, visible_paths=visible), enc_hook=str))
    plan = ServerPlan(argv=[*argv], cwd=str(cwd), variables=variables, confinement=str(file))
    # Ours, as it says where credentials are that have to be hidden. The server sees neither this nor that.
    own = {
        variable: value for variable, value in os.environ.items() if not variable.startswith(("LD_", "DYLD_"))
    }
    packages = (str(Path(__file__).parents[2]), str(Path(msgspec.__file__).parents[1]))
    return WorkerCommand(
        own_python(),
        ("-I", "-S", "-X", "utf8", "-c", _START, *packages),
        {**own, **library_variables(), PLAN_VARIABLE: msgspec.json.encode(plan).decode()},
    )


def worker() -> None:
    """Run a server with the streams of this process; exit as it does, or with the reason why it could not be
    run.
    """
    plan = msgspec.json.decode(os.environ.pop(PLAN_VARIABLE), type=ServerPlan)
    with open(plan.confinement, "rb") as file:
        confinement = msgspec.json.decode(
            file.read(), type=Confinement, dec_hook=lambda kind, value: kind(value)
        )
    os.unlink(plan.confinement)
    # a program that is killed closes our input, but not every server ends with that
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with ExitStack() as ours:
        try:
            with ExitStack() as theirs:
                argv = build_program_argv(plan.argv, confinement)
                program = Program(argv=argv, cwd=Path(plan.cwd), variables=plan.variables)
                launch = prepare_launch(confinement, program, ours, theirs)
                if launch.unmounted:
                    raise ToolError(
                        f"{launch.unmounted[0]} changed while the sandbox was made: start the server again"
                    )
                # A session of its own: the supervisor has to survive what is sent to our process group, and
                # end the server.
                process = start_program(
                    launch.argv,
                    roots=confinement.roots,
                    env=safe_environment(),
                    pass_fds=launch.pass_fds,
                    start_new_session=True,
                )
        except (OSError, ToolError) as e:
            sys.exit(f"the server could not be run in its sandbox: {e}")
        # Whoever reads the server's output has to see its end even while we exist.
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(devnull, fd)
        try:
            exit_code = process.wait()
        finally:
            kill_tree(process, launch)
            remove_cgroups(launch.cgroups)
        if failure := launch.read_failure():
            sys.exit(str(failure))
        sys.exit(exit_code if exit_code >= 0 else 128 - exit_code)
