"""Mutants of masks: how they are read, applied to the scores, and differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnsuite.cases.mutants import Mutation, at_sizes, mutants, with_arguments
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved, ignoring
from attnsuite.contracts.attention.features.mask import bool_mask, is_bool, mask_gradient
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.lazily import torch
from attnsuite.contracts.attention.mutants.inputs import as_contiguous, walked

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.cases import Call, Reply


Change = Callable[[Any, AttentionCall], Any]


def _changed(change: Change) -> Callable[[AttentionCall], Any]:
    """The mask after a change, where there is a mask."""
    return lambda call: None if call["attn_mask"] is None else change(call["attn_mask"], call)


def _only_first(axis: int) -> Change:
    """The mask at the first place of an axis that it is broadcast over, nothing masked elsewhere."""

    def change(mask: Tensor, call: AttentionCall) -> Tensor:
        shape = call.scores_shape
        if len(shape) < -axis or (mask.dim() >= -axis and mask.shape[axis] != 1) or shape[axis] < 2:
            return mask
        here = torch.arange(shape[axis], device=mask.device) == 0
        here = here.reshape(-1, *[1] * (-axis - 1))
        return mask | ~here if is_bool(mask) else torch.where(here, mask, torch.zeros_like(mask))

    return change


def _is_bool(call: AttentionCall) -> bool:
    return call["attn_mask"] is not None and is_bool(call["attn_mask"])


def _empty(mask: Tensor) -> Tensor:
    return ~mask.any(-1, keepdim=True)


@Dense.instead("bool_mask",
    "masked scores become −1e9 rounded to float16, which is −inf, and an empty row NaN",
    source="darts issue 3087", dtypes=("float16",))  # fmt: skip
def fill_overflows_in_half(scores: Tensor, mask: Tensor, call: AttentionCall) -> Tensor:
    scores = bool_mask(scores, mask, call)
    return scores.masked_fill(_empty(mask), math.nan) if call.query.dtype == torch.float16 else scores


@Whole.instead("attention", "a boolean mask is applied after the softmax, without renormalising",
    source="documents: doc-003 3.5.1")  # fmt: skip
def masks_after_softmax(call: AttentionCall) -> Any:
    if not _is_bool(call):
        return correct(call)
    return Dense(
        bool_mask=lambda scores, mask, call: scores,
        softmax=lambda scores, call: Dense.softmax(scores, call) * call["attn_mask"],
    )(call)


@Backward.instead("deliver", "the gradient of the mask alone raises an error", source="pytorch issue 148476")
def raises_for_gradient_of_mask_alone(gradients: Gradients, saved: Saved) -> Gradients:
    if saved.wanted == {"attn_mask"}:
        raise RuntimeError("attn_bias requires grad but query, key and value do not")
    return gradients


BACKWARD = mutants(
    Backward,
    mask_gradient={
        "averages_mask_gradients": Mutation("the mask's gradient is averaged where it is broadcast, not summed",
            lambda d_scores, mask: mask_gradient(d_scores, mask) * (mask.numel() / max(d_scores.numel(), 1))),
        "gives_zero_gradient_to_mask": Mutation("the mask's gradient is 0",
            lambda d_scores, mask: torch.zeros_like(mask)),
    },
    weights={
        "backward_ignores_bool_mask": Mutation("the backward ignores a boolean mask",
            ignoring("attn_mask", None, where=_is_bool)),
        "backward_ignores_float_mask": Mutation("the backward ignores a float mask", ignoring("attn_mask", None,
            where=lambda call: call["attn_mask"] is not None and not is_bool(call["attn_mask"]))),
    },
)  # fmt: skip


def ones_and_zeros(least: float) -> Callable[..., Tensor]:
    """A float mask m adds (m − 1) · `least`."""
    return lambda scores, mask, call: scores + (mask.to(scores.dtype) - 1) * least


FILLS = (1e4, 1e9, 1e5, 1e6, 1e7, 1e8, 1e10, 1e12, 1e15, 1e20, 1e30, 65504.0, 32768.0, 1e3)
"""The sizes of the negative numbers that diagnosis tries in place of −∞, the commonest first."""


def fills(call: Call, reply: Reply) -> list[str]:
    """The texts of FILLS for a call that hides keys, `1e9`; none for another."""
    mask = call.tensors.get("attn_mask")
    hides = (mask is not None and is_bool(mask)) or bool({"is_causal", "window"} & call.options.keys())
    return [f"{number:g}".replace("e+0", "e").replace("e+", "e") for number in FILLS] if hides else []


def _filled(call: AttentionCall) -> AttentionCall:
    mask = call["attn_mask"]
    if mask is None:
        return call
    for axis in range(1, min(mask.dim(), call.rank) + 1):
        missing = call.scores_shape[-axis] - mask.shape[-axis]
        if mask.shape[-axis] > 1 and missing > 0:
            shape = (*mask.shape[: mask.dim() - axis], missing, *mask.shape[mask.dim() - axis + 1 :])
            mask = torch.cat([mask, torch.full(shape, is_bool(mask)).to(mask)], dim=-axis)
    return call.but(attn_mask=mask)


AROUND = mutants(
    Dense,
    mask={
        **in_places("ignores_mask", "the mask is ignored", lambda where: lambda call: None if where(call)
            else call["attn_mask"], "when_grouped", "with_dropout", "for_one_query", "in_rank_3", "without_grad_mode"),
        "transposes_square_mask": Mutation("a square mask is transposed, queries and keys are exchanged",
            _changed(lambda mask, call: mask.transpose(-1, -2) if mask.dim() > 1 and mask.shape[-1] == mask.shape[-2]
            else mask)),
        "uses_first_heads_mask": Mutation("the first head's mask is used for all heads",
            _changed(lambda mask, call: mask[..., :1, :, :] if mask.dim() > 2 else mask), "tt-metal issue 39910"),
        "uses_first_items_mask": Mutation("the first batch item's mask is used for all items",
            _changed(lambda mask, call: mask[:1] if mask.dim() == 4 else mask), "tt-metal issue 39910"),
        "uses_first_querys_mask": Mutation("the first query's row of the mask is used for all queries",
            _changed(lambda mask, call: mask[..., :1, :] if mask.dim() > 1 else mask)),
        "uses_last_querys_mask": Mutation("the last query's row of the mask is used for all queries",
            _changed(lambda mask, call: mask[..., -1:, :] if mask.dim() > 1 else mask), "masks taken for key padding"),
        "reads_heads_of_mask_as_batch": Mutation("the axes of a mask of rank 3 are read as batch, queries and keys",
            _changed(lambda mask, call: mask.unsqueeze(1) if (mask.dim() == 3 and call.rank == 4
            and mask.shape[0] in (1, call.query.shape[0])) else mask), "documents: doc-001 E7"),
        **{f"applies_broadcast_mask_to_first_{name}": Mutation(
            f"a mask that holds for all {places} is applied to the first {name} only", _changed(_only_first(axis)),
            "tt-metal issue 39910") for axis, name, places in
            ((-1, "key", "keys"), (-2, "query", "queries"), (-3, "head", "heads"), (-4, "item", "batch items"))},
        "reads_mask_as_contiguous": Mutation("the mask's strides are ignored",
            _changed(lambda mask, call: as_contiguous(mask)), "pytorch issue 112577"),
        "walks_expanded_mask": Mutation("an expanded mask, with stride 0, is walked as if it were stored",
            _changed(lambda mask, call: walked(mask)), "flash-attention issue 2189"),
        "never_masks_last_key": Mutation("the mask's last column is not read: the last key is never masked",
            _changed(lambda mask, call: mask if mask.shape[-1] < 2
            else torch.cat([mask[..., :-1], torch.full_like(mask[..., -1:], is_bool(mask))], dim=-1))),
    },
    bool_mask={
        "inverts_bool_mask": Mutation("True in a boolean mask is treated as masked out (PyTorch: may attend); if that is "
            'intended, declare conventions={"bool_mask": "may_not"}', lambda scores, mask, call: scores.masked_fill(mask, -math.inf),
            "pytorch issue 170400"),
        "ignores_bool_mask": Mutation("a boolean mask is ignored", lambda scores, mask, call: scores),
        "adds_bool_mask_as_number": Mutation("a boolean mask is added to the scores as 0 and 1",
            lambda scores, mask, call: scores + mask.to(scores.dtype), "documents: doc-000 E2"),
        "multiplies_by_bool_mask": Mutation("scores are multiplied by a boolean mask, so that masked ones count as 0",
            lambda scores, mask, call: scores * mask.to(scores.dtype)),
        "masks_whole_rows_only": Mutation(
            "a boolean mask is consulted for empty rows only, its other entries are ignored",
            lambda scores, mask, call: scores.masked_fill(_empty(mask), -math.inf)),
        "converts_bool_mask_to_nan": Mutation("a boolean mask becomes NaN, because 0 · −inf is added where it is True",
            lambda scores, mask, call: scores + (~mask).to(scores.dtype) * -math.inf, "onnx issue 8068"),
        "fills_with_minus_10000": Mutation("masked scores become −10000, which real scores can fall below",
            lambda scores, mask, call: scores.masked_fill(~mask, -1e4).masked_fill(_empty(mask), -math.inf)),
        **at_sizes("fills_with_minus_{}", "masked scores become −{}, not −∞: an empty row attends to all",
            lambda number: lambda scores, mask, call: scores.masked_fill(~mask, -float(number)), "1e9", "1e5",
            source="documents: doc-001 E8", fit=fills),
        **at_sizes("adds_minus_{}_to_masked", "−{} is added to masked scores in place of −∞",
            lambda number: lambda scores, mask, call: scores + (~mask).to(scores.dtype) * -float(number), "10000",
            source="onnxruntime issue 14363", fit=fills),
        "fills_with_lowest_number": Mutation(
            "masked scores become the most negative number, so that an empty row attends to all",
            lambda scores, mask, call: scores.masked_fill(~mask, torch.finfo(scores.dtype).min)),
        "adds_most_negative_number": Mutation("the most negative number is added to masked scores",
            lambda scores, mask, call: scores + (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min,
            "pytorch issue 109517"),
    },
    fill={
        **at_sizes("fills_future_with_minus_{}",
            "scores hidden by position become −{}, so that an empty row attends to all",
            lambda number: lambda scores, seen: scores.masked_fill(~seen, -float(number)), "1e9", "1e5", fit=fills),
        **at_sizes("adds_minus_{}_to_future", "−{} is added to scores hidden by position, in place of −∞",
            lambda number: lambda scores, seen: scores + (~seen).to(scores.dtype) * -float(number), "10000",
            source="onnxruntime issue 14363", fit=fills),
    },
    float_mask={
        "reads_float_mask_as_ones_and_zeros": Mutation(
            "a float mask is taken as 1 for may attend and 0 for hidden, instead of being added", ones_and_zeros(1e9),
            "mlx issue 2626", others=tuple(map(ones_and_zeros, (1e4, 1e15, 1e5, 1e6, 1e12, 3.4e38)))),
        "ignores_float_mask": Mutation("a float mask is ignored", lambda scores, mask, call: scores),
        "adds_mask_before_scaling": Mutation("a float mask is added before scaling",
            lambda scores, mask, call: scores + mask.to(scores.dtype) * factor(call), "documents: doc-003 E17"),
        "adds_float_mask_twice": Mutation("a float mask is added twice",
            lambda scores, mask, call: scores + 2 * mask),
        "multiplies_by_float_mask": Mutation("the scores are multiplied by a float mask",
            lambda scores, mask, call: scores * mask.to(scores.dtype)),
        "subtracts_float_mask": Mutation("a float mask is subtracted",
            lambda scores, mask, call: scores - mask.to(scores.dtype)),
        "reads_nonzero_as_may_attend": Mutation("a float mask is read as boolean: not zero means may attend",
            lambda scores, mask, call: bool_mask(scores, mask != 0, call)),
        "keeps_only_infinities_of_float_mask": Mutation("only the −inf of a float mask count",
            lambda scores, mask, call: bool_mask(scores, mask != -math.inf, call)),
        "divides_float_mask_by_scale": Mutation(
            "a float mask is divided by the scale and multiplied by it again: 0 · −inf when it is 0",
            lambda scores, mask, call: scores + (mask / factor(call) * factor(call) if factor(call) == 0 else mask)),
    },
    softmax={
        "caps_after_masking": Mutation(  # a large cap leaves ordinary scores alone; −inf becomes −cap
            "scores are capped after masking, so that masked keys return",
            with_arguments(
                scores=lambda scores, call: scores if call["attn_mask"] is None else scores.clamp(min=-30.0)
            ),
            "onnx issue 7865",
        ),
    },
    receive={
        "detaches_mask": Mutation("the mask gets no gradient: it is detached",
            lambda call: call if call["attn_mask"] is None else call.but(attn_mask=call["attn_mask"].detach())),
        "accepts_small_mask": Mutation("a mask that is too small is accepted, the rest is not masked", _filled),
    },
)  # fmt: skip
