"""A training in a copy of this process: what somebody's attention does to its process, it does to that one alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from suite.copies import Copy, compute_gradients
from suite.learning.engine import Watch
from suite.records import UsageError

Found = TypeVar("Found")

GRACE = 5.0
"""Seconds that it has after Ctrl-C to finish what it writes: less than a second of work."""


def apart(work: Callable[[Watch], Found], name: str, watched: Callable[[], Watch]) -> Found:
    """What `work` returns, done in a copy where one may be made, else here. `watched` is asked when it has begun.

    Raises the UsageError or the KeyboardInterrupt that it raises, and UsageError where its process ends without a word;
    `name` says whose it is.
    """
    if not compute_gradients():
        return work(watched())

    def tell(connection: Connection) -> None:
        """Send each epoch, and at last what was found or refused. Another error is the suite's own, and is printed."""
        with suppress(BrokenPipeError):  # nobody is there any more
            connection.send(_outcome(work, connection))

    copy = Copy.of(tell, interruptible=True)
    try:
        watch = watched()
        with suppress(EOFError):
            while (message := copy.connection.recv())[0] == "epoch":
                watch(*message[1])
            return _said(*message)
        copy.process.join()
    except KeyboardInterrupt:
        copy.interrupt(GRACE)
        raise
    finally:
        how = copy.end()
    raise UsageError(f"the process that asked {name} ended without a word ({how})")


def _outcome(work: Callable[[Watch], Found], connection: Connection) -> tuple[str, Any]:
    try:
        return "found", work(lambda epoch, epochs: connection.send(("epoch", (epoch, epochs))))
    except UsageError as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        return "interrupted", None


def _said(kind: str, what: object) -> Found:  # type: ignore[type-var]
    if kind == "refused":
        raise UsageError(str(what))
    if kind == "interrupted":
        raise KeyboardInterrupt
    return what  # type: ignore[return-value]
