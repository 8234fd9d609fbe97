"""How the roundings of an honest attention in a half type scatter, so that its errors can be judged together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnsuite.judging.whole import Directions, Scatter, Whole, counted, norm, rounding, top

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import BackwardPass, ForwardPass
    from attnsuite.judging.whole import Whole


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
    def choose(forward: ForwardPass, *, gradients: bool) -> Part:
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

    def judged(self, forward: ForwardPass, weights: Array, behind: Array) -> Array:
        """Which rows can be judged, b h l, given their weights and how far each score lies behind the largest."""
        known = ~np.asarray(forward.empty | forward.loose | forward.silent)[self.items, self.heads, self.rows, 0]
        steps = behind / np.float32(forward.precision.unit)
        known = known & _spread(weights, steps / np.float32(ALIKE)) & _first(weights)
        together = steps[known[..., None] & (weights > 0)]
        return np.asarray(known & (not clumped(together, forward.precision.unit)))


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


class OutputErrors:
    """The errors of an output, b h l v, taken together. Rows that are not judged are zeros."""

    def __init__(self, forward: ForwardPass, part: Part) -> None:
        self.forward, self.part, self.precision = forward, part, forward.precision
        self.third = np.float32(forward.precision.unit**2 / 3)  # the variance of one rounding of a number near 1
        self.value, weights = part.of_keys(forward.value), part.of_rows(forward.weights)
        self.behind = part.of_rows(forward.scores - forward.largest)  # how far each score lies behind the largest
        self.rows = part.judged(forward, weights, self.behind)
        judged = self.rows[..., None]
        self.weights = np.where(judged, weights, np.float32(0))
        self.squares = self.weights**2
        self.norms = (self.value**2).sum(-1)  # of the values: b h s
        exact = np.where(judged, forward.output[part], 0.0)
        self.output = exact.astype(np.float32)
        # values and outputs without what they have in common, which would cancel badly where they are subtracted
        common = exact.mean(-2, keepdims=True)
        self.apart = np.asarray(forward.value[part[:2]] - common, dtype=np.float32)
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
        largest = abs(self.part.of_rows(np.where(self.forward.empty, 0.0, self.forward.largest)))
        lost = self.precision.accumulator * (keys + largest) * self.rows[..., None]
        return np.asarray(lost * (abs(self.output) + MEANDERS * still) + self.precision.tiny * (keys + 1))

    @cached_property
    def of_scores(self) -> Array:
        """The variance of each score, b h l s: rounded at its size, below the largest, and as query and key are."""
        stored, magnitude = self.part.of_rows(self.forward.stored), self.part.of_rows(self.forward.magnitude)
        times = min(SQUARED_SUM / self.forward.query.shape[-1], 1.0) * (self._common_query + self._common_keys)
        inputs = magnitude**2 * times[..., None, None]
        found = self.third * (np.float32(SCORE_ROUNDINGS) * stored**2 + self.behind**2 + inputs)
        return np.where(self.weights > 0, found, np.float32(0))

    @property
    def _common_query(self) -> Array:
        """How many times over the rounding of a key counts because queries point the same way: b h."""
        query = self.part.of_rows(self.forward.query)
        apart = (query**2).sum((-2, -1))
        common = (query.sum(-2) ** 2).sum(-1) / np.where(apart == 0, 1, apart)
        return np.asarray(np.maximum(common, np.float32(1)))

    @property
    def _common_keys(self) -> Array:
        """How many times over the rounding of a query counts because values go with keys, Σ p k (v − o): b h."""
        weights = self.weights.mean(-2)[..., None]  # b h s 1
        key, value = weights * self.part.of_keys(self.forward.key), self.apart
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
        counts = np.zeros(self.forward.output.shape[:-1])
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
        scale = abs(self.forward.scale)
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
        if self.forward.allowed.all():
            return []
        allowed = self.forward.allowed[self.part]
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


GRADIENT_ROUNDINGS = 2.0
"""How often a gradient is rounded: as a sum, and scaled."""


class SharedErrors(NamedTuple):
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


class GradientTerms(NamedTuple):
    """What the numbers of a gradient are summed from."""

    scatter: Scatter
    """Of its rows, before they are rounded, but for what they share."""
    shared: SharedErrors
    squares: Array
    """The sum of the squares of each number's terms."""
    number: int
    """How many terms each number has."""
    scale: float
    """What the sum is multiplied by."""


class GradientErrors:
    """The errors of gradients, taken together: where all rows are judged, and no heads are shared."""

    def __init__(self, output: OutputErrors, slopes: BackwardPass) -> None:
        self.output, self.slopes, self.part, self.precision = output, slopes, output.part, output.precision
        self.scale = abs(output.forward.scale)
        self.query, self.key = self.part.of_rows(output.forward.query), self.part.of_keys(output.forward.key)
        self.upstream = self.part.of_rows(slopes.upstream)
        self.weights, self.squares = output.weights, output.squares

    @property
    def wholes(self) -> dict[str, Whole]:
        problem = self.output.forward.problem
        all_rows = self.output.rows.all() and self.part.rows.step == 1
        if not (all_rows and self.scale and problem.key.shape[1] == problem.query.shape[1]) or self._alike:
            return {}
        terms = {"query": self._of_query, "key": self._of_key, "value": self._of_value}
        return {name: self._whole(name, forward()) for name, forward in terms.items() if name in problem.gradient_of}

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

    def _of_query(self) -> GradientTerms:
        common = ((self.weights @ self.key) ** 2).sum(-1) * self.means
        common = common + ((self.scores @ self.key) ** 2).sum(-1) * self.sums
        scatter = Scatter.of(self.of_slopes, self.key) + Scatter(common, common)
        return GradientTerms(
            scatter, SharedErrors(self.query), self.scores**2 @ self.key**2, self.key.shape[-2], self.scale
        )

    def _of_key(self) -> GradientTerms:
        shared = SharedErrors(self.query, ((self.weights, self.means), (self.scores, self.sums)))
        scatter = Scatter.of(self.of_slopes.swapaxes(-1, -2), self.query)
        squares = (self.scores**2).swapaxes(-1, -2) @ self.query**2
        return GradientTerms(scatter, shared, squares, self.query.shape[-2], self.scale)

    def _of_value(self) -> GradientTerms:
        shared = SharedErrors(self.upstream, ((self.weights, self.sums),))
        scatter = Scatter.of(self.of_weights.swapaxes(-1, -2), self.upstream)
        squares = self.squares.swapaxes(-1, -2) @ self.upstream**2
        return GradientTerms(scatter, shared, squares, self.query.shape[-2], 1.0)

    def _whole(self, name: str, terms: GradientTerms) -> Whole:
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

    def _drift(self, value: Array, terms: GradientTerms) -> Array:
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


FEWEST_ROWS = 32
"""Fewer rows say too little together: the limit of their sum lies far above what is to be expected of it."""
FEWEST_NUMBERS = 2**13
"""The same of an output's numbers; and what is small should cost little."""
LARGEST = 1e6
"""Calls with larger values than this are not judged together: variances are computed in float32."""


def wholes(forward: ForwardPass, slopes: BackwardPass | None) -> dict[str, Whole]:
    """The limits of output and gradients taken together, of those that can be judged so."""
    if not _enough(forward):
        return {}
    output = OutputErrors(forward, Part.choose(forward, gradients=slopes is not None))
    if output.rows.sum() < FEWEST_ROWS:
        return {}
    return {"output": output.whole} | (GradientErrors(output, slopes).wholes if slopes else {})


def _enough(forward: ForwardPass) -> bool:
    """Whether there may be something to judge. Under dropout there is not: other numbers are judged there."""
    *_, rows, keys = forward.scores.shape
    many = forward.output.size >= FEWEST_NUMBERS and forward.output[..., 0].size >= FEWEST_ROWS
    return bool(many and rows and keys > 1 and not np.ndim(forward.survival) and abs(forward.value).max() <= LARGEST)
