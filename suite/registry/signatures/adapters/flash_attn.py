"""FlashAttention's `flash_attn_func`: heads inside, `softmax_scale`, and causal aligned at the last key.

    flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False)

Since 2.1 `causal` and `window_size` are aligned at the lower right, and a query that may attend to nothing answers
zeros; −1 is a side of a window without a bound (its README and docstring).
"""

from __future__ import annotations

from typing import Any

from attnsuite.registry.signatures.layout import with_heads_inside
from attnsuite.registry.signatures.signature import Question, Signature


def keywords(asked: Question) -> dict[str, Any]:
    """Options by FlashAttention's names; a side of a window that is unbounded is −1."""
    found = asked.renamed(dropout_p="dropout_p", scale="softmax_scale", is_causal="causal")
    return {**found, "window_size": asked.window(-1)} if "window" in asked.options else found


TEMPLATE = """\
def attention(
    q: Tensor,  # b s h d
    k: Tensor,  # b s g d
    v: Tensor,  # b s g d
    softmax_scale: float | None = None,
    causal: bool = False,  # aligned at the last key
    window_size: tuple[int, int] = (-1, -1),  # -1 is unbounded; aligned at the last key, too
) -> Tensor:  # b s h d
    query, key, value = (tensor.transpose(1, 2) for tensor in (q, k, v))
    refuse(key.shape[-2] != value.shape[-2], "k and v differ in length")
    refuse(query.shape[-1] != key.shape[-1], "q and k differ in width")
    refuse(query.shape[0] != key.shape[0], "q and k differ in items")
    refuse(key.shape[1] == 0 or query.shape[1] % max(key.shape[1], 1) != 0, "the heads of k do not divide those of q")
    wide = torch.promote_types(q.dtype, torch.float32)  # half types are computed in float32
    times, offset = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    scores = (query.to(wide) @ key.to(wide).mT) * (q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale)
    left, right = window_size
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        hidden = hidden | torch.ones_like(hidden).triu(offset + 1)
    if left >= 0:
        hidden = hidden | torch.ones_like(hidden).tril(offset - left - 1)
    if right >= 0:
        hidden = hidden | torch.ones_like(hidden).triu(offset + right + 1)
    return (softmax(scores, hidden) @ value.to(wide)).to(q.dtype).transpose(1, 2)
"""

SIGNATURE = Signature(
    name="flash_attn",
    function="flash_attn.flash_attn_func",
    axes="b s h d",
    options={
        "dropout_p": ("dropout_p",),
        "scale": ("softmax_scale",),
        "is_causal": ("causal",),
        "window": ("window_size",),
        "enable_gqa": (),
    },
    others=("softcap", "alibi_slopes", "deterministic", "return_attn_probs", "num_splits"),
    telling=(frozenset({"softmax_scale"}), frozenset({"window_size"}), frozenset({"alibi_slopes"})),
    keywords=keywords,
    layout=with_heads_inside,
    heads_inside=True,
    inputs=("q", "k", "v"),
    conventions={"causal": "lower_right", "window": "lower_right"},
    words={"scale": "softmax_scale", "is_causal": "causal", "window": "window_size"},
    says="causal and window_size aligned at the last key, -1 unbounded, zeros where a query sees nothing",
    template=TEMPLATE,
)
