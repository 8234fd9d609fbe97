"""How a check ends that is stopped before its end, by Ctrl-C or SIGTERM: with the status that shells expect."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""
TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""
AS_ONE = 1.0
"""Seconds within which further SIGTERMs are the same: `timeout` sends one to the process and one to its group."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, which ends a check as Ctrl-C does."""


@contextmanager
def terminable() -> Iterator[None]:
    """In the block SIGTERM raises Terminated, where it would end the process without a word.

    Whoever has a handler of his own keeps it; threads but the main one cannot have any.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    last = -AS_ONE

    def terminate(*_: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before >= AS_ONE:
            raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def status_after(stopped: KeyboardInterrupt) -> int:
    """The exit status of a check that this stopped."""
    by_signal = isinstance(stopped, Terminated) or isinstance(stopped.__cause__, Terminated)
    return int(TERMINATED if by_signal else INTERRUPTED)
