"""A filter of system calls (seccomp).

It forbids sockets except connected pairs, tracing, namespaces, memory outside of the limits, leases on files, and
changes of CPU affinity; outside a PID namespace also signals to other processes.

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
"""Forbidden calls. io_uring would bypass this filter. The kernel stores System V objects, queues and keys: no limit
of a process counts them, and they may outlive it."""
ABSENT = ("clone3", "memfd_create", "memfd_secret")
"""Calls that seem to be missing, so that libraries use others. A filter cannot inspect the flags of `clone3`; the C
library then calls `clone`. A file in memory and in no folder counts only while it is open."""
IGNORED = ("sched_setaffinity",)
"""Calls that succeed without effect: only the suite assigns cores, so that a timed worker takes no other core.
Processor time alone would not show that: sleeping while inputs are made hides extra cores. An error would make
libraries fail that bind their threads."""
DRIVER_FILE, DRIVER_NAME = "memfd_create", "bind"
"""Calls that CUDA needs with NVIDIA's driver: driver 570 fails with error 304, "OS call failed"
(https://github.com/NVIDIA/OpenShell/issues/1696). Driver 580, on an H100, names a UNIX socket through which another
process might reach its memory; `connect` stays forbidden here."""
ITSELF = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64")
"""Outside a PID namespace: calls that a worker may make on itself only, with its PID as the first argument. Limits
of another process can end it, too."""
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
"""The kernel's name of each processor, and the numbers of its system calls."""
OTHER_CALLS = 0x40000000
"""Numbers from here on belong to x86_64's other calling convention (x32), which would bypass the filter."""

SET_OWNER, SET_OWNER_AS, SET_LEASE = 8, 15, 1024
"""Commands of `fcntl` (F_SETOWN, F_SETOWN_EX, F_SETLEASE): set the receiver of a file's signals; block programs that
open it for writing."""
OWNER_REQUESTS = (0x8901, 0x8902)
"""Requests of `ioctl` (FIOSETOWN, SIOCSPGRP) with the same effect as the first."""
CONNECTED, KIND_FLAGS = (int(socket.SOCK_STREAM), 5), 0o2004000
"""Kinds of sockets (the second is SOCK_SEQPACKET) that send only to their peer, unlike datagrams; and the flags of a
kind, SOCK_CLOEXEC and SOCK_NONBLOCK."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, KEEP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""Instructions: load a word of the call; jump if it equals a number, is at least that, or has any of its bits; clear
the other bits; return."""
NUMBER_AT, PROCESSOR_AT, ARGUMENTS_AT = 0, 4, 16
"""Offsets of these words of a call. Of the two words of an argument the kernel, too, reads the first."""
FILTER, SPECULATES = 1, 4
"""Setting a filter, and leaving the processor's speculation unchanged, which kernels before 5.16 would else
restrict: timed code would slow down."""
ALLOWED, FAILS = 0x7FFF0000, 0x00050000
REFUSED, UNKNOWN, PRETENDED = FAILS | errno.EPERM, FAILS | errno.ENOSYS, FAILS
"""The last one returns success without effect."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        *(("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8)),
        ("number", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


Instruction = tuple[int, int, int, int]
"""Its code, the instructions to skip if true and if false, and its number."""


def _within(space: Space) -> None:
    prctl(NO_NEW_PRIVILEGES, 1)
    program = instructions(platform.machine(), 0 if space.namespaced else os.getpid(), DRIVER.exists())
    _, numbers = NUMBERS[platform.machine()]
    structure = _Program(
        len(program), (_Instruction * len(program))(*(_Instruction(*instruction) for instruction in program))
    )
    kernel(numbers["seccomp"], FILTER, SPECULATES, ctypes.byref(structure))


def instructions(processor: str, process: int, driver: bool = False) -> Sequence[Instruction]:
    """The filter; with a PID it allows signals to that process only, with a `driver` the calls that CUDA needs.

    Raises OSError for an unknown processor.
    """
    if processor not in NUMBERS:
        raise OSError(f"the numbers of system calls of {processor} are unknown")
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
    """The rules of all calls that are not simply allowed."""
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
        rules["prlimit64"] = [_load(0), *_among((0, process), ALLOWED), _return(REFUSED)]  # 0 is the calling process
        rules["pidfd_send_signal"] = [_return(REFUSED)]
        rules["ioctl"] = [_load(1), *_among(OWNER_REQUESTS, REFUSED), _return(ALLOWED)]
    return rules


def _load(argument: int) -> Instruction:
    return LOAD, 0, 0, ARGUMENTS_AT + 8 * argument


def _return(result: int) -> Instruction:
    return RETURN, 0, 0, result


def _among(numbers: Sequence[int], result: int) -> Sequence[Instruction]:
    """Return `result` if the loaded word is one of these numbers."""
    return [instruction for number in numbers for instruction in _if((EQUAL, number), [_return(result)])]


def _if(test: tuple[int, int], then: Sequence[Instruction]) -> Sequence[Instruction]:
    code, number = test
    return [(code, 0, len(then), number), *then]


SECCOMP = Mechanism("seccomp", frozenset({Protection.NETWORK, Protection.SIGNALS}), within=_within)
