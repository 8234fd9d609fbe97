"""FlashAttention's `flash_attn_varlen_func`: packed items, whose largest lengths are always given."""

from collections.abc import Callable, Mapping
from typing import Any

from attnsuite.registry.signatures.layout import first, packed
from attnsuite.registry.signatures.signature import Parameters, Signature, by_name, renamed, sides, softcap


def call(function: Callable[..., Any], given: Mapping[str, Any], own: Parameters) -> Any:
    """The tensors and the largest lengths by position, as FlashAttention's own callers do; −1 is an unbounded side."""
    options = renamed(given, scale="softmax_scale", is_causal="causal")
    options |= {"window_size": sides(given["window"], -1)} if "window" in given else {}
    return first(function(*packed(given), **options, **softcap(given, "softcap")))


SIGNATURE = Signature(
    function="flash_attn.flash_attn_varlen_func",
    contract="varlen_attention",
    axes="t h d",
    options=by_name(
        max_seqlen_q="",
        max_seqlen_k="",
        scale="softmax_scale",
        is_causal="causal",
        window="window_size",
        softcap="softcap",
    ),
    others=(
        *("dropout_p", "alibi_slopes", "deterministic", "return_attn_probs", "block_table", "num_splits"),
        *("max_seqlen_q", "max_seqlen_k"),
    ),
    required=frozenset({"cu_seqlens_q", "cu_seqlens_k"}),
    call=call,
    inputs=("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"),
    says="causal and window_size aligned at the last key of each item, -1 unbounded",
)
