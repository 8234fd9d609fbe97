"""The attention of Triton's tutorial 06: four axes with heads before positions, `causal` and `sm_scale` in every call.

The tutorial's queries and keys are equally many; causal is aligned at the first key.
"""

from typing import Any

from attnsuite.registry.signatures.layout import with_heads_first
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Both options, which have no default."""
    return {"causal": call.is_causal, "sm_scale": call.scale}


SIGNATURE = Signature(
    function="the attention of Triton's tutorial 06-fused-attention",
    axes="b h l d",
    options=by_name(is_causal="causal", scale="sm_scale"),
    others=("warp_specialize",),
    identifying=marks("warp_specialize"),
    required=frozenset({"causal", "sm_scale"}),
    keywords=keywords,
    layout=with_heads_first,
    inputs=("q", "k", "v"),
    says="causal and sm_scale in every call, causal aligned at the first key",
)
