"""MLX's `mlx.core.fast.scaled_dot_product_attention`: four axes, a scale that is always given, arrays of MLX.

    scaled_dot_product_attention(q, k, v, *, scale, mask=None, sinks=None)

`mask` is an array, boolean (True: may attend) or added, or the word "causal", which is aligned at the last key. A query
that may attend to nothing answers the mean of the values, and NaN where a mask of −inf leaves it nothing.
"""

from __future__ import annotations

from typing import Any

from attnsuite.registry.signatures.layout import with_heads_first
from attnsuite.registry.signatures.mlx_arrays import MLX, NO_GRADIENT
from attnsuite.registry.signatures.signature import Question, Signature


def keywords(asked: Question) -> dict[str, Any]:
    """The scale, and the one mask that there is room for."""
    found: dict[str, Any] = {"scale": asked.scale}
    if asked.mask is not None:
        found["mask"] = asked.mask
    elif asked.is_causal:
        found["mask"] = "causal"
    return found


TEMPLATE = """\
def attention(
    q: mx.array,  # b h l d
    k: mx.array,  # b g s d
    v: mx.array,  # b g s d
    *,
    scale: float,
    mask: mx.array | str | None = None,  # True: may attend; or added; or "causal", aligned at the last key
) -> mx.array:  # b h l d
    refuse(k.shape[-2] != v.shape[-2], "k and v differ in length")
    refuse(q.shape[-1] != k.shape[-1], "q and k differ in width")
    refuse(q.shape[0] != k.shape[0], "q and k differ in items")
    refuse(k.shape[1] == 0 or q.shape[1] % max(k.shape[1], 1) != 0, "the heads of k do not divide those of q")
    times, offset = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    query, key, value = (array.astype(mx.float32) for array in (q, k, v))  # half types are computed in float32
    key, value = mx.repeat(key, times, 1), mx.repeat(value, times, 1)
    scores = (query @ key.swapaxes(-1, -2)) * scale
    if isinstance(mask, str):
        mask = mx.arange(k.shape[2]) <= mx.arange(q.shape[2])[:, None] + offset
    if mask is not None:
        refuse(mx.broadcast_shapes(mask.shape, scores.shape) != scores.shape, "mask enlarges the scores")
        is_bool = mask.dtype == mx.bool_
        scores = mx.where(mask, scores, mx.finfo(mx.float32).min) if is_bool else scores + mask
    return (mx.softmax(scores, axis=-1) @ value).astype(q.dtype)
"""

SIGNATURE = Signature(
    name="mlx",
    function="mlx.core.fast.scaled_dot_product_attention",
    axes="b h s d",
    options={"attn_mask": ("mask",), "is_causal": ("mask",), "scale": ("scale",), "enable_gqa": ()},
    others=("sinks", "stream"),
    telling=(frozenset({"sinks"}),),
    keywords=keywords,
    layout=with_heads_first,
    arrays=MLX,
    inputs=("q", "k", "v"),
    lacks={"gradient": NO_GRADIENT, "mask_gradient": NO_GRADIENT},
    conventions={
        "causal": "lower_right",
        "empty_row": {"bool_mask": "mean", "causal": "mean", "float_mask": "nan"},
    },
    words={"attn_mask": "mask", "is_causal": 'mask="causal"'},
    says='arrays of MLX, mask="causal" aligned at the last key, a mean where a query may attend to nothing',
    template=TEMPLATE,
)
