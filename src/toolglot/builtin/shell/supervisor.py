"""Start one command and stay with it: `python -I -S supervisor.py FD`, where the descriptor contains the plan.

It imports nothing of toolglot, so that it starts fast. The kernel's limits (Landlock, seccomp) are applied before the command
runs and cannot be removed. When the command ends, or its owner closes the control pipe, every descendant is killed, including
daemons and processes with a session of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import marshal
import os
import select
import signal
import struct
import sys
import time

TYPE_CHECKING = False  # `typing` takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Numbers of linux/prctl.h, linux/landlock.h and linux/capability.h, which Python's standard library does not have.
_NO_NEW_PRIVS, _SUBREAPER, _SECCOMP, _CAPBSET_DROP = 38, 36, 22, 24
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR = 47, 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522
EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_DIRECTORY_RIGHTS = ((1 << 14) - 1) & ~(EXECUTE | WRITE | READ)
_RIGHT_COUNTS = (13, 14, 15, 15, 16)  # file system rights known by each Landlock version; later ones know the last number
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # tty: its own, as it starts a session
_KILL_SECONDS = 5.0  # for killing processes that keep forking

_libc = ctypes.CDLL(None, use_errno=True)


# ---- the supervisor


def main() -> None:
    """Read the plan, start the command, wait for it, and exit with its exit code."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        plan: dict[str, Any] = marshal.load(file)
    if sys.platform == "linux":
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)  # orphans become our children, so that none can escape by daemonizing
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # only a handler makes Python write to the wakeup pipe
    # Only the control pipe ends us: otherwise the command could outlive its supervisor.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTTOU, signal.SIGTTIN, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        _exec_command(plan)
    # The reader of the output sees its end only once nobody holds the other side: not even we.
    devnull = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(devnull, fd)
    for fd in (*plan["keep"], plan["failed"]):
        os.close(fd)
    os._exit(_supervise(child, plan["control"], wakeup_read))


def _supervise(child: int, control_fd: int, wakeup_fd: int) -> int:
    """Wait for the command, or for the order to kill it; return its exit code as a shell does."""
    code = None
    poll = select.poll()
    poll.register(control_fd, select.POLLIN | select.POLLHUP)
    poll.register(wakeup_fd, select.POLLIN)
    while code is None:
        ready = {fd for fd, _ in poll.poll()}
        if wakeup_fd in ready:
            os.read(wakeup_fd, 512)
            with contextlib.suppress(ChildProcessError):
                while (exited := os.waitpid(-1, os.WNOHANG))[0]:  # orphans are ours, too
                    if exited[0] == child:
                        exit_code = os.waitstatus_to_exitcode(exited[1])
                        code = exit_code if exit_code >= 0 else 128 - exit_code
        if control_fd in ready:  # a byte or the end of the pipe: the owner wants an end, or has died
            break
    _kill_all(child)
    return 128 + signal.SIGKILL if code is None else code


def _kill_all(child: int) -> None:
    """Kill all descendants, again and again: while they die, they may fork."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        for pid in _list_descendants(child):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # nobody is left
            return
        time.sleep(0.001)


def _list_descendants(child: int) -> list[int]:
    if sys.platform != "linux":  # no /proc: the process group has to do
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        return [child]
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # pid (name) state ppid …: the name may contain spaces and parentheses
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    descendants: list[int] = []
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        descendants += below
        pending += below
    return descendants


# ---- the command


def _exec_command(plan: dict[str, Any]) -> None:
    """Apply the limits and become the command; never return."""
    try:
        signal.set_wakeup_fd(-1)
        for number in range(1, 32):  # ignored signals would stay ignored after exec
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        os.close(plan["control"])
        os.set_inheritable(plan["failed"], False)  # a successful exec closes it, which tells that the command runs
        os.setsid()  # a session of its own, which can have a controlling terminal
        if plan["tty"]:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(plan["cwd"])
        if plan["limits"]:
            _apply_limits({**plan["limits"], "tty": plan["tty"]})
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as e:
        message = f"{e.errno or 0} {e.strerror}"
    except BaseException as e:  # whatever it is, the command must not run without its limits
        message = f"0 {type(e).__name__}: {e}"
    try:
        os.write(plan["failed"], message.encode()[:4000])
    finally:
        os._exit(127)


def _apply_limits(limits: dict[str, Any]) -> None:
    if os.geteuid() == 0:  # root without capabilities is bound by file modes, too
        for number in range(64):
            if _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) != 0:  # a capability that this kernel does not have
                break
        _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR, 0, 0, 0)
        header, data = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
        _check_result(_libc.syscall(_CAPSET[limits["machine"]], header, data))
    # Everything but hidden paths can be read, few directories can be written.
    rules = [("/", LIST), *((path, EXECUTE | READ | LIST) for path in (*_paths_except(limits["hidden"]), *limits["read"]))]
    rules += [(path, ~_IOCTL) for path in limits["write"]]
    # Of the terminals only its own: others are the user's, whose keys could be read there, and whose screen be drawn on.
    devices = [f"/dev/{name}" for name in _DEVICES] + ([os.ttyname(0)] if limits["tty"] else [])
    rules += [(path, READ | WRITE | LIST | _IOCTL | _TRUNCATE) for path in devices]
    apply_landlock(rules, network=limits["network"])
    # seccomp comes last: it may forbid calls that the steps before need.
    program = limits["filter"]
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("size", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    filter_program = Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _check_result(_libc.prctl(_SECCOMP, 2, ctypes.byref(filter_program), 0, 0))


def apply_landlock(rules: Iterable[tuple[str | int, int]], *, network: bool) -> None:
    """Restrict this thread, and what it starts, to these paths or descriptors, and their rights. Raises OSError."""
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, 1)
    _check_result(version)
    known = (1 << _RIGHT_COUNTS[min(version, len(_RIGHT_COUNTS)) - 1]) - 1
    tcp = 3 if version >= 4 and not network else 0  # bind and connect
    scope = 3 if version >= 6 else 0  # abstract unix sockets, and signals to processes outside
    # An older kernel refuses a longer struct than it knows.
    attributes = struct.pack("=QQQ", known, tcp, scope)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset: int = _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    _check_result(ruleset)
    try:
        for path, rights in rules:
            _add_path_rule(ruleset, path, rights & known)
        _check_result(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))  # setuid programs give no rights; Landlock and seccomp need it
        _check_result(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _paths_except(hidden_paths: list[str]) -> list[str]:
    """Return paths that together are everything but the hidden ones: Landlock can allow, but not deny."""
    hidden = set(hidden_paths)
    parents: set[str] = set()
    for path in hidden_paths:
        names = path.split("/")
        parents.update("/".join(names[:size]) or "/" for size in range(1, len(names)))
    if not parents:
        return ["/"]
    visible: list[str] = []
    for directory in parents - hidden:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        paths = [os.path.join(directory, name) for name in names]
        visible += [path for path in paths if path not in hidden and path not in parents]
    return visible


def _add_path_rule(ruleset: int, path: str | int, rights: int) -> None:
    # O_NOFOLLOW: a rule is about what is at the path, not about where a link there leads.
    try:
        fd = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it has gone, and needs no rule
        return
    try:
        file_type = os.fstat(fd).st_mode & 0o170000
        if file_type == 0o120000:  # a symbolic link
            return
        if file_type != 0o040000:  # the kernel refuses rights of directories for anything else
            rights &= ~_DIRECTORY_RIGHTS
        if rights:
            _check_result(_libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0))
    finally:
        os.close(fd)


def _check_result(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
