"""Implementations of attention weights with exactly one named mistake each."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes
from suite.contracts.steps.attention_weights.contract import NORMALISERS


class Weights(Staged):
    """Every rule, step by step."""

    def __call__(
        self,
        scores: Tensor,
        *,
        normaliser: str = "softmax",
        attn_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        normaliser = self.check_normaliser(normaliser)
        dtype = scores.dtype
        given = scores.to(self.wide(scores))
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        if attn_mask is not None:
            allowed = allowed & self.mask(self.check_mask(attn_mask, scores))
        if lengths is not None:
            allowed = allowed & self.within(self.check_lengths(lengths, scores), scores)
        if is_causal:
            allowed = allowed & self.past(scores)
        weigh = self.softmax if normaliser == "softmax" else self.sum
        return weigh(given, allowed).to(dtype)

    @staticmethod
    def check_normaliser(normaliser: str) -> str:
        if normaliser not in NORMALISERS:
            raise ValueError(normaliser)
        return normaliser

    @staticmethod
    def check_mask(mask: Tensor, scores: Tensor) -> Tensor:
        if mask.dtype != torch.bool or torch.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
            raise ValueError("the mask does not fit")
        return mask

    @staticmethod
    def check_lengths(lengths: Tensor, scores: Tensor) -> Tensor:
        if lengths.dtype not in (torch.int64, torch.int32) or bool((lengths < 0).any()):
            raise ValueError("these are no lengths")
        if lengths.shape != scores.shape[: lengths.dim()]:
            raise ValueError("the lengths do not fit")
        return lengths

    @staticmethod
    def mask(mask: Tensor) -> Tensor:
        return mask

    @staticmethod
    def within(lengths: Tensor, scores: Tensor) -> Tensor:
        return torch.arange(scores.shape[-1]) < lengths.reshape(*lengths.shape, *(1,) * (scores.dim() - lengths.dim()))

    @staticmethod
    def past(scores: Tensor) -> Tensor:
        return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()

    @staticmethod
    def softmax(scores: Tensor, allowed: Tensor) -> Tensor:
        return powers_divided(scores.masked_fill(~allowed, -math.inf))

    @staticmethod
    def sum(scores: Tensor, allowed: Tensor) -> Tensor:
        return divided(scores.masked_fill(~allowed, 0.0))


def powers_divided(scores: Tensor) -> Tensor:
    if not scores.numel():
        return scores.clone()
    largest = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    return divided((scores - largest).exp())


def divided(terms: Tensor) -> Tensor:
    total = terms.sum(-1, keepdim=True)
    return terms / total.masked_fill(total == 0, 1.0)


IN_SOFTMAX = mistakes(
    Weights.softmax,
    overflows=Mistake(
        "exponentials are taken without subtracting the largest score",
        lambda scores, allowed: divided(scores.masked_fill(~allowed, -math.inf).exp()),
        source="documents, 3.3.1",
    ),
    over_queries=Mistake(
        "the softmax runs over the queries instead of the keys",
        lambda scores, allowed: Weights.softmax(scores.mT, allowed.mT).mT,
    ),
    nan_for_empty_rows=Mistake(
        "a query that may attend to nothing gives NaN",
        lambda scores, allowed: scores.masked_fill(~allowed, -math.inf).softmax(-1),
        source="documents, E25",
    ),
    finite_fill=Mistake(
        "masked scores are −10⁶: a query with nothing to attend to gets the mean",
        lambda scores, allowed: scores.masked_fill(~allowed, -1e6).softmax(-1),
        source="documents, E21",
    ),
    zero_fill=Mistake(
        "masked scores are zeros, which weigh too",
        lambda scores, allowed: powers_divided(scores.masked_fill(~allowed, 0.0)),
        source="documents, E2",
    ),
    not_renormalised=Mistake(
        "weights are masked after the softmax and not renormalised",
        lambda scores, allowed: powers_divided(scores) * allowed,
        source="documents, 3.5.1",
    ),
    powers_of_two=Mistake(
        "weights are powers of 2 instead of e",
        lambda scores, allowed: powers_divided(scores.masked_fill(~allowed, -math.inf) * math.log(2)),
    ),
    log_weights=Mistake(
        "logarithms of the weights are returned",
        lambda scores, allowed: scores.masked_fill(~allowed, -math.inf).log_softmax(-1),
    ),
)


@instead_of(Weights.softmax, "a query whose scores are all −∞ gives NaN")
def nan_for_minus_infinity(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


@instead_of(Weights.softmax, "the last of more than 1,024 keys is dropped")
def drops_key_beyond_1024(scores: Tensor, allowed: Tensor) -> Tensor:
    allowed = allowed.clone()
    allowed[..., 1024:] = False
    return Weights.softmax(scores, allowed)


@instead_of(Weights.softmax, "queries beyond the 128th get the weights of the 128th")
def repeats_query_beyond_128(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = Weights.softmax(scores, allowed)
    if weights.shape[-2] > 128:
        weights[..., 128:, :] = weights[..., 127:128, :]
    return weights


@instead_of(Weights.softmax, "the weights of the first item serve all items")
def weights_of_first_item(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = Weights.softmax(scores, allowed)
    return weights[:1].expand_as(weights).clone() if weights.dim() > 2 else weights


@instead_of(Weights.softmax, "weights below a thousandth become zero")
def sparse_weights(scores: Tensor, allowed: Tensor) -> Tensor:
    weights = Weights.softmax(scores, allowed)
    return divided(weights * (weights > 1e-3))


@instead_of(Weights.sum, "a softmax is taken where a division by the sum was asked for")
def softmax_for_sum(scores: Tensor, allowed: Tensor) -> Tensor:
    return Weights.softmax(scores, allowed)


@instead_of(Weights.sum, "the sum includes what is masked")
def sums_masked_too(scores: Tensor, allowed: Tensor) -> Tensor:
    return divided(scores) * allowed


@instead_of(Weights.sum, "sums of nothing give NaN")
def nan_for_empty_sums(scores: Tensor, allowed: Tensor) -> Tensor:
    terms = scores.masked_fill(~allowed, 0.0)
    return terms / terms.sum(-1, keepdim=True)


IN_MASK = mistakes(
    Weights.mask,
    inverted_mask=Mistake("the boolean mask is inverted: True hides", lambda mask: ~mask),
    ignored_mask=Mistake("the mask is ignored", lambda mask: torch.ones_like(mask)),
    transposed_mask=Mistake(
        "queries and keys are swapped in the mask where it is square",
        lambda mask: mask.mT if mask.dim() > 1 and mask.shape[-1] == mask.shape[-2] else mask,
    ),
    mask_of_first_item=Mistake(
        "the mask of the first item serves all items", lambda mask: mask[:1] if mask.dim() == 4 else mask
    ),
)


IN_WITHIN = mistakes(
    Weights.within,
    one_key_more=Mistake("lengths include one key more", lambda lengths, scores: Weights.within(lengths + 1, scores)),
    first_length_of_item=Mistake(
        "each item has one length, the first of its queries'",
        lambda lengths, scores: Weights.within(lengths if lengths.dim() == 1 else lengths[:, 0], scores),
    ),
    too_long_hides_all=Mistake(
        "a length beyond the keys hides them all",
        lambda lengths, scores: Weights.within(lengths.masked_fill(lengths > scores.shape[-1], 0), scores),
    ),
    zero_is_all=Mistake(
        "a length of zero is taken for all keys",
        lambda lengths, scores: Weights.within(lengths.masked_fill(lengths == 0, scores.shape[-1]), scores),
        source="documents, E21",
    ),
)


@instead_of(
    Weights.within, "lengths of items are read as those of queries where there are as many", source="documents, E7"
)
def lengths_by_query(lengths: Tensor, scores: Tensor) -> Tensor:
    if lengths.dim() == 1 and scores.shape[0] == scores.shape[1]:
        return torch.arange(scores.shape[-1]) < lengths[:, None]
    return Weights.within(lengths, scores)


@instead_of(Weights.past, "the own position is hidden too", source="documents, E9")
def strictly_past(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1)


@instead_of(Weights.past, "the causal rule is aligned at the lower right")
def lower_right(scores: Tensor) -> Tensor:
    queries, keys = scores.shape[-2:]
    return torch.ones((queries, keys), dtype=torch.bool).tril(keys - queries)


@instead_of(Weights.past, "the past is hidden instead of the future")
def future(scores: Tensor) -> Tensor:
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu()


@instead_of(Weights.check_normaliser, "an unknown normaliser is taken for a softmax")
def accepts_any_normaliser(normaliser: str) -> str:
    return normaliser if normaliser == "sum" else "softmax"


@instead_of(Weights.check_lengths, "negative lengths are counted from the end")
def accepts_negative_lengths(lengths: Tensor, scores: Tensor) -> Tensor:
    return Weights.check_lengths(torch.where(lengths < 0, scores.shape[-1] + lengths, lengths), scores)


@instead_of(Weights.check_lengths, "one length serves all items")
def broadcasts_length(lengths: Tensor, scores: Tensor) -> Tensor:
    return Weights.check_lengths(lengths.expand(len(scores)) if lengths.shape == (1,) else lengths, scores)


@instead_of(Weights.check_lengths, "lengths of 32 bits are refused")
def refuses_int32(lengths: Tensor, scores: Tensor) -> Tensor:
    if lengths.dtype == torch.int32:
        raise ValueError("32 bits")
    return Weights.check_lengths(lengths, scores)


def _mask_alone(scores: Tensor, *, attn_mask: Tensor | None = None, **named: Any) -> Tensor:
    others = {} if attn_mask is None else {"lengths": None, "is_causal": False}
    return Weights()(scores, attn_mask=attn_mask, **named | others)


mask_alone = Deviation("mask_alone", "lengths and the causal rule are ignored beside a mask", _mask_alone)


CONTROLS = {"correct": Weights()}
OTHERS = [in_memory_order(Weights()), *imprecise(Weights)]
