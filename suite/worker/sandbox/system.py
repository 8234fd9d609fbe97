"""Functions of the C library and of the Linux kernel that the sandbox needs and Python lacks."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
"""Namespaces, as flags of `unshare`."""
NAMESPACES = NEW_MOUNTS | NEW_IPC | NEW_USER | NEW_PROCESSES | NEW_NETWORK | 0x02000000 | 0x04000000
"""All namespaces, those of cgroups and of the machine's name included."""
READ_ONLY, NO_SETUID, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
"""Flags of `mount`; the first is one of `mount_setattr`, too."""
DIE_WITH_PARENT, SUBREAPER, NO_NEW_PRIVILEGES = 1, 36, 38
"""Options of `prctl`."""
MOUNT_SETATTR, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 444, 445, 446
"""Numbers of system calls, which are the same on every processor since Linux 5.1."""


def function(name: str, *arguments: Any) -> int:
    """Call a function of the C library. OSError if it fails or is missing."""
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, name, None)
    if sys.platform != "linux" or call is None:
        raise OSError(f"this system has no {name}")
    result = int(call(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def kernel(number: int, *arguments: Any) -> int:
    """Make a system call by its number. OSError if it fails."""
    return function("syscall", ctypes.c_long(number), *map(_whole, arguments))


def _whole(argument: Any) -> Any:
    """An integer argument at the width of a register, which variadic functions need."""
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def prctl(option: int, *arguments: Any) -> int:
    """Change an attribute of this process. OSError if that fails."""
    filled = [*arguments, *[0] * (4 - len(arguments))]
    return function("prctl", option, *map(_whole, filled))


def mount(source: str, target: Path, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system, or change a mount. OSError if that fails."""
    function("mount", source.encode(), bytes(target), kind.encode(), ctypes.c_ulong(flags), data.encode() or None)


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace"))


WORKING_DIRECTORY, RECURSIVELY = -100, 0x8000
"""Flags of `mount_setattr`: the path is relative to the working directory; mounts below it are included."""


def set_read_only(folder: Path, read_only: bool = True) -> None:
    """Make the mounts at and below a folder read-only, in this mount namespace; or one mount writable again."""
    attributes = _Attributes(set=READ_ONLY) if read_only else _Attributes(clear=READ_ONLY)
    size = ctypes.sizeof(attributes)
    kernel(
        MOUNT_SETATTR, WORKING_DIRECTORY, bytes(folder), RECURSIVELY if read_only else 0, ctypes.byref(attributes), size
    )
