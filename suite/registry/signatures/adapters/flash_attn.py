"""FlashAttention's `flash_attn_func`: heads inside, `softmax_scale`, and causal aligned at the last key.

Since 2.1 `causal` and `window_size` are aligned at the lower right, and a query that may attend to nothing gives
zeros; −1 is a side of a window without a bound (its README and docstring). With `return_attn_probs` it returns
(output, log-sum-exp, weights): the log-sum-exp has the axes (b, h, l), is +∞ for an empty row since version 2 and −∞
in version 3, and has no gradient.
"""

from typing import Any

from attnsuite.registry.signatures.layout import with_heads_inside
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks, softcap


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Options by FlashAttention's names; a side of a window that is unbounded is −1."""
    if call.returns_lse and call.wants_gradient:
        raise NotImplementedError("the library returns the log-sum-exp without a gradient")
    options = call.renamed(dropout_p="dropout_p", scale="softmax_scale", is_causal="causal")
    options |= call.renamed(return_lse="return_attn_probs") | softcap(call.options, "softcap")
    return {**options, "window_size": call.window(-1)} if "window" in call.options else options


SIGNATURE = Signature(
    function="flash_attn.flash_attn_func",
    axes="b s h d",
    options=by_name(
        dropout_p="dropout_p",
        scale="softmax_scale",
        is_causal="causal",
        window="window_size",
        softcap="softcap",
        return_lse="return_attn_probs",
        enable_gqa="",
    ),
    others=("alibi_slopes", "deterministic", "num_splits"),
    identifying=marks("softmax_scale", "window_size", "alibi_slopes"),
    keywords=keywords,
    layout=with_heads_inside,
    heads_inside=True,
    inputs=("q", "k", "v"),
    conventions={"causal": "lower_right", "window": "lower_right", "lse_empty_row": "any"},
    says="causal and window_size aligned at the last key, -1 unbounded, zeros where a query sees nothing",
)
