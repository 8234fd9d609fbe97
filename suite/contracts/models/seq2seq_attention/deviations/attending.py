"""Mistakes in which positions are attended to, in the scores, their softmax and the mixture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent

IN_WITHIN = mistakes(
    Recurrent.within,
    ignored_lengths=Mistake(
        "the lengths are ignored",
        lambda lengths, positions: torch.ones(len(lengths), positions, dtype=torch.bool, device=lengths.device),
    ),
    inverted_lengths=Mistake(
        "the positions beyond the lengths are attended to, and no others",
        lambda lengths, positions: ~Recurrent.within(lengths, positions),
    ),
    one_position_more=Mistake(
        "one position beyond the length is attended to",
        lambda lengths, positions: Recurrent.within(lengths + 1, positions),
    ),
    one_position_less=Mistake(
        "the last position within the length is left out",
        lambda lengths, positions: Recurrent.within(lengths - 1, positions),
    ),
    first_length_for_all=Mistake(
        "the first item's length serves all",
        lambda lengths, positions: Recurrent.within(lengths[:1].expand_as(lengths), positions),
    ),
    drops_positions_beyond_32=Mistake(
        "positions beyond the 32nd are not attended to",
        lambda lengths, positions: Recurrent.within(lengths.clamp_max(32), positions),
    ),
)


IN_AROUND = mistakes(
    Recurrent.around,
    ignored_window=Mistake(
        "the window is ignored", lambda step, positions, window: torch.ones_like(positions, dtype=torch.bool)
    ),
    window_of_d=Mistake(
        "the window has D positions on its sides together, not on each",
        lambda step, positions, window: 2 * (positions - step).abs() <= window,
        source="documents, E12",
    ),
    window_of_2d=Mistake(
        "the window has 2D positions: the last one is left out",
        lambda step, positions, window: (positions >= step - window) & (positions < step + max(window, 1)),
    ),
    window_before_the_step=Mistake(
        "the window ends at the step, 2D + 1 positions long",
        lambda step, positions, window: (positions >= step - 2 * window) & (positions <= step),
    ),
    late_window=Mistake(
        "the window is centred one position late: steps are counted from 1",
        lambda step, positions, window: Recurrent.around(step + 1, positions, window),
    ),
)


@instead_of(Recurrent.around, "the window is moved into the source, so that it always has 2D + 1 positions")
def window_kept_inside(step: int, positions: Tensor, window: int) -> Tensor:
    return Recurrent.around(max(window, min(step, len(positions) - 1 - window)), positions, window)


@instead_of(Recurrent.activate, "the features are not squashed by tanh")
def linear_features(features: Tensor) -> Tensor:
    return features.clone()


@instead_of(Recurrent.weigh, "additive scores are divided by √d", source="documents, 11.3.4: no scaling")
def scaled_additive_scores(features: Tensor, w_score: Tensor) -> Tensor:
    return features @ w_score / math.sqrt(len(w_score))


@instead_of(Recurrent.factor, "all dot products are divided by √d")
def scaled_dot_products(score: str, width: int) -> float:
    return 1 / math.sqrt(width)


@instead_of(Recurrent.factor, "no dot product is divided by √d")
def unscaled_dot_products(score: str, width: int) -> float:
    return 1.0


IN_SOFTMAX = mistakes(
    Recurrent.softmax,
    zero_fill=Mistake(
        "scores that are masked are zeros, which weigh too",
        lambda scores, allowed: scores.masked_fill(~allowed, 0.0).softmax(-1),
    ),
    finite_fill=Mistake(
        "masked scores are −10⁶: a step that may attend to nothing gets the mean",
        lambda scores, allowed: scores.masked_fill(~allowed, -1e6).softmax(-1),
        source="documents, E21",
    ),
    nan_for_empty_rows=Mistake(
        "a step that may attend to nothing gives NaN",
        lambda scores, allowed: scores.masked_fill(~allowed, -math.inf).softmax(-1),
    ),
    uniform_weights=Mistake(
        "all positions weigh alike", lambda scores, allowed: Recurrent.softmax(torch.zeros_like(scores), allowed)
    ),
)


@instead_of(Recurrent.softmax, "masked scores are −10,000, above some that are not masked")
def fills_with_minus_10000(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = scores.masked_fill(~allowed, -1e4).softmax(-1)
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


@instead_of(Recurrent.softmax, "exponentials are taken without subtracting the largest score: they overflow")
def overflowing_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    powers = scores.masked_fill(~allowed, -math.inf).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@instead_of(
    Recurrent.mix, "the context is the encoder's last state: no attention", source="documents, doc-002: bottleneck"
)
def last_state_alone(weights: Tensor, memory: Tensor) -> Tensor:
    return memory[:, -1]


@instead_of(Recurrent.mix, "the first item's states serve all")
def memory_of_first_item(weights: Tensor, memory: Tensor) -> Tensor:
    return weights @ memory[0]
