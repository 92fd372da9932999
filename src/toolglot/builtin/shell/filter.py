"""The system calls that a command may not make, as a program for the kernel's filter (classic BPF, as seccomp takes it).

Laws: a call of another architecture ends the process, so that no number can be said in another way. What the filter cannot look
into (clone3, io_uring) does not exist for the command. Whoever asks for a socket of a kind that is not named gets none: a path
to a socket of the host is no way out, whatever is mounted.
"""

import errno
import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX", "MACHINES", "filter_program"]

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5  # of a pair: the other kinds can be sent to any address afterwards
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into somebody's terminal
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where they are in what the filter sees


def _names(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


_COMMON: Final = _names(
    "io_uring_setup=425 io_uring_enter=426 io_uring_register=427 open_tree=428 move_mount=429 fsopen=430 fsconfig=431 "
    "fsmount=432 fspick=433 clone3=435 pidfd_getfd=438 process_madvise=440 mount_setattr=442 quotactl_fd=443 open_tree_attr=467"
)
_X86: Final = _names(
    "ioctl=16 socket=41 socketpair=53 clone=56 truncate=76 ptrace=101 syslog=103 uselib=134 vhangup=153 pivot_root=155 "
    "adjtimex=159 chroot=161 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 sethostname=170 "
    "setdomainname=171 iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176 quotactl=179 nfsservctl=180 "
    "lookup_dcookie=212 clock_settime=227 kexec_load=246 add_key=248 request_key=249 keyctl=250 unshare=272 "
    "perf_event_open=298 open_by_handle_at=304 clock_adjtime=305 setns=308 process_vm_readv=310 process_vm_writev=311 kcmp=312 "
    "finit_module=313 kexec_file_load=320 bpf=321 userfaultfd=323"
)
_ARM: Final = _names(
    "lookup_dcookie=18 ioctl=29 umount2=39 mount=40 pivot_root=41 nfsservctl=42 truncate=45 chroot=51 vhangup=58 quotactl=60 "
    "acct=89 unshare=97 kexec_load=104 init_module=105 delete_module=106 clock_settime=112 syslog=116 ptrace=117 reboot=142 "
    "sethostname=161 setdomainname=162 settimeofday=170 adjtimex=171 socket=198 socketpair=199 add_key=217 request_key=218 "
    "keyctl=219 clone=220 swapon=224 swapoff=225 perf_event_open=241 open_by_handle_at=265 clock_adjtime=266 setns=268 "
    "process_vm_readv=270 process_vm_writev=271 kcmp=272 finit_module=273 bpf=280 userfaultfd=282 kexec_file_load=294"
)
MACHINES: Final = {
    "x86_64": (0xC000003E, {**_X86, **_COMMON}),
    "aarch64": (0xC00000B7, {**_ARM, **_COMMON}),
}
"""As `platform.machine()` says it: the kernel's number of the architecture, and numbers of system calls."""
_LOOKED_INTO = frozenset({"ioctl", "socket", "socketpair", "clone", "unshare", "truncate"})
_ABSENT = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})  # programs have another way

Step = tuple[int, int, int, int]


def filter_program(machine: str, families: Iterable[int], *, may_truncate: bool = True) -> bytes:
    """The program for a machine. `families`: kinds of sockets that a command may have. `may_truncate`: files by their paths."""
    architecture, numbers = MACHINES[machine]
    steps: list[Step] = [_load(_ARCHITECTURE), _step(_EQUAL, architecture, 1, 0), _return(_KILL), _load(_NUMBER)]
    if machine == "x86_64":
        steps += [_step(_AT_LEAST, _X32, 0, 1), _return(_KILL)]
    for name, number in numbers.items():
        if name not in _LOOKED_INTO or (name == "truncate" and not may_truncate):
            steps += [_step(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS if name in _ABSENT else errno.EPERM)]
    steps += _only(numbers["socket"], 0, 0xFFFFFFFF, families)
    steps += _only(numbers["socketpair"], 1, 0xF, (_STREAM, _SEQPACKET))
    steps += _none_of_bits(numbers["clone"], _NEW_NAMESPACES)
    steps += _none_of_bits(numbers["unshare"], _NEW_NAMESPACES | _NEW_TIME)
    steps += _never(numbers["ioctl"], 1, (_TIOCSTI, _TIOCLINUX))
    steps.append(_return(_ALLOW))
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in steps)


def _only(number: int, argument: int, mask: int, values: Iterable[int]) -> list[Step]:
    """A call whose argument must be one of a few."""
    inside = [_load(_ARGUMENTS + 8 * argument), _step(_AND, mask)]
    for value in values:
        inside += [_step(_EQUAL, value, 0, 1), _return(_ALLOW)]
    return _of_call(number, [*inside, _refuse(errno.EPERM)])


def _never(number: int, argument: int, values: Iterable[int]) -> list[Step]:
    """A call whose argument must be none of a few."""
    inside = [_load(_ARGUMENTS + 8 * argument)]
    for value in values:
        inside += [_step(_EQUAL, value, 0, 1), _refuse(errno.EPERM)]
    return _of_call(number, [*inside, _return(_ALLOW)])


def _none_of_bits(number: int, bits: int) -> list[Step]:
    return _of_call(number, [_load(_ARGUMENTS), _step(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM), _return(_ALLOW)])


def _of_call(number: int, inside: list[Step]) -> list[Step]:
    return [_step(_EQUAL, number, 0, len(inside)), *inside]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> Step:
    return code, yes, no, value


def _load(offset: int) -> Step:
    """The lower half of a value; both machines keep it first."""
    return _step(_LOAD, offset)


def _return(value: int) -> Step:
    return _step(_RETURN, value)


def _refuse(number: int) -> Step:
    return _return(_ERROR | number)
