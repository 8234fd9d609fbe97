"""How the roundings of an honest attention in a half type scatter, so that its errors can be judged together.

An honest kernel rounds a score and a weight, each several times; queries and keys that it multiplies by the scale; the
output, once; and sums in float32. Rows are judged whose roundings can be taken as independent. The others, and calls of
which no row can be judged, are left to the bounds of single numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnsuite.contracts.attention.scatter.gradients import OfGradients
from attnsuite.contracts.attention.scatter.output import OfOutput
from attnsuite.contracts.attention.scatter.part import Part

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import Forward, Slopes
    from attnsuite.judging.whole import Whole

FEWEST_ROWS = 32
"""Fewer rows say too little together: the limit of their sum lies far above what is to be expected of it."""
FEWEST_NUMBERS = 2**13
"""The same of an output's numbers; and what is small should cost little."""
LARGEST = 1e6
"""Calls with larger values than this are not judged together: variances are computed in float32."""


def wholes(of: Forward, slopes: Slopes | None) -> dict[str, Whole]:
    """The limits of output and gradients taken together, of those that can be judged so."""
    if not _enough(of):
        return {}
    output = OfOutput(of, Part.of(of, gradients=slopes is not None))
    if output.rows.sum() < FEWEST_ROWS:
        return {}
    return {"output": output.whole} | (OfGradients(output, slopes).wholes if slopes else {})


def _enough(of: Forward) -> bool:
    """Whether there may be something to judge. Under dropout there is not: other numbers are judged there."""
    *_, rows, keys = of.scores.shape
    many = of.output.size >= FEWEST_NUMBERS and of.output[..., 0].size >= FEWEST_ROWS
    return bool(many and rows and keys > 1 and not np.ndim(of.survival) and abs(of.value).max() <= LARGEST)
