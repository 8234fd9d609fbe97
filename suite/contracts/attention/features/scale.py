"""The scale: what the products of query and key are multiplied by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Case
from attnsuite.cases.case import Traits
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, in_places
from attnsuite.contracts.attention.computation.gradients import Backward
from attnsuite.contracts.attention.feature import Argument, Feature, Hooks, Levels, Step, Syntax, number_within
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from attnsuite.contracts.attention.oracle import BackwardPass, ForwardPass


# The oracle's step


def _scale(forward: ForwardPass) -> float:
    scale = forward.problem.options.get("scale")
    return 1 / math.sqrt(forward.query.shape[-1]) if scale is None else float(scale)


def _multiply(forward: ForwardPass) -> None:
    forward.scale = _scale(forward)
    forward.scores, forward.magnitude = forward.scale * forward.scores, abs(forward.scale) * forward.magnitude


def _multiply_back(forward: ForwardPass, backward: BackwardPass) -> None:
    backward.d_scores, backward.error = _scale(forward) * backward.d_scores, abs(_scale(forward)) * backward.error


# The computation's step


def factor(call: AttentionCall) -> float:
    """The factor of the scores."""
    scale = call["scale"]
    return default(call) if scale is None else float(scale)


def default(call: AttentionCall) -> float:
    return 1 / math.sqrt(call.width)


# Cases


def cases() -> Sequence[Case]:
    """None is 1/√d; any float is legal."""
    from attnsuite.contracts.attention.cases.case import case, gradients

    return [
        case("scale/default_of_odd_width", "the width is 13, not padded to 16", width=13),
        case("scale/default_with_other_value_width", "the query's width counts, not the value's", width=4,
            value_width=16),
        case("scale/one", "scale=1 leaves the products alone", scale=1.0),
        case("scale/integer", "an integer is a number", scale=2),
        case("scale/integer_zero", "the integer 0 is not None either", scale=0),
        case("scale/half", "an ordinary explicit scale", scale=0.5),
        case("scale/small", "nearly uniform weights", scale=0.01),
        case("scale/large", "one key takes nearly all", scale=3.0),
        case("scale/zero", "scale 0 is not None: all weights are equal", scale=0.0),
        case("scale/zero_masked", "scale 0: equal weights among the allowed keys", scale=0.0, mask=Mask()),
        case("scale/negative", "a negative scale prefers the least similar key", scale=-0.4),
        case("scale/negative_large", "a large negative scale: the maximum is that of the scaled scores", scale=-40.0),
        case("scale/with_float_mask", "the mask itself is not scaled", scale=0.25, mask=Mask("float")),
        case("scale/with_groups", "scale and grouped heads together", scale=0.6, heads=4, key_heads=2),
        gradients("gradients/scaled", "an explicit scale enters twice", scale=0.6),
        gradients("gradients/scale_zero", "scale 0: no gradient for query and key", scale=0.0),
        gradients("gradients/scale_negative", "the sign of the scale", scale=-0.5),
        gradients("gradients/scaled_grouped", "a scale with grouped heads", scale=0.6, heads=4, key_heads=2),
    ]  # fmt: skip


# Mistakes


def by_default(wrong: Callable[[AttentionCall], float]) -> Callable[[AttentionCall], float]:
    """A mistake in the default alone."""
    return lambda call: wrong(call) if call["scale"] is None else factor(call)


def _if_given(wrong: Any) -> Any:
    """A mistake in a given scale alone."""
    return lambda call: factor(call) if call["scale"] is None else wrong(call)


BACKWARD = mutants(
    Backward,
    factor={
        "gradients_lack_scale": Mutation("the gradients of query and key lack the scale", lambda call: 1.0),
        "gradients_ignore_given_scale": Mutation(
            "the gradients of query and key use 1/√d although another scale was given", default),
        "gradients_apply_scale_twice": Mutation("the scale is applied twice to the gradients of query and key",
            lambda call: factor(call) ** 2),
    },
    query_gradient={"query_gradient_lacks_scale": Mutation("the query's gradient lacks the scale",
        lambda flow, saved: flow.scores @ saved.key)},
    key_gradient={
        "key_gradient_lacks_scale": Mutation("the key's gradient lacks the scale",
            lambda flow, saved: flow.scores.transpose(-1, -2) @ saved.query),
        "key_gradient_loses_sign_of_scale": Mutation("the key's gradient has the wrong sign under a negative scale",
            with_result(lambda gradient, saved: gradient * (-1 if factor(saved.call) < 0 else 1)),
            "pytorch issue 105190"),
    },
)  # fmt: skip

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
ERROR = {"float64": 512, "float32": 512, "float16": 48, "bfloat16": 48}
"""By how many roundoffs the scale is off: 3 to 9 bounds of a peaked softmax over 16 to 128 keys of width 64."""


def _off(dtype: str) -> Mutation:
    """A factor that is off in one dtype."""
    wrong = 1 + ERROR[dtype] * ROUNDOFF[dtype]
    says = f"in {dtype}, the scale is too large by the factor 1 + {wrong - 1:.1e}"
    return Mutation(
        says,
        lambda call: factor(call) * (wrong if str(call.query.dtype) == f"torch.{dtype}" else 1.0),
        dtypes=(dtype,),
    )


BARELY = mutants(
    Dense,
    factor={
        **in_places("ignores_scale", "a given scale is ignored",
            lambda where: lambda call: default(call) if where(call) else factor(call), "with_mask", "when_causal",
            "when_grouped"),
        "ignores_integer_scale": Mutation("a scale that is no float is ignored",
            _if_given(lambda call: factor(call) if isinstance(call["scale"], float) else default(call)),
            "bindings that check for a double"),
        "unscaled": Mutation("the scores are not divided by √d", by_default(lambda call: 1.0),
            "documents: doc-000 E1"),
        "divides_by_width": Mutation("the scores are divided by d instead of √d",
            by_default(lambda call: 1 / call.width)),
        "ignores_scale": Mutation("a given scale is ignored, 1/√d is always used", default,
            "vendor kernels without a scale argument"),
        "applies_scale_twice": Mutation("the scale is applied to the query and again to the scores",
            lambda call: factor(call) ** 2),
        "applies_scale_besides_default": Mutation("a given scale is applied on top of 1/√d",
            _if_given(lambda call: call["scale"] * default(call))),
        "divides_by_given_scale": Mutation("a given scale divides the scores instead of multiplying them",
            _if_given(lambda call: 1 / call["scale"] if call["scale"] else math.inf), "documents: doc-001 divides"),
        "scales_by_value_width": Mutation("the default scale is 1/√dv, from the width of the values",
            by_default(lambda call: call.value_width**-0.5)),
        "scales_by_width_of_all_heads": Mutation("the default scale is 1/√(h·d), from the width of all heads together",
            by_default(lambda call: (call.width * call.heads) ** -0.5), "documents: doc-001 E3"),
        "scales_by_padded_width": Mutation("the default scale comes from the width padded to a multiple of 8",
            by_default(lambda call: (-(-call.width // 8) * 8) ** -0.5), "ipex-llm issue 12619"),
        "reads_zero_scale_as_none": Mutation("a scale of 0 is read as no scale",
            lambda call: call["scale"] or default(call), "the idiom `scale or 1/√d`"),
        "takes_root_of_scale": Mutation("a negative scale gives NaN: query and key are each multiplied by its root",
            lambda call: math.sqrt(factor(call)) ** 2 if factor(call) >= 0 else math.nan, "pytorch issue 105190"),
        "leaves_out_given_scale": Mutation("where a scale is given the scores are not scaled at all",
            _if_given(lambda call: 1.0)),
        "limits_scale_to_one": Mutation("a scale above 1 is cut to 1", lambda call: min(factor(call), 1.0)),
        "rounds_scale_to_half": Mutation("the scale is rounded to float16",
            lambda call: float(torch.tensor(factor(call)).half()), "kernels that take their scalars in half"),
        "adds_scale_to_default": Mutation("a given scale is added to 1/√d",
            _if_given(lambda call: call["scale"] + default(call))),
        "unscaled_when_grouped": Mutation("the default scale is left out when heads are grouped",
            by_default(lambda call: 1.0 if call.grouped else default(call))),
        "ignores_scores_of_width_one": Mutation("a width of 1 gives equal weights",
            lambda call: 0.0 if call.width == 1 else factor(call)),
        "unscaled_without_grad_mode": Mutation("without grad mode the scores are not scaled",
            lambda call: 1.0 if not torch.is_grad_enabled() and call["scale"] is None else factor(call),
            "flash-attention issue 1406"),
        **{f"scale_off_by_a_little_in_{dtype}": _off(dtype) for dtype in ERROR},
    },
)  # fmt: skip

SCALES = {"default_scale": None, "large_scale": 3.0, "small_scale": 0.05, "negative_scale": -1.0, "zero_scale": 0.0}
LEVELS = Levels(
    {"scale": SCALES},
    lambda levels: {} if levels["scale"] is None else {"scale": levels["scale"] / math.sqrt(levels["width"])},
    unsupported="scales",
)


def _traits(value: float, sizes: Any) -> Traits:
    special = {"a negative scale": value < 0, "a scale of 0": value == 0, "a scale above 1": value > 1}
    return {"scale": ("a given scale", *(words for words, holds in special.items() if holds))}


FEATURE = Feature(
    "scale", "score", LEVELS, Argument("scale", None, place=3),
    decisions={"scale": "None means 1/√d; any float or integer is legal, zero and negative included"},
    vocabulary={"scale": "an explicit scale"},
    oracle={"score": Step(_multiply, _multiply_back)},
    hooks=Hooks(
        score=lambda computation, scores, call, grid: scores * computation.factor(call),
        score_gradient=lambda computation, d_scores, saved, gradients: d_scores * computation.factor(saved.call),
        steps={"factor": factor},
    ),
    cases=cases,
    aliases={"softmax_scale": "scale", "sm_scale": "scale", "temperature": "scale"},
    traits=_traits,
    in_torch=lambda scores, value, call, conventions: (f"{scores} / query.shape[-1] ** 0.5" if value is None
        else f"{scores} * {value}"),
    label=lambda value: f"scale {value:g}",
    syntax=Syntax("a finite number", number_within(-math.inf, math.inf)),
)  # fmt: skip
