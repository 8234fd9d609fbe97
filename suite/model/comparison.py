"""Differences between two sets of results: changed statuses, and ratios of times and memories with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnsuite.model.rows import Measurement, Outcome, Status

TIME, MEMORY = "time", "memory"
"""The quantities that have ratios."""
SLOWER, FAILED, INCONCLUSIVE = "slower", "failed", "inconclusive"
FAIL_ON = (SLOWER, FAILED, MEMORY, INCONCLUSIVE)
"""What a comparison can fail on: slower times, failed outcomes and refused measurements, more memory, inconclusive
times."""
WORSE: Mapping[str, str] = {TIME: SLOWER, MEMORY: "more"}
BETTER: Mapping[str, str] = {TIME: "faster", MEMORY: "less"}
"""The verdicts on a ratio above 1 and below 1; the others are `same` and INCONCLUSIVE."""


@dataclass(frozen=True, slots=True)
class Change:
    """A test or workload with another status on each side; None where a side has no row."""

    row: Outcome | Measurement
    """The row of the new side, or of the old side where the new one has none."""
    old: Status | None
    new: Status | None
    worse: bool
    """Whether only the new side fails."""

    @property
    def says(self) -> str:
        """The change in words: "passed → failed"."""
        return f"{self.old or 'absent'} → {self.new or 'absent'}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The new side's time or memory as a multiple of the old one's, with a verdict: 1.1 is a tenth more."""

    what: str
    row: Measurement
    """The row of the new side."""
    old: float
    new: float
    """Medians in seconds, or peaks in bytes."""
    ratio: float
    low: float
    high: float
    """The interval of the true ratio, corrected for all comparisons made together; 0 to infinity if unknown."""
    verdict: str
    why: str = ""
    """Why the verdict is inconclusive, if not for a wide interval."""

    @property
    def worse(self) -> bool:
        """Whether the new side takes more."""
        return self.verdict == WORSE[self.what]


@dataclass(frozen=True)
class RunComparison:
    """The comparison of two runs of one machine, or of samples within one run. `old` and `new` name the sides."""

    old: str
    new: str
    notes: Sequence[str] = ()
    """Other differences, and why something is not compared."""
    tests: int = 0
    """The number of tests with an outcome on both sides."""
    outcomes: Sequence[Change] = ()
    measurements: Sequence[Change] = ()
    times: Sequence[Ratio] = ()
    memories: Sequence[Ratio] = field(default_factory=tuple)

    def failures(self, on: Sequence[str]) -> list[Change | Ratio]:
        """The changes and ratios that fail the comparison; `on` are words of FAIL_ON."""
        failures: list[Change | Ratio] = []
        if FAILED in on:
            failures += [change for change in (*self.outcomes, *self.measurements) if change.worse]
        if SLOWER in on:
            failures += [ratio for ratio in self.times if ratio.worse]
        if MEMORY in on:
            failures += [ratio for ratio in self.memories if ratio.worse]
        if INCONCLUSIVE in on:
            failures += [ratio for ratio in self.times if ratio.verdict == INCONCLUSIVE]
        return failures
