"""How a command is sandboxed: with bubblewrap and seccomp, with Landlock and seccomp, or not at all.

Without a sandbox, every result says so and every command needs an approval. `sandbox_probe` finds out what works here.
"""

import ctypes
import os
import platform
import re
import selectors
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from toolglot.builtin.files.workspace import Root
from toolglot.builtin.shell.environment import safe_environment
from toolglot.builtin.shell.limits import PidsCgroup, ulimit_prelude
from toolglot.builtin.shell.seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, build_seccomp_filter
from toolglot.errors import ToolError

__all__ = [
    "Confinement",
    "Launch",
    "SandboxLevel",
    "build_program_argv",
    "build_shell_argv",
    "find_bubblewrap",
    "find_shell",
    "landlock_version",
    "open_pidfd",
    "prepare_launch",
]

SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
HOME_SECRETS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".boto", ".vault-token", ".npmrc"),
    *(".pypirc", ".git-credentials", ".docker/config.json", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".config/rclone"),
    *(".config/toolglot", ".config/google-chrome", ".config/chromium", ".mozilla", ".password-store"),
    *(".terraform.d/credentials.tfrc.json", ".local/share/keyrings", ".local/share/toolglot", ".local/state/toolglot"),
    *(".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".bash_history"),
    *(".zsh_history", ".python_history"),
)
"""Paths below the home directory that no command may read."""
SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers.d")
_PRIVATE_DIRECTORIES = ("/run", "/var/tmp", "/dev/shm")  # sockets and files of other programs
_VISIBLE_RUN_PATHS = ("/run/current-system", "/run/wrappers")  # where NixOS has its programs
_GRACE_SECONDS = 0.5
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
    """Inside of roots, but read-only."""
    hidden_paths: tuple[Path, ...] = ()
    readable_paths: tuple[Path, ...] = ()
    """Inside of hidden paths, but readable."""
    network: bool = False
    unix_sockets: bool = False
    max_processes: int = 512

    def mount_options(self) -> list[str]:
        """Return the mounts: everything is readable, little is writable, secrets and other programs' files do not exist."""
        # Later mounts cover earlier ones, so the order matters: roots, then what is protected or hidden in them.
        # /proc is read-only, because root could change kernel settings in /proc/sys.
        options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        options += ["--bind", str(self.scratch), "/tmp"]
        for directory in _PRIVATE_DIRECTORIES:
            if os.path.isdir(directory) and not os.path.islink(directory):
                options += ["--tmpfs", directory]
        for path in (*_VISIBLE_RUN_PATHS, os.path.realpath("/etc/resolv.conf")):
            if path.startswith("/run/") and os.path.exists(path):
                options += ["--ro-bind", path, path]
        for root in self.roots:
            options += ["--bind" if root.writable else "--ro-bind", str(root.path), str(root.path)]
        for path in self.protected_paths:
            options += ["--ro-bind", str(path), str(path)]
        for path in self.find_secrets():
            is_in_root = any(Path(path).is_relative_to(root.path) for root in self.roots)
            is_private = any(path.startswith(f"{directory}/") for directory in ("/tmp", *_PRIVATE_DIRECTORIES))
            if is_in_root or not is_private:  # otherwise the path does not exist in the sandbox
                options += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
        for path in self.readable_paths:
            options += ["--ro-bind", str(path), str(path)]
        return options

    def landlock_limits(self) -> dict[str, Any]:
        return {
            "machine": platform.machine(),
            "filter": self.build_filter(private_network=False),
            "hidden": ["/dev", *self.find_secrets()],  # devices are allowed one by one
            "read": [*map(str, self.readable_paths), *(str(root.path) for root in self.roots if not root.writable)],
            "write": [str(self.scratch), *(str(root.path) for root in self.roots if root.writable)],
            "network": self.network,
        }

    def build_filter(self, *, private_network: bool) -> bytes:
        # In a network namespace of its own a command can open sockets, but reach nobody.
        families = [AF_INET, AF_INET6, AF_NETLINK] if private_network or self.network else []
        families += [AF_UNIX] if self.unix_sockets else []
        # Landlock checks truncate(2) since version 3; before, it would change files that may only be read.
        may_truncate = private_network or landlock_version() >= 3
        return build_seccomp_filter(platform.machine(), families, may_truncate=may_truncate)

    def find_secrets(self) -> list[str]:
        """Return the real paths of existing secrets, without those inside of another one."""
        home = os.path.expanduser("~")
        paths = [*(os.path.join(home, name) for name in HOME_SECRETS), *SYSTEM_SECRETS, *map(str, self.hidden_paths)]
        real_paths = sorted({os.path.realpath(path) for path in paths if os.path.lexists(path)})
        roots = [str(root.path) for root in self.roots]
        secrets: list[str] = []
        for path in real_paths:
            if any(path.startswith(f"{other}/") for other in secrets):
                continue
            if any(f"{root}/".startswith(f"{path}/") for root in roots):  # a workspace inside of it has to stay visible
                continue
            with suppress(OSError):
                mode = os.stat(path).st_mode
                if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                    secrets.append(path)
        return secrets


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start, and our ends of its pipes. `env`: for the program that makes the sandbox, never a model's."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    pass_fds: tuple[int, ...]
    control_fd: int = -1
    """Closing it ends everything. -1: killing the program does."""
    failure_fd: int = -1
    """Delivers the reason if the command could not be run."""
    info_fd: int = -1
    """Delivers the first process of the command's PID namespace: when that is gone, so is everything in it."""
    cgroup: PidsCgroup | None = None

    def close_fds(self) -> None:
        for fd in (self.control_fd, self.failure_fd, self.info_fd):
            if fd >= 0:
                with suppress(OSError):
                    os.close(fd)

    def read_failure(self) -> ToolError | None:
        """Return the reason why the supervisor could not run the command, if it could not."""
        if self.failure_fd < 0:
            return None
        os.set_blocking(self.failure_fd, False)
        try:
            message = os.read(self.failure_fd, 4096).decode(errors="replace")
        except BlockingIOError:
            return None
        if not message:
            return None
        reason = message.partition(" ")[2]  # after the error number
        return ToolError(f"the command could not be run in its sandbox: {reason}", code="sandbox_unavailable")

    def wait_for_namespace(self) -> None:
        """Wait until the whole PID namespace has gone: bwrap ends with the command, some milliseconds before the others."""
        if self.info_fd < 0:
            return
        os.set_blocking(self.info_fd, False)
        with suppress(OSError):
            match = re.search(rb'"child-pid"\s*:\s*(\d+)', os.read(self.info_fd, 4096))
            pidfd = open_pidfd(int(match[1])) if match else -1
            if pidfd >= 0:
                with selectors.DefaultSelector() as selector:
                    selector.register(pidfd, selectors.EVENT_READ)
                    selector.select(_GRACE_SECONDS)
                os.close(pidfd)


def prepare_launch(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    cwd: str,
    variables: dict[str, str],
    pass_fds: Iterable[int] = (),
    tty: bool = False,
) -> tuple[Launch, ExitStack]:
    """Return what to start, and what to close once it is started. `pass_fds`: descriptors for the command itself."""
    stack = ExitStack()
    prepare = _prepare_bubblewrap if confinement.level is SandboxLevel.BUBBLEWRAP else _prepare_supervisor
    try:
        return prepare(confinement, argv, cwd, variables, tuple(pass_fds), tty, stack), stack
    except BaseException:
        stack.close()
        raise


# ---- bubblewrap


def _prepare_bubblewrap(
    confinement: Confinement,
    argv: Sequence[str],
    cwd: str,
    variables: dict[str, str],
    pass_fds: tuple[int, ...],
    tty: bool,
    stack: ExitStack,
) -> Launch:
    program = find_bubblewrap(confinement.roots)
    if not program:
        raise ToolError("bubblewrap (bwrap) has gone: the command was not run", code="sandbox_unavailable")
    filter_fd = _open_memory_file(stack, confinement.build_filter(private_network=True))
    info_fd, info_write = os.pipe()
    stack.callback(os.close, info_write)
    # --die-with-parent ends the sandbox with the thread that started it: see ShellSession.
    options = ["--info-fd", str(info_write), "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    options += ["--share-net"] if confinement.network else []
    options += confinement.mount_options()
    # Not through the environment of bwrap itself: LD_PRELOAD would act on the program that makes the sandbox.
    for name, value in {**_temp_variables("/tmp"), **variables}.items():
        options += ["--setenv", name, value]
    options += ["--chdir", cwd, "--seccomp", str(filter_fd), "--"]
    if tty:  # --new-session takes the terminal away: the command gets it back as its own
        options += [_find_program("setsid"), "-c", "-w"]
    cgroup = PidsCgroup.create(confinement.max_processes)
    return Launch(
        argv=[*(cgroup.exec_prefix if cgroup else ()), program, *options, *argv],
        env=safe_environment(),
        cwd="/",
        pass_fds=(filter_fd, info_write, *pass_fds),
        info_fd=info_fd,
        cgroup=cgroup,
    )


# ---- the supervisor: Landlock, or no sandbox


def _prepare_supervisor(
    confinement: Confinement,
    argv: Sequence[str],
    cwd: str,
    variables: dict[str, str],
    pass_fds: tuple[int, ...],
    tty: bool,
    stack: ExitStack,
) -> Launch:
    import marshal  # built into Python: the supervisor loads it faster than json

    control_read, control_fd = os.pipe()
    failure_fd, failure_write = os.pipe()
    stack.callback(os.close, control_read)
    stack.callback(os.close, failure_write)
    is_confined = confinement.level is not SandboxLevel.NONE
    plan: dict[str, Any] = {
        "argv": list(argv),
        "env": {**safe_environment(), **_temp_variables(str(confinement.scratch)), **variables},
        "cwd": cwd,
        "control": control_read,
        "failed": failure_write,
        "keep": list(pass_fds),
        "tty": tty,
        "limits": confinement.landlock_limits() if is_confined else None,
    }
    try:
        plan_fd = _open_memory_file(stack, marshal.dumps(plan, 2))
    except BaseException:
        os.close(control_fd)  # our ends belong to the launch, which does not exist yet
        os.close(failure_fd)
        raise
    # A command outside of the sandbox has all rights of the user: it is not limited, either.
    cgroup = PidsCgroup.create(confinement.max_processes) if is_confined else None
    return Launch(
        argv=[*(cgroup.exec_prefix if cgroup else ()), _find_python(), "-I", "-S", SUPERVISOR, str(plan_fd)],
        env=safe_environment(),
        cwd="/",
        pass_fds=(plan_fd, control_read, failure_write, *pass_fds),
        control_fd=control_fd,
        failure_fd=failure_fd,
        cgroup=cgroup,
    )


# ---- what both need


def _temp_variables(scratch: str) -> dict[str, str]:
    return {"TMPDIR": scratch, "XDG_CACHE_HOME": f"{scratch}/.cache"}


def _open_memory_file(stack: ExitStack, data: bytes) -> int:
    """Return a descriptor from which these bytes can be read, until the stack is closed."""
    if hasattr(os, "memfd_create"):  # a crash leaves no file behind
        fd = os.memfd_create("toolglot")
        stack.callback(os.close, fd)
    else:
        fd, path = tempfile.mkstemp(prefix="toolglot-")
        stack.callback(os.close, fd)
        os.unlink(path)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


# ---- programs


def open_pidfd(pid: int) -> int:
    """Return a descriptor that becomes readable when the process has ended; -1 if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def find_bubblewrap(roots: Iterable[Root] = ()) -> str:
    """Return the path of bwrap outside of the roots, which a model can write to; "" if there is none."""
    for directory in (*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin", "/bin"):
        program = shutil.which("bwrap", path=directory) if directory.startswith("/") else None
        if program and not any(Path(os.path.realpath(program)).is_relative_to(root.path) for root in roots):
            return os.path.realpath(program)
    return ""


def find_shell() -> str:
    """Return the shell for commands: bash, otherwise sh. Raises ToolError."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin") or _find_program("sh")


def _find_program(name: str) -> str:
    program = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
    if not program:
        raise ToolError(f"{name} is not installed, but the command needs it", code="missing_program")
    return program


def _find_python() -> str:
    # sys.executable may be empty (embedded Python), or not executable for this user.
    for path in (sys.executable, getattr(sys, "_base_executable", ""), "/usr/bin/python3", "/usr/local/bin/python3"):
        if path and os.access(path, os.X_OK):
            return path
    raise ToolError("there is no Python that can be started for the sandbox", code="sandbox_unavailable")


@cache
def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)))


def build_shell_argv(command: str, *, login: bool, cwd_fd: int, max_processes: int) -> list[str]:
    """Return the arguments that run a command line in the shell, with its limits."""
    shell = find_shell()
    trap = _CWD_TRAP.format(fd=cwd_fd) if shell.endswith("bash") else ""
    # The command is a parameter, not part of the program: whatever it contains, it cannot end the quoting. The shift keeps
    # it from seeing itself as $1, and the exit code is that of eval, which is its own.
    program = f'{ulimit_prelude(shell, max_processes)}{trap}eval "shift; $1"'
    return [shell, *(["-l"] if login else []), "-c", program, os.path.basename(shell), command]


def build_program_argv(argv: Sequence[str], max_processes: int) -> list[str]:
    """Return the arguments that run a program without a shell in between, with its limits."""
    shell = find_shell()
    return [shell, "-c", f'{ulimit_prelude(shell, max_processes)}exec "$@"', os.path.basename(shell), *argv]
