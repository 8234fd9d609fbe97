"""The oracle: slow, obvious attention in more precision than the tested dtype, with an error bound for each element.

It walks the stages; each feature adds its own step, with its error term and its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from attnsuite.cases import Conventions
from attnsuite.contracts.attention import error_variance
from attnsuite.contracts.attention.feature import Grid, Step, features, visible
from attnsuite.contracts.attention.tolerance import double, output_error, score_error, score_gradient_error, summing
from attnsuite.judging.aggregate import AggregateLimits
from attnsuite.judging.precision import QUADRUPLE, Bounded, Precision, product, widened

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Problem:
    """One attention, as arrays. Axes: query b h l e, key b g s e, value b g s v.

    `options` are the other arguments by name; masks are arrays that broadcast to b h l s. `keep_mask` is False where
    dropout sets a weight to 0. With `rows`, the queries are only those rows of `queries` in all.
    """

    query: Array
    key: Array
    value: Array
    options: Mapping[str, Any] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)
    keep_mask: Array | None = None
    rows: Array | None = None
    queries: int | None = None
    output_gradient: Array | None = None
    lse_gradient: Array | None = None
    """The gradient of the log-sum-exp: b h l 1."""
    gradient_of: tuple[str, ...] = ()

    @property
    def grid(self) -> Grid:
        """The positions of the queries and keys."""
        queries = self.query.shape[-2] if self.queries is None else self.queries
        return Grid.make(queries, self.key.shape[-2], self.rows)


@dataclass(frozen=True)
class OracleResult:
    """The expected output, the weights b h l s before dropout, and the requested gradients."""

    output: Bounded
    weights: Array
    gradients: Mapping[str, Bounded] = field(default_factory=dict)
    aggregate_limits: Mapping[str, AggregateLimits] = field(default_factory=dict)
    """In 16-bit dtypes, the limits of errors taken together: of the output, and of gradients."""
    loose: bool = False
    """Some row had score errors too large for first order, so its bound is the range of the values."""
    lse: Bounded | None = None
    """The log-sum-exp, b h l, where it is requested."""


def attention(problem: Problem, precision: Precision, arithmetic: type = np.float64) -> OracleResult:
    """Scaled dot-product attention and its gradients with their bounds, straight from the definition.

    The bound is first-order perturbation of the softmax: a score error matters by how far that value lies from the
    output. Sums Σ c|v − o| are bounded by √(Σc · Σc(v − o)²), which matrix products can compute. It is about 25 %
    larger for normally distributed values.
    """
    with np.errstate(all="ignore"):
        forward = ForwardPass(problem, precision, arithmetic)
        backward = BackwardPass(forward) if problem.gradient_of else None
        together = precision.half and problem.options.get("sinks") is None  # the variances know of no sinks
        aggregate_limits = error_variance.aggregate_limits(forward, backward) if together else {}
        output, gradients = Bounded(forward.output, forward.bound), backward.gradients if backward else {}
        weights = forward.weights[..., : problem.key.shape[-2]]
        return OracleResult(output, weights, gradients, aggregate_limits, bool(forward.loose.any()), forward.lse)


def _steps(stage: str) -> Iterator[Step]:
    return (feature.oracle[stage] for feature in features() if stage in feature.oracle)


class ForwardPass:
    """The forward computation with its intermediate quantities, which features change and the backward pass reads."""

    def __init__(self, problem: Problem, precision: Precision, arithmetic: type) -> None:
        self.problem, self.precision, self.arithmetic = problem, precision, arithmetic
        self.query, self.key, self.value = (widened(x, arithmetic) for x in (problem.query, problem.key, problem.value))
        self.lse: Bounded | None = None  # where it is requested, and its gradient b h l 1
        self.lse_gradient: Array | None = None
        self.key_allowed = np.ones((), dtype=bool)  # the same without the column of a sink, which its feature sets
        self.tanh = self.tanh_error = np.zeros(())  # of a soft cap, which its feature sets
        self.scale = 1.0  # the factor of the products, which the feature `scale` sets
        self.key_gradient_terms = self.query.shape[-2]  # the rows that add up in the gradient of a key
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
        self.magnitude = abs(double(self.query)) @ abs(double(self.key)).swapaxes(-1, -2)  # Σ |q||k|
        self.bias_size = np.zeros(())  # |bias|: a correct sum of products may begin with it, and round at its size
        self.rounded: list[Array] = []  # the sizes at which scores were rounded; a soft cap shrinks their errors
        for step in _steps("score"):
            before = self.scores
            step.forward(self)
            if not self.rounded or self.scores is not before:
                self.rounded.append(abs(double(self.scores)))
        # the largest number that was rounded on the way to each score
        self.stored = reduce(np.maximum, self.rounded)

    def _visibility(self) -> None:
        seen = visible(self.problem.options, self.problem.grid, self.problem.conventions)
        self.allow(np.ones(self.scores.shape, dtype=bool) & (True if seen is None else seen))
        self._walk("visibility")

    def allow(self, allowed: Array) -> None:
        """Let the queries attend to these keys, b h l s, and to no others."""
        self.allowed, self.all_allowed = allowed, bool(allowed.all())
        self.empty = ~allowed.any(axis=-1, keepdims=True)  # b h l 1

    def _weights(self) -> None:
        scores = self.scores if self.all_allowed else np.where(self.allowed, self.scores, -np.inf)
        self.largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        self.score_error = score_error(self)
        self.weights = elementwise("exp", scores - np.where(self.empty, 0, self.largest))
        total = self.weights.sum(axis=-1, keepdims=True)
        self.weights /= np.where(total == 0, 1, total)
        self.dropout_factor: Any = self.one  # what each weight is multiplied by: 0 where dropped, else 1/(1 − p)
        self.sums_to_one = True  # so that the error of the normaliser cancels
        self.zero_rows = self.empty  # rows whose output is 0, whatever the values
        self._walk("weights")

    def _output(self) -> None:
        self.applied = self.weights if self.sums_to_one else self.weights * self.dropout_factor
        exact = product(self.applied, self.value)
        self.bound, self.normaliser_error, self.terms, self.loose = output_error(self, exact)
        self.output = np.where(self.zero_rows, 0, exact)
        self._walk("output")


class BackwardPass:
    """The gradients with the same analysis one step further: g = dP − D, dS = p g.

    `weight_error` is ρ p, and up to 1 in rows whose score errors are too large for first order.
    """

    def __init__(self, forward: ForwardPass) -> None:
        assert forward.problem.output_gradient is not None
        self.forward = forward
        self.gradients: dict[str, Bounded] = {}
        wide = widened(forward.problem.output_gradient, forward.arithmetic)
        self.upstream = np.where(forward.zero_rows, 0, wide)  # b h l v
        self._scores()
        self._walk_back("visibility")
        self._walk_back("score")
        self._inputs()
        self._walk_back("source")
        for name in set(self.inputs) & set(forward.problem.gradient_of):
            underflows = max(forward.key_gradient_terms, 1) if name == "value" else 1
            self.gradients[name] = self.with_rounding_error(*self.inputs[name], underflows)

    def _walk_back(self, stage: str) -> None:
        for step in reversed([*_steps(stage)]):
            if step.backward:
                step.backward(self.forward, self)

    def _scores(self) -> None:
        """The gradient of the scores, dS, and its error."""
        forward = self.forward
        d_weights = product(self.upstream, forward.value.swapaxes(-1, -2))  # dP: b h l s
        if not forward.sums_to_one:
            d_weights = d_weights * forward.dropout_factor
        output = np.where(forward.empty, 0, forward.output)
        delta = (self.upstream * output).sum(-1, keepdims=True)  # D: b h l 1
        size, centred = abs(double(d_weights)), d_weights - delta
        if forward.empty.any():
            centred = np.where(forward.empty, 0, centred)
        self.d_scores = forward.weights * (centred if forward.lse_gradient is None else centred + forward.lse_gradient)
        errors = score_gradient_error(forward, self.upstream, output, delta, centred, size)
        self.weight_error, self.error = errors

    def _inputs(self) -> None:
        """Gradients of query, key and value, each with its error before it is rounded."""
        forward, u, eta = self.forward, self.forward.precision.unit, self.forward.precision.tiny
        of_queries = summing(forward.precision, forward.key_gradient_terms)
        underflow = np.where(forward.allowed, eta, 0)
        d_output, d_scores = abs(double(self.upstream)), abs(double(self.d_scores))
        q, k = (abs(double(x)) for x in (forward.query, forward.key))
        by_query = self.error + (u + summing(forward.precision, forward.key.shape[-2])) * d_scores + underflow
        by_key = self.error + (u + of_queries) * d_scores + underflow
        weight_error = self.weight_error + double(forward.weights) * of_queries + underflow
        value_error = (weight_error * double(np.asarray(forward.dropout_factor))).swapaxes(-1, -2) @ d_output
        value_error = value_error + eta * d_output.sum(-2, keepdims=True)  # weights may underflow
        self.inputs = {
            "query": (product(self.d_scores, forward.key), by_query @ k),
            "key": (product(self.d_scores.swapaxes(-1, -2), forward.query), by_key.swapaxes(-1, -2) @ q),
            "value": (product(forward.applied.swapaxes(-1, -2), self.upstream), value_error),
        }

    def with_rounding_error(self, value: Array, error: Array, underflows: int = 1) -> Bounded:
        """A gradient, with the error of its last rounding."""
        rounding = self.forward.precision.unit * (abs(double(value)) + error)
        return Bounded(value, error + rounding + self.forward.precision.tiny * underflows)


def elementwise(function: str, array: Array) -> Array:
    """The function of numpy of this name, `exp`, `log` or `tanh`, of each element in the array's own precision."""
    if array.dtype == np.object_:
        return np.vectorize(getattr(QUADRUPLE, function), otypes=[object])(array) if array.size else array
    return np.asarray(getattr(np, function)(array))
