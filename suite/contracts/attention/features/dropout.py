"""Dropout: some weights become 0 at random, the others are scaled up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnsuite.cases import Call, Conventions
from attnsuite.cases.covering import Contradiction
from attnsuite.cases.draws import replayed
from attnsuite.cases.mutants import Mutation, mutants, with_arguments
from attnsuite.contracts.attention.computation.call import AttentionCall
from attnsuite.contracts.attention.computation.forward import Dense, Whole, correct, in_places
from attnsuite.contracts.attention.computation.gradients import Backward, Saved
from attnsuite.contracts.attention.feature import Argument, Feature, Hooks, Levels, Step
from attnsuite.contracts.attention.lazily import np, torch

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.oracle import ForwardPass


def _drop(forward: ForwardPass) -> None:
    """The oracle's step. The dropped weights are known from the case, unless p is 1."""
    p = float(forward.problem.options.get("dropout_p") or 0.0)
    kept = np.zeros((), dtype=bool) if p == 1 else forward.problem.keep_mask
    if kept is not None:
        forward.dropout_factor = np.where(kept, forward.one / (forward.one - p) if p < 1 else 0.0, 0.0)  # b h l s
        forward.sums_to_one = False


# The computation's step


def _complaint(call: AttentionCall) -> str:
    p = call["dropout_p"]
    return "" if 0 <= p <= 1 else f"dropout_p must lie in [0, 1], not be {p}"


def multiplier(weights: Tensor, p: float) -> Tensor:
    """The factor for each weight: 0 with probability p, else 1/(1−p)."""
    return kept(weights, p).to(weights.dtype) / (1 - p if p < 1 else 1.0)


def kept(weights: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """True for the kept weights. Random numbers are below 1, so p = 1 keeps none."""
    replay = replayed(weights) if generator is None else None
    drawn = torch.rand(weights.shape, generator=generator, device=weights.device) >= p
    return drawn if replay is None else replay.to(drawn.device)


def dropout(weights: Tensor, p: float) -> Tensor:
    return weights * multiplier(weights, p)


def _weigh(computation: Any, weights: Tensor, call: AttentionCall) -> Tensor:
    dropped: Tensor = computation.dropout(weights, call["dropout_p"]) if call["dropout_p"] > 0 else weights
    return dropped


def _multiplier(weights: Tensor, call: AttentionCall) -> Tensor | None:
    return multiplier(weights, call["dropout_p"]) if call["dropout_p"] > 0 else None


# Mutants


def _rescale(p: float) -> float:
    return 1 / (1 - p) if p < 1 else 0.0


def shared(axis: int) -> Any:
    """The mistake of one draw for all places along an axis."""

    def step(weights: Tensor, p: float) -> Tensor:
        if weights.dim() < -axis or weights.shape[axis] == 0:
            return dropout(weights, p)
        return weights * multiplier(weights.narrow(axis, 0, 1), p)

    return step


def _repeated(axis: int, count: int) -> Any:
    """The mistake of a counter that restarts: the draw repeats along an axis."""

    def step(weights: Tensor, p: float) -> Tensor:
        if weights.dim() < -axis or weights.shape[axis] <= count:
            return dropout(weights, p)
        size = weights.shape[axis]
        places = torch.arange(size, device=weights.device) % count
        return weights * multiplier(weights.narrow(axis, 0, count), p).index_select(axis, places)

    return step


def normalised(weights: Tensor, p: float) -> Tensor:
    """The mistake of weights that are normalised again."""
    rest = weights * kept(weights, p)
    total = rest.sum(-1, keepdim=True)
    return rest / total.masked_fill(total == 0, 1.0)


def _own_generator(weights: Tensor, p: float) -> Tensor:
    generator = torch.Generator(weights.device)
    generator.seed()
    return weights * kept(weights, p, generator) * _rescale(p)


def always_alike(weights: Tensor, p: float) -> Tensor:
    """The mistake of a random source that restarts in every call."""
    generator = torch.Generator(weights.device).manual_seed(0)
    return weights * kept(weights, p, generator) * _rescale(p)


def _dropped_output(call: AttentionCall) -> Any:
    output, p = correct(call.but(dropout_p=0.0)), call["dropout_p"]
    return output * multiplier(output, p) if p > 0 else output


def _dropped_scores(scores: Tensor, call: AttentionCall) -> Tensor:
    if call["dropout_p"]:
        scores = scores.masked_fill(~kept(scores, call["dropout_p"]) & (scores > -float("inf")), 0.0)
    return Dense.softmax(scores, call)


INSTEAD = mutants(
    Whole,
    attention={
        "drops_outputs": Mutation("dropout is applied to the output instead of the weights", _dropped_output),
        "drops_scores": Mutation("dropout is applied to the scores before the softmax instead of the weights",
            Dense(softmax=_dropped_scores, dropout=lambda weights, p: weights)),
        "drops_at_probability_zero": Mutation("at p = 0, a tenth of the weights is dropped",
            with_arguments(call=lambda call: call.but(dropout_p=call["dropout_p"] or 0.1)),
            "pytorch issue 124464 (dropout in evaluation)"),
    },
)  # fmt: skip


def _drawn_anew(saved: Saved) -> Tensor | float:
    drawn = _multiplier(saved.weights, saved.call)
    return 1.0 if drawn is None else drawn


BACKWARD = mutants(
    Backward,
    keep={
        "backward_drops_anew": Mutation("the backward draws other weights to drop", _drawn_anew, "xformers issue 724"),
        "backward_ignores_dropout": Mutation("the backward ignores dropout", lambda saved: 1.0),
        **in_places("backward_drops_anew", "the backward draws other weights to drop",
            lambda here: lambda saved: _drawn_anew(saved) if here(saved.call) else saved.keep, "when_grouped",
            "for_one_query"),
    },
)  # fmt: skip


@Backward.instead("mean", "the gradient's mean is taken before dropout: the D term lacks the kept weights")
def mean_ignores_dropout(weights: Tensor, d_weights: Tensor, saved: Saved) -> Tensor:
    # dropped weights have a gradient of exactly 0; their share is filled with the mean of the others
    dropped = d_weights == 0
    kept = (weights * ~dropped).sum(-1, keepdim=True)
    return Backward.mean(weights, d_weights, saved) / kept.masked_fill(kept == 0, 1.0)


def _limited(limit: Any) -> Any:
    """A probability that is clamped, not refused."""
    return lambda call: call.but(dropout_p=limit(call["dropout_p"]))


ACCEPTED = mutants(
    Dense,
    dropout={
        "ignores_dropout": Mutation("dropout is ignored", lambda weights, p: weights),
        "does_not_rescale_kept_weights": Mutation("kept weights are not rescaled by 1/(1−p)",
            lambda weights, p: weights * kept(weights, p)),
        "rescales_kept_weights_by_p": Mutation("kept weights are rescaled by 1/p instead of 1/(1−p)",
            lambda weights, p: weights * kept(weights, p) / p, "documents: doc-003 E13"),
        "drops_with_probability_of_keeping": Mutation("weights are dropped with probability 1−p",
            lambda weights, p: weights * kept(weights, 1 - p) * _rescale(p)),
        "drops_a_tenth_too_rarely": Mutation("weights are dropped a tenth too rarely",
            lambda weights, p: weights * kept(weights, p * 0.9 if p < 1 else p) * _rescale(p)),
        "drops_alike_for_all_queries": Mutation("the same weights are dropped for all queries of a matrix", shared(-2)),
        "drops_alike_in_all_heads": Mutation("the same weights are dropped in all heads", shared(-3)),
        "drops_alike_in_all_items": Mutation("the same weights are dropped in all batch items", shared(-4)),
        "normalises_after_dropout": Mutation("the weights are normalised again after dropout", normalised),
        "gives_nan_for_certain_dropout": Mutation("p = 1 gives NaN: 0 · 1/0",
            lambda weights, p: weights * (float("nan") if p == 1 else multiplier(weights, p))),
        "ignores_manual_seed": Mutation("torch.manual_seed has no influence on what is dropped", _own_generator),
        **{f"repeats_draw_after_{count}_{name}": Mutation(f"after {count} {name} the same weights are dropped again",
            _repeated(axis, count)) for axis, count, name in ((-1, 512, "keys"), (-2, 512, "queries"), (-3, 16, "heads"))},
        "gives_nan_for_certain_dropout_beyond_a_tile": Mutation("p = 1 gives NaN beyond 64 keys", lambda weights, p:
            weights * (float("nan") if p == 1 and weights.shape[-1] > 64 else multiplier(weights, p))),
        **{f"draws_in_{bits}_bits": Mutation(f"random numbers have {bits} bits, to which the probability is rounded",
            lambda weights, p, steps=2**bits: weights * kept(weights, round(p * steps) / steps) * _rescale(p),
            "thresholds on few random bits; torch's flash kernel for GPUs") for bits in (3, 8)},
        "drops_alike_in_every_call": Mutation("the same weights are dropped in every call, whatever the seed",
            always_alike),
    },
    receive={
        "accepts_negative_dropout": Mutation("a negative dropout_p is accepted as 0", _limited(lambda p: max(p, 0.0)),
            "pytorch, scaled_dot_product_attention on a CPU"),
        "accepts_dropout_above_one": Mutation("a dropout_p above 1 is accepted as 1", _limited(lambda p: min(p, 1.0))),
    },
)  # fmt: skip

LEVELS = Levels(
    {"dropout": {"no_dropout": None, "dropout_0": 0.0, "dropout_1": 1.0, "dropout": 0.4}},
    lambda levels: {} if levels["dropout"] is None else {"dropout_p": levels["dropout"]},
    (
        Contradiction("what was dropped is read off values that are the identity, which are drawn for nothing else",
            {"dropout": ("no_dropout", "dropout_0", "dropout_1"), "draw": ("identity_values",)}),
        Contradiction("what was dropped is read off values that are the identity",
            {"dropout": ("dropout",), "draw": ("peaked", "offset_values", "opposite_logits", "uneven_sizes")}),
        Contradiction("where scores have lost all digits, no weight is known to be above 0",
            {"dropout": ("dropout",), "mask_pattern": ("rows_of_1e9",)}),
    ),
    unsupported="dropout",
)  # fmt: skip


def _in_torch(weights: str, value: float | None, call: Call, conventions: Conventions) -> str | None:
    """None with a probability between 0 and 1: chance decides."""
    if not value:
        return weights
    return f"0 * ({weights})" if value == 1 else None


FEATURE = Feature(
    "dropout", "weights", LEVELS, Argument("dropout_p", 0.0, place=1),
    place=1,
    case_key="dropout_p",
    decisions={"dropout": "on the weights; kept ones × 1/(1−p); p = 0 is exact; p = 1 gives zeros"},
    vocabulary={"dropout": "dropout"},
    oracle={"weights": Step(_drop)},
    hooks=Hooks(weigh=_weigh, multiplier=_multiplier, steps={"dropout": dropout}),
    seeded=True,
    complaint=_complaint,
    aliases={"dropout_p": "dropout"},
    in_torch=_in_torch,
    traits=lambda p, sizes: {"dropout": ("dropout", f"dropout of {p:g}")},
)  # fmt: skip
