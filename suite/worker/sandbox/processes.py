"""Processes and what they start: found by descent, ended together, and ended with their parent."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attnsuite.worker.sandbox.mechanism import Mechanism, Protection, Space
from attnsuite.worker.sandbox.system import SUBREAPER, prctl

LIMIT = 5.0
"""Seconds for which `end_descendants` goes on where processes start others as they are ended."""


def children(process: int) -> list[int]:
    """The processes that it has started or taken over (Linux)."""
    numbers: list[int] = []
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                numbers += map(int, (thread / "children").read_text().split())
    return numbers


def descendants(process: int) -> Iterator[int]:
    """All processes below it, the nearest first."""
    waiting = children(process)
    while waiting:
        nearest = waiting.pop(0)
        yield nearest
        waiting += children(nearest)


def signal_all(processes: Iterable[int], number: int) -> None:
    """Send a signal to each process that has not ended."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, number)


def end_descendants(process: int) -> None:
    """End all processes below this one, which they cannot escape where it takes over orphans.

    They are stopped first, lest one starts another while it is being ended. Those of this process are reaped.
    """
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        signal_all(descendants(process), signal.SIGSTOP)
        signal_all(descendants(process), signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children(process):
            return
        time.sleep(0.001)


def die_with_the_parent(life: int) -> None:
    """Have the system kill this process and all of its group when the parent is gone (Linux).

    A suspended process could not notice that by itself. The parent holds one end of the pipe `life`; when it is closed,
    the system sends a signal to the owner of the other end, and only for pipes may that owner be a whole group.
    """
    os.set_inheritable(life, False)
    with suppress(OSError, AttributeError):
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    with suppress(AttributeError):
        poll = select.poll()
        poll.register(life, 0)  # hang-ups are always reported
        if poll.poll(0):  # the parent was gone before, and no signal comes of that
            os.killpg(os.getpgrp(), signal.SIGKILL)


def ending(status: int) -> str:
    """How a process ended, by its status, negative for a signal: `exit status 3`, `SIGSEGV`, `signal 35`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def _around(space: Space) -> None:
    prctl(SUBREAPER, 1)


def _probe() -> None:
    Path(f"/proc/self/task/{os.getpid()}/children").read_text()


DESCENT = Mechanism("descent", frozenset({Protection.PROCESSES}), around=_around, probe=_probe)
"""Needed where there is no PID namespace: orphans are taken over by the supervisor, which ends them."""
