"""Sinks: a learned logit for each query head, which takes part in the softmax and has no value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Case
from attnsuite.cases.changes import rounded
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Condition, Dense, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Gradients, Saved
from attnsuite.contracts.attention.feature import Argument, DrawContext, Feature, Hooks, Levels, Step
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.features.scale import factor
from attnsuite.contracts.attention.features.softcap import softcap
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.oracle import Array, BackwardPass, ForwardPass

SPREAD = 1.5
"""The standard deviation of drawn sinks: heads differ, and sinks take much of the weight and little of it."""
LOGITS = {"drawn": None, "without": -math.inf, "zero": 0.0, "large": 30.0}
"""The values of cases: drawn for each head, or one for all."""


# The oracle's steps: a sink is one more key, with a given score and a value of 0


def _join(forward: ForwardPass) -> None:
    """Add a column for the sink. Its score is given, so that it has the errors of a stored score alone."""
    logits = forward.problem.options.get("sinks")
    if logits is None:
        return
    column = np.broadcast_to(logits.reshape(-1, 1, 1), (*forward.scores.shape[:-1], 1))  # b h l 1
    finite = np.isfinite(column)
    score: Array = forward.one * np.where(finite, column, 0.0)
    forward.scores = np.concatenate([forward.scores, score], -1)
    forward.stored = np.concatenate(
        [np.broadcast_to(forward.stored, forward.magnitude.shape), abs(score).astype(np.float64)], -1
    )
    forward.magnitude = _padded(forward.magnitude)
    forward.key, forward.value = (_padded(array, -2) for array in (forward.key, forward.value))
    forward.key_allowed = forward.allowed
    forward.allow(np.concatenate([forward.allowed, finite], -1))
    bias_size: Array = forward.bias_size
    if bias_size.ndim and bias_size.shape[-1] > 1:
        forward.bias_size = _padded(bias_size)
    kept = forward.problem.keep_mask
    if kept is not None and kept.ndim:
        kept = np.concatenate([kept, np.ones((*kept.shape[:-1], 1), dtype=bool)], -1)
        forward.problem = replace(forward.problem, keep_mask=kept)


def _padded(array: Array, axis: int = -1) -> Array:
    """The array with one more zero along an axis."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, 1)
    return np.pad(array, widths)


def _empty_rows(forward: ForwardPass) -> None:
    """A query that may attend to no key gives all its weight to the sink: the output is 0."""
    if forward.problem.options.get("sinks") is not None:
        hidden = ~forward.key_allowed.any(axis=-1, keepdims=True)
        forward.zero_rows = forward.zero_rows | hidden & ~forward.empty


def _drop_column(forward: ForwardPass) -> None:
    """After the gradient of the scores the sink has no part in the oracle."""
    for name in ("scores", "stored", "magnitude", "weights", "applied", "allowed", "score_error"):
        setattr(forward, name, getattr(forward, name)[..., :-1])
    forward.key, forward.value = forward.key[..., :-1, :], forward.value[..., :-1, :]
    if np.ndim(forward.dropout_factor):
        forward.dropout_factor = forward.dropout_factor[..., :-1]


def _split(forward: ForwardPass, backward: BackwardPass) -> None:
    """The gradient of the sinks, Σ dS of their column: −p Σ dO·o.

    Where the sink multiplies the output by σ(lse − a) afterwards, p is computed as 1 − σ, which is off by one rounding.
    """
    if forward.problem.options.get("sinks") is None:
        return
    d_scores, error = backward.d_scores[..., -1], backward.error[..., -1]  # b h l
    size = abs(d_scores).astype(np.float64)
    outputs = (abs(backward.upstream) * abs(forward.output)).sum(-1).astype(np.float64)
    if forward.lse_gradient is not None:
        outputs = outputs + abs(forward.lse_gradient[..., 0]).astype(np.float64)
    u, a = forward.precision.unit, forward.precision.accumulator
    count = d_scores[:, 0].size
    error = (error + (u + a * count) * (size + error) + 2 * u * outputs).sum((0, 2))
    gradient = backward.with_rounding_error(d_scores.sum((0, 2)), error, max(count, 1))
    if "sinks" in forward.problem.gradient_of:
        backward.gradients["sinks"] = gradient
    backward.d_scores, backward.error = backward.d_scores[..., :-1], backward.error[..., :-1]
    backward.weight_error = backward.weight_error[..., :-1]
    _drop_column(forward)


# The computation's steps


def _complaint(call: AttentionCall) -> str:
    logits = call["sinks"]
    if logits is None or (tuple(logits.shape) == (call.heads,) and logits.dtype == call.query.dtype):
        return ""
    return f"sinks must have shape ({call.heads},) and {call.query.dtype}, not {tuple(logits.shape)} and {logits.dtype}"


def sink_logits(call: AttentionCall) -> Tensor:
    """The logit of the sink of each query head: h."""
    logits: Tensor = call["sinks"].to(call.accumulator)
    return logits


def _column(logits: Tensor, rows: Tensor) -> Tensor:
    """The logits in each row: ... h l 1."""
    heads = logits.view(-1, 1, 1) if rows.dim() > 2 else logits.view(1, 1)
    return heads.expand(*rows.shape[:-1], 1)


def sink_gradient(share: Tensor, mean: Tensor, saved: Saved) -> Tensor:
    """The gradient of the sinks, h, from the weight of each row's sink and the mean of its weights' gradient, h l."""
    return -(share * mean).sum((0, -1))


def _sink_gradient(computation: Any, mean: Tensor, saved: Saved, gradients: Gradients) -> None:
    if "sinks" in saved.wanted:
        share = _share(saved)
        shape = math.prod(share.shape[:-3]), saved.call.heads, saved.call.queries
        share, mean = share.reshape(shape), mean.reshape(shape)
        gradients["sinks"] = computation.sink_gradient(share, mean, saved)


def _share(saved: Saved) -> Tensor:
    """The weight of the sink in each row: ... h l 1."""
    return Dense.softmax(saved.scores, saved.call)[..., saved.call.keys :]


# Cases


def _draw(value: str, drawing: DrawContext) -> dict[str, Tensor]:
    from attnsuite.cases.tensors import as_tensor

    logit, heads = LOGITS[value], drawing.sizes.heads
    drawn = drawing.random.normal(size=heads) * SPREAD + 0.5 if logit is None else np.full(heads, logit)
    return {"sinks": as_tensor(drawn, str(drawing.dtype).removeprefix("torch."))}


def cases() -> Sequence[Case]:
    """A sink of each query head, in natural units."""
    from attnsuite.cases.layouts import INPUTS
    from attnsuite.contracts.attention.cases.bad_input import BadInput
    from attnsuite.contracts.attention.cases.case import few_dtypes as case

    learned: dict[str, Any] = {"sinks": "drawn", "gradient_of": (*INPUTS, "sinks")}
    return [
        case("sinks/drawn", "each head has its own", sinks="drawn", heads=5),
        case("sinks/without", "−∞ is an ordinary softmax", sinks="without"),
        case("sinks/zero", "a logit of 0 adds 1 to the sum", sinks="zero"),
        case("sinks/large", "a sink far above the scores takes all weight", sinks="large"),
        case("sinks/scale", "a sink is not scaled", sinks="drawn", scale=0.2),
        case("sinks/softcap", "a sink is not capped", sinks="drawn", softcap=0.7),
        case("sinks/grouped", "a logit per query head, not per key head", sinks="drawn", heads=6, key_heads=2),
        case("sinks/one_query", "the same with one query", sinks="drawn", queries=1, keys=40),
        case("sinks/tiles", "it enters once, however the keys are split", sinks="drawn", batch=1, queries=3, keys=700),
        case("sinks/late", "the first tiles are hidden", sinks="drawn", mask=Mask(pattern="late"), keys=300),
        case("sinks/empty_row", "a query without keys gives zeros", sinks="drawn", mask=Mask(pattern="empty_rows")),
        case("sinks/window", "within a window", sinks="drawn", window=(2, 0), causal=True, length=12),
        case("sinks/rank_2", "one head, without an axis", sinks="drawn", batch=1, heads=1, rank=2),
        case("sinks/gradient", "the gradient of the sinks", **learned, heads=4, key_heads=2),
        case("sinks/gradient_empty_row", "a query without keys sends none", **learned, mask=Mask(pattern="empty_rows")),
        case("sinks/gradient_alone", "nothing but the sinks wants one", sinks="drawn", gradient_of=("sinks",)),
        BadInput("bad_input/sinks_of_key_heads", "2 sinks for 4 query heads", {"sinks": (2,)}),
        BadInput("bad_input/one_sink", "1 sink for 4 query heads", {"sinks": (1,)}),
    ]  # fmt: skip


# Mutants


def _changed(change: Callable[..., Tensor]) -> Callable[[AttentionCall], Tensor]:
    """Logits that are changed, given the call."""
    return lambda call: change(sink_logits(call), call)


def _unless(where: Condition) -> Callable[[AttentionCall], Tensor]:
    """The sinks are ignored in some calls."""
    return _changed(lambda logits, call: torch.full_like(logits, -math.inf) if where(call) else logits)


def _wrong_sigmoid(scores: Tensor, call: AttentionCall) -> Tensor:
    weights = Dense.softmax(scores, call)
    if call["sinks"] is None:
        return weights
    of_keys = Dense.softmax(scores[..., : call.keys], call)
    return torch.cat([of_keys * weights[..., call.keys :], weights[..., call.keys :]], -1)


FORWARD = mutants(
    Dense,
    sink_logits={
        **in_places("ignores_sinks", "the sinks are ignored", _unless, "when_causal", "with_mask", "for_one_query",
            "when_grouped", "in_window", "with_scale"),
        "ignores_sinks": Mutation("the sinks are ignored", _unless(lambda call: True), "vllm-metal PR 550"),
        "scales_sinks": Mutation("the sinks are multiplied by the scale",
            _changed(lambda logits, call: logits * factor(call))),
        "divides_sinks_by_scale": Mutation("the sinks are divided by the scale",
            _changed(lambda logits, call: logits / (factor(call) or 1.0))),
        "caps_sinks": Mutation("the sinks are capped with the scores",
            _changed(lambda logits, call: logits if call["softcap"] is None
            else softcap(logits, call["softcap"], call, call.grid())), "rocm-libraries PR 12229"),
        "counts_sinks_twice": Mutation("the sink enters the sum twice",
            _changed(lambda logits, call: logits + math.log(2)), "rocm-libraries PR 12229; split-KV kernels"),
        "takes_sinks_per_key_head": Mutation("query heads that share a key head share its sink",
            _changed(
                lambda logits, call: logits[: call.key_heads].repeat_interleave(call.heads // max(call.key_heads, 1)))),
        "takes_sink_of_first_head": Mutation("all heads have the sink of the first",
            _changed(lambda logits, call: logits[:1].expand_as(logits))),
        "takes_sinks_in_base_2": Mutation("the sinks are taken in base 2, the scores in base e",
            _changed(lambda logits, call: logits * math.log(2))),
        "adds_sinks_without_exponential": Mutation("the logit itself is added to the sum, not its exponential",
            _changed(lambda logits, call: logits.clamp(min=0).log())),
        "takes_sinks_as_zero": Mutation("every sink is taken to be 0: 1 is added to the sum",
            _changed(lambda logits, call: torch.zeros_like(logits)), "softmax-one"),
        "gives_nan_without_sinks": Mutation("a sink of −∞ gives NaN",
            _changed(lambda logits, call: logits.masked_fill(logits == -math.inf, math.nan))),
        "rounds_sinks_to_half": Mutation("the sinks are rounded to bfloat16",
            _changed(lambda logits, call: rounded(torch.bfloat16)(logits)), "sinks that are parameters in bfloat16"),
    },
    softmax={"multiplies_by_share_of_sinks": Mutation(
        "the output is multiplied by σ(sink − lse), the sink's share, not by that of the keys, σ(lse − sink)",
        _wrong_sigmoid, "torchtitan PR 2211")},
    receive={"repeats_sinks_of_groups": Mutation("sinks of fewer heads are accepted and repeated",
        lambda call: call if call["sinks"] is None or call["sinks"].numel() >= call.heads
        else call.but(sinks=call["sinks"].repeat(call.heads)[: call.heads]))},
)  # fmt: skip


BACKWARD = mutants(
    Backward,
    sink_gradient={
        "sends_no_gradient_to_sinks": Mutation("the gradient of the sinks is 0",
            lambda share, mean, saved: torch.zeros_like(share[0, :, 0])),
    },
)  # fmt: skip


LEVELS = Levels(
    {"sinks": {"no_sink": None, "sinks": "drawn"}},
    contradictions=(
        Contradiction("a sink takes all weight where every score is far below 0",
            {"sinks": ("sinks",), "draw": ("opposite_logits",)}),
        Contradiction("only sinks have gradients of sinks", {"sinks": ("no_sink",), "gradient": ("dqkv_sinks",)}),
    ),
    unsupported="sinks",
)  # fmt: skip


def _read_needs(call: Call) -> Iterable[str]:
    if "sinks" in call.tensors:
        yield "sinks"
    if "sinks" in call.gradient_of:
        yield "sink_gradient"


def with_sinks(call: Call) -> str:
    """The scores with a column for the sinks, in plain torch."""
    axes = ", 1" * min(call.tensors["query"].dim() - 1, 2)
    return f"torch.cat([scores, sinks.double().view(-1{axes}).expand(*scores.shape[:-1], 1)], -1)"


FEATURE = Feature(
    "sinks", "weights", LEVELS, Argument("sinks", None),
    decisions={
        "sinks": "(h,), the query's dtype: a logit for each query head in natural units, neither scaled nor capped; "
        "weights are exp(S) / (exp(sink) + Σ exp(S)); −∞ is an ordinary softmax; their gradient flows"
    },
    vocabulary={"sinks": "attention sinks", "sink_gradient": "gradients of sinks"},
    read_needs=_read_needs,
    draw=_draw,
    oracle={"visibility": Step(_join, _split), "weights": Step(_empty_rows)},
    hooks=Hooks(
        sink=lambda computation, rows, call: (None if call["sinks"] is None
            else _column(computation.sink_logits(call), rows)),
        sink_gradient=_sink_gradient,
        steps={"sink_logits": sink_logits, "sink_gradient": sink_gradient},
    ),
    complaint=_complaint,
    cases=cases,
    aliases=dict.fromkeys(("sink", "learnable_sink", "attention_sinks", "head_sink", "softmax_one"), "sinks"),
    traits=lambda value, sizes: {"sinks": ("sinks",)},
    in_torch=lambda weights, value, call, conventions: (weights if value is None
        else f"{with_sinks(call)}.softmax(-1)[..., :-1]"),
)  # fmt: skip
