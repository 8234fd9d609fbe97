"""Implementations of attention scores with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import vector_norm

from attnsuite.cases.computations import ANY, Arguments, Axes, Sizes, Steps, broadcasts, usual_mutants
from attnsuite.cases.mutants import (
    Mutation,
    first_for_all,
    formula,
    mutants,
    repeated_beyond,
    swapped_where_equal,
    turned,
    with_arguments,
    with_result,
)
from attnsuite.contracts.steps.attention_scores.contract import SCORES

AXES = {
    "dot": Axes(query="… l e", key="… s e"),
    "scaled_dot": Axes(query="… l e", key="… s e"),
    "bilinear": Axes(query="… l q", key="… s k", w="q k"),
    "additive": Axes(query="… l q", key="… s k", w_query="q e", w_key="k e", w_score="e"),
    "distance": Axes(query="… l e", key="… s e"),
}


class Scores(Steps):
    """Every function, step by step."""

    choices: ClassVar = {"score": tuple(SCORES)}

    def compute(
        self,
        query: Tensor,
        key: Tensor,
        *,
        score: str = "scaled_dot",
        attn_mask: Tensor | None = None,
        **weights: Tensor,
    ) -> Tensor:
        given = (query, key, *(weights[name] for name in SCORES[score]))
        found: Tensor = getattr(self, score)(*(tensor.to(self.wide(query)) for tensor in given))
        return (found if attn_mask is None else self.hide(found, attn_mask)).to(query.dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        score, weights = given["score"], given.get("weights", {})
        if set(weights) != set(SCORES[score]):
            raise ValueError(f"{score} with {sorted(weights)}")
        found = AXES[score].check({**given, **weights})
        mask, shape = given["attn_mask"], (*found[ANY], given["query"].shape[-2], given["key"].shape[-2])
        if mask is not None and (mask.dtype != torch.bool or not broadcasts(mask, *shape)):
            raise ValueError("the mask does not fit")

    dot = formula(lambda query, key: query @ key.mT)
    scaled_dot = formula(lambda query, key: query @ key.mT / math.sqrt(query.shape[-1]))
    bilinear = formula(lambda query, key, w: query @ w @ key.mT)

    @staticmethod
    def additive(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
        return features(query, key, w_query, w_key).tanh() @ w_score

    distance = formula(lambda query, key: -(query.unsqueeze(-2) - key.unsqueeze(-3)).square().sum(-1) / 2)
    hide = formula(lambda scores, attn_mask: scores.masked_fill(~attn_mask, -math.inf))


def filled_with(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    """The mistake of a finite number in the place of −∞."""
    return lambda scores, attn_mask: scores.masked_fill(~attn_mask, number)


def features(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor) -> Tensor:
    """… l s e."""
    return (query @ w_query).unsqueeze(-2) + (key @ w_key).unsqueeze(-3)


def overflowing_tanh(x: Tensor) -> Tensor:
    powers = (2 * x).exp()
    return (powers - 1) / (powers + 1)


def cosines(query: Tensor, key: Tensor) -> Tensor:
    norms: Tensor = vector_norm(query, dim=-1, keepdim=True) * vector_norm(key, dim=-1).unsqueeze(-2)
    return query @ key.mT / norms


def of_another_score(weights: dict[str, Tensor], score: str) -> dict[str, Tensor]:
    """What the score does not take is dropped in silence."""
    return {name: tensor for name, tensor in weights.items() if name in SCORES[score]}


def swapped_weights(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    if w_query.shape == w_key.shape:
        w_query, w_key = w_key, w_query
    return Scores.additive(query, key, w_query, w_key, w_score)


def transposed_weights(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    if w_query.shape[0] == w_query.shape[1] == w_key.shape[0]:
        w_query, w_key = w_query.mT, w_key.mT
    return Scores.additive(query, key, w_query, w_key, w_score)


CONTROLS = {"correct": Scores()}
GENERAL_MUTANTS = usual_mutants(Scores)
MUTANTS = mutants(
    Scores,
    whole={
        "accepts_weights_of_another": Mutation(
            "weights that the function does not take are accepted in silence", with_arguments(weights=of_another_score)
        ),
        "keys_of_first_item": Mutation(
            "the keys of the first item serve all items", with_arguments(key=first_for_all(from_rank=3))
        ),
        "keys_of_first_head": Mutation(
            "the keys of the first head serve all heads", with_arguments(key=first_for_all(-3, from_rank=3))
        ),
        "swapped_items_and_heads": Mutation(
            "items and heads of the keys are swapped where there are as many",
            with_arguments(key=swapped_where_equal(of_rank=4)),
        ),
        "swapped_items_and_queries": Mutation(
            "items are taken for queries where there are as many", with_arguments(query=swapped_where_equal(of_rank=3))
        ),
        "swapped_beside_scaled_dot": Mutation(
            "queries and keys are swapped where there are as many, by all functions but scaled_dot",
            with_result(lambda scores, score: scores if score == "scaled_dot" else turned(scores)),
        ),
        "broadcasts_items": Mutation(
            "keys of one item serve all items of the query",
            with_arguments(
                key=lambda key, query: key.expand(*query.shape[:-2], *key.shape[-2:]) if len(key) == 1 else key
            ),
        ),
    },
    scaled_dot={
        "unscaled": Mutation("the scores are not divided by √e", Scores.dot, "documents, E1"),
        "scaled_by_width": Mutation(
            "the scores are divided by e instead of √e", lambda query, key: query @ key.mT / query.shape[-1]
        ),
        "scaled_by_keys": Mutation(
            "the scores are divided by √s, the number of keys",
            lambda query, key: query @ key.mT / math.sqrt(max(1, key.shape[-2])),
        ),
        "swapped": Mutation("queries and keys are swapped where there are as many of both", with_result(turned)),
        "repeats_key_beyond_64": Mutation(
            "keys beyond the 64th are scored like the 64th", with_result(repeated_beyond(64, -1))
        ),
    },
    dot={
        "scaled_dots": Mutation("dot products are divided by √e", Scores.scaled_dot),
        "cosines": Mutation("dot products are divided by both norms: cosines", cosines),
    },
    bilinear={
        "transposed_matrix": Mutation("the matrix is transposed where it is square", with_arguments(w=turned)),
        "scaled_bilinear": Mutation(
            "bilinear scores are divided by √e", with_result(lambda scores, query: scores / math.sqrt(query.shape[-1]))
        ),
    },
    additive={
        "linear_features": Mutation(
            "the features are not squashed by tanh",
            lambda query, key, w_query, w_key, w_score: features(query, key, w_query, w_key) @ w_score,
        ),
        "overflowing_tanh": Mutation(
            "tanh is (e²ˣ − 1) / (e²ˣ + 1), which overflows to NaN",
            lambda query, key, w_query, w_key, w_score: (
                overflowing_tanh(features(query, key, w_query, w_key)) @ w_score
            ),
        ),
        "tanh_of_each_term": Mutation(
            "tanh is taken of the query's part and of the key's, and then they are added",
            lambda query, key, w_query, w_key, w_score: (
                ((query @ w_query).tanh().unsqueeze(-2) + (key @ w_key).tanh().unsqueeze(-3)) @ w_score
            ),
        ),
        "keys_by_query_weights": Mutation(
            "the query's weights serve the keys too where their shapes allow it",
            with_arguments(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key),
        ),
        "swapped_weights": Mutation(
            "the weights of query and key are swapped where their shapes allow it", swapped_weights
        ),
        "transposed_weights": Mutation(
            "the weights are transposed where they are square, as linear layers store them", transposed_weights
        ),
    },
    distance={
        "whole_distance": Mutation("squared distances are not halved", with_result(lambda scores: 2 * scores)),
        "positive_distance": Mutation("distances are positive: far keys score high", with_result(torch.neg)),
        "distance_without_query_norm": Mutation(
            "the query's norm is left out, as a softmax allows",
            lambda query, key: query @ key.mT - (key**2).sum(-1).unsqueeze(-2) / 2,
            "documents, 11.3.1",
        ),
        "coarse_distance": Mutation(
            "distances are rounded to hundredths", with_result(lambda scores: (scores * 100).round() / 100)
        ),
        "unsquared_distance": Mutation(
            "distances are not squared",
            lambda query, key: vector_norm(query.unsqueeze(-2) - key.unsqueeze(-3), dim=-1) / -2,
        ),
    },
    hide={
        "ignored_mask": Mutation("the mask is ignored", lambda scores, attn_mask: scores.clone()),
        "inverted_mask": Mutation("the mask is inverted: True hides", with_arguments(attn_mask=torch.logical_not)),
        "transposed_mask": Mutation(
            "queries and keys are swapped in the mask where it is square", with_arguments(attn_mask=turned)
        ),
        "fills_with_minus_billion": Mutation("masked scores are −10⁹, not −∞", filled_with(-1e9), "documents, E8"),
        "fills_with_minus_million": Mutation("masked scores are −10⁶, not −∞", filled_with(-1e6), "documents, E21"),
        "fills_with_the_least": Mutation(
            "masked scores are the least number of the dtype, not −∞",
            lambda scores, attn_mask: scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min),
        ),
        "fills_with_zeros": Mutation("masked scores are zeros", filled_with(0.0)),
        "adds_zeros_and_ones": Mutation(
            "the mask is added as zeros and ones, which hides nothing",
            lambda scores, attn_mask: scores + attn_mask,
            "documents, E2",
        ),
        "leaves_empty_rows": Mutation(
            "a query that may attend to nothing keeps its scores",
            lambda scores, attn_mask: scores.masked_fill(~attn_mask & attn_mask.any(-1, keepdim=True), -math.inf),
        ),
    },
)
