"""How many processes a command may have: by cgroup where root can make one, by limit for everybody else."""

import itertools
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

__all__ = ["Pids", "limits_prelude"]

_numbers = itertools.count()
_MOST_TRIES, _BETWEEN = 100, 0.002


class Pids(msgspec.Struct, frozen=True):
    """A cgroup for one command."""

    folder: Path

    @classmethod
    def made(cls, most: int) -> "Pids | None":
        """A new one; None where we cannot make one."""
        above = _above()
        if above is None:
            return None
        folder = above / f"toolglot-{os.getpid()}-{next(_numbers)}"
        try:
            folder.mkdir()
            (folder / "pids.max").write_text(str(most))
        except OSError:
            with suppress(OSError):
                folder.rmdir()
            return None
        return cls(folder)

    @staticmethod
    def possible() -> bool:
        return _above() is not None

    def front(self) -> list[str]:
        """Words before a program: it starts in the group."""
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.folder / "cgroup.procs")]

    def remove(self) -> None:
        """Once nobody is in it: the kernel still counts those who have just ended, for some milliseconds."""
        for _ in range(_MOST_TRIES):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_BETWEEN)
            else:
                return


@cache
def _above() -> Path | None:
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
        if _counts(above, f"toolglot-{os.getpid()}-try"):
            _sweep(above)
            return above
    return None


def _sweep(above: Path) -> None:
    """Groups of processes that were killed before they could remove them."""
    for folder in above.glob("toolglot-*-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with suppress(OSError):
                folder.rmdir()


def _counts(above: Path, name: str) -> bool:
    folder = above / name
    try:
        folder.mkdir()
    except OSError:
        return False
    try:
        return (folder / "pids.max").exists()
    finally:
        with suppress(OSError):
            folder.rmdir()


def limits_prelude(shell: str, processes: int) -> str:
    """What a shell says first: no core files, and so many processes more than the user has (root has no such limit)."""
    if shell.endswith("bash") and os.geteuid() != 0:
        return f"ulimit -c 0 -u {_own_processes() + processes} 2>/dev/null; "
    return "ulimit -c 0; "


def _own_processes() -> int:
    user, found = os.geteuid(), 0
    with suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                with suppress(OSError):
                    found += entry.stat().st_uid == user
    return found
