"""JAX's `jax.nn.dot_product_attention`: heads inside, `bias` beside `mask`, arrays of JAX.

    dot_product_attention(query, key, value, bias=None, mask=None, *, scale=None, is_causal=False,
                          query_seq_lengths=None, key_value_seq_lengths=None, local_window_size=None, …)

`mask` is True where a query may attend, `bias` is added; both broadcast to (b, h, l, s). Causal and windows are aligned
at the first key, and no word stands for an unbounded side of a window, so that a width of all positions does. A query
that may attend to nothing answers the mean of the values, and NaN where a bias of −inf leaves it nothing: that is what
JAX does, and who does otherwise declares it (`empty_row`).
"""

from __future__ import annotations

from typing import Any

from attnsuite.registry.signatures.jax_arrays import JAX
from attnsuite.registry.signatures.layout import four_axes, with_heads_inside
from attnsuite.registry.signatures.signature import Question, Signature


def keywords(asked: Question) -> dict[str, Any]:
    """Options by JAX's names; a mask is its `mask` where it is boolean, else its `bias`."""
    found = asked.renamed(scale="scale", is_causal="is_causal")
    if asked.mask is not None:
        found["mask" if str(asked.mask.dtype) == "torch.bool" else "bias"] = four_axes(asked.mask)
    if "window" in asked.options:
        window = asked.window(asked.queries + asked.keys)
        found["local_window_size"] = window if asked.options["window"] is not None else None
    return found


TEMPLATE = """\
def attention(
    query: Array,  # b t n h
    key: Array,  # b s k h
    value: Array,  # b s k h
    bias: Array | None = None,  # broadcastable to b n t s
    mask: Array | None = None,  # True: may attend
    *,
    scale: float | None = None,
    is_causal: bool = False,
    local_window_size: tuple[int, int] | None = None,
) -> Array:  # b t n h
    refuse(key.shape[1] != value.shape[1], "key and value differ in length")
    refuse(query.shape[-1] != key.shape[-1], "query and key differ in width")
    refuse(query.shape[0] != key.shape[0], "query and key differ in items")
    refuse(key.shape[2] == 0 or query.shape[2] % max(key.shape[2], 1) != 0, "the heads of key do not divide query's")
    refuse(bias is not None and bias.dtype != query.dtype, "bias has another dtype than query")
    wide = jnp.promote_types(query.dtype, jnp.float32)  # half types are computed in float32
    times = query.shape[2] // key.shape[2]
    q, k, v = (jnp.swapaxes(array, 1, 2).astype(wide) for array in (query, key, value))
    k, v = k.repeat(times, 1), v.repeat(times, 1)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = jnp.matmul(q, jnp.swapaxes(k, -1, -2), precision="highest") * factor
    refuse(any(each is not None and not fits(each, scores) for each in (bias, mask)), "bias or mask do not broadcast")
    scores = scores if bias is None else scores + bias.astype(wide)
    i, j = jnp.arange(query.shape[1])[:, None], jnp.arange(key.shape[1])
    seen = jnp.ones(scores.shape[-2:], bool)
    if is_causal:
        seen &= j <= i
    if local_window_size is not None:
        left, right = local_window_size
        seen &= (j >= i - left) & (j <= i + right)
    seen = seen if mask is None else seen & mask
    scores = jnp.where(seen, scores, jnp.finfo(wide).min)  # a query that sees nothing gets the mean, as in JAX
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.swapaxes(jnp.matmul(weights, v, precision="highest"), 1, 2).astype(query.dtype)
"""

SIGNATURE = Signature(
    name="jax",
    function="jax.nn.dot_product_attention",
    axes="b t n h",
    options={
        "attn_mask": ("mask", "bias"),
        "is_causal": ("is_causal",),
        "scale": ("scale",),
        "enable_gqa": (),
        "window": ("local_window_size",),
    },
    others=("query_seq_lengths", "key_value_seq_lengths", "implementation", "return_residual"),
    telling=(
        frozenset({"local_window_size"}),
        frozenset({"query_seq_lengths"}),
        frozenset({"key_value_seq_lengths"}),
        frozenset({"bias", "mask"}),
    ),
    keywords=keywords,
    layout=with_heads_inside,
    heads_inside=True,
    arrays=JAX,
    needs={"bool_mask": "mask", "float_mask": "bias"},
    conventions={"empty_row": {"bool_mask": "mean", "float_mask": "nan", "window": "mean"}},
    words={"attn_mask": "mask or bias", "window": "local_window_size"},
    says="arrays of JAX, mask True where a query may attend, a mean where it may attend to nothing",
    template=TEMPLATE,
)
