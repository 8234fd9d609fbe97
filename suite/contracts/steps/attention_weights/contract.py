"""The contract `attention_weights`: the second step of attention, from scores to weights.

    attention_weights(scores, *, normaliser="softmax", attn_mask=None, lengths=None, is_causal=False) -> weights

    softmax     exp(score_ij) / Σ_j exp(score_ij), over the keys that the query may attend to
    sum         score_ij / Σ_j score_ij, for scores above zero

Axes: `… l s` scores and weights (l queries, s keys). Rank 2, 3 and 4.

    attn_mask        boolean, True means may attend; broadcastable to … l s
    lengths          int64 or int32, b or b l, for scores of rank 3 alone: a query may attend to the first so many keys,
                     to all where that is more than there are. Beside rank 2, which has no items, and rank 4, whose
                     second axis could be meant, they are refused: a mask says the same without a doubt
    is_causal        query i attends keys j ≤ i, aligned at the upper left
    several of them  a key must be allowed by each
    −∞               a score that gives the weight zero, like a key that is not allowed
    empty row        a query that may attend to nothing, or only to scores of −∞, gives exact zeros; so do no keys.
                     What gives NaN there, as a softmax of −∞ alone does, declares {"empty_row": "nan"}; what writes a
                     finite number over masked scores weighs all keys of a masked row alike, and declares
                     {"empty_row": "mean"}: then rows that scores of −∞ leave empty are not asked
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           the scores' dtype and device
    renormalising    what is masked after the softmax and divided by the rest gives the same weights: it is allowed
    rounding         sums may run in any order, in half types in float32; differences, powers, sums and quotients may
                     each be rounded to the dtype. The largest score is subtracted before the exponential:
                     exp(score − logsumexp), whose logarithm is rounded at the scores' size, is another number
    bad input        raises: an unknown normaliser, a mask that cannot broadcast or is not boolean, lengths that are
                     negative, no integers, or not one for each item or query of scores of rank 3
"""

from __future__ import annotations

from attnsuite.cases import Call, Case, Conventions, declare

POSITIONAL = ("scores",)
NORMALISERS = ("softmax", "sum")
FEATURES = {
    "sum": "division by the sum",
    "bool_mask": "boolean masks",
    "lengths": "valid lengths",
    "causal": "is_causal",
    "rank3": "scores of rank 3",
    "rank4": "scores of rank 4",
}
PARAMETERS = {
    "normaliser": ("sum",),
    "attn_mask": ("bool_mask",),
    "lengths": ("lengths",),
    "is_causal": ("causal",),
}


def _rank(call: Call) -> int:
    return call.tensors["scores"].dim()


def _unanswerable(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why a question has no defined answer under these conventions, or empty."""
    if conventions.get("empty_row") != "mean":
        return ""
    scores = [call.tensors["scores"] for call in case.calls(case.dtypes[0])]
    minus_infinity = any(bool(each.isneginf().any()) for each in scores if each.is_floating_point())
    hides = any(call.arguments & {"attn_mask", "lengths", "is_causal"} for call in case.calls(case.dtypes[0]))
    whole = any(bool(each.isneginf().all(-1).any()) for each in scores if each.shape[-1])
    undefined = whole or (minus_infinity and hides)
    return (
        "its convention gives the mean where a mask hides all keys, and does not say what −∞ gives" if undefined else ""
    )


CONTRACT = declare(
    __name__,
    FEATURES,
    PARAMETERS,
    by_value=("normaliser",),
    also={"rank3": lambda call: _rank(call) == 3, "rank4": lambda call: _rank(call) == 4},
    conventions={"empty_row": ("zeros", "nan", "mean")},
    unanswerable=_unanswerable,
)
