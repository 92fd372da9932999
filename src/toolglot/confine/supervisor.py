"""Start one command and stay with it, in a Python of its own that `sandbox` starts: `main(plan)`.

It imports nothing of toolglot and as little else as possible, so that it starts fast. The kernel's limits
(Landlock, seccomp) are applied before the command runs and cannot be removed. When the command ends, or its
owner closes the control pipe, every descendant is killed, including daemons and processes with a session of
their own.

Landlock does not know about modes, owners and times of files. The filter passes the calls that change them to
the supervisor, which carries them out where the command may write, and nowhere else.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import sys
import time

TYPE_CHECKING = False  # `typing` takes longer to import than everything else here
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from typing import Any
else:
    import _signal as signal  # without the enums

# Numbers of linux/prctl.h, linux/landlock.h and linux/capability.h, which Python's standard library does not
# have.
_NO_NEW_PRIVS, _SUBREAPER, _CAPBSET_DROP = 38, 36, 24
_CAP_AMBIENT, _CAP_AMBIENT_CLEAR = 47, 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_CAPSET = {"x86_64": 126, "aarch64": 91}
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}
_CAPABILITY_VERSION_3 = 0x20080522
EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_DIRECTORY_RIGHTS = ((1 << 14) - 1) & ~(EXECUTE | WRITE | READ)
# file system rights known by each Landlock version; later ones know the last number
_RIGHT_COUNTS = (13, 14, 15, 15, 16)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # tty: its own, as it starts a session
_KILL_SECONDS = 5.0  # for killing processes that keep forking

_libc = ctypes.CDLL(None, use_errno=True)


# ---- the supervisor


def main(plan: dict[str, Any]) -> None:
    """Start the command, wait for it, and exit with its exit code."""
    if sys.platform == "linux":
        # orphans become our children, so that none can escape by daemonizing
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    # only a handler makes Python write to the wakeup pipe
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    # Only the control pipe ends us: otherwise the command could outlive its supervisor.
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGTERM,
        signal.SIGTTOU,
        signal.SIGTTIN,
        signal.SIGPIPE,
    ):
        signal.signal(number, signal.SIG_IGN)
    limits = plan["limits"]
    gate = MetadataGate(limits) if limits else None
    child = os.fork()
    if child == 0:
        _exec_command(plan, gate)
    code = None
    try:
        # The reader of the output sees its end only once nobody holds the other side: not even we.
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(devnull, fd)
        for fd in (*plan["keep"], plan["failed"]):
            os.close(fd)
        if limits:
            # what we do for the command must not be more than it could do
            drop_capabilities(limits["machine"])
        code = _supervise(child, plan["control"], wakeup_read, gate)
    finally:  # whatever goes wrong here: the command must not outlive us
        _kill_all(child)
        os._exit(128 + signal.SIGKILL if code is None else code)


def _supervise(child: int, control_fd: int, wakeup_fd: int, gate: MetadataGate | None) -> int | None:
    """Wait for the command and return its exit code as a shell does; None on the order to kill it."""
    code = None
    poll = select.poll()
    poll.register(control_fd, select.POLLIN | select.POLLHUP)
    poll.register(wakeup_fd, select.POLLIN)
    if gate is not None:
        gate.open_receiver(poll)
    while code is None:
        ready = dict(poll.poll())
        if wakeup_fd in ready:
            os.read(wakeup_fd, 512)
            try:
                while (exited := os.waitpid(-1, os.WNOHANG))[0]:  # orphans are ours, too
                    if exited[0] == child:
                        exit_code = os.waitstatus_to_exitcode(exited[1])
                        code = exit_code if exit_code >= 0 else 128 - exit_code
            except ChildProcessError:
                continue
        if control_fd in ready:  # a byte or the end of the pipe: the owner wants an end, or has died
            break
        if gate is not None:
            gate.handle(ready, poll)
    return code


def _kill_all(child: int) -> None:
    """Kill all descendants, again and again: while they die, they may fork."""
    if sys.platform != "linux":  # orphans are not our children: the process group has to do
        _kill(os.killpg, child)
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # nobody is left: orphans would be our children
            return
        for pid in _list_descendants(child):
            _kill(os.kill, pid)
        time.sleep(0.001)


def _kill(kill: Any, pid: int) -> None:
    try:
        kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it ended by itself
        return


def _list_descendants(child: int) -> list[int]:
    try:
        names = os.listdir("/proc")
    except OSError:  # no /proc
        return [child]
    children: dict[int, list[int]] = {}
    for name in names:
        if not name.isdigit():
            continue
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


def _exec_command(plan: dict[str, Any], gate: MetadataGate | None) -> None:
    """Apply the limits and become the command; never return."""
    try:
        signal.set_wakeup_fd(-1)
        os.close(plan["control"])
        # A process between us and the command: a command that kills its parent ends this one, not the
        # supervisor.
        if plan["guarded"] and (command := os.fork()):
            exit_code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
            os._exit(exit_code if exit_code >= 0 else 128 - exit_code)
        for number in range(1, 32):  # ignored signals would stay ignored after exec
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        # a successful exec closes it, which tells that the command runs
        os.set_inheritable(plan["failed"], False)
        os.setsid()  # a session of its own, which can have a controlling terminal
        if plan["tty"]:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(plan["cwd"])
        if gate is not None:
            _apply_limits(plan["limits"], gate, tty=plan["tty"])
        os.execve(plan["argv"][0], plan["argv"], plan["env"])
    except OSError as e:
        message = f"{e.errno or 0} {e.strerror}"
    except BaseException as e:  # whatever it is, the command must not run without its limits
        message = f"0 {type(e).__name__}: {e}"
    try:
        os.write(plan["failed"], message.encode()[:4000])
    finally:
        os._exit(127)


def drop_capabilities(machine: str) -> None:
    """Give up what makes root more than the owner of root's files, in this process and all that it starts."""
    if os.geteuid() == 0:  # root without capabilities is bound by file modes, too
        for number in range(64):
            # a capability that this kernel does not have
            if _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0) != 0:
                break
        _libc.prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR, 0, 0, 0)
        header, data = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
        _check_result(_libc.syscall(_CAPSET[machine], header, data))


def _apply_limits(limits: dict[str, Any], gate: MetadataGate, *, tty: bool) -> None:
    drop_capabilities(limits["machine"])
    # Everything but hidden paths can be read, few directories can be written.
    hidden = set(limits["hidden"])
    readable = [path for top in ("/", *limits["read"]) for path in _paths_except(top, hidden)]
    rules = [("/", LIST), *((path, EXECUTE | READ | LIST) for path in readable)]
    rules += [(path, ~_IOCTL) for path in limits["write"]]
    # Of the terminals only its own: others are the user's, whose keys could be read there, and whose screen
    # be drawn on.
    devices = [f"/dev/{name}" for name in _DEVICES] + ([os.ttyname(0)] if tty else [])
    rules += [(path, READ | WRITE | LIST | _IOCTL | _TRUNCATE) for path in devices]
    apply_landlock(rules, network=limits["network"])
    # seccomp comes last: it may forbid calls that the steps before need.
    program = limits["filter"]
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("size", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    filter_program = Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    number = _SECCOMP_CALL[limits["machine"]]
    listener: int = _libc.syscall(number, 1, _NEW_LISTENER, ctypes.byref(filter_program))
    if listener >= 0:
        gate.send_listener(listener)
    else:  # somebody outside listens already: without a listener of ours, the calls that it would get fail
        _check_result(_libc.syscall(number, 1, 0, ctypes.byref(filter_program)))


# ---- modes, owners and times of files


# Call -> what it sets, and the positions of its directory or descriptor, path, value and flags; -1: it has
# none.
_METADATA_CALLS = {
    "chmod": ("mode", -1, 0, 1, -1),
    "fchmod": ("mode", 0, -1, 1, -1),
    "fchmodat": ("mode", 0, 1, 2, -1),
    "fchmodat2": ("mode", 0, 1, 2, 3),
    "chown": ("owner", -1, 0, 1, -1),
    "lchown": ("owner", -1, 0, 1, -1),
    "fchown": ("owner", 0, -1, 1, -1),
    "fchownat": ("owner", 0, 1, 2, 4),
    "utime": ("seconds", -1, 0, 1, -1),
    "utimes": ("microseconds", -1, 0, 1, -1),
    "futimesat": ("microseconds", 0, 1, 2, -1),
    "utimensat": ("nanoseconds", 0, 1, 2, 3),
}
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = -100, 0x100, 0x1000
_MAX_PATH, _EFAULT = 4096, 14
# linux/seccomp.h: flags of seccomp(2), requests of its listener, and struct seccomp_notif.
_NEW_LISTENER, _RECEIVE, _SEND, _IS_VALID = 8, 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")


class MetadataGate:
    """Carries out calls of the command that change modes, owners and times, if the file is where the command
    may write.

    The command waits meanwhile. Its arguments are read once, and what was checked is what is changed: an open
    descriptor. So nothing that another thread of it does to its memory, or to links, makes a difference.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        import _socket  # a third of the time of `socket`

        self._calls = {number: (name, *_METADATA_CALLS[name]) for name, number in limits["metadata"].items()}
        self._writable: list[str] = limits["write"]
        self._receiver, self._sender = _socket.socketpair()
        self._rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        self._listener = -1

    def send_listener(self, listener: int) -> None:
        """Hand the filter's listener to the supervisor; in the child."""
        self._sender.sendmsg([b"x"], [(*self._rights, struct.pack("i", listener))])

    def open_receiver(self, poll: select.poll) -> None:
        self._sender.close()
        poll.register(self._receiver.fileno(), select.POLLIN)

    def handle(self, ready: dict[int, int], poll: select.poll) -> None:
        """Take the listener, or answer one call."""
        receiver = self._receiver.fileno()
        if receiver in ready:
            poll.unregister(receiver)
            for _, _, data in self._receiver.recvmsg(1, 64)[1]:
                self._listener = struct.unpack("i", data[:4])[0]
                poll.register(self._listener, select.POLLIN)
            self._receiver.close()
        event = ready.get(self._listener, 0)
        if event & select.POLLIN:
            self._answer()
        elif event:  # nobody is left who could call
            poll.unregister(self._listener)

    def _answer(self) -> None:
        request = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, request)
            id, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(request)
            error = 0
            try:
                self._change(id, pid, number, arguments)
            except OSError as e:
                error = -(e.errno or 1)
            except Exception:
                # pointers and times that make no sense; the command must not be able to stop us
                error = -_EFAULT
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", id, 0, error, 0))
        except OSError:  # it died meanwhile
            pass

    def _change(self, id: int, pid: int, number: int, arguments: list[int]) -> None:
        name, kind, directory_at, path_at, value_at, flags_at = self._calls[number]
        flags = arguments[flags_at] if flags_at >= 0 else 0
        directory = ctypes.c_int(arguments[directory_at]).value if directory_at >= 0 else _AT_FDCWD
        path = None
        if path_at >= 0 and arguments[path_at]:
            path = _read_memory(pid, arguments[path_at], _MAX_PATH).partition(b"\0")[0]
        value = arguments[value_at]
        times = None
        if kind not in ("mode", "owner") and value:
            times = _read_times(pid, value, kind)
        # otherwise we looked at another process
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", id))
        fd = self._open(
            pid, directory, path, flags, follow=name != "lchown" and not flags & _AT_SYMLINK_NOFOLLOW
        )
        try:
            target = f"/proc/self/fd/{fd}"
            real_path = os.readlink(target)
            if not any(real_path == root or real_path.startswith(f"{root}/") for root in self._writable):
                raise PermissionError(1, "it is not where the command may write")
            if kind == "mode":
                os.chmod(target, value & 0o1777)
            elif kind == "owner":
                _check_result(_libc.fchownat(fd, b"", value, arguments[value_at + 1], _AT_EMPTY_PATH))
            else:
                _check_result(_libc.utimensat(_AT_FDCWD, target.encode(), times, 0))
        finally:
            os.close(fd)

    def _open(self, pid: int, directory: int, path: bytes | None, flags: int, *, follow: bool) -> int:
        """Return a handle of the file that a call names, as its process sees it. Raises OSError."""
        if path is None and directory == _AT_FDCWD:
            raise OSError(_EFAULT, "it names no file")
        start = f"/proc/{pid}/cwd" if directory == _AT_FDCWD else f"/proc/{pid}/fd/{directory}"
        if path is None or (not path and flags & _AT_EMPTY_PATH):
            return os.open(start, os.O_PATH | os.O_CLOEXEC)
        for own in (b"/proc/self/", b"/proc/thread-self/"):  # the C library names descriptors so
            if path.startswith(own):
                path = b"/proc/%d/" % pid + path.removeprefix(own)
        mode = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        if path.startswith(b"/"):
            return os.open(path, mode)
        start_fd = os.open(start, os.O_PATH | os.O_CLOEXEC)
        try:
            return os.open(path, mode, dir_fd=start_fd)
        finally:
            os.close(start_fd)


def _read_times(pid: int, address: int, kind: str) -> bytes:
    """Return the two times that a call gives, as utimensat(2) takes them: seconds and nanoseconds of each."""
    if kind == "seconds":
        first, second = struct.unpack("=2q", _read_memory(pid, address, 16))
        return struct.pack("=4q", first, 0, second, 0)
    first, first_part, second, second_part = struct.unpack("=4q", _read_memory(pid, address, 32))
    unit = 1000 if kind == "microseconds" else 1
    return struct.pack("=4q", first, unit * first_part, second, unit * second_part)


def _read_memory(pid: int, address: int, size: int) -> bytes:
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, address)
    finally:
        os.close(fd)


# ---- Landlock


def apply_landlock(rules: Iterable[tuple[str | int, int]], *, network: bool) -> None:
    """Restrict this thread, and what it starts, to these paths or descriptors, and their rights.

    Raises OSError.
    """
    version: int = _libc.syscall(_CREATE_RULESET, None, 0, 1)
    _check_result(version)
    known = (1 << _RIGHT_COUNTS[min(version, len(_RIGHT_COUNTS)) - 1]) - 1
    tcp = 3 if version >= 4 and not network else 0  # bind and connect
    scope = 3 if version >= 6 else 0  # abstract unix sockets, and signals to processes outside
    attributes = struct.pack("=QQQ", known, tcp, scope)
    # An older kernel refuses a longer struct than it knows.
    if version < 4:
        attributes = attributes[:8]
    elif version < 6:
        attributes = attributes[:16]
    ruleset: int = _libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    _check_result(ruleset)
    try:
        for path, rights in rules:
            _add_path_rule(ruleset, path, rights & known)
        # setuid programs give no rights; Landlock and seccomp need it
        _check_result(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check_result(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _paths_except(directory: str, hidden_paths: set[str]) -> list[str]:
    """Return paths that together are a directory without the hidden paths in it: Landlock can allow, but not
    deny.
    """
    prefix = directory.rstrip("/") + "/"
    if not any(path.startswith(prefix) for path in hidden_paths):
        return [directory]
    try:
        paths = [prefix + name for name in os.listdir(directory)]
    except OSError:
        return []
    return [
        visible for path in paths if path not in hidden_paths for visible in _paths_except(path, hidden_paths)
    ]


def _add_path_rule(ruleset: int, path: str | int, rights: int) -> None:
    # A rule is about what is at the path, not about where a link leads: another command may have put one on
    # the way there.
    try:
        fd = (
            os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        )
    except OSError:  # it has gone, and needs no rule
        return
    try:
        file_type = os.fstat(fd).st_mode & 0o170000
        if file_type == 0o120000 or (isinstance(path, str) and os.readlink(f"/proc/self/fd/{fd}") != path):
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
