"""Error bounds of a correct attention, for its scores, output and gradients; and the errors that are accepted.

`ForwardPass` and `BackwardPass` of the oracle hold the quantities that the bounds are computed from.

The derivative with respect to the maximum that a softmax subtracts: 0, and in floating point a residual.

A softmax subtracts the maximum m of the scores of a set S of keys: of all keys, of the keys so far (online softmax), of
a part of the keys (split-k). The output does not depend on m. Where m stays in the graph, autograd computes the
derivative with respect to m as a difference of two sums that are equal in exact arithmetic. It adds the residual R of
their roundings to the gradient of the score that attains m:

    R = A − Σ_{i∈S} t_i    t_i = p_i (dO·V_i − D)    A = dO·(Σ_{i∈S} p_i V_i) − D Σ_{i∈S} p_i, and 0 if S is all keys

Errors of scores cancel in R: the sums are equal for any exponentials. So do the errors that t_i and A share: of the
factors that rescale S, of dO and of D. The roundings within S remain. S has n keys, a value has v columns, and a
is the unit roundoff of the accumulator. Sums over i ∈ S, in units of a:

    Σ p_i |dO||V_i|       v for dO·V_i, v for dO·(Σ p V), 8 for single operations
                          n for Σ p V, n/2 for dO, which is rescaled once per block of two keys or more
    Σ p_i |dO||o|         v for D, 8 for single operations
    Σ p_i |dP_i − D|      n for Σ t
    Σ p_i |D|             n for Σ p, n/2 for D, which is rescaled with dO

    |R| ≤ a Σ p ((2v + 8) |dO||V| + (v + 8) |dO||o|) + a n Σ p (3/2 |dO||V| + |dP − D| + 3/2 |D|)

16-bit dtypes: sums are made in float32, running states too. Exponentials, dO and dO·V may be rounded to the dtype on
the way to a product or from it: u Σ p (|dO||V| + 2 |dP|). If S is all keys, a computation that stores each result in
the dtype has

    u Σ p (5 |dP| + 2 |dP − D| + |D|)                   if it divides weights by their sum, then multiplies them by V
    u Σ p (|dP| + 5 |dO||o| + 2 |dP − D| + 2 |D|)       if it multiplies first, then divides
    5 u |D|                                             if it subtracts a log-sum-exp

at most u Σ p (|dP| + 5 max(|dP|, |dO||o|) + 2 |dP − D| + 2 |D|), since |D| ≤ Σ p |dP|.

Which key: j attains m for any S whose other scores are no larger. S is contiguous: a block, merged blocks, all the
keys before or behind a place, or a run past the last key to the first one, as in a ring. So the largest S of a key ends
on either side at the first score that is larger. Its weights are no larger than p_j, so R is small where p_j is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnsuite.judging.precision import Precision

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import ForwardPass

Array = np.ndarray[Any, Any]

IN_CACHE = 2**13
"""Scores whose runs are computed at once, so that their tables of some 2 MB stay in a processor's cache."""
ACCEPT_OUTPUT = 2.0
"""The tolerance of an output, in error bounds. It is a safety factor, not derived: `score_error` estimates roundings by
the root of the width, which is no worst case. The tests hold correct kernels below 1 bound. One reached 1.4 of the
first form of the bound, which had no terms for split products and for rounded log-sum-exps. The factor forgives little:
1,024 equal values that are summed in the dtype itself reach 54 bounds in bfloat16, and 36 in float16."""
ACCEPT_GRADIENT = 1.0
"""The tolerance of a gradient, in error bounds. Correct backward passes were measured below 0.31."""
PART = 16
"""Keys in the smallest part whose log-sum-exps kernels merge; each merge rounds at the size of the result."""
SIGMOID = 1.5
"""Error of a sigmoid near 1, in unit roundoffs: 1 + exp(−x) rounds by one, the quotient by a half. The small weight of
two keys, 1 minus it, is off by as much."""
FIRST_ORDER = 0.25
"""Score errors beyond this are not small against 1: such rows are bounded by the range of their values instead."""
SPLIT = 16.0
"""Error of a product in unit roundoffs of float32, where tensor cores make it of three products of TensorFloat-32
(3xTF32). They truncate each factor after 11 bits and omit the product of the two remainders. Each remainder is at most
2⁻¹⁰ of its factor, so 2⁻²⁰ of the product is missing."""


def score_error(forward: ForwardPass) -> Array:
    """The error bound of each score: b h l s, in float64.

    The roundings of a product of `width` terms are taken to grow with the root of the width, since their signs vary
    (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis"). The worst case grows with the
    width; the safety factor ACCEPT_OUTPUT allows for unlucky signs.
    """
    u = forward.precision.unit
    delta = 2 * u * forward.stored + product_error(forward) * forward.magnitude
    delta += _sum_error(forward) * forward.bias_size + 2 * u
    if forward.precision.half:
        behind = forward.scores - forward.largest
        delta += 2 * u * np.abs(behind, out=behind)
    return delta if forward.all_allowed else np.where(forward.allowed, delta, 0)


def product_error(forward: ForwardPass) -> float:
    """The relative error of the product of a query and a key."""
    return _sum_error(forward) + _split(forward.precision, forward.problem.query.shape[-1])


def _sum_error(forward: ForwardPass) -> float:
    return float(forward.precision.accumulator * (np.sqrt(forward.problem.query.shape[-1]) + 4))


class OutputError(NamedTuple):
    """The error bound of an output, b h l v, and the quantities that bounds of gradients need."""

    bound: Array
    normaliser_error: Array
    """The relative error that all weights of a row share."""
    terms: Array
    """Σ |p v|, b h l v."""
    loose: Array
    """The rows with score errors too large for first order: b h l 1."""


def output_error(forward: ForwardPass, exact: Array) -> OutputError:
    """The error bound of the output, from the errors of scores, weights and sums of products."""
    u, a, eta = forward.precision.unit, forward.precision.accumulator, forward.precision.tiny
    keys = forward.key.shape[-2]
    seen = double(forward.allowed[..., :1, :] if forward.all_allowed else forward.allowed)  # one row if all are equal
    value, output = double(forward.value), double(exact)
    magnitude = double(forward.applied) @ abs(value)
    spread = Spread(value, output)
    moved, loose = _moved(forward, spread, value, magnitude)
    # weights may underflow, and so may each product of weight and value where subnormal numbers are flushed
    underflow = eta * (spread.by(seen) + keys + 1)
    # exp(score − logsumexp) is a correct style: each rounding of the log-sum-exp moves all weights of a row together.
    # Parts are merged by theirs, with one rounding each, whose signs vary
    shared = a * np.sqrt(1 + keys / PART) * double(np.where(forward.empty, 0, abs(forward.largest)))
    normaliser_error = summing(forward.precision, keys) + shared
    # roundings of a sum may all have one sign, as equal weights round alike; so may errors that a row shares
    common = normaliser_error * magnitude + underflow
    before = moved + 2 * u * magnitude + common
    if (pairs := two_keys(forward)).any():
        before += SIGMOID * a * pairs * (double(forward.allowed) @ abs(value))
    bound = before + u * (abs(output) + before)
    return OutputError(np.where(forward.zero_rows, 0, bound), normaliser_error, magnitude, loose)


def two_keys(forward: ForwardPass) -> Array:
    """The rows with two visible keys, b h l 1: one weight may be a sigmoid, and the other 1 minus it."""
    return np.asarray(forward.allowed.sum(-1, keepdims=True) == 2)


def _moved(forward: ForwardPass, spread: Spread, value: Array, magnitude: Array) -> tuple[Array, Array]:
    """The change of the output by errors of scores, and the rows in which these are too large for first order."""
    weights = double(forward.weights)
    large = forward.score_error.max(initial=0.0) > FIRST_ORDER
    weight_error = weights * (np.minimum(forward.score_error, 1) if large else forward.score_error)
    if forward.sums_to_one:
        moved = spread.by(weight_error)
    else:
        moved = (weight_error * double(forward.dropout_factor)) @ abs(value)
        moved += weight_error.sum(-1, keepdims=True) * magnitude
    loose = np.zeros_like(forward.empty)
    if large:
        # a weight below any rounding of the sum cannot matter, however wrong its score
        matters = weights * np.exp(np.minimum(2 * forward.score_error, 700)) > forward.precision.unit
        loose = ((forward.score_error > FIRST_ORDER) & matters).any(axis=-1, keepdims=True)
    if loose.any():
        moved = np.where(loose, spread.by(double(forward.allowed)), moved)
    return moved, loose


def score_gradient_error(
    forward: ForwardPass, upstream: Array, output: Array, delta: Array, centred: Array, d_weights: Array
) -> tuple[Array, Array]:
    """The error bounds of a weight and of p (dP − D), the gradient of its score: both b h l s.

    `delta` is D, `centred` is dP − D, `d_weights` is |dP|. The error of a weight is ρ p, and up to 1 in rows whose
    score errors are too large for first order.
    """
    u, a, eta = forward.precision.unit, forward.precision.accumulator, forward.precision.tiny
    value_width = forward.problem.value.shape[-1]
    p, g = double(forward.weights), abs(double(centred))
    of_lse = 0.0 if forward.lse_gradient is None else abs(double(forward.lse_gradient))
    g = g + of_lse  # p (dP − D) and p times the log-sum-exp's gradient may be computed apart
    d_out, size = abs(double(upstream)), abs(double(output))
    v, dropout = abs(double(forward.value)), double(np.asarray(forward.dropout_factor))
    slip = np.minimum(forward.score_error, 1)
    rho = np.minimum(slip + (p * slip).sum(-1, keepdims=True), 1)
    rho += 2 * u + forward.normaliser_error
    weight_error = p * rho
    if forward.loose.any():
        weight_error = np.where(forward.loose & forward.allowed, 1, weight_error)
    pairs = two_keys(forward)
    if pairs.any():
        weight_error = np.where(pairs & forward.allowed, weight_error + SIGMOID * a, weight_error)
    products = dropout * (d_out @ v.swapaxes(-1, -2))  # Σ |dO| |V|: b h l s
    d_weights_error = (u + summing(forward.precision, value_width)) * products
    product_error = 2 * u + a * value_width
    delta_error = product_error * (d_out * size).sum(-1, keepdims=True)
    delta_error = delta_error + (d_out * forward.bound).sum(-1, keepdims=True) + 2 * u * of_lse
    # a weight may underflow where it is stored, which costs eta in each factor of what follows
    centred_error = d_weights_error + delta_error
    error = weight_error * (g + forward.loose * centred_error if forward.loose.any() else g)
    error += p * (centred_error + 2 * u * g)
    error += eta * (1 + g)
    error += SIGMOID * a * pairs * g.max(-1, keepdims=True, initial=0)  # of both scores, which differ in sign
    error += product_error * _parts_error(forward, p, d_out, v, dropout)
    error += _maximum_residual(
        forward, d_weights, g, abs(double(delta)), products, (d_out * size).sum(-1, keepdims=True)
    )
    return weight_error, error if forward.all_allowed else np.where(forward.allowed, error, 0)


def _parts_error(forward: ForwardPass, weights: Array, upstream: Array, value: Array, dropout: Array) -> Array:
    """The largest size of the terms that a correct backward pass sums to p (dP − D): b h l s.

    Where parts of the keys are merged by their log-sum-exp, it is p (dP − E) + p (E − D), E the mean of dP over one
    part. |E| is at most the largest |dP|, and p |E| at most Σ p |dP|, since p is at most the share of its part.
    """
    seen = np.asarray(forward.allowed.any(axis=-2))[..., None]  # b h s 1
    largest = np.where(seen, value, 0).max(axis=-2, keepdims=True, initial=0) * dropout.max(initial=0)  # b h 1 v
    all_terms = (upstream * forward.terms).sum(-1, keepdims=True)
    return np.asarray(np.minimum(weights * (upstream @ largest.swapaxes(-1, -2)), all_terms))


def _maximum_residual(
    forward: ForwardPass, dp: Array, g: Array, delta: Array, products: Array, outputs: Array
) -> Array:
    """The residual of the derivative with respect to a maximum, at the key that attains it: b h l s.

    The derivative is 0. An implementation that keeps the maximum in its graph computes it as a difference of two
    sums, whose roundings are left. The module docstring derives the coefficients. The arguments are |dP|, |dP − D|,
    |D|, Σ |dO| |V| and Σ |dO| |o|.
    """
    u, a = forward.precision.unit, forward.precision.accumulator
    width, keys, allowed = forward.problem.value.shape[-1], forward.key.shape[-2], forward.allowed
    stored = u if forward.precision.half else 0.0  # where that is more than the accumulator's
    split = _split(forward.precision, width) + _split(forward.precision, 1)  # dO·V, and p V of few keys
    fixed = (a * (2 * width + 8) + split + stored) * products + a * (width + 8) * outputs + 2 * stored * dp
    per_key = a * (1.5 * products + g + 1.5 * delta)
    fixed, per_key, weights = (np.where(allowed, array, 0) for array in (fixed, per_key, double(forward.weights)))
    scores = np.where(allowed, double(forward.scores), -np.inf)
    low, high = scores - forward.score_error, scores + forward.score_error
    run = runs(low, high)
    residual = over(run, weights * fixed) + run.length * over(run, weights * per_key)
    of_row = dp + 2 * g + 2 * delta + 5 * np.maximum(dp, outputs)
    everything = high >= low.max(-1, keepdims=True, initial=-np.inf)
    residual += stored * everything * (weights * of_row).sum(-1, keepdims=True)
    if forward.loose.any():  # any weights may stand there, so the mean of the sizes is at most the largest
        most = (fixed + keys * per_key + stored * np.where(allowed, of_row, 0)).max(-1, keepdims=True, initial=0)
        residual = np.where(forward.loose, most, residual)
    return np.asarray(residual + forward.precision.tiny * run.length * (1 + dp.max(-1, keepdims=True, initial=0)))


def summing(precision: Precision, terms: int) -> float:
    """The relative error of a sum of products."""
    return precision.accumulator * terms + _split(precision, terms)


def _split(precision: Precision, terms: int) -> float:
    """The relative error of a sum of n split products: their errors have independent signs and grow like √n."""
    single = precision.unit == 2.0**-24
    return float(SPLIT * precision.unit / np.sqrt(max(terms, 1))) if single else 0.0


class Spread:
    """√(Σ_j c_ij · Σ_j c_ij (v_jv − o_iv)²), an upper bound of Σ_j c_ij |v_jv − o_iv| (Cauchy and Schwarz).

    value … s v and output … l v are float64. Values are centred first, so that large ones do not cancel: on the mean
    output, which hidden values do not enter.
    """

    def __init__(self, value: Array, output: Array) -> None:
        centre = output.mean(axis=-2, keepdims=True) if output.shape[-2] else 0.0
        self.output = output - centre
        self.width = value.shape[-1]
        self.columns = np.empty((*value.shape[:-1], 2 * self.width + 1))  # all summands, for one matrix product
        centred = np.subtract(value, centre, out=self.columns[..., self.width : -1])
        np.square(centred, out=self.columns[..., : self.width])
        self.columns[..., -1] = 1

    def by(self, coefficients: Array) -> Array:
        """The bound with these coefficients, … l s in float64: … l v. They may be one row for all, … 1 s."""
        sums = coefficients @ self.columns
        total = sums[..., -1:]
        bound: Array = total * self.output
        bound -= 2 * sums[..., self.width : -1]
        bound *= self.output
        bound += sums[..., : self.width]  # Σ_j c_ij (v_jv − o_iv)²
        np.maximum(bound, 0, out=bound)
        bound *= total
        return np.sqrt(bound, out=bound)


def double(array: Array) -> Array:
    """The array in float64, the type of bounds."""
    return array.astype(np.float64, copy=False)


class Runs(NamedTuple):
    """A contiguous run of keys for each key, around the end; both arrays are … s."""

    start: Array
    """The first key."""
    length: Array


def runs(lowest: Array, highest: Array) -> Runs:
    """For each key, the longest run of keys in which its score may be the largest.

    A score lies between `lowest` and `highest`, both … s and −∞ where the key is hidden.
    """
    keys = lowest.shape[-1]
    before = _reach(lowest[..., ::-1], highest[..., ::-1])[..., ::-1]
    length = np.minimum(before + 1 + _reach(lowest, highest), keys)
    return Runs((np.arange(keys) - before) % max(keys, 1), length)


def _reach(lowest: Array, highest: Array) -> Array:
    """The number of keys that follow each key before the first one whose score is certainly larger."""
    shape, keys = lowest.shape, max(lowest.shape[-1], 1)
    lowest, highest = lowest.reshape(-1, keys), highest.reshape(-1, keys)
    reached = np.empty(lowest.shape, dtype=np.int64)
    step = max(IN_CACHE // keys, 1)
    for start in range(0, len(lowest), step):
        rows = slice(start, start + step)
        reached[rows] = _reach_of_rows(lowest[rows], highest[rows])
    return reached.reshape(shape)


def _reach_of_rows(lowest: Array, highest: Array) -> Array:
    keys = lowest.shape[-1]
    ring = np.concatenate([lowest] * 3, -1)  # so that no place below exceeds the keys that follow it
    largest = [np.concatenate([ring[:, 1:], ring[:, :1]], -1)]  # of the next 1, 2, 4 … keys
    while (by := 2 ** (len(largest) - 1)) * 2 < keys:
        largest.append(largest[-1].copy())
        np.maximum(largest[-2][:, :-by], largest[-2][:, by:], out=largest[-1][:, :-by])
    first = np.arange(0, ring.size, 3 * keys)[:, None] + np.arange(keys)
    place = first.copy()
    for power, of_next in reversed([*enumerate(largest)]):
        place += (of_next.ravel().take(place) <= highest) * 2**power
    return np.asarray(place - first)


def over(run: Runs, terms: Array) -> Array:
    """The sum of terms, … s, over the run of each key."""
    keys = terms.shape[-1]
    sums = np.zeros((*terms.shape[:-1], 2 * keys + 1))
    np.cumsum(np.concatenate([terms, terms], -1), -1, out=sums[..., 1:])
    first = run.start + np.arange(0, sums.size, 2 * keys + 1).reshape(*terms.shape[:-1], 1)
    return np.asarray(sums.ravel().take(first + run.length) - sums.ravel().take(first))
