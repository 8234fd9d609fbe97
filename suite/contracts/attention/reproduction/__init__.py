"""The smallest failing call of attention: what is simpler about a call, and how one is written down."""

from __future__ import annotations

from dataclasses import dataclass

from attnsuite.cases import Calls, Conventions
from attnsuite.cases.contract import Reproducer
from attnsuite.cases.expected import PerCallCase, WithinBounds
from attnsuite.contracts.attention.cases.case import due
from attnsuite.contracts.attention.feature import features
from attnsuite.contracts.attention.reproduction.simpler import RESPECTS, blank
from attnsuite.contracts.attention.reproduction.written import written


@dataclass(frozen=True)
class AsCalled(PerCallCase):
    """These very calls, each held against the oracle."""

    made: Calls
    name: str = "reproduction/smallest"
    why: str = "the smallest call that fails"

    def calls(self, dtype: str) -> Calls:
        return self.made

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(due(call, conventions) for call in calls)


def reproducing() -> Reproducer:
    """What attention knows of its calls."""
    said = frozenset(point for each in features() if each.visible for point in each.conventions)
    return Reproducer(AsCalled, RESPECTS, written, said, blank)
