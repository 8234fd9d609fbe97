"""Copies of this process, made by fork: whatever is imported and at hand here is there at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from suite.walls.system import DIE_WITH_PARENT, prctl


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

    @classmethod
    def of(cls, work: Callable[[Connection], None], *, interruptible: bool = False) -> Copy:
        """A copy that does this, and ends, or is ended with its maker.

        Ctrl-C, which comes to all processes, ends it if it is `interruptible`.
        """
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_begin, args=(work, ours, theirs, os.getpid(), interruptible), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def interrupt(self) -> None:
        """Have it end as Ctrl-C ends it. It may take its time."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGINT)

    def end(self) -> str:
        """End it, if it has not ended yet, and say how: `SIGSEGV`, `exit status 3`."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        status = self.process.exitcode or 0
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _begin(
    work: Callable[[Connection], None], ours: Connection, theirs: Connection, maker: int, interruptible: bool
) -> None:
    ours.close()  # else nobody would notice that its maker does not read any more
    if not interruptible:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(OSError):
        prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == maker:  # else it has ended already
        work(theirs)
