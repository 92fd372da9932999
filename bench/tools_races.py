"""Races for a way out of the workspace: `python -m bench.tools_races [--tries N] [--walk] [--user] [OPERATION
…]`.

Another process exchanges a directory, and a file, with links to the outside as fast as it can, while each
operation is tried. Prints how often each was done and refused, and how often it leaked; a leak, or anything
left beside the files, is exit 1."""

import argparse
import ctypes
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter

from toolglot.builtin.files.workspace import Change, Workspace
from toolglot.confine import confined_open as beneath
from toolglot.errors import ToolError

SECRET, ONLY_OUTSIDE = b"THE SECRET", "only_outside.txt"
PATHS = ("flip/f.txt", "flip/sub/f.txt", "target")
AT_FDCWD, RENAME_EXCHANGE, NOBODY_UID = -100, 2, 65534


class Arena:
    """A workspace whose directory `flip` and file `target` are links to the outside half of the time."""

    def __init__(self, top: Path) -> None:
        self.root, self.outside = top / "work", top / "outside"
        for directory in (self.root / "flip" / "sub", self.outside / "sub"):
            directory.mkdir(parents=True)
        for name in ("f.txt", "sub/f.txt", ONLY_OUTSIDE):
            (self.outside / name).write_bytes(SECRET)
        for name in PATHS:
            (self.root / name).write_bytes(b"inside")
        (self.root / "flip_link").symlink_to("../outside")
        (self.root / "target_link").symlink_to("../outside/f.txt")
        self.workspace = Workspace(self.root, backup_dir=None)
        self.before = self._state()
        self.number = 0
        self.operations: dict[str, Callable[[str], bool]] = {
            "look": self._check_stat,
            "read": lambda path: self.workspace.read(path, 99)[0] == SECRET,
            "listing": self._check_listing,
            "write": lambda path: self._apply_changes(Change(path, b"by the model")),
            "create": self._create,
            "remove": self._remove,
            "change": lambda path: self._apply_changes(
                Change("side.txt", b"x"), Change(path, b"by the model")
            ),
        }

    def _state(self) -> dict[str, tuple[int, bytes | None]]:
        return {
            str(path): (path.lstat().st_ino, path.read_bytes() if path.is_file() else None)
            for path in self.outside.rglob("*")
        }

    def _check_stat(self, path: str) -> bool:
        info = self.workspace.inspect(path)
        return info is not None and info.status.st_ino in {inode for inode, _ in self.before.values()}

    def _check_listing(self, path: str) -> bool:
        with self.workspace.open_directory(os.path.dirname(path) or ".") as opened:
            return ONLY_OUTSIDE in os.listdir(opened.fd)

    def _apply_changes(self, *changes: Change) -> bool:
        self.workspace.apply_changes(changes)
        return False

    def _create(self, path: str) -> bool:
        self.number += 1
        path_created = self.workspace.write(
            f"{os.path.dirname(path) or 'flip'}/new{self.number % 7}/x.txt", b"by the model"
        ).path
        if self.number % 3 == 0:
            shutil.rmtree(path_created.parent, ignore_errors=True)
        return False

    def _remove(self, path: str) -> bool:
        with suppress(ToolError):
            self.workspace.write(path, b"by the model")
        return self._apply_changes(Change(path, None))

    def run(self, name: str, tries: int) -> tuple[int, int, int]:
        done = leaks = 0
        act = self.operations[name]
        with _swap_in_background(
            [(self.root / one, self.root / f"{one}_link") for one in ("flip", "target")]
        ):
            for number in range(tries):
                with suppress(ToolError):
                    leaks += act(PATHS[number % 3])
                    done += 1
        return done, tries - done, leaks + (self._state() != self.before)

    def count_leftovers(self) -> int:
        return sum(
            path.suffix in (".new", ".old") for path in (*self.root.rglob(".*"), *self.outside.rglob(".*"))
        )


@contextmanager
def _swap_in_background(pairs: list[tuple[Path, Path]]) -> Generator[None]:
    call = ctypes.CDLL(None).renameat2
    names = [(os.fsencode(one), os.fsencode(other)) for one, other in pairs]
    parent, child = os.getpid(), os.fork()
    if not child:
        while os.getppid() == parent:
            for _ in range(500):
                for one, other in names:
                    call(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tools_races", description=__doc__)
    parser.add_argument("operations", nargs="*", metavar="OPERATION")
    parser.add_argument("--tries", type=int, default=100_000, help="of each operation")
    parser.add_argument("--walk", action="store_true", help="without openat2, as on other systems")
    parser.add_argument(
        "--user", action="store_true", help="as an ordinary user, where it is started as root"
    )
    options = parser.parse_args()
    if options.user and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY_UID)
        os.setuid(NOBODY_UID)
    if options.walk:
        beneath.has_openat2 = lambda: False
    print(f"opened by {'openat2' if beneath.has_openat2() else 'the walk'}, as user {os.geteuid()}")
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    failures = 0
    for name in options.operations or ("look", "read", "listing", "write", "create", "remove", "change"):
        with tempfile.TemporaryDirectory(dir=fast) as directory:
            arena, begin = Arena(Path(directory)), perf_counter()
            done, refused, leaks = arena.run(name, options.tries)
            took, left = perf_counter() - begin, arena.count_leftovers()
            failures += leaks + left
            print(
                f"{name:8}{options.tries:9,} tries{done:9,} done{refused:9,} refused {leaks} leaks {left} "
                f"left{took:7.1f} s",
                flush=True,
            )
            arena.workspace.close()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
