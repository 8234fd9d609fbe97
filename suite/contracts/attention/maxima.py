"""The derivative with respect to the maximum that a softmax subtracts: 0, and in floating point a residual.

A softmax subtracts the maximum m of the scores of a set S of keys: of all keys, of the keys so far (online softmax), of
a part of the keys (split-k). The output does not depend on m. Where m stays in the graph, autograd computes the
derivative with respect to m as a difference of two sums that are equal in exact arithmetic. It adds the residual R of
their roundings to the gradient of the score that attains m:

    R = A − Σ_{i∈S} t_i    t_i = p_i (dO·V_i − D)    A = dO·(Σ_{i∈S} p_i V_i) − D Σ_{i∈S} p_i, and 0 if S is all keys

Errors of scores cancel in R: the sums are equal for any powers. So do the errors that t_i and A share: of the factors
that rescale S, of dO and of D. The roundings within S remain. S has n keys, a value has v columns, and a is the unit
roundoff of the accumulator. Sums over i ∈ S, in units of a:

    Σ p_i |dO||V_i|       v for dO·V_i, v for dO·(Σ p V), 8 for single operations
                          n for Σ p V, n/2 for dO, which is rescaled once per block of two keys or more
    Σ p_i |dO||o|         v for D, 8 for single operations
    Σ p_i |dP_i − D|      n for Σ t
    Σ p_i |D|             n for Σ p, n/2 for D, which is rescaled with dO

    |R| ≤ a Σ p ((2v + 8) |dO||V| + (v + 8) |dO||o|) + a n Σ p (3/2 |dO||V| + |dP − D| + 3/2 |D|)

Half types: sums are made in float32, running states too. Powers, dO and dO·V may be rounded to the dtype on the way to
a product or from it: u Σ p (|dO||V| + 2 |dP|). If S is all keys, a computation that stores each result in the dtype has

    u Σ p (5 |dP| + 2 |dP − D| + |D|)                   if it divides weights by their sum, then multiplies them by V
    u Σ p (|dP| + 5 |dO||o| + 2 |dP − D| + 2 |D|)       if it multiplies first, then divides
    5 u |D|                                             if it subtracts a log-sum-exp

at most u Σ p (|dP| + 5 max(|dP|, |dO||o|) + 2 |dP − D| + 2 |D|), since |D| ≤ Σ p |dP|.

Which key: j attains m for any S whose other scores are no larger. S is contiguous: a block, merged blocks, all the
keys before or behind a place, or a run past the last key to the first one, as in a ring. So the largest S of a key ends
on either side at the first score that is larger. Its weights are no larger than p_j, so R is small where p_j is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


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
    keys = lowest.shape[-1]
    largest = [np.roll(lowest, -1, -1)]  # of the next 1, 2, 4 … keys
    while 2 ** len(largest) < keys:
        largest.append(np.maximum(largest[-1], np.roll(largest[-1], -(2 ** (len(largest) - 1)), -1)))
    found = np.zeros(lowest.shape, dtype=np.int64)
    for power, of_next in reversed([*enumerate(largest)]):
        place = (np.arange(keys) + found) % max(keys, 1)
        found += (np.take_along_axis(of_next, place, -1) <= highest) * 2**power
    return found


def over(run: Runs, terms: Array) -> Array:
    """The sum of terms, … s, over the run of each key."""
    sums = np.zeros((*terms.shape[:-1], 2 * terms.shape[-1] + 1))
    np.cumsum(np.concatenate([terms, terms], -1), -1, out=sums[..., 1:])
    return np.asarray(np.take_along_axis(sums, run.start + run.length, -1) - np.take_along_axis(sums, run.start, -1))
