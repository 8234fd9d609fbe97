"""How many rounds a race has."""

from __future__ import annotations

import math

from attnsuite.model.statistics import LEVEL


def rounds_needed(comparisons: int, level: float = LEVEL) -> int:
    """The fewest rounds with which one among this number of comparisons can lead to a claim."""
    doubt = (1 - level) / max(comparisons, 1)
    return math.ceil(1 - math.log2(doubt))
