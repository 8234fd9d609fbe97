"""Counts that honest draws keep within limits: how an answer is judged that nobody can know beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FALSE_ALARM = 1e-9
"""How often a case may accuse an honest implementation."""
CLOSE = 4.0
"""Standard deviations within which two answers count as drawn alike, for diagnosis."""


@dataclass(frozen=True)
class Share:
    """`count` of `total`, each of which counts with a probability between `low` and `high`. 0 and 1 are exact rules."""

    says: str
    count: int
    total: int
    low: float
    high: float

    def resembles(self, other: Share) -> bool:
        """Whether one probability may have given both counts."""
        if not self.total or not other.total:
            return True
        both = (self.count + other.count) / (self.total + other.total)
        variance = both * (1 - both) * (1 / self.total + 1 / other.total)
        return (self.count / self.total - other.count / other.total) ** 2 <= CLOSE**2 * variance


def exactly(says: str, count: int, total: int, probability: float) -> Share:
    """A share whose probability is known."""
    return Share(says, count, total, probability, probability)


def complaint(shares: Sequence[Share]) -> str | None:
    """What is wrong with the first count that leaves its limits, or None."""
    for share, (least, most) in zip(shares, _limits(shares), strict=True):
        if not least <= share.count <= most:
            due = str(least) if least == most else f"between {least} and {most}"
            return f"{share.count} of {share.total} {share.says}, should be {due}"
    return None


def alike(ours: Sequence[Share], theirs: Sequence[Share]) -> bool:
    """Whether two answers keep and break the same limits, by counts that may have been drawn alike."""
    if [share.says for share in ours] != [share.says for share in theirs]:
        return False
    kept = [
        [least <= share.count <= most for share, (least, most) in zip(shares, _limits(shares), strict=True)]
        for shares in (ours, theirs)
    ]
    return kept[0] == kept[1] and all(our.resembles(their) for our, their in zip(ours, theirs, strict=True))


def _limits(shares: Sequence[Share]) -> list[tuple[int, int]]:
    """What independent draws leave in any of the counts with probability FALSE_ALARM at most.

    Draws without replacement stay closer to the mean than these (Hoeffding 1963, theorem 4).
    """
    from scipy import stats  # takes a second, of every process, for few cases

    total, low, high = (np.array([getattr(share, name) for share in shares]) for name in ("total", "low", "high"))
    tail = FALSE_ALARM / len(shares) / 2
    least = _exact(low, total, stats.binom.ppf(tail, total, np.clip(low, 1e-12, 1 - 1e-12)))
    most = _exact(high, total, stats.binom.isf(tail, total, np.clip(high, 1e-12, 1 - 1e-12)))
    return list(zip(least.tolist(), most.tolist(), strict=True))


def _exact(probability: Array, total: Array, limits: Array) -> Array:
    """The limits, but nothing at probability 0 and all at 1, and nothing of nothing."""
    known = np.where(probability >= 1, total, 0)
    return np.where((probability <= 0) | (probability >= 1) | (total == 0), known, limits).astype(np.int64)
