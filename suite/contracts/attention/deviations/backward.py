"""Correct attention with its gradient written out in steps, each of which a deviation may replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from suite.contracts.attention.deviations.asked import Asked, check
from suite.contracts.attention.deviations.staged import Dense, Staged, multiplier


@dataclass(frozen=True)
class Saved:
    """What the forward keeps for the backward, in the accumulator's dtype and with the query's heads."""

    asked: Asked
    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    weights: Tensor  # ... h l s
    keep: Tensor | float  # ... h l s, dropout's multiplier
    needs: tuple[bool, bool, bool, bool]
    """Which of query, key, value and mask want a gradient."""


class Backward(Staged):
    """The dense formula, whose gradient is computed by hand."""

    def __call__(self, asked: Asked) -> Any:
        check(asked)
        apply: Callable[..., Any] = _WithBackward.apply
        return apply(self, asked, asked.query, asked.key, asked.value, asked.mask)

    @staticmethod
    def output_gradient(gradient: Tensor, saved: Saved) -> Tensor:
        return gradient.to(saved.value.dtype)

    @staticmethod
    def weights(saved: Saved) -> Tensor:
        return saved.weights

    @staticmethod
    def keep(saved: Saved) -> Tensor | float:
        return saved.keep

    @staticmethod
    def weights_gradient(d_output: Tensor, value: Tensor, keep: Tensor | float) -> Tensor:
        return (d_output @ value.transpose(-1, -2)) * keep  # ... h l s

    @staticmethod
    def mean(weights: Tensor, d_weights: Tensor) -> Tensor:
        return (weights * d_weights).sum(-1, keepdim=True)  # ... h l 1

    @staticmethod
    def scores_gradient(weights: Tensor, d_weights: Tensor, mean: Tensor) -> Tensor:
        return weights * (d_weights - mean)  # ... h l s

    @staticmethod
    def query_gradient(d_scores: Tensor, saved: Saved) -> Tensor:
        return saved.asked.factor * (d_scores @ saved.key)  # ... h l e

    @staticmethod
    def key_gradient(d_scores: Tensor, saved: Saved) -> Tensor:
        return saved.asked.factor * (d_scores.transpose(-1, -2) @ saved.query)  # ... h s e

    @staticmethod
    def value_gradient(kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Tensor:
        return kept_weights.transpose(-1, -2) @ d_output  # ... h s v

    @staticmethod
    def sum_group(gradient: Tensor, saved: Saved) -> Tensor:
        """From the query's heads to the key's."""
        if not saved.asked.grouped:
            return gradient
        return by_group(gradient, saved.asked).sum(-3)  # ... g s e|v

    @staticmethod
    def mask_gradient(d_scores: Tensor, mask: Tensor) -> Tensor:
        return d_scores.sum_to_size(mask.shape)

    @staticmethod
    def deliver(gradients: list[Tensor | None], saved: Saved) -> list[Tensor | None]:
        """The gradients of query, key, value and mask; None where none is wanted."""
        return gradients

    def run(self, gradient: Tensor, saved: Saved) -> list[Tensor | None]:
        asked = saved.asked
        weights, keep = self.weights(saved), self.keep(saved)
        d_output = self.output_gradient(gradient, saved)
        d_weights = self.weights_gradient(d_output, saved.value, keep)
        d_scores = self.scores_gradient(weights, d_weights, self.mean(weights, d_weights))
        gradients: list[Tensor | None] = [None, None, None, None]
        if saved.needs[0]:
            gradients[0] = self.query_gradient(d_scores, saved)
        if saved.needs[1]:
            gradients[1] = self.sum_group(self.key_gradient(d_scores, saved), saved)
        if saved.needs[2]:
            gradients[2] = self.sum_group(self.value_gradient(weights * keep, d_output, saved), saved)
        if saved.needs[3] and asked.mask is not None:
            gradients[3] = self.mask_gradient(d_scores, asked.mask)
        gradients = [None if gradient is None else gradient.to(asked.query.dtype) for gradient in gradients]
        return self.deliver(gradients, saved)


class _WithBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, steps: Backward, asked: Asked, *tensors: Tensor | None) -> Tensor:
        query, key, value = Dense.widen(asked)
        key, value = Dense.expand_heads(key, value, asked.heads)
        weights = forward_weights(asked, query, key)
        keep = multiplier(weights, asked.dropout_p) if asked.dropout_p > 0 else 1.0
        ctx.steps, ctx.saved = steps, Saved(asked, query, key, value, weights, keep, tuple(ctx.needs_input_grad[2:]))
        return ((weights * keep) @ value).to(asked.query.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return (None, None, *ctx.steps.run(gradient, ctx.saved))


def by_group(gradient: Tensor, asked: Asked) -> Tensor:
    """The query's heads as groups of the key's: ... g h/g s e|v."""
    *lead, heads, keys, width = gradient.shape
    return gradient.reshape(*lead, asked.key_heads, heads // asked.key_heads, keys, width)


def forward_weights(asked: Asked, query: Tensor, key: Tensor) -> Tensor:
    """The weights before dropout, of widened queries and keys that have the query's heads."""
    scores = Dense.scores(query, key, asked.factor)
    if asked.is_causal:
        scores = Dense.causal_mask(scores, asked)
    if asked.mask is not None:
        add = Dense.bool_mask if asked.mask.dtype == torch.bool else Dense.float_mask
        scores = add(scores, asked.mask, asked)
    return Dense.softmax(scores, asked)
