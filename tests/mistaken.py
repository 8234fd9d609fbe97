"""Attentions with one mistake each, in the style of submissions, with the mutants that explain them.

They share no code with the mutants, so that a diagnosis proves more than that a mutant equals itself.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot, softmax

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def wrong(
    mutants: str,
    *,
    scale: Callable[[Tensor], float] = lambda q: q.shape[-1] ** -0.5,
    scores: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT,
    weights: Callable[[Tensor], Tensor] = lambda s: softmax(s, -1),
    output: Callable[[Tensor, Tensor], Tensor] = lambda w, v: w @ v,
) -> tuple[Attention, frozenset[str]]:
    """An attention with a wrong step, and the names of mutants that may explain it."""

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return output(weights(scores(query, key) * scale(query)), value)

    return attention, frozenset(mutants.split())


def shifted(scores: Tensor) -> Tensor:
    """exp of the scores minus the largest of their row."""
    return (scores - scores.amax(-1, keepdim=True)).exp()


def share(powers: Tensor, more: float = 0.0) -> Tensor:
    """Numbers divided by the sum of their row, which may be `more` too large."""
    return powers / (powers.sum(-1, keepdim=True) + more)


MISTAKEN: dict[str, tuple[Attention, frozenset[str]]] = {
    "no scale": wrong("unscaled", scale=lambda q: 1.0),
    "divided by e": wrong("divides_by_width", scale=lambda q: 1 / q.shape[-1]),
    "multiplied by √e": wrong("multiplies_by_root", scale=lambda q: q.shape[-1] ** 0.5),
    "the scale twice": wrong("applies_scale_twice", scale=lambda q: (q.shape[-1] ** -0.5) ** 2),
    "the root of the scale": wrong("applies_root_of_scale", scale=lambda q: (q.shape[-1] ** -0.5) ** 0.5),
    "e to the fourth root": wrong("divides_by_fourth_root", scale=lambda q: q.shape[-1] ** -0.25),
    "1/√s": wrong("scales_by_number_of_keys", scale=lambda q: 1.0, scores=lambda q, k: q @ k.mT * k.shape[-2] ** -0.5),
    "1/√l": wrong("scales_by_number_of_queries", scale=lambda q: q.shape[-2] ** -0.5),
    "1/√64 always": wrong("scales_as_if_width_were_64", scale=lambda q: 0.125),
    "squared distances": wrong("takes_negative_distances", scores=lambda q, k: -(torch.cdist(q, k) ** 2)),
    "cosine": wrong("takes_cosines", scores=lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT),
    "the sign": wrong("negates_scores", scores=lambda q, k: -q @ k.mT),
    "absolute scores": wrong("takes_absolute_scores", scores=lambda q, k: (q @ k.mT).abs()),
    "rectified scores": wrong("rectifies_scores", scores=lambda q, k: (q @ k.mT).relu()),
    "query in half": wrong(
        "rounds_queries_and_keys_to_half multiplies_scores_in_ten_bits",
        scores=lambda q, k: q.half().float() @ k.half().float().mT,
    ),
    "softmax over queries": wrong("normalises_over_queries", weights=lambda s: softmax(s, -2)),
    "softmax over heads": wrong("takes_softmax_along_heads", weights=lambda s: softmax(s, -3)),
    "softmax over items": wrong("takes_softmax_along_items", weights=lambda s: softmax(s, -4)),
    "softmax over everything": wrong(
        "normalises_over_whole_matrix", weights=lambda s: softmax(s.flatten(-2), -1).view(s.shape)
    ),
    "sigmoid": wrong("takes_sigmoid", weights=lambda s: s.sigmoid()),
    "log softmax": wrong("takes_log_of_weights", weights=lambda s: softmax(s, -1).log()),
    "softmax twice": wrong("takes_softmax_twice", weights=lambda s: softmax(softmax(s, -1), -1)),
    "unnormalised": wrong("does_not_normalise", weights=shifted),
    "off by one": wrong("adds_one_to_shifted_sum", weights=lambda s: share(shifted(s), 1.0)),
    "base two": wrong("takes_powers_of_two", weights=lambda s: softmax(s * math.log(2), -1)),
    "ε in the sum": wrong("adds_epsilon_to_sum", weights=lambda s: share(shifted(s), 1e-5)),
    "hardmax": wrong("takes_value_of_best_key", weights=lambda s: one_hot(s.argmax(-1), s.shape[-1]).float()),
    "divided by the count": wrong("divides_by_number_of_keys", weights=lambda s: s / s.shape[-1]),
    "linear scores": wrong("normalises_linear_scores", weights=share),
    "values of the mean": wrong("returns_mean_of_values", weights=lambda s: torch.full_like(s, 1 / s.shape[-1])),
    "the values of the next head": wrong("rolls_heads_of_values", output=lambda w, v: w @ v.roll(1, -3)),
    "output in (b, l, h, e)": wrong("returns_heads_last", output=lambda w, v: (w @ v).transpose(-2, -3)),
    "reshaped instead of transposed": wrong(
        "reshapes_output_instead_of_transposing",
        output=lambda w, v: (w @ v).transpose(-2, -3).reshape(*w.shape[:-1], v.shape[-1]),
    ),
    "the first value added": wrong("adds_first_value", output=lambda w, v: w @ v + v[..., :1, :]),
    "values in bfloat16": wrong("rounds_values_to_half", output=lambda w, v: w @ v.bfloat16().float()),
    "weights in half": wrong(
        "rounds_weights_to_half rounds_weights_to_float16", output=lambda w, v: w.half().float() @ v
    ),
}
"""By description: an attention that fails the plainest case, and the mutants that may explain it."""


# Backward passes


def mean(weighted: Tensor, axis: int = -1) -> Tensor:
    return weighted.sum(axis, keepdim=True)


def by_hand(
    *,
    softmax: Callable[[Tensor, Tensor], Tensor] = lambda p, dp: p * (dp - mean(p * dp)),
    scale: Callable[[float, Tensor], float] = lambda scale, query: scale,
    gradients: Callable[[Tensor, Tensor, Tensor, Tensor], Any] = lambda p, do, dq, dk: (dq, dk, p.mT @ do),
) -> Callable[..., Tensor]:
    """Attention whose backward pass has the textbook's five lines, some of which are changed."""

    class ByHand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None, factor: float) -> Tensor:
            scores = query @ key.mT * factor
            weights = (scores if seen is None else scores.masked_fill(~seen, -torch.inf)).softmax(-1)
            ctx.save_for_backward(query, key, value, weights)
            ctx.factor = factor
            return weights @ value

        @staticmethod
        def backward(ctx: Any, do: Tensor) -> Any:
            query, key, value, p = ctx.saved_tensors
            ds = softmax(p, do @ value.mT) * scale(ctx.factor, query)
            return (*gradients(p, do, ds @ key, ds.mT @ query), None, None)

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        output: Tensor = ByHand.apply(query, key, value, attn_mask, factor)  # type: ignore[no-untyped-call]
        return output

    return attention
