"""Whether a compiler may be at work in a worker: the first call of each shape then has a longer time limit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from attnsuite.worker.sandbox.processes import descendants
from attnsuite.worker.sandbox.system import prctl

MODULES = ("torch._dynamo", "torch.utils.cpp_extension", "jax", "triton", "numba", "cupy")
"""Modules that compile inside the process that has imported them."""
PROGRAMS = frozenset({"cc1", "cc1plus", "as", "ld", "collect2", "ninja", "nvcc", "cudafe++", "cicc", "ptxas", "clang"})
"""Compilers, assemblers and linkers that a process starts, by the names that Linux shows."""
SET_NAME = 15
"""An option of `prctl`."""
THREAD = b"has a compiler"
"""The name of one of a worker's threads, at most 15 bytes, once it has imported one of the modules. The worker cannot
send a message while a call runs; the name of a thread can be read at any time."""


def announcing() -> Callable[[], None]:
    """A function that renames the thread that calls it as soon as one of the modules is imported (Linux)."""
    announced = False

    def announce() -> None:
        nonlocal announced
        if not announced and not sys.modules.keys().isdisjoint(MODULES):
            announced = True
            with suppress(OSError):
                prctl(SET_NAME, THREAD)

    return announce


def may_compile(process: int) -> bool:
    """Whether the process or one that it has started is a compiler, or has one as a module (Linux; else False)."""
    names = {THREAD.decode(), *PROGRAMS}
    return any(not names.isdisjoint(_names_of(each)) for each in (process, *descendants(process)))


def _names_of(process: int) -> set[str]:
    """The names of the threads of a process."""
    found = set[str]()
    for file in Path(f"/proc/{process}/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            found.add(file.read_text(errors="replace").rstrip("\n"))
    return found


def shape_of(data: Any) -> Hashable:
    """What a compiler specialises a call on: the layouts and dtypes of the tensors, and all that is no tensor."""
    if isinstance(data, Tensor):
        return tuple(data.shape), data.stride(), str(data.dtype)
    if isinstance(data, Mapping):
        return tuple((name, shape_of(each)) for name, each in data.items())
    if isinstance(data, list | tuple):
        return tuple(map(shape_of, data))
    return repr(data)
