"""The contract `varlen_attention`: attention over items of different lengths, packed one behind the other.

    varlen_attention(query, key, value, cu_seqlens_q, cu_seqlens_k, *, max_seqlen_q=None, max_seqlen_k=None,
                     scale=None, is_causal=False, window=None, softcap=None, sinks=None) -> output

    output[Q_b] = softmax(scale · query[Q_b] key[K_b]ᵀ) value[K_b]     of each item b
    Q_b         = cu_seqlens_q[b] to cu_seqlens_q[b + 1] − 1,          K_b likewise by cu_seqlens_k

Axes: `q h e` query, `k g e` key, `k g v` value, `q h v` output, `n` both cu_seqlens (q queries and k keys of all items,
h query heads, g key/value heads, e width, v value width, n − 1 items). Each item is one call of the contract
`attention`, whose decisions hold for it; these are further ones, and the one that differs:

    cu_seqlens       int32, cumulative: from 0, never decreasing. A query attends to keys of its own item alone
    empty items      an item may have no queries, no keys or neither. Queries without keys get exact zeros, and their
                     gradients are 0; keys without queries get gradients of 0
    unused rows      tensors may have more rows than cu_seqlens[-1]. Rows beyond it may hold anything, NaN included, and
                     change no number of an item. Rows of the output and of gradients beyond it are not tested:
                     FlashAttention leaves them unwritten
    max_seqlen       None, or a number that no length exceeds; it may be larger than the longest item
    scale            None means 1/√e; any float is legal, zero and negative included
    is_causal        within each item, aligned at the lower right, as FlashAttention does: its last query sees its last
                     key. Query i of l sees keys j ≤ i + s − l of s. {"causal": "upper_left"} is j ≤ i
    window           (left, right): a query at position p sees keys p − left to p + right, both included; None is no
                     bound. p = i + s − l, or i under {"causal": "upper_left"}
    softcap, sinks   as in `attention`: scores become softcap · tanh(score / softcap); sinks, (h,), are logits that take
                     part in each softmax. The gradient of sinks is the sum over all items
    heads            query head i reads key/value head i // (h/g)
    inputs           any strides, such as views of one packed projection; never modified; the output aliases none
    output           query's dtype and device
    bad input        raises: cu_seqlens that are not integers, do not start at 0, decrease, go beyond the rows, or
                     differ in their number; heads that do not divide; keys and values of different lengths or heads;
                     queries and keys of different widths; a max_seqlen below a length; a negative window

Not tested:

    other integers   cu_seqlens of int64: FlashAttention and PyTorch refuse them
    no items         cu_seqlens of one number
    dropout, masks   most libraries have none of them for packed items
"""

from __future__ import annotations

from attnsuite.cases import Call, declare

INPUTS = ("query", "key", "value")
POSITIONAL = (*INPUTS, "cu_seqlens_q", "cu_seqlens_k")
LARGE = 2**16
"""Multiplications per operand, the sum of h·l·s·(e + v) over items, beyond which a case needs the feature `large`."""
FEATURES = {
    "causal": "is_causal",
    "window": "sliding windows",
    "scale": "a given scale",
    "softcap": "a soft cap of the scores",
    "sinks": "attention sinks",
    "sink_gradient": "gradients of sinks",
    "max_seqlen": "max_seqlen_q and max_seqlen_k",
    "gqa": "grouped key/value heads",
    "value_width": "a value width of its own",
    "no_queries": "items without queries",
    "no_keys": "items with queries but no keys",
    "other_lengths": "items with other numbers of keys than queries",
    "unused_rows": "rows behind the last item",
    "gradient": "gradients of query, key and value",
    "large": "more than 65,536 multiplications per operand",
}


def lengths(call: Call) -> list[tuple[int, int]]:
    """The numbers of queries and keys of each item."""
    both = (call.tensors[name].diff().tolist() for name in ("cu_seqlens_q", "cu_seqlens_k"))
    return list(zip(*both, strict=False))


def _has_unused_rows(call: Call) -> bool:
    ends = ("query", "cu_seqlens_q"), ("key", "cu_seqlens_k")
    return any(len(call.tensors[name]) > int(call.tensors[lengths][-1]) for name, lengths in ends)


def _large(call: Call) -> bool:
    (_, heads, width), value_width = call.tensors["query"].shape, call.tensors["value"].shape[-1]
    return heads * sum(queries * keys for queries, keys in lengths(call)) * (width + value_width) > LARGE


CONTRACT = declare(
    __name__,
    FEATURES,
    {
        "max_seqlen_q": ("max_seqlen",), "max_seqlen_k": ("max_seqlen",), "scale": ("scale",),
        "is_causal": ("causal",), "window": ("window",), "softcap": ("softcap",), "sinks": ("sinks",),
    },
    also={
        "gqa": lambda call: call.tensors["query"].shape[1] != call.tensors["key"].shape[1],
        "value_width": lambda call: call.tensors["value"].shape[-1] != call.tensors["query"].shape[-1],
        "no_queries": lambda call: any(queries == 0 for queries, _ in lengths(call)),
        "no_keys": lambda call: any(queries > 0 and keys == 0 for queries, keys in lengths(call)),
        "other_lengths": lambda call: any(queries != keys for queries, keys in lengths(call)),
        "unused_rows": _has_unused_rows,
        "gradient": lambda call: bool(call.gradient_of),
        "sink_gradient": lambda call: "sinks" in call.gradient_of,
        "large": _large,
    },
    conventions={"causal": ("lower_right", "upper_left")},
    aliases={"varlen": "items", "empty": "items", "lengths": "items", "gqa": "heads", "is_causal": "causal"},
    baseline="matmul",
    lists={"variants": "mutants.variants", "workloads": "workloads.workloads", "array": "cases.array"},
)  # fmt: skip
