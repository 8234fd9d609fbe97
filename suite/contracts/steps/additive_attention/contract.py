"""The contract `additive_attention`: keys and queries of different widths, scored by a small network.

    additive_attention(query, key, value, w_query, w_key, w_score, *, attn_mask=None) -> output

    score_ij = tanh(query_i w_query + key_j w_key) · w_score
    output   = softmax(score) value

Axes: `b l q` query, `b s k` key, `b s v` value, `q e` w_query, `k e` w_key, `e` w_score, `b l v` output (b batch,
l queries, s keys, q query width, k key width, v value width, e features). Bahdanau, Cho and Bengio, "Neural machine
translation by jointly learning to align and translate" (arXiv 1409.0473), without biases.

    scale            none: tanh keeps the scores within Σ|w_score|
    attn_mask        boolean, True means may attend; broadcastable to b l s
    empty row        a query that may attend to nothing gives exact zeros; so does one where there are no keys
    rounding         sums may run in any order, in half types in float32: both maps may be one product of query and key
                     side by side. Maps, features, scores and weights may each be rounded to the dtype
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device
    bad input        raises: widths that do not chain, keys and values of different lengths, batches that differ, a mask
                     that cannot broadcast or is not boolean
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("query", "key", "value", "w_query", "w_key", "w_score")

CONTRACT = declare(__name__, {"bool_mask": "boolean masks"}, {"attn_mask": ("bool_mask",)})
