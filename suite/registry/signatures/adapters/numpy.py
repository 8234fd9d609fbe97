"""Arrays of numpy under the contract's own names and axes: no gradient, no dropout, no bfloat16."""

from attnsuite.registry.signatures.arrays import NO_BFLOAT16, NO_GRADIENT, NUMPY
from attnsuite.registry.signatures.layout import as_it_is
from attnsuite.registry.signatures.signature import Signature

SIGNATURE = Signature(
    function="a function of numpy arrays, with the names of torch's scaled_dot_product_attention",
    axes="… h l e",
    options={name: (name,) for name in ("attn_mask", "is_causal", "scale", "enable_gqa", "window")},
    layout=as_it_is,
    arrays=NUMPY,
    lacks={"gradient": NO_GRADIENT, "mask_gradient": NO_GRADIENT, "bfloat16": NO_BFLOAT16},
    says="arrays of numpy, no gradient, no bfloat16",
)
