"""How the roundings of the gradients of query, key and value scatter."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnsuite.contracts.attention.scatter.output import MEANDERS, WEIGHT_ROUNDINGS
from attnsuite.contracts.attention.scatter.part import clumped
from attnsuite.judging.whole import Directions, Scatter, Whole, counted, norm, rounding

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import Slopes
    from attnsuite.contracts.attention.scatter.output import OfOutput

Array = np.ndarray[Any, Any]

GRADIENT_ROUNDINGS = 2.0
"""How often a gradient is rounded: as a sum, and scaled."""


class Shared(NamedTuple):
    """Errors that a query has in all its terms, and so all keys of a gradient share: Σ_i ε_i c_ij x_i."""

    vectors: Array
    """x: b h l e."""
    parts: tuple[tuple[Array, Array], ...] = ()
    """c, b h l s, and the variance of ε, b h l."""

    @property
    def total(self) -> float:
        size = (self.vectors**2).sum(-1)
        return float(sum(((c**2).sum(-1) * variance * size).sum() for c, variance in self.parts))

    def along(self, directions: Array) -> float:
        """The variance of the sum along directions b h s e."""
        towards = self.vectors @ directions.swapaxes(-1, -2)  # b h l s
        return float(sum(((c * towards).sum(-1) ** 2 * variance).sum() for c, variance in self.parts))


class Terms(NamedTuple):
    """What the numbers of a gradient are summed from."""

    scatter: Scatter
    """Of its rows, before they are rounded, but for what they share."""
    shared: Shared
    squares: Array
    """The sum of the squares of each number's terms."""
    number: int
    """How many terms each number has."""
    scale: float
    """What the sum is multiplied by."""


class OfGradients:
    """The errors of gradients, taken together: where all rows are judged, and no heads are shared."""

    def __init__(self, output: OfOutput, slopes: Slopes) -> None:
        self.output, self.slopes, self.part, self.precision = output, slopes, output.part, output.precision
        self.scale = abs(output.of.scale)
        self.query, self.key = self.part.of_rows(output.of.query), self.part.of_keys(output.of.key)
        self.upstream = self.part.of_rows(slopes.upstream)
        self.weights, self.squares = output.weights, output.squares

    @property
    def wholes(self) -> dict[str, Whole]:
        asked = self.output.of.asked
        all_rows = self.output.rows.all() and self.part.rows.step == 1
        if not (all_rows and self.scale and asked.key.shape[1] == asked.query.shape[1]) or self._alike:
            return {}
        terms = {"query": self._of_query, "key": self._of_key, "value": self._of_value}
        return {name: self._whole(name, of()) for name, of in terms.items() if name in asked.gradient_of}

    @property
    def _alike(self) -> bool:
        """Whether gradients of weights are rounded alike: of equal output gradients, or of values that are near."""
        size = abs(self.weight_gradient)[self.weights > 0]
        largest = size.max(initial=0.0)
        with np.errstate(divide="ignore"):
            steps = np.log(size / largest) / np.float32(self.precision.unit) - 1 if largest else size
        return not largest or clumped(steps, self.precision.unit)  # the largest itself lies one unit down

    # Variances: of single weights and scores, b h l s, and of what a row has in common, b h l

    @cached_property
    def weight_gradient(self) -> Array:
        """The gradient of the weights, dP."""
        return np.asarray(self.upstream @ self.output.value.swapaxes(-1, -2))

    @cached_property
    def scores(self) -> Array:
        """The gradient of the scores before the scale, dS = p g."""
        return self.part.of_rows(self.slopes.scores) / np.float32(self.scale)

    @cached_property
    def of_weights(self) -> Array:
        return np.asarray(self.output.of_weights + self.squares * self.output.of_scores)

    @cached_property
    def of_slopes(self) -> Array:
        """Of dS: with the weights, and by roundings of dP and its own."""
        third, squares = self.output.third, self.squares
        relative = self.scores**2 / np.where(squares > 0, squares, np.float32(1))
        own = self.of_weights * relative + np.float32(WEIGHT_ROUNDINGS) * third * self.scores**2
        return np.asarray(own + third * squares * self.weight_gradient**2 + np.float32(self.precision.tiny**2))

    @cached_property
    def sums(self) -> Array:
        """Of the sum of a row's weights."""
        return np.asarray(self.of_weights.sum(-1))

    @cached_property
    def means(self) -> Array:
        """Of D = Σ dO o."""
        of_output = (self.upstream**2 * self.output.variance).sum(-1)
        return np.asarray((self.of_weights * self.weight_gradient**2).sum(-1) + of_output)

    # The three gradients

    def _of_query(self) -> Terms:
        common = ((self.weights @ self.key) ** 2).sum(-1) * self.means
        common = common + ((self.scores @ self.key) ** 2).sum(-1) * self.sums
        scatter = Scatter.of(self.of_slopes, self.key) + Scatter(common, common)
        return Terms(scatter, Shared(self.query), self.scores**2 @ self.key**2, self.key.shape[-2], self.scale)

    def _of_key(self) -> Terms:
        shared = Shared(self.query, ((self.weights, self.means), (self.scores, self.sums)))
        scatter = Scatter.of(self.of_slopes.swapaxes(-1, -2), self.query)
        squares = (self.scores**2).swapaxes(-1, -2) @ self.query**2
        return Terms(scatter, shared, squares, self.query.shape[-2], self.scale)

    def _of_value(self) -> Terms:
        shared = Shared(self.upstream, ((self.weights, self.sums),))
        scatter = Scatter.of(self.of_weights.swapaxes(-1, -2), self.upstream)
        squares = self.squares.swapaxes(-1, -2) @ self.upstream**2
        return Terms(scatter, shared, squares, self.query.shape[-2], 1.0)

    def _whole(self, name: str, terms: Terms) -> Whole:
        exact = self.slopes.inputs[name][0]
        part = (self.part.items, self.part.heads)
        value, times = exact[part], terms.scale**2
        error, variance = rounding(value, self.precision)
        variance = GRADIENT_ROUNDINGS * variance
        by_row = times * terms.scatter.total + variance.sum(-1)
        counts = counted(by_row)[..., None]
        drift, along = self._drift(value, terms), counts * value
        any_way = ((along**2).sum(-1) * terms.scatter.any_way).sum() + terms.shared.along(along)
        deviation = np.sqrt(times * any_way + (along**2 * variance).sum())
        steady = (abs(along) * drift).sum() + self._by_scale * (along * value).sum() + abs((along * error).sum())
        sums = lambda off: np.array([(off * along).sum()])  # noqa: E731
        size = Directions("larger or smaller numbers", sums, np.array([deviation]), np.array([steady]))
        weighed, shared = counts[..., 0] * by_row, times * terms.shared.total
        total, most = float(weighed.sum() + shared), float(weighed.max() + shared)
        off = norm(drift, counts) + self._by_scale * norm(value, counts)
        everywhere = np.zeros(exact.shape[:-1])
        everywhere[part] = counts[..., 0]
        return Whole(everywhere, part, total, most, off, (size,))

    def _drift(self, value: Array, terms: Terms) -> Array:
        """What float32 may lose of sums, one way, as of the output."""
        partial = abs(value) + MEANDERS * terms.scale * np.sqrt(terms.squares)
        lost = self.precision.accumulator * terms.number * partial
        return np.asarray(lost + self.precision.tiny * (terms.number + 1))

    @cached_property
    def _by_scale(self) -> float:
        """By which part a gradient may move because the scale is rounded: it stands before it, and in each weight."""
        matters = self.weights > self.precision.unit
        furthest = np.where(matters, -self.output.behind, np.float32(0)).max(initial=0.0)
        return self.output.scale_drift * (1 + float(furthest))
