"""Implementations of attention scores with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes
from suite.contracts.steps.attention_scores.contract import SCORES


class Scores(Staged):
    """Every function, step by step."""

    def __call__(self, query: Tensor, key: Tensor, *, score: str = "scaled_dot", **weights: Tensor) -> Tensor:
        score = self.check(score, query, key, weights)
        dtype, wide = query.dtype, self.wide(query)
        query, key, *mine = (tensor.to(wide) for tensor in (query, key, *(weights[name] for name in SCORES[score])))
        by_name: dict[str, Callable[..., Tensor]] = {
            "dot": self.dot,
            "scaled_dot": self.scaled_dot,
            "bilinear": self.bilinear,
            "additive": self.additive,
            "distance": self.distance,
        }
        return by_name[score](query, key, *mine).to(dtype)

    @staticmethod
    def check(score: str, query: Tensor, key: Tensor, weights: dict[str, Tensor]) -> str:
        """Raise for what does not fit; return the function's name."""
        if score not in SCORES or set(weights) != set(SCORES[score]):
            raise ValueError(f"{score} with {sorted(weights)}")
        if query.shape[:-2] != key.shape[:-2]:
            raise ValueError("leading axes differ")
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        width, key_width = query.shape[-1], key.shape[-1]
        if score == "bilinear":
            fits = shapes["w"] == (width, key_width)
        elif score == "additive":
            features = shapes["w_score"][0]
            fits = shapes["w_query"] == (width, features) and shapes["w_key"] == (key_width, features)
        else:
            fits = width == key_width
        if not fits:
            raise ValueError("widths do not chain")
        return score

    @staticmethod
    def dot(query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    @staticmethod
    def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT / math.sqrt(query.shape[-1])

    @staticmethod
    def bilinear(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
        return query @ w @ key.mT

    @staticmethod
    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        return ((query @ w_query).unsqueeze(-2) + (key @ w_key).unsqueeze(-3)).tanh() @ w_score

    @staticmethod
    def distance(query: Tensor, key: Tensor) -> Tensor:
        return -(query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(-1) / 2


IN_SCALED_DOT = mistakes(
    Scores.scaled_dot,
    unscaled=Mistake("the scores are not divided by √e", lambda query, key: query @ key.mT, source="documents, E1"),
    scaled_by_width=Mistake(
        "the scores are divided by e instead of √e", lambda query, key: query @ key.mT / query.shape[-1]
    ),
    scaled_by_keys=Mistake(
        "the scores are divided by √s, the number of keys",
        lambda query, key: query @ key.mT / math.sqrt(max(1, key.shape[-2])),
    ),
)


@instead_of(Scores.scaled_dot, "queries and keys are swapped where there are as many of both")
def swapped(query: Tensor, key: Tensor) -> Tensor:
    scores = Scores.scaled_dot(query, key)
    return scores.mT if scores.shape[-1] == scores.shape[-2] else scores


@instead_of(Scores.scaled_dot, "keys beyond the 64th are scored like the 64th")
def repeats_key_beyond_64(query: Tensor, key: Tensor) -> Tensor:
    scores = Scores.scaled_dot(query, key)
    return torch.cat([scores[..., :64], scores[..., 63:64].expand_as(scores[..., 64:])], -1)


@instead_of(Scores.dot, "dot products are divided by √e")
def scaled_dots(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT / math.sqrt(query.shape[-1])


@instead_of(Scores.dot, "dot products are divided by both norms: cosines")
def cosines(query: Tensor, key: Tensor) -> Tensor:
    norms: Tensor = vector_norm(query, dim=-1, keepdim=True) * vector_norm(key, dim=-1).unsqueeze(-2)
    return query @ key.mT / norms


@instead_of(Scores.bilinear, "the matrix is transposed where it is square")
def transposed_matrix(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
    return query @ (w.mT if w.shape[0] == w.shape[1] else w) @ key.mT


@instead_of(Scores.bilinear, "bilinear scores are divided by √e")
def scaled_bilinear(query: Tensor, key: Tensor, w: Tensor) -> Tensor:
    return query @ w @ key.mT / math.sqrt(query.shape[-1])


@instead_of(Scores.additive, "the features are not squashed by tanh")
def linear_features(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    return ((query @ w_query).unsqueeze(-2) + (key @ w_key).unsqueeze(-3)) @ w_score


@instead_of(Scores.additive, "tanh is (e²ˣ − 1) / (e²ˣ + 1), which overflows to NaN")
def overflowing_tanh(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    powers = (2 * ((query @ w_query).unsqueeze(-2) + (key @ w_key).unsqueeze(-3))).exp()
    return ((powers - 1) / (powers + 1)) @ w_score


@instead_of(Scores.additive, "the weights of query and key are swapped where their shapes allow it")
def swapped_weights(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    if w_query.shape == w_key.shape:
        w_query, w_key = w_key, w_query
    return Scores.additive(query, key, w_query, w_key, w_score)


@instead_of(Scores.additive, "the weights are transposed where they are square, as linear layers store them")
def transposed_weights(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    if w_query.shape[0] == w_query.shape[1] == w_key.shape[0]:
        w_query, w_key = w_query.mT, w_key.mT
    return Scores.additive(query, key, w_query, w_key, w_score)


IN_DISTANCE = mistakes(
    Scores.distance,
    whole_distance=Mistake("squared distances are not halved", lambda query, key: 2 * Scores.distance(query, key)),
    positive_distance=Mistake(
        "distances are positive: far keys score high", lambda query, key: -Scores.distance(query, key)
    ),
    distance_without_query_norm=Mistake(
        "the query's norm is left out, as a softmax allows",
        lambda query, key: query @ key.mT - (key**2).sum(-1).unsqueeze(-2) / 2,
        source="documents, 11.3.1",
    ),
    coarse_distance=Mistake(
        "distances are rounded to hundredths", lambda query, key: (Scores.distance(query, key) * 100).round() / 100
    ),
)


@instead_of(Scores.distance, "distances are not squared")
def unsquared_distance(query: Tensor, key: Tensor) -> Tensor:
    norms: Tensor = vector_norm(query.unsqueeze(-2) - key.unsqueeze(-3), dim=-1)
    return norms / -2


@instead_of(Scores.check, "weights that the function does not take are accepted in silence")
def accepts_weights_of_another(score: str, query: Tensor, key: Tensor, weights: dict[str, Tensor]) -> str:
    return Scores.check(score, query, key, {name: weights[name] for name in SCORES.get(score, ()) if name in weights})


def _of_items(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return Scores()(query, change(query, key) if key.dim() > 2 else key, **options)

    return scores


keys_of_first_item = Deviation(
    "keys_of_first_item",
    "the keys of the first item serve all items",
    _of_items(lambda query, key: key[:1].expand_as(key)),
)
keys_of_first_head = Deviation(
    "keys_of_first_head",
    "the keys of the first head serve all heads",
    _of_items(lambda query, key: key[..., :1, :, :].expand_as(key)),
)


broadcasts_items = Deviation(
    "broadcasts_items",
    "keys of one item serve all items of the query",
    _of_items(lambda query, key: key.expand(*query.shape[:-2], *key.shape[-2:]) if len(key) == 1 else key),
)


CONTROLS = {"correct": Scores()}
OTHERS = [in_memory_order(Scores()), *imprecise(Scores)]
