"""PyTorch's `scaled_dot_product_attention`: the contract's own signature, which needs no adapter."""

from attnsuite.registry.signatures.layout import as_it_is
from attnsuite.registry.signatures.signature import Signature

OPTIONS = ["attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "window", "softcap", "sinks", "return_lse"]
"""The options of the contract, under its own names."""

SIGNATURE = Signature(
    function="torch.nn.functional.scaled_dot_product_attention",
    axes="… h l e",
    options={name: (name,) for name in OPTIONS},
    layout=as_it_is,
)
