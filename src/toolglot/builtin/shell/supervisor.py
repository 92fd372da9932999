"""Starts one command and stays with it: `python -I -S helper.py FD`, where the descriptor holds the plan.

Laws: it stands alone (nothing of toolglot is imported) and starts fast. The command gets its limits before it is run, by the
kernel (Landlock, seccomp), and never loses them. When the command ends, or whoever started it lets go of the control pipe,
everything that it started is ended, also what made itself a session or a daemon.
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
    from typing import Any

_NO_NEW_PRIVS, _SUBREAPER, _SECCOMP, _CAPBSET_DROP = 38, 36, 22, 24
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR = 47, 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CAPSET = {"x86_64": 126, "aarch64": 91}
_EXECUTE, _WRITE, _READ, _LIST, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 15
_TRUNCATE = 1 << 14
_DIRECTORY_RIGHTS = ((1 << 14) - 1) & ~(_EXECUTE | _WRITE | _READ)
_RIGHT_COUNTS = (13, 14, 15, 15, 16)  # how many rights to files the versions of Landlock know; later ones as the last
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_KILL_SECONDS = 5.0  # seconds for ending what keeps making children

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Reads the plan, starts the command, stays with it."""
    handle = int(sys.argv[1])
    with os.fdopen(handle, "rb") as file:
        plan: dict[str, Any] = marshal.load(file)
    if sys.platform == "linux":
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore_signal)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTTOU, signal.SIGTTIN, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        _exec_command(plan)
    _release_streams(plan)
    code = _supervise(child, plan["control"], woken)
    os._exit(code)


def _ignore_signal(number: int, frame: object) -> None:
    """A child has ended: the wakeup pipe says so."""


def _release_streams(plan: dict[str, Any]) -> None:
    """The supervisor holds nothing that the command writes to: whoever reads must see the end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)
    for handle in (*plan["keep"], plan["failed"]):
        os.close(handle)


def _supervise(child: int, control_fd: int, wakeup_fd: int) -> int:
    """Waits for the command, or for the word to end it; its exit code, as a shell says it."""
    code = None
    poll = select.poll()
    poll.register(control_fd, select.POLLIN | select.POLLHUP)
    poll.register(wakeup_fd, select.POLLIN)
    while code is None:
        ready = {handle for handle, _ in poll.poll()}
        if wakeup_fd in ready:
            os.read(wakeup_fd, 512)
            code = _reap(child)
        if control_fd in ready:
            break
    _kill_all(child)
    return 128 + signal.SIGKILL if code is None else code


def _reap(child: int) -> int | None:
    """Takes note of whoever has ended; the code of the command, if it has."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            found = os.waitstatus_to_exitcode(status)
            code = found if found >= 0 else 128 - found


def _kill_all(child: int) -> None:
    """Ends all descendants: orphans become ours, so that there is an end."""
    until = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < until:
        for pid in _descendants(child):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _descendants(child: int) -> list[int]:
    if sys.platform != "linux":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        return [child]
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    left = [os.getpid()]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


# ---- the command's side


def _exec_command(plan: dict[str, Any]) -> None:
    """Turns into the command; does not return."""
    try:
        signal.set_wakeup_fd(-1)
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        os.close(plan["control"])
        os.set_inheritable(plan["failed"], False)
        os.setsid()
        if plan["tty"]:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(plan["cwd"])
        if plan["limits"]:
            _apply_limits(plan["limits"])
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as e:
        said = f"{e.errno or 0} {e.strerror}"
    except BaseException as e:  # whatever it is: the command does not run
        said = f"0 {type(e).__name__}: {e}"
    try:
        os.write(plan["failed"], said.encode()[:4000])
    finally:
        os._exit(127)


def _apply_limits(limits: dict[str, Any]) -> None:
    _check_result(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    if os.geteuid() == 0:
        _drop_capabilities(limits["machine"])
    _apply_landlock(limits)
    program = limits["filter"]
    buffer = ctypes.create_string_buffer(program, len(program))
    size = len(program) // 8

    class Program(ctypes.Structure):
        _fields_ = (("size", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    _check_result(_libc.prctl(_SECCOMP, 2, ctypes.byref(Program(size, ctypes.cast(buffer, ctypes.c_void_p))), 0, 0))


def _drop_capabilities(machine: str) -> None:
    for number in range(64):
        if _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break
    _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR, 0, 0, 0)
    header, data = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    _check_result(_libc.syscall(_CAPSET[machine], header, data))


def _apply_landlock(limits: dict[str, Any]) -> None:
    """Files: all of the system may be read but for what is hidden; few folders may be written. No TCP without network."""
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, 1)
    _check_result(version)
    known = (1 << _RIGHT_COUNTS[min(version, len(_RIGHT_COUNTS)) - 1]) - 1
    network = 3 if version >= 4 and not limits["network"] else 0
    scope = 3 if version >= 6 else 0
    attributes = struct.pack("=QQQ", known, network, scope)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules: int = _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    _check_result(rules)
    _add_path_rule(rules, "/", _LIST & known)
    for path in _paths_except(limits["hidden"]):
        _add_path_rule(rules, path, (_EXECUTE | _READ | _LIST) & known)
    for path in limits["read"]:
        _add_path_rule(rules, path, (_EXECUTE | _READ | _LIST) & known)
    for path in limits["write"]:
        _add_path_rule(rules, path, known & ~_IOCTL)
    for name in _DEVICES:
        _add_path_rule(rules, f"/dev/{name}", (_READ | _WRITE | _LIST | _IOCTL | _TRUNCATE) & known)
    _check_result(_libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _paths_except(hidden_paths: list[str]) -> list[str]:
    """Paths that together are everything but what is hidden."""
    hidden = set(hidden_paths)
    above: set[str] = set()
    for path in hidden_paths:
        names = path.split("/")
        above.update("/".join(names[:size]) or "/" for size in range(1, len(names)))
    if not above:
        return ["/"]
    found: list[str] = []
    for folder in above - hidden:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        inside = [os.path.join(folder, name) for name in names]
        found += [path for path in inside if path not in hidden and path not in above]
    return found


def _add_path_rule(rules: int, path: str, rights: int) -> None:
    """A rule about what is at a path, not about where a link there leads; what is gone needs none."""
    try:
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        mode = os.fstat(handle).st_mode & 0o170000
        if mode == 0o120000:
            return
        if mode != 0o040000:
            rights &= ~_DIRECTORY_RIGHTS
        if rights:
            _check_result(_libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, handle), 0))
    finally:
        os.close(handle)


def _check_result(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
