"""Two sides timed against each other in pairs of processes: differences between pairs say how sure a ratio is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from msgspec.structs import replace

from attnsuite.model import Measurement
from attnsuite.model.compared import Ratio
from attnsuite.model.statistics import LEVEL, MARGIN, Interval
from attnsuite.results.comparison.ratios import judged_together, memory
from attnsuite.results.comparison.signed_rank import pairs_needed, probability, signed_rank

FEWEST_PAIRS = 12
"""Pairs of processes at least. A process may be some per cent faster or slower than another of the same code all its
life; with offsets of 2 % (a standard deviation) twelve pairs find a slowdown of 5 % nine times out of ten."""
TOO_FEW_PAIRS = "too few pairs of processes took part"


@dataclass(frozen=True)
class Paired:
    """A workload's times by pair: for each pair of processes the row of either, timed in the same rounds."""

    pairs: Sequence[tuple[Measurement, Measurement]]

    @cached_property
    def logs(self) -> list[float]:
        """For each pair the median over rounds of the logarithm of the new time as a multiple of the old."""
        return [
            median(math.log(mine / its) for its, mine in zip(old.seconds, new.seconds, strict=False))
            for old, new in self.pairs
        ]

    @cached_property
    def old(self) -> Measurement:
        """The old side's row, with the median time of each of its processes."""
        return _summary([old for old, _ in self.pairs])

    @cached_property
    def new(self) -> Measurement:
        return _summary([new for _, new in self.pairs])

    @property
    def why(self) -> str:
        return TOO_FEW_PAIRS if len(self.pairs) < pairs_needed(1, LEVEL) else ""

    @property
    def surprise(self) -> float:
        return -probability(self.logs)

    def interval(self, doubt: float) -> Interval:
        return signed_rank(self.logs, 1 - doubt)


def times(found: Sequence[Paired], margin: float = MARGIN) -> list[Ratio]:
    """The ratios of what was timed in pairs, judged together. `margin`: smaller differences count as none."""
    able, unable = [of for of in found if not of.why], [of for of in found if of.why]
    return judged_together([*able, *unable], margin)


def memories(found: Sequence[Paired], margin: float = MARGIN) -> list[Ratio]:
    """The ratios of peaks, of the pair in the middle of those that were weighed."""
    return [weighed for of in found if (weighed := _middle([memory(*pair, margin) for pair in _weighed(of)]))]


def pairs_of(comparisons: int) -> int:
    """How many pairs of processes so many comparisons take."""
    return max(FEWEST_PAIRS, pairs_needed(comparisons, LEVEL))


def _weighed(of: Paired) -> list[tuple[Measurement, Measurement]]:
    return [(old, new) for old, new in of.pairs if old.peak is not None and new.peak is not None]


def _middle(ratios: Sequence[Ratio]) -> Ratio | None:
    return sorted(ratios, key=lambda ratio: ratio.ratio)[len(ratios) // 2] if ratios else None


def _summary(rows: Sequence[Measurement]) -> Measurement:
    return replace(rows[0], seconds=tuple(median(row.seconds) for row in rows))
