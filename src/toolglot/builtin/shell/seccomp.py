"""The system calls that a command may not make, as a classic BPF program for seccomp.

A call of a foreign architecture kills the process, because the same call has other numbers there. Calls whose arguments the
filter cannot inspect (clone3, io_uring) do not exist for the command. Sockets of other families than the allowed ones are
refused, so that a socket of the host is no way out, whatever is mounted.
"""

import errno
import struct
from collections.abc import Iterable
from typing import Final

__all__ = ["AF_INET", "AF_INET6", "AF_NETLINK", "MACHINES", "build_seccomp_filter"]

AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16
_STREAM, _SEQPACKET = 1, 5  # a datagram socket of a pair could be sent to any address afterwards
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # they type into a terminal as if its user did
_CLONE_NAMESPACES = 0x7E020000  # all CLONE_NEW* flags but CLONE_NEWTIME: a new user namespace would give capabilities back
_CLONE_NEWTIME = 0x80
_X32_BIT = 0x40000000  # the x32 ABI has the same architecture number, and other system call numbers

# Opcodes of classic BPF (linux/bpf_common.h), seccomp return values, and offsets in struct seccomp_data (linux/seccomp.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


def _parse_numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, number in (pair.split("=") for pair in text.split())}


_COMMON_SYSCALLS: Final = _parse_numbers(
    "io_uring_setup=425 io_uring_enter=426 io_uring_register=427 open_tree=428 move_mount=429 fsopen=430 fsconfig=431 "
    "fsmount=432 fspick=433 clone3=435 pidfd_getfd=438 process_madvise=440 mount_setattr=442 quotactl_fd=443 open_tree_attr=467"
)
_X86_SYSCALLS: Final = _parse_numbers(
    "ioctl=16 socket=41 socketpair=53 clone=56 truncate=76 ptrace=101 syslog=103 uselib=134 vhangup=153 pivot_root=155 "
    "adjtimex=159 chroot=161 acct=163 settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 sethostname=170 "
    "setdomainname=171 iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176 quotactl=179 nfsservctl=180 "
    "lookup_dcookie=212 clock_settime=227 kexec_load=246 add_key=248 request_key=249 keyctl=250 unshare=272 "
    "perf_event_open=298 open_by_handle_at=304 clock_adjtime=305 setns=308 process_vm_readv=310 process_vm_writev=311 kcmp=312 "
    "finit_module=313 kexec_file_load=320 bpf=321 userfaultfd=323"
)
_ARM_SYSCALLS: Final = _parse_numbers(
    "lookup_dcookie=18 ioctl=29 umount2=39 mount=40 pivot_root=41 nfsservctl=42 truncate=45 chroot=51 vhangup=58 quotactl=60 "
    "acct=89 unshare=97 kexec_load=104 init_module=105 delete_module=106 clock_settime=112 syslog=116 ptrace=117 reboot=142 "
    "sethostname=161 setdomainname=162 settimeofday=170 adjtimex=171 socket=198 socketpair=199 add_key=217 request_key=218 "
    "keyctl=219 clone=220 swapon=224 swapoff=225 perf_event_open=241 open_by_handle_at=265 clock_adjtime=266 setns=268 "
    "process_vm_readv=270 process_vm_writev=271 kcmp=272 finit_module=273 bpf=280 userfaultfd=282 kexec_file_load=294"
)
MACHINES: Final = {
    "x86_64": (0xC000003E, {**_X86_SYSCALLS, **_COMMON_SYSCALLS}),
    "aarch64": (0xC00000B7, {**_ARM_SYSCALLS, **_COMMON_SYSCALLS}),
}
"""`platform.machine()` -> the kernel's AUDIT_ARCH number, and the numbers of its system calls."""
_INSPECTED_SYSCALLS = frozenset({"ioctl", "socket", "socketpair", "clone", "unshare", "truncate"})
# ENOSYS makes the C library fall back to the older call: clone instead of clone3.
_HIDDEN_SYSCALLS = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})

Instruction = tuple[int, int, int, int]
"""Opcode, instructions to skip if a test is true, and if it is false, operand."""


def build_seccomp_filter(machine: str, families: Iterable[int], *, may_truncate: bool = True) -> bytes:
    """Return the program. `families`: allowed sockets. `may_truncate`: truncate(2), which an old Landlock does not check."""
    architecture, numbers = MACHINES[machine]
    program: list[Instruction] = [_load(_ARCHITECTURE), _instruction(_EQUAL, architecture, 1, 0), _return(_KILL)]
    program.append(_load(_NUMBER))
    if machine == "x86_64":
        program += [_instruction(_AT_LEAST, _X32_BIT, 0, 1), _return(_KILL)]
    for name, number in numbers.items():
        if name not in _INSPECTED_SYSCALLS or (name == "truncate" and not may_truncate):
            program += [_instruction(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS if name in _HIDDEN_SYSCALLS else errno.EPERM)]
    program += _allow_values(numbers["socket"], 0, 0xFFFFFFFF, families)
    program += _allow_values(numbers["socketpair"], 1, 0xF, (_STREAM, _SEQPACKET))
    program += _deny_bits(numbers["clone"], _CLONE_NAMESPACES)
    program += _deny_bits(numbers["unshare"], _CLONE_NAMESPACES | _CLONE_NEWTIME)
    ioctl = [_load(_ARGUMENTS + 8)]
    for request in (_TIOCSTI, _TIOCLINUX):
        ioctl += [_instruction(_EQUAL, request, 0, 1), _refuse(errno.EPERM)]
    program += _for_syscall(numbers["ioctl"], [*ioctl, _return(_ALLOW)])
    program.append(_return(_ALLOW))
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in program)


def _allow_values(number: int, argument: int, mask: int, values: Iterable[int]) -> list[Instruction]:
    """Refuse a call unless its argument, masked, is one of the values."""
    body = [_load(_ARGUMENTS + 8 * argument), _instruction(_AND, mask)]
    for value in values:
        body += [_instruction(_EQUAL, value, 0, 1), _return(_ALLOW)]
    return _for_syscall(number, [*body, _refuse(errno.EPERM)])


def _deny_bits(number: int, bits: int) -> list[Instruction]:
    """Refuse a call whose first argument has any of the bits."""
    body = [_load(_ARGUMENTS), _instruction(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM), _return(_ALLOW)]
    return _for_syscall(number, body)


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
