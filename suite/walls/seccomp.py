"""A filter of system calls (seccomp): no sockets, no tracing; and outside a PID namespace no signals to others.

Source: https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Mapping, Sequence

from suite.walls.system import NO_NEW_PRIVILEGES, kernel, prctl
from suite.walls.wall import Keeps, Room, Wall

ALWAYS = (
    *("socket", "io_uring_setup"),  # a pair of sockets that are connected to each other may be had
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"),
    *("unshare", "setns", "mount"),
)
"""What a worker may not do. The ring of io_uring would do the same without being asked."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
"""What a worker may do to itself alone, whose number stands first among the arguments."""
SIGNALS_BY_HANDLE = "pidfd_send_signal"
_NEW = {"pidfd_send_signal": 424, "io_uring_setup": 425, "pidfd_getfd": 438}
"""Calls whose number is the same on every processor."""
NUMBERS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        _NEW | {"seccomp": 317, "socket": 41, "ptrace": 101,
                "process_vm_readv": 310, "process_vm_writev": 311, "unshare": 272,
                "setns": 308, "mount": 165, "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129,
                "rt_tgsigqueueinfo": 297},
    ),
    "aarch64": (
        0xC00000B7,
        _NEW | {"seccomp": 277, "socket": 198, "ptrace": 117,
                "process_vm_readv": 270, "process_vm_writev": 271, "unshare": 97,
                "setns": 268, "mount": 40, "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138,
                "rt_tgsigqueueinfo": 240},
    ),
}  # fmt: skip
"""How the kernel calls each processor and, of each, the numbers of its system calls."""
OTHER_CALLS = 0x40000000
"""Numbers from here on are those of x86_64's other calling convention (x32), by which the same could be had."""

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions: load a word of what is asked for, jump if it is equal or at least a number, return."""
NUMBER_AT, PROCESSOR_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Where in what is asked for these words stand."""
FILTER, SPECULATES = 1, 4
"""To set a filter, and to leave the processor's speculation as it is. Kernels before 5.16 would curb that otherwise,
which slows down what is timed."""
ALLOWED, REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM


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
    program = instructions(platform.machine(), 0 if room.namespaced else os.getpid())
    _, numbers = NUMBERS[platform.machine()]
    given = _Program(len(program), (_Instruction * len(program))(*(_Instruction(*each) for each in program)))
    kernel(numbers["seccomp"], FILTER, SPECULATES, ctypes.byref(given))


def instructions(processor: str, process: int) -> Sequence[Instruction]:
    """The filter; with a process's number it may signal that one alone. OSError for a processor that is not known."""
    if processor not in NUMBERS:
        raise OSError(f"the numbers of the system calls of {processor} are not known here")
    named, numbers = NUMBERS[processor]
    refused = [*ALWAYS, *([SIGNALS_BY_HANDLE] if process else [])]
    signals = SIGNALS if process else ()
    end: list[Instruction] = [(RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, REFUSED)]
    itself: list[Instruction] = [(LOAD, 0, 0, FIRST_ARGUMENT_AT), (EQUAL, 0, 1, process)]
    wanted = [(EQUAL, numbers[each], True) for each in refused] + [(EQUAL, numbers[each], False) for each in signals]
    found: list[Instruction] = [
        *((LOAD, 0, 0, PROCESSOR_AT), (EQUAL, 1, 0, named), (RETURN, 0, 0, REFUSED), (LOAD, 0, 0, NUMBER_AT)),
        *((AT_LEAST, 0, 1, OTHER_CALLS), (RETURN, 0, 0, REFUSED)),
    ]
    for place, (code, number, always) in enumerate(wanted):
        left = len(wanted) - place - 1  # instructions before the first of `end`
        found.append((code, left + 1 if always else left + 2, 0, number))
    return [*found, *end, *itself, *end]


WALL = Wall("seccomp", frozenset({Keeps.NETWORK, Keeps.SIGNALS}), within=_within)
