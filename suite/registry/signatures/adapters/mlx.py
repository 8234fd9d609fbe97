"""MLX's `mlx.core.fast.scaled_dot_product_attention`: four axes, a scale that is always given, arrays of MLX.

`mask` is an array, boolean (True: may attend) or added, or the word "causal", which is aligned at the last key. A query
that may attend to nothing gives the mean of the values, and NaN where a mask of −inf leaves it nothing.
"""

from typing import Any

from attnsuite.registry.signatures.arrays import MLX, NO_GRADIENT_OF_MLX
from attnsuite.registry.signatures.layout import with_heads_first
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks


def keywords(call: SignatureCall) -> dict[str, Any]:
    """The scale, and one mask: MLX takes no second one."""
    options: dict[str, Any] = {"scale": call.scale}
    if call.mask is not None and call.is_causal:
        raise NotImplementedError('a mask together with causal: mask is an array or "causal"')
    if call.mask is not None:
        options["mask"] = call.mask
    elif call.is_causal:
        options["mask"] = "causal"
    return options | call.renamed(sinks="sinks")


SIGNATURE = Signature(
    function="mlx.core.fast.scaled_dot_product_attention",
    axes="b h s d",
    options=by_name(attn_mask="mask", is_causal="mask", scale="scale", enable_gqa="", sinks="sinks"),
    others=("stream",),
    identifying=marks("sinks"),
    keywords=keywords,
    layout=with_heads_first,
    arrays=MLX,
    inputs=("q", "k", "v"),
    lacks={"gradient": NO_GRADIENT_OF_MLX, "mask_gradient": NO_GRADIENT_OF_MLX},
    conventions={"causal": "lower_right", "empty_row": {"bool_mask": "mean", "causal": "mean", "float_mask": "nan"}},
    phrases={"is_causal": 'mask="causal"'},
    says='arrays of MLX, mask="causal" aligned at the last key, a mean where a query may attend to nothing',
)
