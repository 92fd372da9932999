"""The system calls that a command may not make, as a classic BPF program for seccomp.

A call of a foreign architecture kills the process, because the same call has other numbers there. Calls whose
arguments the filter cannot inspect (clone3, io_uring) do not exist for the command. Sockets of other families
than the allowed ones are refused, so that a socket of the host is no way out, whatever is mounted. Files that
run with their owner's rights (set-uid, set-gid) cannot be made. Without namespaces of its own, a command may
change limits and scheduling of no other process, and has no System V IPC, as these belong to the user's other
programs, too; and calls that change modes, owners and times of files go to its supervisor, as Landlock does
not restrict them.
"""

import errno
import struct
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["AF_INET", "AF_INET6", "AF_NETLINK", "MACHINES", "METADATA_CALLS", "build_seccomp_filter"]

AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16
_STREAM, _SEQPACKET = 1, 5  # a datagram socket of a pair could be sent to any address afterwards
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # they type into a terminal as if its user did
# all CLONE_NEW* flags but CLONE_NEWTIME: a new user namespace would give capabilities back
_CLONE_NAMESPACES = 0x7E020000
_CLONE_NEWTIME = 0x80
_SET_ID_BITS = 0o6000
_CREATING = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: without them, open(2) has no mode
_X32_BIT = 0x40000000  # the x32 ABI has the same architecture number, and other system call numbers

# Opcodes of classic BPF (linux/bpf_common.h), seccomp return values, and offsets in struct seccomp_data
# (linux/seccomp.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def _parse_numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


_COMMON_SYSCALLS: Final = _parse_numbers(
    "io_uring_setup=425 io_uring_enter=426 io_uring_register=427 open_tree=428 move_mount=429 fsopen=430 "
    "fsconfig=431 "
    "fsmount=432 fspick=433 clone3=435 openat2=437 pidfd_getfd=438 process_madvise=440 mount_setattr=442 "
    "quotactl_fd=443 "
    "fchmodat2=452 setxattrat=463 removexattrat=466 open_tree_attr=467 file_setattr=469"
)
_X86_SYSCALLS: Final = _parse_numbers(
    "open=2 ioctl=16 shmget=29 shmat=30 shmctl=31 socket=41 socketpair=53 clone=56 semget=64 semop=65 "
    "semctl=66 shmdt=67 "
    "msgget=68 msgsnd=69 msgrcv=70 msgctl=71 truncate=76 creat=85 chmod=90 fchmod=91 chown=92 fchown=93 "
    "lchown=94 ptrace=101 "
    "syslog=103 utime=132 mknod=133 uselib=134 setpriority=141 sched_setparam=142 sched_setscheduler=144 "
    "vhangup=153 "
    "pivot_root=155 adjtimex=159 chroot=161 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167 "
    "swapoff=168 reboot=169 "
    "sethostname=170 setdomainname=171 iopl=172 ioperm=173 create_module=174 init_module=175 "
    "delete_module=176 quotactl=179 "
    "nfsservctl=180 setxattr=188 lsetxattr=189 fsetxattr=190 removexattr=197 lremovexattr=198 "
    "fremovexattr=199 "
    "sched_setaffinity=203 lookup_dcookie=212 semtimedop=220 clock_settime=227 utimes=235 mq_open=240 "
    "mq_unlink=241 "
    "kexec_load=246 add_key=248 request_key=249 keyctl=250 ioprio_set=251 openat=257 mknodat=259 "
    "fchownat=260 futimesat=261 "
    "fchmodat=268 unshare=272 utimensat=280 perf_event_open=298 prlimit64=302 open_by_handle_at=304 "
    "clock_adjtime=305 "
    "setns=308 process_vm_readv=310 process_vm_writev=311 kcmp=312 finit_module=313 sched_setattr=314 "
    "kexec_file_load=320 "
    "bpf=321 userfaultfd=323"
)
_ARM_SYSCALLS: Final = _parse_numbers(
    "setxattr=5 lsetxattr=6 fsetxattr=7 removexattr=14 lremovexattr=15 fremovexattr=16 lookup_dcookie=18 "
    "ioctl=29 "
    "ioprio_set=30 mknodat=33 umount2=39 mount=40 pivot_root=41 nfsservctl=42 truncate=45 chroot=51 "
    "fchmod=52 fchmodat=53 "
    "fchownat=54 fchown=55 openat=56 vhangup=58 quotactl=60 utimensat=88 acct=89 unshare=97 kexec_load=104 "
    "init_module=105 "
    "delete_module=106 clock_settime=112 syslog=116 ptrace=117 sched_setparam=118 sched_setscheduler=119 "
    "sched_setaffinity=122 setpriority=140 reboot=142 sethostname=161 setdomainname=162 settimeofday=170 "
    "adjtimex=171 "
    "mq_open=180 mq_unlink=181 msgget=186 msgctl=187 msgrcv=188 msgsnd=189 semget=190 semctl=191 "
    "semtimedop=192 semop=193 "
    "shmget=194 shmctl=195 shmat=196 shmdt=197 socket=198 socketpair=199 add_key=217 request_key=218 "
    "keyctl=219 clone=220 "
    "swapon=224 swapoff=225 perf_event_open=241 prlimit64=261 open_by_handle_at=265 clock_adjtime=266 "
    "setns=268 "
    "process_vm_readv=270 process_vm_writev=271 kcmp=272 finit_module=273 sched_setattr=274 bpf=280 "
    "userfaultfd=282 "
    "kexec_file_load=294"
)
MACHINES: Final = {
    "x86_64": (0xC000003E, {**_X86_SYSCALLS, **_COMMON_SYSCALLS}),
    "aarch64": (0xC00000B7, {**_ARM_SYSCALLS, **_COMMON_SYSCALLS}),
}
"""`platform.machine()` -> the kernel's AUDIT_ARCH number, and the numbers of its system calls."""
# The error of a call that is refused, if it is not EPERM. ENOSYS makes the C library fall back to the older
# call, whose arguments can be inspected: clone instead of clone3. EOPNOTSUPP is what a file system without
# extended attributes says.
_ERRORS = {
    **dict.fromkeys(
        ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register"), errno.ENOSYS
    ),
    **dict.fromkeys(("setxattrat", "removexattrat", "file_setattr"), errno.ENOSYS),
    **dict.fromkeys(
        ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
        errno.EOPNOTSUPP,
    ),
}
# What reaches the user's other programs and files if a command has no namespaces of its own.
_SHARED_CALLS = frozenset(
    {
        *("shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop"),
        *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
        *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
        *("setxattrat", "removexattrat", "file_setattr"),
    }
)
# FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY
_SHARED_IOCTLS = (0x40086602, 0x401C5820, 0x40806685)
METADATA_CALLS = frozenset(
    {
        *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
        *("utime", "utimes", "futimesat", "utimensat"),
    }
)
"""Calls that the supervisor carries out for a command without namespaces of its own."""
# Call -> the argument with the mode of a file.
_MODE_ARGUMENTS = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
}
_OPEN_FLAGS = {"open": 1, "openat": 2}  # call -> the argument with the flags; the mode follows it
# Call -> the values that its first arguments need, so that it is about the calling process: 0 is oneself;
# setpriority and ioprio_set take first what the number means, and 0 or 1 is a process there.
_ABOUT_ITSELF: dict[str, tuple[int, ...]] = {
    "prlimit64": (0,),
    "sched_setparam": (0,),
    "sched_setscheduler": (0,),
    "sched_setaffinity": (0,),
    "sched_setattr": (0,),
    "setpriority": (0, 0),
    "ioprio_set": (1, 0),
}
_INSPECTED_SYSCALLS = frozenset(
    {
        *("ioctl", "socket", "socketpair", "clone", "unshare"),
        *METADATA_CALLS,
        *_MODE_ARGUMENTS,
        *_OPEN_FLAGS,
        *_ABOUT_ITSELF,
    }
)

Instruction = tuple[int, int, int, int]
"""Opcode, instructions to skip if a test is true, and if it is false, operand."""


def build_seccomp_filter(
    machine: str, families: Iterable[int], *, private: bool, may_truncate: bool = True
) -> bytes:
    """Return the program.

    Args:
        machine: As `platform.machine()` says it.
        families: Sockets that are allowed.
        private: The command has namespaces of its own: it reaches no other processes, and no IPC of theirs.
        may_truncate: Allow truncate(2), which an old Landlock does not check.
    """
    architecture, numbers = MACHINES[machine]
    program: list[Instruction] = [
        _load(_ARCHITECTURE),
        _instruction(_EQUAL, architecture, 1, 0),
        _return(_KILL),
    ]
    program.append(_load(_NUMBER))
    if machine == "x86_64":
        program += [_instruction(_AT_LEAST, _X32_BIT, 0, 1), _return(_KILL)]
    allowed = set(_INSPECTED_SYSCALLS)
    if private:
        allowed |= _SHARED_CALLS
    if may_truncate:
        allowed.add("truncate")
    for name, number in numbers.items():
        if name not in allowed:
            program += [_instruction(_EQUAL, number, 0, 1), _refuse(_ERRORS.get(name, errno.EPERM))]
    program += _allow_values(numbers["socket"], 0, 0xFFFFFFFF, families)
    program += _allow_values(numbers["socketpair"], 1, 0xF, (_STREAM, _SEQPACKET))
    program += _deny_bits(numbers["clone"], 0, _CLONE_NAMESPACES)
    program += _deny_bits(numbers["unshare"], 0, _CLONE_NAMESPACES | _CLONE_NEWTIME)
    ioctl = [_load(_ARGUMENTS + 8)]
    refused = (_TIOCSTI, _TIOCLINUX) if private else (_TIOCSTI, _TIOCLINUX, *_SHARED_IOCTLS)
    for request in refused:
        ioctl += [_instruction(_EQUAL, request, 0, 1), _refuse(errno.EPERM)]
    program += _for_syscall(numbers["ioctl"], [*ioctl, _return(_ALLOW)])
    program += _check_metadata(numbers, private=private)
    program += _check_new_files(numbers)
    if not private:
        program += _check_itself(numbers)
    program.append(_return(_ALLOW))
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in program)


def _check_metadata(numbers: Mapping[str, int], *, private: bool) -> list[Instruction]:
    """Refuse set-user-id bits. Without namespaces, the supervisor decides about modes, owners and times."""
    program: list[Instruction] = []
    for name in numbers.keys() & (_MODE_ARGUMENTS.keys() | METADATA_CALLS):
        is_forwarded = name in METADATA_CALLS and not private
        verdict = _return(_NOTIFY if is_forwarded else _ALLOW)
        argument = _MODE_ARGUMENTS.get(name)
        if argument is None:
            program += _for_syscall(numbers[name], [verdict])
        else:
            program += _deny_bits(numbers[name], argument, _SET_ID_BITS, verdict)
    return program


def _check_new_files(numbers: Mapping[str, int]) -> list[Instruction]:
    """Refuse to create a file with set-user-id bits."""
    program: list[Instruction] = []
    for name, argument in _OPEN_FLAGS.items():
        if name in numbers:  # arm64 has only the calls that take a directory
            mode = [
                _load(_ARGUMENTS + 8 * argument + 8),
                _instruction(_ANY_BIT, _SET_ID_BITS, 0, 1),
                _refuse(errno.EPERM),
            ]
            creates = [_load(_ARGUMENTS + 8 * argument), _instruction(_ANY_BIT, _CREATING, 0, len(mode))]
            program += _for_syscall(numbers[name], [*creates, *mode, _return(_ALLOW)])
    return program


def _check_itself(numbers: Mapping[str, int]) -> list[Instruction]:
    """Refuse calls about another process than the one that makes them."""
    program: list[Instruction] = []
    for name, values in _ABOUT_ITSELF.items():
        body: list[Instruction] = []
        for argument, value in enumerate(values):
            body += [
                _load(_ARGUMENTS + 8 * argument),
                _instruction(_EQUAL, value, 1, 0),
                _refuse(errno.EPERM),
            ]
        program += _for_syscall(numbers[name], [*body, _return(_ALLOW)])
    return program


def _allow_values(number: int, argument: int, mask: int, values: Iterable[int]) -> list[Instruction]:
    """Refuse a call unless its argument, masked, is one of the values."""
    body = [_load(_ARGUMENTS + 8 * argument), _instruction(_AND, mask)]
    for value in values:
        body += [_instruction(_EQUAL, value, 0, 1), _return(_ALLOW)]
    return _for_syscall(number, [*body, _refuse(errno.EPERM)])


def _deny_bits(
    number: int, argument: int, bits: int, verdict: Instruction | None = None
) -> list[Instruction]:
    """Refuse a call whose argument has any of the bits; otherwise allow it, or give another verdict."""
    body = [_load(_ARGUMENTS + 8 * argument), _instruction(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM)]
    return _for_syscall(number, [*body, verdict or _return(_ALLOW)])


def _for_syscall(number: int, body: list[Instruction]) -> list[Instruction]:
    # A jump skips at most 255 instructions: the bodies are far shorter.
    return [_instruction(_EQUAL, number, 0, len(body)), *body]


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> Instruction:
    return code, yes, no, value


def _load(offset: int) -> Instruction:
    # The lower 32 bits of a value; both machines are little-endian and store them first.
    return _instruction(_LOAD, offset)


def _return(value: int) -> Instruction:
    return _instruction(_RETURN, value)


def _refuse(number: int) -> Instruction:
    return _return(_ERROR | number)
