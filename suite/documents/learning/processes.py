"""Trainings in copies of this process, so that an attention can damage no other training."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from attnsuite.documents.learning.engine import Watch
from attnsuite.model import UsageError
from attnsuite.worker.copies import Copy, compute_gradients
from attnsuite.worker.sandbox.processes import end_descendants

Result = TypeVar("Result")

GRACE = 5.0
"""Seconds after Ctrl-C in which copies finish what they write, and end: they need less than one."""


@dataclass(frozen=True)
class Work(Generic[Result]):
    """A function to run in a copy. `name` is the attention that it calls."""

    do: Callable[[Watch], Result]
    name: str
    watch: Callable[[], Watch] = lambda: lambda epoch, epochs: None
    """Returns, in this process and when the work begins, the function that is called for each epoch."""
    result: type = object
    """The type of its result; another result is not believed."""


def in_copies(works: Sequence[Work[Result]], at_once: int = 1) -> Generator[Result, None, None]:
    """The result of each work, in their order; `at_once` of them run in copies. Without copies they run in turn.

    Raises the UsageError or KeyboardInterrupt of a work, and UsageError where its process ends without a result. The
    results of the works before it are yielded first; the works behind it are interrupted.
    """
    if not compute_gradients():
        for work in works:
            yield work.do(work.watch())
        return
    waiting, started = deque(works), deque[_Started]()
    try:
        while waiting or started:
            while waiting and len(_busy(started)) < at_once and not any(begun.refused for begun in started):
                started.append(_Started(waiting.popleft()))
            if started[0].outcome is None:
                _listen(_busy(started))
            else:
                yield started.popleft().result()
    except BaseException:
        _interrupt([begun.copy for begun in _busy(started)])
        raise
    finally:
        for begun in _busy(started):
            begun.copy.end()


class _Started:
    """A work that has begun. Its outcome is the last message of its copy."""

    def __init__(self, work: Work[Any]) -> None:
        self.work, self.outcome = work, None  # type: tuple[Work[Any], tuple[str, Any] | None]
        self.copy = Copy.of(lambda connection: _run(connection, work))
        try:
            self.watch = work.watch()
        except BaseException:
            self.copy.end()
            raise

    @property
    def refused(self) -> bool:
        return self.outcome is not None and self.outcome[0] == "refused"

    def listen(self) -> None:
        """Read the next message."""
        kind, content = receive(self.copy, self.work.result)
        if kind == "epoch":
            self.watch(*content)
            return
        if kind == "nothing":
            self.copy.wait(GRACE)
        how = self.copy.end()
        if kind == "nothing":
            kind, content = "refused", f"the process that ran {self.work.name} ended without a result ({how})"
        self.outcome = (kind, content)
        if kind == "interrupted":
            raise KeyboardInterrupt

    def result(self) -> Any:
        assert self.outcome is not None
        if self.refused:
            raise UsageError(self.outcome[1])
        return self.outcome[1]


def _busy(works: Iterable[_Started]) -> list[_Started]:
    return [work for work in works if work.outcome is None]


def _listen(busy: Sequence[_Started]) -> None:
    """Wait until a copy sends something or ends, and read that."""
    endings = [work.copy.ending for work in busy if work.copy.ending is not None]
    ready = wait([*(work.copy.connection for work in busy), *endings])
    for work in busy:
        if work.copy.connection in ready or work.copy.ending in ready:
            work.listen()


def _interrupt(copies: Sequence[Copy]) -> None:
    """Interrupt them as Ctrl-C does, and wait until they end."""
    for copy in copies:
        copy.interrupt()
    end = time.monotonic() + GRACE
    for copy in copies:
        copy.wait(max(0.0, end - time.monotonic()))


def _run(connection: Connection, work: Work[Any]) -> None:
    """Send each epoch, and at last the outcome. All processes that the work has started end before it."""
    here, signals = os.getpid(), list[int]()

    def send(message: object) -> None:
        if os.getpid() == here:  # an attention may have copied this process, too
            connection.send(message)

    def interrupt(number: int, frame: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    outcome = _outcome(work, send, signals)
    if os.getpid() == here:
        end_descendants(here)
    with suppress(OSError, KeyboardInterrupt):  # the reader has ended, or a second Ctrl-C
        send(outcome)


def _outcome(work: Work[Any], send: Callable[[object], None], signals: Sequence[int]) -> tuple[str, Any]:
    """The result or the refusal of a work. Only a real signal counts as an interrupt. A bug of the suite is raised."""
    try:
        return "result", work.do(lambda epoch, epochs: send(("epoch", (epoch, epochs))))
    except UsageError as error:
        return "refused", str(error)
    except KeyboardInterrupt:
        return ("interrupted", None) if signals else ("refused", f"{work.name} raised KeyboardInterrupt")
    except OSError as error:  # the pipe was closed: its reader has ended, or the attention closed it
        return "refused", f"the process that trained cannot go on: {error}"


def receive(copy: Copy, result: type = object) -> tuple[str, Any]:
    """The kind and the content of the next message; `nothing` at the end, and for a message that no copy sends."""
    try:
        if copy.ending is not None and wait([copy.ending], 0) and not copy.connection.poll():
            return "nothing", None  # a process that it has started may hold the pipe open
        kind, content = copy.connection.recv()
        if kind == "epoch":
            epoch, epochs = map(int, content)
            return kind, (epoch, epochs)
        types = {"result": result, "refused": str, "interrupted": type(None)}
        return (kind, content) if isinstance(content, types[kind]) else ("nothing", None)
    except Exception:  # an attention may write any bytes into the pipe
        return "nothing", None
