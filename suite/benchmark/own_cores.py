"""Only one benchmark at a time is timed on a core, or on a GPU: two on the same one would time each other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from suite.benchmark.processes import cores_of
from suite.measure.memory import device_uuid

LONGEST_WAIT = 600.0
"""Seconds after which a table is timed beside another benchmark after all. A table of a dozen implementations takes a
minute or two; whatever holds the cores for longer may never let go."""


@contextmanager
def own_cores(threads: int, device: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Run the block when no other benchmark of this user is timed on the cores, or on the GPU, that it is timed on.

    `tell` is told where that takes a wait. A system that has no place for locks gets none.
    """
    numbers = sorted(set(cores_of(threads, 0)))  # in one order, so that no two wait for each other
    names = [f"core {number}" for number in numbers] if device == "cpu" else [device_uuid(device) or device]
    with ExitStack() as held:
        for name in names:
            if lock := _locked(name, tell):
                held.callback(lock.release)
        yield


def _locked(name: str, tell: Callable[[str], None]) -> FileLock | None:
    """The lock, taken; None where it cannot be."""
    lock = FileLock(file_of(name), thread_local=False)
    try:
        return _waited_for(lock, name, tell)
    except Timeout:
        tell(f"another benchmark has been timed on {name} for {LONGEST_WAIT:g} s: this one is timed beside it")
    except OSError:
        pass
    return None


def _waited_for(lock: FileLock, name: str, tell: Callable[[str], None]) -> FileLock:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        tell(f"waiting for another benchmark, which is timed on {name}")
        lock.acquire(timeout=LONGEST_WAIT)
    return lock


def file_of(name: str) -> Path:
    """The file that is locked: one for each user, as others' files in this folder cannot be opened for writing."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir(), f"attnsuite-{user}-{name.replace(' ', '-').replace(':', '-')}.lock")
