"""How much a command may use: processes, memory and disk.

cgroups limit the processes and the memory of a command with everything it starts, where we can create them:
as root, and where systemd delegates them. Elsewhere rlimits limit each process. Linux kills commands first
when the machine has no memory left.
"""

import itertools
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from toolglot.confine.programs import run_program

__all__ = [
    "CommandLimits",
    "DiskWatch",
    "create_cgroups",
    "describe_limits",
    "enter_limits",
    "remove_cgroups",
    "tmpfs_size",
    "ulimit_prelude",
    "was_out_of_memory",
]

_REMOVE_ATTEMPTS, _RETRY_DELAY = 100, 0.002
_MIN_FREE_DISK = 2 * 1024**3
# The files that limit a cgroup of version 1 and 2. A group that has the first one can be used; the others may
# be missing.
_VERSION_1: dict[str, tuple[str, ...]] = {
    "pids": ("pids.max",),
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
}
_VERSION_2 = ("pids.max", "memory.max", "memory.swap.max")
_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_group_numbers = itertools.count()


class CommandLimits(msgspec.Struct, frozen=True):
    """What a command and everything it starts may use."""

    processes: int = 512
    memory: int | None = None
    """Bytes; None: three quarters of the machine's, or of the container's."""

    @property
    def memory_bytes(self) -> int:
        return self.memory if self.memory is not None else _machine_memory() * 3 // 4


def _machine_memory() -> int:
    """Return the memory of the machine, or what the cgroups that we are in leave us of it: those of a
    container.
    """
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for controller, top, own in _own_groups():
        if controller not in ("", "memory"):
            continue
        name = "memory.limit_in_bytes" if controller else "memory.max"
        for group in (own, *own.parents):
            if group.is_relative_to(top):
                with suppress(OSError, ValueError):  # not there, or "max"
                    sizes.append(int((group / name).read_text()))
    return min(sizes)


# ---- cgroups


def _own_groups() -> list[tuple[str, Path, Path]]:
    """Return the cgroups that we are in: the controller ("" for version 2), the directory of all its groups,
    and our group.
    """
    try:
        lines = [line.split(":", 2) for line in _OWN_CGROUPS.read_text().splitlines()]
    except OSError:
        return []
    names = [(name, path) for _, controllers, path in lines for name in controllers.split(",")]
    return [(name, _CGROUPS / name, _CGROUPS / name / path.lstrip("/")) for name, path in names]


def create_cgroups(limits: CommandLimits) -> tuple[Path, ...]:
    """Return new cgroups for one command; () where we cannot create any."""
    values = {"pids.max": limits.processes, "memory.swap.max": 0}
    groups: list[Path] = []
    for parent, files in _parent_groups():
        group = parent / f"toolglot-{os.getpid()}-{next(_group_numbers)}"
        try:
            group.mkdir()
            for name in files:
                if (group / name).exists():
                    (group / name).write_text(str(values.get(name, limits.memory_bytes)))
            groups.append(group)
        except OSError:
            with suppress(OSError):
                group.rmdir()
    return tuple(groups)


def enter_limits(groups: Iterable[Path], argv: list[str]) -> list[str]:
    """Return the arguments that start a program in its groups: a shell moves itself there and becomes the
    program.
    """
    # Without memory, Linux ends the process with the highest score: a command, not what the user is working
    # with.
    entries = [str(group / "cgroup.procs") for group in groups]
    enter = 'echo $$ >"$1" && shift && ' * len(entries)
    return [
        "/bin/sh",
        "-c",
        f'echo 1000 2>&- >/proc/self/oom_score_adj; {enter}exec "$@"',
        "sh",
        *entries,
        *argv,
    ]


def was_out_of_memory(groups: Iterable[Path]) -> bool:
    """Whether processes in the groups were killed because they used too much memory."""
    for file in (group / name for group in groups for name in ("memory.events", "memory.oom_control")):
        with suppress(OSError):
            if any(
                line.startswith("oom_kill ") and line != "oom_kill 0"
                for line in file.read_text().splitlines()
            ):
                return True
    return False


def remove_cgroups(groups: Iterable[Path]) -> None:
    """Remove the groups once they are empty."""
    # The kernel counts processes that have just exited for some milliseconds more, and rmdir fails until
    # then.
    for group in groups:
        for _ in range(_REMOVE_ATTEMPTS):
            with suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(_RETRY_DELAY)


@cache
def _parent_groups() -> tuple[tuple[Path, tuple[str, ...]], ...]:
    """Return where we can create cgroups that limit commands, each with the files that hold its limits."""
    parents: list[tuple[Path, tuple[str, ...]]] = []
    for name, top, own in _own_groups():
        files = _VERSION_1.get(name, ()) if name else _VERSION_2
        # Version 2 limits no groups inside one that has processes, such as our own, but perhaps groups beside
        # it.
        candidates = [own] if name else [own, own.parent]
        for parent in candidates:
            if files and parent.is_relative_to(top) and _can_use(parent, files):
                parents.append((parent, files))
                break
    for parent, _ in parents:
        _remove_abandoned_groups(parent)
    return tuple(parents)


def _remove_abandoned_groups(parent: Path) -> None:
    """Remove the groups of processes that were killed before they could do it."""
    for group in parent.glob("toolglot-*-*"):
        if not Path("/proc", group.name.split("-")[1]).exists():
            with suppress(OSError):
                group.rmdir()


def _can_use(parent: Path, files: Sequence[str]) -> bool:
    """Whether we can create a group there that has these limits, and move a process of ours into it."""
    trial = parent / f"toolglot-{os.getpid()}-try"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        entering = ["/bin/sh", "-c", 'echo $$ >"$0"', str(trial / "cgroup.procs")]
        if not (trial / files[0]).exists():
            return False
        return run_program(entering, roots=(), env={}, stderr=subprocess.DEVNULL).returncode == 0
    finally:
        remove_cgroups([trial])


def describe_limits() -> dict[str, str]:
    """Return how the processes and the memory of a sandboxed command are limited."""
    files = {name for _, names in _parent_groups() for name in names}
    processes, memory = "not limited", "rlimit of each process"
    if "pids.max" in files:
        processes = "cgroup"
    elif os.name == "posix" and os.geteuid() != 0:  # the limit does not apply to root
        processes = "rlimit"
    if files & {"memory.max", "memory.limit_in_bytes"}:
        memory = "cgroup"
    return {"processes": processes, "memory": memory}


# ---- rlimits


def ulimit_prelude(shell: str, limits: CommandLimits, directories: Iterable[Path] = ()) -> str:
    """Return shell code that limits a command: no core files, no file that fills half of every disk, memory,
    processes.
    """
    if not shell.endswith("bash"):  # others have other units
        return "ulimit -c 0; "
    sizes = {"c": 0}
    with suppress(OSError):  # not of what is free: an existing file may be larger than that
        disks = map(os.statvfs, directories)
        sizes["f"] = max((disk.f_blocks * disk.f_frsize for disk in disks), default=1 << 50) // 2048
    used = describe_limits()
    if used["memory"] != "cgroup":
        # Memory that a process can write: RLIMIT_AS would count what Node and Go only reserve.
        sizes["d"] = limits.memory_bytes // 1024
    if used["processes"] == "rlimit":
        # RLIMIT_NPROC counts all processes of the user, not those of the command, and does not apply to root.
        sizes["u"] = limits.processes + _count_own_processes()
    return "".join(f"ulimit -{option} {size} 2>&-; " for option, size in sizes.items())


def _count_own_processes() -> int:
    count = 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):  # it has ended
                    count += entry.stat().st_uid == os.geteuid()
    return count


# ---- disk


def _free_disk(directory: Path) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


class DiskWatch:
    """Notices when a command has nearly filled a disk that it may write to."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._minimums: dict[Path, int] = {}
        for directory in directories:
            with suppress(OSError):  # half of what is left, if the disk is nearly full already
                self._minimums[directory] = min(_MIN_FREE_DISK, _free_disk(directory) // 2)

    def is_full(self) -> bool:
        for directory, minimum in self._minimums.items():
            with suppress(OSError):
                if _free_disk(directory) < minimum:
                    return True
        return False


@cache
def tmpfs_size(bubblewrap: str) -> tuple[str, ...]:
    """Return the options of this bwrap that limit the next directory in memory: to an eighth of the
    machine's.
    """
    with suppress(OSError, subprocess.SubprocessError):
        usage = run_program([bubblewrap, "--help"], roots=(), env={}, capture_output=True, timeout=5).stdout
        if b"--size" in usage:  # since 0.7
            return "--size", str(_machine_memory() // 8)
    return ()
