"""What differs between two sides: statuses that changed, and times and memories as ratios with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnsuite.model.rows import Measurement, Outcome, Status

TIME, MEMORY = "time", "memory"
"""What a ratio is of."""
SLOWER, FAILED, UNCLEAR = "slower", "failed", "unclear"
FAIL_ON = (SLOWER, FAILED, MEMORY, UNCLEAR)
"""What a comparison can be told to fail on: times, outcomes and refused measurements, peak memory, and times of which
nothing can be said."""
WORSE: Mapping[str, str] = {TIME: SLOWER, MEMORY: "more"}
BETTER: Mapping[str, str] = {TIME: "faster", MEMORY: "less"}
"""The verdicts on a ratio above 1 and below; the others are `same` and `unclear`."""


@dataclass(frozen=True, slots=True)
class Change:
    """A test, or a workload, whose status differs between both sides; None where one side has no row."""

    row: Outcome | Measurement
    """The row of the new side; of the old one, where the new one has none."""
    old: Status | None
    new: Status | None
    worse: bool
    """Whether it fails now, and did not before."""

    @property
    def says(self) -> str:
        """The change in words: "passed → failed"."""
        return f"{self.old or 'absent'} → {self.new or 'absent'}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The new side's time or memory as a multiple of the old one's, 1.1 being a tenth more, and what it means."""

    what: str
    row: Measurement
    """Whose it is: the row of the new side."""
    old: float
    new: float
    """Medians in seconds, or peaks in bytes."""
    ratio: float
    low: float
    high: float
    """The interval in which the true ratio lies, corrected for all comparisons made together; 0 and infinity where
    nothing is known of it."""
    verdict: str
    why: str = ""
    """Why nothing can be said, where that is so for another reason than a wide interval."""

    @property
    def worse(self) -> bool:
        return self.verdict == WORSE[self.what]


@dataclass(frozen=True)
class RunComparison:
    """One machine on both sides, or what was timed in one run. `old` and `new` say in words what the sides are."""

    old: str
    new: str
    notes: Sequence[str] = ()
    """What differs beside the rows, and why something is not compared."""
    asked: int = 0
    """Questions with an outcome on both sides."""
    outcomes: Sequence[Change] = ()
    measurements: Sequence[Change] = ()
    times: Sequence[Ratio] = ()
    memories: Sequence[Ratio] = field(default_factory=tuple)

    def failures(self, on: Sequence[str]) -> list[Change | Ratio]:
        """What fails a comparison that is to fail on these of FAIL_ON."""
        found: list[Change | Ratio] = []
        if FAILED in on:
            found += [change for change in (*self.outcomes, *self.measurements) if change.worse]
        if SLOWER in on:
            found += [ratio for ratio in self.times if ratio.worse]
        if MEMORY in on:
            found += [ratio for ratio in self.memories if ratio.worse]
        if UNCLEAR in on:
            found += [ratio for ratio in self.times if ratio.verdict == UNCLEAR]
        return found
