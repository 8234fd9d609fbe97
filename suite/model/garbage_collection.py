"""Pauses Python's garbage collector during work that makes many lasting objects, where it only costs time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Run the block without searching for reference cycles. Reference counting still frees other objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def gc_paused_for_imports() -> Iterator[None]:
    """Run a block that imports libraries; their objects, which live to the end, are never searched for cycles."""
    with gc_paused():
        yield
        gc.freeze()


def collect_once() -> None:
    """Collect the frozen objects once, so that Python counts them among its old objects.

    Otherwise `gc.unfreeze`, as in a forked process that is timed, would trigger a full collection at any time, also
    during a timed call. Afterwards Python collects again when the number of objects has grown by a quarter.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
