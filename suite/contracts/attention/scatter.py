"""How the roundings of an honest attention in a half type scatter, so that its errors can be judged together.

What an honest kernel rounds: a score and a weight, each several times; queries and keys that it multiplies by the scale;
the output, once. Rows are judged whose roundings can be taken as independent. The others, and whatever cannot be
judged together at all, are left to the bounds of single elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from suite.contracts.attention.features.scale import applied
from suite.judging.whole import Lines, Scatter, Whole, rounding, top

if TYPE_CHECKING:
    from suite.contracts.attention.oracle import Forward, Slopes

Array = np.ndarray[Any, Any]

FEWEST_ROWS = 16
"""Fewer rows say too little together: the limit of their sum lies far above what is to be expected of it."""
FEWEST_NUMBERS = 256
"""The same of a tensor's numbers."""
WEIGHT_ROUNDINGS = 2.0
"""How often a weight is rounded: the power, and what it is divided by the sum to."""
SCORE_ROUNDINGS = 3.0
"""How often a score is rounded at its own size: as a product, scaled, and with the mask."""
ALIKE = 1 / 64
"""Part of the unit roundoff within which two weights of a row are rounded alike, whatever they were multiplied by."""
CROWDED = 0.5
"""The share of weights rounded like another one of their row from which the row is not judged."""
NARROW = 8.0
"""Units that the logarithms of a row's weights have to spread over, as a standard deviation: over fewer steps of the
dtype, the errors of rounding them are not as often up as down."""
GRADIENT_ROUNDINGS = 2.0
"""How often a gradient is rounded: as a sum, and scaled."""
MEANDERS = 4.0
"""Standard deviations by which the partial sums of a row meander, in an order that the numbers know nothing of."""
BLOCK = 64
"""Keys of one tile."""


def wholes(of: Forward, slopes: Slopes | None) -> dict[str, Whole]:
    """The limits of output and gradients taken together, of those that can be judged so."""
    if of.scores.size == 0 or of.scores.shape[-1] < 2 or np.ndim(of.survival) or of.output.size < FEWEST_NUMBERS:
        return {}
    together = Together(of)
    if together.rows.sum() < FEWEST_ROWS:
        return {}
    return {"output": together.whole} | (Backwards(together, slopes).wholes if slopes else {})


class Together:
    """The errors of an output, b h l v, taken together. Rows that are not judged count as zeros."""

    def __init__(self, of: Forward) -> None:
        self.of, self.precision, self.width = of, of.precision, of.query.shape[-1]
        self.rows = self._rows()
        self.weights = np.where(self.rows[..., None], of.weights, 0.0)
        self.output = np.where(self.rows[..., None], of.output, 0.0)
        self.drift = np.minimum(np.where(self.rows[..., None], of.drift, 0.0), self._partial_sums())
        self.error, variance = rounding(self.output, self.precision)
        self.variance = np.where(self.rows[..., None], variance, 0.0)

    def _partial_sums(self) -> Array:
        """What float32 may lose of sums, one way: a rounding of each partial sum.

        A partial sum is no larger than the part of the output that it comes to, and MEANDERS standard deviations of
        what is still to come.
        """
        of, keys = self.of, self.weights.shape[-1]
        squares = (self.weights**2 @ (of.value**2).mean(-1)[..., None])  # b h l 1
        largest = np.where(self.rows[..., None], abs(of.largest), 0.0)
        lost = self.precision.accumulator * (keys + largest)
        found: Array = lost * (abs(self.output) + MEANDERS * np.sqrt(squares)) + self.precision.tiny * (keys + 1)
        return found

    def _rows(self) -> Array:
        """Which rows can be judged: b h l."""
        of, unit = self.of, self.precision.unit
        known = ~(of.empty | of.loose | of.silent)[..., 0] & np.isfinite(of.output).all(-1)
        seen = of.allowed & (of.weights > 0)
        count = np.maximum(seen.sum(-1), 1)
        scores = np.where(seen, of.scores - of.largest, 0.0)
        mean = scores.sum(-1) / count
        apart = np.sqrt(np.maximum((scores**2).sum(-1) / count - mean**2, 0.0))
        places = np.where(seen, np.maximum(scores / (ALIKE * unit), -(2.0**31)), -(2.0**31)).astype(np.int32)
        places.sort(-1)
        alike = ((places[..., 1:] == places[..., :-1]) & (places[..., 1:] > -(2**31))).sum(-1)
        known &= (apart > NARROW * unit) & (alike <= CROWDED * count) & (count > 1)
        first = np.zeros(known.size, dtype=bool)  # of rows with the same weights
        first[np.unique(np.float32((of.weights**2).sum(-1)).ravel(), return_index=True)[1]] = True
        return known & first.reshape(known.shape)

    # How weights scatter

    @cached_property
    def of_scores(self) -> Array:
        """The variance of each score: b h l s. Two weights of a row lose in common what the normaliser takes back."""
        of, third = self.of, self.precision.unit**2 / 3
        within = self.weights > 0
        stored = np.where(within, of.stored, 0.0) ** 2
        shifted = np.where(within, of.scores - of.largest, 0.0) ** 2
        inputs = np.where(within, of.magnitude, 0.0) ** 2 * min(4 / self.width, 1.0)  # Σ (q k)²
        found: Array = third * (SCORE_ROUNDINGS * stored + shifted + inputs * (1 + self.common_query))
        return found

    @cached_property
    def common_query(self) -> Array:
        """How many times over the rounding of a key counts because queries point the same way: b h 1 1."""
        together = (self.of.query.sum(-2) ** 2).sum(-1)
        apart = (self.of.query**2).sum((-2, -1))
        return np.maximum(together / np.where(apart == 0, 1, apart), 1.0)[..., None, None]

    @cached_property
    def scatter(self) -> Scatter:
        """Of each row of the output, before its last rounding."""
        squares, third = self.weights**2, self.precision.unit**2 / 3
        own = Scatter.of(WEIGHT_ROUNDINGS * third * squares + self.precision.tiny**2, self.of.value)
        scores = self.of_scores * squares
        total = (scores * self.distances).sum(-1)
        # Σ_k (v_k − o)(v_k − o)ᵀ has no eigenvalue above (√top + √s ‖o‖)²
        far = np.sqrt(self.of.scores.shape[-1] * (self.output**2).sum(-1))
        most = scores.max(-1) * (np.sqrt(self.top)[..., None] + far) ** 2
        return own + Scatter(total, np.minimum(total, most))

    @cached_property
    def top(self) -> Array:
        return top(self.of.value)

    @cached_property
    def distances(self) -> Array:
        """‖v_j − o_i‖²: b h l s."""
        value, output = self.of.value, self.output
        inner = output @ value.swapaxes(-1, -2)
        found: Array = np.maximum(
            (value**2).sum(-1)[..., None, :] - 2 * inner + (output**2).sum(-1)[..., None], 0.0
        )
        return found

    # Directions

    @property
    def whole(self) -> Whole:
        by_row = self.scatter.total + self.variance.sum(-1)
        drift = np.sqrt((self.drift**2).sum()) + self.scale_drift * np.sqrt((self.by_scale**2).sum())
        lines = [
            self._line("a larger or smaller scale", self.by_scale),
            self._line("larger or smaller numbers everywhere", self.output),
            *self._edges(),
            *self._tiles(),
            self._keys(),
        ]
        return Whole(self.rows, float(by_row.sum()), float(by_row.max()), float(drift), tuple(lines))

    @cached_property
    def by_scale(self) -> Array:
        """How the output moves as the scale grows, per part of it: Σ_j p s (v − o)."""
        scores = self.weights * np.where(self.weights > 0, self.of.scores, 0.0)
        moved: Array = scores @ self.of.value - scores.sum(-1, keepdims=True) * self.output
        return moved

    @cached_property
    def scale_drift(self) -> float:
        """By which part the scale may be off, rounded to the dtype, or its root, which queries and keys may share."""
        scale = abs(applied(self.of))
        off = [abs(rounding(np.array([each]), self.precision)[0][0]) / each for each in (scale, np.sqrt(scale)) if each]
        return float(max([*off, 0.0]))

    def _line(self, says: str, along: Array) -> Lines:
        """One direction, for all rows together: along is b h l v."""
        return self._of_sums(says, along, lambda off: np.array([(off * along).sum()]), lambda x: np.array([x.sum()]))

    def _of_sums(
        self, says: str, along: Array, sums: Callable[[Array], Array], of_rows: Callable[[Array], Array]
    ) -> Lines:
        """Directions b h l … v, whose rows b h l … `of_rows` adds up."""
        shape = (*self.rows.shape, *(1,) * (along.ndim - 4), along.shape[-1])
        any_way = self.scatter.any_way.reshape(shape[:-1])
        variance = (along**2).sum(-1) * any_way + (along**2 * self.variance.reshape(shape)).sum(-1)
        drift = (abs(along) * self.drift.reshape(shape)).sum(-1)
        scale = self.scale_drift * abs(of_rows((along * self.by_scale.reshape(shape)).sum(-1)))
        known = abs(of_rows((along * self.error.reshape(shape)).sum(-1)))
        return Lines(says, sums, np.sqrt(of_rows(variance)), of_rows(drift) + scale + known)

    def _edges(self) -> list[Lines]:
        """The last key that each row may attend to left out, and the one behind it let in."""
        of = self.of
        if of.allowed.all():
            return []
        last = of.allowed.shape[-1] - 1 - of.allowed[..., ::-1].argmax(-1)  # b h l
        said = ("the last visible key left out or counted twice", "the key behind the last visible one let in")
        return [self._line(says, self._towards(key)) for says, key in zip(said, (last, last + 1), strict=True)]

    def _towards(self, key: Array) -> Array:
        """How each row moves as one key of its own gets its weight once more: p (v − o), b h l v."""
        of = self.of
        place = np.minimum(key, of.allowed.shape[-1] - 1)[..., None]
        score = np.take_along_axis(of.scores, place, -1) - of.largest
        largest = np.where(self.rows[..., None], self.weights.max(-1, keepdims=True), 0.0)
        weight = np.where((key < of.allowed.shape[-1])[..., None], largest * np.exp(np.clip(score, -700.0, 0.0)), 0.0)
        return np.asarray(weight * (np.take_along_axis(of.value, place, -2) - self.output))

    def _tiles(self) -> list[Lines]:
        """Each tile's weights larger or smaller than they should be."""
        batch, heads, rows, keys = self.weights.shape
        tiles = keys // BLOCK
        if tiles < 2:
            return []
        weights = self.weights[..., : tiles * BLOCK].reshape(batch, heads, rows, tiles, BLOCK).swapaxes(2, 3)
        value = self.of.value[..., : tiles * BLOCK, :].reshape(batch, heads, tiles, BLOCK, -1)
        along = (weights @ value - weights.sum(-1, keepdims=True) * self.output[:, :, None]).swapaxes(2, 3)
        sums = lambda off: (off[..., None, :] * along).sum(-1).sum(2)  # noqa: E731
        says = f"the weights of one tile of {BLOCK} keys: tile {{}}"
        return [self._of_sums(says, along, sums, lambda x: x.sum(2))]

    def _keys(self) -> Lines:
        """Each key left out or counted twice, in all rows of a head: b h s."""
        value, output, weights = self.of.value, self.output, self.weights

        def along(off: Array) -> Array:
            towards = off @ value.swapaxes(-1, -2) - (off * output).sum(-1, keepdims=True)
            return np.asarray((weights * towards).sum(-2))

        squares = weights**2 * self.distances
        variance = (squares * (self.scatter.any_way + self.variance.max(-1))[..., None]).sum(-2)
        drift = (np.sqrt(squares) * np.sqrt((self.drift**2).sum(-1, keepdims=True))).sum(-2)
        steady = self.scale_drift * abs(along(self.by_scale)) + abs(along(self.error))
        return Lines("one key left out or counted twice: key {}", along, np.sqrt(variance), drift + steady)


class Backwards:
    """The errors of gradients, taken together: where all rows are judged, and no heads are shared."""

    def __init__(self, forward: Together, slopes: Slopes) -> None:
        self.forward, self.slopes, self.precision = forward, slopes, forward.precision
        of, third = forward.of, self.precision.unit**2 / 3
        self.scale = abs(applied(of))
        self.weight_gradient = slopes.upstream @ of.value.swapaxes(-1, -2)  # dP: b h l s
        self.scores = slopes.scores / self.scale if self.scale else slopes.scores  # dS = p g, before the scale
        self.weights = forward.weights**2 * (WEIGHT_ROUNDINGS * third + forward.of_scores)
        relative = np.where(of.weights > 0, self.scores / np.where(of.weights > 0, of.weights, 1), 0.0) ** 2
        gradient = of.weights**2 * self.weight_gradient**2
        tiny = self.precision.tiny**2
        self.own = self.weights * relative + third * (gradient + WEIGHT_ROUNDINGS * self.scores**2) + tiny
        # of a whole row: by the sum of its weights, and by D = Σ dO o
        self.sums = self.weights.sum(-1)
        self.means = (self.weights * self.weight_gradient**2).sum(-1)
        self.means = self.means + (slopes.upstream**2 * forward.variance).sum(-1)

    @property
    def wholes(self) -> dict[str, Whole]:
        of = self.forward.of
        if not self.forward.rows.all() or of.asked.key.shape[1] != of.query.shape[1] or not self.scale:
            return {}
        made = {"query": self._query, "key": self._key, "value": self._value}
        return {name: make() for name, make in made.items() if name in of.asked.gradient_of}

    def _query(self) -> Whole:
        of = self.forward.of
        of_means, of_sums = (of.weights @ of.key, self.means), (self.scores @ of.key, self.sums)
        by_row = sum((vectors**2).sum(-1) * variance for vectors, variance in (of_means, of_sums))
        scatter = Scatter.of(self.own, of.key) + Scatter(by_row, by_row)
        return self._whole("query", scatter, self.scores**2 @ of.key**2, of.key.shape[-2])

    def _key(self) -> Whole:
        of, scores = self.forward.of, self.scores
        shared = Shared(of.query, ((of.weights, self.means), (scores, self.sums)))
        scatter = Scatter.of(self.own.swapaxes(-1, -2), of.query)
        return self._whole("key", scatter, (scores**2).swapaxes(-1, -2) @ of.query**2, of.gathered, shared)

    def _value(self) -> Whole:
        of, upstream = self.forward.of, self.slopes.upstream
        shared = Shared(upstream, ((of.weights, self.sums),))
        scatter = Scatter.of(self.weights.swapaxes(-1, -2) + self.precision.tiny**2, upstream)
        return self._whole("value", scatter, (of.weights**2).swapaxes(-1, -2) @ upstream**2, of.gathered, shared)

    def _whole(self, name: str, scatter: Scatter, squares: Array, terms: int, shared: Shared | None = None) -> Whole:
        """Limits of one gradient; `squares` sums the squares of the terms of each of its numbers."""
        value, times = self.slopes.inputs[name][0], 1.0 if name == "value" else self.scale
        error, variance = rounding(value, self.precision)
        variance = GRADIENT_ROUNDINGS * variance
        by_row = times**2 * scatter.total + variance.sum(-1)
        of_all = times**2 * shared.total if shared else 0.0
        partial = abs(value) + MEANDERS * times * np.sqrt(squares)
        drift = self.precision.accumulator * terms * partial + self.precision.tiny * (terms + 1)
        moved = self._by_scale * np.sqrt((value**2).sum())
        along = (value**2).sum(-1)
        deviation = (along * times**2 * scatter.any_way).sum() + (value**2 * variance).sum()
        deviation = deviation + (times**2 * shared.along(value) if shared else 0.0)
        steady = (abs(value) * drift).sum() + self._by_scale * along.sum() + abs((value * error).sum())
        size = Lines(
            "larger or smaller numbers everywhere",
            lambda off: np.array([(off * value).sum()]),
            np.array([np.sqrt(deviation)]),
            np.array([steady]),
        )
        total, most = float(by_row.sum() + of_all), float(by_row.max() + of_all)
        return Whole(
            np.ones(value.shape[:-1], dtype=bool), total, most, float(np.sqrt((drift**2).sum()) + moved), (size,)
        )

    @cached_property
    def _by_scale(self) -> float:
        """By which part a gradient may move because the scale is rounded: it stands before it, and in each weight."""
        of = self.forward.of
        matters = of.weights > self.precision.unit
        return self.forward.scale_drift * (1 + float(np.where(matters, of.largest - of.scores, 0.0).max(initial=0.0)))


class Shared(NamedTuple):
    """Errors that a row has in all its terms: Σ_i ε_i c_ij x_i, which all rows j of a gradient share."""

    vectors: Array
    """x: b h l e."""
    parts: tuple[tuple[Array, Array], ...]
    """c, b h l s, and the variance of ε, b h l."""

    @property
    def total(self) -> float:
        size = (self.vectors**2).sum(-1)
        return float(sum(((c**2).sum(-1) * variance * size).sum() for c, variance in self.parts))

    def along(self, directions: Array) -> float:
        """The variance of the sum along one direction, b h s e."""
        towards = self.vectors @ directions.swapaxes(-1, -2)  # b h l s
        return float(sum(((c * towards).sum(-1) ** 2 * variance).sum() for c, variance in self.parts))
