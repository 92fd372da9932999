"""How many processes a command may have: by cgroup where root can make one, by limit for everybody else."""

import itertools
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

__all__ = ["PidsCgroup", "ulimit_prelude"]

_group_numbers = itertools.count()
_REMOVE_ATTEMPTS, _RETRY_DELAY = 100, 0.002


class PidsCgroup(msgspec.Struct, frozen=True):
    """A cgroup for one command."""

    path: Path

    @classmethod
    def create(cls, limit: int) -> "PidsCgroup | None":
        """A new one; None where we cannot make one."""
        above = _parent_group()
        if above is None:
            return None
        folder = above / f"toolglot-{os.getpid()}-{next(_group_numbers)}"
        try:
            folder.mkdir()
            (folder / "pids.max").write_text(str(limit))
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            return None
        return cls(folder)

    @staticmethod
    def is_available() -> bool:
        return _parent_group() is not None

    def exec_prefix(self) -> list[str]:
        """Words before a program: it starts in the group."""
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs")]

    def remove(self) -> None:
        """Once nobody is in it: the kernel still counts those who have just ended, for some milliseconds."""
        for _ in range(_REMOVE_ATTEMPTS):
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_RETRY_DELAY)
            else:
                return


@cache
def _parent_group() -> Path | None:
    """Our own group, if we may make others in it that count processes."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, path in lines:
        top = Path("/sys/fs/cgroup/pids") if "pids" in controllers.split(",") else Path("/sys/fs/cgroup")
        if controllers not in ("", "pids"):
            continue
        above = top / path.lstrip("/")
        if _has_pids_controller(above, f"toolglot-{os.getpid()}-try"):
            _remove_stale(above)
            return above
    return None


def _remove_stale(parent: Path) -> None:
    """Groups of processes that were killed before they could remove them."""
    for folder in parent.glob("toolglot-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()


def _has_pids_controller(parent: Path, name: str) -> bool:
    folder = parent / name
    try:
        folder.mkdir()
    except OSError:
        return False
    try:
        return (folder / "pids.max").exists()
    finally:
        with suppress(OSError):
            folder.rmdir()


def ulimit_prelude(shell: str, processes: int) -> str:
    """What a shell says first: no core files, and so many processes more than the user has (root has no such limit)."""
    if shell.endswith("bash") and os.geteuid() != 0:
        return f"ulimit -c 0 -u {_count_processes() + processes} 2>/dev/null; "
    return "ulimit -c 0; "


def _count_processes() -> int:
    user, found = os.geteuid(), 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):
                    found += entry.stat().st_uid == user
    return found
