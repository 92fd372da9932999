"""Child processes: started without our environment, always reaped, and confined to a directory if the kernel can.

A program that is confined (by Landlock) can read below one directory and the system's own files, and can write nowhere,
whatever links or renames happen meanwhile.
"""

import ctypes
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

__all__ = ["Process", "ProcessStopped", "has_landlock", "read_output", "split_records", "start_confined", "start_python_worker"]

MAX_OUTPUT = 64 << 20
Process = subprocess.Popen[bytes]
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ProcessStopped(Exception):
    """The process took too long, or wrote too much."""


def read_output(process: Process, should_stop: Callable[[int], bool], limit: int | None = None) -> Iterator[bytes]:
    """Yield what a program writes. Raises ProcessStopped. Afterwards the program has ended in any case."""
    assert process.stdout is not None
    fd, size = process.stdout.fileno(), 0
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLHUP)
    try:
        while True:
            if should_stop(0) or size > (limit or MAX_OUTPUT):
                raise ProcessStopped
            if not poll.poll(100):
                continue
            data = os.read(fd, 1 << 18)
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
    """Yield what stands before each separator."""
    partial = b""
    for data in chunks:
        *records, last = data.split(separator)
        if records:
            yield partial + records[0]
            yield from records[1:]
            partial = last
        else:
            partial += last


def start_python_worker(
    module: str, stdin: BinaryIO | int, *, search_path: Sequence[str] = (), pass_fds: Sequence[int] = ()
) -> Process:
    """Start a Python that runs the function `worker` of a module, without our environment."""
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
    """Tell whether this kernel can confine a program to a directory."""
    return sys.platform == "linux" and _libc().syscall(_CREATE_RULESET, None, 0, 1) >= 1


def _restrict_thread(root_fd: int, program: str) -> None:
    """Confine this thread, and what it starts: it can read the root and system programs, and write nowhere."""
    libc = _libc()
    handled = ctypes.c_uint64(_ALL_RIGHTS)
    rules = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "Landlock is not available")
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
                raise OSError(ctypes.get_errno(), "Landlock refused a rule")
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, rules, 0):
            raise OSError(ctypes.get_errno(), "Landlock could not be enforced")
    finally:
        for fd in (*opened, rules):
            os.close(fd)


def start_confined(
    program: str, arguments: list[str], root_fd: int, stdin: BinaryIO, stderr: BinaryIO, *pass_fds: int
) -> Process:
    """Start a program that is confined to the root, in the root. Raises OSError."""

    def start() -> Process:
        _restrict_thread(root_fd, program)
        return subprocess.Popen(
            [program, *arguments],
            cwd=f"/proc/self/fd/{root_fd}",
            env={"LC_ALL": "C.UTF-8"},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=pass_fds,
        )

    # Landlock restricts the calling thread and its children for good, so a thread of its own starts the program.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(start).result()
