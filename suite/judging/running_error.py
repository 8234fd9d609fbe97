"""Arithmetic with error bounds of a correct computation: oracles written in it bound their own errors.

First-order running error analysis (Wilkinson; Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3):
every operation passes on the errors of its operands, and adds the rounding of its own result in the tested dtype. Sums
round in the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnsuite.judging.compare import Array
from attnsuite.judging.precision import QUADRUPLE, Bounded, Precision, widened

LIBRARY = 2.0
"""Unit roundoffs of the dtype that a library's exp, log, tanh or erf may be off by."""
TANH_BEND, GELU_BEND = 0.385, 0.565
"""What first order omits, in squares of the error: at least half of the largest |second derivative|. That is 2/(3√3) =
0.385 for tanh, and 1/√(2π) = 0.399 for x·Φ(x). 0.565 has no derivation; it is safe, as it only widens the bound."""


class WithError:
    """Exact values, each with the error bound of a correct computation. `value` and `bound` are arrays."""

    def __init__(self, value: Array, bound: Array | float, precision: Precision) -> None:
        self.value = np.asarray(value)
        self.bound = np.broadcast_to(np.asarray(bound, dtype=np.float64), self.value.shape)
        self.precision = precision

    @classmethod
    def exact(cls, value: Array, precision: Precision, arithmetic: type = np.float64) -> WithError:
        """Inputs, which have no error."""
        return cls(widened(np.asarray(value, dtype=np.float64), arithmetic), 0.0, precision)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.value.shape

    @property
    def bounded(self) -> Bounded:
        """The values with their bounds."""
        return Bounded(self.value, np.asarray(self.bound))

    @property
    def size(self) -> Array:
        """The absolute values, in float64."""
        return abs(self.value).astype(np.float64)

    def __add__(self, other: WithError | float) -> WithError:
        other = self._of(other)
        return self._made(self.value + other.value, self.bound + other.bound)

    def __sub__(self, other: WithError | float) -> WithError:
        other = self._of(other)
        return self._made(self.value - other.value, self.bound + other.bound)

    def __neg__(self) -> WithError:
        return type(self)(-self.value, self.bound, self.precision)

    def __mul__(self, other: WithError | float) -> WithError:
        other = self._of(other)
        passed_on = self.size * other.bound + self.bound * other.size + self.bound * other.bound
        return self._made(self.value * other.value, passed_on)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: WithError | float) -> WithError:
        """A quotient; its bound is infinite where the divisor may be zero."""
        other = self._of(other)
        with np.errstate(all="ignore"):
            value = self.value / other.value
            least = np.maximum(other.size - other.bound, 0.0)
            passed_on = (self.bound + abs(value).astype(np.float64) * other.bound) / least
        return self._made(value, np.where(np.isnan(passed_on), np.inf, passed_on))

    def __matmul__(self, other: WithError) -> WithError:
        terms = self.shape[-1]
        passed_on = self.size @ other.bound + self.bound @ other.size + self.bound @ other.bound
        return self._made(self.value @ other.value, passed_on + self._summing(terms) * (self.size @ other.size))

    def affine(self, weights: WithError, bias: WithError) -> WithError:
        """self @ weights + bias, … v, of weights n v and a bias v, which may be added before, within or after the sum.

        A sum of n + 1 terms in any order is off by accumulator · (n + 1) · (|self| |weights| + |bias|) at most (Higham,
        section 4.2).
        """
        ones = type(self).exact(np.ones((*self.shape[:-1], 1)), self.precision, self.value.dtype.type)
        as_a_row = concatenated([self, ones]) @ concatenated([weights, bias[None]], -2)
        return whichever(self @ weights + bias, as_a_row)

    def sum(self, axis: int = -1, keepdims: bool = False) -> WithError:
        """The sum along an axis."""
        passed_on = self.bound.sum(axis, keepdims=keepdims)
        lost = self._summing(self.shape[axis]) * self.size.sum(axis, keepdims=keepdims)
        return self._made(self.value.sum(axis, keepdims=keepdims), passed_on + lost)

    def mean(self, axis: int = -1, keepdims: bool = False) -> WithError:
        """The mean along an axis."""
        return self.sum(axis, keepdims) * (1 / self.shape[axis])

    def exp(self) -> WithError:
        """The exponential of each element."""
        value = self._by("exp")
        return self._made(value, abs(value).astype(np.float64) * np.expm1(np.minimum(self.bound, 700.0)), LIBRARY)

    def log(self) -> WithError:
        """The logarithm of elements above 0; its bound is infinite where one may be 0."""
        with np.errstate(all="ignore"):
            value, passed_on = self._by("log"), self.bound / np.maximum(self.size - self.bound, 0.0)
        return self._made(value, np.where(np.isnan(passed_on), np.inf, passed_on), LIBRARY)

    def tanh(self) -> WithError:
        """The hyperbolic tangent of each element."""
        value = self._by("tanh")
        slope = 1 - value.astype(np.float64) ** 2
        return self._made(value, np.minimum(self.bound, slope * self.bound + TANH_BEND * self.bound**2), LIBRARY)

    def sqrt(self) -> WithError:
        """The square root of each element. √(x + b) − √(x − b), the width of its range, is more than the error."""
        size = self.value.astype(np.float64)
        passed_on = np.sqrt(size + self.bound) - np.sqrt(np.maximum(size - self.bound, 0.0))
        return self._made(self._by("sqrt"), passed_on)

    def relu(self) -> WithError:
        """The element, or 0 where it is negative."""
        value = np.where(self.value > 0, self.value, np.zeros_like(self.value))
        bound = np.where(self.value.astype(np.float64) > -self.bound, self.bound, 0.0)
        return type(self)(value, bound, self.precision)

    def gelu(self) -> WithError:
        """x·Φ(x), exactly; 1 + erf(x/√2) may lose all but an absolute rounding."""
        normal = (1 + self._by("erf", self.value / np.sqrt(widened(np.array(2.0), self.value.dtype.type)))) / 2
        x = self.value.astype(np.float64)
        slope = abs(normal.astype(np.float64) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))
        lost = LIBRARY * self.precision.unit * self.size
        return self._made(self.value * normal, slope * self.bound + GELU_BEND * self.bound**2 + lost, LIBRARY)

    def softmax(self, allowed: Array | None = None) -> WithError:
        """Weights over the last axis, of the allowed entries alone; zeros where none is allowed."""
        weights, relative = self._weights(allowed)
        mean = (weights * relative).sum(-1, keepdims=True)
        off = np.minimum(relative + mean, 1.0) + self._summing(self.shape[-1]) + 2 * LIBRARY * self.precision.unit
        return self._made(weights, np.where(weights == 0, 0.0, weights.astype(np.float64) * off))

    def attend(self, values: WithError, allowed: Array | None = None) -> WithError:
        """softmax(scores) @ values: an error of a score matters by how far that value lies from the output."""
        weights, relative = self._weights(allowed)  # ... l s
        output = weights @ values.value  # ... l v
        known, mixed = weights.astype(np.float64), values.value.astype(np.float64)
        spread = abs(mixed[..., None, :, :] - output.astype(np.float64)[..., :, None, :])  # ... l s v
        passed_on = ((known * relative)[..., None] * spread).sum(-2) + known @ values.bound
        lost = (2 * LIBRARY * self.precision.unit + self._summing(self.shape[-1])) * (known @ values.size)
        empty = known.sum(-1, keepdims=True) == 0
        return self._made(output, np.where(empty, 0.0, passed_on + lost), exact=empty)

    def each(self, function: Callable[[Array], Array]) -> WithError:
        """The same elements in another arrangement: `x.each(lambda a: a.swapaxes(-1, -2))`."""
        return type(self)(function(self.value), function(np.asarray(self.bound)), self.precision)

    def __getitem__(self, place: Any) -> WithError:
        return self.each(lambda array: array[place])

    @property
    def T(self) -> WithError:
        """The last two axes swapped."""
        return self.each(lambda array: array.swapaxes(-1, -2))

    def with_rounding_error(self, units: float = 1.0) -> WithError:
        """The same values, whose bound allows for one more rounding to the dtype, of this many unit roundoffs."""
        return self._made(self.value, self.bound, units)

    def _weights(self, allowed: Array | None) -> tuple[Array, Array]:
        """Exact weights, and the relative error of each exponential: at most all of it."""
        scores = self.value if allowed is None else np.where(allowed, self.value, -np.inf)
        with np.errstate(all="ignore"):
            largest = scores.max(-1, keepdims=True, initial=-np.inf)
            exponentials = np.where(np.isneginf(scores), np.zeros_like(self.value), self._by("exp", scores - largest))
            total = exponentials.sum(-1, keepdims=True)
            weights = np.where(total == 0, exponentials, exponentials / np.where(total == 0, 1, total))
        spread = np.where(weights == 0, 0.0, (largest - scores).astype(np.float64))
        # the difference from the largest is rounded, and in a log-softmax that from the logarithm of the sum
        shifting = 2 * self.precision.unit * spread + 2 * self.precision.unit
        return weights, np.minimum(np.asarray(self.bound) + shifting, 1.0)

    def _made(self, value: Array, passed_on: Array, units: float = 1.0, exact: Array | None = None) -> WithError:
        """A result: what its operands pass on, and its own rounding."""
        own = units * self.precision.unit * abs(value).astype(np.float64) + self.precision.tiny
        return type(self)(value, passed_on + (own if exact is None else np.where(exact, 0.0, own)), self.precision)

    def _summing(self, terms: int) -> float:
        """The relative error of a sum of this many terms."""
        return self.precision.accumulator * terms

    def _of(self, other: WithError | float) -> WithError:
        # a Python number is rounded to the dtype; one that is exact there, as 2.0 or −0.5, gets this error too, which
        # only widens the bound
        if isinstance(other, WithError):
            return other
        value = widened(np.array(float(other)), self.value.dtype.type)
        return type(self)(value, self.precision.unit * abs(float(other)), self.precision)

    def _by(self, function: str, values: Array | None = None) -> Array:
        """A function of every element, in the judging arithmetic."""
        values = self.value if values is None else values
        if function == "erf" and values.dtype == np.float64:
            from scipy.special import erf  # 0.2 s, which few contracts need

            return np.asarray(erf(values))
        if values.dtype != object and function != "erf":  # numpy has no erf
            return np.asarray(getattr(np, function)(values))
        precise, back = getattr(QUADRUPLE, function), QUADRUPLE.mpf if values.dtype == object else values.dtype.type
        results = np.empty_like(values)
        for place, number in np.ndenumerate(values):
            results[place] = back(QUADRUPLE.nstr(precise(QUADRUPLE.mpf(str(number))), 34))
        return results


class Unbounded(WithError):
    """The same arithmetic without bounds, for models, which are judged by norms."""

    def __init__(self, value: Array, bound: Array | float, precision: Precision) -> None:
        super().__init__(value, 0.0, precision)

    def __matmul__(self, other: WithError) -> WithError:
        return Unbounded(self.value @ other.value, 0.0, self.precision)

    def affine(self, weights: WithError, bias: WithError) -> WithError:
        """self @ weights + bias."""
        return self @ weights + bias

    def softmax(self, allowed: Array | None = None) -> WithError:
        """Weights over the last axis."""
        return Unbounded(self._weights(allowed)[0], 0.0, self.precision)

    def attend(self, values: WithError, allowed: Array | None = None) -> WithError:
        """softmax(scores) @ values."""
        return Unbounded(self._weights(allowed)[0] @ values.value, 0.0, self.precision)

    def _made(self, value: Array, passed_on: Array, units: float = 1.0, exact: Array | None = None) -> WithError:
        return Unbounded(value, 0.0, self.precision)


def concatenated(parts: list[WithError], axis: int = -1) -> WithError:
    """Several as one, along an axis."""
    value = np.concatenate([part.value for part in parts], axis)
    bound = np.concatenate([np.asarray(part.bound) for part in parts], axis)
    return type(parts[0])(value, bound, parts[0].precision)


def whichever(*ways: WithError) -> WithError:
    """A result that may be computed in several ways, with the largest of their bounds."""
    bound = np.maximum.reduce([np.asarray(way.bound) for way in ways])
    unknown = np.isnan(bound)  # a bound that is infinite, times zero
    return type(ways[0])(ways[0].value, np.where(unknown, np.inf, bound), ways[0].precision)
