"""Attentions in the styles of teaching code: classes, modules, and functions that return their weights too."""

import math

import torch
from torch import Tensor, nn


def weights_of(query: Tensor, key: Tensor) -> Tensor:
    return torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(key.size(-1)), dim=-1)


class Plain:
    """A plain class, whose instances are called."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return weights_of(query, key) @ value


class Module(nn.Module):
    """A module that drops weights while it is trained, and returns them beside its output."""

    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        weights = weights_of(query, key)
        return self.dropout(weights) @ value, weights


class Inherits(Module):
    """Has its method forward from another class."""


class Made:
    """Cannot be made without being told something."""

    def __init__(self, width: int, heads: int) -> None:
        self.width, self.heads = width, heads

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return weights_of(query, key) @ value


class Raises:
    """Has defaults with which it cannot be made."""

    def __init__(self, size: int = 128, heads: int = 5) -> None:
        if size % heads:
            raise ValueError(f"{size} is not divisible by {heads}")

    def __call__(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return value


class Projects(nn.Module):
    """Has weights of its own, which nobody else knows."""

    def __init__(self) -> None:
        super().__init__()
        self.w_query, self.w_key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return weights_of(self.w_query(query), self.w_key(key)) @ value


class Silent:
    """Has nothing to call."""


class Applied(torch.autograd.Function):
    """Is applied, and not called."""

    @staticmethod
    def forward(context: object, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return weights_of(query, key) @ value


class Empty(nn.Module):
    """Has no forward."""


empty = Empty()
instance = Module()
made = Made(8, 2)


def pair(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights_of(query, key)
    return weights @ value, weights


def by_name(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns its scores too: which of the two are the weights, their names say."""
    weights = weights_of(query, key)
    return weights @ value, {"scores": query @ key.transpose(-2, -1), "weights": weights}


def wrong_weights(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Returns scores, not weights, beside an output that is right."""
    return weights_of(query, key) @ value, query @ key.transpose(-2, -1)


def wrong_output(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights_of(query, key)
    return weights @ value * 1.01, weights


def wrong_both(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Forgets the scale."""
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
    return weights @ value, weights


def turned_weights(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Returns weights by key and query."""
    weights = weights_of(query, key)
    return weights @ value, weights.transpose(-2, -1)


def weights_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    weights = weights_of(query, key)
    return weights, weights @ value


def attention_weights(scores: Tensor) -> Tensor:
    """A softmax and nothing else: it does without the parameters that have defaults."""
    return torch.softmax(scores.masked_fill(scores.isinf(), -1e30), -1)


def additive_attention(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor
) -> tuple[Tensor, Tensor]:
    features = torch.tanh((query @ w_query).unsqueeze(2) + (key @ w_key).unsqueeze(1))
    weights = torch.softmax(features @ w_score, dim=-1)
    return weights @ value, weights


def attention_scores(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Returns two things where one is due."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores, scores.softmax(-1)
