"""Mistakes in what the scores are multiplied by."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.attention.deviations.asked import Asked
from suite.contracts.attention.deviations.staged import Dense, largest_of


@instead_of(Dense.factor, "the scores are not divided by √e", source="documents: doc-000 E1")
def unscaled(asked: Asked) -> float:
    return 1.0 if asked.scale is None else asked.scale


@instead_of(Dense.factor, "the scores are divided by e instead of √e")
def divides_by_width(asked: Asked) -> float:
    return 1 / asked.width if asked.scale is None else asked.scale


@instead_of(
    Dense.factor, "a given scale is ignored, 1/√e is always used", source="vendor kernels without a scale argument"
)
def ignores_scale(asked: Asked) -> float:
    return 1 / math.sqrt(asked.width)


@instead_of(Dense.factor, "the scale is applied to the query and again to the scores")
def applies_scale_twice(asked: Asked) -> float:
    return asked.factor * asked.factor


@instead_of(Dense.factor, "a given scale is applied on top of 1/√e")
def applies_scale_besides_default(asked: Asked) -> float:
    return asked.factor if asked.scale is None else asked.scale / math.sqrt(asked.width)


@instead_of(
    Dense.factor, "a given scale divides the scores instead of multiplying them", source="documents: doc-001 divides"
)
def divides_by_given_scale(asked: Asked) -> float:
    return asked.factor if asked.scale is None else 1 / (asked.scale or 1.0)


@instead_of(Dense.factor, "the default scale is 1/√v, from the width of the values")
def scales_by_value_width(asked: Asked) -> float:
    return 1 / math.sqrt(asked.value_width) if asked.scale is None else asked.scale


@instead_of(
    Dense.factor, "the default scale is 1/√(h·e), from the width of all heads together", source="documents: doc-001 E3"
)
def scales_by_width_of_all_heads(asked: Asked) -> float:
    return 1 / math.sqrt(asked.width * asked.heads) if asked.scale is None else asked.scale


@instead_of(
    Dense.factor, "the default scale comes from the width padded to a multiple of 8", source="ipex-llm issue 12619"
)
def scales_by_padded_width(asked: Asked) -> float:
    return 1 / math.sqrt(-(-asked.width // 8) * 8) if asked.scale is None else asked.scale


@instead_of(Dense.factor, "the default scale is 1/⌊√e⌋, rounded to an integer")
def scales_by_integer_root(asked: Asked) -> float:
    return 1 / math.isqrt(asked.width) if asked.scale is None else asked.scale


@instead_of(Dense.factor, "a scale of 0 is read as no scale", source="the idiom `scale or 1/√e`")
def reads_zero_scale_as_none(asked: Asked) -> float:
    return asked.scale or 1 / math.sqrt(asked.width)


@instead_of(Dense.factor, "the sign of a negative scale is lost")
def takes_absolute_scale(asked: Asked) -> float:
    return abs(asked.factor)


@instead_of(
    Dense.factor,
    "a negative scale gives NaN: query and key are each multiplied by its root",
    source="pytorch issue 105190",
)
def takes_root_of_scale(asked: Asked) -> float:
    return math.sqrt(asked.factor) ** 2 if asked.factor >= 0 else math.nan


@instead_of(Dense.factor, "a scale above 1 is cut to 1")
def limits_scale_to_one(asked: Asked) -> float:
    return min(asked.factor, 1.0)


@instead_of(Dense.factor, "the scale is rounded to float16", source="kernels that take their scalars in half")
def rounds_scale_to_half(asked: Asked) -> float:
    return float(torch.tensor(asked.factor).half())


@instead_of(Dense.factor, "a given scale is ignored when the mask is causal")
def ignores_scale_when_causal(asked: Asked) -> float:
    return 1 / math.sqrt(asked.width) if asked.is_causal else asked.factor


@instead_of(Dense.factor, "a given scale is ignored when there is a mask")
def ignores_scale_with_mask(asked: Asked) -> float:
    return asked.factor if asked.mask is None else 1 / math.sqrt(asked.width)


@instead_of(Dense.factor, "the default scale is left out when heads are grouped")
def unscaled_when_grouped(asked: Asked) -> float:
    return 1.0 if asked.grouped and asked.scale is None else asked.factor


@instead_of(
    Dense.softmax,
    "a negative scale overflows: the largest score is taken before scaling",
    source="pytorch issue 105190",
)
def shifts_by_smallest_for_negative_scale(scores: Tensor, asked: Asked) -> Tensor:
    if asked.factor >= 0:
        return Dense.softmax(scores, asked)
    shift = -largest_of(-scores)
    powers = (scores - shift.nan_to_num(neginf=0.0, posinf=0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)
