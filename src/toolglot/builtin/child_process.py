"""Other programs: started without our secrets, ended in any case, and held to a folder where the kernel can.

Laws: what a program writes is read as it comes, and only so much of it; whoever reads it decides when it is enough. A program
that is held (Landlock) reads below one folder and among the system's own files, and writes nowhere, whoever swaps folders
meanwhile.
"""

import ctypes
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["Process", "ProcessStopped", "has_landlock", "read_output", "split_records", "start_confined", "start_python_worker"]

MAX_OUTPUT = 64 << 20
Process = subprocess.Popen[bytes]
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ProcessStopped(Exception):
    """It took too long, or said too much."""


def read_output(process: Process, should_stop: Callable[[int], bool], limit: int | None = None) -> Iterator[bytes]:
    """What a program writes, as it comes. Raises Stopped; the program is gone in any case."""
    assert process.stdout is not None
    handle, size = process.stdout.fileno(), 0
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    try:
        while True:
            if should_stop(0) or size > (limit or MAX_OUTPUT):
                raise ProcessStopped
            if not poll.poll(100):
                continue
            data = os.read(handle, 1 << 18)
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                return
            size += len(data)
            yield data
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.kill()
        process.wait()


def split_records(chunks: Iterator[bytes], separator: bytes) -> Iterator[bytes]:
    """What stands before each `end`."""
    rest = b""
    for data in chunks:
        *whole, last = data.split(separator)
        if whole:
            yield rest + whole[0]
            yield from whole[1:]
            rest = last
        else:
            rest += last


def start_python_worker(
    module: str, stdin: BinaryIO | int, *, search_path: Sequence[str] = (), pass_fds: Sequence[int] = ()
) -> Process:
    """A Python of our own that runs the `worker` of a module, with nothing of our environment."""
    start = f"import sys; sys.path += sys.argv[1:]; from {module} import worker; worker()"
    return subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", start, str(Path(__file__).parents[2]), *search_path],
        cwd="/",
        env={name: os.environ[name] for name in _LIBRARY_VARIABLES if name in os.environ},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
    )


# ---- Landlock

_READ_FILE, _READ_DIRECTORY, _EXECUTE, _ALL_RIGHTS = 4, 8, 1, (1 << 13) - 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _RULE_PATH_BENEATH = 444, 445, 446, 1
_NO_NEW_PRIVILEGES = 38
_SYSTEM_PATHS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/gnu/store", "/etc/ld.so.cache")


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@lru_cache(maxsize=1)
def has_landlock() -> bool:
    """Whether this kernel can hold another program to a folder."""
    return sys.platform == "linux" and _libc().syscall(_CREATE_RULESET, None, 0, 1) >= 1


def _restrict_thread(root_fd: int, program: str) -> None:
    """From now on this thread, and what it starts, reads below the root and the system's programs, and writes nowhere."""
    libc = _libc()
    handled = ctypes.c_uint64(_ALL_RIGHTS)
    rules = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no Landlock")
    opened: list[int] = []
    try:
        allowed = {root_fd: _READ_FILE | _READ_DIRECTORY}
        for path in (*_SYSTEM_PATHS, program):
            with suppress(OSError):
                opened.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
                allowed[opened[-1]] = _READ_FILE | _EXECUTE | (_READ_DIRECTORY if os.path.isdir(path) else 0)
        for parent, rights in allowed.items():
            rule = _PathBeneath(rights, parent)
            if libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
                raise OSError(ctypes.get_errno(), "no rule of Landlock")
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, rules, 0):
            raise OSError(ctypes.get_errno(), "no hold of Landlock")
    finally:
        for handle in (*opened, rules):
            os.close(handle)


def start_confined(
    program: str, arguments: list[str], root_fd: int, stdin: BinaryIO, stderr: BinaryIO, *pass_fds: int
) -> Process:
    """Starts a program that is held to the root, in the root. A lock is for a thread and its children: so it has its own."""
    made: list[Any] = []

    def start() -> None:
        try:
            _restrict_thread(root_fd, program)
            made.append(
                subprocess.Popen(
                    [program, *arguments],
                    cwd=f"/proc/self/fd/{root_fd}",
                    env={"LC_ALL": "C.UTF-8"},
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    pass_fds=pass_fds,
                )
            )
        except Exception as e:
            made.append(e)

    thread = threading.Thread(target=start, name="toolglot-grep")
    thread.start()
    thread.join()
    if isinstance(made[0], Exception):
        raise made[0]
    return made[0]
