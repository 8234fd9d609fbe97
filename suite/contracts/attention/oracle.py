"""The slow, obvious attention, in more precision than the tested dtype has, with an error bound for each element.

It walks the stages; each feature adds its own step, with its error term and its gradient where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from attnsuite.cases import Conventions
from attnsuite.contracts.attention import scatter
from attnsuite.contracts.attention.feature import Grid, Step, features
from attnsuite.contracts.attention.maxima import over, runs
from attnsuite.judging.precision import QUADRUPLE, Bounded, Precision, product, widened
from attnsuite.judging.whole import Whole

ACCEPT_OUTPUT = 2.0
"""Outputs are accepted up to this many bounds: honest kernels stay under 1, one was measured at 1.4."""
ACCEPT_GRADIENT = 1.0
"""Honest backward passes stay under 0.31."""


Array = np.ndarray[Any, Any]

FIRST_ORDER = 0.25
"""Score errors beyond this are not small against 1: such rows are bounded by the range of their values instead."""

SPLIT = 16.0
"""Units of float32 that a product may be off by where tensor cores make it of three products of TensorFloat-32. They
cut numbers after 11 bits and leave out the product of what was cut off, at most 2⁻¹⁰ of each: 2⁻²⁰ of the product."""


@dataclass(frozen=True)
class Problem:
    """One attention, as arrays. Axes: query b h l e, key b g s e, value b g s v.

    `options` are the arguments beside these, by name, masks as arrays that broadcast to b h l s. `kept` says which
    weights survived dropout. Where `rows` is given, the queries are only those rows of `queries` in all.
    """

    query: Array
    key: Array
    value: Array
    options: Mapping[str, Any] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)
    kept: Array | None = None
    rows: Array | None = None
    queries: int | None = None
    output_gradient: Array | None = None
    gradient_of: tuple[str, ...] = ()

    @property
    def grid(self) -> Grid:
        queries = self.query.shape[-2] if self.queries is None else self.queries
        return Grid.of(queries, self.key.shape[-2], self.rows)


@dataclass(frozen=True)
class Truth:
    """What the oracle answers; weights b h l s are those before dropout."""

    output: Bounded
    weights: Array
    gradients: Mapping[str, Bounded] = field(default_factory=dict)
    wholes: Mapping[str, Whole] = field(default_factory=dict)
    """In half types, the limits of errors taken together: of the output, and of gradients."""
    loose: bool = False
    """Some row had score errors too large for first order, so its bound is the range of the values."""


def attention(asked: Problem, precision: Precision, arithmetic: type = np.float64) -> Truth:
    """Scaled dot-product attention with its bound (and gradients with theirs), straight from the definition.

    The bound is first-order perturbation of the softmax: a score error matters by how far that value lies from the
    output. Sums Σ c|v − o| are bounded by √(Σc · Σc(v − o)²), which matrix products can compute and which is at most a
    quarter above it for normally spread values.
    """
    with np.errstate(all="ignore"):
        forward = Forward(asked, precision, arithmetic)
        slopes = Slopes(forward) if asked.gradient_of else None
        wholes = scatter.wholes(forward, slopes) if precision.half else {}
        output, gradients = Bounded(forward.output, forward.bound), slopes.found if slopes else {}
        return Truth(output, forward.weights, gradients, wholes, bool(forward.loose.any()))


def _steps(stage: str) -> Iterator[Step]:
    return (each.oracle[stage] for each in features() if stage in each.oracle)


class Forward:
    """The forward computation, its intermediate quantities kept for the backward one. Features change them."""

    def __init__(self, asked: Problem, precision: Precision, arithmetic: type) -> None:
        self.asked, self.precision, self.arithmetic = asked, precision, arithmetic
        self.query, self.key, self.value = (widened(x, arithmetic) for x in (asked.query, asked.key, asked.value))
        self.scale = 1.0  # what products are multiplied by; the feature says it
        self.gathered = self.query.shape[-2]  # how many rows add up in the gradient of a key
        self._walk("source")
        self._scores()
        self._visibility()
        self._weights()
        self._output()

    @property
    def one(self) -> Any:
        return widened(np.ones(()), self.arithmetic)

    def _walk(self, stage: str) -> None:
        for step in _steps(stage):
            step.forward(self)

    def _scores(self) -> None:
        self.scores = product(self.query, self.key.swapaxes(-1, -2))  # b h l s
        self.magnitude = abs(_double(self.query)) @ abs(_double(self.key)).swapaxes(-1, -2)  # Σ |q||k|
        self.begun = np.zeros(())  # what an honest sum of products may begin from: |bias|, at whose size it then rounds
        rounded: list[Array] = []
        for step in _steps("score"):
            step.forward(self)
            if not rounded or self.scores is not rounded[-1]:
                rounded.append(self.scores)
        # the largest number that was rounded on the way to each score
        self.stored = reduce(np.maximum, (abs(_double(each)) for each in rounded))

    def _visibility(self) -> None:
        grid, allowed = self.asked.grid, np.ones(self.scores.shape, dtype=bool)
        for each in features():
            value = each.value(self.asked.options)
            if each.visible and value is not None:
                allowed &= each.visible(grid, value, self.asked.conventions)
        self.allowed = allowed
        self.all_allowed = bool(allowed.all())
        self.empty = ~allowed.any(axis=-1, keepdims=True)  # b h l 1

    def _weights(self) -> None:
        scores = self.scores if self.all_allowed else np.where(self.allowed, self.scores, -np.inf)
        self.largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        self.delta = self._score_error()
        self.weights = _exp(scores - np.where(self.empty, 0, self.largest))
        total = self.weights.sum(axis=-1, keepdims=True)
        self.weights /= np.where(total == 0, 1, total)
        self.survival: Any = self.one  # what weights are multiplied by after the softmax
        self.sums_to_one = True  # so that the error of the normaliser cancels
        self.silent = self.empty  # rows that answer nothing, whatever the values
        self._walk("weights")

    def _score_error(self) -> Array:
        u, a, width = self.precision.unit, self.precision.accumulator, self.asked.query.shape[-1]
        summed = a * (np.sqrt(width) + 4)
        product = summed + _split(self.precision, width)
        delta = 2 * u * self.stored + product * self.magnitude  # b h l s, all float64
        delta += summed * self.begun + 2 * u
        if self.precision.half:
            behind = self.scores - self.largest
            delta += 2 * u * np.abs(behind, out=behind)
        return delta if self.all_allowed else np.where(self.allowed, delta, 0)

    def _output(self) -> None:
        u, a, eta = self.precision.unit, self.precision.accumulator, self.precision.tiny
        keys = self.key.shape[-2]
        seen = _double(self.allowed[..., :1, :] if self.all_allowed else self.allowed)  # one row where all are alike
        self.applied = self.weights if self.sums_to_one else self.weights * self.survival
        exact = product(self.applied, self.value)
        value, output = _double(self.value), _double(exact)
        magnitude = _double(self.applied) @ abs(value)
        spread = Spread(value, output)
        moved = self._moved(spread, value, magnitude)
        # weights may underflow, and so may each product of weight and value where subnormal numbers are flushed
        underflow = eta * (spread.by(seen) + keys + 1)
        # exp(score − logsumexp) is an honest style, whose rounded logsumexp moves all weights of a row together
        shared = a * _double(np.where(self.empty, 0, abs(self.largest)))
        self.normaliser = summing(self.precision, keys) + shared  # relative: how far all weights of a row may be off
        self.drift = self.normaliser * magnitude + underflow  # has no sign of its own
        self.terms = magnitude  # Σ |p v|, b h l v
        before = moved + 2 * u * magnitude + self.drift
        bound = before + u * (abs(output) + before)
        self.output = np.where(self.silent, 0, exact)
        self.bound = np.where(self.silent, 0, bound)
        self._walk("output")

    def _moved(self, spread: Spread, value: Array, magnitude: Array) -> Array:
        """How far the errors of the scores may move the output."""
        weights = _double(self.weights)
        large = self.delta.max(initial=0.0) > FIRST_ORDER
        slipped = weights * (np.minimum(self.delta, 1) if large else self.delta)
        if self.sums_to_one:
            moved = spread.by(slipped)
        else:
            moved = (slipped * _double(self.survival)) @ abs(value) + slipped.sum(-1, keepdims=True) * magnitude
        self.loose = np.zeros_like(self.empty)
        if large:
            # a weight below any rounding of the sum cannot matter, however wrong its score
            matters = weights * np.exp(np.minimum(2 * self.delta, 700)) > self.precision.unit
            self.loose = ((self.delta > FIRST_ORDER) & matters).any(axis=-1, keepdims=True)
        if self.loose.any():
            moved = np.where(self.loose, spread.by(_double(self.allowed)), moved)
        return moved


class Slopes:
    """The gradients with the same analysis one step further: g = dP − D, dS = p g.

    `slipped` is the error of a weight: ρ p, and up to 1 in rows whose score errors are too large for first order.
    """

    def __init__(self, forward: Forward) -> None:
        assert forward.asked.output_gradient is not None
        self.forward = forward
        self.found: dict[str, Bounded] = {}
        wide = widened(forward.asked.output_gradient, forward.arithmetic)
        self.upstream = np.where(forward.silent, 0, wide)  # b h l v
        self._scores()
        for step in reversed([*_steps("score")]):
            if step.backward:
                step.backward(forward, self)
        self._inputs()
        for step in reversed([*_steps("source")]):
            if step.backward:
                step.backward(forward, self)
        for name in set(self.inputs) & set(forward.asked.gradient_of):
            self.found[name] = self.rounded(*self.inputs[name], max(forward.gathered, 1) if name == "value" else 1)

    def _scores(self) -> None:
        """The gradient of the scores, dS, and its error."""
        of, u, a, eta = self.forward, self.forward.precision.unit, self.forward.precision.accumulator, self.tiny
        value_width = of.asked.value.shape[-1]
        relative = product(self.upstream, of.value.swapaxes(-1, -2))  # dP: b h l s
        if not of.sums_to_one:
            relative = relative * of.survival
        output = np.where(of.empty, 0, of.output)
        mean = (self.upstream * output).sum(-1, keepdims=True)  # D: b h l 1
        d_weights, relative = abs(_double(relative)), relative - mean
        if of.empty.any():
            relative = np.where(of.empty, 0, relative)
        self.scores = of.weights * relative

        p, g = _double(of.weights), abs(_double(relative))
        d_out, size = abs(_double(self.upstream)), abs(_double(output))
        v, survival = abs(_double(of.value)), _double(np.asarray(of.survival))
        slip = np.minimum(of.delta, 1)
        rho = np.minimum(slip + (p * slip).sum(-1, keepdims=True), 1)
        rho += 2 * u + of.normaliser
        self.slipped = p * rho
        if of.loose.any():
            self.slipped = np.where(of.loose & of.allowed, 1, self.slipped)
        products = survival * (d_out @ v.swapaxes(-1, -2))  # Σ |dO| |V|: b h l s
        of_weights = (u + summing(of.precision, value_width)) * products
        of_product = 2 * u + a * value_width
        of_mean = of_product * (d_out * size).sum(-1, keepdims=True)
        of_mean = of_mean + (d_out * of.bound).sum(-1, keepdims=True)
        # a weight may underflow where it is stored, which costs eta in each factor of what follows
        of_relative = of_weights + of_mean
        error = self.slipped * (g + of.loose * of_relative if of.loose.any() else g)
        error += p * (of_relative + 2 * u * g)
        error += eta * (1 + g)
        error += of_product * self._of_parts(p, d_out, v, survival)
        error += self._of_maximum(d_weights, g, abs(_double(mean)), products, (d_out * size).sum(-1, keepdims=True))
        self.error = error if of.all_allowed else np.where(of.allowed, error, 0)

    def _of_parts(self, weights: Array, upstream: Array, value: Array, survival: Array) -> Array:
        """How large the terms may be of which an honest backward makes p (dP − D): b h l s.

        Where parts of the keys are merged by their log-sum-exp, it is p (dP − E) + p (E − D), E the mean of dP over one
        part. |E| is at most the largest |dP|, and p |E| at most Σ p |dP|, since p is at most the share of its part.
        """
        of = self.forward
        seen = np.asarray(of.allowed.any(axis=-2))[..., None]  # b h s 1
        largest = np.where(seen, value, 0).max(axis=-2, keepdims=True, initial=0) * survival.max(initial=0)  # b h 1 v
        all_terms = (upstream * of.terms).sum(-1, keepdims=True)
        return np.asarray(np.minimum(weights * (upstream @ largest.swapaxes(-1, -2)), all_terms))

    def _of_maximum(self, dp: Array, g: Array, mean: Array, products: Array, outputs: Array) -> Array:
        """The residual of the derivative with respect to a maximum, at the key that attains it: b h l s.

        The derivative is 0. An implementation that keeps the maximum in its graph computes it as a difference of two
        sums, whose roundings are left. `maxima` derives the coefficients. The arguments are |dP|, |dP − D|, |D|,
        Σ |dO| |V| and Σ |dO| |o|.
        """
        of, u, a = self.forward, self.forward.precision.unit, self.forward.precision.accumulator
        width, keys, allowed = of.asked.value.shape[-1], of.key.shape[-2], of.allowed
        stored = u if of.precision.half else 0.0  # where that is more than the accumulator's
        split = _split(of.precision, width) + _split(of.precision, 1)  # dO·V, and p V of few keys
        fixed = (a * (2 * width + 8) + split + stored) * products + a * (width + 8) * outputs + 2 * stored * dp
        per_key = a * (1.5 * products + g + 1.5 * mean)
        fixed, per_key, weights = (np.where(allowed, each, 0) for each in (fixed, per_key, _double(of.weights)))
        scores = np.where(allowed, _double(of.scores), -np.inf)
        low, high = scores - of.delta, scores + of.delta
        run = runs(low, high)
        residual = over(run, weights * fixed) + run.length * over(run, weights * per_key)
        of_row = dp + 2 * g + 2 * mean + 5 * np.maximum(dp, outputs)
        everything = high >= low.max(-1, keepdims=True, initial=-np.inf)
        residual += stored * everything * (weights * of_row).sum(-1, keepdims=True)
        if of.loose.any():  # any weights may stand there, so the mean of the sizes is at most the largest
            most = (fixed + keys * per_key + stored * np.where(allowed, of_row, 0)).max(-1, keepdims=True, initial=0)
            residual = np.where(of.loose, most, residual)
        return np.asarray(residual + self.tiny * run.length * (1 + dp.max(-1, keepdims=True, initial=0)))

    def _inputs(self) -> None:
        """Gradients of query, key and value, each with its error before it is rounded."""
        of, u, eta = self.forward, self.forward.precision.unit, self.tiny
        gathering = summing(of.precision, of.gathered)
        stored = np.where(of.allowed, eta, 0)
        d_out, d_scores = abs(_double(self.upstream)), abs(_double(self.scores))
        q, k = (abs(_double(x)) for x in (of.query, of.key))
        by_query = self.error + (u + summing(of.precision, of.key.shape[-2])) * d_scores + stored
        by_key = self.error + (u + gathering) * d_scores + stored
        kept = (self.slipped + _double(of.weights) * gathering + stored) * _double(np.asarray(of.survival))
        of_value = kept.swapaxes(-1, -2) @ d_out
        of_value = of_value + eta * d_out.sum(-2, keepdims=True)  # weights may underflow
        self.inputs = {
            "query": (product(self.scores, of.key), by_query @ k),
            "key": (product(self.scores.swapaxes(-1, -2), of.query), by_key.swapaxes(-1, -2) @ q),
            "value": (product(of.applied.swapaxes(-1, -2), self.upstream), of_value),
        }

    @property
    def tiny(self) -> float:
        return self.forward.precision.tiny

    def rounded(self, value: Array, error: Array, underflows: int = 1) -> Bounded:
        """A gradient, with the error of its last rounding."""
        rounding = self.forward.precision.unit * (abs(_double(value)) + error)
        return Bounded(value, error + rounding + self.tiny * underflows)


def summing(precision: Precision, terms: int) -> float:
    """The relative error of a sum of products."""
    return precision.accumulator * terms + _split(precision, terms)


def _split(precision: Precision, terms: int) -> float:
    """The relative error of a sum of split products. Each has a sign of its own, so that of √n of n terms shows."""
    single = precision.unit == 2.0**-24
    return float(SPLIT * precision.unit / np.sqrt(max(terms, 1))) if single else 0.0


class Spread:
    """√(Σ_j c_ij · Σ_j c_ij (v_jv − o_iv)²), an upper bound of Σ_j c_ij |v_jv − o_iv| (Cauchy and Schwarz).

    value … s v and output … l v are float64. Values are centred first, lest large ones cancel: on the mean output,
    which hidden values do not enter.
    """

    def __init__(self, value: Array, output: Array) -> None:
        centre = output.mean(axis=-2, keepdims=True) if output.shape[-2] else 0.0
        self.output = output - centre
        self.width = value.shape[-1]
        self.summed = np.empty((*value.shape[:-1], 2 * self.width + 1))  # all that is summed, for one product
        centred = np.subtract(value, centre, out=self.summed[..., self.width : -1])
        np.square(centred, out=self.summed[..., : self.width])
        self.summed[..., -1] = 1

    def by(self, coefficients: Array) -> Array:
        """The bound with these coefficients, … l s in float64: … l v. They may be one row for all, … 1 s."""
        sums = coefficients @ self.summed
        total = sums[..., -1:]
        bound: Array = total * self.output
        bound -= 2 * sums[..., self.width : -1]
        bound *= self.output
        bound += sums[..., : self.width]  # Σ_j c_ij (v_jv − o_iv)²
        np.maximum(bound, 0, out=bound)
        bound *= total
        return np.sqrt(bound, out=bound)


def _double(array: Array) -> Array:
    """In float64, in which bounds are computed; the array itself where it is that already."""
    return array.astype(np.float64, copy=False)


def _exp(array: Array) -> Array:
    """The power of each number, 0 of −∞."""
    if array.dtype == np.object_:
        return np.vectorize(QUADRUPLE.exp, otypes=[object])(array) if array.size else array
    return np.asarray(np.exp(array))
