"""The soft cap: scaled scores S become cap · tanh(S / cap), which lies between −cap and cap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Case
from attnsuite.cases.mutants import Mutation, StepChange, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Condition, Dense, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved
from attnsuite.contracts.attention.feature import Argument, Feature, Hooks, Levels, Step, Syntax, number_within
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.lazily import np

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.feature import Grid
    from attnsuite.contracts.attention.oracle import BackwardPass, ForwardPass


# The oracle's step


def _cap(forward: ForwardPass) -> None:
    """Capped scores, and their error: that of the scores, times the slope, and that of the tanh.

    An error d of a score S moves its capped score by at most d · slope(|S| − d), since the slope 1 − tanh² falls with
    |S|. The tanh and the product with the cap may cost 4 unit roundoffs of the capped score. A tanh that is computed as
    2σ(2x) − 1 has an absolute error: 4 roundings of the accumulator at the size of the cap.
    """
    from attnsuite.contracts.attention.oracle import elementwise
    from attnsuite.contracts.attention.tolerance import product_error

    cap = forward.problem.options.get("softcap")
    if cap is None:
        return
    u, a = forward.precision.unit, forward.precision.accumulator
    before = abs(forward.scores).astype(np.float64)
    error = 2 * u * before + product_error(forward) * forward.magnitude
    slope = 1 - np.tanh(np.maximum(before - error, 0) / cap) ** 2
    forward.tanh = elementwise("tanh", forward.scores / cap)
    capped = forward.one * cap * forward.tanh
    forward.magnitude = forward.magnitude * slope
    size = before * slope + 2 * abs(capped).astype(np.float64) + 2 * a / u * cap  # 2u of this is the error
    forward.scores, forward.rounded = capped, [size]
    forward.tanh_error = np.minimum((2 * u * size + product_error(forward) * forward.magnitude) / cap, 1)


def _cap_back(forward: ForwardPass, backward: BackwardPass) -> None:
    """The slope of the cap, whose square of a tanh may be rounded at the size of 1."""
    cap = forward.problem.options.get("softcap")
    if cap is None:
        return
    slope, size = forward.one - forward.tanh**2, abs(backward.d_scores).astype(np.float64)
    slope_error = 4 * forward.precision.unit + 2 * abs(forward.tanh).astype(np.float64) * forward.tanh_error
    backward.error = slope.astype(np.float64) * backward.error + slope_error * (size + backward.error)
    backward.d_scores = slope * backward.d_scores


# The computation's steps


def _complaint(call: AttentionCall) -> str:
    cap = call["softcap"]
    return "" if cap is None or 0 < cap < math.inf else f"softcap must be None or a finite number above 0, not {cap!r}"


def softcap(scores: Tensor, cap: float, call: AttentionCall, grid: Grid) -> Tensor:
    """Capped scores, of scaled ones."""
    capped: Tensor = cap * (scores / cap).tanh()
    return capped


def softcap_slope(scores: Tensor, cap: float) -> Tensor:
    """The derivative of the capped scores, at scaled ones."""
    return 1 - (scores / cap).tanh() ** 2


def _score(computation: Any, scores: Tensor, call: AttentionCall, grid: Grid) -> Tensor:
    cap = call["softcap"]
    capped: Tensor = scores if cap is None else computation.softcap(scores, cap, call, grid)
    return capped


def _score_gradient(computation: Any, d_scores: Tensor, saved: Saved, gradients: Gradients) -> Tensor:
    cap = saved.call["softcap"]
    if cap is None:
        return d_scores
    scores = Dense.products(saved.query, saved.key) * factor(saved.call)
    slope: Tensor = computation.softcap_slope(scores, cap)
    return d_scores * slope


# Cases


def cases() -> Sequence[Case]:
    """Scores of about ±3 under caps far above, near and far below them."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.bad_input import BadInput
    from attnsuite.contracts.attention.cases.case import few_dtypes as case

    return [
        case("softcap/near", "a cap at the size of the scores", softcap=2.0),
        case("softcap/below", "a cap far below the scores: nearly signs", softcap=0.25, width=16),
        case("softcap/above", "a cap far above the scores, as Gemma 2 has it", softcap=50.0),
        case("softcap/integer", "an integer is a number", softcap=3),
        case("softcap/huge_logits", "scores of ±10⁴ are cut to the cap", softcap=30.0, draw="huge_logits", width=16),
        case("softcap/scale", "the scale comes before the cap", softcap=1.5, scale=0.9),
        case("softcap/float_mask", "a bias is added to capped scores", softcap=1.0, mask=Mask("float", "everything")),
        case("softcap/bool_mask", "a hidden key stays hidden, and does not become −cap", softcap=1.0, mask=Mask()),
        case("softcap/causal", "the future stays hidden", softcap=1.0, causal=True, length=9),
        case("softcap/window", "inside a window", softcap=1.0, window=(2, 1), length=9),
        case("softcap/decode", "one query, many keys, grouped heads", softcap=2.0, queries=1, keys=300, heads=4,
            key_heads=2),
        case("softcap/gradient", "the gradient has the slope 1 − tanh²", softcap=2.0, gradient_of=INPUTS),
        case("softcap/gradient_scale", "with a scale", softcap=1.5, scale=0.9, gradient_of=INPUTS),
        BadInput("bad_input/softcap_negative", "a cap of −1", {}, {"softcap": -1.0}),
        BadInput("bad_input/softcap_zero", "a cap of 0", {}, {"softcap": 0.0}),
    ]  # fmt: skip


# Mutants


def _unless(where: Condition) -> Callable[..., Tensor]:
    """The cap is ignored in some calls."""
    return lambda scores, cap, call, grid: scores if where(call) else softcap(scores, cap, call, grid)


def _capped(change: Callable[[Tensor, float], Tensor]) -> Callable[..., Tensor]:
    return lambda scores, cap, call, grid: change(scores, cap)


def _after_bias(scores: Tensor, cap: float, call: AttentionCall, grid: Grid) -> Tensor:
    """Scores that become capped biased scores when the bias is added to them."""
    mask = call["attn_mask"]
    if mask is None or not mask.is_floating_point():
        return softcap(scores, cap, call, grid)
    bias: Tensor = Dense().mask_part(mask, grid).to(scores.dtype)
    bias = bias.masked_fill(bias == -math.inf, 0.0)
    return softcap(scores + bias, cap, call, grid) - bias


def _after_mask(scores: Tensor, call: AttentionCall) -> Tensor:
    """Hidden keys have the score −cap, as tanh(−∞) is −1."""
    cap = call["softcap"]
    return Dense.softmax(scores if cap is None else scores.masked_fill(scores == -math.inf, -cap), call)


def _accepted(change: Callable[[float], Any]) -> StepChange | Callable[..., AttentionCall]:
    """A cap that is changed to a valid one, not refused."""
    return lambda call: call if call["softcap"] is None else call.but(softcap=change(call["softcap"]))


FORWARD = mutants(
    Dense,
    softcap={
        **in_places("ignores_softcap", "the soft cap is ignored", _unless, "when_causal", "with_mask",
            "for_one_query", "when_grouped", "with_scale", "in_window"),
        "ignores_softcap": Mutation("the soft cap is accepted and ignored", _unless(lambda call: True),
            "vllm issue 7419; sgl-kernel-xpu PR 491"),
        "multiplies_scores_by_tanh": Mutation("the soft cap is computed as S · tanh(S), not cap · tanh(S / cap)",
            _capped(lambda scores, cap: scores * scores.tanh()), "flash-attention PR 2402"),
        "lacks_factor_of_softcap": Mutation("capped scores are tanh(S / cap), without the factor cap",
            _capped(lambda scores, cap: (scores / cap).tanh())),
        "lacks_divisor_of_softcap": Mutation("capped scores are cap · tanh(S), without the division by cap",
            _capped(lambda scores, cap: cap * scores.tanh())),
        "clamps_scores_to_softcap": Mutation("scores are clamped to ±cap, without a tanh",
            _capped(lambda scores, cap: scores.clamp(-cap, cap))),
        "caps_unscaled_scores": Mutation("the soft cap comes before the scale: scale · cap · tanh(q·k / cap)",
            lambda scores, cap, call, grid: softcap(scores / (factor(call) or 1.0), cap, call, grid) * factor(call)),
        "caps_biased_scores": Mutation("the soft cap comes after the bias", _after_bias,
            "Tokamax's order; onnx issue 7865, onnxruntime issue 28215"),
    },
    softmax={"caps_hidden_scores": Mutation("the soft cap comes after the mask: hidden keys have the score −cap",
        _after_mask, "onnx PR 7867")},
    receive={
        "accepts_negative_softcap": Mutation("a negative soft cap is accepted as none",
            _accepted(lambda cap: cap if cap > 0 or cap == 0 else None), "onnxruntime's operator Attention"),
        "accepts_softcap_of_zero": Mutation("a soft cap of 0 is accepted as none", _accepted(lambda cap: cap or None),
            "ONNX and flash-attention, where 0 means none"),
    },
)  # fmt: skip
BACKWARD = mutants(
    Backward,
    softcap_slope={
        "backward_ignores_softcap": Mutation("the gradients lack the slope of the soft cap",
            with_result(lambda slope: slope * 0 + 1), "flash-attention issue 2466"),
        "backward_subtracts_tanh": Mutation("the slope of the soft cap is taken to be 1 − tanh, not 1 − tanh²",
            lambda scores, cap: 1 - (scores / cap).tanh()),
    },
)  # fmt: skip

LEVELS = Levels({"softcap": {"no_cap": None, "cap": 2.0}}, unsupported="soft caps")


FEATURE = Feature(
    "softcap", "score", LEVELS, Argument("softcap", None),
    place=1,
    decisions={
        "softcap": "cap · tanh(S / cap) in place of the scaled scores S, before a bias is added and keys are hidden; "
        "None is off; a cap must be finite and above 0"
    },
    vocabulary={"softcap": "soft caps"},
    oracle={"score": Step(_cap, _cap_back)},
    hooks=Hooks(score=_score, score_gradient=_score_gradient,
        steps={"softcap": softcap, "softcap_slope": softcap_slope}),
    complaint=_complaint,
    cases=cases,
    aliases=dict.fromkeys(("soft_cap", "logit_cap", "logits_soft_cap", "logit_softcapping"), "softcap"),
    traits=lambda value, sizes: {"softcap": ("a soft cap",)},
    in_torch=lambda scores, value, call, conventions: (scores if value is None
        else f"{value} * (({scores}) / {value}).tanh()"),
    label=lambda value: f"soft cap {value:g}",
    syntax=Syntax("a finite number above 0", number_within(math.ulp(0.0), math.inf)),
)  # fmt: skip
