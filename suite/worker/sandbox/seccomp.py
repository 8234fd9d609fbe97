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

from attnsuite.worker.sandbox.processes import DRIVER
from attnsuite.worker.sandbox.system import NAMESPACES, NO_NEW_PRIVILEGES, kernel, prctl
from attnsuite.worker.sandbox.wall import Keeps, Room, Wall

ALWAYS = (
    *("socket", "connect", "bind", "io_uring_setup"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
    *("unshare", "setns", "mount"),
    *("shmget", "msgget", "semget", "mq_open", "add_key", "request_key", "keyctl"),
)
"""What a worker may not do. The ring of io_uring would do the same without being asked. What System V shares, queues
and keys are kept by the kernel: no limit of a process counts them, and they may outlive it."""
ABSENT = ("clone3", "memfd_create", "memfd_secret")
"""What the kernel seems not to have, so that libraries do without. A filter cannot look where the flags of `clone3`
lie; the C library calls `clone` instead. A file that is in memory and in no folder is counted only while it is open."""
PRETENDED = ("sched_setaffinity",)
"""What seems to be done, and is not: the suite alone says on which cores a worker runs, so that who is timed on one
takes no other. Its processor time tells that only where it does nothing else: who sleeps while his inputs are made has
twice the time for what is timed. It is no error, for libraries that bind their threads take one for the end."""
OF_DRIVER = "memfd_create"
"""What CUDA does not begin without where NVIDIA's driver is: driver 570 says error 304, "OS call failed"
(https://github.com/NVIDIA/OpenShell/issues/1696)."""
NAMED_BY_DRIVER = "bind"
"""What driver 580 does not begin without either, seen on an H100: it makes a UNIX socket, and gives it a name, under
which another process might ask for its memory. Nobody can: to connect stays refused."""
ONLY_ITSELF = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64")
"""Outside a PID namespace: what a worker may do to itself alone, whose number stands first among the arguments. Limits
of another process end it, too."""
NOBODY, SIGNALLED = "pidfd_send_signal", "ioctl"
"""Outside a PID namespace: what it may not do at all, and what names by some requests who is signalled."""
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
"""Commands of `fcntl` (F_SETOWN, F_SETOWN_EX, F_SETLEASE): say who gets a file's signals; hold up who opens it to
write."""
SIGNALLED_BY = (0x8901, 0x8902)
"""Requests of `ioctl` (FIOSETOWN, SIOCSPGRP) that say the same as the first."""
CONNECTED = (int(socket.SOCK_STREAM), 5)
"""Kinds of sockets (the other is SOCK_SEQPACKET) that send only where they are connected. A datagram goes anywhere."""
HOW_OPENED = 0o2004000
"""Flags beside the kind: SOCK_CLOEXEC and SOCK_NONBLOCK."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, KEEP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""Instructions: load a word of what is asked for; jump if it is equal to a number, at least that, or has any of its
bits; set the other bits to zero; return."""
NUMBER_AT, PROCESSOR_AT, ARGUMENTS_AT = 0, 4, 16
"""Where in what is asked for these words stand. Of the two words of an argument the kernel, too, reads the first."""
FILTER, SPECULATES = 1, 4
"""To set a filter, and to leave the processor's speculation as it is. Kernels before 5.16 would curb that otherwise,
which slows down what is timed."""
ALLOWED, FAILS = 0x7FFF0000, 0x00050000
REFUSED, UNKNOWN, NOT_DONE = FAILS | errno.EPERM, FAILS | errno.ENOSYS, FAILS
"""The last fails with no error at all, so that whoever asked takes it for done."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        *(("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8)),
        ("number", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction)))


Instruction = tuple[int, int, int, int]
"""Its code, how many to skip where it is true and where not, and its number."""


def _within(room: Room) -> None:
    prctl(NO_NEW_PRIVILEGES, 1)
    program = instructions(platform.machine(), 0 if room.namespaced else os.getpid(), DRIVER.exists())
    _, numbers = NUMBERS[platform.machine()]
    given = _Program(len(program), (_Instruction * len(program))(*(_Instruction(*each) for each in program)))
    kernel(numbers["seccomp"], FILTER, SPECULATES, ctypes.byref(given))


def instructions(processor: str, process: int, driver: bool = False) -> Sequence[Instruction]:
    """The filter; with a process's number it may signal that one alone, with a `driver` it may do what CUDA needs.

    Raises OSError for a processor that is not known.
    """
    if processor not in NUMBERS:
        raise OSError(f"the numbers of the system calls of {processor} are not known here")
    named, numbers = NUMBERS[processor]
    return [
        *((LOAD, 0, 0, PROCESSOR_AT), (EQUAL, 1, 0, named), _answer(REFUSED), (LOAD, 0, 0, NUMBER_AT)),
        *((AT_LEAST, 0, 1, OTHER_CALLS), _answer(REFUSED)),
        *(each for call, answer in _answers(process, driver).items() for each in _if((EQUAL, numbers[call]), answer)),
        _answer(ALLOWED),
    ]


def _answers(process: int, driver: bool) -> dict[str, Sequence[Instruction]]:
    """What is done at each call that is not simply allowed."""
    owners = (SET_OWNER, SET_OWNER_AS) if process else ()
    answers: dict[str, Sequence[Instruction]] = {
        **{call: [_answer(REFUSED)] for call in ALWAYS},
        **{call: [_answer(UNKNOWN)] for call in ABSENT if not (driver and call == OF_DRIVER)},
        **{call: [_answer(NOT_DONE)] for call in PRETENDED},
        "clone": [_argument(0), *_if((ANY_BIT, NAMESPACES), [_answer(REFUSED)]), _answer(ALLOWED)],
        "fcntl": [_argument(1), *_among((SET_LEASE, *owners), REFUSED), _answer(ALLOWED)],
        "socketpair": [_argument(0), *_if((EQUAL, socket.AF_UNIX), _connected()), _answer(REFUSED)],
    }
    if driver:
        answers["socket"] = answers["socketpair"]
        answers[NAMED_BY_DRIVER] = [_answer(ALLOWED)]
    if process:
        itself = [_argument(0), *_among((process,), ALLOWED), _answer(REFUSED)]
        answers |= dict.fromkeys(ONLY_ITSELF, itself)
        answers["prlimit64"] = [_argument(0), *_among((0, process), ALLOWED), _answer(REFUSED)]  # 0 is whoever asks
        answers[NOBODY] = [_answer(REFUSED)]
        answers[SIGNALLED] = [_argument(1), *_among(SIGNALLED_BY, REFUSED), _answer(ALLOWED)]
    return answers


def _connected() -> Sequence[Instruction]:
    """Whether a pair of sockets is of a kind that sends nowhere else."""
    kind = [_argument(1), (KEEP_BITS, 0, 0, 0xFFFFFFFF & ~HOW_OPENED)]
    return [*kind, *_among(CONNECTED, ALLOWED), _answer(REFUSED)]


def _argument(place: int) -> Instruction:
    return LOAD, 0, 0, ARGUMENTS_AT + 8 * place


def _answer(found: int) -> Instruction:
    return RETURN, 0, 0, found


def _among(numbers: Sequence[int], found: int) -> Sequence[Instruction]:
    """Return this where the word that was loaded is one of these."""
    return [each for number in numbers for each in _if((EQUAL, number), [_answer(found)])]


def _if(test: tuple[int, int], then: Sequence[Instruction]) -> Sequence[Instruction]:
    code, number = test
    return [(code, 0, len(then), number), *then]


WALL = Wall("seccomp", frozenset({Keeps.NETWORK, Keeps.SIGNALS}), within=_within)
