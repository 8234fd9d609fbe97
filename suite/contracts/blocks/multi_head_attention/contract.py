"""The contract `multi_head_attention`: several attentions side by side, each over its part of the mapped features.

    multi_head_attention(query, key, value, w_query, w_key, w_value, *, w_output=None, b_query=None, b_key=None,
                         b_value=None, b_output=None, num_heads, attn_mask=None, is_causal=False, dropout_p=0.0,
                         attention=None, need_weights=False, step="", drawn=False) -> output

    head_i = dropout(softmax((query w_query + b_query)_i (key w_key + b_key)_iᵀ / √p)) (value w_value + b_value)_i
    output = [head_1 … head_h] w_output + b_output

Axes of inputs: `b l q` query, `b s k` key, `b s v` value, `b l o` output. Axes of weights: `q d` w_query, `k d` w_key,
`v c` w_value, `c o` w_output, `d` b_query and b_key, `c` b_value, `o` b_output. Letters: b batch, l queries, s keys,
h heads, p = d/h head width. Vaswani et al., "Attention is all you need" (arXiv 1706.03762), section 3.2.2.

    weights          (in, out): the transpose of what linear layers store
    no items         an empty output; a class with weights of its own that raises is unsupported
    grouped queries  columns of w_key and w_value repeat in groups of neighbours; a class with fewer key heads gets one
    heads            (…)_i are the columns i·p to (i+1)·p; for values i·c/h to (i+1)·c/h, which may be another width
    scale            1/√p, with the width of one head
    w_output         None: the output is the heads side by side, b l c
    biases           None: nothing is added; b_output only with w_output
    b_key            adds the same to all scores of a query, so it changes roundings only
    attn_mask        boolean, True means visible (hidden where `bool_mask` is declared as `may_not`); 2 axes,
                     broadcastable to l s, or 4, broadcastable to b h l s. 3 axes raise: broadcasting would read b l s
                     as h l s where b = h
    is_causal        query i attends keys j ≤ i, aligned at the upper left, also when l ≠ s
    both of them     undefined: not tested
    empty row        a query without visible keys in a head gets zeros of it, also if there are no keys: with w_output
                     the other heads' part and b_output
    dropout          on the weights; kept ones × 1/(1−p); p = 0 is exact; p = 1 gives zeros in every head
    random source    torch.manual_seed: with one seed, calls of equal sizes drop the same weights; a run fails an honest
                     implementation with probability ≤ 1e-9
    attention        None, or a backend that computes the heads: an implementation of the contract `attention`, called
                     once with b h l p, b h s p and b h s c/h in the query's dtype, unscaled, and only with the
                     arguments that it needs: a boolean attn_mask or is_causal where something is hidden, dropout_p
                     above 0, never scale. A backend may lack all others
    need_weights     True: (output, attention weights) is returned; the weights are those of every head before dropout,
                     b h l s in the query's dtype. Rows sum to 1, an empty one to 0; hidden keys have exactly 0. The
                     output is the same as without them. A backend's weights are read off it: after its call it is
                     called again without dropout and with the identity as values, as many columns at a time as the
                     values of a head have, the last call filled up with zeros
    step             (output, {step: numbers}) is returned: `mapped_query`, `split_query` b h l p, and of key and value;
                     `scores`, scaled, and `weights`, b h l s; `heads` b h l v, `heads_back` b l h v, `merged` b l c
    drawn            True: a module's own weights are used, which it draws after torch.manual_seed. They are the given
                     ones, which a document prints; with others the module is not tested
    rounding         sums may run in any order, in half types in float32: a bias first or last, all maps in one product,
                     heads one by one. Maps, scaled queries, scores, weights and heads may each be rounded to the dtype
    inputs           any strides, weights too; never modified; the output shares no memory with them or later outputs
    output           query's dtype and device
    dtypes           inputs, weights and biases have one; mixed dtypes are undefined: not tested
    bad input        raises before any work on heads that do not divide, shapes that do not chain, a bias of another
                     width, b_output alone, a mask that is not boolean or does not fit, dropout_p outside [0, 1]
"""

from __future__ import annotations

from attnsuite.cases import Call, declare
from attnsuite.contracts.attention.contract import LARGE
from attnsuite.contracts.attention.features import mask

POSITIONAL = ("query", "key", "value", "w_query", "w_key", "w_value")
INPUT_BIASES = ("b_query", "b_key", "b_value")
BIASES = (*INPUT_BIASES, "b_output")
FEATURES = {
    "bool_mask": "boolean masks",
    "causal": "is_causal",
    "dropout": "dropout",
    "empty_row": "queries without visible keys",
    "no_keys": "no keys, no queries, no items",
    "value_width": "value heads of a width of their own",
    "large": "more than 65,536 multiplications per operand in the heads",
    "query_width": "queries of another width than all heads together",
    "bias": "biases",
    "output_map": "a map of the heads' outputs",
    "weights": "returned attention weights",
}
"""Features of the heads have the names of the contract `attention`, so that those a backend lacks count here too."""
PARAMETERS = {
    "attn_mask": ("bool_mask",), "is_causal": ("causal",), "dropout_p": ("dropout",), "w_output": ("output_map",),
    "need_weights": ("weights",),
} | dict.fromkeys(BIASES, ("bias",))  # fmt: skip


def _large(call: Call) -> bool:
    queries, keys = call.tensors["query"].shape[:-1].numel(), call.tensors["key"].shape[-2]
    return queries * keys * (_columns(call, "query") + _columns(call, "value")) > LARGE


def _columns(call: Call, role: str) -> int:
    """The width of a mapped role, all heads together."""
    return call.tensors[f"w_{role}"].shape[-1]


CONTRACT = declare(
    __name__,
    FEATURES,
    PARAMETERS,
    also={
        "empty_row": lambda call: mask.has_empty_row(call.tensors.get("attn_mask")),
        "no_keys": lambda call: 0 in call.tensors["query"].shape or 0 in call.tensors["key"].shape,
        "query_width": lambda call: call.tensors["w_query"].shape[0] != _columns(call, "query"),
        "value_width": lambda call: _columns(call, "value") != _columns(call, "query"),
        "large": _large,
    },
    conventions={"bool_mask": ("may", "may_not")},
    adapt=mask.FEATURE.adapt,
    baseline="split_heads",
    lists={"variants": "mutants.variants", "workloads": "cases.workloads"},
)
