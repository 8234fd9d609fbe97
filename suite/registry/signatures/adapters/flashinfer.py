"""flashinfer's single prefill: one item, (positions, heads, width), causal aligned at the last key, no backward.

It is called once for each item. `custom_mask` is boolean, (l, s), True where a query may attend, the same for all
heads, and `causal` is then ignored. Windows have a left side alone; a right side of 0 is `causal`. The log-sum-exp,
(l, h), is in base 2.
"""

from typing import Any

from attnsuite.registry.signatures.layout import NO_BACKWARD, item_by_item, with_all_axes
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name, marks, softcap

FLOAT_MASK = "custom_mask is boolean"


def keywords(call: SignatureCall) -> dict[str, Any]:
    """Options by flashinfer's names, of one item."""
    options = call.renamed(scale="sm_scale", is_causal="causal", return_lse="return_lse")
    options |= softcap(call.options, "logits_soft_cap")
    left, right = call.window(-1)
    if "window" in call.options:
        options["window_left"] = left
        if right == 0:
            options["causal"] = True
        elif right != -1 and not call.is_causal:
            raise NotImplementedError("flashinfer's windows have no right side but that of causal")
    if call.mask is not None:
        options["custom_mask"] = _of_all_heads(call)
        if options.get("causal") or options.get("window_left", -1) != -1:
            raise NotImplementedError("with a custom_mask nothing else hides keys in flashinfer")
    return options


def _of_all_heads(call: SignatureCall) -> Any:
    """The mask of one item, (l, s)."""
    mask = call.mask
    assert mask is not None
    if str(mask.dtype) != "torch.bool":
        raise NotImplementedError(FLOAT_MASK)
    if mask.dim() > 2 and mask.shape[0] != 1:
        raise NotImplementedError("custom_mask is the same for all heads")
    return with_all_axes(mask.reshape(mask.shape[-2:]), (call.queries, call.keys), "custom_mask").contiguous()


SIGNATURE = Signature(
    function="flashinfer.single_prefill_with_kv_cache",
    axes="s h d",
    options=by_name(
        attn_mask="custom_mask",
        is_causal="causal",
        scale="sm_scale",
        enable_gqa="",
        window="window_left",
        softcap="logits_soft_cap",
        return_lse="return_lse",
    ),
    others=(
        *("scale_q", "scale_k", "scale_v", "o_dtype", "packed_custom_mask", "kv_layout", "pos_encoding_mode"),
        *("use_fp16_qk_reduction", "rope_scale", "rope_theta", "backend"),
    ),
    identifying=marks("kv_layout", "custom_mask", "window_left", "packed_custom_mask", "pos_encoding_mode"),
    keywords=keywords,
    layout=item_by_item,
    heads_inside=True,
    inputs=("q", "k", "v"),
    lacks={"gradient": NO_BACKWARD, "mask_gradient": NO_BACKWARD, "float_mask": FLOAT_MASK},
    conventions={"causal": "lower_right", "window": "lower_right", "lse_base": "2"},
    says="a call for each item, causal and window_left aligned at the last key, no backward pass",
)
