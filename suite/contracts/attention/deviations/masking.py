"""Mistakes in boolean and float masks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, Whole, correct


@instead_of(
    Dense.bool_mask,
    'True in a boolean mask is read as may not attend; who means that declares conventions={"bool_mask": "may_not"}',
    source="pytorch issue 170400",
)
def inverts_bool_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(mask, -math.inf)


@instead_of(Dense.bool_mask, "a boolean mask is ignored")
def ignores_bool_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores


@instead_of(Dense.bool_mask, "a boolean mask is added to the scores as 0 and 1", source="documents: doc-000 E2")
def adds_bool_mask_as_number(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype)


@instead_of(Dense.bool_mask, "scores are multiplied by a boolean mask, so that masked ones count as 0")
def multiplies_by_bool_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores * mask.to(scores.dtype)


@instead_of(
    Dense.bool_mask, "a boolean mask becomes NaN, because 0 · −inf is added where it is True", source="onnx issue 8068"
)
def converts_bool_mask_to_nan(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + (~mask).to(scores.dtype) * -math.inf


@instead_of(Dense.bool_mask, "masked scores become −10000, which real scores can fall below")
def fills_with_minus_10000(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    empty = ~mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask, -1e4).masked_fill(empty, -math.inf)


@instead_of(
    Dense.bool_mask, "masked scores become −1e9, so that an empty row attends to all", source="documents: doc-001 E8"
)
def fills_with_minus_1e9(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores.masked_fill(~mask, -1e9)


@instead_of(Dense.bool_mask, "the most negative number is added to masked scores", source="pytorch issue 109517")
def adds_most_negative_number(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + (~mask).to(scores.dtype) * torch.finfo(scores.dtype).min


@instead_of(
    Dense.bool_mask,
    "masked scores become −1e9 rounded to float16, which is −inf, and an empty row NaN",
    source="darts issue 3087",
    dtypes=("float16",),
)
def fill_overflows_in_half(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    scores = Dense.bool_mask(scores, mask, asked)
    overflows = asked.query.dtype == torch.float16
    return scores.masked_fill(~mask.any(-1, keepdim=True), math.nan) if overflows else scores


@instead_of(Dense.float_mask, "a float mask is ignored")
def ignores_float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores


@instead_of(Dense.float_mask, "a float mask is added before scaling", source="documents: doc-003 E17")
def adds_mask_before_scaling(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype) * asked.factor


@instead_of(Dense.float_mask, "the scores are multiplied by a float mask")
def multiplies_by_float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores * mask.to(scores.dtype)


@instead_of(Dense.float_mask, "a float mask is subtracted")
def subtracts_float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores - mask.to(scores.dtype)


@instead_of(Dense.float_mask, "a float mask is read as boolean: not zero means may attend")
def reads_nonzero_as_may_attend(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return Dense.bool_mask(scores, mask != 0, asked)


@instead_of(Dense.float_mask, "a float mask is read as boolean: only zero means may attend")
def reads_zero_as_may_attend(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return Dense.bool_mask(scores, mask == 0, asked)


@instead_of(Dense.float_mask, "only the −inf of a float mask count")
def keeps_only_infinities_of_float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return Dense.bool_mask(scores, mask != -math.inf, asked)


@instead_of(Dense.float_mask, "the −inf of a float mask become −10000, so that an empty row attends to all")
def makes_float_mask_finite(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype).clamp(min=-1e4)


@instead_of(Dense.float_mask, "positive numbers in a float mask count as 0")
def cuts_positive_float_mask(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype).clamp(max=0.0)


@instead_of(Dense.float_mask, "a float mask is rounded to bfloat16")
def rounds_float_mask_to_half(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.bfloat16().to(scores.dtype)


@instead_of(Dense.float_mask, "a float mask is added in base 2 without the factor log₂ e")
def adds_float_mask_in_base_two(scores: Tensor, mask: Tensor, asked: Asked) -> Tensor:
    return scores + mask.to(scores.dtype) * math.log(2)


@instead_of(Dense.softmax, "scores are capped after masking, so that masked keys return", source="onnx issue 7865")
def caps_after_masking(scores: Tensor, asked: Asked) -> Tensor:
    if asked.mask is None:
        return Dense.softmax(scores, asked)
    # A large cap leaves ordinary scores alone within rounding; what was −inf becomes −cap.
    return Dense.softmax(scores.clamp(min=-30.0), asked)


_MASKING_LAST = Dense(
    bool_mask=lambda scores, mask, asked: scores,
    softmax=lambda scores, asked: Dense.softmax(scores, asked) * asked.mask,
)


@instead_of(
    Whole.answer,
    "a boolean mask is applied after the softmax, without renormalising",
    source="documents: doc-003 3.5.1",
)
def masks_after_softmax(asked: Asked) -> Any:
    return _MASKING_LAST(asked) if asked.mask is not None and asked.mask.dtype == torch.bool else correct(asked)
