"""Only one benchmark at a time is timed on a core, or on a GPU: two on the same one would time each other.

What is held is a name of Linux's abstract sockets. It is gone with its holder, however that ends, and a submission
behind walls, which has a network of its own, cannot take it.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.benchmark.processes import cores_of

LONGEST_WAIT = 600.0
"""Seconds after which a table is timed beside another benchmark after all. A table of a dozen implementations takes a
minute or two; whatever holds the cores for longer may never let go."""
PAUSE = 0.05
"""Seconds between two looks at whether the other one is done."""


@contextmanager
def own_cores(threads: int, device: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Run the block when no other benchmark is timed on the cores, or on the GPU, that it is timed on.

    `tell` is told where that takes a wait. Other systems than Linux have no such names: none is held there.
    """
    numbers = sorted(set(cores_of(threads, 0)))  # in one order, so that no two wait for each other
    names = [f"core {number}" for number in numbers] if device == "cpu" else [device_uuid(device) or device]
    with ExitStack() as held:
        for name in names if sys.platform == "linux" else ():
            own = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            _hold(own, name, tell)
        yield


def _hold(own: socket.socket, name: str, tell: Callable[[str], None]) -> None:
    """Give the socket this name, as soon as there is no other that has it."""
    until = time.monotonic() + LONGEST_WAIT
    if _is_named(own, name):
        return
    tell(f"waiting for another benchmark, which is timed on {name}")
    while not _is_named(own, name):
        if time.monotonic() > until:
            tell(f"another benchmark has been timed on {name} for {LONGEST_WAIT:g} s: this one is timed beside it")
            return
        time.sleep(PAUSE)


def _is_named(own: socket.socket, name: str) -> bool:
    """Whether it could be given the name."""
    try:
        own.bind(address_of(name))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def address_of(name: str) -> str:
    """The address that is bound while a core or a GPU is held."""
    return f"\0attnsuite timed on {name}"
