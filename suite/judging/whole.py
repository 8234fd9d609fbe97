"""Limits of all errors of a half-type output together: their norm, and their sum along directions of mistakes.

A bound of one number has to grant the worst case of all roundings at once. Many roundings together do not do their
worst: those of different numbers are independent, and each is as likely up as down. So a sum of squares or a sum along
a direction, over many numbers, has a far smaller limit, with a probability of being left by chance that is known.

A rounding error is uniform between ± half a step, variance h² / 3. Such errors are strictly sub-Gaussian: a sum of
them, each times a number, leaves √(2 x · variance) with probability 2 e⁻ˣ at most (Hoeffding 1963). A sum of squares
leaves V + 2 √(V m x) + 2 m x with probability e⁻ˣ at most, V the expectation and m the largest eigenvalue of the
covariance (Hsu, Kakade and Zhang 2012, theorem 2.1). Here m is the largest expectation of one row: nothing is assumed
of the errors within a row, which share their weights, only that rows are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnsuite.judging.precision import Precision
from attnsuite.judging.shares import FALSE_ALARM

Array = np.ndarray[Any, Any]

JUDGEMENTS = 100_000
"""The largest number of outputs that a run judges as a whole; each has FALSE_ALARM / JUDGEMENTS, 1e-14, of the
probability of a false accusation, and each limit of an output an equal share of that."""
SAFETY = 1.25
"""The factor of limits: variances count the roundings that kernels make, without second order."""


@dataclass(frozen=True)
class Directions:
    """Directions in which a mistake would move all rows together. `sums` adds up errors along each of them."""

    says: str
    """The mistake in words, with a place for the number of the direction where there are several."""
    sums: Callable[[Array], Array]
    deviation: Array
    """The standard deviation of each sum."""
    drift: Array
    """How far each sum may be off for what is no independent rounding."""


@dataclass(frozen=True)
class Whole:
    """Limits of the errors of one tensor, taken together."""

    counts: Array
    """How much the square of each row's error counts, 0 where it is not judged: the tensor's axes but the last."""
    part: tuple[slice, ...]
    """The part of these axes that holds all judged rows."""
    expected: float
    """The expected sum of the squared errors, each row's times what it counts."""
    largest: float
    """That of the row which has most."""
    drift: float
    """The norm of what is no independent rounding."""
    directions: tuple[Directions, ...] = ()
    times: float = SAFETY

    @property
    def exponent(self) -> float:
        """Of the probability with which chance leaves one limit."""
        limits = 1 + sum(each.deviation.size for each in self.directions)
        return math.log(2 * limits * JUDGEMENTS / FALSE_ALARM)

    @property
    def norm(self) -> float:
        """How large the norm of all errors may be."""
        x, total, most = self.exponent, self.expected, self.largest
        return self.times * math.sqrt(total + 2 * math.sqrt(total * most * x) + 2 * most * x) + self.drift

    def reach(self, directions: Directions) -> Array:
        """How far the sums along these directions may lie from 0."""
        found: Array = self.times * math.sqrt(2 * self.exponent) * directions.deviation + directions.drift
        return found

    def between_two(self) -> Whole:
        """The limits of the difference of two answers, both of which are off."""
        directions = tuple(replace(each, drift=2 * each.drift) for each in self.directions)
        return replace(self, times=2 * self.times, drift=2 * self.drift, directions=directions)


def step(numbers: Array, precision: Precision) -> Array:
    """Half the distance of the dtype's numbers around each number: the largest error of rounding it."""
    _, exponent = np.frexp(numbers)
    subnormal = precision.unit * precision.normal
    found: Array = np.where(numbers == 0, subnormal, np.maximum(np.ldexp(precision.unit, exponent - 1), subnormal))
    return found


def rounding(numbers: Array, precision: Precision) -> tuple[Array, Array]:
    """The error of rounding each number, and the variance to expect of it.

    The variance is that of a number of which only the size is known, or the square of the very error, if that is
    larger: many equal numbers err alike.
    """
    half = step(numbers, precision)
    error = np.rint(numbers / (2 * half)) * 2 * half - numbers
    return error, np.maximum(half**2 / 3, error**2)


def top(vectors: Array) -> Array:
    """A bound of the largest eigenvalue of Σ_k v_k v_kᵀ, vectors … k v: the largest sum of a row's absolute values."""
    across = vectors.swapaxes(-1, -2)
    products = across @ vectors if vectors.shape[-1] <= vectors.shape[-2] else vectors @ across
    found: Array = abs(products).sum(-1).max(-1, initial=0.0)
    return found


@dataclass(frozen=True)
class Scatter:
    """How the vectors Σ_k ε_k v_k scatter, ε_k independent: row by row the variance in all and in one direction."""

    total: Array
    any_way: Array

    @staticmethod
    def of(variances: Array, vectors: Array) -> Scatter:
        """variances … l k of the ε, vectors … k v."""
        total = (variances @ (vectors**2).sum(-1)[..., None])[..., 0]
        most = variances.max(-1, initial=0.0) * top(vectors)[..., None]
        return Scatter(total, np.minimum(total, most))

    def __add__(self, other: Scatter) -> Scatter:
        return Scatter(self.total + other.total, self.any_way + other.any_way)


def counted(noise: Array) -> Array:
    """How much rows count whose errors have these expected squares: the least noisy one 1, all others less."""
    return np.asarray(noise.min(initial=np.inf) / noise)


def norm(array: Array, counts: Array) -> float:
    """The norm of an array, the square of each of whose rows counts so much."""
    return float(np.sqrt((counts * array**2).sum()))
