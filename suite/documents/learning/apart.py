"""Trainings in copies of this process: what somebody's attention does to its process, it does to that one alone."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from attnsuite.documents.learning.engine import Watch
from attnsuite.model import UsageError
from attnsuite.worker.copies import Copy, compute_gradients
from attnsuite.worker.sandbox.processes import end_descendants

Found = TypeVar("Found")

GRACE = 5.0
"""Seconds that copies have after Ctrl-C to finish what they write, or to end by themselves: they need less than one."""


@dataclass(frozen=True)
class Work(Generic[Found]):
    """What is done in a copy. `name` says whose attention it asks."""

    do: Callable[[Watch], Found]
    name: str
    watched: Callable[[], Watch] = lambda: lambda epoch, epochs: None
    """Is asked, in this process, for what watches it, when it has begun."""
    due: type = object
    """Of what it comes to."""


def apart(works: Sequence[Work[Found]], at_once: int = 1) -> Generator[Found, None, None]:
    """What each work comes to, in their order. As many `at_once` are done in copies; where none may be made, in turn.

    Raises the UsageError or the KeyboardInterrupt that one raises, and UsageError where its process ends without a
    word. Works before it are yielded first; those behind it are ended, as Ctrl-C ends them.
    """
    if not compute_gradients():
        for work in works:
            yield work.do(work.watched())
        return
    waiting, started = deque(works), deque[_Started[Found]]()
    try:
        while waiting or started:
            while waiting and sum(each.busy for each in started) < at_once and not any(map(_is_over, started)):
                started.append(_Started.of(waiting.popleft()))
            if started[0].busy:
                _hear(started)
            else:
                yield started.popleft().found()
    except BaseException:
        _interrupt([each.copy for each in started if each.busy])
        raise
    finally:
        for each in started:
            each.end()


@dataclass
class _Started(Generic[Found]):
    """A work that has begun. What it came to is known once it is not `busy` any more."""

    work: Work[Found]
    copy: Copy
    watch: Watch
    ended: tuple[str, Any] | None = None

    @classmethod
    def of(cls, work: Work[Found]) -> _Started[Found]:
        copy = Copy.of(lambda connection: _tell(connection, work), interruptible=True, alone=True)
        try:
            return cls(work, copy, work.watched())
        except BaseException:
            copy.end()
            raise

    @property
    def busy(self) -> bool:
        return self.ended is None

    def hear(self) -> None:
        """Take in its next message."""
        kind, what = _heard(self.copy, self.work.due)
        if kind == "epoch":
            self.watch(*what)
            return
        if kind == "nothing":
            self.copy.wait(GRACE)
        how = self.copy.end()
        without = f"the process that asked {self.work.name} ended without a word ({how})"
        self.ended = ("refused", without) if kind == "nothing" else (kind, what)
        if kind == "interrupted":
            raise KeyboardInterrupt

    def end(self) -> None:
        """End what has not ended yet."""
        if self.busy:
            self.copy.end()
            self.ended = ("refused", "it was ended")

    def found(self) -> Found:
        """What it came to. Raises the UsageError that it did."""
        if self.ended is None:
            raise RuntimeError("it has not ended yet")
        kind, what = self.ended
        if kind == "refused":
            raise UsageError(str(what))
        return what  # type: ignore[no-any-return]


def _is_over(started: _Started[Any]) -> bool:
    """Whether it was refused, so that nothing behind it will be asked for."""
    return started.ended is not None and started.ended[0] == "refused"


def _hear(started: Sequence[_Started[Any]] | deque[_Started[Any]]) -> None:
    """Wait until one of them says something, and take that in."""
    busy = [each for each in started if each.busy]
    ended = [each.copy.ending for each in busy if each.copy.ending is not None]
    said = wait([*(each.copy.connection for each in busy), *ended])
    for each in busy:
        if each.copy.connection in said or each.copy.ending in said:
            each.hear()


def _interrupt(copies: Sequence[Copy]) -> None:
    """Have them end as Ctrl-C ends them, and wait for that."""
    for copy in copies:
        copy.interrupt()
    until = time.monotonic() + GRACE
    for copy in copies:
        copy.wait(max(0.0, until - time.monotonic()))


def _tell(connection: Connection, work: Work[Any]) -> None:
    """Send each epoch, and at last what was found or refused. Another error is the suite's own, and is printed.

    What it has started is ended before.
    """
    here, came = os.getpid(), []

    def send(message: object) -> None:
        if os.getpid() == here:  # an attention may have copied this process, too
            connection.send(message)

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    found = _outcome(work, send, came)
    if os.getpid() == here:
        end_descendants(here)
    with suppress(OSError, KeyboardInterrupt):  # nobody is there any more, or Ctrl-C came twice
        send(found)


def _outcome(work: Work[Any], send: Callable[[object], None], came: Sequence[int]) -> tuple[str, Any]:
    """What it comes to; `came` are the signals of Ctrl-C that came, so that an attention cannot pretend them."""
    try:
        return "found", work.do(lambda epoch, epochs: send(("epoch", (epoch, epochs))))
    except UsageError as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        return ("interrupted", None) if came else ("refused", f"{work.name} raised KeyboardInterrupt")
    except OSError as error:  # the pipe is closed: by its reader's end, or by the attention
        return "refused", f"the process that trained cannot go on: {error}"


def _heard(copy: Copy, due: type = object) -> tuple[str, Any]:
    """The next message; `nothing` where there will be none, or it is not one that a copy sends."""
    try:
        if copy.ending is not None and wait([copy.ending], 0) and not copy.connection.poll():
            return "nothing", None  # what it has started may hold the pipe open
        kind, what = copy.connection.recv()
        kinds = {"epoch": _Epoch, "found": due, "refused": str, "interrupted": type(None)}
        if kind == "epoch":
            what = _Epoch(*map(int, what))
        return (kind, what) if isinstance(what, kinds[kind]) else ("nothing", None)
    except Exception:  # whatever bytes that somebody wrote into the pipe lead to
        return "nothing", None


class _Epoch(NamedTuple):
    epoch: int
    epochs: int
