"""The slow, obvious answer, in more precision than the tested dtype has, with an error bound for each element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suite.judging.precision import QUADRUPLE, Bounded, Precision, widened

Array = np.ndarray[Any, Any]


FIRST_ORDER = 0.25
"""Score errors beyond this are not small against 1: such rows are bounded by the range of their values instead."""

SPLIT = 16.0
"""Units of float32 that a product may be off by where tensor cores make it of three products of TensorFloat-32. They
cut numbers after 11 bits and leave out the product of what was cut off, at most 2⁻¹⁰ of each: 2⁻²⁰ of the product."""


@dataclass(frozen=True)
class Asked:
    """One attention, as arrays. Axes: query b h l e, key b g s e, value b g s v.

    `bias` is added to the scaled scores, `allowed` says who may attend to whom; both broadcast to b h l s. `kept` says
    which weights survive dropout with probability `dropout_p` of falling out. `empty_row` is what a query with nothing
    to attend to answers: zeros, mean or nan.
    """

    query: Array
    key: Array
    value: Array
    scale: float
    bias: Array | None = None
    allowed: Array | None = None
    kept: Array | None = None
    dropout_p: float = 0.0
    empty_row: str = "zeros"
    output_gradient: Array | None = None
    gradient_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truth:
    """What the oracle answers; weights b h l s are those before dropout."""

    output: Bounded
    weights: Array
    gradients: Mapping[str, Bounded] = field(default_factory=dict)
    loose: bool = False
    """Some row had score errors too large for first order, so its bound is the range of the values."""


def attention(asked: Asked, precision: Precision, arithmetic: type = np.float64) -> Truth:
    """Scaled dot-product attention with its bound (and gradients with theirs), straight from the definition.

    The bound is first-order perturbation of the softmax: a score error matters by how far that value lies from the
    output. Sums Σ c|v − o| are bounded by √(Σc · Σc(v − o)²), which matrix products can compute and which is at most a
    quarter above it for normally spread values.
    """
    with np.errstate(all="ignore"):
        steps = _Forward(asked, precision, arithmetic)
        gradients = _gradients(steps) if asked.gradient_of else {}
        return Truth(Bounded(steps.output, steps.bound), steps.weights, gradients, bool(steps.loose.any()))


class _Forward:
    """The forward computation, its intermediate quantities kept for the backward one."""

    def __init__(self, asked: Asked, precision: Precision, arithmetic: type) -> None:
        self.asked, self.precision, self.arithmetic = asked, precision, arithmetic
        self.groups = asked.query.shape[1] // max(asked.key.shape[1], 1)
        self.query = widened(asked.query, arithmetic)
        self.key = np.repeat(widened(asked.key, arithmetic), self.groups, axis=1)  # b h s e
        self.value = np.repeat(widened(asked.value, arithmetic), self.groups, axis=1)  # b h s v
        self._scores()
        self._weights()
        self._output()

    def _scores(self) -> None:
        asked, u, a = self.asked, self.precision.unit, self.precision.accumulator
        width = asked.query.shape[-1]
        dot = asked.scale * (self.query @ self.key.swapaxes(-1, -2))  # b h l s
        magnitude = abs(asked.scale) * (abs(self.query) @ abs(self.key).swapaxes(-1, -2))
        allowed = np.ones(dot.shape, dtype=bool)
        if asked.allowed is not None:
            allowed &= asked.allowed
        scores = dot
        if asked.bias is not None:
            allowed &= asked.bias != -np.inf
            scores = dot + np.where(asked.bias == -np.inf, 0, asked.bias)
        self.allowed = np.broadcast_to(allowed, dot.shape)
        self.scores = np.where(self.allowed, scores, -np.inf)
        self.largest = self.scores.max(axis=-1, keepdims=True, initial=-np.inf)
        below = np.where(self.allowed, abs(scores - self.largest), 0)
        stored = np.maximum(abs(scores), abs(dot))  # a bias may cancel the product, which was rounded before
        delta = 2 * u * stored + (a * (np.sqrt(width) + 4) + _split(self.precision, width)) * magnitude + 2 * u
        if self.precision.half:
            delta = delta + 2 * u * below
        self.delta = np.where(self.allowed, delta, 0).astype(np.float64)  # b h l s

    def _weights(self) -> None:
        shifted = np.where(self.allowed, self.scores - self.largest, 0)
        exponentials = np.where(self.allowed, _exp(shifted), 0)
        self.empty = ~self.allowed.any(axis=-1, keepdims=True)  # b h l 1
        if self.asked.empty_row == "mean":
            exponentials = np.where(self.empty, 1, exponentials)
        total = exponentials.sum(axis=-1, keepdims=True)
        self.weights = exponentials / np.where(total == 0, 1, total)
        one = widened(np.ones(()), self.arithmetic)
        self.survival = one
        if self.asked.kept is not None:
            p = self.asked.dropout_p
            self.survival = np.where(self.asked.kept, one / (one - p) if p < 1 else 0.0, 0.0)  # b h l s

    def _output(self) -> None:
        u, a, eta = self.precision.unit, self.precision.accumulator, self.precision.tiny
        keys = self.asked.key.shape[-2]
        self.applied = self.weights * self.survival
        exact = self.applied @ self.value
        weights, applied = self.weights.astype(np.float64), self.applied.astype(np.float64)
        value, output = self.value.astype(np.float64), exact.astype(np.float64)
        magnitude = applied @ abs(value)
        slip = np.minimum(self.delta, 1)
        if self.asked.kept is None:
            moved = spread(weights * slip, value, output)
        else:  # dropped weights no longer sum to 1, so the normaliser's error does not cancel
            moved = (applied * slip) @ abs(value) + (weights * slip).sum(-1, keepdims=True) * magnitude
        # a weight below any rounding of the sum cannot matter, however wrong its score
        matters = weights * np.exp(np.minimum(2 * self.delta, 700)) > u
        self.loose = ((self.delta > FIRST_ORDER) & matters).any(axis=-1, keepdims=True)
        if self.loose.any():
            moved = np.where(self.loose, spread(self.allowed.astype(np.float64), value, output), moved)
        # weights may underflow, and so may each product of weight and value where subnormal numbers are flushed
        underflow = eta * (spread(self.allowed.astype(np.float64), value, output) + keys + 1)
        # exp(score − logsumexp) is an honest style, whose rounded logsumexp moves all weights of a row together
        shared = a * np.where(self.empty, 0, abs(self.largest)).astype(np.float64)
        bound = moved + (2 * u + _summing(self.precision, keys) + shared) * magnitude + u * abs(output) + underflow
        zeros = self.empty & (self.asked.empty_row != "mean")
        undefined = self.empty & (self.asked.empty_row == "nan")
        self.output = np.where(undefined, np.nan, np.where(zeros, 0, exact))
        self.bound = np.where(zeros, 0, bound)


def _gradients(steps: _Forward) -> dict[str, Bounded]:
    """The gradients with the same analysis one step further: ρ is a weight's relative error, g = dP − D, dS = p g."""
    asked, u, a, eta = steps.asked, steps.precision.unit, steps.precision.accumulator, steps.precision.tiny
    assert asked.output_gradient is not None
    queries, keys, value_width = asked.query.shape[-2], asked.key.shape[-2], asked.value.shape[-1]
    scale = asked.scale
    wide = widened(asked.output_gradient, steps.arithmetic)
    upstream = np.where(steps.empty & (asked.empty_row != "mean"), 0, wide)  # b h l v
    weight_gradient = (upstream @ steps.value.swapaxes(-1, -2)) * steps.survival  # b h l s
    mean = (upstream * np.where(steps.empty, 0, steps.output)).sum(-1, keepdims=True)  # D: b h l 1
    relative = np.where(steps.empty, 0, weight_gradient - mean)
    score_gradient = steps.weights * relative

    p, g = steps.weights.astype(np.float64), abs(relative).astype(np.float64)
    d_out, d_scores = abs(upstream).astype(np.float64), abs(score_gradient).astype(np.float64)
    q, k, v = (abs(x).astype(np.float64) for x in (steps.query, steps.key, steps.value))
    survival = steps.survival.astype(np.float64)
    slip = np.minimum(steps.delta, 1)
    rho = np.minimum(slip + (p * slip).sum(-1, keepdims=True), 1) + 2 * u
    of_weight_gradient = (u + _summing(steps.precision, value_width)) * (d_out @ v.swapaxes(-1, -2)) * survival
    output = abs(np.where(steps.empty, 0, steps.output)).astype(np.float64)
    of_mean = (2 * u + a * value_width) * (d_out * output).sum(-1, keepdims=True) + (d_out * steps.bound).sum(
        -1, keepdims=True
    )
    # a weight may underflow where it is stored, which costs eta in each factor of what follows
    of_scores = np.where(steps.allowed, p * (rho * g + of_weight_gradient + of_mean + 2 * u * g) + eta * (1 + g), 0)
    stored = np.where(steps.allowed, eta, 0)

    gathered = queries * steps.groups
    query_gradient = scale * (score_gradient @ steps.key)
    key_gradient = scale * (score_gradient.swapaxes(-1, -2) @ steps.query)
    value_gradient = steps.applied.swapaxes(-1, -2) @ upstream
    of_query = (abs(scale) * (of_scores + (u + _summing(steps.precision, keys)) * d_scores) + stored) @ k
    gathering = _summing(steps.precision, gathered)
    of_key = (abs(scale) * (of_scores + (u + gathering) * d_scores) + stored).swapaxes(-1, -2) @ q
    of_value = ((p * (rho + gathering) + stored) * survival).swapaxes(-1, -2) @ d_out

    of_value = of_value + eta * d_out.sum(-2, keepdims=True)  # weights may underflow

    found: dict[str, Bounded] = {}
    if "query" in asked.gradient_of:
        found["query"] = _rounded(query_gradient, of_query, u, eta)
    if "key" in asked.gradient_of:
        found["key"] = _rounded(_grouped(key_gradient, steps.groups), _grouped(of_key, steps.groups), u, eta)
    if "value" in asked.gradient_of:
        underflow = eta * max(gathered, 1)
        found["value"] = _rounded(
            _grouped(value_gradient, steps.groups), _grouped(of_value, steps.groups), u, underflow
        )
    if "attn_mask" in asked.gradient_of:
        assert asked.bias is not None
        count = d_scores.size / max(asked.bias.size, 1)
        shape = asked.bias.shape
        error = _summed(of_scores + (u + a * count) * d_scores, shape) if count > 1 else of_scores
        found["attn_mask"] = _rounded(_summed(score_gradient, shape), error.reshape(shape), u, eta)
    return found


def _summing(precision: Precision, terms: int) -> float:
    """The relative error of a sum of products."""
    return precision.accumulator * terms + _split(precision, terms)


def _split(precision: Precision, terms: int) -> float:
    """The relative error of a sum of split products. Each has a sign of its own, so that of √n of n terms shows."""
    single = precision.unit == 2.0**-24
    return SPLIT * precision.unit / np.sqrt(max(terms, 1)) if single else 0.0


def spread(coefficients: Array, value: Array, output: Array) -> Array:
    """√(Σ_j c_ij · Σ_j c_ij (v_jv − o_iv)²), an upper bound of Σ_j c_ij |v_jv − o_iv| (Cauchy and Schwarz).

    coefficients … l s, value … s v, output … l v, all float64. Values are centred first, lest large ones cancel: on the
    mean output, which hidden values do not enter.
    """
    centre = output.mean(axis=-2, keepdims=True) if output.shape[-2] else 0.0
    value, output = value - centre, output - centre
    total = coefficients.sum(-1, keepdims=True)
    squares = coefficients @ value**2 - 2 * output * (coefficients @ value) + total * output**2
    bound: Array = np.sqrt(total * np.maximum(squares, 0))
    return bound


def _exp(array: Array) -> Array:
    if array.dtype == np.object_:
        return np.vectorize(QUADRUPLE.exp, otypes=[object])(array) if array.size else array
    return np.exp(array)


def _rounded(value: Array, error: Array, unit: float, tiny: float) -> Bounded:
    return Bounded(value, error + unit * abs(value).astype(np.float64) + tiny)


def _grouped(array: Array, groups: int) -> Array:
    """Sum over the query heads that share a key/value head: b (g n) s e → b g s e."""
    batch, heads, *rest = array.shape
    return array.reshape(batch, heads // groups, groups, *rest).sum(axis=2) if groups > 1 else array


def _summed(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum b h l s over the axes along which a mask of `shape` was broadcast."""
    padded = (1,) * (array.ndim - len(shape)) + shape
    axes = tuple(axis for axis, size in enumerate(padded) if size == 1 and array.shape[axis] != 1)
    return array.sum(axis=axes, keepdims=True).reshape(shape) if axes else array.reshape(shape)
