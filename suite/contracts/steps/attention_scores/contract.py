"""The contract `attention_scores`: the first step of attention, by a named function.

    attention_scores(query, key, *, score="scaled_dot", w=None, w_query=None, w_key=None, w_score=None) -> scores

    dot         query_i · key_j
    scaled_dot  query_i · key_j / √e
    bilinear    query_iᵀ w key_j                                        w: q k
    additive    tanh(query_i w_query + key_j w_key) · w_score           w_query: q f, w_key: k f, w_score: f
    distance    −‖query_i − key_j‖² / 2, the logarithm of a Gaussian kernel of width 1

Axes: `… l q` query, `… s k` key, `… l s` scores (l queries, s keys, f features). Widths q and k are equal, e, except
for bilinear and additive. Rank 2, 3 and 4; leading axes are equal.

    weights          only those that the function names
    rounding         sums may run in any order, in half types in float32; each step's result may be rounded to the
                     dtype. 1/√e may be applied to the products, before them to query or key, or its root to both;
                     bilinear may be (q w) kᵀ or q (w kᵀ), and additive's maps one product of query and key side by side
    inputs           of any strides, as are weights; never modified; the output aliases none
    output           query's dtype and device; what overflows the dtype is not asked
    distance         may be computed as query · key − ‖query‖²/2 − ‖key‖²/2: the bound allows what that loses
    bad input        raises: an unknown function, a weight that is missing or not named by the function, widths that do
                     not chain, leading axes that differ
"""

from __future__ import annotations

from suite.asking import EVERYWHERE, Call, Contract, rooms

POSITIONAL = ("query", "key")
SCORES = {"dot": (), "scaled_dot": (), "bilinear": ("w",), "additive": ("w_query", "w_key", "w_score"), "distance": ()}
"""The functions, and the weights that each takes."""

FEATURES = {
    "dot": "dot products without a scale",
    "bilinear": "a matrix between query and key",
    "additive": "a small network of query and key",
    "distance": "squared distances",
    "rank3": "inputs of rank 3",
    "rank4": "inputs of rank 4",
    **EVERYWHERE,
}
PARAMETERS = {"score": ("dot", "bilinear", "additive", "distance"), "w": ("bilinear",)} | dict.fromkeys(
    SCORES["additive"], ("additive",)
)


def needs(calls: tuple[Call, ...]) -> frozenset[str]:
    """The features that these calls need, read off the calls themselves."""
    return frozenset().union(*map(_needs, calls))


def _needs(call: Call) -> set[str]:
    query = call.tensors["query"]
    needed = {str(query.dtype).removeprefix("torch."), str(call.options.get("score", "scaled_dot"))}
    if query.dim() > 2:
        needed.add(f"rank{query.dim()}")
    return needed & set(FEATURES)


CONTRACT = Contract(
    name="attention_scores",
    features=FEATURES,
    parameter_features=PARAMETERS,
    needs=needs,
    **rooms(__package__, strangers="strangers.strangers"),
)
