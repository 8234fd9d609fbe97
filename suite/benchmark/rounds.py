"""How many rounds are timed: the fewest, how often it is looked whether they are enough, and what is enough."""

from __future__ import annotations

import math

from attnsuite.model.faster import MARGIN
from attnsuite.model.statistics import LEVEL

MIN_ROUNDS = 12
"""Rounds, each one sample of every implementation: no fewer are timed. They are the fewest whose interval leaves out
the fastest and the slowest one."""
CHECK_EVERY = 4
"""Rounds from one look whether intervals are narrow to the next: each look is one more chance to stop where they are
so by luck, and at most three rounds more are timed than are needed."""
NARROW_INTERVAL = MARGIN / 2
"""A ratio to the median: an interval with a smaller half-width needs no more rounds. It is half of what counts as no
difference, so that two such intervals can be told apart or called the same."""


def rounds_needed(comparisons: int, level: float = LEVEL) -> int:
    """The fewest rounds with which one among this number of comparisons can lead to a claim."""
    doubt = (1 - level) / max(comparisons, 1)
    return math.ceil(1 - math.log2(doubt))
