"""A process that belongs to one implementation: its share of memory, its threads, and copies of it that make a call."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class OwnProcess:
    """The process of one implementation, made before that is imported.

    The threads that it has then are the suite's and NumPy's: OpenBLAS ends its own before a fork, and starts others
    where they are needed. Where it is `timed`, what was imported before a fork belongs to what is looked through for
    garbage again, as in a process that was started by itself: a call that has garbage collected pays for it.
    """

    def __init__(self, timed: bool = True) -> None:
        self._suite_threads = _threads()
        if timed:
            gc.unfreeze()

    @property
    def copyable(self) -> bool:
        """Whether a forked copy would lack nothing: a fork copies one thread, and here are none but the suite's own."""
        return 0 < _threads() <= self._suite_threads

    def limit_memory(self, limit: int) -> None:
        """Allow it this many bytes, and have the system kill it before any other process when memory runs out."""
        held = Path("/proc/self/oom_score_adj")
        if limit and held.exists():
            with suppress(OSError):  # a container may have /proc to read only
                held.write_text("1000")
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


def answer_of_a_copy(answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a forked copy of this process answers, as JSON. If the copy dies, this process dies of the same."""
    reading, writing = os.pipe()
    with _children_can_be_awaited():
        copy = os.fork()
        if copy == 0:
            _answer_and_exit(answer, reading, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if ended < 0:
        os.kill(os.getpid(), -ended)
    if ended or not said:
        os._exit(ended)
    found: dict[str, Any] = json.loads(said)
    return found


def _answer_and_exit(answer: Callable[[], dict[str, Any]], reading: int, writing: int) -> None:
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer(), pipe)
        status = 0
    finally:
        os._exit(status)


@contextmanager
def _children_can_be_awaited() -> Iterator[None]:
    """Have the system keep the status of children that end, also where the implementation has told it not to."""
    before = signal.getsignal(signal.SIGCHLD)
    if before is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def _threads() -> int:
    """The threads of this process; 0 where the system does not tell."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else 0
