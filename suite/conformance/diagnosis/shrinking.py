"""Makes a failing call smaller as long as it fails, within a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnsuite.cases import Call
from attnsuite.cases.contract import Simpler

SECONDS = 5.0
"""Seconds for all reproductions of an implementation: of this process's CPU time, and of the answers waited for."""
MOST_ASKED = 600
"""Calls for one reproduction: a call of ordinary size shrinks to its end within 200."""


class GaveUp(Exception):
    """The time or the number of calls is used up."""


@dataclass
class Budget:
    """What may still be spent. Time passes only between `spend` and its end, in this process or in an answer."""

    seconds: float = SECONDS
    asked: int = MOST_ASKED

    def spend(self, ask: Callable[[Call], tuple[bool, float]], call: Call) -> bool:
        """Whether the call fails. GaveUp where there is nothing left to find that out with."""
        if self.seconds <= 0 or self.asked <= 0:
            raise GaveUp
        started = time.process_time()
        fails, waited = ask(call)
        self.seconds -= max(time.process_time() - started, waited)
        self.asked -= 1
        return fails


@dataclass
class Shrinking:
    """A failing call on its way to the smallest one. `fails` also says how long an answer was waited for."""

    call: Call
    fails: Callable[[Call], tuple[bool, float]]
    budget: Budget
    gave_up: bool = False
    """Whether the budget was used up before nothing simpler failed."""

    def through(self, simpler: Sequence[Simpler]) -> Call:
        """Try each respect until no simpler call fails, and all of them again until none helps."""
        before = None
        try:
            while before is not self.call:
                before = self.call
                for each in simpler:
                    while self._better(each):
                        pass
        except GaveUp:
            self.gave_up = True
        return self.call

    def _better(self, simpler: Simpler) -> bool:
        for candidate in simpler(self.call):
            if self.budget.spend(self.fails, candidate):
                self.call = candidate
                return True
        return False
