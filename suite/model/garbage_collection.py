"""Pauses Python's garbage collector during work that makes many objects and keeps them, where it only costs time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Run the block without looking for reference cycles. Other objects are freed as soon as nothing refers to them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def gc_paused_for_imports() -> Iterator[None]:
    """Run a block that imports libraries, whose objects stay to the end: they are never looked through for cycles."""
    with gc_paused():
        yield
        gc.freeze()


def collect_once() -> None:
    """Look through what was imported like that once, so that Python knows how much there is.

    Where `gc.unfreeze` gives that back to the collector, as in a forked process that is timed, all of it is looked
    through again when a quarter as much has been made anew, as in an interpreter that has imported it by itself. Else
    that would happen at the first occasion, which may be while a call is timed.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
