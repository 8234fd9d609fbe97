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

FEWEST_ROWS = 32
"""Fewer rows say too little together: the limit of their sum lies far above what is to be expected of it."""
FEWEST_NUMBERS = 2**12
"""The same of a tensor's numbers."""
WEIGHTS = 2**13
"""Of a call with more weights than this, its last items and heads are judged together: more would take too long."""
ENOUGH_ROWS, MOST_WEIGHTS = 64, 2**16
"""Where keys are many this many rows are judged nevertheless, up to this many weights; for gradients, all rows are."""
LARGEST = 1e6
"""Calls with larger values than this are not judged together: variances are computed in float32."""
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
    if of.scores.shape[-1] < 2 or np.ndim(of.survival) or of.output.size < FEWEST_NUMBERS:
        return {}
    if abs(of.value).max() > LARGEST or of.output[..., 0].size < FEWEST_ROWS:
        return {}
    together = Together(of, Part.of(of, gradients=slopes is not None))
    if together.rows.sum() < FEWEST_ROWS:
        return {}
    return {"output": together.whole} | (Backwards(together, slopes).wholes if slopes else {})


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
        return Part(slice(batch - items, batch), slice(heads - some_heads, heads), slice((rows - 1) % every, None, every))

    def of_rows(self, array: Array) -> Array:
        """Of an array b h l …, in float32: what is known of errors is known to a few digits."""
        return np.asarray(array[self.items, self.heads, self.rows], dtype=np.float32)

    def of_keys(self, array: Array) -> Array:
        """Of an array b h s …"""
        return np.asarray(array[self.items, self.heads], dtype=np.float32)


class Together:
    """The errors of an output, b h l v, taken together. Rows that are not judged count as zeros."""

    def __init__(self, of: Forward, part: Part) -> None:
        self.of, self.part, self.precision, self.width = of, part, of.precision, of.query.shape[-1]
        self.value, self.weights = part.of_keys(of.value), part.of_rows(of.weights)
        self.behind = part.of_rows(of.scores - of.largest)  # how far each score lies behind the largest
        self.rows = self._rows()
        judged = self.rows[..., None]
        self.weights = np.where(judged, self.weights, np.float32(0))
        exact = np.where(judged, of.output[part.items, part.heads, part.rows], 0.0)
        self.error, variance = rounding(exact, self.precision)
        self.output, self.variance = exact.astype(np.float32), np.where(judged, variance, 0.0)
        self.squares = self.weights**2
        self.norms = (self.value**2).sum(-1)  # of the values: b h s
        self.drift = self._drift()

    def _rows(self) -> Array:
        """Which rows can be judged: b h l. Those whose weights are alike, or all the same as another row's, are not."""
        of, unit, keys = self.of, self.precision.unit, self.weights.shape[-1]
        known = ~(of.empty | of.loose | of.silent)[self.part.items, self.part.heads, self.part.rows, 0]
        places = np.where(self.weights > 0, self.behind / np.float32(ALIKE * unit), np.float32(1)).astype(np.int32)
        places.sort(-1)
        count = np.count_nonzero(places < 1, -1)
        alike = np.count_nonzero(places[..., 1:] == places[..., :-1], -1) - np.maximum(keys - count - 1, 0)
        quarters = np.stack([count // 4, np.maximum(3 * count // 4 - 1, 0)], -1)
        apart = np.diff(np.take_along_axis(places, quarters, -1))[..., 0]
        known = known & (apart * ALIKE > NARROW) & (alike <= CROWDED * count) & (count > 1)
        first = np.zeros(known.size, dtype=bool)
        first[np.unique((self.weights**2).sum(-1), return_index=True)[1]] = True
        return np.asarray(known & first.reshape(known.shape))

    def _drift(self) -> Array:
        """What float32 may lose of sums, one way: a rounding of each partial sum.

        A partial sum is no larger than the part of the output that it comes to, and MEANDERS standard deviations of
        what is still to come.
        """
        keys = self.weights.shape[-1]
        still = np.sqrt((self.squares @ self.norms[..., None]) / self.value.shape[-1])  # b h l 1
        largest = abs(self.part.of_rows(np.where(self.of.empty, 0.0, self.of.largest)))
        lost = self.precision.accumulator * (keys + largest) * self.rows[..., None]
        return np.asarray(lost * (abs(self.output) + MEANDERS * still) + self.precision.tiny * (keys + 1))

    # How weights scatter

    @cached_property
    def of_scores(self) -> Array:
        """The variance of each score, b h l s: rounded at its own size, after the largest was taken off, and as what
        its query and key are rounded to."""
        third = self.precision.unit**2 / 3
        stored, magnitude = self.part.of_rows(self.of.stored), self.part.of_rows(self.of.magnitude)
        inputs = magnitude**2 * (min(4 / self.width, 1.0) * (1 + self.common_query))  # Σ (q k)², twice or more
        found = np.float32(third) * (np.float32(SCORE_ROUNDINGS) * stored**2 + self.behind**2 + inputs)
        return np.where(self.weights > 0, found, np.float32(0))

    @cached_property
    def common_query(self) -> Array:
        """How many times over the rounding of a key counts because queries point the same way: b h 1 1."""
        query = self.part.of_rows(self.of.query)
        apart = (query**2).sum((-2, -1))
        return np.maximum((query.sum(-2) ** 2).sum(-1) / np.where(apart == 0, 1, apart), 1.0)[..., None, None]

    @cached_property
    def scatter(self) -> Scatter:
        """Of each row of the output, before its last rounding."""
        third = self.precision.unit**2 / 3
        own = Scatter.of(np.float32(WEIGHT_ROUNDINGS * third) * self.squares + self.precision.tiny**2, self.value)
        scores = self.of_scores * self.squares
        total = (scores * self.distances).sum(-1)
        # Σ_k (v_k − o)(v_k − o)ᵀ has no eigenvalue above (√top + √s ‖o‖)²
        far = np.sqrt(self.weights.shape[-1] * (self.output**2).sum(-1))
        most = scores.max(-1) * (np.sqrt(top(self.value))[..., None] + far) ** 2
        return own + Scatter(total, np.minimum(total, most))

    @cached_property
    def distances(self) -> Array:
        """‖v_j − o_i‖²: b h l s."""
        inner = self.output @ self.value.swapaxes(-1, -2)
        found = self.norms[..., None, :] - 2 * inner + (self.output**2).sum(-1, keepdims=True)
        return np.maximum(found, np.float32(0))

    # Directions

    @property
    def whole(self) -> Whole:
        lines = [
            self._line("a larger or smaller scale", self.by_scale),
            self._line("larger or smaller numbers", self.output),
            *self._edges(),
            *self._tiles(),
            self._keys(),
        ]
        counts = np.zeros(self.of.output.shape[:-1])
        counts[self.part] = self.counts[..., 0]
        by_row = self.counts[..., 0] * self.noise
        drift = _norm(self.drift, self.counts) + self.scale_drift * _norm(self.by_scale, self.counts)
        return Whole(counts, self.part, float(by_row.sum()), float(by_row.max()), drift, tuple(lines))

    @cached_property
    def noise(self) -> Array:
        """The expected square of each row's error: b h l."""
        return np.asarray(self.scatter.total + self.variance.sum(-1))

    @cached_property
    def counts(self) -> Array:
        """How much a row counts, 1 at most: the less, the more its roundings come to. b h l 1."""
        return _counts(np.where(self.rows, self.noise, np.inf))[..., None]

    @cached_property
    def by_scale(self) -> Array:
        """How the output moves as the scale grows, per part of it: Σ_j p s (v − o)."""
        scores = self.weights * np.where(self.weights > 0, self.behind, np.float32(0))
        moved: Array = scores @ self.value - scores.sum(-1, keepdims=True) * self.output
        return moved

    @cached_property
    def scale_drift(self) -> float:
        """By which part the scale may be off, rounded to the dtype, or its root, which queries and keys may share."""
        scale = abs(applied(self.of))
        off = [abs(rounding(np.array([each]), self.precision)[0][0]) / each for each in (scale, np.sqrt(scale)) if each]
        return float(max([*off, 0.0]))

    def _line(self, says: str, along: Array) -> Lines:
        """One direction, for all rows together: along is b h l v."""
        along = self.counts * along
        sums = lambda off: np.array([(off * along).sum()])  # noqa: E731
        return self._of_sums(says, along, sums, lambda x: np.array([x.sum()]), self._in_direction(along))

    def _in_direction(self, along: Array) -> Array:
        """The variance of each row in one direction, before its last rounding: b h l."""
        third = np.float32(WEIGHT_ROUNDINGS * self.precision.unit**2 / 3)
        of_value = along @ self.value.swapaxes(-1, -2)
        from_output = of_value - (along * self.output).sum(-1, keepdims=True)
        return np.asarray((self.squares * (third * of_value**2 + self.of_scores * from_output**2)).sum(-1))

    def _of_sums(
        self,
        says: str,
        along: Array,
        sums: Callable[[Array], Array],
        of_rows: Callable[[Array], Array],
        variance: Array | None = None,
    ) -> Lines:
        """Directions b h l … v, whose rows b h l … `of_rows` adds up."""
        shape = (*self.rows.shape, *(1,) * (along.ndim - 4), along.shape[-1])
        if variance is None:
            variance = (along**2).sum(-1) * self.scatter.any_way.reshape(shape[:-1])
        variance = variance + (along**2 * self.variance.reshape(shape)).sum(-1)
        drift = (abs(along) * self.drift.reshape(shape)).sum(-1)
        scale = self.scale_drift * abs(of_rows((along * self.by_scale.reshape(shape)).sum(-1)))
        known = abs(of_rows((along * self.error.reshape(shape)).sum(-1)))
        return Lines(says, sums, np.sqrt(of_rows(variance)), of_rows(drift) + scale + known)

    def _edges(self) -> list[Lines]:
        """The last key that each row may attend to left out, and the one behind it let in."""
        if self.of.allowed.all():
            return []
        allowed = self.of.allowed[self.part.items, self.part.heads, self.part.rows]
        last = allowed.shape[-1] - 1 - allowed[..., ::-1].argmax(-1)  # b h l
        said = ("the last visible key left out or counted twice", "the key behind the last visible one let in")
        return [self._line(says, self._towards(key)) for says, key in zip(said, (last, last + 1), strict=True)]

    def _towards(self, key: Array) -> Array:
        """How each row moves as one key of its own gets its weight once more: p (v − o), b h l v."""
        place = np.minimum(key, self.weights.shape[-1] - 1)[..., None]
        behind = np.clip(np.take_along_axis(self.behind, place, -1), -700.0, 0.0)
        weight = self.weights.max(-1, keepdims=True) * np.exp(behind) * (key < self.weights.shape[-1])[..., None]
        return np.asarray(weight * (np.take_along_axis(self.value, place, -2) - self.output))

    def _tiles(self) -> list[Lines]:
        """Each tile's weights larger or smaller than they should be."""
        batch, heads, rows, keys = self.weights.shape
        tiles = keys // BLOCK
        if tiles < 2:
            return []
        weights = self.weights[..., : tiles * BLOCK].reshape(batch, heads, rows, tiles, BLOCK).swapaxes(2, 3)
        value = self.value[..., : tiles * BLOCK, :].reshape(batch, heads, tiles, BLOCK, -1)
        along = (weights @ value - weights.sum(-1, keepdims=True) * self.output[:, :, None]).swapaxes(2, 3)
        along = self.counts[..., None] * along
        sums = lambda off: (off[..., None, :] * along).sum(-1).sum(2)  # noqa: E731
        says = f"the weights of one tile of {BLOCK} keys: tile {{}}"
        return [self._of_sums(says, along, sums, lambda x: x.sum(2))]

    def _keys(self) -> Lines:
        """Each key left out or counted twice, in all rows of a head: b h s."""
        value, output, weights = self.value, self.output, self.counts * self.weights

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
        self.forward, self.slopes, self.part = forward, slopes, forward.part
        self.precision, self.scale = forward.precision, abs(applied(forward.of))

    @property
    def wholes(self) -> dict[str, Whole]:
        asked = self.forward.of.asked
        if not self.forward.rows.all() or self.part.rows.step > 1 or asked.key.shape[1] != asked.query.shape[1]:
            return {}
        made = {"query": self._query, "key": self._key, "value": self._value}
        return {name: make() for name, make in made.items() if name in asked.gradient_of and self.scale}

    # Variances: of single weights and scores, b h l s, and of whole rows, b h l

    @cached_property
    def query(self) -> Array:
        return self.part.of_rows(self.forward.of.query)

    @cached_property
    def key(self) -> Array:
        return self.part.of_keys(self.forward.of.key)

    @cached_property
    def upstream(self) -> Array:
        return self.part.of_rows(self.slopes.upstream)

    @cached_property
    def weight_gradient(self) -> Array:
        """dP"""
        return np.asarray(self.upstream @ self.forward.value.swapaxes(-1, -2))

    @cached_property
    def scores(self) -> Array:
        """dS = p g, before the scale."""
        return self.part.of_rows(self.slopes.scores) / np.float32(self.scale)

    @cached_property
    def of_weights(self) -> Array:
        """How weights scatter."""
        twice = np.float32(WEIGHT_ROUNDINGS * self.precision.unit**2 / 3)
        return self.forward.squares * (twice + self.forward.of_scores) + np.float32(self.precision.tiny**2)

    @cached_property
    def of_slopes(self) -> Array:
        """How dS scatters: with the weights, and by roundings of dP and its own."""
        third, squares = np.float32(self.precision.unit**2 / 3), self.forward.squares
        relative = self.scores**2 / np.where(squares > 0, squares, np.float32(1))
        own = self.of_weights * relative + np.float32(WEIGHT_ROUNDINGS) * third * self.scores**2
        return own + third * squares * self.weight_gradient**2 + np.float32(self.precision.tiny**2)

    @cached_property
    def sums(self) -> Array:
        """How the sum of a row's weights scatters."""
        return np.asarray(self.of_weights.sum(-1))

    @cached_property
    def means(self) -> Array:
        """How D = Σ dO o scatters."""
        of_output = (self.upstream**2 * self.forward.variance).sum(-1)
        return np.asarray((self.of_weights * self.weight_gradient**2).sum(-1) + of_output)

    # The three gradients

    def _query(self) -> Whole:
        of_means, of_sums = (self.forward.weights @ self.key, self.means), (self.scores @ self.key, self.sums)
        by_row = sum((vectors**2).sum(-1) * variance for vectors, variance in (of_means, of_sums))
        scatter = Scatter.of(self.of_slopes, self.key) + Scatter(by_row, by_row)
        return self._whole("query", scatter, self.scores**2 @ self.key**2, self.key.shape[-2])

    def _key(self) -> Whole:
        shared = Shared(self.query, ((self.forward.weights, self.means), (self.scores, self.sums)))
        scatter = Scatter.of(self.of_slopes.swapaxes(-1, -2), self.query)
        return self._whole("key", scatter, (self.scores**2).swapaxes(-1, -2) @ self.query**2, self.rows, shared)

    def _value(self) -> Whole:
        shared = Shared(self.upstream, ((self.forward.weights, self.sums),))
        scatter = Scatter.of(self.of_weights.swapaxes(-1, -2), self.upstream)
        squares = self.forward.squares.swapaxes(-1, -2) @ self.upstream**2
        return self._whole("value", scatter, squares, self.rows, shared)

    @property
    def rows(self) -> int:
        return self.query.shape[-2]

    def _whole(self, name: str, scatter: Scatter, squares: Array, terms: int, shared: Shared | None = None) -> Whole:
        """Limits of one gradient; `squares` sums the squares of the terms of each of its numbers."""
        exact, times = self.slopes.inputs[name][0], 1.0 if name == "value" else self.scale
        part = (self.part.items, self.part.heads)
        value = exact[part]
        error, variance = rounding(value, self.precision)
        variance = GRADIENT_ROUNDINGS * variance
        by_row = times**2 * scatter.total + variance.sum(-1)
        counts = _counts(by_row)
        of_all = times**2 * shared.total if shared else 0.0
        partial = abs(value) + MEANDERS * times * np.sqrt(squares)
        drift = self.precision.accumulator * terms * partial + self.precision.tiny * (terms + 1)
        along = counts[..., None] * value
        deviation = ((along**2).sum(-1) * times**2 * scatter.any_way).sum() + (along**2 * variance).sum()
        deviation = deviation + (times**2 * shared.along(along) if shared else 0.0)
        steady = (abs(along) * drift).sum() + self._by_scale * (along * value).sum() + abs((along * error).sum())
        size = Lines(
            "larger or smaller numbers",
            lambda off: np.array([(off * along).sum()]),
            np.array([np.sqrt(deviation)]),
            np.array([steady]),
        )
        rows = np.zeros(exact.shape[:-1])
        rows[part] = counts
        total, most = float((counts * by_row).sum() + of_all), float((counts * by_row).max() + of_all)
        off = _norm(drift, counts[..., None]) + self._by_scale * _norm(value, counts[..., None])
        return Whole(rows, part, total, most, off, (size,))

    @cached_property
    def _by_scale(self) -> float:
        """By which part a gradient may move because the scale is rounded: it stands before it, and in each weight."""
        matters = self.forward.weights > self.precision.unit
        furthest = np.where(matters, -self.forward.behind, np.float32(0)).max(initial=0.0)
        return self.forward.scale_drift * (1 + float(furthest))


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


def _counts(noise: Array) -> Array:
    """How much rows count whose errors have these expected squares: the least noisy one 1, all others less."""
    return np.asarray(noise.min(initial=np.inf) / noise)


def _norm(array: Array, counts: Array) -> float:
    return float(np.sqrt((counts * array**2).sum()))
