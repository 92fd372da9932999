"""What holds a command: bubblewrap with a filter of system calls, or Landlock with one, or nothing.

Laws: what is promised was tried: a canary that must not get out has run in this process's surroundings. A level is never less
than what is said of it; where there is none, that is said in every result, and somebody has to approve each command.
"""

import ctypes
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from toolglot.builtin.files.workspace import Root
from toolglot.builtin.shell.environment import safe_environment
from toolglot.builtin.shell.limits import PidsCgroup, ulimit_prelude
from toolglot.builtin.shell.seccomp import AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, MACHINES, build_seccomp_filter
from toolglot.errors import ToolError

__all__ = [
    "Confinement",
    "Launch",
    "SandboxLevel",
    "SandboxProbe",
    "describe_sandbox",
    "find_shell",
    "prepare_launch",
    "probe_level",
    "probe_sandbox",
]

SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
# What only the user is meant to read: below the home folder, and of the system.
HOME_SECRETS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".boto", ".vault-token", ".npmrc"),
    *(
        ".pypirc",
        ".git-credentials",
        ".docker/config.json",
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".gem/credentials",
    ),
    *(".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".config/rclone", ".config/toolglot"),
    *(".config/google-chrome", ".config/chromium", ".mozilla", ".password-store", ".terraform.d/credentials.tfrc.json"),
    *(".local/share/keyrings", ".local/share/toolglot", ".local/state/toolglot", ".claude/.credentials.json", ".claude.json"),
    *(".codex/auth.json", ".gemini/oauth_creds.json", ".bash_history", ".zsh_history", ".python_history"),
)
SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers.d")
_PRIVATE_DIRECTORIES = ("/run", "/var/tmp", "/dev/shm")
_VISIBLE_RUN_PATHS = ("/run/current-system", "/run/wrappers")
_CANARY_TIMEOUT = 10


class SandboxLevel(IntEnum):
    """How a command is held."""

    NONE = 0
    LANDLOCK = 1
    BUBBLEWRAP = 2

    @property
    def label(self) -> str:
        """As results say it."""
        return ("none", "landlock+seccomp", "bwrap+seccomp")[self]


class SandboxProbe(msgspec.Struct, frozen=True):
    """The best level that works here, and why better ones do not."""

    level: SandboxLevel
    reasons: dict[str, str] = {}
    """Label of a level -> what is wrong with it."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may touch."""

    level: SandboxLevel
    roots: tuple[Root, ...]
    scratch: Path
    """A private folder: the command's /tmp, or at least its TMPDIR."""
    protected_paths: tuple[Path, ...] = ()
    """Inside of roots, and yet only to be read."""
    hidden_paths: tuple[Path, ...] = ()
    readable_paths: tuple[Path, ...] = ()
    """Inside of what is hidden, and yet to be read."""
    network: bool = False
    unix_sockets: bool = False
    max_processes: int = 512


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start, with descriptors that it gets. `env`: for the one that makes the sandbox, never a model's."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    pass_fds: tuple[int, ...]
    control_fd: int = -1
    """Ours; closing it ends everything. -1: killing the program does."""
    failure_fd: int = -1
    """Ours; says why the command could not be run."""
    info_fd: int = -1
    """Ours; says which process is the first of the command's world: when it is gone, so is everybody else there."""
    cgroup: PidsCgroup | None = None


# ---- how a command is started


def prepare_launch(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    cwd: str,
    variables: dict[str, str],
    pass_fds: Iterable[int] = (),
    tty: bool = False,
) -> tuple[Launch, ExitStack]:
    """What to start, and what to let go of once it is started. `keep`: descriptors that the command itself gets."""
    stack = ExitStack()
    try:
        if confinement.level is SandboxLevel.BUBBLEWRAP:
            return _prepare_bubblewrap(confinement, argv, cwd, variables, tuple(pass_fds), tty, stack), stack
        return _prepare_supervisor(confinement, argv, cwd, variables, tuple(pass_fds), tty, stack), stack
    except BaseException:
        stack.close()
        raise


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
        raise ToolError("bubblewrap (bwrap) is gone: the command was not run", kind="execution")
    filtered = _open_memory_file(stack, _build_filter(confinement, private_network=True))
    words = [program, "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if confinement.network else []
    words += _mount_options(confinement)
    for name, value in {**_temp_variables("/tmp"), **variables}.items():
        words += ["--setenv", name, value]
    words += ["--chdir", cwd, "--seccomp", str(filtered), "--"]
    if tty:
        words += [_find_program("setsid"), "-c", "-w"]
    first, telling = os.pipe()
    stack.callback(os.close, telling)
    words[1:1] = ["--info-fd", str(telling)]
    pids = PidsCgroup.create(confinement.max_processes)
    return Launch(
        argv=[*(pids.exec_prefix() if pids else ()), *words, *argv],
        env=safe_environment(),
        cwd="/",
        pass_fds=(filtered, telling, *pass_fds),
        info_fd=first,
        cgroup=pids,
    )


def _mount_options(confinement: Confinement) -> list[str]:
    """Everything can be read, little can be written, and what is secret or somebody else's is not there."""
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    words += ["--bind", str(confinement.scratch), "/tmp"]
    for folder in _PRIVATE_DIRECTORIES:
        if os.path.isdir(folder) and not os.path.islink(folder):
            words += ["--tmpfs", folder]
    for path in (*_VISIBLE_RUN_PATHS, os.path.realpath("/etc/resolv.conf")):
        if path.startswith("/run/") and os.path.exists(path):
            words += ["--ro-bind", path, path]
    for root in confinement.roots:
        words += ["--bind" if root.writable else "--ro-bind", str(root.path), str(root.path)]
    for path in confinement.protected_paths:
        words += ["--ro-bind", str(path), str(path)]
    for path in filter(partial(_is_visible, confinement), _find_secrets(confinement)):
        words += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    for path in confinement.readable_paths:
        words += ["--ro-bind", str(path), str(path)]
    return words


def _is_visible(confinement: Confinement, path: str) -> bool:
    """Whether a path of the host is there at all in the command's world."""
    inside = any(Path(path).is_relative_to(root.path) for root in confinement.roots)
    return inside or not any(path.startswith(f"{folder}/") for folder in ("/tmp", *_PRIVATE_DIRECTORIES))


def _prepare_supervisor(
    confinement: Confinement,
    argv: Sequence[str],
    cwd: str,
    variables: dict[str, str],
    pass_fds: tuple[int, ...],
    tty: bool,
    stack: ExitStack,
) -> Launch:
    import marshal

    held, control = os.pipe()
    failed, failing = os.pipe()
    stack.callback(os.close, held)
    stack.callback(os.close, failing)
    confined = confinement.level is not SandboxLevel.NONE
    plan: dict[str, Any] = {
        "argv": list(argv),
        "env": {**safe_environment(), **_temp_variables(str(confinement.scratch)), **variables},
        "cwd": cwd,
        "control": held,
        "failed": failing,
        "keep": list(pass_fds),
        "tty": tty,
        "limits": _build_limits(confinement) if confined else None,
    }
    try:
        plan_handle = _open_memory_file(stack, marshal.dumps(plan, 2))
    except BaseException:
        os.close(control)
        os.close(failed)
        raise
    pids = PidsCgroup.create(confinement.max_processes) if confined else None
    return Launch(
        argv=[*(pids.exec_prefix() if pids else ()), _find_python(), "-I", "-S", SUPERVISOR, str(plan_handle)],
        env=safe_environment(),
        cwd="/",
        pass_fds=(plan_handle, held, failing, *pass_fds),
        control_fd=control,
        failure_fd=failed,
        cgroup=pids,
    )


def _build_limits(confinement: Confinement) -> dict[str, Any]:
    return {
        "machine": platform.machine(),
        "filter": _build_filter(confinement, private_network=False),
        "hidden": ["/dev", *_find_secrets(confinement)],
        "read": [*map(str, confinement.readable_paths), *(str(root.path) for root in confinement.roots if not root.writable)],
        "write": [str(confinement.scratch), *(str(root.path) for root in confinement.roots if root.writable)],
        "network": confinement.network,
    }


def _build_filter(confinement: Confinement, *, private_network: bool) -> bytes:
    families = [AF_INET, AF_INET6, AF_NETLINK] if private_network or confinement.network else []
    families += [AF_UNIX] if confinement.unix_sockets else []
    return build_seccomp_filter(platform.machine(), families, may_truncate=private_network or landlock_version() >= 3)


def _temp_variables(scratch: str) -> dict[str, str]:
    return {"TMPDIR": scratch, "XDG_CACHE_HOME": f"{scratch}/.cache"}


def _find_secrets(confinement: Confinement) -> list[str]:
    """Real paths that are there; nothing that a workspace is in, or that is in another one of them."""
    home = os.path.expanduser("~")
    named = [*(os.path.join(home, name) for name in HOME_SECRETS), *SYSTEM_SECRETS, *map(str, confinement.hidden_paths)]
    real = sorted({os.path.realpath(path) for path in named if os.path.lexists(path)})
    roots = [str(root.path) for root in confinement.roots]
    found: list[str] = []
    for path in real:
        inside = any(path.startswith(f"{other}/") for other in found)
        if not inside and _is_file_or_directory(path) and not any(f"{root}/".startswith(f"{path}/") for root in roots):
            found.append(path)
    return found


def _is_file_or_directory(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _open_memory_file(stack: ExitStack, data: bytes) -> int:
    """A descriptor that gives these bytes, until the stack is closed."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("toolglot")
        stack.callback(os.close, handle)
    else:
        handle, path = tempfile.mkstemp(prefix="toolglot-")
        stack.callback(os.close, handle)
        os.unlink(path)
    os.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


# ---- what there is


def find_bubblewrap(roots: Iterable[Root] = ()) -> str:
    """Where bwrap is, outside of the roots that a model can write to; "" where it is not."""
    for folder in (*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin", "/bin"):
        found = shutil.which("bwrap", path=folder) if folder.startswith("/") else None
        if found and not any(Path(os.path.realpath(found)).is_relative_to(root.path) for root in roots):
            return os.path.realpath(found)
    return ""


def find_shell() -> str:
    """The shell that commands are for. Raises ToolError."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin:/opt/homebrew/bin") or _find_program("sh")


def _find_program(name: str) -> str:
    found = shutil.which(name, path="/usr/bin:/bin:/usr/local/bin")
    if not found:
        raise ToolError(f"there is no {name} on this system, which the command needs", kind="execution")
    return found


def _find_python() -> str:
    """A Python that this user may start, for the helper."""
    for path in (sys.executable, getattr(sys, "_base_executable", ""), "/usr/bin/python3", "/usr/local/bin/python3"):
        if path and os.access(path, os.X_OK):
            return path
    raise ToolError("there is no Python that may be started for the sandbox", kind="execution")


@cache
def landlock_version() -> int:
    """The version of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)))


# ---- whether it holds

_probe_lock = threading.Lock()
_probe_cache: list[SandboxProbe] = []


def probe_sandbox() -> SandboxProbe:
    """The best level that holds, tried once per process."""
    with _probe_lock:
        if not _probe_cache:
            _probe_cache.append(_probe_levels())
        return _probe_cache[0]


def _probe_levels() -> SandboxProbe:
    reasons: dict[str, str] = {}
    for level in (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK):
        why = probe_level(level)
        if not why:
            return SandboxProbe(level, reasons)
        reasons[level.label] = why
    return SandboxProbe(SandboxLevel.NONE, reasons)


def probe_level(level: SandboxLevel) -> str:
    """Why a level does not hold here; "" where it does."""
    if sys.platform != "linux":
        return "it needs Linux"
    if platform.machine() not in MACHINES:
        return f"the system calls of {platform.machine()} are not known"
    if level is SandboxLevel.BUBBLEWRAP and not find_bubblewrap():
        return "bubblewrap is not installed: install the package 'bubblewrap'"
    if level is SandboxLevel.LANDLOCK and not landlock_version():
        return "the kernel has no Landlock, or it is switched off"
    if not find_shell().endswith("bash"):
        return "there is no bash to try it with"
    try:
        return _run_canary(level)
    except (OSError, ToolError, subprocess.SubprocessError) as e:
        return f"it could not be tried: {e}"


_CANARY_SCRIPT = (
    'echo in >"$1/in"; echo out 2>&- >"$2/out"; : 2>&- >>"$2/there"; exec 2>&-; (exec 3<>"/dev/tcp/127.0.0.1/$3") && echo net; '
    "echo done"
)


def _run_canary(level: SandboxLevel) -> str:
    """Runs something that tries to get out."""
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder, socket.socket() as listener:
        base = Path(os.path.realpath(folder))
        work, outside, scratch = (base / name for name in ("work", "outside", "scratch"))
        for path in (work, outside, scratch):
            path.mkdir()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        within = Confinement(level=level, roots=(Root(work),), scratch=scratch)
        argv = [find_shell(), "-c", _CANARY_SCRIPT, "bash", str(work), str(outside), str(listener.getsockname()[1])]
        launch, stack = prepare_launch(within, argv, cwd=str(work), variables={})
        with stack:
            done = _run_launch(launch)
        said = done.stdout.decode(errors="replace").split()
        if "done" not in said:
            first = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            return f"it does not run: {first or f'exit code {done.returncode}'}"
        if not (work / "in").exists():
            return "the workspace cannot be written from inside"
        if any(outside.iterdir()):
            return "it does not keep commands from writing elsewhere"
        return "it does not keep commands from the network" if "net" in said else ""


def _run_launch(launch: Launch) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=launch.pass_fds,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CANARY_TIMEOUT,
            check=False,
        )
    finally:
        for handle in (launch.control_fd, launch.failure_fd, launch.info_fd):
            if handle >= 0:
                with suppress(OSError):
                    os.close(handle)
        if launch.cgroup is not None:
            launch.cgroup.remove()


def describe_sandbox() -> dict[str, Any]:
    """What `toolglot doctor` says: the level, why better ones do not hold, and what is missing in the one that does."""
    found = probe_sandbox()
    limited = "cgroup" if PidsCgroup.is_available() else "rlimit" if os.name == "posix" and os.geteuid() != 0 else "not limited"
    gaps: list[str] = []
    if found.level is SandboxLevel.LANDLOCK:
        gaps += ["other processes can be seen in /proc", "modes and times of own files elsewhere can be changed"]
        gaps += ["protected names in the workspace are put back after a command only"]
        gaps += [] if landlock_version() >= 6 else ["own processes elsewhere can be sent signals (Linux 6.12 has a way)"]
    if found.level is SandboxLevel.NONE:
        gaps.append("commands are not held by anything: each one has to be approved")
    return {
        "level": int(found.level),
        "sandbox": found.level.label,
        "reasons": found.reasons,
        "bwrap": find_bubblewrap(),
        "landlock": landlock_version(),
        "processes": limited,
        "gaps": gaps,
    }


# ---- the words of the shell

CWD_TRAP = "trap 'pwd -P >&{handle}' EXIT; "


def build_shell_argv(command: str, *, login: bool, cwd_fd: int, max_processes: int) -> list[str]:
    """A command for the shell, with limits set before and its last folder told after; the exit code stays its own."""
    shell = find_shell()
    told = CWD_TRAP.format(handle=cwd_fd) if shell.endswith("bash") else ""
    program = f'{ulimit_prelude(shell, max_processes)}{told}eval "shift; $1"'
    return [shell, *(["-l"] if login else []), "-c", program, os.path.basename(shell), command]


def build_program_argv(argv: Sequence[str], max_processes: int) -> list[str]:
    """A program with its words, with limits set before."""
    shell = find_shell()
    return [shell, "-c", f'{ulimit_prelude(shell, max_processes)}exec "$@"', os.path.basename(shell), *argv]
