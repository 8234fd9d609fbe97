"""Whether a compiler may be at work in a worker: the first call of each shape then has a longer time limit."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
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
"""The name of one of a worker's threads, at most 15 bytes, once it has imported one of the modules. The worker
cannot send a message while a call runs; the name of a thread can be read at any time."""


def announce() -> None:
    """Rename the thread that calls this once one of the modules is imported (Linux)."""
    if not sys.modules.keys().isdisjoint(MODULES):
        with suppress(OSError):
            prctl(SET_NAME, THREAD)


def may_compile(process: int) -> bool:
    """Whether the process or one that it has started is a compiler, or has one as a module (Linux; else False)."""
    names = {THREAD.decode(), *PROGRAMS}
    for number in (process, *descendants(process)):
        for file in Path(f"/proc/{number}/task").glob("*/comm"):
            with suppress(OSError):  # it has ended
                if file.read_text(errors="replace").rstrip("\n") in names:
                    return True
    return False


def shape_of(data: Any) -> Hashable:
    """What a compiler specialises a call on: the layouts and dtypes of the tensors, and all that is no tensor."""
    if isinstance(data, Tensor):
        return tuple(data.shape), data.stride(), str(data.dtype)
    if isinstance(data, Mapping):
        return tuple((name, shape_of(each)) for name, each in data.items())
    if isinstance(data, list | tuple):
        return tuple(map(shape_of, data))
    if is_dataclass(data):  # a `Call`. Its own `repr` would print the numbers in its tensors
        return shape_of(vars(data))
    return repr(data)
