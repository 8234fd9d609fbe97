"""How far a check is, in a line now and then, where no terminal shows a bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event, Thread

from attnsuite.records import Outcome, Reason, escaped

FIRST = (10.0, 30.0, 60.0, 120.0, 240.0, 480.0)
"""Seconds after the start at which a line is written: whoever waits knows soon, and an hour's log has a dozen lines."""
LATER = 600.0
"""Seconds between the lines after those."""
LONGEST_CASE = 80
"""Characters of the name of a case that are shown."""


@dataclass
class Heartbeat:
    """Counts outcomes, and says on standard error how many of `total` there are, from `start` to `stop`.

    Lines come from a thread of their own, so that one answer that takes minutes is no silence.
    """

    total: int
    who: str = ""
    answered: int = 0
    given_up: int = 0
    """Questions that are not asked, as answers before did not come."""
    seconds: float = 0.0
    """That the answers took."""
    slowest: Outcome | None = None
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

    def line(self, after: float) -> str:
        """How far it is: `attention/mine: 12 of 3,367 questions answered after 10 s; …`."""
        count = f"{min(self.answered, self.total):,} of {self.total:,}"
        named = f"{self.who}: " if self.who else ""  # before anybody is asked
        done = f"{named}{count} questions answered after {after:.0f} s"
        if self.answered + self.given_up >= self.total:
            done += f", {self.given_up:,} given up" if self.given_up else ""
            return f"{done}; what they have in common is looked for"
        if self.slowest is None:
            return f"{done}; the first answers are waited for"
        case = self.slowest.case if len(self.slowest.case) <= LONGEST_CASE else f"{self.slowest.case[:LONGEST_CASE]}…"
        took = f"answers took {self.seconds:.0f} s"
        return f"{done}; {took}, the slowest {self.slowest.seconds:.2g} s ({case} in {self.slowest.dtype})"

    def _beat(self) -> None:
        for due in _times():
            if self._over.wait(max(0.0, self._started + due - time.monotonic())):
                return
            print(escaped(self.line(due)), file=sys.stderr, flush=True)


def _times() -> Iterator[float]:
    yield from FIRST
    due = FIRST[-1]
    while True:
        due += LATER
        yield due
