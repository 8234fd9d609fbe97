"""Signals and exit statuses: after Ctrl-C or SIGTERM a command ends with the status that shells expect."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SAME_SIGNAL = 1.0
"""Seconds within which further SIGTERMs are the same: `timeout` sends one to the process and one to its group."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


_signals: list[type[KeyboardInterrupt]] = []
"""The signals that were received while a command runs."""


def until_interrupted(command: Callable[[], int | None]) -> int | None:
    """What `command` returns, or the exit status of the signal that stopped it.

    After a signal, other exceptions are taken for its effects: a signal during the import of NumPy or PyTorch makes
    them report a missing part.
    """
    with catching_signals():
        try:
            return command()
        except KeyboardInterrupt as error:
            stopped = error
        except Exception as error:
            if not _signals:
                raise
            stopped = _signals[0]()
            stopped.__cause__ = error
        from attnsuite.worker.sandbox import take_down_leftovers

        take_down_leftovers()
        by_signal = isinstance(stopped, Terminated) or isinstance(stopped.__cause__, Terminated)
        return int(TERMINATED if by_signal else INTERRUPTED)


def heed() -> None:
    """Raise KeyboardInterrupt if a library has swallowed a signal. To be called after imports."""
    for received in _signals:
        raise received


def is_interrupted(error: BaseException) -> bool:
    """Whether an exception is a signal or its effect."""
    return isinstance(error, KeyboardInterrupt) or bool(_signals)


@contextmanager
def catching_signals() -> Iterator[None]:
    """In the block, SIGTERM raises Terminated instead of ending the process at once, and Ctrl-C is recorded.

    Handlers of the caller stay. Signals are handled in the main thread only.
    """
    usual: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    in_main = threading.current_thread() is threading.main_thread()
    ours = [number for number, handler in usual.items() if in_main and signal.getsignal(number) == handler]
    last = -SAME_SIGNAL

    def stop(number: int, _: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if number == signal.SIGINT or last - before >= SAME_SIGNAL:
            _signals.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
            raise _signals[-1]

    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, usual[number])
        _signals.clear()


FAILED = 1
"""The exit status where something failed, raised, crashed or timed out."""
CANNOT = 2
"""The exit status of a request that cannot be carried out, or of a file that cannot be tested."""
INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""
TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""
