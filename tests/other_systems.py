"""Take away what the Python of another system lacks, then run the program: `python other_systems.py windows
call read …`.

This is as near to Windows and macOS as a test on Linux gets: it finds names that do not exist there, not
other behaviour."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
from importlib import import_module
from pathlib import Path

import aiohttp

UNIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
LINUX_NAMES = (
    "O_PATH memfd_create pidfd_open getxattr setxattr listxattr removexattr sched_getaffinity unshare setns"
)
UNIX_NAMES = (
    "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC WNOHANG chown fchmod fchown fork forkpty "
    "getegid geteuid "
    "getgid getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid initgroups killpg "
    "lchown lockf mkfifo "
    "mknod nice openpty pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev "
    "register_at_fork sendfile "
    "setpgid setpriority setsid setuid statvfs sync sysconf tcgetpgrp tcsetpgrp ttyname uname wait wait3 "
    "wait4 waitid"
)
UNIX_SIGNALS = (
    "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH"
)
# Bridges import a framework, which chooses its own parts by the system.
FRAMEWORKS = tuple(
    f"toolglot.bridges.{name}" for name in ("langchain", "pydantic_ai", "openai_agents", "smolagents")
)
# these have to choose their parts before anything is missing
LOADED = (asyncio, subprocess, tempfile, aiohttp)


def become(system: str) -> None:
    """Remove what this system lacks."""
    sysconfig.get_config_vars()  # it looks for a file that is named after the system
    _remove(os, LINUX_NAMES)
    if system == "macos":
        sys.platform = "darwin"
        return
    _remove(os, UNIX_NAMES)
    _remove(signal, UNIX_SIGNALS)
    _remove(select, "poll epoll")
    os.supports_dir_fd.clear()
    os.supports_fd.clear()
    for name in UNIX_MODULES:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType] - this is how an import is made to fail


def import_everything() -> list[str]:
    """Import every module; return the failures. The supervisor is a program of its own, for Linux."""
    import toolglot

    root, failures = Path(toolglot.__file__).parent, list[str]()
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        if not name.endswith(("__main__", ".supervisor")) and not name.startswith(FRAMEWORKS):
            try:
                import_module(name)
            except Exception as e:
                failures.append(f"{name}: {e!r}")
    return failures


def _remove(module: object, names: str) -> None:
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)


if __name__ == "__main__":
    if sys.argv[2:] == ["import"]:
        import_module("mcp.server.stdio")  # the SDK chooses its own parts by the system as well
    become(sys.argv[1])
    if sys.argv[2:] == ["import"]:
        print(*import_everything(), sep="\n")
    elif sys.argv[2] == "-c":
        exec(sys.argv[3])
    else:
        from toolglot.cli.entry import main

        sys.argv[1:] = sys.argv[2:]
        main()
