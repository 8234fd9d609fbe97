"""How the roundings of an output scatter, and in which directions mistakes would move it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnsuite.judging.whole import Directions, Scatter, Whole, counted, norm, rounding, top

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import Forward
    from attnsuite.contracts.attention.scatter.part import Part

Array = np.ndarray[Any, Any]

WEIGHT_ROUNDINGS = 2.0
"""How often a weight is rounded: the power, and what it is divided by the sum to."""
SCORE_ROUNDINGS = 3.0
"""How often a score is rounded at its own size: as a product, scaled, and with the mask."""
SQUARED_SUM = 4.0
"""How large Σ (q k)² is of e products, in units of (Σ |q k|)² / e: 2.5 of normally distributed numbers."""
LEAST = np.float32(1e-6)
"""The part of the squares of two vectors below which float32 does not know the square of their difference."""
MEANDERS = 4.0
"""Standard deviations by which the partial sums of a row meander, in an order that the numbers know nothing of."""
TILE = 64
"""Keys of one tile."""
SAID = ("the last visible key left out or counted twice", "the key behind the last visible one let in")


class OfOutput:
    """The errors of an output, b h l v, taken together. Rows that are not judged are zeros."""

    def __init__(self, of: Forward, part: Part) -> None:
        self.of, self.part, self.precision = of, part, of.precision
        self.third = np.float32(of.precision.unit**2 / 3)  # the variance of one rounding of a number near 1
        self.value, weights = part.of_keys(of.value), part.of_rows(of.weights)
        self.behind = part.of_rows(of.scores - of.largest)  # how far each score lies behind the largest
        self.rows = part.judged(of, weights, self.behind)
        judged = self.rows[..., None]
        self.weights = np.where(judged, weights, np.float32(0))
        self.squares = self.weights**2
        self.norms = (self.value**2).sum(-1)  # of the values: b h s
        exact = np.where(judged, of.output[part], 0.0)
        self.output = exact.astype(np.float32)
        # values and outputs without what they have in common, which would cancel badly where they are subtracted
        common = exact.mean(-2, keepdims=True)
        self.apart = np.asarray(of.value[part[:2]] - common, dtype=np.float32)
        self.mixed = np.asarray(exact - common, dtype=np.float32)
        self.error, variance = rounding(exact, self.precision)
        self.variance = np.where(judged, variance, 0.0)

    # How it scatters

    @cached_property
    def drift(self) -> Array:
        """What float32 may lose of sums, one way: a rounding of each partial sum.

        A partial sum is no larger than the part of the output that it comes to, and MEANDERS standard deviations of
        what is still to come.
        """
        keys = self.weights.shape[-1]
        still = np.sqrt((self.squares @ self.norms[..., None]) / self.value.shape[-1])  # b h l 1
        largest = abs(self.part.of_rows(np.where(self.of.empty, 0.0, self.of.largest)))
        lost = self.precision.accumulator * (keys + largest) * self.rows[..., None]
        return np.asarray(lost * (abs(self.output) + MEANDERS * still) + self.precision.tiny * (keys + 1))

    @cached_property
    def of_scores(self) -> Array:
        """The variance of each score, b h l s: rounded at its size, below the largest, and as query and key are."""
        stored, magnitude = self.part.of_rows(self.of.stored), self.part.of_rows(self.of.magnitude)
        times = min(SQUARED_SUM / self.of.query.shape[-1], 1.0) * (self._common_query + self._common_keys)
        inputs = magnitude**2 * times[..., None, None]
        found = self.third * (np.float32(SCORE_ROUNDINGS) * stored**2 + self.behind**2 + inputs)
        return np.where(self.weights > 0, found, np.float32(0))

    @property
    def _common_query(self) -> Array:
        """How many times over the rounding of a key counts because queries point the same way: b h."""
        query = self.part.of_rows(self.of.query)
        apart = (query**2).sum((-2, -1))
        common = (query.sum(-2) ** 2).sum(-1) / np.where(apart == 0, 1, apart)
        return np.asarray(np.maximum(common, np.float32(1)))

    @property
    def _common_keys(self) -> Array:
        """How many times over the rounding of a query counts because values go with keys, Σ p k (v − o): b h."""
        weights = self.weights.mean(-2)[..., None]  # b h s 1
        key, value = weights * self.part.of_keys(self.of.key), self.apart
        together = ((key.swapaxes(-1, -2) @ value) ** 2).sum((-2, -1))
        apart = ((key**2).sum(-1) * (value**2).sum(-1)).sum(-1)
        return np.asarray(np.maximum(together / np.where(apart == 0, 1, apart), np.float32(1)))

    @cached_property
    def of_weights(self) -> Array:
        """The variance of each weight but for its score's: b h l s."""
        rounded = self.squares * (np.float32(WEIGHT_ROUNDINGS) * self.third)
        return np.asarray(rounded + np.float32(self.precision.tiny**2))

    @cached_property
    def scatter(self) -> Scatter:
        """Of each row, before its last rounding. Errors of scores move a row by v − o, those of weights by v."""
        scores = self.of_scores * self.squares
        total = (scores * self.distances).sum(-1)
        # Σ_k (v_k − o)(v_k − o)ᵀ has no eigenvalue above (√top + √s ‖o‖)²
        far = np.sqrt(self.weights.shape[-1] * (self.mixed**2).sum(-1))
        most = scores.max(-1) * (np.sqrt(top(self.apart))[..., None] + far) ** 2
        return Scatter.of(self.of_weights, self.value) + Scatter(total, np.minimum(total, most))

    @cached_property
    def distances(self) -> Array:
        """‖v_j − o_i‖², or what float32 makes of 0: b h l s."""
        size = (self.apart**2).sum(-1)[..., None, :] + (self.mixed**2).sum(-1, keepdims=True)
        return np.asarray(np.maximum(size - 2 * self.mixed @ self.apart.swapaxes(-1, -2), LEAST * size))

    @cached_property
    def counts(self) -> Array:
        """How much a row counts, 1 at most: the less, the more its roundings come to. b h l 1."""
        return counted(np.where(self.rows, self._noise, np.inf)).astype(np.float32)[..., None]

    @cached_property
    def _noise(self) -> Array:
        """The expected square of each row's error: b h l."""
        return np.asarray(self.scatter.total + self.variance.sum(-1))

    @property
    def whole(self) -> Whole:
        counts = np.zeros(self.of.output.shape[:-1])
        counts[self.part] = self.counts[..., 0]
        by_row = self.counts[..., 0] * self._noise
        drift = norm(self.drift, self.counts) + self.scale_drift * norm(self.by_scale, self.counts)
        return Whole(counts, self.part, float(by_row.sum()), float(by_row.max()), drift, tuple(self._directions()))

    # In which directions mistakes move it

    def _directions(self) -> list[Directions]:
        return [
            self._one("a larger or smaller scale", self.by_scale),
            self._one("larger or smaller numbers", self.output),
            *self._edges(),
            *self._tiles(),
            self._keys(),
        ]

    @cached_property
    def by_scale(self) -> Array:
        """How the output moves as the scale grows, per part of it: Σ_j p s (v − o)."""
        scores = self.weights * np.where(self.weights > 0, self.behind, np.float32(0))
        return np.asarray(scores @ self.apart - scores.sum(-1, keepdims=True) * self.mixed)

    @cached_property
    def scale_drift(self) -> float:
        """By which part the scale may be off, rounded to the dtype, or its root, which queries and keys may share."""
        scale = abs(self.of.scale)
        off = [abs(rounding(np.array([each]), self.precision)[0][0]) / each for each in (scale, np.sqrt(scale)) if each]
        return float(max([*off, 0.0]))

    def _one(self, says: str, along: Array) -> Directions:
        """One direction, for all rows together: along is b h l v."""
        along = self.counts * along
        sums = lambda off: np.array([(off * along).sum()])  # noqa: E731
        return self._several(says, along, sums, lambda of_rows: np.array([of_rows.sum()]), self._variance(along))

    def _variance(self, along: Array) -> Array:
        """The variance of each row in one direction, before its last rounding: b h l."""
        of_value = along @ self.value.swapaxes(-1, -2)
        from_output = along @ self.apart.swapaxes(-1, -2) - (along * self.mixed).sum(-1, keepdims=True)
        return np.asarray((self.of_weights * of_value**2 + self.squares * self.of_scores * from_output**2).sum(-1))

    def _several(
        self, says: str, along: Array, sums: Callable[[Array], Array], add: Callable[[Array], Array], variance: Array
    ) -> Directions:
        """Directions b h l … v, with a variance b h l … before the last rounding; `add` adds up their rows."""
        shape = (*self.rows.shape, *(1,) * (along.ndim - 4), along.shape[-1])
        variance = add(variance + (along**2 * self.variance.reshape(shape)).sum(-1))
        drift = add((abs(along) * self.drift.reshape(shape)).sum(-1))
        scale = abs(add((along * self.by_scale.reshape(shape)).sum(-1)))
        known = abs(add((along * self.error.reshape(shape)).sum(-1)))
        return Directions(says, sums, np.sqrt(variance), drift + self.scale_drift * scale + known)

    def _edges(self) -> list[Directions]:
        """The last key that each row may attend to left out, and the one behind it let in."""
        if self.of.allowed.all():
            return []
        allowed = self.of.allowed[self.part]
        last = allowed.shape[-1] - 1 - allowed[..., ::-1].argmax(-1)  # b h l
        return [self._one(says, self._towards(key)) for says, key in zip(SAID, (last, last + 1), strict=True)]

    def _towards(self, key: Array) -> Array:
        """How each row moves as one key of its own gets its weight once more, p (v − o): b h l v."""
        place = np.minimum(key, self.weights.shape[-1] - 1)[..., None]
        behind = np.clip(np.take_along_axis(self.behind, place, -1), -700.0, 0.0)
        weight = self.weights.max(-1, keepdims=True) * np.exp(behind) * (key < self.weights.shape[-1])[..., None]
        return np.asarray(weight * (np.take_along_axis(self.apart, place, -2) - self.mixed))

    def _tiles(self) -> list[Directions]:
        """The weights of each tile larger or smaller, b h t."""
        batch, heads, rows, keys = self.weights.shape
        tiles = keys // TILE
        if tiles < 2:
            return []
        weights = self.weights[..., : tiles * TILE].reshape(batch, heads, rows, tiles, TILE).swapaxes(2, 3)
        value = self.apart[..., : tiles * TILE, :].reshape(batch, heads, tiles, TILE, -1)
        along = weights @ value - weights.sum(-1, keepdims=True) * self.mixed[:, :, None]  # b h t l v
        along = self.counts[..., None] * along.swapaxes(2, 3)
        sums = lambda off: (off[..., None, :] * along).sum(-1).sum(2)  # noqa: E731
        variance = (along**2).sum(-1) * self.scatter.any_way[..., None]
        says = f"the weights of one tile of {TILE} keys (tile {{}})"
        return [self._several(says, along, sums, lambda of_rows: of_rows.sum(2), variance)]

    def _keys(self) -> Directions:
        """Each key left out or counted twice, in all rows of a head, p (v − o): b h s."""
        value, output, weights = self.apart, self.mixed, self.counts * self.weights

        def sums(off: Array) -> Array:
            towards = off @ value.swapaxes(-1, -2) - (off * output).sum(-1, keepdims=True)
            return np.asarray((weights * towards).sum(-2))

        squares = weights**2 * self.distances
        variance = (squares * (self.scatter.any_way + self.variance.max(-1))[..., None]).sum(-2)
        drift = (np.sqrt(squares) * np.sqrt((self.drift**2).sum(-1, keepdims=True))).sum(-2)
        known = self.scale_drift * abs(sums(self.by_scale)) + abs(sums(self.error))
        return Directions("one key left out or counted twice (key {})", sums, np.sqrt(variance), drift + known)
