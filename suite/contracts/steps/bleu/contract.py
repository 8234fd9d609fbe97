"""The contract `bleu`: how much a translation shares with the one that was due, between 0 and 1.

    bleu(prediction, reference, *, k) -> score

    score   = exp(min(0, 1 − r / p)) · p_1^(1/2) · p_2^(1/4) · … · p_k^(1/2^k)
    p_n     = (n-grams of the prediction that the reference has too) / (p − n + 1)

Axes: `p` prediction, `r` reference, the score has none. Papineni and others, "BLEU" (2002), in the form of Dive into
Deep Learning, section 10.7: an n-gram that is one token longer weighs half as much, and the weights do not sum to one
as they do elsewhere.

    n-grams          runs of n neighbouring tokens, in order and overlapping; none goes round from the end to the start
    clipping         an n-gram counts as often as it stands in the prediction, but no oftener than in the reference
    brevity          a prediction that is shorter than the reference loses by the exponential; a longer one gains none
    no match         a p_n of 0 makes the score 0: nothing is smoothed
    short            of a prediction of fewer than k tokens p_1 … p_p are taken: it has no longer n-grams. A single
                     token that is the whole reference scores 1
    empty            a prediction without tokens scores 0. A reference without tokens is bad input
    tokens           int64 numbers; two are the same where the numbers are. None means anything: whoever wants to cut at
                     an end token, or to leave out padding, does so before
    k                at least 1; the documents have 2
    rounding         the score may be a product of powers, or the exponential of a sum of logarithms, in any order, in
                     float32 at least
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           float32, on the prediction's device: `torch.tensor(score)` of a Python float
    bad input        raises: other ranks than 1, tokens that are no int64, a reference without tokens, a k below 1

Tokens are integers, so that there is one dtype to ask: the cases stand in the rows of float32.
"""

from __future__ import annotations

from attnsuite.cases import COMMON, declare

POSITIONAL = ("prediction", "reference")

CONTRACT = declare(
    __name__,
    {},
    also={"float32": lambda call: True},
    everywhere={
        "float32": "tokens, which have this row",
        "cpu": COMMON["cpu"],
        "cuda": COMMON["cuda"],
    },
)
