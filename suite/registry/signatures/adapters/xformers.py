"""xformers' `memory_efficient_attention`: heads inside, and one `attn_bias` for masks, causal and windows.

`attn_bias` is a tensor that is added to the scaled scores, of shape (b, h, l, s) and the query's dtype: boolean masks
become 0 and −inf, and axes along which a mask broadcasts are expanded, without a copy. Causal is the bias of
`LowerTriangularMask`, aligned at the first key: that object itself is given where `xformers.ops` has been imported, and
else the tensor that it stands for. Grouped heads, a fifth axis (b, s, g, h, d), are not tested.
"""

import math
import sys
from typing import Any

from attnsuite.registry.signatures.layout import four_axes, with_all_axes, with_heads_inside
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Options by xformers' names; everything that hides keys is one bias."""
    options = call.renamed(dropout_p="p", scale="scale")
    own = getattr(sys.modules.get("xformers.ops"), "LowerTriangularMask", None)  # where xformers has been imported
    if own is not None and call.is_causal and not {"attn_mask", "window"} & set(call.options):
        return {**options, "attn_bias": own()}
    bias = _bias(call)
    return options if bias is None else {**options, "attn_bias": bias}


def _bias(call: SignatureCall) -> Any:
    """Everything that hides keys or is added to scores, (b, h, l, s); None without any."""
    left, right = call.window(None)
    right = 0 if call.is_causal else right
    mask = call.mask
    if mask is None and left is None and right is None:
        return None
    bias = _expanded(mask, call)
    if left is None and right is None:
        return bias
    hidden = bias.new_zeros((call.queries, call.keys), dtype=bool)
    hidden = hidden if left is None else hidden | hidden.new_ones(hidden.shape).tril(-left - 1)
    hidden = hidden if right is None else hidden | hidden.new_ones(hidden.shape).triu(right + 1)
    return bias.masked_fill(hidden, -math.inf)


def _expanded(mask: Any, call: SignatureCall) -> Any:
    """A mask as a bias with all its axes. NotImplementedError for a mask that does not broadcast."""
    query = four_axes(call.query)
    if mask is None:
        mask = query.new_zeros((1, 1, 1, 1))
    elif str(mask.dtype) == "torch.bool":
        mask = query.new_zeros(mask.shape).masked_fill(~mask, -math.inf)
    return with_all_axes(four_axes(mask), (*query.shape[:2], call.queries, call.keys), "attn_bias")


SIGNATURE = Signature(
    function="xformers.ops.memory_efficient_attention",
    axes="b s h d",
    options=by_name(attn_mask="attn_bias", dropout_p="p", is_causal="attn_bias", scale="scale", window="attn_bias"),
    others=("op", "output_dtype"),
    identifying=marks("attn_bias"),
    keywords=keywords,
    layout=with_heads_inside,
    heads_inside=True,
    phrases={"is_causal": "a causal attn_bias", "window": "a windowed attn_bias"},
    says="masks, causal and windows as one attn_bias (b, h, l, s)",
)
