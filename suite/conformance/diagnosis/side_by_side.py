"""Many independent computations, divided between this process and copies of it that live as long as these take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar

from attnsuite.worker.copies import Copy, compute_gradients

Item = TypeVar("Item")
Found = TypeVar("Found")

FEWEST = 50
"""Computations for each process, at least: a copy takes some 20 ms to be made, and a computation half a millisecond."""
PATIENCE = 10.0
"""Times as long as its own share took that this process waits for a copy, which has as much to do."""
GRACE = 5.0
"""Seconds that it waits beside that: the copies may be behind others in a queue for the processors."""


def side_by_side(work: Callable[[Item], Found], items: Sequence[Item], processes: int) -> list[Found]:
    """`[work(each) for each in items]`, of which each process does a share.

    What `work` changes in a copy is lost with it. What a copy does not tell, as it was killed or hangs, is found here.
    """
    if processes == 1 or len(items) < FEWEST * processes or not compute_gradients():
        return [work(each) for each in items]
    shares = [items[place::processes] for place in range(processes)]
    copies = [_copy(work, share) for share in shares[1:]]
    found: list[Found | None] = [None] * len(items)
    try:
        began = time.monotonic()
        found[::processes] = [work(each) for each in shares[0]]
        ends = time.monotonic() + PATIENCE * (time.monotonic() - began) + GRACE
        for place, copy in enumerate(copies, 1):
            told: list[Found] | None = _told(copy.connection, ends)
            found[place::processes] = [work(each) for each in shares[place]] if told is None else told
    finally:
        for copy in copies:
            copy.end()
    return found  # type: ignore[return-value]


def _copy(work: Callable[[Item], Found], share: Sequence[Item]) -> Copy:
    def compute(connection: Connection) -> None:
        with suppress(Exception):  # it is raised again, and said, where the share is done anew
            connection.send([work(each) for each in share])

    return Copy.of(compute)


def _told(connection: Connection, ends: float) -> list[Found] | None:
    """What a copy found; None where it ended without a word, or says nothing until then."""
    with suppress(EOFError, OSError):
        if connection.poll(max(0.0, ends - time.monotonic())):
            found: list[Found] = connection.recv()
            return found
    return None
