"""Hugging Face's attention interface: a module, four axes with heads first, and an output with heads inside.

Queries are (b, h, l, d), the output (b, l, h, d). `attention_mask` is added, (b, 1 or h, l, s): boolean masks and
causal are part of it as the most negative number of the dtype: a query that may attend to nothing gets the mean. Of the
module, functions read `training`, `is_causal` and `num_key_value_groups`.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from attnsuite.registry.signatures.layout import first, four_axes, of_rank, with_all_axes
from attnsuite.registry.signatures.signature import Signature, SignatureCall, by_name


def keywords(call: SignatureCall) -> dict[str, Any]:
    """The mask in every call, None without one, with its scale and dropout."""
    return {"attention_mask": _added(call), "scaling": call.scale, "dropout": call.options.get("dropout_p", 0.0)}


def _added(call: SignatureCall) -> Any:
    """The mask that is added to the scores, with causal in it; None where nothing is hidden."""
    import torch

    mask, query = call.mask, four_axes(call.query)
    if mask is None and not call.is_causal:
        return None
    added = torch.zeros(1, 1, 1, 1, dtype=query.dtype, device=query.device)
    lowest = torch.finfo(query.dtype).min
    if mask is not None and mask.dtype == torch.bool:
        differentiated = torch.is_grad_enabled() and (query.requires_grad or call.key.requires_grad)
        if differentiated and not mask.any(-1).all():
            raise NotImplementedError("a number added to all scores of a query leaves gradients that are not zero")
        added = added.masked_fill(~four_axes(mask), lowest)
    elif mask is not None:
        added = four_axes(mask)
    if call.is_causal:
        later = torch.ones(call.queries, call.keys, dtype=torch.bool, device=query.device).triu(1)
        added = added.masked_fill(later, lowest)
    return with_all_axes(added, (len(query), -1, call.queries, call.keys), "attention_mask")


def with_module(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """A module, then b h l d; the output has b l h d."""
    import torch

    options = theirs.keywords(call)
    module = SimpleNamespace(
        training=bool(options["dropout"]), is_causal=call.is_causal, num_key_value_groups=call.groups, layer_idx=0
    )
    output = first(function(module, *map(four_axes, (call.query, call.key, call.value)), **options))
    if not isinstance(output, torch.Tensor) or output.dim() != 4:
        return output
    return of_rank(output.transpose(1, 2), call.query.dim())


SIGNATURE = Signature(
    function="an attention of transformers' AttentionInterface",
    axes="b h l d",
    before=("module",),
    options=by_name(
        attn_mask="attention_mask", dropout_p="dropout", is_causal="attention_mask", scale="scaling", enable_gqa=""
    ),
    others=("sliding_window", "softcap", "s_aux", "position_ids", "output_attentions"),
    keywords=keywords,
    layout=with_module,
    conventions={"empty_row": {"bool_mask": "mean", "float_mask": "nan"}},
    phrases={"is_causal": "causal in attention_mask"},
    says="an output with axes (b, l, h, d), masks added, causal part of the mask",
)
