"""A filter of system calls (seccomp): no sockets but connected pairs, no tracing, no namespaces, no memory that no
limit counts, no leases on files, no other cores than those given; and outside a PID namespace nothing that signals
others.

Source: https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
from collections.abc import Mapping, Sequence

from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space
from attnsuite.worker.sandbox.namespaces import DRIVER
from attnsuite.worker.sandbox.system import NAMESPACES, NO_NEW_PRIVILEGES, kernel, prctl

FORBIDDEN = (
    *("socket", "connect", "bind", "io_uring_setup"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
    *("unshare", "setns", "mount"),
    *("shmget", "msgget", "semget", "mq_open", "add_key", "request_key", "keyctl"),
)
"""What a worker may not do. The ring of io_uring would do the same past this filter. What System V shares, queues
and keys are stored by the kernel: no limit of a process counts them, and they may outlive it."""
ABSENT = ("clone3", "memfd_create", "memfd_secret")
"""What the kernel seems not to have, so that libraries do without. A filter cannot look where the flags of `clone3`
lie; the C library calls `clone` instead. A file that is in memory and in no folder is counted only while it is open."""
IGNORED = ("sched_setaffinity",)
"""What seems to be done, and is not: the suite alone says on which cores a worker runs, so that one that is timed
takes no other core. Its processor time shows that only where it does nothing else: sleeping while inputs are made
gains twice the time. It is no error, because libraries that bind their threads take one for the end."""
DRIVER_FILE, DRIVER_NAME = "memfd_create", "bind"
"""What CUDA does not begin without where NVIDIA's driver is: driver 570 says error 304, "OS call failed"
(https://github.com/NVIDIA/OpenShell/issues/1696); driver 580, on an H100, makes a UNIX socket and gives it a name,
under which another process might ask for its memory. No process here can, because `connect` stays forbidden."""
ITSELF = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64")
"""Outside a PID namespace: what a worker may do to itself alone, whose number stands first among the arguments.
Limits of another process end it, too."""
_NEW = {"pidfd_send_signal": 424, "io_uring_setup": 425, "clone3": 435, "pidfd_getfd": 438, "memfd_secret": 447}
"""Calls whose number is the same on every processor."""
NUMBERS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        _NEW | {"seccomp": 317, "socket": 41, "connect": 42, "bind": 49, "socketpair": 53, "ptrace": 101,
                "process_vm_readv": 310, "process_vm_writev": 311, "clone": 56, "unshare": 272, "setns": 308,
                "mount": 165, "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129,
                "rt_tgsigqueueinfo": 297, "prlimit64": 302, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
                "add_key": 248, "request_key": 249, "keyctl": 250, "memfd_create": 319, "fcntl": 72, "ioctl": 16,
                "sched_setaffinity": 203},
    ),
    "aarch64": (
        0xC00000B7,
        _NEW | {"seccomp": 277, "socket": 198, "connect": 203, "bind": 200, "socketpair": 199, "ptrace": 117,
                "process_vm_readv": 270, "process_vm_writev": 271, "clone": 220, "unshare": 97, "setns": 268,
                "mount": 40, "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138,
                "rt_tgsigqueueinfo": 240, "prlimit64": 261, "shmget": 194, "msgget": 186, "semget": 190, "mq_open": 180,
                "add_key": 217, "request_key": 218, "keyctl": 219, "memfd_create": 279, "fcntl": 25, "ioctl": 29,
                "sched_setaffinity": 122},
    ),
}  # fmt: skip
"""How the kernel calls each processor and, of each, the numbers of its system calls."""
OTHER_CALLS = 0x40000000
"""Numbers from here on are those of x86_64's other calling convention (x32), by which the same could be had."""

SET_OWNER, SET_OWNER_AS, SET_LEASE = 8, 15, 1024
"""Commands of `fcntl` (F_SETOWN, F_SETOWN_EX, F_SETLEASE): say who gets a file's signals; hold up programs that open
it to write."""
OWNER_REQUESTS = (0x8901, 0x8902)
"""Requests of `ioctl` (FIOSETOWN, SIOCSPGRP) that do the same as the first."""
CONNECTED, KIND_FLAGS = (int(socket.SOCK_STREAM), 5), 0o2004000
"""Kinds of sockets (the other is SOCK_SEQPACKET) that send only where they are connected: a datagram goes anywhere.
And the flags that may be added to a kind, SOCK_CLOEXEC and SOCK_NONBLOCK."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, KEEP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""Instructions: load a word of the call; jump if it is equal to a number, at least that, or has any of its bits; set
the other bits to zero; return."""
NUMBER_AT, PROCESSOR_AT, ARGUMENTS_AT = 0, 4, 16
"""Where these words of a call stand. Of the two words of an argument the kernel, too, reads the first."""
FILTER, SPECULATES = 1, 4
"""To set a filter, and to leave the processor's speculation as it is. Kernels before 5.16 would curb that otherwise,
which slows down what is timed."""
ALLOWED, FAILS = 0x7FFF0000, 0x00050000
REFUSED, UNKNOWN, PRETENDED = FAILS | errno.EPERM, FAILS | errno.ENOSYS, FAILS
"""The last fails with no error at all, so that the caller takes it for done."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        *(("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8)),
        ("number", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


Instruction = tuple[int, int, int, int]
"""Its code, how many to skip where it is true and where not, and its number."""


def _within(space: Space) -> None:
    prctl(NO_NEW_PRIVILEGES, 1)
    program = instructions(platform.machine(), 0 if space.namespaced else os.getpid(), DRIVER.exists())
    _, numbers = NUMBERS[platform.machine()]
    structure = _Program(
        len(program), (_Instruction * len(program))(*(_Instruction(*instruction) for instruction in program))
    )
    kernel(numbers["seccomp"], FILTER, SPECULATES, ctypes.byref(structure))


def instructions(processor: str, process: int, driver: bool = False) -> Sequence[Instruction]:
    """The filter; with a process's number it may signal that one alone, with a `driver` it may do what CUDA needs.

    Raises OSError for a processor that is not known.
    """
    if processor not in NUMBERS:
        raise OSError(f"the numbers of the system calls of {processor} are not known here")
    name, numbers = NUMBERS[processor]
    return [
        *((LOAD, 0, 0, PROCESSOR_AT), (EQUAL, 1, 0, name), _return(REFUSED), (LOAD, 0, 0, NUMBER_AT)),
        *((AT_LEAST, 0, 1, OTHER_CALLS), _return(REFUSED)),
        *(
            instruction
            for call, rule in _rules(process, driver).items()
            for instruction in _if((EQUAL, numbers[call]), rule)
        ),
        _return(ALLOWED),
    ]


def _rules(process: int, driver: bool) -> dict[str, Sequence[Instruction]]:
    """What is done at each call that is not simply allowed."""
    kind = [_load(1), (KEEP_BITS, 0, 0, 0xFFFFFFFF & ~KIND_FLAGS), *_among(CONNECTED, ALLOWED), _return(REFUSED)]
    rules: dict[str, Sequence[Instruction]] = {
        **{call: [_return(REFUSED)] for call in FORBIDDEN},
        **{call: [_return(UNKNOWN)] for call in ABSENT},
        **{call: [_return(PRETENDED)] for call in IGNORED},
        "clone": [_load(0), *_if((ANY_BIT, NAMESPACES), [_return(REFUSED)]), _return(ALLOWED)],
        "fcntl": [
            _load(1),
            *_among((SET_LEASE, *(SET_OWNER, SET_OWNER_AS) * bool(process)), REFUSED),
            _return(ALLOWED),
        ],
        "socketpair": [_load(0), *_if((EQUAL, socket.AF_UNIX), kind), _return(REFUSED)],
    }
    if driver:
        rules |= {DRIVER_FILE: [_return(ALLOWED)], DRIVER_NAME: [_return(ALLOWED)], "socket": rules["socketpair"]}
    if process:
        rules |= {call: [_load(0), *_among((process,), ALLOWED), _return(REFUSED)] for call in ITSELF}
        rules["prlimit64"] = [_load(0), *_among((0, process), ALLOWED), _return(REFUSED)]  # 0 is the process that calls
        rules["pidfd_send_signal"] = [_return(REFUSED)]
        rules["ioctl"] = [_load(1), *_among(OWNER_REQUESTS, REFUSED), _return(ALLOWED)]
    return rules


def _load(argument: int) -> Instruction:
    return LOAD, 0, 0, ARGUMENTS_AT + 8 * argument


def _return(result: int) -> Instruction:
    return RETURN, 0, 0, result


def _among(numbers: Sequence[int], result: int) -> Sequence[Instruction]:
    """Return this where the word that was loaded is one of these."""
    return [instruction for number in numbers for instruction in _if((EQUAL, number), [_return(result)])]


def _if(test: tuple[int, int], then: Sequence[Instruction]) -> Sequence[Instruction]:
    code, number = test
    return [(code, 0, len(then), number), *then]


SECCOMP = Mechanism("seccomp", frozenset({Protection.NETWORK, Protection.SIGNALS}), within=_within)
