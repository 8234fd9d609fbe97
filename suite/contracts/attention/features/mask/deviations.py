"""Mistakes in what a mask does to the scores, and in its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attnsuite.cases.mutants import Wrong, given, mutants, rows
from attnsuite.contracts.attention.computation.asked import Asked
from attnsuite.contracts.attention.computation.backward import Backward, Gradients, Saved, ignoring
from attnsuite.contracts.attention.computation.dense import Dense, Whole, correct
from attnsuite.contracts.attention.features.mask import bool_mask, is_bool, mask_gradient
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


def _is_bool(asked: Asked) -> bool:
    return asked["attn_mask"] is not None and is_bool(asked["attn_mask"])


def _is_float(asked: Asked) -> bool:
    return asked["attn_mask"] is not None and not is_bool(asked["attn_mask"])


def _empty(mask: Tensor) -> Tensor:
    return ~mask.any(-1, keepdim=True)


BOOLEAN = mutants(
    Dense,
    bool_mask=rows(
        inverts_bool_mask=Wrong(
            "True in a boolean mask is read as may not attend; if that is meant, declare "
            'conventions={"bool_mask": "may_not"}',
            lambda scores, mask, asked: scores.masked_fill(mask, -math.inf),
            "pytorch issue 170400",
        ),
        ignores_bool_mask=Wrong("a boolean mask is ignored", lambda scores, mask, asked: scores),
        adds_bool_mask_as_number=Wrong(
            "a boolean mask is added to the scores as 0 and 1",
            lambda scores, mask, asked: scores + mask.to(scores.dtype),
            "documents: doc-000 E2",
        ),
        multiplies_by_bool_mask=Wrong(
            "scores are multiplied by a boolean mask, so that masked ones count as 0",
            lambda scores, mask, asked: scores * mask.to(scores.dtype),
        ),
        converts_bool_mask_to_nan=Wrong(
            "a boolean mask becomes NaN, because 0 · −inf is added where it is True",
            lambda scores, mask, asked: scores + (~mask).to(scores.dtype) * -math.inf,
            "onnx issue 8068",
        ),
        fills_with_minus_10000=Wrong(
            "masked scores become −10000, which real scores can fall below",
            lambda scores, mask, asked: scores.masked_fill(~mask, -1e4).masked_fill(_empty(mask), -math.inf),
        ),
        fills_with_minus_1e9=Wrong(
            "masked scores become −1e9, so that an empty row attends to all",
            lambda scores, mask, asked: scores.masked_fill(~mask, -1e9),
            "documents: doc-001 E8",
        ),
        adds_most_negative_number=Wrong(
            "the most negative number is added to masked scores",
            lambda scores, mask, asked: scores + (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min,
            "pytorch issue 109517",
        ),
        masks_whole_rows_only=Wrong(
            "a boolean mask is consulted for empty rows only, its other entries are ignored",
            lambda scores, mask, asked: scores.masked_fill(_empty(mask), -math.inf),
        ),
    ),
)

FLOAT = mutants(
    Dense,
    float_mask=rows(
        ignores_float_mask=Wrong("a float mask is ignored", lambda scores, mask, asked: scores),
        adds_mask_before_scaling=Wrong(
            "a float mask is added before scaling",
            lambda scores, mask, asked: scores + mask.to(scores.dtype) * factor(asked),
            "documents: doc-003 E17",
        ),
        multiplies_by_float_mask=Wrong(
            "the scores are multiplied by a float mask", lambda scores, mask, asked: scores * mask.to(scores.dtype)
        ),
        subtracts_float_mask=Wrong(
            "a float mask is subtracted", lambda scores, mask, asked: scores - mask.to(scores.dtype)
        ),
        reads_nonzero_as_may_attend=Wrong(
            "a float mask is read as boolean: not zero means may attend",
            lambda scores, mask, asked: bool_mask(scores, mask != 0, asked),
        ),
        reads_zero_as_may_attend=Wrong(
            "a float mask is read as boolean: only zero means may attend",
            lambda scores, mask, asked: bool_mask(scores, mask == 0, asked),
        ),
        keeps_only_infinities_of_float_mask=Wrong(
            "only the −inf of a float mask count",
            lambda scores, mask, asked: bool_mask(scores, mask != -math.inf, asked),
        ),
        makes_float_mask_finite=Wrong(
            "the −inf of a float mask become −10000, so that an empty row attends to all",
            lambda scores, mask, asked: scores + mask.to(scores.dtype).clamp(min=-1e4),
        ),
        cuts_positive_float_mask=Wrong(
            "positive numbers in a float mask count as 0",
            lambda scores, mask, asked: scores + mask.to(scores.dtype).clamp(max=0.0),
        ),
        rounds_float_mask_to_half=Wrong(
            "a float mask is rounded to bfloat16", lambda scores, mask, asked: scores + mask.bfloat16().to(scores.dtype)
        ),
        adds_float_mask_in_base_two=Wrong(
            "a float mask is added in base 2 without the factor log₂ e",
            lambda scores, mask, asked: scores + mask.to(scores.dtype) * math.log(2),
        ),
        divides_float_mask_by_scale=Wrong(
            "a float mask is divided by the scale and multiplied by it again: 0 · −inf when it is 0",
            lambda scores, mask, asked: scores + (mask / factor(asked) * factor(asked) if factor(asked) == 0 else mask),
        ),
    ),
)


@Dense.instead(
    "bool_mask",
    "masked scores become −1e9 rounded to float16, which is −inf, and an empty row NaN",
    source="darts issue 3087",
    dtypes=("float16",),
)
def fill_overflows_in_half(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    scores = bool_mask(scores, mask, asked)
    return scores.masked_fill(_empty(mask), math.nan) if asked.query.dtype == torch.float16 else scores


@Whole.instead(
    "answer", "a boolean mask is applied after the softmax, without renormalising", source="documents: doc-003 3.5.1"
)
def masks_after_softmax(asked: Asked) -> Any:
    if not _is_bool(asked):
        return correct(asked)
    return Dense(
        bool_mask=lambda scores, mask, asked: scores,
        softmax=lambda scores, asked: Dense.softmax(scores, asked) * asked["attn_mask"],
    )(asked)


@Whole.instead("answer", "True is read as hidden, and where that hides all keys of a query the answer is NaN")
def inverts_bool_mask_without_guard(asked: Asked) -> Any:
    mask = asked["attn_mask"]
    if not _is_bool(asked) or mask.dim() == 0:
        return correct(asked)
    open_rows = mask.all(-1, keepdim=True) if mask.shape[-1] else mask.any(-1, keepdim=True)
    return torch.where(open_rows, torch.nan, correct(asked.but(attn_mask=~mask)))


@Whole.instead("answer", "the mask is written to: the caller's tensor changes", source="documents: doc-004 E23")
def writes_into_mask(asked: Asked) -> Any:
    from attnsuite.contracts.attention.deviations.behaviour import touch

    mask = asked["attn_mask"]
    output = correct(asked.but(attn_mask=None if mask is None else mask.clone()))
    touch(mask)
    return output


def _first_of(d_scores: Tensor, mask: Tensor) -> Tensor:
    """The gradient at the first place along each axis where the mask is broadcast."""
    for axis in range(1, d_scores.dim() + 1):
        if (axis > mask.dim() or mask.shape[-axis] == 1) and d_scores.shape[-axis] > 1:
            d_scores = d_scores.narrow(-axis, 0, 1)
    return d_scores.sum_to_size(mask.shape)


def _transposed(d_scores: Tensor, mask: Tensor) -> Tensor:
    square = mask.dim() > 1 and mask.shape[-1] == mask.shape[-2]
    gradient = mask_gradient(d_scores, mask)
    return gradient.transpose(-1, -2) if square else gradient


GRADIENTS = mutants(
    Backward,
    mask_gradient=rows(
        takes_first_of_mask_gradients=Wrong(
            "the mask's gradient is that of the first place where it is broadcast, not the sum", _first_of
        ),
        averages_mask_gradients=Wrong(
            "the mask's gradient is averaged where it is broadcast, not summed",
            lambda d_scores, mask: mask_gradient(d_scores, mask) * (mask.numel() / max(d_scores.numel(), 1)),
        ),
        gives_zero_gradient_to_mask=Wrong("the mask's gradient is 0", lambda d_scores, mask: torch.zeros_like(mask)),
        transposes_mask_gradient=Wrong("the mask's gradient is transposed where it is square", _transposed),
    ),
)


@Backward.instead("deliver", "the mask's gradient is multiplied by the scale")
def scales_mask_gradient(gradients: Gradients, saved: Saved) -> Gradients:
    mask = gradients.get("attn_mask")
    return gradients if mask is None else {**gradients, "attn_mask": mask * factor(saved.asked)}


@Backward.instead("deliver", "the gradient of the mask alone raises an error", source="pytorch issue 148476")
def raises_for_gradient_of_mask_alone(gradients: Gradients, saved: Saved) -> Gradients:
    if saved.wanted == {"attn_mask"}:
        raise RuntimeError("attn_bias requires grad but query, key and value do not")
    return gradients


BACKWARD = mutants(
    Backward,
    weights=rows(
        backward_ignores_bool_mask=Wrong(
            "the backward ignores a boolean mask", ignoring("attn_mask", None, where=_is_bool)
        ),
        backward_ignores_float_mask=Wrong(
            "the backward ignores a float mask", ignoring("attn_mask", None, where=_is_float)
        ),
    ),
)


def _cut(asked: Asked) -> Asked:
    mask = asked["attn_mask"]
    if mask is None:
        return asked
    for axis in range(1, min(mask.dim(), asked.rank) + 1):
        mask = mask.narrow(-axis, 0, min(mask.shape[-axis], asked.scores_shape[-axis]))
    return asked.but(attn_mask=mask)


def _filled(asked: Asked) -> Asked:
    mask = asked["attn_mask"]
    if mask is None:
        return asked
    for axis in range(1, min(mask.dim(), asked.rank) + 1):
        missing = asked.scores_shape[-axis] - mask.shape[-axis]
        if mask.shape[-axis] > 1 and missing > 0:
            shape = (*mask.shape[: mask.dim() - axis], missing, *mask.shape[mask.dim() - axis + 1 :])
            mask = torch.cat([mask, torch.full(shape, is_bool(mask)).to(mask)], dim=-axis)
    return asked.but(attn_mask=mask)


AROUND = mutants(
    Dense,
    softmax=rows(
        caps_after_masking=Wrong(  # a large cap leaves ordinary scores alone within rounding; what was −inf becomes −cap
            "scores are capped after masking, so that masked keys return",
            given(scores=lambda scores, asked: scores if asked["attn_mask"] is None else scores.clamp(min=-30.0)),
            "onnx issue 7865",
        )
    ),
    receive=rows(
        detaches_mask=Wrong(
            "the mask gets no gradient: it is detached",
            lambda asked: asked if asked["attn_mask"] is None else asked.but(attn_mask=asked["attn_mask"].detach()),
        ),
        accepts_large_mask=Wrong("a mask that is too large is accepted and cut", _cut),
        accepts_small_mask=Wrong("a mask that is too small is accepted, the rest is not masked", _filled),
    ),
)
