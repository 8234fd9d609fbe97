"""How a check ends that is stopped before its end, by Ctrl-C or SIGTERM: with the status that shells expect."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""
TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""
NOTHING_ASKED = "interrupted before anything was asked"
"""What the file of JUnit says of a check that was stopped while it began."""
AS_ONE = 1.0
"""Seconds within which further SIGTERMs are the same: `timeout` sends one to the process and one to its group."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, which ends a check as Ctrl-C does."""


def until_interrupted(ask: Callable[[], int], junit: str | None) -> int:
    """What `ask` returns, or the exit status of what stopped it. Its file of JUnit is written at whatever moment."""
    with terminable():
        try:
            return ask()
        except KeyboardInterrupt as stopped:
            _in_order(stopped, junit)
            return status_after(stopped)


def _in_order(stopped: KeyboardInterrupt, place: str | None) -> None:
    """End what was started, and say in the file of JUnit that nothing was asked, where nothing was."""
    from suite.campaign import Interrupted
    from suite.commands import junit
    from suite.records import UsageError
    from suite.walls import clear_up

    clear_up()
    if place is None or isinstance(stopped, Interrupted):  # then it was written with what was found
        return
    with suppress(UsageError):  # it may be somebody else's, which was not looked at yet
        junit.refuse_to_overwrite(Path(place))
        junit.write(Path(place), [], {}, NOTHING_ASKED)


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
