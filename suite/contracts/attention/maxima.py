"""The derivative with respect to the maximum that a softmax subtracts: 0, and in floating point a residual.

Every softmax subtracts a maximum m_S of the scores of some set S of keys: of all keys, of the keys so far (online
softmax), of a part of the keys (split-k). The output does not depend on m_S. Where m_S stays in the graph, autograd
computes its derivative as the difference of two sums that are equal in exact arithmetic, and adds what is left to the
gradient of the score that attains the maximum:

    R_S = Σ_{i∈S} t_i − A_S,    t_i = p_i (dO·V_i − D),    A_S = dO·(Σ_{i∈S} p_i V_i) − D Σ_{i∈S} p_i

For the set of all keys A_S is 0. Errors of scores cancel: the sums are equal for whatever powers were computed, and so
are the factors that rescale them, and the errors of dO and D outside S. What remains are the roundings within S, u in
the dtype and a in the accumulator, over n keys of S and v columns of the value:

    dO·V_i, dO·(Σ p V)           a·v each, 8 single operations a each    on Σ p |dO||V|
    dO·o = D                     a·v, 8 single operations a each         on Σ p |dO||o|
    Σ p V; dO rescaled per block a·n each                                on Σ p |dO||V|
    Σ t; Σ p, D rescaled         a·n; a·n each                           on Σ p |dO·V − D|; on Σ p |D|

    |R_S| ≤ a (2v + 8) Σ p |dO||V| + a (v + 8) Σ p |dO||o| + a n Σ p (2 |dO||V| + |dP − D| + 2 |D|)    (sums over S)

In half types sums are made in float32, so running states are, too. But powers, dO and dO·V may be rounded to the dtype
on the way to a product: u on Σ p |dO||V|, and 2u on Σ p |dP|. The sums over all keys may have been made of numbers that
are all in the dtype, o, dO/l, D and t as well: 8u on Σ p |dP| + Σ p |dO||o|, for m of the whole row alone.

Which keys: j may attain m_S where no score in S is larger, so p_i ≤ p_j in S. S is contiguous: a block, several blocks
merged, the keys before or behind a place, or around the end where blocks are met in a ring.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def runs(lowest: Array, highest: Array, terms: Array, most: Array) -> tuple[Array, Array]:
    """For each key, Σ terms over the longest run of keys in which its score may be the largest, and the run's length.

    A score lies between `lowest` and `highest`, both … s and −∞ where the key is hidden. Runs are contiguous, and the
    first key stands behind the last one. `terms`, k … s, are those of k sums; `most`, k … s, is how large a term may be
    of a key whose score is no larger than this one's. Sums, k … s, and length, … s, are upper bounds: a run is followed
    to either side in steps that double.
    """
    keys = lowest.shape[-1]
    total, length = terms.copy(), np.ones(lowest.shape)
    for side in (-1, 1):
        largest, summed = np.roll(lowest, side, -1), np.roll(terms, side, -1)  # of the next `reach` keys
        going = np.ones(lowest.shape, dtype=bool)
        known, reach, before = 0, 1, np.zeros_like(terms)
        while known < keys:
            ends = going & (largest > highest)
            more = reach - known - 1  # keys beyond the known ones; the run ends before the last of them
            np.add(total, before + np.minimum(summed - before, more * most), out=total, where=ends)
            np.add(length, known + more, out=length, where=ends)
            going &= ~ends
            largest = np.maximum(largest, np.roll(largest, side * reach, -1))
            before, summed = summed, summed + np.roll(summed, side * reach, -1)
            known, reach = reach, 2 * reach
        np.copyto(total, np.inf, where=going)
        np.copyto(length, keys, where=going)
    return np.minimum(total, terms.sum(-1, keepdims=True)), np.minimum(length, keys)
