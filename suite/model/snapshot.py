"""What history keeps of one run: its times in short, and a letter for each answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnsuite.model.measurement import table_in_words
from attnsuite.model.run import Run
from attnsuite.model.status import Status

NOT_ASKED = "."
"""The letter of a question that was not asked."""
LETTERS: Mapping[str, Status] = {
    "p": Status.PASSED,
    "w": Status.WRONG,
    "r": Status.RAISED,
    "x": Status.DIED,
    "h": Status.HUNG,
    "d": Status.DECLINED,
    "m": Status.MISSING,
}
"""The letter of each status. A capital letter is a failure that a finding or a file of gaps records."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One measurement in short. What was not measured, and an end of an interval that has none, is None."""

    implementation: str
    contract: str
    workload: str
    dtype: str
    device: str
    threads: int
    direction: str
    cache: str
    status: str
    rounds: int = 0
    """How many samples there are."""
    median: float | None = None
    """Seconds of a call, with the interval from `low` to `high`."""
    low: float | None = None
    high: float | None = None
    baseline: str = ""
    """The implementation in the same timed table to which `ratio` refers."""
    ratio: float | None = None
    """Time as a multiple of the baseline's: the median of the ratios within rounds, with its interval."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    peak: float | None = None
    """Bytes of memory of one call at its peak."""

    @property
    def table(self) -> tuple[str, ...]:
        """What the rows that were measured round by round together share."""
        return (self.contract, self.workload, self.dtype, self.device, str(self.threads), self.direction, self.cache)

    @property
    def table_in_words(self) -> str:
        """The timed table as lines show it."""
        return table_in_words(self.workload, self.dtype, self.device, self.threads, self.direction, self.cache)

    @property
    def key(self) -> tuple[str, ...]:
        """What the same measurement of another run shares."""
        return (self.implementation, *self.table)


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of an implementation on a device: a letter of LETTERS for each question of its contract."""

    implementation: str
    contract: str
    device: str
    questions: tuple[str, ...]
    """Case and dtype, `causal/plain float32`; the same for all implementations of the contract in a run."""
    letters: str

    @property
    def key(self) -> tuple[str, str]:
        """What the answers of another run share."""
        return (self.implementation, self.device)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One run as history keeps it: without facts, samples and details."""

    run: Run
    timed: tuple[Timed, ...] = ()
    answered: tuple[Answered, ...] = ()
    left_out: int = 0
    """Measurements that were left out because the file would have been too large."""
