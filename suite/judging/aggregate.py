"""Limits of all errors of a 16-bit output together: their norm, and their sum along directions of mistakes.

The bound of one element adds up all roundings as if they had one sign. Roundings of different elements are independent,
and as likely up as down: a sum of squares, or along a direction, has a far smaller limit, with a known probability.

A rounding error is uniform within ± h, half an ulp, with variance h² / 3. Such errors are strictly sub-Gaussian: a
weighted sum of independent ones exceeds √(2 x · variance) in size with probability 2 e⁻ˣ at most, by the Chernoff bound
(a uniform variable is strictly sub-Gaussian: Arbel, Marchal and Nguyen 2020). A sum of squares exceeds
V + 2 √(V m x) + 2 m x with probability e⁻ˣ at most (Hsu, Kakade and Zhang 2012, theorem 2.1). V is the expectation and
m the largest eigenvalue of the covariance. The errors must be linear in independent roundings, which they are to first
order. Here m is the largest expectation of one row: rows must be independent, the errors within a row, which share
their weights, need not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from attnsuite.judging.compare import Array
from attnsuite.judging.precision import Precision
from attnsuite.judging.shares import FALSE_REJECTION

JUDGEMENTS = 100_000
"""The largest number of outputs that a run judges by aggregate limits. Each has FALSE_REJECTION / JUDGEMENTS, 1e-14, of
the probability of a false rejection, and each limit of an output an equal share of that."""
SAFETY = 1.25
"""The factor of limits. It covers second-order terms, which the variances omit."""


@dataclass(frozen=True)
class Directions:
    """Directions in which a mistake would move all rows together."""

    says: str
    """The mistake in words, with a place for the number of the direction."""
    sums: Callable[[Array], Array]
    """Adds up errors along each direction."""
    deviation: Array
    """The standard deviation of each sum."""
    bias: Array
    """The systematic error of each sum: what is not an independent rounding."""


@dataclass(frozen=True)
class AggregateLimits:
    """Limits of the errors of one tensor, taken together."""

    row_weights: Array
    """The weight of each row's squared error, 0 where it is not judged: the tensor's axes but the last."""
    part: tuple[slice, ...]
    """The part of these axes that holds all judged rows."""
    expected: float
    """The expected sum of the squared errors, each times its row's weight."""
    largest: float
    """The largest expectation of a row."""
    bias: float
    """The norm of the systematic errors."""
    directions: tuple[Directions, ...] = ()
    safety_factor: float = SAFETY

    @property
    def exponent(self) -> float:
        """The exponent x of the probability of each limit."""
        limits = 1 + sum(direction.deviation.size for direction in self.directions)
        return math.log(2 * limits * JUDGEMENTS / FALSE_REJECTION)

    @property
    def norm(self) -> float:
        """How large the norm of all errors may be."""
        x, total, most = self.exponent, self.expected, self.largest
        return self.safety_factor * math.sqrt(total + 2 * math.sqrt(total * most * x) + 2 * most * x) + self.bias

    def reach(self, directions: Directions) -> Array:
        """How far the sums along these directions may lie from 0."""
        result: Array = self.safety_factor * math.sqrt(2 * self.exponent) * directions.deviation + directions.bias
        return result

    def between_two(self) -> AggregateLimits:
        """The limits of the difference of two outputs with errors."""
        directions = tuple(replace(direction, bias=2 * direction.bias) for direction in self.directions)
        return replace(self, safety_factor=2 * self.safety_factor, bias=2 * self.bias, directions=directions)


def half_ulp(elements: Array, precision: Precision) -> Array:
    """Half an ulp of each element, h: the largest error of rounding it to the dtype."""
    _, exponent = np.frexp(elements)
    subnormal = precision.unit * precision.normal
    result: Array = np.where(elements == 0, subnormal, np.maximum(np.ldexp(precision.unit, exponent - 1), subnormal))
    return result


def rounding(elements: Array, precision: Precision) -> tuple[Array, Array]:
    """The error of rounding each element, and its variance: that of a random one of this size, or the error's square.

    The larger counts, because equal elements have equal errors.
    """
    half = half_ulp(elements, precision)
    error = np.rint(elements / (2 * half)) * 2 * half - elements
    return error, np.maximum(half**2 / 3, error**2)


def eigenvalue_bound(vectors: Array) -> Array:
    """A bound of the largest eigenvalue of Σ_k v_k v_kᵀ, vectors … k v: the largest sum of a row's absolute values."""
    across = vectors.swapaxes(-1, -2)
    products = across @ vectors if vectors.shape[-1] <= vectors.shape[-2] else vectors @ across
    result: Array = abs(products).sum(-1).max(-1, initial=0.0)
    return result


@dataclass(frozen=True)
class ErrorVariance:
    """Variance of the vectors Σ_k ε_k v_k, with independent ε_k, row by row."""

    trace: Array
    """The variance in all directions: the trace of the covariance."""
    max_eigenvalue: Array
    """A bound of the variance in any one direction."""

    @staticmethod
    def of(variances: Array, vectors: Array) -> ErrorVariance:
        """variances … l k of the ε, vectors … k v."""
        trace = (variances @ (vectors**2).sum(-1)[..., None])[..., 0]
        most = variances.max(-1, initial=0.0) * eigenvalue_bound(vectors)[..., None]
        return ErrorVariance(trace, np.minimum(trace, most))

    def __add__(self, other: ErrorVariance) -> ErrorVariance:
        return ErrorVariance(self.trace + other.trace, self.max_eigenvalue + other.max_eigenvalue)


def inverse_noise_weights(noise: Array) -> Array:
    """The weights of rows whose errors have these expected squares: 1 for the least noisy."""
    return np.asarray(noise.min(initial=np.inf) / noise)


def norm(array: Array, row_weights: Array) -> float:
    """The norm of an array whose squared rows have these weights."""
    return float(np.sqrt((row_weights * array**2).sum()))
