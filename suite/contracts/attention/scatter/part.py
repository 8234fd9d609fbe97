"""Which part of a call is judged together, and which of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import Forward

Array = np.ndarray[Any, Any]

WEIGHTS = 2**13
"""Of a call with more weights than this, its last items and heads are judged together: more would take too long."""
ENOUGH_ROWS, MOST_WEIGHTS = 64, 2**16
"""Where keys are many this many rows are judged nevertheless, up to this many weights; for gradients, all rows are."""
ALIKE = 1 / 64
"""Part of the unit roundoff within which two weights of a row are rounded alike, whatever they were multiplied by."""
CROWDED = 0.5
"""The share of weights rounded like another one of their row from which the row is not judged."""
NARROW = 8.0
"""Units that the middle half of the logarithms of a row's weights has to spread over: where they lie on fewer steps of
the dtype, the errors of rounding them are not as often up as down."""

CLUMPED, FEW_PAIRS = 1.5, 200
"""How many times more pairs of weights, of any rows, may be rounded alike than if they lay evenly, and how many may
be so by chance, before no row is judged."""
DEEPEST = 4
"""Weights are looked at down to this power of e of the largest in their row."""


class Part(NamedTuple):
    """The last items and heads of a call, and of their rows one in a few: as many as there is time for."""

    items: slice
    heads: slice
    rows: slice

    @staticmethod
    def of(forward: Forward, *, gradients: bool) -> Part:
        batch, heads, rows, keys = forward.scores.shape
        most = max(WEIGHTS // keys, min(ENOUGH_ROWS, MOST_WEIGHTS // keys), 1)
        every = 1 if gradients and rows * keys <= MOST_WEIGHTS else -(-rows // most)
        some_heads = min(heads, max(most * every // rows, 1))
        items = min(batch, max(most * every // (some_heads * rows), 1)) if some_heads == heads else 1
        return Part(
            slice(batch - items, batch), slice(heads - some_heads, heads), slice((rows - 1) % every, None, every)
        )

    def of_rows(self, array: Array) -> Array:
        """Of an array b h l …, in float32: what is known of errors is known to a few digits."""
        return np.asarray(array[self.items, self.heads, self.rows], dtype=np.float32)

    def of_keys(self, array: Array) -> Array:
        """The same of an array b h s …, all rows of it."""
        return np.asarray(array[self.items, self.heads], dtype=np.float32)

    def judged(self, of: Forward, weights: Array, behind: Array) -> Array:
        """Which rows can be judged, b h l, given their weights and how far each score lies behind the largest."""
        known = ~np.asarray(of.empty | of.loose | of.silent)[self.items, self.heads, self.rows, 0]
        steps = behind / np.float32(of.precision.unit)
        known = known & _spread(weights, steps / np.float32(ALIKE)) & _first(weights)
        together = steps[known[..., None] & (weights > 0)]
        return np.asarray(known & (not clumped(together, of.precision.unit)))


def _spread(weights: Array, steps: Array) -> Array:
    """Whether a row's weights lie on many steps of the dtype, and few of them are rounded alike. b h l."""
    places = np.where(weights > 0, steps, np.float32(1)).astype(np.int32)  # hidden keys at 1, behind all others
    places.sort(-1)
    count = np.count_nonzero(places < 1, -1)
    hidden = places.shape[-1] - count
    alike = np.count_nonzero(places[..., 1:] == places[..., :-1], -1) - np.maximum(hidden - 1, 0)
    quarters = np.stack([count // 4, np.maximum(3 * count // 4 - 1, 0)], -1)
    apart = np.diff(np.take_along_axis(places, quarters, -1))[..., 0]
    return np.asarray((count > 1) & (alike <= CROWDED * count) & (apart * ALIKE > NARROW))


def clumped(steps: Array, unit: float) -> bool:
    """Whether numbers of all rows lie in clumps that are narrow against a step of the dtype, and so err alike.

    Counted are pairs that lie in one cell: in cells of an eighth of the unit, and in cells 32 times as wide, where
    numbers that lie evenly have 32 times as many. `steps` are the logarithms of numbers, in units, from the largest
    down.
    """
    cells = int(8 * DEEPEST / unit)
    places = (steps[(steps < 0) & (steps > -cells / 8)] * -8).astype(np.int64)
    fine = np.bincount(places, minlength=cells)
    wide = fine.reshape(-1, 32).sum(-1)
    narrow, even = (float((each * (each - 1.0)).sum()) for each in (fine, wide))
    return narrow > CLUMPED * even / 32 + FEW_PAIRS


def _first(weights: Array) -> Array:
    """Whether a row is the first with its weights: others would be rounded as it is."""
    found = np.zeros(weights[..., 0].size, dtype=bool)
    found[np.unique((weights**2).sum(-1, dtype=np.float64), return_index=True)[1]] = True
    return found.reshape(weights.shape[:-1])
