"""The log-sum-exp: the logarithm of the sum that normalises each query's weights, returned after the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case
from attnsuite.cases.changes import rounded
from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, largest_of
from attnsuite.contracts.attention.computation.gradients import Backward, Saved, forward_scores
from attnsuite.contracts.attention.feature import Argument, Feature, Hooks, Levels, Step
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.oracle import ForwardPass

EMPTY = {"minus_inf": -math.inf, "plus_inf": math.inf, "zero": 0.0, "any": math.nan}
"""The log-sum-exp of a query that may attend to nothing, by convention; NaN where none is expected."""


# The oracle's step


def _log_sum(forward: ForwardPass) -> None:
    """log Σ exp(S), and its error.

    Errors δ of the scores move it by at most log Σ p exp(δ): by Jensen's inequality no less than their mean, which
    bounds it from below. The sum is off by a · n. The largest score, the logarithm, their sum, a change of base, and a
    merge for each PART keys round at the size of the numbers themselves.
    """
    if not forward.problem.options.get("return_lse"):
        return
    from attnsuite.contracts.attention.oracle import elementwise
    from attnsuite.contracts.attention.tolerance import PART, summing
    from attnsuite.judging.precision import Bounded

    empty = np.asarray(forward.empty)[..., 0]
    conventions, keys = forward.problem.conventions, forward.scores.shape[-1]
    unit = math.log(2) if conventions.get("lse_base") == "2" else 1.0
    a, tiny = forward.precision.accumulator, forward.precision.tiny
    largest = np.where(forward.empty, 0, forward.largest)[..., 0]
    total = np.where(forward.allowed, elementwise("exp", forward.scores - largest[..., None]), 0).sum(-1)
    value = largest + elementwise("log", np.where(empty, forward.one, total))
    error = np.where(forward.allowed, forward.score_error, 0)
    moved = np.log1p((forward.weights.astype(np.float64) * np.expm1(np.minimum(error, 700))).sum(-1))
    sizes = abs(value).astype(np.float64) + abs(largest).astype(np.float64) + 1
    bound = np.minimum(moved, error.max(-1, initial=0.0)) + summing(forward.precision, keys) + tiny * (keys + 1)
    bound += a * (keys / PART + 6) * sizes
    value = np.where(empty, EMPTY[conventions.get("lse_empty_row", "minus_inf")], value / unit)
    forward.lse = Bounded(value, np.where(empty, 0.0, bound / unit))
    if forward.problem.lse_gradient is not None:
        forward.lse_gradient = np.where(forward.empty, 0, forward.problem.lse_gradient / unit)


# The computation's steps


def logsumexp(scores: Tensor) -> Tensor:
    """The natural logarithm of the sum of exponentials along the last axis; −∞ where all are 0."""
    largest = largest_of(scores)
    total = (scores - largest).exp().sum(-1)
    logarithm = largest[..., 0] + total.masked_fill(total == 0, 1.0).log()
    return logarithm.masked_fill(total == 0, -math.inf)


def lse(scores: Tensor, call: AttentionCall) -> Tensor:
    """The log-sum-exp of the scores of the softmax: ... h l."""
    return logsumexp(scores)


def lse_gradient(gradient: Tensor, saved: Saved) -> Tensor:
    """The gradient of the log-sum-exp, … h l, as it enters that of the scores: p (dP − D + dL)."""
    return gradient


def _mean(computation: Any, mean: Tensor, gradient: Tensor, saved: Saved) -> Tensor:
    entering: Tensor = computation.lse_gradient(gradient, saved)
    return mean - entering.to(mean.dtype)[..., None]


# Cases


def cases() -> Sequence[Case]:
    """Natural logarithms, after the masks and before dropout."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.case import few_dtypes

    case = partial(few_dtypes, return_lse=True)
    learned = (*INPUTS, "sinks")
    return [
        case("lse/plain", "a natural logarithm for each query of each head", heads=3),
        case("lse/scale", "of scaled scores", scale=0.9),
        case("lse/negative_scale", "the largest score is that of scaled ones", scale=-3.0),
        case("lse/softcap", "of capped scores", softcap=0.8),
        case("lse/bool_mask", "of visible keys alone", mask=Mask()),
        case("lse/float_mask", "the bias is part of a score", mask=Mask("float", "everything")),
        case("lse/causal", "the future is no part of the sum", causal=True, length=9),
        case("lse/window", "nor are keys outside the window", window=(2, 0), length=9),
        case("lse/empty_row", "an empty sum is −∞", mask=Mask(pattern="empty_rows")),
        case("lse/no_keys", "without keys all sums are empty", keys=0),
        case("lse/sinks", "the sink is part of the sum", sinks="drawn"),
        case("lse/sinks_empty_row", "of a query without keys it is the sink", sinks="drawn",
            mask=Mask(pattern="empty_rows")),
        case("lse/dropout", "dropout has no part in it", dropout_p=1.0),
        case("lse/grouped", "one for each query head", heads=6, key_heads=2),
        case("lse/square", "rows are queries, whatever the heads", heads=5, queries=5),
        case("lse/tiles", "sums over tiles are merged", batch=1, queries=3, keys=700),
        case("lse/huge_logits", "logits of 10⁴ do not overflow", draw="huge_logits", width=16),
        case("lse/rank_2", "without leading axes", batch=1, heads=1, rank=2),
        case("lse/gradient", "a gradient flows through it", gradient_of=INPUTS),
        case("lse/gradient_scale", "times the scale", gradient_of=INPUTS, scale=0.9),
        case("lse/gradient_empty_row", "an empty sum sends none", gradient_of=INPUTS, mask=Mask(pattern="empty_rows")),
        case("lse/gradient_empty_row_float", "nor does one of −∞", gradient_of=INPUTS,
            mask=Mask("float", "empty_rows")),
        case("lse/gradient_sinks", "through the sinks' share too", gradient_of=learned, sinks="drawn"),
    ]  # fmt: skip


# Mutants


def _of(change: Callable[[AttentionCall], AttentionCall]) -> Callable[[Tensor, AttentionCall], Tensor]:
    """The log-sum-exp of a call with changed arguments."""

    def step(scores: Tensor, call: AttentionCall) -> Tensor:
        changed = change(call)
        query, key, value = Dense.widen(changed)
        return logsumexp(forward_scores(changed, query, Dense().spread(key, value, changed)[0]))

    return step


def _changed(change: Callable[..., Tensor]) -> Callable[[Tensor, AttentionCall], Tensor]:
    """The log-sum-exp, changed; `change` may take the scores and the call, too."""
    return lambda scores, call: change(logsumexp(scores), scores, call)


def _for_empty_rows(number: float) -> Callable[[Tensor, AttentionCall], Tensor]:
    return _changed(lambda logs, scores, call: logs.masked_fill(logs == -math.inf, number))


def _dropped(logs: Tensor, scores: Tensor, call: AttentionCall) -> Tensor:
    p = call["dropout_p"]
    if p == 0:
        return logs
    kept = torch.rand(scores.shape, device=scores.device) >= p
    return logsumexp(scores.masked_fill(~kept, -math.inf))


IF_MEANT = "if that is meant, declare conventions="
FORWARD = mutants(
    Dense,
    lse={
        "lse_in_base_2": Mutation(f'the log-sum-exp is in base 2; {IF_MEANT}{{"lse_base": "2"}}',
            _changed(lambda logs, scores, call: logs / math.log(2)), "flashinfer; pytorch issue 181645"),
        "lse_times_ln_2": Mutation("the log-sum-exp is multiplied by ln 2, though it is in base e",
            _changed(lambda logs, scores, call: logs * math.log(2)), "pytorch issue 181645"),
        "lse_before_mask": Mutation("the log-sum-exp is taken over all keys, the hidden ones too",
            _of(lambda call: call.but(attn_mask=None, is_causal=False, window=None))),
        "lse_before_bias": Mutation("the log-sum-exp is taken before the bias is added",
            _of(lambda call: call if call["attn_mask"] is None or call["attn_mask"].dtype == torch.bool
            else call.but(attn_mask=call["attn_mask"] > -math.inf))),
        "lse_after_dropout": Mutation("the log-sum-exp is taken over the weights that dropout keeps",
            _changed(_dropped)),
        "lse_without_scale": Mutation("the log-sum-exp is that of scores that are not scaled",
            _of(lambda call: call.but(scale=1.0))),
        **{f"lse_ignores_{name}": Mutation(f"the log-sum-exp ignores {name}",
            _of(partial(lambda name, off, call: call.but(**{name: off}), name, off))) for name, off in (("window", None), ("is_causal", False),
            ("softcap", None), ("sinks", None), ("scale", None))},
        "lse_without_largest": Mutation("the largest score, which was subtracted, is not added to the log-sum-exp",
            _changed(lambda logs, scores, call: logs - largest_of(scores)[..., 0])),
        "lse_is_largest": Mutation("the largest score is returned for the log-sum-exp",
            lambda scores, call: largest_of(scores)[..., 0]),
        "lse_is_sum": Mutation("the sum of the exponentials is returned without its logarithm",
            _changed(lambda logs, scores, call: logs.exp())),
        "lse_of_last_part": Mutation("the log-sum-exp is that of the last half of the keys",
            lambda scores, call: logsumexp(scores[..., call.keys // 2 :]), "split-KV kernels"),
        "lse_negated": Mutation("the log-sum-exp has the wrong sign", _changed(lambda logs, scores, call: -logs)),
        "lse_of_first_head": Mutation("all heads get the log-sum-exp of the first",
            _changed(lambda logs, scores, call: logs[..., :1, :].expand_as(logs) if logs.dim() > 1 else logs)),
        "lse_is_zero": Mutation("the log-sum-exp is not written: all zeros",
            _changed(lambda logs, scores, call: torch.zeros_like(logs)), "attention-gym issue 37"),
        "lse_rounded_to_half": Mutation("the log-sum-exp is rounded to bfloat16 before it is widened",
            with_result(lambda logs: rounded(torch.bfloat16)(logs)), dtypes=("float32", "float16")),
        "lse_with_heads_last": Mutation("the log-sum-exp has the axes … l h instead of … h l",
            _changed(lambda logs, scores, call: logs.transpose(-1, -2).contiguous() if logs.dim() > 1 else logs)),
        "lse_of_empty_row_is_plus_inf": Mutation(
            f'the log-sum-exp of an empty row is +∞; {IF_MEANT}{{"lse_empty_row": "plus_inf"}}',
            _for_empty_rows(math.inf), "flash-attention 2"),
        "lse_of_empty_row_is_zero": Mutation(
            f'the log-sum-exp of an empty row is 0; {IF_MEANT}{{"lse_empty_row": "zero"}}', _for_empty_rows(0.0),
            "torch's flash kernel for CPUs"),
        "lse_of_empty_row_is_finite": Mutation("the log-sum-exp of an empty row is −50,000, in place of −∞",
            _for_empty_rows(-5e4), "flashinfer issues 4267, 4452"),
    },
)  # fmt: skip


BACKWARD = mutants(
    Backward,
    lse_gradient={
        "sends_no_gradient_through_lse": Mutation(
            'no gradient flows through the log-sum-exp; if that is meant, declare lacks={"lse_gradient": …}',
            lambda gradient, saved: gradient * 0, "flash-attention returns it without a graph"),
        "negates_gradient_through_lse": Mutation("the gradient through the log-sum-exp has the wrong sign",
            lambda gradient, saved: -gradient),
        "scales_gradient_through_lse": Mutation("the gradient through the log-sum-exp is that of one in base 2",
            lambda gradient, saved: gradient / math.log(2)),
    },
)  # fmt: skip

LEVELS = Levels({"return_lse": {"output_alone": False, "with_lse": True}}, unsupported="log-sum-exps")


def _read_needs(call: Call) -> Iterable[str]:
    if call.options.get("return_lse"):
        yield "return_lse"
        if call.gradient_of:
            yield "lse_gradient"


FEATURE = Feature(
    "return_lse", "output", LEVELS, Argument("return_lse", False),
    decisions={
        "return_lse": "(output, lse), … h l: the natural logarithm of the sum of the exponentials that normalises the "
        "weights, of scores after cap, bias and masks, with the sink, before dropout; −∞ for a query that may attend "
        "to nothing; float32 or wider, in half types the query's dtype as well; gradients flow through it"
    },
    vocabulary={"return_lse": "the log-sum-exp as a second result",
        "lse_gradient": "gradients through the log-sum-exp"},
    read_needs=_read_needs,
    conventions={"lse_base": ("e", "2"), "lse_empty_row": tuple(EMPTY)},
    oracle={"output": Step(_log_sum)},
    hooks=Hooks(result=lambda computation, output, scores, call: ((output, computation.lse(scores, call))
        if call["return_lse"] else output), mean=_mean, steps={"lse": lse, "lse_gradient": lse_gradient}),
    cases=cases,
    aliases=dict.fromkeys(("logsumexp", "log_sum_exp", "return_softmax_lse", "return_lse"), "lse"),
    traits=lambda value, sizes: {"return_lse": ("a returned log-sum-exp",)},
    in_torch=lambda text, value, call, conventions: text,
)  # fmt: skip
