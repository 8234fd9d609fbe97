"""FlashAttention's `flash_attn_with_kvcache`: new keys and values are stored in the caches, in place."""

from collections.abc import Callable, Mapping
from typing import Any

from attnsuite.registry.signatures.layout import first
from attnsuite.registry.signatures.signature import Parameters, Signature, by_name, marks, renamed, sides


def call(function: Callable[..., Any], given: Mapping[str, Any], own: Parameters) -> Any:
    """The lengths and causal in every call: causal is the contract's default and not FlashAttention's."""
    table = "page_table" if own is not None and "page_table" in own else "block_table"
    options = renamed(given, key="k", value="v", block_table=table, scale="softmax_scale")
    options |= {"window_size": sides(given["window"], -1)} if "window" in given else {}
    caches = given["query"], given["key_cache"], given["value_cache"]
    return first(
        function(*caches, cache_seqlens=given["cache_seqlens"], causal=given.get("is_causal", True), **options)
    )


SIGNATURE = Signature(
    function="flash_attn.flash_attn_with_kvcache",
    contract="kv_cache_attention",
    axes="b s h d",
    options=by_name(
        key="k",
        value="v",
        block_table="block_table page_table",
        is_causal="causal",
        window="window_size",
        scale="softmax_scale",
    ),
    others=(
        *("rotary_cos", "rotary_sin", "cache_batch_idx", "cache_leftpad", "softcap", "rotary_interleaved"),
        *("alibi_slopes", "num_splits", "return_softmax_lse"),
    ),
    identifying=marks("cache_seqlens"),
    required=frozenset({"k_cache", "v_cache"}),
    needs={"cache_seqlens": "cache_seqlens"},
    call=call,
    inputs=("q", "k_cache", "v_cache"),
    says="causal and window_size aligned at the last slot, -1 unbounded, caches written in place",
)
