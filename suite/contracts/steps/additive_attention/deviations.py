"""Implementations of additive attention with exactly one named mistake each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes


class Additive(Staged):
    """The formula, step by step."""

    def __call__(
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
        value = self.check(query, key, value, w_query, w_key, w_score, attn_mask)
        dtype, wide = query.dtype, self.wide(query)
        queries = self.queries(query.to(wide), w_query.to(wide))  # b l e
        keys = self.keys(key.to(wide), w_key.to(wide))  # b s e
        features = self.activate(self.join(queries, keys))  # b l s e
        scores = self.score(features, w_score.to(wide))  # b l s
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        weights = self.softmax(scores)
        return self.mix(weights, value.to(wide)).to(dtype)

    @staticmethod
    def check(
        query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Raise for what does not fit; return the values."""
        if query.shape[-1] != w_query.shape[0] or key.shape[-1] != w_key.shape[0]:
            raise ValueError("widths do not chain")
        if not w_query.shape[1] == w_key.shape[1] == w_score.shape[0]:
            raise ValueError("features differ")
        if key.shape[:2] != value.shape[:2] or len(query) != len(key):
            raise ValueError("lengths or batches differ")
        due = (len(query), query.shape[1], key.shape[1])
        if mask is not None and (mask.dtype != torch.bool or torch.broadcast_shapes(mask.shape, due) != due):
            raise ValueError("the mask does not fit")
        return value

    @staticmethod
    def queries(query: Tensor, w_query: Tensor) -> Tensor:
        return query @ w_query

    @staticmethod
    def keys(key: Tensor, w_key: Tensor) -> Tensor:
        return key @ w_key

    @staticmethod
    def join(queries: Tensor, keys: Tensor) -> Tensor:
        return queries[:, :, None] + keys[:, None]

    @staticmethod
    def activate(features: Tensor) -> Tensor:
        return features.tanh()

    @staticmethod
    def score(features: Tensor, w_score: Tensor) -> Tensor:
        return features @ w_score

    @staticmethod
    def mask(scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -math.inf)

    @staticmethod
    def softmax(scores: Tensor) -> Tensor:
        largest = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min) if scores.shape[-1] else scores
        powers = (scores - largest).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / total.masked_fill(total == 0, 1.0)

    @staticmethod
    def mix(weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value


IN_ACTIVATE = mistakes(
    Additive.activate,
    relu_features=Mistake("the features are rectified instead of squashed by tanh", lambda features: features.relu()),
    sigmoid_features=Mistake(
        "the features are squashed by a sigmoid instead of tanh", lambda features: features.sigmoid()
    ),
    linear_features=Mistake("the features are not squashed at all", lambda features: features.clone()),
)


IN_SCORE = mistakes(
    Additive.score,
    scaled_scores=Mistake(
        "the scores are divided by √e, as dot products are",
        lambda features, w_score: features @ w_score / math.sqrt(features.shape[-1]),
        source="documents, 11.3.4: no scaling",
    ),
    unweighed_features=Mistake(
        "the features are averaged instead of weighed", lambda features, w_score: features.mean(-1)
    ),
    drops_last_feature=Mistake(
        "the last feature is left out", lambda features, w_score: features[..., :-1] @ w_score[:-1]
    ),
)


IN_JOIN = mistakes(
    Additive.join,
    subtracted_keys=Mistake(
        "keys are subtracted from queries instead of added", lambda queries, keys: queries[:, :, None] - keys[:, None]
    ),
    first_query_only=Mistake(
        "every query of an item is taken for its first",
        lambda queries, keys: queries[:, :1, None].expand(-1, queries.shape[1], 1, -1) + keys[:, None],
    ),
    keys_of_first_item=Mistake(
        "the keys of the first item serve all items", lambda queries, keys: queries[:, :, None] + keys[:1, None]
    ),
)


@instead_of(Additive.queries, "queries are squashed before keys are added to them")
def squashed_queries(query: Tensor, w_query: Tensor) -> Tensor:
    return (query @ w_query).tanh()


@instead_of(Additive.keys, "the keys' weights are transposed where they are square")
def transposed_key_weights(key: Tensor, w_key: Tensor) -> Tensor:
    return key @ (w_key.mT if w_key.shape[0] == w_key.shape[1] else w_key)


@instead_of(Additive.queries, "the queries' weights are transposed where they are square")
def transposed_query_weights(query: Tensor, w_query: Tensor) -> Tensor:
    return query @ (w_query.mT if w_query.shape[0] == w_query.shape[1] else w_query)


IN_MASK = mistakes(
    Additive.mask,
    inverted_mask=Mistake(
        "the boolean mask is inverted: True hides", lambda scores, mask: scores.masked_fill(mask, -math.inf)
    ),
    ignored_mask=Mistake("the mask is ignored", lambda scores, mask: scores),
    zero_fill=Mistake("masked scores are zeros, which weigh too", lambda scores, mask: scores.masked_fill(~mask, 0.0)),
    finite_fill=Mistake(
        "masked scores are −10⁶: a query with nothing to attend to gets the mean",
        lambda scores, mask: scores.masked_fill(~mask, -1e6),
        source="documents, E21",
    ),
    mask_of_first_item=Mistake(
        "the mask of the first item serves all items",
        lambda scores, mask: scores.masked_fill(~(mask[:1] if mask.dim() == 3 else mask), -math.inf),
    ),
)


@instead_of(Additive.mask, "a mask of two axes is read as items and keys where there are as many items as queries")
def mask_of_2_axes_for_items(scores: Tensor, mask: Tensor) -> Tensor:
    items = mask.dim() == 2 and len(mask) == len(scores)
    return Additive.mask(scores, mask[:, None] if items else mask)


@instead_of(Additive.mask, "queries and keys are swapped in the mask where it is square")
def transposed_mask(scores: Tensor, mask: Tensor) -> Tensor:
    square = mask.dim() > 1 and mask.shape[-1] == mask.shape[-2]
    return scores.masked_fill(~(mask.mT if square else mask), -math.inf)


@instead_of(Additive.softmax, "a query with nothing to attend to gives NaN")
def nan_for_empty_rows(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


@instead_of(Additive.softmax, "exponentials are taken without subtracting the largest score: they overflow")
def overflows(scores: Tensor) -> Tensor:
    powers = scores.exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@instead_of(Additive.softmax, "the softmax runs over the queries instead of the keys")
def softmax_over_queries(scores: Tensor) -> Tensor:
    return Additive.softmax(scores.mT).mT


@instead_of(Additive.softmax, "scores are divided by their sum instead of going through a softmax")
def sum_normalised(scores: Tensor) -> Tensor:
    scores = scores.masked_fill(scores == -math.inf, 0.0)
    total = scores.sum(-1, keepdim=True)
    return scores / total.masked_fill(total == 0, 1.0)


@instead_of(Additive.softmax, "the last of more than 64 keys is dropped")
def drops_key_beyond_64(scores: Tensor) -> Tensor:
    if scores.shape[-1] > 64:
        scores = torch.cat([scores[..., :-1], torch.full_like(scores[..., :1], -math.inf)], -1)
    return Additive.softmax(scores)


@instead_of(Additive.mix, "the keys' order is reversed among the values")
def reversed_values(weights: Tensor, value: Tensor) -> Tensor:
    return weights @ value.flip(1)


@instead_of(Additive.mix, "queries beyond the 64th are answered like the 64th")
def repeats_query_beyond_64(weights: Tensor, value: Tensor) -> Tensor:
    output = weights @ value
    return torch.cat([output[:, :64], output[:, 63:64].expand(-1, max(0, output.shape[1] - 64), -1)], 1)


@instead_of(Additive.check, "values beyond the keys are cut off instead of refused")
def accepts_more_values(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, mask: Tensor | None
) -> Tensor:
    cut = value[:, : key.shape[1]]
    return Additive.check(query, key, cut, w_query, w_key, w_score, mask)


@instead_of(Additive.check, "one feature of the keys serves all features of the queries")
def broadcasts_feature(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, mask: Tensor | None
) -> Tensor:
    wide = w_key.expand(-1, w_query.shape[1]) if w_key.shape[1] == 1 else w_key
    return Additive.check(query, key, value, w_query, wide, w_score, mask)


@instead_of(Additive.check, "keys and values of one item serve all queries")
def broadcasts_item(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, mask: Tensor | None
) -> Tensor:
    items = -1 if len(key) != 1 else len(query)
    Additive.check(query, key.expand(items, -1, -1), value.expand(items, -1, -1), w_query, w_key, w_score, mask)
    return value


CONTROLS = {"correct": Additive()}
OTHERS = [in_memory_order(Additive()), *imprecise(Additive)]
