"""How a command ends that is stopped before its end, by Ctrl-C or SIGTERM: with the status that shells expect."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""
TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""
NOTHING_ASKED = "interrupted before anything was asked"
"""What the file of JUnit says of a check that was stopped while it began."""
AS_ONE = 1.0
"""Seconds within which further SIGTERMs are the same: `timeout` sends one to the process and one to its group."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came, which ends a command as Ctrl-C does."""


_came: list[type[KeyboardInterrupt]] = []
"""What the signals that have come while a command is heeding them stand for."""


def until_interrupted(ask: Callable[[], int], junit: str | None) -> int:
    """What `ask` returns, or the exit status of what stopped it. Its file of JUnit is written at whatever moment.

    What else `ask` raises after a signal is what a library made of that which was just imported: NumPy and PyTorch say
    then that something is missing in them.
    """
    with heeding():
        try:
            return ask()
        except KeyboardInterrupt as error:
            stopped = error
        except Exception as error:
            if not _came:
                raise
            stopped = _came[0]()
            stopped.__cause__ = error
        _in_order(stopped, junit)
        return status_after(stopped)


def heed() -> None:
    """Raise KeyboardInterrupt where a signal has come that a library has kept to itself: to be called after imports."""
    for each in _came:
        raise each


def _in_order(stopped: KeyboardInterrupt, place: str | None) -> None:
    """End what was started, and say in the file of JUnit that nothing was asked, where nothing was."""
    from attnsuite.cli import junit
    from attnsuite.cli.campaign import Interrupted
    from attnsuite.model import UsageError
    from attnsuite.worker.sandbox import clear_up

    clear_up()
    if place is None or isinstance(stopped, Interrupted):  # then it was written with what was found
        return
    with suppress(UsageError):  # it may be somebody else's, which was not looked at yet
        junit.refuse_to_overwrite(Path(place))
        junit.write(Path(place), [], {}, NOTHING_ASKED)


@contextmanager
def heeding() -> Iterator[None]:
    """In the block SIGTERM raises Terminated, where it would end the process without a word, and Ctrl-C is noted.

    Whoever has a handler of his own keeps it; threads but the main one cannot have any.
    """
    usual: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    in_main = threading.current_thread() is threading.main_thread()
    ours = [each for each, handler in usual.items() if in_main and signal.getsignal(each) == handler]
    last = -AS_ONE

    def stop(number: int, _: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if number == signal.SIGINT or last - before >= AS_ONE:
            _came.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
            raise _came[-1]

    for each in ours:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, usual[each])
        _came.clear()


def status_after(stopped: KeyboardInterrupt) -> int:
    """The exit status of a command that this stopped."""
    by_signal = isinstance(stopped, Terminated) or isinstance(stopped.__cause__, Terminated)
    return int(TERMINATED if by_signal else INTERRUPTED)
