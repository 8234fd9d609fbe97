"""The contract `kv_cache_attention`: queries of the newest tokens attend to a cache of keys and values.

    kv_cache_attention(query, key_cache, value_cache, cache_seqlens, *, key=None, value=None, block_table=None,
                       key_scales=None, value_scales=None, is_causal=True, window=None, scale=None) -> output

    key_cache[i, n_i : n_i + l] = key[i]        and so value_cache, both in place, before the attention
    output[i]                   = softmax(scale · query[i] key_cache[i, : t_i]ᵀ) value_cache[i, : t_i]

Axes: `b l h e` query and output, `b l g e` key and value, `b s g e` the caches, `b` cache_seqlens (b items, l new
tokens, h query heads, g key/value heads, e width, s slots). With a block_table, `b m`, the caches are pools of pages,
`p z g e` (p pages of z slots, m pages of an item at most). Names and axes are those of FlashAttention's
flash_attn_with_kvcache, except for is_causal, window and scale, which are those of the contract `attention`.

    cache_seqlens    n, int32: the valid slots of each item before the append; t_i is n_i + l with key and value, or n_i
    key, value       the keys and values of the new tokens, both or neither. They are stored as they are, bit for bit.
                     All other bits of the caches stay as they were
    block_table      int32: slot j of item i is slot j mod z of page block_table[i, j // z]. Pages may be in any order,
                     and items may share pages, to which no item appends. Entries beyond the last page of t_i slots may
                     hold any number, and are not read
    key_scales, value_scales    float32, b s g or p z g: the caches are int8, and numbers n stand for n · scale, with a
                     scale for each token and head. A new vector x gets scale = max |x| / 127 in float32 and the numbers
                     x / scale, rounded half to even; zeros where the scale is 0. Both are stored in place, bit for bit.
                     Divisions are correctly rounded: on a GPU, that of tensors, not by a Python number
    unwritten        slots from t_i on, and pages of no item, may hold anything, NaN too: no output depends on it
    positions        query r of item i is at position t_i − l + r
    is_causal        a query attends to no later position: the lower right corner, item by item
    window           (left, right): a query at position p attends to p − left … p + right, both included; None is
                     unbounded. With is_causal the right side is at most 0
    heads            query head x reads key/value head x // (h/g)
    scale            None: 1/√e. Any other number as it is
    empty row        a query that may attend to nothing gets zeros, so an item without tokens does
    rounding         as in the contract `attention`, whose bounds are those of each item. A product n · scale may be
                     rounded to the query's dtype: the bound grows by what that can move
    inputs           any strides; only the caches are written, and only in the new slots; the output shares no memory
                     with them or later outputs
    output           query's dtype and device. Caches without scales, key and value have the dtype, too
    bad input        raises on shapes that do not fit, heads that do not divide, other dtypes, key without value,
                     key_scales without value_scales, a length below 0, more slots than the capacity (s, or m·z), a page
                     outside the pool among those that are read or written, and a window that is no pair of None or
                     numbers from 0

Not tested:

    shared slots     two items that append to one slot
    order            whether a refused call leaves the caches as they were
    value width      values of another width than the keys, as of MLA
    rotation         rotary embedding inside the kernel
    other indices    cache_batch_idx and cache_leftpad
"""

from __future__ import annotations

from attnsuite.cases import Call, declare

FEATURES = {
    "append": "new keys and values, appended in place",
    "int8": "int8 caches with a scale for each token and head",
    "paged": "caches of pages, found by a block_table",
    "several_queries": "more than one new token of an item",
    "ragged": "items of different lengths",
    "grouped": "fewer key/value heads than query heads",
    "window": "sliding windows",
    "scale": "another scale than 1/√e",
    "bidirectional": "is_causal=False",
    "nan_unwritten": "NaN or infinity in slots and pages that are not written yet",
    "no_tokens": "an item without tokens, no items, no new tokens",
}
PARAMETERS = {
    **dict.fromkeys(("key", "value"), ("append",)),
    "block_table": ("paged",),
    **dict.fromkeys(("key_scales", "value_scales"), ("int8",)),
    "window": ("window",),
    "scale": ("scale",),
    "is_causal": ("bidirectional",),
}


def _is_not_finite(call: Call) -> bool:
    cache = call.tensors.get("key_scales", call.tensors["key_cache"])
    return not cache.is_meta and not bool(cache.isfinite().all())


def _no_tokens(call: Call) -> bool:
    lengths = call.tensors["cache_seqlens"]
    return 0 in call.tensors["query"].shape or ("key" not in call.tensors and bool((lengths == 0).any()))


CONTRACT = declare(
    __name__,
    FEATURES,
    PARAMETERS,
    also={
        "several_queries": lambda call: call.tensors["query"].shape[1] > 1,
        "ragged": lambda call: len(call.tensors["cache_seqlens"].unique()) > 1,
        "grouped": lambda call: call.tensors["query"].shape[2] != call.tensors["key_cache"].shape[2],
        "nan_unwritten": _is_not_finite,
        "no_tokens": _no_tokens,
    },
    lists={"variants": "mutants.variants", "workloads": "workloads.workloads", "array": "cases.array"},
)
