"""What a command may try, run inside of the sandbox: `python3 shell_attacks.py PLAN`. Says of each try whether it got through.

It stands alone: the sandbox has no toolglot. Each try is a process of its own, as some end it. A try that gets through must do
no harm to the machine: what belongs to the system is opened and not written; mounts are asked for in ways that cannot work.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = json.loads(sys.argv[1])
WORK, OUTSIDE, HOME = Path(PLAN["work"]), Path(PLAN["outside"]), Path(PLAN["home"])
VICTIM: int = PLAN["victim"]
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def call(number: int, *words: Any) -> bool:
    return libc.syscall(number, *words) >= 0


def not_refused(result: int) -> bool:
    """Of a call that cannot work: whether it failed for another reason than that it is forbidden."""
    return result >= 0 or ctypes.get_errno() != errno.EPERM


def opened(path: str) -> bool:
    """Whether it could be written."""
    os.close(os.open(path, os.O_WRONLY))
    return True


def wrote(path: Path) -> bool:
    with path.open("a") as file:
        file.write("written by the command\n")
    return True


def through_link() -> bool:
    (WORK / "link").symlink_to(OUTSIDE / "file")
    return wrote(WORK / "link")


def through_folder_link() -> bool:
    (WORK / "folder").symlink_to(OUTSIDE)
    return wrote(WORK / "folder" / "new")


def hard_link() -> bool:
    os.link(OUTSIDE / "file", WORK / "hard")
    return wrote(WORK / "hard")


def moved_out() -> bool:
    (WORK / "moving").write_text("x")
    os.rename(WORK / "moving", OUTSIDE / "moved")
    return True


def unix_stream() -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(PLAN["stream"])
        return True


def unix_abstract() -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(PLAN["abstract"])
        return True


def unix_datagram_of_a_pair() -> bool:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"got out", PLAN["datagram"])
    return True


def unix_raw_pair() -> bool:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    one.sendto(b"got out", PLAN["datagram"])
    return True


def tcp() -> bool:
    with socket.create_connection(("127.0.0.1", PLAN["tcp"]), timeout=2):
        return True


def udp() -> bool:
    """Whether it arrived is seen outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"got out", ("127.0.0.1", PLAN["udp"]))
    return False


def killed() -> bool:
    os.kill(VICTIM, signal.SIGTERM)
    return True


def traced() -> bool:
    return libc.ptrace(16, VICTIM, 0, 0) == 0


def read(path: str) -> bool:
    return bool(Path(path).read_bytes())


def typed_into_the_terminal() -> bool:
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return bool(os.read(master, 1))


def has_capabilities() -> bool:
    lines = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return any(int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapInh")) or lines["NoNewPrivs"].strip() != "1"


def git_in_a_folder() -> bool:
    return subprocess.run(["git", "init", "-q", str(WORK / "project")], check=True).returncode == 0


def python_runs_and_pipes() -> bool:
    return subprocess.run("echo 6 | sed s/6/42/", shell=True, capture_output=True, check=True).stdout == b"42\n"


def pair_of_streams() -> bool:
    one, other = socket.socketpair()
    one.sendall(b"x")
    return other.recv(1) == b"x"


def temporary_file() -> bool:
    return wrote(Path(os.environ["TMPDIR"]) / "mine")


TRIES: dict[str, Callable[[], bool]] = {
    "write in the workspace": lambda: wrote(WORK / "new"),
    "git init in a folder": git_in_a_folder,
    "run programs": python_runs_and_pipes,
    "pair of streams": pair_of_streams,
    "temporary file": temporary_file,
    "write outside": lambda: wrote(OUTSIDE / "new"),
    "append outside": lambda: wrote(OUTSIDE / "file"),
    "write in the home folder": lambda: wrote(HOME / "new"),
    "write through a link": through_link,
    "write through a link to a folder": through_folder_link,
    "write through a hard link": hard_link,
    "move out": moved_out,
    "truncate outside": lambda: os.truncate(OUTSIDE / "file", 0) is None,
    "remove outside": lambda: os.unlink(OUTSIDE / "file") is None,
    "make a folder outside": lambda: os.mkdir(OUTSIDE / "folder") is None,
    "make a link outside": lambda: os.symlink("/", OUTSIDE / "link") is None,
    "write to a root that is only read": lambda: wrote(Path(PLAN["reading"]) / "new"),
    "write to /etc": lambda: opened("/etc/hostname"),
    "write to the password file": lambda: opened("/etc/passwd"),
    "settings of the kernel": lambda: opened("/proc/sys/kernel/core_pattern"),
    "keys of the kernel's console": lambda: opened("/proc/sysrq-trigger"),
    "leave the cgroup": lambda: opened("/sys/fs/cgroup/pids/tasks") or opened("/sys/fs/cgroup/cgroup.procs"),
    "TCP to the host": tcp,
    "UDP to the host": udp,
    "unix socket": unix_stream,
    "abstract unix socket": unix_abstract,
    "datagram of a pair": unix_datagram_of_a_pair,
    "datagram of a raw pair": unix_raw_pair,
    "packet socket": lambda: bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "kernel crypto socket": lambda: bool(socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)),
    "kill another process": killed,
    "trace another process": traced,
    "read the variables of another process": lambda: read(f"/proc/{PLAN['parent']}/environ"),
    "read the memory of another process": lambda: bool(os.open(f"/proc/{VICTIM}/mem", os.O_RDONLY)),
    "read a key": lambda: read(str(HOME / ".ssh" / "id")),
    "read a token": lambda: read(str(HOME / ".config" / "gh" / "hosts.yml")),
    "read a file with a password": lambda: read(str(HOME / ".netrc")),
    "read /etc/shadow": lambda: read("/etc/shadow"),
    "mount": lambda: not_refused(libc.mount(b"none", str(WORK).encode(), b"no such system", 0, None)),
    "unmount": lambda: not_refused(libc.umount2(str(WORK / "nothing there").encode(), 0)),
    "new user namespace": lambda: libc.unshare(0x10000000) == 0,
    "new mount namespace": lambda: libc.unshare(0x00020000) == 0,
    "clone into a user namespace": lambda: call(56 if X86 else 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda: call(435, None, 0) or ctypes.get_errno() != errno.ENOSYS,
    "join a namespace": lambda: libc.setns(os.open("/proc/self/ns/uts", os.O_RDONLY), 0) == 0,
    "change the root": lambda: os.chroot(WORK) is None,
    "keys of the kernel": lambda: call(250 if X86 else 219, 0, -3, 1),
    "programs for the kernel": lambda: call(321 if X86 else 280, 5, None, 0) or ctypes.get_errno() != errno.EPERM,
    "performance events": lambda: call(298 if X86 else 241, None, 0, -1, -1, 0) or ctypes.get_errno() != errno.EPERM,
    "io_uring": lambda: call(425, 1, None) or ctypes.get_errno() != errno.ENOSYS,
    "type into a terminal": typed_into_the_terminal,
    "calls of another kind": lambda: X86 and libc.syscall(0x40000000 | 39) > 0,
    "have capabilities": has_capabilities,
}


def tried(one: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if one() else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    print(json.dumps({name: tried(one) for name, one in TRIES.items()}))
