"""A variance model of the rounding errors of a correct attention in a 16-bit dtype: float16 or bfloat16.

It gives the limits of all errors of a tensor taken together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnsuite.judging.aggregate import (
    AggregateLimits,
    Directions,
    ErrorVariance,
    eigenvalue_bound,
    inverse_noise_weights,
    norm,
    rounding,
)

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import BackwardPass, ForwardPass

Array = np.ndarray[Any, Any]

MAX_WEIGHTS = 2**13
"""Number of weights b·h·l·s above which only the last items and heads of a call are judged together, to limit time."""
MIN_ROWS, MAX_WEIGHTS_OF_ROWS = 64, 2**16
"""With many keys, MIN_ROWS rows are judged anyway while they have at most this many weights; gradients need all."""
TIE_WIDTH = 1 / 64
"""Unit roundoffs: weights of a row whose logarithms are this close round alike, also after a common factor."""
MAX_TIED_SHARE = 0.5
"""A row is not judged if more than this share of its weights round like another weight of the row."""
MIN_SPREAD = 8.0
"""Unit roundoffs: the smallest interquartile range of the logarithms of a row's weights; 8 / 256 = 0.03 in bfloat16.
In a narrower range, rounding errors are not up as often as down."""
MAX_CLUSTERING, MIN_PAIRS = 1.5, 200
"""No row is judged if more pairs of weights share a cell than MAX_CLUSTERING times the number for evenly distributed
weights, plus MIN_PAIRS for chance: 1,700 pairs where 1,000 are expected."""
MIN_LOG_WEIGHT = 4
"""Weights are examined down to exp(−MIN_LOG_WEIGHT) of the largest of their row."""
WEIGHT_ROUNDINGS = 2.0
"""Roundings of a weight: after the exponential, and after the division by the sum."""
SCORE_ROUNDINGS = 3.0
"""Roundings of a score at its own size: as a product, scaled, and with the mask."""
GRADIENT_ROUNDINGS = 2.0
"""Roundings of a gradient: as a sum, and scaled."""
SQUARED_SUM = 4.0
"""Limit of Σ (q k)² over e products, in units of (Σ |q k|)² / e; normally distributed elements have 2.5."""
MIN_DISTANCE = np.float32(1e-6)
"""Part of the squares of two vectors below which float32 does not know the square of their difference."""
PARTIAL_SUM_DEVIATIONS = 4.0
"""Standard deviations that a partial sum of a row may be away from its final share, in any order of its terms."""
TILE = 64
"""Keys of a tile whose weights are judged together."""
EDGE_MISTAKES = ("the last visible key left out or counted twice", "the key behind the last visible one let in")
MIN_JUDGED_ROWS, MIN_ELEMENTS = 32, 2**13
"""Fewer rows or elements are not judged together: the limit of their sum lies far above its expectation."""
MAX_VALUE = 1e6
"""Calls with larger values are not judged together, since variances are computed in float32."""


def aggregate_limits(forward: ForwardPass, backward: BackwardPass | None) -> dict[str, AggregateLimits]:
    """The limits of output and gradients taken together, by name; a tensor that cannot be judged so is missing.

    Under dropout no tensor is judged.
    """
    *_, rows, keys = forward.scores.shape
    enough = forward.output.size >= MIN_ELEMENTS and forward.output[..., 0].size >= MIN_JUDGED_ROWS
    enough = enough and rows > 0 and keys > 1 and not np.ndim(forward.dropout_factor)
    if not enough or abs(forward.value).max() > MAX_VALUE:
        return {}
    output = OutputErrors(forward, JudgedPart.choose(forward, gradients=backward is not None))
    if output.judged.sum() < MIN_JUDGED_ROWS:
        return {}
    return {"output": output.limits} | (GradientErrors(output, backward).limits if backward else {})


class JudgedPart(NamedTuple):
    """The last items and heads of a call, and every n-th of their rows."""

    items: slice
    heads: slice
    rows: slice

    @staticmethod
    def choose(forward: ForwardPass, *, gradients: bool) -> JudgedPart:
        """As many rows as there is time for; all rows for gradients where they are few enough."""
        batch, heads, rows, keys = forward.scores.shape
        most = max(MAX_WEIGHTS // keys, min(MIN_ROWS, MAX_WEIGHTS_OF_ROWS // keys), 1)
        step = 1 if gradients and rows * keys <= MAX_WEIGHTS_OF_ROWS else -(-rows // most)
        some_heads = min(heads, max(most * step // rows, 1))
        items = min(batch, max(most * step // (some_heads * rows), 1)) if some_heads == heads else 1
        return JudgedPart(
            slice(batch - items, batch), slice(heads - some_heads, heads), slice((rows - 1) % step, None, step)
        )

    def of_rows(self, array: Array) -> Array:
        """The part of an array b h l …, in float32, which has digits enough for errors."""
        return np.asarray(array[self.items, self.heads, self.rows], dtype=np.float32)

    def of_keys(self, array: Array) -> Array:
        """The part of an array b h s …, with all keys."""
        return np.asarray(array[self.items, self.heads], dtype=np.float32)

    def judged(self, forward: ForwardPass, weights: Array, below_largest: Array) -> Array:
        """True for rows that can be judged, b h l; `below_largest` are the scores minus the largest of their row."""
        eligible = ~np.asarray(forward.empty | forward.loose | forward.zero_rows)[self.items, self.heads, self.rows, 0]
        steps = below_largest / np.float32(forward.precision.unit)
        eligible = eligible & _spread(weights, steps / np.float32(TIE_WIDTH)) & _first(weights)
        together = steps[eligible[..., None] & (weights > 0)]
        return np.asarray(eligible & (not clustered(together, forward.precision.unit)))


def _spread(weights: Array, steps: Array) -> Array:
    """True for rows whose weights span many steps of the dtype and rarely round alike: b h l."""
    places = np.where(weights > 0, steps, np.float32(1)).astype(np.int32)  # hidden keys at 1, behind all others
    places.sort(-1)
    count = np.count_nonzero(places < 1, -1)
    hidden = places.shape[-1] - count
    tied = np.count_nonzero(places[..., 1:] == places[..., :-1], -1) - np.maximum(hidden - 1, 0)
    quartiles = np.stack([count // 4, np.maximum(3 * count // 4 - 1, 0)], -1)
    span = np.diff(np.take_along_axis(places, quartiles, -1))[..., 0]
    return np.asarray((count > 1) & (tied <= MAX_TIED_SHARE * count) & (span * TIE_WIDTH > MIN_SPREAD))


def clustered(steps: Array, unit: float) -> bool:
    """Whether elements of all rows lie in clusters narrower than a step of the dtype, and so have equal errors.

    `steps` are the logarithms of elements, in units, from the largest down. Pairs in one cell are counted, with cells
    of an eighth of a unit, and with cells 32 times as wide. Evenly distributed ones have 32 times as many pairs there.
    """
    cells = int(8 * MIN_LOG_WEIGHT / unit)
    places = (steps[(steps < 0) & (steps > -cells / 8)] * -8).astype(np.int64)
    fine = np.bincount(places, minlength=cells)
    wide = fine.reshape(-1, 32).sum(-1)
    narrow, even = (float((counts * (counts - 1.0)).sum()) for counts in (fine, wide))
    return narrow > MAX_CLUSTERING * even / 32 + MIN_PAIRS


def _first(weights: Array) -> Array:
    """True for the first row with this Σ w²: rows that agree in it are taken as equal, with equal errors."""
    first = np.zeros(weights[..., 0].size, dtype=bool)
    first[np.unique((weights**2).sum(-1, dtype=np.float64), return_index=True)[1]] = True
    return first.reshape(weights.shape[:-1])


class OutputErrors:
    """The errors of an output, b h l v, taken together. Rows that are not judged are zeros."""

    def __init__(self, forward: ForwardPass, part: JudgedPart) -> None:
        self.forward, self.part, self.precision = forward, part, forward.precision
        self.unit_variance = np.float32(forward.precision.unit**2 / 3)  # of one rounding of an element near 1
        self.value, weights = part.of_keys(forward.value), part.of_rows(forward.weights)
        self.below_largest = part.of_rows(forward.scores - forward.largest)
        self.judged = part.judged(forward, weights, self.below_largest)
        judged = self.judged[..., None]
        self.weights = np.where(judged, weights, np.float32(0))
        self.squares = self.weights**2
        self.value_norms = (self.value**2).sum(-1)  # b h s
        exact = np.where(judged, forward.output[part], 0.0)
        self.output = exact.astype(np.float32)
        # values and outputs minus their common mean, which would cancel badly in their differences
        mean = exact.mean(-2, keepdims=True)
        self.centred_value = np.asarray(forward.value[part[:2]] - mean, dtype=np.float32)
        self.centred_output = np.asarray(exact - mean, dtype=np.float32)
        self.rounding_error, variance = rounding(exact, self.precision)  # of the last rounding
        self.variance = np.where(judged, variance, 0.0)

    # Variances

    @cached_property
    def bias(self) -> Array:
        """The systematic error of a sum that float32 may make in one direction: one rounding of each partial sum.

        A partial sum is no larger than its share of the output plus PARTIAL_SUM_DEVIATIONS standard deviations of the
        remaining terms.
        """
        keys = self.weights.shape[-1]
        rest = np.sqrt((self.squares @ self.value_norms[..., None]) / self.value.shape[-1])  # b h l 1
        largest = abs(self.part.of_rows(np.where(self.forward.empty, 0.0, self.forward.largest)))
        lost = self.precision.accumulator * (keys + largest) * self.judged[..., None]
        partial = abs(self.output) + PARTIAL_SUM_DEVIATIONS * rest
        return np.asarray(lost * partial + self.precision.tiny * (keys + 1))

    @cached_property
    def score_variance(self) -> Array:
        """The variance of each score, b h l s: of roundings at its own size, of its difference from the row's largest
        score, and of query and key.
        """
        stored, magnitude = self.part.of_rows(self.forward.stored), self.part.of_rows(self.forward.magnitude)
        times = min(SQUARED_SUM / self.forward.query.shape[-1], 1.0) * (self._common_query + self._common_keys)
        inputs = magnitude**2 * times[..., None, None]
        variance = self.unit_variance * (np.float32(SCORE_ROUNDINGS) * stored**2 + self.below_largest**2 + inputs)
        return np.where(self.weights > 0, variance, np.float32(0))

    @property
    def _common_query(self) -> Array:
        """The factor by which parallel queries multiply the variance of a key's rounding: b h."""
        query = self.part.of_rows(self.forward.query)
        separate = (query**2).sum((-2, -1))
        common = (query.sum(-2) ** 2).sum(-1) / np.where(separate == 0, 1, separate)
        return np.asarray(np.maximum(common, np.float32(1)))

    @property
    def _common_keys(self) -> Array:
        """The factor by which values parallel to keys, Σ p k (v − o), multiply that of a query's rounding: b h."""
        weights = self.weights.mean(-2)[..., None]  # b h s 1
        key, value = weights * self.part.of_keys(self.forward.key), self.centred_value
        together = ((key.swapaxes(-1, -2) @ value) ** 2).sum((-2, -1))
        separate = ((key**2).sum(-1) * (value**2).sum(-1)).sum(-1)
        return np.asarray(np.maximum(together / np.where(separate == 0, 1, separate), np.float32(1)))

    @cached_property
    def weight_variance(self) -> Array:
        """The variance of each weight without its score's: b h l s."""
        rounded = self.squares * (np.float32(WEIGHT_ROUNDINGS) * self.unit_variance)
        return np.asarray(rounded + np.float32(self.precision.tiny**2))

    @cached_property
    def error_variance(self) -> ErrorVariance:
        """The variance of each row before its last rounding. Errors of scores move it by v − o, of weights by v."""
        scores = self.score_variance * self.squares
        trace = (scores * self.distances).sum(-1)
        # Σ_k (v_k − o)(v_k − o)ᵀ has no eigenvalue above (√(eigenvalue bound) + √s ‖o‖)²
        far = np.sqrt(self.weights.shape[-1] * (self.centred_output**2).sum(-1))
        most = scores.max(-1) * (np.sqrt(eigenvalue_bound(self.centred_value))[..., None] + far) ** 2
        return ErrorVariance.of(self.weight_variance, self.value) + ErrorVariance(trace, np.minimum(trace, most))

    @cached_property
    def distances(self) -> Array:
        """‖v_j − o_i‖², at least what float32 can tell from 0: b h l s."""
        value, output = self.centred_value, self.centred_output
        size = (value**2).sum(-1)[..., None, :] + (output**2).sum(-1, keepdims=True)
        return np.asarray(np.maximum(size - 2 * output @ value.swapaxes(-1, -2), MIN_DISTANCE * size))

    @cached_property
    def row_weights(self) -> Array:
        """The weight of each row, at most 1: smaller for rows with larger rounding errors. b h l 1."""
        return inverse_noise_weights(np.where(self.judged, self._noise, np.inf)).astype(np.float32)[..., None]

    @cached_property
    def _noise(self) -> Array:
        """The expected square of each row's error: b h l."""
        return np.asarray(self.error_variance.trace + self.variance.sum(-1))

    @property
    def limits(self) -> AggregateLimits:
        """The limits of the output's errors."""
        row_weights = np.zeros(self.forward.output.shape[:-1])
        row_weights[self.part] = self.row_weights[..., 0]
        by_row = self.row_weights[..., 0] * self._noise
        bias = norm(self.bias, self.row_weights) + self.scale_bias * norm(self.by_scale, self.row_weights)
        directions = (
            self._one("a larger or smaller scale", self.by_scale),
            self._one("larger or smaller elements", self.output),
            *self._edges(),
            *self._tiles(),
            self._keys(),
        )
        return AggregateLimits(row_weights, self.part, float(by_row.sum()), float(by_row.max()), bias, directions)

    # Directions in which mistakes move the output

    @cached_property
    def by_scale(self) -> Array:
        """The derivative of the output with respect to the logarithm of the scale: Σ_j p s (v − o)."""
        scores = self.weights * np.where(self.weights > 0, self.below_largest, np.float32(0))
        return np.asarray(scores @ self.centred_value - scores.sum(-1, keepdims=True) * self.centred_output)

    @cached_property
    def scale_bias(self) -> float:
        """The relative error of the scale in the dtype, or of its root, which queries and keys may share."""
        scale = abs(self.forward.scale)
        factors = [factor for factor in (scale, np.sqrt(scale)) if factor]
        errors = (abs(rounding(np.array([factor]), self.precision)[0][0]) / factor for factor in factors)
        return float(max([*errors, 0.0]))

    def _one(self, says: str, along: Array) -> Directions:
        """One direction, for all rows together: along is b h l v."""
        along = self.row_weights * along
        sums = lambda errors: np.array([(errors * along).sum()])  # noqa: E731
        return self._several(says, along, sums, lambda by_row: np.array([by_row.sum()]), self._variance(along))

    def _variance(self, along: Array) -> Array:
        """The variance of each row in one direction, before its last rounding: b h l."""
        of_value = along @ self.value.swapaxes(-1, -2)
        from_output = along @ self.centred_value.swapaxes(-1, -2) - (along * self.centred_output).sum(-1, keepdims=True)
        by_score = self.squares * self.score_variance * from_output**2
        return np.asarray((self.weight_variance * of_value**2 + by_score).sum(-1))

    def _several(
        self, says: str, along: Array, sums: Callable[[Array], Array], add: Callable[[Array], Array], variance: Array
    ) -> Directions:
        """Directions b h l … v, with a variance b h l … before the last rounding; `add` adds up their rows."""
        shape = (*self.judged.shape, *(1,) * (along.ndim - 4), along.shape[-1])
        variance = add(variance + (along**2 * self.variance.reshape(shape)).sum(-1))
        bias = add((abs(along) * self.bias.reshape(shape)).sum(-1))
        scale = abs(add((along * self.by_scale.reshape(shape)).sum(-1)))
        deterministic_error = abs(add((along * self.rounding_error.reshape(shape)).sum(-1)))
        return Directions(says, sums, np.sqrt(variance), bias + self.scale_bias * scale + deterministic_error)

    def _edges(self) -> list[Directions]:
        """The last visible key of each row left out, and the key behind it let in."""
        if self.forward.allowed.all():
            return []
        allowed = self.forward.allowed[self.part]
        last = allowed.shape[-1] - 1 - allowed[..., ::-1].argmax(-1)  # b h l
        return [self._one(says, self._towards(key)) for says, key in zip(EDGE_MISTAKES, (last, last + 1), strict=True)]

    def _towards(self, key: Array) -> Array:
        """The change of each row if one key of its own gets its weight once more, p (v − o): b h l v."""
        keys = self.weights.shape[-1]
        place = np.minimum(key, keys - 1)[..., None]
        below = np.clip(np.take_along_axis(self.below_largest, place, -1), -700.0, 0.0)
        weight = self.weights.max(-1, keepdims=True) * np.exp(below) * (key < keys)[..., None]
        return np.asarray(weight * (np.take_along_axis(self.centred_value, place, -2) - self.centred_output))

    def _tiles(self) -> list[Directions]:
        """The weights of each tile larger or smaller, b h t."""
        batch, heads, rows, keys = self.weights.shape
        tiles = keys // TILE
        if tiles < 2:
            return []
        weights = self.weights[..., : tiles * TILE].reshape(batch, heads, rows, tiles, TILE).swapaxes(2, 3)
        value = self.centred_value[..., : tiles * TILE, :].reshape(batch, heads, tiles, TILE, -1)
        along = weights @ value - weights.sum(-1, keepdims=True) * self.centred_output[:, :, None]  # b h t l v
        along = self.row_weights[..., None] * along.swapaxes(2, 3)
        sums = lambda errors: (errors[..., None, :] * along).sum(-1).sum(2)  # noqa: E731
        variance = (along**2).sum(-1) * self.error_variance.max_eigenvalue[..., None]
        says = f"the weights of one tile of {TILE} keys (tile {{}})"
        return [self._several(says, along, sums, lambda by_row: by_row.sum(2), variance)]

    def _keys(self) -> Directions:
        """Each key left out or counted twice, in all rows of a head, p (v − o): b h s."""
        value, output, weights = self.centred_value, self.centred_output, self.row_weights * self.weights

        def sums(errors: Array) -> Array:
            towards = errors @ value.swapaxes(-1, -2) - (errors * output).sum(-1, keepdims=True)
            return np.asarray((weights * towards).sum(-2))

        squares = weights**2 * self.distances
        variance = (squares * (self.error_variance.max_eigenvalue + self.variance.max(-1))[..., None]).sum(-2)
        bias = (np.sqrt(squares) * np.sqrt((self.bias**2).sum(-1, keepdims=True))).sum(-2)
        deterministic_error = self.scale_bias * abs(sums(self.by_scale)) + abs(sums(self.rounding_error))
        return Directions(
            "one key left out or counted twice (key {})", sums, np.sqrt(variance), bias + deterministic_error
        )


class GradientTerms(NamedTuple):
    """The terms that the elements of a gradient are summed from.

    `error_variance` is that of its rows before they are rounded. It omits the errors that a query has in all its terms,
    and that all keys therefore share: Σ_i ε_i c_ij x_i, with x the `vectors` b h l e. `shared` holds pairs of c,
    b h l s, and the variance of ε, b h l.
    """

    error_variance: ErrorVariance
    vectors: Array
    squares: Array
    """The sum of the squares of each element's terms."""
    number: int
    """The number of terms of each element."""
    scale: float
    """The factor of the sum."""
    shared: tuple[tuple[Array, Array], ...] = ()

    @property
    def shared_variance(self) -> float:
        size = (self.vectors**2).sum(-1)
        return float(sum(((c**2).sum(-1) * variance * size).sum() for c, variance in self.shared))

    def shared_along(self, directions: Array) -> float:
        """The variance of the shared errors along directions b h s e."""
        towards = self.vectors @ directions.swapaxes(-1, -2)  # b h l s
        return float(sum(((c * towards).sum(-1) ** 2 * variance).sum() for c, variance in self.shared))


class GradientErrors:
    """The errors of gradients, taken together: where all rows are judged, and no heads are shared.

    Variances are those of single weights and scores, b h l s, and of sums over a row, b h l.
    """

    def __init__(self, output: OutputErrors, backward: BackwardPass) -> None:
        self.output, self.backward, self.part, self.precision = output, backward, output.part, output.precision
        self.scale = abs(output.forward.scale)
        self.query, self.key = self.part.of_rows(output.forward.query), self.part.of_keys(output.forward.key)
        self.upstream = self.part.of_rows(backward.upstream)
        self.weights, self.squares = output.weights, output.squares

    @property
    def limits(self) -> dict[str, AggregateLimits]:
        """The limits of each gradient's errors, by input."""
        problem = self.output.forward.problem
        all_rows = self.output.judged.all() and self.part.rows.step == 1
        if not (all_rows and self.scale and problem.key.shape[1] == problem.query.shape[1]) or self._clustered:
            return {}
        terms = {"query": self._query_terms, "key": self._key_terms, "value": self._value_terms}
        return {name: self._limits(name, make()) for name, make in terms.items() if name in problem.gradient_of}

    @property
    def _clustered(self) -> bool:
        """Whether gradients of weights round alike: of equal output gradients, or of values that are near."""
        size = abs(self.d_weights)[self.weights > 0]
        largest = size.max(initial=0.0)
        with np.errstate(divide="ignore"):
            steps = np.log(size / largest) / np.float32(self.precision.unit) - 1 if largest else size
        return not largest or clustered(steps, self.precision.unit)  # the largest itself lies one unit down

    @cached_property
    def d_weights(self) -> Array:
        """The gradient of the weights, dP."""
        return np.asarray(self.upstream @ self.output.value.swapaxes(-1, -2))

    @cached_property
    def d_scores(self) -> Array:
        """The gradient of the scores before the scale, dS = p g."""
        return self.part.of_rows(self.backward.d_scores) / np.float32(self.scale)

    @cached_property
    def weight_variance(self) -> Array:
        return np.asarray(self.output.weight_variance + self.squares * self.output.score_variance)

    @cached_property
    def score_variance(self) -> Array:
        """The variance of dS: from the weights, from dP, and from its own rounding."""
        third, squares = self.output.unit_variance, self.squares
        relative = self.d_scores**2 / np.where(squares > 0, squares, np.float32(1))
        own = self.weight_variance * relative + np.float32(WEIGHT_ROUNDINGS) * third * self.d_scores**2
        return np.asarray(own + third * squares * self.d_weights**2 + np.float32(self.precision.tiny**2))

    @cached_property
    def sum_variance(self) -> Array:
        """The variance of the sum of a row's weights."""
        return np.asarray(self.weight_variance.sum(-1))

    @cached_property
    def delta_variance(self) -> Array:
        """The variance of D = Σ dO o."""
        of_output = (self.upstream**2 * self.output.variance).sum(-1)
        return np.asarray((self.weight_variance * self.d_weights**2).sum(-1) + of_output)

    def _query_terms(self) -> GradientTerms:
        common = ((self.weights @ self.key) ** 2).sum(-1) * self.delta_variance
        common = common + ((self.d_scores @ self.key) ** 2).sum(-1) * self.sum_variance
        variance = ErrorVariance.of(self.score_variance, self.key) + ErrorVariance(common, common)
        return GradientTerms(variance, self.query, self.d_scores**2 @ self.key**2, self.key.shape[-2], self.scale)

    def _key_terms(self) -> GradientTerms:
        shared = ((self.weights, self.delta_variance), (self.d_scores, self.sum_variance))
        variance = ErrorVariance.of(self.score_variance.swapaxes(-1, -2), self.query)
        squares = (self.d_scores**2).swapaxes(-1, -2) @ self.query**2
        return GradientTerms(variance, self.query, squares, self.query.shape[-2], self.scale, shared)

    def _value_terms(self) -> GradientTerms:
        variance = ErrorVariance.of(self.weight_variance.swapaxes(-1, -2), self.upstream)
        squares = self.squares.swapaxes(-1, -2) @ self.upstream**2
        shared = ((self.weights, self.sum_variance),)
        return GradientTerms(variance, self.upstream, squares, self.query.shape[-2], 1.0, shared)

    def _limits(self, name: str, terms: GradientTerms) -> AggregateLimits:
        exact = self.backward.inputs[name][0]
        part = (self.part.items, self.part.heads)
        value, times = exact[part], terms.scale**2
        error, variance = rounding(value, self.precision)
        variance = GRADIENT_ROUNDINGS * variance
        by_row = times * terms.error_variance.trace + variance.sum(-1)
        row_weights = inverse_noise_weights(by_row)[..., None]
        bias, along = self._bias(value, terms), row_weights * value
        variance_along = ((along**2).sum(-1) * terms.error_variance.max_eigenvalue).sum() + terms.shared_along(along)
        deviation = np.sqrt(times * variance_along + (along**2 * variance).sum())
        steady = (abs(along) * bias).sum() + self._by_scale * (along * value).sum() + abs((along * error).sum())
        sums = lambda errors: np.array([(errors * along).sum()])  # noqa: E731
        size = Directions("larger or smaller elements", sums, np.array([deviation]), np.array([steady]))
        weighted, shared = row_weights[..., 0] * by_row, times * terms.shared_variance
        total, most = float(weighted.sum() + shared), float(weighted.max() + shared)
        all_bias = norm(bias, row_weights) + self._by_scale * norm(value, row_weights)
        all_weights = np.zeros(exact.shape[:-1])
        all_weights[part] = row_weights[..., 0]
        return AggregateLimits(all_weights, part, total, most, all_bias, (size,))

    def _bias(self, value: Array, terms: GradientTerms) -> Array:
        """The systematic error that float32 may make in one direction, as in `OutputErrors.bias`."""
        partial = abs(value) + PARTIAL_SUM_DEVIATIONS * terms.scale * np.sqrt(terms.squares)
        lost = self.precision.accumulator * terms.number * partial
        return np.asarray(lost + self.precision.tiny * (terms.number + 1))

    @cached_property
    def _by_scale(self) -> float:
        """The relative error that a rounded scale gives a gradient, which is a factor of it and part of each weight."""
        matters = self.weights > self.precision.unit
        furthest = np.where(matters, -self.output.below_largest, np.float32(0)).max(initial=0.0)
        return self.output.scale_bias * (1 + float(furthest))
