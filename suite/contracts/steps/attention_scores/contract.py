"""The contract `attention_scores`: the first step of attention, by a named function.

    attention_scores(query, key, *, score="scaled_dot", w=None, w_query=None, w_key=None, w_score=None,
        attn_mask=None) -> scores

    dot         query_i · key_j
    scaled_dot  query_i · key_j / √e
    bilinear    query_iᵀ w key_j                                        w: q k
    additive    tanh(query_i w_query + key_j w_key) · w_score           w_query: q f, w_key: k f, w_score: f
    distance    −‖query_i − key_j‖² / 2, the logarithm of a Gaussian kernel of width 1

Axes: `… l q` query, `… s k` key, `… l s` scores (l queries, s keys, f features). Widths q and k are equal, e, except
for bilinear and additive. Rank 2, 3 and 4; leading axes are equal.

    weights          only those that the function names
    attn_mask        boolean, True means may attend; broadcastable to … l s. Whatever the function, the score of what
                     may not be attended is −∞ itself: a finite number in its place is wrong, however far below
    rounding         sums may run in any order, in half types in float32; each step's result may be rounded to the
                     dtype. 1/√e may be applied to the products, before them to query or key, or its root to both;
                     bilinear may be (q w) kᵀ or q (w kᵀ), and additive's maps one product of query and key side by side
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device; what overflows the dtype is not asked
    distance         may be computed as query · key − ‖query‖²/2 − ‖key‖²/2: the bound allows what that loses
    bad input        raises: an unknown function, a weight that is missing or not named by the function, widths that do
                     not chain, leading axes that differ, a mask that cannot broadcast or is not boolean
"""

from __future__ import annotations

from attnsuite.cases import Call, declare

POSITIONAL = ("query", "key")
SCORES = {"dot": (), "scaled_dot": (), "bilinear": ("w",), "additive": ("w_query", "w_key", "w_score"), "distance": ()}
"""The functions, and the weights that each takes."""

FEATURES = {
    "dot": "dot products without a scale",
    "bilinear": "a matrix between query and key",
    "additive": "a small network of query and key",
    "distance": "squared distances",
    "bool_mask": "boolean masks",
    "rank3": "inputs of rank 3",
    "rank4": "inputs of rank 4",
}
WEIGHTS: dict[str, tuple[str, ...]] = {"w": ("bilinear",), **dict.fromkeys(SCORES["additive"], ("additive",))}


def _rank(call: Call) -> int:
    return call.tensors["query"].dim()


CONTRACT = declare(
    __name__,
    FEATURES,
    {"score": ("dot", "bilinear", "additive", "distance"), **WEIGHTS, "attn_mask": ("bool_mask",)},
    by_value=("score", *WEIGHTS),  # the function's name says what is needed; weights, which are no words, say nothing
    also={"rank3": lambda call: _rank(call) == 3, "rank4": lambda call: _rank(call) == 4},
)
