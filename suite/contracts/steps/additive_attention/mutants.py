"""Implementations of additive attention with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, broadcasts, usual_mutants
from attnsuite.cases.mutants import (
    Mutation,
    first_for_all,
    for_all_items,
    formula,
    hidden_last,
    mutants,
    repeated_beyond,
    swapped_where_equal,
    turned,
    with_arguments,
    with_result,
)
from attnsuite.contracts.softmax import fill, masked, over_queries, overflowing, shares, softmax


class Additive(Steps):
    """The formula, step by step."""

    axes = Axes(query="b l q", key="b s k", value="b s v", w_query="q e", w_key="k e", w_score="e")

    def compute(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        w_query: Tensor,
        w_key: Tensor,
        w_score: Tensor,
        *,
        attn_mask: Tensor | None = None,
    ) -> Tensor:
        wide = self.wide(query)
        queries = self.queries(query.to(wide), w_query.to(wide))  # b l e
        keys = self.keys(key.to(wide), w_key.to(wide))  # b s e
        features = self.activate(self.join(queries, keys))  # b l s e
        scores = self.score(features, w_score.to(wide))  # b l s
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        return self.mix(self.softmax(scores), value.to(wide)).to(query.dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        mask = given["attn_mask"]
        if mask is not None and (mask.dtype != torch.bool or not broadcasts(mask, *(sizes[axis] for axis in "bls"))):
            raise ValueError("the mask does not fit")

    queries = formula(lambda query, w_query: query @ w_query)
    keys = formula(lambda key, w_key: key @ w_key)
    join = formula(lambda queries, keys: queries[:, :, None] + keys[:, None])
    activate = formula(lambda features: features.tanh())
    score = formula(lambda features, w_score: features @ w_score)

    mask = staticmethod(masked)
    softmax = staticmethod(softmax)
    mix = formula(lambda weights, value: weights @ value)


def _of_items(mask: Tensor, scores: Tensor) -> Tensor:
    return mask[:, None] if mask.dim() == 2 and len(mask) == len(scores) else mask


def joined(queries: Tensor, keys: Tensor) -> Tensor:
    return Additive.join(queries.tanh(), keys.tanh())


def low_fill(number: float) -> Mutation:
    says = f"masked scores are {number:,.0f}, above some that are not masked".replace("-", "−")
    return Mutation(says, fill(number, but_empty_rows=True))


tanh_of_each_term = Mutant(
    "tanh_of_each_term",
    "tanh is taken of the query's part and of the key's, and then they are added",
    Additive(join=joined, activate=torch.clone),
)
CONTROLS = {"correct": Additive()}
GENERAL_MUTANTS = usual_mutants(Additive)
MUTANTS = mutants(
    Additive,
    whole={
        "accepts_more_values": Mutation(
            "values beyond the keys are cut off instead of refused",
            with_arguments(value=lambda value, key: value[:, : key.shape[1]]),
        ),
        "broadcasts_feature": Mutation(
            "one feature of the keys serves all features of the queries",
            with_arguments(
                w_key=lambda w_key, w_query: w_key.expand(-1, w_query.shape[1]) if w_key.shape[1] == 1 else w_key
            ),
        ),
        "swapped_query_and_key": Mutation(
            "queries and keys are swapped where they have one shape",
            with_arguments(
                query=lambda query, key: key if key.shape == query.shape else query,
                key=lambda key, query: query if key.shape == query.shape else key,
            ),
        ),
        "keys_by_query_weights": Mutation(
            "the queries' weights serve the keys too where their shapes allow it",
            with_arguments(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key),
        ),
        "swapped_items_and_queries": Mutation(
            "items and queries are swapped where there are as many",
            with_arguments(query=swapped_where_equal(of_rank=3)),
        ),
        "swapped_items_and_keys": Mutation(
            "items and keys are swapped among the keys where there are as many",
            with_arguments(key=swapped_where_equal(of_rank=3)),
        ),
        "keys_for_values": Mutation(
            "keys are taken for values where they have one shape",
            with_arguments(value=lambda value, key: key if key.shape == value.shape else value),
        ),
        "broadcasts_item": Mutation(
            "keys and values of one item serve all queries", with_arguments(key=for_all_items, value=for_all_items)
        ),
    },
    queries={
        "squashed_queries": Mutation("queries are squashed before keys are added to them", with_result(torch.tanh)),
        "transposed_query_weights": Mutation(
            "the queries' weights are transposed where they are square", with_arguments(w_query=turned)
        ),
    },
    keys={
        "transposed_key_weights": Mutation(
            "the keys' weights are transposed where they are square", with_arguments(w_key=turned)
        )
    },
    join={
        "subtracted_keys": Mutation(
            "keys are subtracted from queries instead of added", with_arguments(keys=torch.neg)
        ),
        "first_query_only": Mutation(
            "every query of an item is taken for its first", with_arguments(queries=first_for_all(1))
        ),
        "keys_of_first_item": Mutation(
            "the keys of the first item serve all items", with_arguments(keys=first_for_all())
        ),
    },
    activate={
        "relu_features": Mutation("the features are rectified instead of squashed by tanh", torch.relu),
        "sigmoid_features": Mutation("the features are squashed by a sigmoid instead of tanh", torch.sigmoid),
        "linear_features": Mutation("the features are not squashed at all", torch.clone),
    },
    score={
        "scaled_scores": Mutation(
            "the scores are divided by √e, as dot products are",
            with_result(lambda scores, w_score: scores / math.sqrt(len(w_score))),
            "documents, 11.3.4: no scaling",
        ),
        "unweighed_features": Mutation(
            "the features are averaged instead of weighed", lambda features, w_score: features.mean(-1)
        ),
        "drops_last_feature": Mutation(
            "the last feature is left out", lambda features, w_score: features[..., :-1] @ w_score[:-1]
        ),
    },
    mask={
        "inverted_mask": Mutation(
            "the boolean mask is inverted: True hides", with_arguments(allowed=torch.logical_not)
        ),
        "ignored_mask": Mutation("the mask is ignored", lambda scores, allowed: scores),
        "zero_fill": Mutation("masked scores are zeros, which weigh too", fill(0.0)),
        "fills_with_minus_10000": low_fill(-1e4),
        "fills_with_minus_million": low_fill(-1e6),
        "finite_fill": Mutation(
            "masked scores are −10⁶: a query with nothing to attend to gets the mean", fill(-1e6), "documents, E21"
        ),
        "mask_of_first_item": Mutation(
            "the mask of the first item serves all items", with_arguments(allowed=first_for_all(from_rank=3))
        ),
        "mask_of_2_axes_for_items": Mutation(
            "a mask of two axes is read as items and keys where there are as many items as queries",
            with_arguments(allowed=_of_items),
        ),
        "transposed_mask": Mutation(
            "queries and keys are swapped in the mask where it is square", with_arguments(allowed=turned)
        ),
    },
    softmax={
        "nan_for_empty_rows": Mutation(
            "a query with nothing to attend to gives NaN", lambda scores: scores.softmax(-1)
        ),
        "overflows": Mutation(
            "exponentials are taken without subtracting the largest score: they overflow", overflowing
        ),
        "softmax_over_queries": Mutation("the softmax runs over the queries instead of the keys", over_queries),
        "sum_normalised": Mutation(
            "scores are divided by their sum instead of going through a softmax",
            lambda scores: shares(scores.masked_fill(scores == -math.inf, 0.0)),
        ),
        "drops_key_beyond_64": Mutation(
            "the last of more than 64 keys is dropped", with_arguments(scores=hidden_last(64))
        ),
    },
    mix={
        "reversed_values": Mutation(
            "the keys' order is reversed among the values", with_arguments(value=lambda x: x.flip(1))
        ),
        "repeats_query_beyond_64": Mutation(
            "queries beyond the 64th are answered like the 64th", with_result(repeated_beyond(64, -2))
        ),
    },
)
