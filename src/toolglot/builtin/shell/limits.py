"""Limits on the number of a command's processes: a cgroup where root can create one, otherwise ulimit."""

import itertools
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["create_cgroup", "describe_process_limit", "enter_cgroup", "remove_cgroup", "ulimit_prelude"]

_REMOVE_ATTEMPTS, _RETRY_DELAY = 100, 0.002
_group_numbers = itertools.count()


def create_cgroup(limit: int) -> Path | None:
    """Return a new cgroup that limits the processes of one command; None where we cannot create one."""
    parent = _parent_group()
    if parent is None:
        return None
    group = parent / f"toolglot-{os.getpid()}-{next(_group_numbers)}"
    try:
        group.mkdir()
        (group / "pids.max").write_text(str(limit))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        return None
    return group


def enter_cgroup(group: Path, argv: list[str]) -> list[str]:
    """Return the arguments that start a program in the group: a shell moves itself there and becomes the program."""
    return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"), *argv]


def remove_cgroup(group: Path) -> None:
    """Remove the group once it is empty."""
    # The kernel counts processes that have just exited for some milliseconds more, and rmdir fails until then.
    for _ in range(_REMOVE_ATTEMPTS):
        with suppress(OSError):
            group.rmdir()
        if not group.exists():
            break
        time.sleep(_RETRY_DELAY)


@cache
def _parent_group() -> Path | None:
    """Return our own cgroup, if we can create groups in it that count processes."""
    if os.name != "posix" or os.geteuid() != 0:  # only root may create groups
        return None
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, path in lines:
        if controllers not in ("", "pids"):  # "": version 2, which has one hierarchy for all controllers
            continue
        top = Path("/sys/fs/cgroup/pids") if controllers == "pids" else Path("/sys/fs/cgroup")
        parent = top / path.lstrip("/")
        trial = parent / f"toolglot-{os.getpid()}-try"
        try:
            trial.mkdir()
        except OSError:
            continue
        has_limit = (trial / "pids.max").exists()
        with suppress(OSError):
            trial.rmdir()
        if not has_limit:
            continue
        for group in parent.glob("toolglot-*-*"):  # of processes that were killed before they could remove them
            if not Path("/proc", group.name.split("-")[1]).exists():
                with suppress(OSError):
                    group.rmdir()
        return parent
    return None


def describe_process_limit() -> str:
    """Return how the processes of a sandboxed command are limited."""
    if _parent_group() is not None:
        return "cgroup"
    return "rlimit" if os.name == "posix" and os.geteuid() != 0 else "not limited"


def ulimit_prelude(shell: str, processes: int) -> str:
    """Return shell code that limits a command: no core files, and so many more processes than the user has now."""
    # RLIMIT_NPROC counts all processes of the user, not those of the command, and does not apply to root.
    if not shell.endswith("bash") or os.geteuid() == 0:
        return "ulimit -c 0; "
    user, count = os.geteuid(), 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):
                    count += entry.stat().st_uid == user
    return f"ulimit -c 0 -u {count + processes} 2>/dev/null; "
