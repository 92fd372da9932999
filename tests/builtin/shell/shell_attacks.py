"""What a command may try, run inside the sandbox: `python3 shell_attacks.py PLAN`.

Prints for each attempt if it succeeded.

It stands alone: the sandbox has no toolglot. Each attempt is a process of its own, as some end it. One that
succeeds must do no harm to the machine: files of the system are opened and not written; mounts are requested
in ways that cannot work."""

import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = json.loads(sys.argv[1])
WORK, OUTSIDE, HOME = Path(PLAN["work"]), Path(PLAN["outside"]), Path(PLAN["home"])
VICTIM: int = PLAN["victim"]
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
OWN_PROCESSES = not Path(f"/proc/{VICTIM}").exists()


def call(number: int, *words: Any) -> bool:
    return libc.syscall(number, *words) >= 0


def not_refused(result: int) -> bool:
    """Of a call that cannot work: whether it failed for another reason than that it is forbidden."""
    return result >= 0 or ctypes.get_errno() != errno.EPERM


def can_open(path: str) -> bool:
    """Whether it could be written."""
    os.close(os.open(path, os.O_WRONLY))
    return True


def wrote(path: Path) -> bool:
    with path.open("a") as file:
        file.write("written by the command\n")
    return True


def write_through(link: Callable[[Path, Path], object], target: Path, name: str = "") -> bool:
    path = WORK / f"link-{link.__name__}-{target.name}"
    link(path, target)
    return wrote(path / name)


def can_move_out() -> bool:
    (WORK / "moving").write_text("x")
    os.rename(WORK / "moving", OUTSIDE / "moved")
    return True


def can_connect(address: str) -> bool:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect(address)
        return True


def can_send_from_pair(kind: socket.SocketKind) -> bool:
    first, _ = socket.socketpair(socket.AF_UNIX, kind)
    first.sendto(b"got out", PLAN["datagram"])
    return True


def tcp() -> bool:
    with socket.create_connection(("127.0.0.1", PLAN["tcp"]), timeout=2):
        return True


def udp() -> bool:
    """Whether it arrived is seen outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        datagram.sendto(b"got out", ("127.0.0.1", PLAN["udp"]))
    return False


def read(path: str) -> bool:
    return bool(Path(path).read_bytes())


def list_readable(names: list[str]) -> list[str]:
    """The files below the home directory that can be read; they are printed."""
    readable: list[str] = []
    for name in names:
        with contextlib.suppress(OSError):
            readable += [name] if read(str(HOME / name)) else []
    print("readable:", len(readable), "of", len(names), *readable, flush=True)
    return readable


def read_of_root_only() -> bool:
    """Whether a file of /etc or /var can be read that only root can read."""
    readable: list[str] = []
    for top in ("/etc", "/var/lib", "/var/log", "/var/cache"):
        for directory, _, names in os.walk(top):
            for path in (os.path.join(directory, name) for name in names):
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    if (
                        stat.S_ISREG(status.st_mode)
                        and not status.st_mode & 0o044
                        and status.st_size
                        and read(path)
                    ):
                        readable.append(path)
    print("readable:", *readable, flush=True)
    return bool(readable)


def can_type_into_the_terminal() -> bool:
    master, slave = os.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")
    return bool(os.read(master, 1))


def has_capabilities() -> bool:
    lines = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
    )
    return (
        any(int(lines[name], 16) for name in ("CapEff", "CapPrm", "CapInh"))
        or lines["NoNewPrivs"].strip() != "1"
    )


def pair_of_streams() -> bool:
    first, second = socket.socketpair()
    first.sendall(b"x")
    return second.recv(1) == b"x"


def set_priority(which: int, who: int) -> bool:
    return os.setpriority(which, who, 5) is None


def reads_shared_memory() -> bool:
    libc.shmat.restype = ctypes.c_void_p
    return libc.shmat(PLAN["shared memory"], None, 0o10000) not in (None, ctypes.c_void_p(-1).value)


def opens_queue() -> bool:
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    return (
        library.mq_open(PLAN["queue"].encode(), os.O_RDWR) >= 0
        or library.mq_unlink(PLAN["queue"].encode()) == 0
    )


def marks(make: Callable[[str], object], bits: int = 0o4000) -> bool:
    """Whether a file of ours is set-uid (or set-gid) after that."""
    path = WORK / f"marked-{os.getpid()}"
    make(str(path))
    return bool(path.stat().st_mode & bits)


def then(act: Callable[[str], object]) -> Callable[[str], object]:
    """Do something to a new file."""
    return lambda path: (Path(path).write_text("x"), act(path))


def fchmod(path: str) -> None:
    with open(path) as file:
        os.fchmod(file.fileno(), 0o4755)


def create(flags: int) -> Callable[[str], object]:
    return lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY | flags, 0o4755))


def openat2(path: str) -> None:
    call(437, -100, path.encode(), (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)


def by_descriptor(path: Path, act: Callable[[int], object]) -> bool:
    file = os.open(path, os.O_RDONLY)
    return act(file) is None


def changes_mode_in_a_race() -> bool:
    """Whether a mode outside changes while a name in the workspace flips between our file and a link to
    another.
    """
    mine, link, target = (WORK / name for name in ("mine", "link", "flip"))
    target.write_text("x")
    mine.write_text("x")
    link.symlink_to(OUTSIDE / "file")
    before, child = (OUTSIDE / "file").stat().st_mode, os.fork()
    if child == 0:
        while True:
            libc.renameat2(-100, bytes(target), -100, bytes(link), 2)
    while not target.is_symlink():  # until it has begun
        pass
    for number in range(1000):
        libc.chmod(bytes(target), 0o600 + number % 2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return (OUTSIDE / "file").stat().st_mode != before or mine.stat().st_mode & 0o777 not in (
        0o644,
        0o600,
        0o601,
    )


def changes_mode_by_changing_the_path() -> bool:
    """Whether a mode outside changes while another thread writes another path where the call reads it."""
    mine, other = bytes(WORK / "mine2"), bytes(OUTSIDE / "file")
    Path(os.fsdecode(mine)).write_text("x")
    path, before, done = ctypes.create_string_buffer(200), os.stat(other).st_mode, threading.Event()

    def flip() -> None:
        for value in itertools.cycle((other, mine)):  # Python changes threads at the end of a loop's body
            path.value = value
            if done.is_set():
                return

    path.value = mine
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=flip)
    thread.start()
    for number in range(1000):
        libc.chmod(path, 0o700 + number % 2)
    done.set()
    thread.join()
    return os.stat(other).st_mode != before


ATTEMPTS: dict[str, Callable[[], bool]] = {
    "change modes in the workspace": lambda: (
        (wrote(WORK / "tool"), os.chmod(WORK / "tool", 0o751))[1] is None
    ),
    "change times in the workspace": lambda: (
        (wrote(WORK / "old"), os.utime(WORK / "old", ns=(5, 7)))[1] is None
    ),
    "write in the workspace": lambda: wrote(WORK / "new"),
    "git init in a directory": lambda: subprocess.call(["git", "init", "-q", str(WORK / "project")]) == 0,
    "run programs": lambda: subprocess.check_output("echo 6 | sed s/6/42/", shell=True) == b"42\n",
    "pair of streams": pair_of_streams,
    "temporary file": lambda: wrote(Path(os.environ["TMPDIR"]) / "mine"),
    "write outside": lambda: wrote(OUTSIDE / "new"),
    "append outside": lambda: wrote(OUTSIDE / "file"),
    "write in the home directory": lambda: wrote(HOME / "new"),
    "write through a link": lambda: write_through(Path.symlink_to, OUTSIDE / "file"),
    "write through a link to a directory": lambda: write_through(Path.symlink_to, OUTSIDE, "new"),
    "write through a hard link": lambda: write_through(Path.hardlink_to, OUTSIDE / "file"),
    "move out": can_move_out,
    "truncate outside": lambda: os.truncate(OUTSIDE / "file", 0) is None,
    "remove outside": lambda: os.unlink(OUTSIDE / "file") is None,
    "make a directory outside": lambda: os.mkdir(OUTSIDE / "folder") is None,
    "make a link outside": lambda: os.symlink("/", OUTSIDE / "link") is None,
    "write to a root that is only read": lambda: wrote(Path(PLAN["reading"]) / "new"),
    "write to /etc": lambda: can_open("/etc/hostname"),
    "write to the password file": lambda: can_open("/etc/passwd"),
    "settings of the kernel": lambda: can_open("/proc/sys/kernel/core_pattern"),
    "keys of the kernel's console": lambda: can_open("/proc/sysrq-trigger"),
    "leave the cgroup": lambda: (
        can_open("/sys/fs/cgroup/pids/tasks") or can_open("/sys/fs/cgroup/cgroup.procs")
    ),
    "TCP to the host": tcp,
    "UDP to the host": udp,
    "unix socket": lambda: can_connect(PLAN["stream"]),
    "abstract unix socket": lambda: can_connect(PLAN["abstract"]),
    "datagram of a pair": lambda: can_send_from_pair(socket.SOCK_DGRAM),
    "datagram of a raw pair": lambda: can_send_from_pair(socket.SOCK_RAW),
    "packet socket": lambda: bool(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "kernel crypto socket": lambda: bool(socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)),
    "kill another process": lambda: os.kill(VICTIM, signal.SIGTERM) is None,
    "trace another process": lambda: libc.ptrace(16, VICTIM, 0, 0) == 0,
    "read the variables of another process": lambda: read(f"/proc/{PLAN['parent']}/environ"),
    "read the memory of another process": lambda: bool(os.open(f"/proc/{VICTIM}/mem", os.O_RDONLY)),
    "read what builds need": lambda: list_readable(PLAN["visible"]) == PLAN["visible"],
    "read what is private in the home directory": lambda: bool(list_readable(PLAN["secrets"])),
    "read a temporary file of another program": lambda: read(PLAN["temporary"]),
    "read /etc/shadow": lambda: read("/etc/shadow"),
    "read what only root can read": read_of_root_only,
    "mount": lambda: not_refused(libc.mount(b"none", str(WORK).encode(), b"no such system", 0, None)),
    "unmount": lambda: not_refused(libc.umount2(str(WORK / "nothing there").encode(), 0)),
    "new user namespace": lambda: libc.unshare(0x10000000) == 0,
    "new mount namespace": lambda: libc.unshare(0x00020000) == 0,
    "clone into a user namespace": lambda: call(56 if X86 else 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": lambda: call(435, None, 0) or ctypes.get_errno() != errno.ENOSYS,
    "join a namespace": lambda: libc.setns(os.open("/proc/self/ns/uts", os.O_RDONLY), 0) == 0,
    "change the root": lambda: os.chroot(WORK) is None,
    "keys of the kernel": lambda: call(250 if X86 else 219, 0, -3, 1),
    "programs for the kernel": lambda: (
        call(321 if X86 else 280, 5, None, 0) or ctypes.get_errno() != errno.EPERM
    ),
    "performance events": lambda: (
        call(298 if X86 else 241, None, 0, -1, -1, 0) or ctypes.get_errno() != errno.EPERM
    ),
    "io_uring": lambda: call(425, 1, None) or ctypes.get_errno() != errno.ENOSYS,
    "type into a terminal": can_type_into_the_terminal,
    "calls of another kind": lambda: X86 and libc.syscall(0x40000000 | 39) > 0,
    "have capabilities": has_capabilities,
    "open a terminal of the user": lambda: can_open(PLAN["terminal"]),
    "open a terminal of the user by its process": lambda: can_open(
        f"/proc/{PLAN['parent']}/fd/{PLAN['terminal_fd']}"
    ),
    "limit another process": lambda: len(resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (64, 64))) > 0,
    "limit the parent": lambda: len(resource.prlimit(PLAN["parent"], resource.RLIMIT_CORE, (0, 0))) > 0,
    "priority of another process": lambda: set_priority(os.PRIO_PROCESS, VICTIM),
    "priority of the whole user": lambda: not OWN_PROCESSES and set_priority(os.PRIO_USER, 0),
    "disk priority of another process": lambda: call(251 if X86 else 30, 1, VICTIM, 3 << 13),
    "disk priority of the whole user": lambda: (
        not OWN_PROCESSES and call(251 if X86 else 30, 3, os.getuid(), 3 << 13)
    ),
    "processors of another process": lambda: os.sched_setaffinity(VICTIM, {0}) is None,
    "scheduling of another process": lambda: (
        os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0)) is None
    ),
    "read shared memory of another process": reads_shared_memory,
    "remove shared memory of another process": lambda: libc.shmctl(PLAN["shared memory"], 0, None) == 0,
    "remove semaphores of another process": lambda: libc.semctl(PLAN["semaphores"], 0, 0) == 0,
    "remove messages of another process": lambda: libc.msgctl(PLAN["messages"], 0, None) == 0,
    "open a message queue of another process": opens_queue,
    "set-uid by chmod": lambda: marks(then(lambda path: libc.chmod(path.encode(), 0o4755))),
    "set-gid by chmod": lambda: marks(then(lambda path: libc.chmod(path.encode(), 0o2755)), 0o2000),
    "set-uid by fchmod": lambda: marks(then(fchmod)),
    "set-uid by fchmodat": lambda: marks(
        then(lambda path: call(268 if X86 else 53, -100, path.encode(), 0o4755))
    ),
    "set-uid by fchmodat2": lambda: marks(then(lambda path: call(452, -100, path.encode(), 0o4755, 0))),
    "set-uid by open": lambda: marks(create(0)),
    "set-uid by an unnamed file": lambda: bool(os.fstat(os.open(WORK, 0o20200001, 0o4755)).st_mode & 0o4000),
    "set-uid by creat": lambda: marks(lambda path: libc.creat(path.encode(), 0o4755)),
    "set-uid by openat2": lambda: marks(openat2),
    "mode of a file outside": lambda: os.chmod(OUTSIDE / "file", 0o666) is None,
    "mode of a file outside by a link": lambda: (
        (os.symlink(OUTSIDE, WORK / "out"), os.chmod(WORK / "out/file", 0o666))[1] is None
    ),
    "mode of a file outside by its descriptor": lambda: by_descriptor(
        OUTSIDE / "file", lambda file: os.fchmod(file, 0o666)
    ),
    "mode of a file outside by its number": lambda: by_descriptor(
        OUTSIDE, lambda _: os.chmod("/proc/self/fd/3/file", 0o666)
    ),
    "mode of a file outside in a race": changes_mode_in_a_race,
    "mode of a file outside by changing the path": changes_mode_by_changing_the_path,
    "mode of a hidden file": lambda: libc.chmod(bytes(HOME / ".ssh/id"), 0o666) == 0,
    "owner of a file outside": lambda: os.chown(OUTSIDE / "file", os.getuid(), os.getgid()) is None,
    "owner of a file outside by its descriptor": lambda: by_descriptor(
        OUTSIDE / "file", lambda file: os.fchown(file, -1, -1)
    ),
    "times of a file outside": lambda: os.utime(OUTSIDE / "file", (1, 1)) is None,
    "times of a file outside by its descriptor": lambda: by_descriptor(
        OUTSIDE / "file", lambda file: os.utime(file, (1, 1))
    ),
    "attribute of a file outside": lambda: os.setxattr(OUTSIDE / "file", "user.x", b"x") is None,
    "set-uid by mknod": lambda: marks(lambda path: os.mknod(path, 0o104755)),
}


# ---- the same in many variations

CREATED_IN = (
    *(
        "/",
        "/bin",
        "/boot",
        "/etc",
        "/etc/cron.d",
        "/etc/profile.d",
        "/etc/systemd/system",
        "/etc/ld.so.conf.d",
        "/etc/apt",
    ),
    *(
        "/home",
        "/lib",
        "/media",
        "/mnt",
        "/opt",
        "/root",
        "/sbin",
        "/srv",
        "/usr",
        "/usr/bin",
        "/usr/lib",
        "/usr/local",
    ),
    *(
        "/usr/local/bin",
        "/usr/local/lib",
        "/usr/share",
        "/var",
        "/var/lib",
        "/var/log",
        "/var/spool",
        "/var/spool/cron",
        "/proc",
    ),
    *(
        "/sys",
        "/sys/fs/cgroup",
        "/sys/kernel/debug",
        "/sys/kernel/tracing",
        "/dev/pts",
        "/proc/self",
        "/usr/src",
    ),
)
OPENED = (
    *(
        f"/etc/{name}"
        for name in (
            "group",
            "hosts",
            "resolv.conf",
            "crontab",
            "profile",
            "environment",
            "ld.so.cache",
            "fstab",
        )
    ),
    *(
        f"/etc/{name}"
        for name in (
            "sudoers",
            "bash.bashrc",
            "ssh/sshd_config",
            "nsswitch.conf",
            "pam.d/su",
            "machine-id",
            "shells",
        )
    ),
    *(
        f"/dev/{name}"
        for name in (
            "mem",
            "kmem",
            "port",
            "sda",
            "sda1",
            "vda",
            "vda1",
            "nvme0n1",
            "xvda",
            "loop0",
            "loop-control",
        )
    ),
    *(
        f"/dev/{name}"
        for name in (
            "fuse",
            "kvm",
            "net/tun",
            "vhost-net",
            "kmsg",
            "uinput",
            "input/event0",
            "dri/card0",
            "tty0",
        )
    ),
    *(
        f"/dev/{name}"
        for name in (
            "tty1",
            "hpet",
            "rtc0",
            "cpu_dma_latency",
            "mapper/control",
            "userfaultfd",
            "watchdog",
            "vsock",
        )
    ),
    *(
        f"/proc/sys/kernel/{name}"
        for name in ("hostname", "modprobe", "panic", "randomize_va_space", "sysrq", "kptr_restrict")
    ),
    *(
        f"/proc/sys/{name}"
        for name in ("vm/overcommit_memory", "vm/drop_caches", "fs/file-max", "net/ipv4/ip_forward")
    ),
    *(
        f"/proc/sys/{name}"
        for name in ("user/max_user_namespaces", "fs/suid_dumpable", "kernel/yama/ptrace_scope")
    ),
    *(
        f"/proc/{VICTIM}/{name}"
        for name in ("mem", "oom_score_adj", "oom_adj", "comm", "clear_refs", "timerslack_ns")
    ),
    *(
        f"/proc/{VICTIM}/{name}"
        for name in ("coredump_filter", "autogroup", "uid_map", "gid_map", "setgroups", "loginuid")
    ),
    *(
        f"/proc/{PLAN['parent']}/{name}"
        for name in ("mem", "oom_score_adj", "comm", "clear_refs", "fd/0", "fd/1", "fd/2")
    ),
    *(
        "/proc/1/mem",
        "/proc/1/oom_score_adj",
        "/proc/kcore",
        "/proc/kmem",
        "/sys/power/state",
        "/sys/kernel/uevent_helper",
    ),
    *(
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/module/kernel/parameters/panic",
        "/sys/bus/pci/rescan",
    ),
)
READ = (
    *(
        f"/proc/{pid}/{name}"
        for pid in (VICTIM, PLAN["parent"])
        for name in ("environ", "maps", "mem", "stack", "syscall", "auxv")
    ),
    *("/proc/kcore", "/dev/mem", "/dev/kmsg", "/etc/shadow-", "/etc/gshadow", "/etc/ssh/ssh_host_rsa_key"),
    *(
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssl/private/ssl-cert-snakeoil.key",
        "/etc/sudoers.d/README",
        "/var/lib/sudo/lectured",
    ),
    *PLAN["secrets"],
)
# By number on x86-64; each would succeed for root outside a sandbox, without harm.
SYSTEM_CALLS: dict[str, tuple[Any, ...]] = {
    "iopl": (172, 3),
    "ioperm": (173, 0x80, 1, 1),
    "sethostname": (170, b"x", 1),
    "setdomainname": (171, b"x", 1),
    "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1),
    "fspick": (433, -100, b"/", 0),
    "fanotify_init": (300, 0, 0),
    "kcmp": (312, VICTIM, os.getpid(), 2, 0, 0),
    "move_pages": (279, VICTIM, 0, None, None, None, 0),
    "migrate_pages": (256, VICTIM, 0, None, None),
    "ptrace seize": (101, 0x4206, VICTIM, 0, 0),
    "ptrace attach": (101, 16, VICTIM, 0, 0),
    "keyctl session": (250, 1, None),
    "add_key": (248, b"user", b"x", b"x", 1, -4),
    "perf_event_open": (298, (ctypes.c_char * 128)(1, 0, 0, 0, 112), 0, -1, -1, 0),
    "bpf": (321, 0, (ctypes.c_uint32 * 32)(2, 4, 4, 1), 72),
    "io_uring_setup": (425, 1, (ctypes.c_char * 120)()),
    "unshare everything": (272, 0x7E020000),
    "setns": (308, 0, 0),
    "setuid 0 of nobody": (105, 12345),
    "setgroups": (116, 1, (ctypes.c_uint32 * 1)(4)),
    "capset": (126, (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(1, 1, 0, 0, 0, 0)),
    "mknod of a disk": (133, bytes(WORK / "disk"), 0o60644, 0x800),
    "mknod of memory": (133, bytes(WORK / "memory"), 0o20644, 0x101),
    "pivot_root": (155, bytes(WORK), bytes(WORK)),
    **{f"tgkill {number}": (234, VICTIM, VICTIM, number) for number in (1, 9, 10, 15, 19)},
    **{
        f"sigqueue {number}": (129, VICTIM, number, (ctypes.c_int * 32)(number, 0, -1))
        for number in (1, 9, 15)
    },
}


def can_create(directory: str) -> bool:
    path = Path(directory, f"toolglot-attack-{os.getpid()}")
    path.touch(exist_ok=False)
    path.unlink()
    return True


def can_signal(number: int) -> bool:
    return os.kill(VICTIM, number) is None


def has_socket(family: int) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM):
        return True


def pidfd_signal(number: int) -> bool:
    return signal.pidfd_send_signal(os.pidfd_open(VICTIM), number) is None


VARIATIONS: dict[str, Callable[[], bool]] = {
    **{f"create in {path}": partial(can_create, path) for path in CREATED_IN},
    **{f"open {path} for writing": partial(can_open, path) for path in OPENED},
    **{f"read {path}": partial(read, path) for path in READ},
    **{f"system call {name}": partial(call, *words) for name, words in SYSTEM_CALLS.items() if X86},
    **{f"signal {number}": partial(can_signal, number) for number in range(1, 20)},
    **{f"signal {number} by descriptor": partial(pidfd_signal, number) for number in (1, 9, 15, 18, 19)},
    **{
        f"socket of family {family}": partial(has_socket, family)
        for family in range(3, 46)
        if family not in (socket.AF_INET6, socket.AF_NETLINK)
    },
}


def succeeds(attempt: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if attempt() else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    print(json.dumps({name: succeeds(attempt) for name, attempt in {**ATTEMPTS, **VARIATIONS}.items()}))
