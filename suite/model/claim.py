"""What became of a claim: a document's statement beside one number that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Samples: TypeAlias = tuple[float, ...]
"""Numbers as they were measured: one a round, a draw or a seed."""


class Holds(StrEnum):
    """What a measurement says of a claim. The values are those in JSON rows."""

    HOLDS = "holds"
    """The interval lies within the range in which the claim holds."""
    DOES_NOT = "does not hold"
    """The interval lies outside it."""
    UNCLEAR = "unclear"
    """The interval lies across its border, or there are too few samples for one."""
    RAISED = "raised"
    """The measurement raised an exception."""
    MISSING = "missing"
    """A library that the measurement needs is not installed."""


class Evidence(StrEnum):
    """How a claim is measured, and so what its number depends on."""

    EXACT = "exact"
    """Computed or counted: the same on every machine, but for rounding."""
    DRAWN = "drawn"
    """A sample of random numbers of fixed seeds."""
    TRAINED = "trained"
    """A model that was trained, once for each seed."""
    TIMED = "timed"
    """By the suite's stopwatch, on one thread."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of a claim."""

    implementation: str
    """`claims/` and the topic: rows in results/ are counted by it."""
    claim: str
    device: str
    document: str
    section: str
    says: str
    """What the document says, in words."""
    quantity: str
    """What was measured, in words."""
    due: str
    """The range in which the claim holds, in words."""
    evidence: Evidence
    holds: Holds
    value: float | None = None
    """The median of the samples, or the one number."""
    low: float | None = None
    high: float | None = None
    """The interval of the median, at the level of `attnsuite.model.statistics`; the number itself where it is exact."""
    detail: str = ""
    """What else there is to know: numbers on the way, the reason why there is none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers on the way, by name."""
    samples: Samples = ()
    seconds: float | None = None
    """How long the measurement took."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up, so that nothing is measured twice."""
        return (self.implementation, self.claim, self.device)

    @property
    def fails(self) -> bool:
        """Whether it could not be measured, though all that it needs is there. One that does not hold is no failure."""
        return self.holds == Holds.RAISED
