"""How long answers that do not come are waited for, before the remaining questions are given up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from attnsuite.model import Outcome, Reason, Status
from attnsuite.model.limits import TIME_LIMIT

HUNG_IN_A_ROW = 4
"""Answers in a row that did not come: each of the others would take the whole time limit, too."""
HUNG_ALTOGETHER = 10
"""Answers that did not come, others between them, at the usual time limit and above. A check asks thousands of
questions: of one that hangs at each third it would take a day."""


@dataclass
class Patience:
    """What one implementation has left of it."""

    time_limit: float = TIME_LIMIT
    """Seconds for an answer. Where they are fewer than usual, more answers may fail to come: ten minutes altogether. A
    compiler's time limit is longer, and fewer may."""
    lost: Collection[Status] = (Status.HUNG,)
    """Which outcomes count as answers that did not come where they follow each other."""
    in_a_row: int = 0
    altogether: int = 0
    seconds: float = 0.0
    """How long they were waited for."""

    def hear(self, outcome: Outcome) -> None:
        """An outcome, in the order in which questions were asked. Those that were not asked say nothing."""
        if outcome.reason != Reason.NOT_ASKED:
            self.in_a_row = self.in_a_row + 1 if outcome.status in self.lost else 0
            if outcome.status == Status.HUNG:
                self.altogether += 1
                self.seconds += outcome.seconds or self.time_limit  # rows of older versions have no seconds

    @property
    def ended(self) -> str:
        """Why nothing more is to be asked; empty as long as it is."""
        if self.in_a_row >= HUNG_IN_A_ROW:
            return f"the {self.in_a_row} answers before it did not come"
        if self.seconds >= HUNG_ALTOGETHER * max(self.time_limit, TIME_LIMIT):
            return f"{self.altogether} answers before it did not come"
        return ""
