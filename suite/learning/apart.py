"""A training in a copy of this process: what somebody's attention does to its process, it does to that one alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from suite.copies import Copy, compute_gradients
from suite.learning.engine import Watch
from suite.records import UsageError

Found = TypeVar("Found")

GRACE = 5.0
"""Seconds that it has after Ctrl-C to finish what it writes, or to end by itself: it needs less than one."""


def apart(work: Callable[[Watch], Found], name: str, watched: Callable[[], Watch]) -> Found:
    """What `work` returns, done in a copy where one may be made, else here. `watched` is asked when it has begun.

    Raises the UsageError or the KeyboardInterrupt that it raises, and UsageError where its process ends without a word;
    `name` says whose it is.
    """
    if not compute_gradients():
        return work(watched())

    def tell(connection: Connection) -> None:
        """Send each epoch, and at last what was found or refused. Another error is the suite's own, and is printed."""
        here = os.getpid()

        def send(message: object) -> None:
            if os.getpid() == here:  # an attention may have copied this process, too
                connection.send(message)

        found = _outcome(work, send)
        with suppress(OSError, KeyboardInterrupt):  # nobody is there any more, or Ctrl-C came twice
            send(found)

    copy = Copy.of(tell, interruptible=True)
    try:
        watch = watched()
        while (message := _heard(copy))[0] == "epoch":
            watch(*message[1])
        if message[0] != "nothing":
            return _said(*message)
        copy.process.join(GRACE)
    except KeyboardInterrupt:
        copy.interrupt(GRACE)
        raise
    finally:
        how = copy.end()
    raise UsageError(f"the process that asked {name} ended without a word ({how})")


def _outcome(work: Callable[[Watch], Found], send: Callable[[object], None]) -> tuple[str, Any]:
    try:
        return "found", work(lambda epoch, epochs: send(("epoch", (epoch, epochs))))
    except UsageError as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        return "interrupted", None
    except OSError as error:  # the pipe is closed: by its reader's end, or by the attention
        return "refused", f"the process that trained cannot go on: {error}"


def _heard(copy: Copy) -> tuple[str, Any]:
    """The next message; `nothing` where there will be none, or it is not one that a copy sends."""
    try:
        kind, what = copy.connection.recv()
    except Exception:  # whatever bytes that somebody wrote into the pipe lead to
        return "nothing", None
    return kind, what


def _said(kind: str, what: object) -> Found:  # type: ignore[type-var]
    if kind == "refused":
        raise UsageError(str(what))
    if kind == "interrupted":
        raise KeyboardInterrupt
    return what  # type: ignore[return-value]
