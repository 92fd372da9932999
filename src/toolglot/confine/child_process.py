"""Child processes: started without our environment, always reaped, and confined to a directory if the kernel
can.

A program that is confined (by Landlock) can read below one directory and the system's own files, and can
write nowhere, whatever links or renames happen meanwhile.
"""

import os
import re
import select
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from toolglot.confine.programs import current_workspace, own_python, safe_variables, start_program

__all__ = [
    "SYSTEM_PATHS",
    "Process",
    "ProcessStopped",
    "library_variables",
    "measure_memory",
    "read_output",
    "split_records",
    "start_confined",
    "start_python_worker",
]

MAX_OUTPUT = 64 << 20
Process = subprocess.Popen[bytes]
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class ProcessStopped(Exception):
    """The process took too long, or wrote too much."""


def read_output(
    process: Process, should_stop: Callable[[int], bool], limit: int | None = None
) -> Iterator[bytes]:
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
    partial: list[bytes] = []  # joined once: a record may have many megabytes
    for data in chunks:
        *records, last = data.split(separator)
        if records:
            yield b"".join([*partial, records[0]])
            yield from records[1:]
            partial.clear()
        partial.append(last)


def library_variables() -> dict[str, str]:
    """Return the variables without which our own Python may not start; it loads no library from the
    workspace.
    """
    variables = safe_variables(current_workspace())
    return {name: variables[name] for name in _LIBRARY_VARIABLES if name in variables}


def start_python_worker(
    module: str, stdin: BinaryIO | int, *, search_path: Sequence[str] = (), pass_fds: Sequence[int] = ()
) -> Process:
    """Start a Python that runs the function `worker` of a module, without our environment. Raises OSError."""
    start = f"import sys; sys.path += sys.argv[1:]; from {module} import worker; worker()"
    own_packages = (str(Path(__file__).parents[2]), str(Path(msgspec.__file__).parents[1]))
    return start_program(
        [own_python(), "-I", "-S", "-X", "utf8", "-c", start, *own_packages, *search_path],
        roots=(),  # our own Python is read-only for every tool
        env=library_variables(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
    )


def measure_memory(variable: str) -> dict[int, int]:
    """Return the memory in bytes of each process that was started with this variable (NAME=value), and of its
    descendants.

    Empty on systems without /proc.
    """
    if not os.path.isdir("/proc/self"):
        return {}
    parents: dict[int, int] = {}
    tree: set[int] = set()
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        with suppress(OSError, ValueError):  # it has ended, or is not ours
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
            if variable.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                tree.add(pid)
    # A sandboxed process hides its variables, so descendants count by their parents.
    while children := {pid for pid, parent in parents.items() if parent in tree and pid not in tree}:
        tree |= children
    usage: dict[int, int] = {}
    for pid in tree:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_bytes()
            usage[pid] = sum(map(int, re.findall(rb"(?:RssAnon|RssShmem|VmSwap):\s*(\d+)", status))) * 1024
    return usage


# What a confined program needs besides its root.
SYSTEM_PATHS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/gnu/store", "/etc/ld.so.cache")


def start_confined(
    program: str, arguments: list[str], root_fd: int, stderr: BinaryIO, *pass_fds: int
) -> Process:
    """Start a program that is confined to the root, in the root, without input. Raises OSError."""
    # Not at the top: it needs Linux.
    from toolglot.confine.supervisor import EXECUTE, LIST, READ, apply_landlock

    def start() -> Process:
        system = ((path, READ | LIST | EXECUTE) for path in (*SYSTEM_PATHS, os.path.realpath(program)))
        apply_landlock([(root_fd, READ | LIST), *system], network=False)
        return start_program(
            [program, *arguments],
            roots=(),  # it was found outside them, and is confined
            cwd=f"/proc/self/fd/{root_fd}",
            env={"LC_ALL": "C.UTF-8"},
            stdin=empty,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=pass_fds,
        )

    # Landlock restricts the calling thread and its children for good, so a thread of its own starts the
    # program. It may not open /dev/null itself.
    with open(os.devnull, "rb") as empty, ThreadPoolExecutor(1) as executor:
        return executor.submit(start).result()
