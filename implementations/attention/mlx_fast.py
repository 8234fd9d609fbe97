"""MLX's `mlx.core.fast.scaled_dot_product_attention`, on the CPU or with Metal; arrays are copied both ways."""

import mlx.core as mx

from attnsuite import implementation


@implementation(
    signature="mlx",
    requires=["mlx"],
    lacks={
        "cuda": "arrays are copied through the CPU",
        "float64": "MLX makes float32 of numpy's float64",
    },
)
def attention(
    q: mx.array,  # b h l d
    k: mx.array,  # b g s d
    v: mx.array,  # b g s v
    *,
    scale: float,
    mask: mx.array | str | None = None,
    sinks: mx.array | None = None,  # h
) -> mx.array:  # b h l v
    """Causal masks are aligned at the last key; a query that may attend to nothing gives the mean of the values."""
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)
