"""How far a check or a benchmark is, in a line now and then, where no terminal shows a bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.model import Outcome, Reason, escaped

FIRST = (10.0, 30.0, 60.0)
"""Seconds after the start at which a line is written."""
LATER = 60.0
"""Seconds between the lines after those: CI services end a job that prints nothing for some minutes."""
LONGEST_CASE = 80
"""Characters of the name of a case that are shown."""
COMPILERS = {
    **dict.fromkeys(("cc1", "cc1plus", "g++", "gcc", "c++", "clang", "clang++"), "a C++ compiler"),
    **dict.fromkeys(("nvcc", "cicc", "ptxas"), "a compiler for CUDA"),
}
"""What a program compiles with, by the name of its process."""


@dataclass
class Heartbeat:
    """Counts outcomes or tables, and says on standard error how many of `total` there are, from `start` to `stop`.

    Lines come from a thread of their own, so that one test that takes minutes is no silence.
    """

    total: int
    who: str = ""
    answered: int = 0
    given_up: int = 0
    """Tests that are skipped after timeouts."""
    seconds: float = 0.0
    """That the calls took."""
    slowest: Outcome | None = None
    what: str = "tests"
    """What is counted: tests or tables."""
    _over: Event = field(default_factory=Event)
    _started: float = 0.0
    _thread: Thread | None = None

    def start(self) -> None:
        """Begin to count the time."""
        self._started = time.monotonic()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say nothing more."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def saw(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.reason == Reason.NOT_ASKED:
            self.given_up += 1
            return
        self.answered += 1
        self.seconds += outcome.seconds or 0.0
        if (outcome.seconds or 0.0) > (self.slowest.seconds or 0.0 if self.slowest else 0.0):
            self.slowest = outcome

    def line(self, after: float, compiler: str = "") -> str:
        """How far it is: `12 of 3,367 tests done after 10 s, now attention/mine; …`. `compiler` is one that runs."""
        done = f"{min(self.answered, self.total):,} of {self.total:,} {self.what} done after {after:.0f} s"
        if self.what == "tests" and self.answered + self.given_up >= self.total:
            done += f", {self.given_up:,} given up" if self.given_up else ""
            return f"{done}; failures are analysed"
        done += f", now {self.who}" if self.who else ""
        done += f", compiling with {compiler}" if compiler else ""
        if self.slowest is None:
            return done
        case = self.slowest.case if len(self.slowest.case) <= LONGEST_CASE else f"{self.slowest.case[:LONGEST_CASE]}…"
        slowest = f"{in_seconds(self.slowest.seconds or 0.0)} ({case} in {self.slowest.dtype})"
        return f"{done}; calls took {in_seconds(self.seconds)}, the slowest {slowest}"

    def _beat(self) -> None:
        for due in _times():
            if self._over.wait(max(0.0, self._started + due - time.monotonic())):
                return
            print(escaped(self.line(due, compiler_at_work())), file=sys.stderr, flush=True)


def compiler_at_work() -> str:
    """The compiler that a child of this process, or a child of that, runs right now; empty for none."""
    with suppress(psutil.Error, OSError):
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if known := COMPILERS.get(each.name()):
                    return known
    return ""


def in_seconds(seconds: float) -> str:
    """Seconds in two digits, or in whole seconds from 10 on."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _times() -> Iterator[float]:
    yield from FIRST
    due = FIRST[-1]
    while True:
        due += LATER
        yield due
