"""Implementations of attention weights with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Sizes, Steps, broadcasts, usual_mutants
from attnsuite.cases.mutants import (
    Mutation,
    filled_beyond,
    first_for_all,
    formula,
    mutants,
    repeated_beyond,
    swapped_where_equal,
    turned,
    unless_none,
    with_arguments,
    with_result,
)
from attnsuite.contracts.softmax import fill, masked, shares, softmax, unguarded
from attnsuite.contracts.steps.attention_weights.contract import NORMALISERS


class Weights(Steps):
    """Every rule, step by step."""

    choices: ClassVar = {"normaliser": NORMALISERS}

    def compute(
        self,
        scores: Tensor,
        *,
        normaliser: str = "softmax",
        attn_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        allowed = self.allowed(scores, attn_mask, lengths, is_causal)
        weigh = self.softmax if normaliser == "softmax" else self.sum
        return weigh(scores.to(self.wide(scores)), allowed).to(scores.dtype)

    def allowed(self, scores: Tensor, mask: Tensor | None, lengths: Tensor | None, is_causal: bool) -> Tensor:
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        if mask is not None:
            allowed = allowed & self.mask(mask, scores)
        if lengths is not None:
            allowed = allowed & self.within(self.read(lengths), scores)
        return allowed & self.past(scores) if is_causal else allowed

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        scores, mask, lengths = given["scores"], given["attn_mask"], given["lengths"]
        if mask is not None and (mask.dtype != torch.bool or not broadcasts(mask, *scores.shape)):
            raise ValueError("the mask does not fit")
        if lengths is None:
            return
        if lengths.dtype not in (torch.int64, torch.int32) or bool((lengths < 0).any()):
            raise ValueError("these are no lengths")
        if scores.dim() != 3 or lengths.dim() not in (1, 2) or lengths.shape != scores.shape[: lengths.dim()]:
            raise ValueError("the lengths do not fit")

    mask = formula(lambda mask, scores: mask)
    read = formula(lambda lengths: lengths)

    @staticmethod
    def within(lengths: Tensor, scores: Tensor) -> Tensor:
        return torch.arange(scores.shape[-1]) < lengths.reshape(*lengths.shape, *(1,) * (scores.dim() - lengths.dim()))

    past = formula(lambda scores: torch.ones(scores.shape[-2:], dtype=torch.bool).tril())
    softmax = formula(lambda scores, allowed: softmax(masked(scores, allowed)))
    sum = formula(lambda scores, allowed: shares(scores.masked_fill(~allowed, 0.0)))


def refused_int32(lengths: Tensor) -> Tensor:
    if lengths.dtype == torch.int32:
        raise ValueError("32 bits")
    return lengths


def by_query(lengths: Tensor, scores: Tensor) -> Tensor:
    """Lengths of items become those of queries, the same for every item."""
    as_many = lengths.dim() == 1 and scores.shape[0] == scores.shape[1]
    return lengths.expand(len(scores), -1) if as_many else lengths


def filled_with(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    """A softmax that masks with a finite number, and whose empty rows are zeros nevertheless."""
    return lambda scores, allowed: softmax(fill(number, but_empty_rows=True)(scores, allowed))


def triangle(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool)


def of_items(mask: Tensor, scores: Tensor) -> Tensor:
    return mask[:, None] if mask.dim() == 3 and scores.dim() == 4 and len(mask) in (1, len(scores)) else mask


def of_rows(mask: Tensor, scores: Tensor) -> Tensor:
    as_many = mask.dim() == 2 and scores.dim() == 3 and len(mask) == len(scores)
    return mask[:, None] if as_many else mask


RULES = {"attn_mask": ("the mask", None), "lengths": ("lengths", None), "is_causal": ("the causal rule", False)}
"""What says who may attend, each in words, and what it is where it says nothing."""
Place = Callable[[Tensor, str], bool]
PLACES: dict[str, tuple[str, Place]] = {
    "by_sum": ("where the scores are divided by their sum", lambda scores, normaliser: normaliser == "sum"),
    "in_rank_4": ("beside scores of rank 4", lambda scores, normaliser: scores.dim() == 4),
    "of_one_query": ("where there is one query", lambda scores, normaliser: scores.shape[-2] == 1),
    "of_many_queries": ("where there are more than 128 queries", lambda scores, normaliser: scores.shape[-2] > 128),
    "of_many_keys": ("where there are more than 1,024 keys", lambda scores, normaliser: scores.shape[-1] > 1024),
    "beside_infinity": ("where a score is −∞", lambda scores, normaliser: bool(scores.isinf().any())),
}
"""Where a rule may be forgotten, each in words."""


def ignored_in(place: Place, idle: bool | None) -> Callable[..., Any]:
    return lambda rule, scores, normaliser: idle if place(scores, normaliser) else rule


def ignored_in_places() -> dict[str, Mutation]:
    """Each rule is ignored in each place, but lengths in rank 4, where there are none."""
    return {
        f"ignores_{rule}_{name}": Mutation(
            f"{what} is ignored {says}", with_arguments(**{rule: ignored_in(place, idle)})
        )
        for rule, (what, idle) in RULES.items()
        for name, (says, place) in PLACES.items()
        if (rule, name) != ("lengths", "in_rank_4")
    }


CONTROLS = {"correct": Weights()}
GENERAL_MUTANTS = usual_mutants(Weights)
MUTANTS = mutants(
    Weights,
    whole={
        "accepts_any_normaliser": Mutation(
            "an unknown normaliser is taken for a softmax",
            with_arguments(normaliser=lambda normaliser: normaliser if normaliser == "sum" else "softmax"),
        ),
        "accepts_negative_lengths": Mutation(
            "negative lengths are counted from the end",
            with_arguments(lengths=unless_none(lambda n, scores: torch.where(n < 0, scores.shape[-1] + n, n))),
        ),
        "broadcasts_length": Mutation(
            "one length serves all items",
            with_arguments(lengths=unless_none(lambda n, scores: n.expand(len(scores)) if n.shape == (1,) else n)),
        ),
        **ignored_in_places(),
        "causal_alone": Mutation(
            "lengths are ignored beside the causal rule",
            with_arguments(lengths=lambda lengths, is_causal: None if is_causal else lengths),
        ),
        "lengths_alone": Mutation(
            "the causal rule is ignored beside lengths",
            with_arguments(is_causal=lambda is_causal, lengths: is_causal and lengths is None),
        ),
        "swapped_items_and_heads": Mutation(
            "items and heads of the scores are swapped where there are as many, but not those of the mask",
            with_arguments(scores=swapped_where_equal(of_rank=4)),
        ),
        "swapped_items_and_queries": Mutation(
            "items and queries of the scores are swapped where there are as many",
            with_arguments(scores=swapped_where_equal(of_rank=3)),
        ),
        "mask_alone": Mutation(
            "lengths and the causal rule are ignored beside a mask",
            with_arguments(
                lengths=lambda lengths, attn_mask: lengths if attn_mask is None else None,
                is_causal=lambda is_causal, attn_mask: is_causal and attn_mask is None,
            ),
        ),
    },
    check={
        "accepts_lengths_of_any_rank": Mutation(
            "lengths are accepted beside scores of any rank",
            lambda given, sizes: Weights.check(
                given | ({} if given["scores"].dim() == 3 else {"lengths": None}), sizes
            ),
        )
    },
    read={"refuses_int32": Mutation("lengths of 32 bits are refused", refused_int32)},
    softmax={
        "overflows": Mutation(
            "exponentials are taken without subtracting the largest score",
            lambda scores, allowed: shares(masked(scores, allowed).exp()),
            "documents, 3.3.1",
        ),
        "over_queries": Mutation(
            "the softmax runs over the queries instead of the keys",
            lambda scores, allowed: Weights.softmax(scores.mT, allowed.mT).mT,
        ),
        "nan_for_empty_rows": Mutation(
            "a query that may attend to nothing gives NaN",
            lambda scores, allowed: masked(scores, allowed).softmax(-1),
            "documents, E25",
        ),
        "nan_for_minus_infinity": Mutation(
            "a query whose scores are all −∞ gives NaN",
            lambda scores, allowed: (
                masked(scores, allowed).softmax(-1).masked_fill(~allowed.any(-1, keepdim=True), 0.0)
            ),
        ),
        "finite_fill": Mutation(
            "masked scores are −10⁶: a query with nothing to attend to gets the mean",
            lambda scores, allowed: scores.masked_fill(~allowed, -1e6).softmax(-1),
            "documents, E21",
        ),
        "fills_with_minus_10000": Mutation(
            "masked scores are −10⁴, above some that are not masked", filled_with(-1e4), "", ("float16", "float32")
        ),
        "fills_with_minus_billion": Mutation(
            "masked scores are −10⁹, above some that are not masked", filled_with(-1e9)
        ),
        "zero_fill": Mutation(
            "masked scores are zeros, which weigh too",
            lambda scores, allowed: softmax(scores.masked_fill(~allowed, 0.0)),
            "documents, E2",
        ),
        "not_renormalised": Mutation(
            "weights are masked after the softmax and not renormalised",
            lambda scores, allowed: softmax(scores) * allowed,
            "documents, 3.5.1",
        ),
        "powers_of_two": Mutation(
            "weights are powers of 2 instead of e", with_arguments(scores=lambda scores: scores * math.log(2))
        ),
        "log_weights": Mutation(
            "logarithms of the weights are returned", lambda scores, allowed: masked(scores, allowed).log_softmax(-1)
        ),
        "drops_key_beyond_1024": Mutation(
            "the last of more than 1,024 keys is dropped", with_arguments(allowed=filled_beyond(1024, False))
        ),
        "repeats_query_beyond_128": Mutation(
            "queries beyond the 128th get the weights of the 128th", with_result(repeated_beyond(128, -2))
        ),
        "weights_of_first_item": Mutation(
            "the weights of the first item serve all items", with_result(first_for_all(from_rank=3))
        ),
        "sparse_weights": Mutation(
            "weights below a thousandth become zero", with_result(lambda weights: shares(weights * (weights > 1e-3)))
        ),
    },
    sum={
        "softmax_for_sum": Mutation("a softmax is taken where a division by the sum was asked for", Weights.softmax),
        "sums_masked_too": Mutation(
            "the sum includes what is masked", lambda scores, allowed: shares(scores) * allowed
        ),
        "nan_for_empty_sums": Mutation(
            "sums of nothing give NaN", lambda scores, allowed: unguarded(scores.masked_fill(~allowed, 0.0))
        ),
    },
    mask={
        "inverted_mask": Mutation("the boolean mask is inverted: True hides", with_result(torch.logical_not)),
        "ignored_mask": Mutation("the mask is ignored", with_result(torch.ones_like)),
        "transposed_mask": Mutation("queries and keys are swapped in the mask where it is square", with_result(turned)),
        "mask_of_heads_for_items": Mutation(
            "a mask of 3 axes is read as items, queries and keys beside scores of 4, where there are as many items",
            with_arguments(mask=of_items),
            "documents, E7",
        ),
        "mask_of_2_axes_for_items": Mutation(
            "a mask of 2 axes is read as items and keys where there are as many items as queries",
            with_arguments(mask=of_rows),
        ),
        "mask_of_items_for_heads": Mutation(
            "items and heads are swapped in a mask of 4 axes where there are as many",
            with_result(swapped_where_equal(of_rank=4)),
        ),
        "mask_of_first_item": Mutation(
            "the mask of the first item serves all items", with_result(first_for_all(from_rank=4))
        ),
    },
    within={
        "one_key_more": Mutation("lengths include one key more", with_arguments(lengths=lambda lengths: lengths + 1)),
        "first_length_of_item": Mutation(
            "each item has one length, the first of its queries'",
            with_arguments(lengths=lambda lengths: lengths if lengths.dim() == 1 else lengths[:, 0]),
        ),
        "too_long_hides_all": Mutation(
            "a length beyond the keys hides them all",
            with_arguments(lengths=lambda lengths, scores: lengths.masked_fill(lengths > scores.shape[-1], 0)),
        ),
        "zero_is_all": Mutation(
            "a length of zero is taken for all keys",
            with_arguments(lengths=lambda lengths, scores: lengths.masked_fill(lengths == 0, scores.shape[-1])),
            "documents, E21",
        ),
        "transposed_lengths": Mutation(
            "items and queries are swapped in the lengths where there are as many", with_arguments(lengths=turned)
        ),
        "lengths_by_query": Mutation(
            "lengths of items are read as those of queries where there are as many",
            with_arguments(lengths=by_query),
            "documents, E7",
        ),
    },
    past={
        "strictly_past": Mutation(
            "the own position is hidden too", with_result(lambda seen: seen.tril(-1)), "documents, E9"
        ),
        "sees_one_ahead": Mutation("the next position is seen too", lambda scores: triangle(scores).tril(1)),
        "lower_right": Mutation(
            "the causal rule is aligned at the lower right",
            lambda scores: triangle(scores).tril(scores.shape[-1] - scores.shape[-2]),
        ),
        "future": Mutation(
            "the past is hidden instead of the future",
            lambda scores: triangle(scores).triu(),
        ),
    },
)
