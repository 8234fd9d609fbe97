"""JAX's `jax.nn.dot_product_attention`: heads inside, `bias` and `mask`, arrays of JAX.

`mask` is True where a query may attend, `bias` is added; both broadcast to (b, h, l, s). Causal and windows are aligned
at the first key. JAX has no value for an unbounded side of a window; the adapter gives a width of all positions. For a
query that may attend to nothing JAX returns the mean of the values, and NaN where a bias of −inf hides all keys. A
function that differs declares it (`empty_row`).
"""

from typing import Any

from attnsuite.registry.signatures.arrays import JAX
from attnsuite.registry.signatures.layout import four_axes, with_heads_inside
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Options by JAX's names; a mask is its `mask` where it is boolean, else its `bias`."""
    options = call.renamed(scale="scale", is_causal="is_causal")
    if call.mask is not None:
        options["mask" if str(call.mask.dtype) == "torch.bool" else "bias"] = four_axes(call.mask)
    if "window" in call.options:
        window = call.window(call.queries + call.keys)
        options["local_window_size"] = window if call.options["window"] is not None else None
    return options


SIGNATURE = Signature(
    function="jax.nn.dot_product_attention",
    axes="b t n h",
    options=by_name(
        attn_mask="mask bias", is_causal="is_causal", scale="scale", enable_gqa="", window="local_window_size"
    ),
    others=("query_seq_lengths", "key_value_seq_lengths", "implementation", "return_residual"),
    identifying=marks("local_window_size", "query_seq_lengths", "key_value_seq_lengths", "bias mask"),
    keywords=keywords,
    layout=with_heads_inside,
    heads_inside=True,
    arrays=JAX,
    needs={"bool_mask": "mask", "float_mask": "bias"},
    conventions={"empty_row": {"bool_mask": "mean", "float_mask": "nan", "window": "mean"}},
    phrases={"attn_mask": "mask or bias"},
    says="arrays of JAX, mask True where a query may attend, a mean where it may attend to nothing",
)
