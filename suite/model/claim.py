"""What became of a claim: a document's statement beside one number that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import field

from attnsuite.model.typed import Amount, Name, Row, Text

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


class Claimed(Row, frozen=True):
    """What became of a claim."""

    implementation: Name
    """`claims/` and the topic: rows in results/ are counted by it."""
    claim: Name
    device: Name
    document: Name
    section: Text
    says: Text
    """What the document says, in words."""
    quantity: Text
    """What was measured, in words."""
    due: Text
    """The range in which the claim holds, in words."""
    evidence: Evidence
    holds: Holds
    value: float | None = None
    """The median of the samples, or the one number."""
    low: float | None = None
    high: float | None = None
    """The interval of the median, at the level of `attnsuite.model.statistics`; the number itself where it is exact."""
    detail: Text = ""
    """What else there is to know: numbers on the way, the reason why there is none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers on the way, by name."""
    samples: Samples = ()
    seconds: Amount | None = None
    """How long the measurement took."""

    @property
    def key(self) -> tuple[str, ...]:
        """What a resumed run looks up, so that nothing is measured twice."""
        return (self.implementation, self.claim, self.device)

    @property
    def fails(self) -> bool:
        """Whether it could not be measured, though all that it needs is there. One that does not hold is no failure."""
        return self.holds == Holds.RAISED
