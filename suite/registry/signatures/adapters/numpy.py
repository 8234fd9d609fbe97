"""Arrays of numpy under the contract's own names and axes: no gradient, no dropout, no bfloat16."""

from __future__ import annotations

from attnsuite.registry.signatures.layout import as_it_is
from attnsuite.registry.signatures.numpy_arrays import NUMPY, REASONS
from attnsuite.registry.signatures.signature import Signature

TEMPLATE = """\
def attention(
    query: Array,  # ... h l e
    key: Array,  # ... g s e
    value: Array,  # ... g s v
    *,
    attn_mask: Array | None = None,  # broadcastable to ... h l s
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
) -> Array:  # ... h l v
    refuse(key.shape[-2] != value.shape[-2], "key and value differ in length")
    refuse(query.shape[-1] != key.shape[-1], "query and key differ in width")
    refuse(query.shape[:-2] != key.shape[:-2] and not enable_gqa, "query and key differ in heads or items")
    refuse(attn_mask is not None and attn_mask.dtype not in (bool, query.dtype), "attn_mask has another dtype")
    refuse(window is not None and (len(window) != 2 or min(side or 0 for side in window) < 0), "window is no window")
    wide = numpy.promote_types(query.dtype, numpy.float32)  # float16 is computed in float32
    if enable_gqa and query.ndim > 2:
        refuse(key.shape[-3] == 0 or query.shape[-3] % max(key.shape[-3], 1) != 0, "heads do not divide")
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat(times, -3), value.repeat(times, -3)
    factor = wide.type(query.shape[-1] ** -0.5 if scale is None else scale)
    scores = query.astype(wide) @ key.astype(wide).swapaxes(-1, -2) * factor
    i, j = numpy.arange(query.shape[-2])[:, None], numpy.arange(key.shape[-2])
    seen = j <= i if is_causal else numpy.ones(scores.shape[-2:], bool)
    if window is not None:
        left, right = window
        seen = seen if left is None else seen & (j >= i - left)
        seen = seen if right is None else seen & (j <= i + right)
    if attn_mask is not None:
        refuse(numpy.broadcast_shapes(attn_mask.shape, scores.shape) != scores.shape, "attn_mask enlarges the scores")
        is_bool = attn_mask.dtype == bool
        scores = scores if is_bool else scores + attn_mask
        seen = seen & (attn_mask if is_bool else attn_mask != -numpy.inf)
    return (softmax(scores, seen) @ value.astype(wide)).astype(query.dtype)
"""

SIGNATURE = Signature(
    name="numpy",
    function="a function of numpy arrays, with the names of torch's scaled_dot_product_attention",
    axes="… h l e",
    options={name: (name,) for name in ("attn_mask", "is_causal", "scale", "enable_gqa", "window")},
    layout=as_it_is,
    arrays=NUMPY,
    lacks=dict(REASONS),
    says="arrays of numpy, no gradient, no bfloat16",
    template=TEMPLATE,
)
