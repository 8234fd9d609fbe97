"""The attention of Triton's tutorial 06: four axes with heads before positions, `causal` and `sm_scale` in every call.

    attention(q, k, v, causal, sm_scale, warp_specialize=True)

The tutorial's queries and keys are equally many; causal is aligned at the first key.
"""

from __future__ import annotations

from typing import Any

from attnsuite.registry.signatures.layout import with_heads_first
from attnsuite.registry.signatures.signature import Question, Signature


def keywords(asked: Question) -> dict[str, Any]:
    """Both options, which have no default."""
    return {"causal": asked.is_causal, "sm_scale": asked.scale}


TEMPLATE = """\
def attention(
    q: Tensor,  # b h l d
    k: Tensor,  # b h s d
    v: Tensor,  # b h s d
    causal: bool,  # aligned at the first key
    sm_scale: float,
) -> Tensor:  # b h l d
    refuse(k.shape[-2] != v.shape[-2], "k and v differ in length")
    refuse(q.shape[-1] != k.shape[-1], "q and k differ in width")
    refuse(q.shape[:-2] != k.shape[:-2] or k.shape[:-2] != v.shape[:-2], "q, k and v differ in items or heads")
    wide = torch.promote_types(q.dtype, torch.float32)  # half types are computed in float32
    scores = (q.to(wide) @ k.to(wide).mT) * sm_scale
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool, device=q.device)
    if causal:
        hidden = torch.ones_like(hidden).triu(1)
    return (softmax(scores, hidden) @ v.to(wide)).to(q.dtype)
"""

SIGNATURE = Signature(
    name="triton",
    function="the attention of Triton's tutorial 06-fused-attention",
    axes="b h l d",
    options={"is_causal": ("causal",), "scale": ("sm_scale",)},
    others=("warp_specialize",),
    telling=(frozenset({"warp_specialize"}),),
    required=frozenset({"causal", "sm_scale"}),
    keywords=keywords,
    layout=with_heads_first,
    inputs=("q", "k", "v"),
    words={"scale": "sm_scale", "is_causal": "causal"},
    says="causal and sm_scale in every call, causal aligned at the first key",
    template=TEMPLATE,
)
