"""Copies of this process, made by fork: all that is imported here is there at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from attnsuite.worker.sandbox.processes import ending
from attnsuite.worker.sandbox.system import DIE_WITH_PARENT, SUBREAPER, prctl


def possible() -> bool:
    """Whether this process may be copied.

    The drivers of a GPU need not survive that; nor does JAX, whose threads hold locks that a copy would wait for.
    """
    return sys.platform == "linux" and "jax" not in sys.modules


def compute_gradients() -> bool:
    """Whether a copy could compute gradients after this process has: PyTorch has a thread for each GPU, no copy any."""
    import torch

    return possible() and not torch.accelerator.is_available()


@dataclass(frozen=True)
class Copy:
    """A copy that does one piece of work, and what it sends."""

    process: BaseProcess
    connection: Connection
    ending: int | None
    """What can be waited for, next to the connection, until it has ended; None where the system has no such thing."""

    @classmethod
    def of(cls, work: Callable[[Connection], None]) -> Copy:
        """A copy that does this, and ends, or is ended by Ctrl-C or with its maker.

        It has none of its maker's files but the three of every process, and takes over all that it starts, to any
        depth.
        """
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_begin, args=(work, ours, theirs, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        ending = None
        with suppress(AttributeError, OSError):  # forbidden here, or the copy has ended and was reaped
            ending = os.pidfd_open(process.pid or 0)
        return cls(process, ours, ending)

    def wait(self, limit: float) -> None:
        """Wait so many seconds at most until it has ended. What it has started may go on."""
        if self.ending is None:
            self.process.join(limit)
        else:
            wait([self.ending], limit)

    def interrupt(self) -> None:
        """Have it end as Ctrl-C ends it. It may take its time."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGINT)

    def end(self) -> str:
        """End it, if it has not ended yet, and say how: `SIGSEGV`, `exit status 3`."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        if self.ending is not None:
            os.close(self.ending)
        return ending(self.process.exitcode or 0)


def _begin(work: Callable[[Connection], None], ours: Connection, theirs: Connection, maker: int) -> None:
    ours.close()  # else it would not be noticed that the maker does not read any more
    _close_all_but(theirs.fileno())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(OSError):
        prctl(SUBREAPER, 1)
        prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == maker:  # else it has ended already
        work(theirs)


def _close_all_but(kept: int) -> None:
    """Have every file that was open, but standard input, output, error and this one, lead to nowhere.

    They keep their numbers: objects of the maker's close them when they are freed, and would close others.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor not in (kept, nowhere):
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
