"""How a command is sandboxed: with bubblewrap and seccomp, with Landlock and seccomp, or not at all.

Without a sandbox, every result says so and every command needs an approval. `sandbox_probe` finds out what
works here.
"""

import ctypes
import errno
import os
import platform
import re
import selectors
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.confine.confined_open import PATH_ONLY, close_quietly, open_beneath
from toolglot.confine.environment import OFFLINE_VARIABLES, safe_environment
from toolglot.confine.home import find_hidden_paths, find_visible_paths, private_settings
from toolglot.confine.limits import CommandLimits, create_cgroups, enter_limits, tmpfs_size, ulimit_prelude
from toolglot.confine.programs import SYSTEM_DIRECTORIES, find_program, own_python
from toolglot.confine.roots import Root
from toolglot.confine.seccomp import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    MACHINES,
    METADATA_CALLS,
    build_seccomp_filter,
)
from toolglot.errors import ToolError

__all__ = [
    "Confinement",
    "Launch",
    "Program",
    "SandboxLevel",
    "build_program_argv",
    "build_shell_argv",
    "find_shell",
    "kill_tree",
    "landlock_version",
    "open_pidfd",
    "open_pipe",
    "prepare_launch",
]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_SUPERVISOR_START = (
    "import marshal,sys;code,plan=marshal.load(open(int(sys.argv[1]),'rb'));exec(code);main(plan)"
)
_PRIVATE_DIRECTORIES = ("/run", "/var/tmp", "/dev/shm")  # sockets and files of other programs
_VISIBLE_RUN_PATHS = ("/run/current-system", "/run/wrappers")  # where NixOS has its programs
_HIDE_DIRECTORY, _HIDE_FILE = ["--tmpfs"], ["--ro-bind", "/dev/null"]
# for everything that was killed to be gone; for bwrap to notice that its child is
_KILL_SECONDS, _GRACE_SECONDS = 5.0, 0.5
# When the shell exits, it writes where it is: that is how a `cd` lasts until the next command.
_CWD_TRAP = "trap 'pwd -P >&{fd}' EXIT; "


class SandboxLevel(IntEnum):
    """How a command is sandboxed."""

    NONE = 0  # ordered: a higher level is a stronger sandbox
    LANDLOCK = 1
    BUBBLEWRAP = 2

    @property
    def label(self) -> str:
        """The name in results."""
        return ("none", "landlock+seccomp", "bwrap+seccomp")[self]


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may access."""

    level: SandboxLevel
    roots: tuple[Root, ...]
    scratch: Path
    """A private directory: the command's /tmp, or at least its TMPDIR."""
    protected_paths: tuple[Path, ...] = ()
    """Inside roots, but read-only."""
    hidden_paths: tuple[Path, ...] = ()
    visible_paths: tuple[str, ...] = ()
    """Inside the home directory, but readable."""
    spill_dir: Path | None = None
    """Where long output is: inside hidden paths, but readable."""
    network: bool = False
    limits: CommandLimits = CommandLimits()
    bubblewrap: str = ""
    """The program that was tried; "" finds one."""

    @property
    def writable_directories(self) -> list[Path]:
        return [self.scratch, *(root.path for root in self.roots if root.writable)]

    def list_system_mounts(self) -> list[str]:
        """Return options for a system that can be read, without files and sockets of other programs."""
        # /proc is read-only, because root could change kernel settings in /proc/sys.
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        options += ["--bind", str(self.scratch), "/tmp"]
        bubblewrap = self.bubblewrap or find_program("bwrap", self.roots)
        for directory in _PRIVATE_DIRECTORIES:
            if os.path.isdir(directory) and not os.path.islink(directory):
                options += [*tmpfs_size(bubblewrap), "--tmpfs", directory]
        options += ["--remount-ro", "/dev"]  # a tmpfs, too; devices and /dev/shm are mounts of their own
        for path in _find_run_paths():
            options += ["--ro-bind", path, path]
        return options

    def plan_mounts(self) -> dict[str, list[str]]:
        """Return a mount for everything that is hidden, visible nevertheless, writable, or protected."""
        hidden, visible = self.find_hidden()
        mounts: dict[str, list[str]] = {}
        for path in hidden:
            if not self._is_in_private_directory(path):
                mounts[path] = _HIDE_DIRECTORY if os.path.isdir(path) else _HIDE_FILE
        for path in visible:
            mounts[path] = ["--ro-bind", path]
        for root in self.roots:
            mounts[str(root.path)] = ["--bind" if root.writable else "--ro-bind", str(root.path)]
        for path in map(str, self.protected_paths):
            outer_mount = mounts.get(_find_innermost(path, mounts))
            if outer_mount not in (_HIDE_DIRECTORY, _HIDE_FILE):  # what is hidden needs no other protection
                mounts[path] = ["--ro-bind", path]
        return mounts

    def _is_in_private_directory(self, path: str) -> bool:
        """Whether a path is not there in the sandbox anyway: in a directory that is replaced as a whole, and
        in no root.
        """
        if any(Path(path).is_relative_to(root.path) for root in self.roots):
            return False
        return path.startswith(("/tmp/", *(f"{directory}/" for directory in _PRIVATE_DIRECTORIES)))

    def mount_options(self, stack: ExitStack) -> tuple[list[str], list[int], list[Path]]:
        """Return options for all mounts, the descriptors that they need, which the stack closes, and what is
        not mounted.
        """
        options, handles = self.list_system_mounts(), list[int]()
        mounts = self.plan_mounts()
        writable = [root.path for root in self.roots if root.writable]
        root_fds, unmounted = dict[Path, int](), list[Path]()
        # Later mounts cover earlier ones: in this order, what is said about the innermost directory counts.
        for path in sorted(mounts, key=lambda path: path.split("/")):
            root = min((root for root in writable if root in Path(path).parents), default=None)
            if root is None or mounts[path][-1] != path:
                options += [*mounts[path], path]
                continue
            # Another command may exchange what is in a root: bwrap checks that what it mounted is what the
            # descriptor is. What has gone, or become a link, is not mounted. Any other error has to keep the
            # command from running.
            try:
                if root not in root_fds:
                    root_fds[root] = os.open(root, PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    stack.callback(close_quietly, root_fds[root])
                handle = open_beneath(
                    root_fds[root], str(Path(path).relative_to(root)), PATH_ONLY | os.O_NOFOLLOW
                )
                stack.callback(close_quietly, handle)
                if stat.S_ISLNK(os.fstat(handle).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                    raise
                unmounted.append(Path(path))
            else:
                handles.append(handle)
                options += [f"{mounts[path][0]}-fd", str(handle), path]
        for path, mount in mounts.items():  # at the end, as mounts inside need a place there
            if mount is _HIDE_DIRECTORY:
                options += ["--remount-ro", path]
        return options, handles, unmounted

    def landlock_limits(self) -> dict[str, Any]:
        hidden, visible = self.find_hidden()
        read_only = [str(root.path) for root in self.roots if not root.writable]
        writable = [str(root.path) for root in self.roots if root.writable]
        return {
            "machine": platform.machine(),
            "filter": self.build_filter(private=False),
            "metadata": {
                name: number
                for name, number in MACHINES[platform.machine()][1].items()
                if name in METADATA_CALLS
            },
            # Devices are allowed one by one, and temporary files of other programs are not there in the other
            # sandbox, either.
            "hidden": ["/dev", "/tmp", *_PRIVATE_DIRECTORIES, *hidden],
            "read": [*visible, *_find_run_paths(), *read_only],
            "write": [os.path.realpath(self.scratch), *writable],
            "network": self.network,
        }

    def find_hidden(self) -> tuple[list[str], list[str]]:
        """Return what commands cannot read, and what they can read nevertheless although it is inside of
        that.
        """
        roots = [str(root.path) for root in self.roots]
        hidden = find_hidden_paths(self.roots, map(str, self.hidden_paths))
        visible = find_visible_paths(self.roots, hidden, self.visible_paths)
        spills = [str(self.spill_dir)] if self.spill_dir else []
        shown = {*roots, *visible, *spills}
        needed: list[str] = []
        for path in hidden:
            # Inside another hidden path, it has to be hidden again only where something visible is in
            # between.
            if _find_innermost(path, (*shown, *needed)) not in needed and path not in roots:
                needed.append(path)
        return needed, [*visible, *spills]

    def build_filter(self, *, private: bool) -> bytes:
        # In a network namespace of its own a command can open sockets, but reach nobody.
        families = [AF_INET, AF_INET6, AF_NETLINK] if private or self.network else []
        # Landlock checks truncate(2) since version 3; before, it would change files that may only be read.
        may_truncate = private or landlock_version() >= 3
        return build_seccomp_filter(platform.machine(), families, private=private, may_truncate=may_truncate)


def _find_innermost(path: str, directories: Collection[str]) -> str:
    """Return the last of these directories on the way to the path; "" if there is none."""
    parents = (path[:index] for index in range(len(path), 0, -1) if path[index : index + 1] in ("", "/"))
    return next((parent for parent in parents if parent in directories), "")


def _find_run_paths() -> list[str]:
    """Return what commands need below /run, which they do not see otherwise: programs of NixOS, and names of
    hosts.
    """
    paths = (*_VISIBLE_RUN_PATHS, os.path.realpath("/etc/resolv.conf"))
    return [path for path in paths if path.startswith("/run/") and os.path.exists(path)]


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run in the sandbox."""

    argv: list[str]
    cwd: Path
    variables: dict[str, str] = {}
    pass_fds: tuple[int, ...] = ()
    """Descriptors that it inherits besides its streams."""
    tty: bool = False


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a program in its sandbox, and our ends of its pipes."""

    argv: list[str]
    pass_fds: tuple[int, ...]
    control_fd: int = -1
    """Closing it ends everything. -1: killing the program does."""
    failure_fd: int = -1
    """Delivers the reason if the command could not be run."""
    info_fd: int = -1
    """Delivers the first process of the command's PID namespace (when that is gone, so is everything in it),
    and its end."""
    cgroups: tuple[Path, ...] = ()
    unmounted: tuple[Path, ...] = ()
    """Protected paths that have gone: the kernel does not protect what appears there."""

    def read_failure(self) -> ToolError | None:
        """Return the reason why the supervisor could not run the command, if it could not."""
        if self.failure_fd < 0:
            return None
        try:
            message = os.read(self.failure_fd, 4096).decode(errors="replace")
        except BlockingIOError:
            return None
        if not message:
            return None
        reason = message.partition(" ")[2]  # after the error number
        return ToolError(f"the command could not be run in its sandbox: {reason}", code="sandbox_unavailable")

    def wait_for_namespace(self) -> bool:
        """Wait until the whole PID namespace has gone: bwrap ends with the command, some milliseconds before
        the others.

        Return whether the command was run: if not, the sandbox could not be set up.
        """
        status = b""
        with suppress(OSError):
            status = os.read(self.info_fd, 4096) if self.info_fd >= 0 else b'"exit-code"'
            match = re.search(rb'"child-pid"\s*:\s*(\d+)', status)
            pidfd = open_pidfd(int(match[1])) if match else -1
            if pidfd >= 0:
                with selectors.DefaultSelector() as selector:
                    selector.register(pidfd, selectors.EVENT_READ)
                    # What is still there could write to protected files after the last look at them.
                    selector.select(_KILL_SECONDS)
                os.close(pidfd)
        return b'"exit-code"' in status


def prepare_launch(confinement: Confinement, program: Program, ours: ExitStack, theirs: ExitStack) -> Launch:
    """Return what to start. `theirs` has what to close once it runs, `ours` what to close at its end."""
    is_bubblewrap = confinement.level is SandboxLevel.BUBBLEWRAP
    launch = (_prepare_bubblewrap if is_bubblewrap else _prepare_supervisor)(
        confinement, program, ours, theirs
    )
    if confinement.level is SandboxLevel.NONE:  # it has all rights of the user: it is not limited, either
        return launch
    cgroups = create_cgroups(confinement.limits)
    return replace(launch, argv=enter_limits(cgroups, launch.argv), cgroups=cgroups)


def kill_tree(process: subprocess.Popen[bytes], launch: Launch) -> None:
    """Kill everything that was started: by the supervisor, or with the first process of the PID namespace."""
    if launch.control_fd >= 0:
        with suppress(OSError):
            os.write(launch.control_fd, b"!")
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
            return
    # bwrap waits for the first process of the namespace, whose end kills all others: killing bwrap itself
    # first would leave nobody to wait for them.
    with suppress(OSError, ValueError), open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        for word in file.read().split():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(word), signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


# ---- bubblewrap


def _prepare_bubblewrap(
    confinement: Confinement, program: Program, ours: ExitStack, theirs: ExitStack
) -> Launch:
    bubblewrap = confinement.bubblewrap or find_program("bwrap", confinement.roots)
    if not os.access(bubblewrap, os.X_OK):
        raise ToolError("bubblewrap (bwrap) has gone: the command was not run", code="sandbox_unavailable")
    filter_fd = _open_memory_file(theirs, confinement.build_filter(private=True))
    info_fd, info_write = open_pipe(ours, theirs)
    # --die-with-parent ends the sandbox with the thread that started it: see ShellSession.
    options = [
        "--json-status-fd",
        str(info_write),
        "--unshare-all",
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ]
    if confinement.network:
        options.append("--share-net")
    mounts, handles, unmounted = confinement.mount_options(theirs)
    options += mounts
    # Not through the environment of bwrap itself: LD_PRELOAD would act on the program that makes the sandbox.
    # Nor as arguments, which other users can read.
    variables = {**_private_variables(confinement, "/tmp"), **program.variables}
    settings = (word for name, value in variables.items() for word in ("--setenv", name, value))
    settings_fd = _open_memory_file(theirs, b"".join(os.fsencode(word) + b"\0" for word in settings))
    options += ["--args", str(settings_fd), "--chdir", str(program.cwd), "--seccomp", str(filter_fd), "--"]
    if program.tty:  # --new-session takes the terminal away: the command gets it back as its own
        options += [_require_program("setsid"), "-c", "-w"]
    pass_fds = (filter_fd, settings_fd, info_write, *handles, *program.pass_fds)
    return Launch(
        argv=[bubblewrap, *options, *program.argv],
        pass_fds=pass_fds,
        info_fd=info_fd,
        unmounted=tuple(unmounted),
    )


# ---- the supervisor: Landlock, or no sandbox


def _prepare_supervisor(
    confinement: Confinement, program: Program, ours: ExitStack, theirs: ExitStack
) -> Launch:
    import marshal  # built into Python: the supervisor loads it faster than json

    if not (python := own_python()):
        raise ToolError("there is no Python that can be started for the sandbox", code="sandbox_unavailable")
    control_fd, control_read = open_pipe(ours, theirs, writing=True)
    failure_fd, failure_write = open_pipe(ours, theirs)
    plan: dict[str, Any] = {
        "argv": program.argv,
        "env": {
            **safe_environment(),
            **_private_variables(confinement, str(confinement.scratch)),
            **program.variables,
        },
        "cwd": str(program.cwd),
        "control": control_read,
        "failed": failure_write,
        "keep": list(program.pass_fds),
        "tty": program.tty,
        # it can send signals to the supervisor
        "guarded": confinement.level is SandboxLevel.NONE or landlock_version() < 6,
        "limits": None if confinement.level is SandboxLevel.NONE else confinement.landlock_limits(),
    }
    # Bytecode is for one version of Python: the same as ours, unless ours cannot be started.
    is_ours = python in (sys.executable, getattr(sys, "_base_executable", ""))
    supervisor = _compile_supervisor() if is_ours else _SUPERVISOR.read_text()
    plan_fd = _open_memory_file(theirs, marshal.dumps((supervisor, plan), 2))
    return Launch(
        argv=[python, "-I", "-S", "-c", _SUPERVISOR_START, str(plan_fd)],
        pass_fds=(plan_fd, control_read, failure_write, *program.pass_fds),
        control_fd=control_fd,
        failure_fd=failure_fd,
    )


@cache
def _compile_supervisor() -> CodeType:
    """Return the program of the supervisor: compiling it each time would take a quarter of the time that it
    needs to start.
    """
    return compile(_SUPERVISOR.read_text(encoding="utf-8"), str(_SUPERVISOR), "exec")


# ---- what both need


def _private_variables(confinement: Confinement, scratch: str) -> dict[str, str]:
    """Return the variables that name private files of the conversation, and that suit the sandbox."""
    variables = {"TMPDIR": scratch, "XDG_CACHE_HOME": f"{scratch}/.cache"}
    if confinement.level is not SandboxLevel.NONE:
        # The user's own files are hidden, which at the level of Landlock is an error for who opens them.
        variables |= private_settings(scratch, confinement.visible_paths)
        if not confinement.network:
            variables |= OFFLINE_VARIABLES
    return variables


def open_pipe(ours: ExitStack, theirs: ExitStack, *, writing: bool = False) -> tuple[int, int]:
    """Return our end of a new pipe, which never blocks, and the command's. `writing`: we write to it."""
    read_fd, write_fd = os.pipe()
    our_fd, their_fd = (write_fd, read_fd) if writing else (read_fd, write_fd)
    ours.callback(os.close, our_fd)
    theirs.callback(os.close, their_fd)
    os.set_blocking(our_fd, False)
    return our_fd, their_fd


def _open_memory_file(stack: ExitStack, data: bytes) -> int:
    """Return a descriptor from which these bytes can be read, until the stack is closed."""
    # It has no name: a crash leaves nothing behind.
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    file.write(data)
    file.seek(0)
    return file.fileno()


# ---- programs


def open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable when the process has ended; -1 if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def find_shell() -> str:
    """Return the shell for commands: bash, otherwise sh. Raises ToolError."""
    return find_program(
        "bash", directories=("/bin", *SYSTEM_DIRECTORIES, "/opt/homebrew/bin")
    ) or _require_program("sh")


def _require_program(name: str) -> str:
    program = find_program(name, directories=SYSTEM_DIRECTORIES)
    if not program:
        raise ToolError(f"{name} is not installed, but the command needs it", code="missing_program")
    return program


@cache
def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)))


def build_shell_argv(command: str, confinement: Confinement, *, login: bool, cwd_fd: int) -> list[str]:
    """Return the arguments that run a command line in the shell, with its limits."""
    shell = find_shell()
    trap = _CWD_TRAP.format(fd=cwd_fd) if shell.endswith("bash") else ""
    # The command is a parameter, not part of the program: whatever it contains, it cannot end the quoting.
    # The shift keeps it from seeing itself as $1, and the exit code is that of eval, which is its own.
    program = f'{_build_prelude(shell, confinement)}{trap}eval "shift; $1"'
    options = ["-l", "-c"] if login else ["-c"]
    return [shell, *options, program, os.path.basename(shell), command]


def build_program_argv(argv: Sequence[str], confinement: Confinement) -> list[str]:
    """Return the arguments that run a program without a shell in between, with its limits."""
    shell = find_shell()
    return [shell, "-c", f'{_build_prelude(shell, confinement)}exec "$@"', os.path.basename(shell), *argv]


def _build_prelude(shell: str, confinement: Confinement) -> str:
    if confinement.level is SandboxLevel.NONE:
        return "ulimit -c 0; "
    return ulimit_prelude(shell, confinement.limits, confinement.writable_directories)
