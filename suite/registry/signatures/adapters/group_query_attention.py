"""onnxruntime's operator `GroupQueryAttention`: new keys and values are appended to copies of the caches, b g s d.

query, key, value and output are b l (h·d); seqlens_k is the total of each item less one. The operator always appends
and is always causal. Calls without new tokens give it the last cached ones as new.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attnsuite.registry.signatures.signature import Parameters, Signature, by_name, marks, sides

CACHES = ("key_cache", "value_cache")


def call(function: Callable[..., Any], given: Mapping[str, Any], own: Parameters) -> Any:
    """The output, and the valid slots of the returned caches written to the caller's."""
    query, caches, lengths = given["query"], [given[name] for name in CACHES], given["cache_seqlens"]
    new = [given[name] for name in ("key", "value") if name in given] or _last(query, caches, lengths)
    totals = lengths + query.shape[1] if "key" in given else lengths
    scale, window = given.get("scale"), given.get("window")
    if scale == 0:
        raise NotImplementedError("GroupQueryAttention takes a scale of 0 for its default")
    options = {} if scale is None else {"scale": scale}
    if window is not None:
        left, _ = sides(window, None)
        options["local_window_size"] = -1 if left is None else left + 1  # it counts the query's own key
    output, *present = function(
        *(tensor.flatten(2) for tensor in (query, *new)),
        *(cache.transpose(1, 2) for cache in caches),
        totals - 1,
        int(totals.max()) if len(totals) else 0,
        num_heads=query.shape[2],
        kv_num_heads=caches[0].shape[2],
        **options,
    )
    for cache, returned in zip(caches, present, strict=True):
        for slots, written, total in zip(cache, returned.transpose(1, 2), totals.tolist(), strict=False):
            slots[: max(total, 0)] = written[: max(total, 0)]
    return output.reshape(query.shape) if output.numel() == query.numel() else output


def _last(query: Any, caches: list[Any], lengths: Any) -> list[Any]:
    """The last cached keys and values, b l g d, as if they were new."""
    import torch

    count, (items, capacity) = query.shape[1], caches[0].shape[:2]
    if len(lengths) != items or any(not count <= length <= capacity for length in lengths.tolist()):
        raise NotImplementedError("without new tokens an item needs as many keys as queries")
    places = lengths.long()[:, None] - count + torch.arange(count)
    return [cache[torch.arange(items)[:, None], places] for cache in caches]


SIGNATURE = Signature(
    function="onnxruntime's operator GroupQueryAttention",
    contract="kv_cache_attention",
    axes="b l (h d)",
    options=by_name(key="key", value="value", window="local_window_size", scale="scale"),
    others=(
        *("do_rotary", "rotary_interleaved", "softcap", "smooth_softmax", "cos_cache", "sin_cache", "position_ids"),
        *("attention_bias", "head_sink", "k_scale", "v_scale"),
    ),
    identifying=marks("seqlens_k"),
    required=frozenset({"past_key", "past_value", "seqlens_k"}),
    needs={"num_heads": "num_heads", "kv_num_heads": "kv_num_heads"},
    call=call,
    inputs=("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"),
    lacks={"no_tokens": "GroupQueryAttention always appends: without tokens there is nothing to attend to"},
    phrases={"key_cache": "past_key", "value_cache": "past_value"},
    says="seqlens_k is the total less one, local_window_size counts the own key, caches are returned",
)
