"""PyTorch's `torch.nn.attention.varlen.varlen_attn`: packed items; causal is a window without a right side."""

from collections.abc import Callable, Mapping
from typing import Any

from attnsuite.registry.signatures.layout import first, packed
from attnsuite.registry.signatures.signature import Parameters, Signature, by_name, renamed, sides


def call(function: Callable[..., Any], given: Mapping[str, Any], own: Parameters) -> Any:
    """Causal as a right side of 0; grouped heads need `enable_gqa`."""
    left, right = sides(given.get("window"), -1)
    options = renamed(given, scale="scale")
    if given.get("is_causal") or given.get("window") is not None:
        options["window_size"] = (left, 0 if given.get("is_causal") else right)
    if given["query"].shape[-2] != given["key"].shape[-2]:
        options["enable_gqa"] = True
    return first(function(*packed(given), **options))


SIGNATURE = Signature(
    function="torch.nn.attention.varlen.varlen_attn",
    contract="varlen_attention",
    axes="t h d",
    options=by_name(max_seqlen_q="", max_seqlen_k="", scale="scale", is_causal="window_size", window="window_size"),
    others=("return_aux", "seqused_k", "block_table", "num_splits"),
    required=frozenset({"cu_seq_q", "cu_seq_k"}),
    needs={"gqa": "enable_gqa"},
    call=call,
    inputs=("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"),
    phrases={"is_causal": "window_size=(-1, 0)", "cu_seqlens_q": "cu_seq_q", "cu_seqlens_k": "cu_seq_k"},
    says="window_size aligned at the last key of each item, (-1, 0) is causal",
)
