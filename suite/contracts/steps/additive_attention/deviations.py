"""Implementations of additive attention with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite.cases import Mutant
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, broadcasts, usual_mutants
from attnsuite.cases.mutants import (
    Wrong,
    first_for_all,
    for_all_items,
    formula,
    given,
    hidden_last,
    mutants,
    repeated_beyond,
    rows,
    swapped_where_equal,
    then,
    turned,
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


def low_fill(number: float) -> Wrong:
    says = f"masked scores are {number:,.0f}, above some that are not masked".replace("-", "−")
    return Wrong(says, fill(number, but_empty_rows=True))


tanh_of_each_term = Mutant(
    "tanh_of_each_term",
    "tanh is taken of the query's part and of the key's, and then they are added",
    Additive(join=joined, activate=torch.clone),
)
CONTROLS = {"correct": Additive()}
OTHERS = usual_mutants(Additive)
MISTAKES = mutants(
    Additive,
    whole=rows(
        accepts_more_values=Wrong(
            "values beyond the keys are cut off instead of refused",
            given(value=lambda value, key: value[:, : key.shape[1]]),
        ),
        broadcasts_feature=Wrong(
            "one feature of the keys serves all features of the queries",
            given(w_key=lambda w_key, w_query: w_key.expand(-1, w_query.shape[1]) if w_key.shape[1] == 1 else w_key),
        ),
        swapped_query_and_key=Wrong(
            "queries and keys are swapped where they have one shape",
            given(
                query=lambda query, key: key if key.shape == query.shape else query,
                key=lambda key, query: query if key.shape == query.shape else key,
            ),
        ),
        keys_by_query_weights=Wrong(
            "the queries' weights serve the keys too where their shapes allow it",
            given(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key),
        ),
        swapped_items_and_queries=Wrong(
            "items and queries are swapped where there are as many", given(query=swapped_where_equal(of_rank=3))
        ),
        swapped_items_and_keys=Wrong(
            "items and keys are swapped among the keys where there are as many",
            given(key=swapped_where_equal(of_rank=3)),
        ),
        keys_for_values=Wrong(
            "keys are taken for values where they have one shape",
            given(value=lambda value, key: key if key.shape == value.shape else value),
        ),
        broadcasts_item=Wrong(
            "keys and values of one item serve all queries", given(key=for_all_items, value=for_all_items)
        ),
    ),
    queries=rows(
        squashed_queries=Wrong("queries are squashed before keys are added to them", then(torch.tanh)),
        transposed_query_weights=Wrong(
            "the queries' weights are transposed where they are square", given(w_query=turned)
        ),
    ),
    keys=rows(
        transposed_key_weights=Wrong("the keys' weights are transposed where they are square", given(w_key=turned))
    ),
    join=rows(
        subtracted_keys=Wrong("keys are subtracted from queries instead of added", given(keys=torch.neg)),
        first_query_only=Wrong("every query of an item is taken for its first", given(queries=first_for_all(1))),
        keys_of_first_item=Wrong("the keys of the first item serve all items", given(keys=first_for_all())),
    ),
    activate=rows(
        relu_features=Wrong("the features are rectified instead of squashed by tanh", torch.relu),
        sigmoid_features=Wrong("the features are squashed by a sigmoid instead of tanh", torch.sigmoid),
        linear_features=Wrong("the features are not squashed at all", torch.clone),
    ),
    score=rows(
        scaled_scores=Wrong(
            "the scores are divided by √e, as dot products are",
            then(lambda scores, w_score: scores / math.sqrt(len(w_score))),
            "documents, 11.3.4: no scaling",
        ),
        unweighed_features=Wrong(
            "the features are averaged instead of weighed", lambda features, w_score: features.mean(-1)
        ),
        drops_last_feature=Wrong(
            "the last feature is left out", lambda features, w_score: features[..., :-1] @ w_score[:-1]
        ),
    ),
    mask=rows(
        inverted_mask=Wrong("the boolean mask is inverted: True hides", given(allowed=torch.logical_not)),
        ignored_mask=Wrong("the mask is ignored", lambda scores, allowed: scores),
        zero_fill=Wrong("masked scores are zeros, which weigh too", fill(0.0)),
        fills_with_minus_10000=low_fill(-1e4),
        fills_with_minus_million=low_fill(-1e6),
        finite_fill=Wrong(
            "masked scores are −10⁶: a query with nothing to attend to gets the mean", fill(-1e6), "documents, E21"
        ),
        mask_of_first_item=Wrong(
            "the mask of the first item serves all items", given(allowed=first_for_all(from_rank=3))
        ),
        mask_of_2_axes_for_items=Wrong(
            "a mask of two axes is read as items and keys where there are as many items as queries",
            given(allowed=_of_items),
        ),
        transposed_mask=Wrong("queries and keys are swapped in the mask where it is square", given(allowed=turned)),
    ),
    softmax=rows(
        nan_for_empty_rows=Wrong("a query with nothing to attend to gives NaN", lambda scores: scores.softmax(-1)),
        overflows=Wrong("exponentials are taken without subtracting the largest score: they overflow", overflowing),
        softmax_over_queries=Wrong("the softmax runs over the queries instead of the keys", over_queries),
        sum_normalised=Wrong(
            "scores are divided by their sum instead of going through a softmax",
            lambda scores: shares(scores.masked_fill(scores == -math.inf, 0.0)),
        ),
        drops_key_beyond_64=Wrong("the last of more than 64 keys is dropped", given(scores=hidden_last(64))),
    ),
    mix=rows(
        reversed_values=Wrong("the keys' order is reversed among the values", given(value=lambda x: x.flip(1))),
        repeats_query_beyond_64=Wrong(
            "queries beyond the 64th are answered like the 64th", then(repeated_beyond(64, -2))
        ),
    ),
)
