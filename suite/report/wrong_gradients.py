"""Do trainings show a wrong gradient? Each is compared with the right gradient from the same seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS, TrainingRow
from attnsuite.model.statistics import Interval, interval

LOSS = "last loss"
"""The quantity that each training has; scores have their own names."""
PAIRS = 8
"""The fewest seeds for an interval: all of seven pairs have one sign by chance with a probability of 1.6 %."""


@dataclass(frozen=True)
class Comparison:
    """A mistake's trainings, each minus the right gradient's from the same seed: initial weights and data are equal."""

    mistake: str
    pairs: int
    differences: Mapping[str, Interval]
    """The median difference of each quantity with its interval."""

    @property
    def verdict(self) -> str:
        """Which quantities show the mistake, "shows in nothing", or the number of missing seeds."""
        if self.pairs < PAIRS:
            return f"unknown: {self.pairs} of {PAIRS} seeds are trained"
        shown = [name for name, change in self.differences.items() if change.low > 0 or change.high < 0]
        return f"shows in {' and '.join(shown)}" if shown else "shows in nothing"

    @property
    def words(self) -> str:
        """The differences: "last loss +0.012 (−0.003 to +0.020)"; without an interval for too few seeds."""
        return "; ".join(
            f"{name} {_signed(change.median)}"
            + (f" ({_signed(change.low)} to {_signed(change.high)})" if self.pairs >= PAIRS else "")
            for name, change in self.differences.items()
        )


def comparisons(trainings: Sequence[TrainingRow]) -> list[Comparison]:
    """A comparison for each mistake, by name. Seeds and configs without a right gradient are ignored."""
    by_name: dict[str, dict[str, TrainingRow]] = defaultdict(dict)
    for training in trainings:
        if training.task == WRONG_GRADIENTS:
            by_name[training.implementation][f"{training.seed} {sorted(training.config.items())}"] = training
    right = by_name.pop(RIGHT_GRADIENT, {})
    return [
        _compared(name, [(rows[seed], right[seed]) for seed in rows if seed in right])
        for name, rows in sorted(by_name.items())
    ]


def _compared(name: str, pairs: Sequence[tuple[TrainingRow, TrainingRow]]) -> Comparison:
    changes: dict[str, list[float]] = defaultdict(list)
    for wrong, right in pairs:
        changes[LOSS].append(wrong.curve[-1] - right.curve[-1])
        for score in wrong.scores.keys() & right.scores.keys():
            changes[score].append(wrong.scores[score] - right.scores[score])
    return Comparison(name, len(pairs), {quantity: interval(values) for quantity, values in changes.items()})


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
