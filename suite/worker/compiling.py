"""Detection of compilers in a worker: while one may be running, a call has a longer limit."""

import sys
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.processes import descendants
from attnsuite.worker.sandbox.system import prctl

MODULES = ("torch._dynamo", "torch.utils.cpp_extension", "jax", "triton", "numba", "cupy")
"""Modules that compile inside the process that imports them."""
SET_NAME = 15
"""An option of `prctl`."""
THREAD = b"has a compiler"
"""The name of one of a worker's threads, at most 15 bytes, once it has imported one of the modules. A worker cannot
send messages during a call; the name of a thread is readable at any time."""


def announce() -> None:
    """Rename the thread that calls this once one of the modules is imported (Linux)."""
    if not sys.modules.keys().isdisjoint(MODULES):
        with suppress(OSError):
            prctl(SET_NAME, THREAD)


def may_compile(process: int) -> bool:
    """Whether the process or a descendant has imported a compiler (Linux; else False)."""
    for number in (process, *descendants(process)):
        for file in Path(f"/proc/{number}/task").glob("*/comm"):
            with suppress(OSError):  # it has ended
                if file.read_bytes() == THREAD + b"\n":
                    return True
    return False
