"""The contract `attention_weights`: the second step of attention, from scores to weights.

    attention_weights(scores, *, normaliser="softmax", attn_mask=None, lengths=None, is_causal=False) -> weights

    softmax     exp(score_ij) / Σ_j exp(score_ij), over the keys that the query may attend to
    sum         score_ij / Σ_j score_ij, for scores above zero

Axes: `… l s` scores and weights (l queries, s keys). Rank 2, 3 and 4.

    attn_mask        boolean, True means may attend; broadcastable to … l s
    lengths          int64 or int32, b or b l, for scores of rank 3 alone: a query may attend to that many first keys,
                     to all where the length is larger. With rank 2, which has no items, and rank 4, whose second axis
                     could be meant, they are refused: a mask says the same without ambiguity
    is_causal        as in the contract `attention`: query i attends keys j ≤ i, aligned at the upper left
    several of them  a key must be allowed by each
    −∞               a score that gives the weight zero, like a key that is not allowed
    empty row        a query that may attend to nothing, or only to scores of −∞, gives exact zeros; so do no keys.
                     An implementation that gives NaN there, as a softmax of −∞ alone does, declares
                     {"empty_row": "nan"}. One that writes a finite number over masked scores weighs all keys of a
                     masked row alike, and declares {"empty_row": "mean"}: then rows that scores of −∞ leave empty are
                     not tested
    inputs           of any strides; never modified; the output aliases none, and outlives later calls
    output           the scores' dtype and device
    renormalising    masking after the softmax and dividing by the rest gives the same weights: it is allowed
    rounding         sums may run in any order, in half types in float32; differences, exponentials, sums and quotients
                     may each be rounded to the dtype. The largest score is subtracted before the exponential:
                     exp(score − logsumexp), whose logarithm is rounded at the scores' size, is another number
    bad input        raises: an unknown normaliser, a mask that cannot broadcast or is not boolean, lengths that are
                     negative, no integers, or not one for each item or query of scores of rank 3

Not tested:

    gradients        the contract `attention` tests those of a whole attention
    float masks      they change scores, which are the input here
    NaN              in scores: no definition says what it gives
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Calls, Case, Conventions, Replies, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import filled_beyond, first_for_all, repeated_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import Arguments, Sizes, Steps, all_mutants, check_mask
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, unless_none, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers, valid
from attnsuite.contracts.attention.features.causal import causal_mask
from attnsuite.contracts.shared import fill, ignoring, masked, shares, softmax, unguarded
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.additive_attention import Mask, random_mask
from attnsuite.contracts.steps.attention_scores import with_an_empty_row
from attnsuite.judging import compare
from attnsuite.judging.running_error import WithError, whichever


def _undefined_reason(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why a case has no defined result under these conventions, or empty."""
    if conventions.get("empty_row") != "mean":
        return ""
    calls = case.calls(case.dtypes[0])
    scores = [call.tensors["scores"] for call in calls if call.tensors["scores"].is_floating_point()]
    minus_infinity = any(bool(tensor.isneginf().any()) for tensor in scores)
    hides = any(call.arguments & {"attn_mask", "lengths", "is_causal"} for call in calls)
    whole = any(bool(tensor.isneginf().all(-1).any()) for tensor in scores if tensor.shape[-1])
    says = "its convention gives the mean where a mask hides all keys, and does not say what −∞ gives"
    return says if whole or (minus_infinity and hides) else ""


CONTRACT = declare(
    __name__,
    {
        "sum": "division by the sum", "bool_mask": "boolean masks", "lengths": "valid lengths", "causal": "is_causal",
        "rank3": "scores of rank 3", "rank4": "scores of rank 4",
    },
    {"normaliser": ("sum",), "attn_mask": ("bool_mask",), "lengths": ("lengths",), "is_causal": ("causal",)},
    by_value=("normaliser",),
    also={f"rank{rank}": partial(lambda rank, call: call.tensors["scores"].dim() == rank, rank) for rank in (3, 4)},
    conventions={"empty_row": ("zeros", "nan", "mean")},
    undefined_reason=_undefined_reason,
)  # fmt: skip


def past(scores: Any, arange: Callable[[int], Any], corner: str = "upper_left") -> Any:
    """True where causal attention sees a key, l s, as an array of numpy or torch."""
    queries, keys = scores.shape[-2:]
    return causal_mask(queries, keys, arange, corner)


def oracle(
    scores: WithError, *, normaliser: str = "softmax", attn_mask: Array | None = None, lengths: Array | None = None,
    is_causal: bool = False, empty_row: str = "zeros",
) -> WithError:  # fmt: skip
    """Weights over the last axis, … l s; of empty rows as the convention says."""
    keys, allowed = scores.shape[-1], np.ones(scores.shape, dtype=bool)
    if attn_mask is not None:
        allowed &= attn_mask
    if lengths is not None:
        allowed &= valid(lengths, keys)
    if is_causal:
        allowed &= past(scores, np.arange)
    weights = scores.softmax(allowed) if normaliser == "softmax" else _shares(scores, allowed)
    if empty_row == "zeros":
        return weights
    hidden = np.broadcast_to(~allowed.any(-1, keepdims=True), scores.shape)
    if empty_row == "mean":
        return _replaced(weights, hidden, 1 / max(keys, 1), 2 * scores.precision.unit / max(keys, 1))
    silent = ~(allowed & (scores.value > -np.inf)).any(-1, keepdims=True)
    return _replaced(weights, hidden | (np.broadcast_to(silent, scores.shape) & (normaliser == "softmax")), np.nan, 0.0)


def _replaced(weights: WithError, places: Array, value: float, bound: float) -> WithError:
    values, bounds = np.where(places, value, weights.value), np.where(places, bound, weights.bound)
    return WithError(values, bounds, weights.precision)


def _shares(scores: WithError, allowed: Array) -> WithError:
    """Each score divided by the sum of the allowed ones, or multiplied by its reciprocal."""
    visible = scores.each(lambda array: np.where(allowed, array, 0))
    total = visible.sum(keepdims=True)
    shares = whichever(visible / total, visible * (WithError.exact(np.ones(1), scores.precision) / total))
    return _replaced(shares, ~allowed | ~allowed.any(-1, keepdims=True), 0.0, 0.0)


def draw(
    random: Generator, *, shape: tuple[int, ...] = (5, 7), size: float | Array = 2.0, shift: float | Array = 0.0,
    minus_infinity: Any = None, mask: Mask | None = None, lengths: Any = None, normaliser: str = "softmax",
) -> Inputs:  # fmt: skip
    """Scores of several units, so that some weights are large and none hides behind another; positive ones for sums.

    `minus_infinity` is an index of scores of −∞.
    """
    scores = size * random.normal(size=shape) + shift
    if normaliser == "sum":
        scores = 0.1 + abs(scores)
    if minus_infinity is not None:
        scores[minus_infinity] = -np.inf
    inputs = {"scores": scores}
    if mask is not None:
        inputs["attn_mask"] = mask(random)
    return inputs if lengths is None else inputs | {"lengths": np.asarray(lengths)}


BAD_INPUT: list[Row] = [
    ("normaliser", "a normaliser that does not exist", {"normaliser": "sparsemax"}),
    ("mask_keys", "a mask for 6 of 7 keys", {"mask": random_mask(5, 6)}),
    ("mask_queries", "a mask for 4 of 5 queries", {"mask": random_mask(4, 7)}),
    ("mask_rank", "a mask of a higher rank than the scores", {"mask": random_mask(2, 5, 7)}),
    ("float_mask", "a mask of floating-point numbers", {"mask": lambda random: random.normal(size=(5, 7))}),
    ("rank_2", "lengths with scores of rank 2, which have no items", {"lengths": [7, 3, 1, 2, 5]}),
    ("rank_4", "lengths with scores of rank 4", {"shape": (2, 3, 5, 7), "lengths": [3, 7]}),
    ("negative_length", "a length of −1", {"shape": (2, 5, 7), "lengths": [-1, 4]}),
    ("float_length", "a length of 2.5", {"shape": (2, 5, 7), "lengths": [2.5, 4.0]}),
    ("one_length", "a length of one item for 2 items", {"shape": (2, 5, 7), "lengths": [4]}),
    ("items", "lengths of 3 items where there are 2", {"shape": (2, 5, 7), "lengths": [1, 2, 3]}),
    ("queries", "lengths of 4 queries where there are 5", {"shape": (1, 5, 7), "lengths": [[1, 2, 3, 4]]}),
]
case = Formula(oracle, ("scores",), draw, options=("is_causal",), shared=("normaliser",), conventions=("empty_row",))


MANY_KEYS: dict[str, Any] = {
    "shape": (2, 3, 1025),
    "size": 0.5,
    "mask": random_mask(2, 3, 1025),
    "lengths": [700, 1024],
}
MANY_QUERIES: dict[str, Any] = {"shape": (2, 129, 5), "mask": random_mask(2, 129, 5), "lengths": [3, 4]}
FAR: dict[str, Any] = {"size": 64.0, "shift": np.array([[0], [-5e3], *[[-3e4]] * 3]), "mask": random_mask(5, 7)}
FARTHER: dict[str, Any] = FAR | {"size": np.array([[2], [2], [2], [64], [1e4]])}
FARTHER["shift"] = np.array([[0], [-5e3], [-3e5], [-3e8], [-3e10]])
ALL_RULES: dict[str, Any] = {"shape": (2, 7, 7), "mask": random_mask(2, 7, 7), "is_causal": True}


def cases() -> list[Case]:
    """All cases, the plainest first."""
    by_query = [[1, 2, 3, 4], [7, 6, 5, 4]]
    return [
        case("plain/usual", "more keys than queries"),
        case("plain/square", "as many keys as queries: axes that were swapped still fit", shape=(6, 6)),
        *documented(),
        case("mask/whole", "each query has keys of its own", mask=random_mask(5, 7)),
        case("mask/square", "a mask whose queries and keys could be swapped", shape=(6, 6), mask=random_mask(6, 6)),
        case("mask/empty_row", "a query that may attend to nothing gives zeros", mask=with_an_empty_row),
        case("mask/as_many_items", "queries and keys, with as many items", shape=(5, 5, 7), mask=random_mask(5, 7)),
        case("mask/one_query", "one query", PRECISE, shape=(3, 1, 7), mask=random_mask(3, 1, 7), lengths=[3, 7, 5]),
        case("mask/with_minus_infinity", "a mask, lengths and the causal rule, with scores of −∞", PRECISE,
            minus_infinity=np.s_[..., 2], lengths=[4, 6], **ALL_RULES),
        case("lengths/by_item", "one for each item", shape=(3, 5, 7), lengths=[3, 7, 1]),
        case("lengths/by_query", "one for each query", shape=(2, 4, 7), lengths=by_query),
        case("lengths/square", "as many items as queries", shape=(4, 4, 4), lengths=[4, 3, 2, 1]),
        case("lengths/square_by_query", "both", shape=(4, 4, 7), lengths=[*by_query, [2, 2, 7, 7], [3, 5, 1, 6]]),
        case("lengths/zero", "no valid key gives zeros", shape=(2, 5, 7), lengths=[0, 4]),
        case("lengths/too_long", "more than there are keys hides nothing", shape=(2, 5, 7), lengths=[9, 4]),
        case("lengths/int32", "integers of 32 bits", shape=(2, 5, 7), lengths=np.array([3, 6], np.int32)),
        case("causal/square", "as many keys as queries", shape=(6, 6), is_causal=True),
        case("causal/wide", "more keys than queries: aligned at the upper left", shape=(4, 7), is_causal=True),
        case("causal/one_query", "the first query sees the first key alone", PRECISE, shape=(2, 1, 7), is_causal=True),
        case("causal/many_keys", "1,025 keys", PRECISE, shape=(3, 1025), size=0.5, is_causal=True),
        case("causal/many_queries", "129 queries", PRECISE, shape=(129, 5), is_causal=True),
        case("sum/with_others", "all three rules", PRECISE, normaliser="sum", lengths=[3, 6], **ALL_RULES),
        case("sum/rank_4", "a mask by head and the causal rule", PRECISE, normaliser="sum", shape=(3, 3, 5, 5),
            mask=random_mask(3, 5, 5), is_causal=True),
        case("sum/lengths", "of one item no key is valid", normaliser="sum", shape=(2, 5, 7), lengths=[0, 4]),
        case("rank/4_by_head_square", "a mask by head, as many items", shape=(3, 3, 5, 7), mask=random_mask(3, 5, 7)),
        case("rank/4_whole", "a mask by item and head, as many of both", shape=(3, 3, 5, 7),
            mask=random_mask(3, 3, 5, 7)),
        case("rank/4_square", "all equal", PRECISE, shape=(3, 3, 3, 3), mask=random_mask(3, 1, 3, 3), is_causal=True),
        case("size/keys", "1,025 keys, one more than a tile of 1,024", shape=(3, 1025), size=0.5),
        case("size/masked_keys", "a mask and lengths of many keys", PRECISE, **MANY_KEYS),
        case("size/masked_queries", "a mask and lengths for many queries", PRECISE, **MANY_QUERIES),
        case("size/no_keys", "nothing to attend to", shape=(5, 0)),
        case("size/no_queries", "no queries", shape=(0, 7)),
        case("numerics/large", "scores whose naive exponential overflows", PRECISE, shift=800.0),
        case("numerics/below_half_fill", "visible scores below −10,000, a float16 number", **FAR),
        case("numerics/below_fill", "visible scores below usual fills: −10⁴, −10⁶, −10⁹", PRECISE, **FARTHER),
        case("numerics/minus_infinity", "a query whose scores are all −∞ gives zeros", minus_infinity=np.s_[2]),
        *case.layouts(("masked", "a mask that lies so too", {"shape": (2, 5, 7), "mask": random_mask(2, 5, 7)})),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]  # fmt: skip


AFTER = ("masked_weights", "row_sums")
"""Quantities of weights that are masked after the softmax, and not yet divided by the rest."""


def documented() -> Iterator[Case]:
    """The documents' weights from scores."""
    for example, quantity, inputs, options, select in _examples():
        values = numbers(example.expected[quantity])
        numeric = case.with_inputs(*example.named(quantity), inputs, **options)
        kind = MaskedAfter if quantity in AFTER else DocumentedNumbers
        yield kind(numeric, example.gives(quantity, values), select)
    for example in documents.examples_of("masked_softmax", kind="shape"):
        shape = tuple(example.inputs["scores_shape"])
        shaped = case(*example.named(), shape=shape, lengths=example.inputs["valid_lens"])
        yield DocumentedShape(shaped, example.at(), example.output_shape)


Select = Callable[[Array], Array]


def _examples() -> Iterator[tuple[Excerpt, str, dict[str, Array], dict[str, Any], Select]]:
    """An example, the quantity that it gives, scores with lengths or a mask, options, and what makes it of weights."""
    for example in documents.examples_of("masked_softmax", kind="values"):
        if "scores" in example.inputs:
            scores = {"scores": numbers(example.inputs["scores"])}
            if "valid_lens" in example.inputs:
                scores["lengths"] = np.asarray(example.inputs["valid_lens"])
            if keep := example.parameters.get("keep"):
                scores["attn_mask"] = np.tri(len(scores["scores"]), k=0 if keep == "column <= row" else -1, dtype=bool)
            yield example, "weights", scores, {}, np.asarray
        elif "mask" in example.expected and "n" in example.inputs:
            equal, row = np.zeros([example.inputs["n"]] * 2), np.arange(1, example.inputs["n"] + 1)[:, None]
            yield example, "mask", {"scores": equal}, {"is_causal": True}, partial(np.multiply, row)
        elif example.parameters.get("procedure"):
            query, key = example.numbers(("query", "key")).values()
            scores = {"scores": example.parameters["scale"] * query @ key.T}
            steps = ("masked_weights", "row_sums", "renormalised", "renormalised_row_sums")
            for quantity in steps if "renormalised" in example.expected else ("weights",):
                select: Select = (lambda weights: weights.sum(-1)) if "sums" in quantity else np.asarray
                yield example, quantity, scores, {"is_causal": True}, select
    for example in documents.examples_of("attention"):
        inputs = example.inputs
        if example.parameters.get("normaliser") == "divide by the sum":
            terms = inputs.get("unnormalised")
            terms = numbers(inputs["query"]) @ numbers(inputs["key"]).T if terms is None else numbers(terms)
            yield example, "weights", {"scores": terms}, {"normaliser": "sum"}, np.asarray
        elif "scores" in inputs and "weights" in example.expected:
            yield example, "weights", {"scores": numbers(inputs["scores"])}, {}, np.asarray


class MaskedAfter(DocumentedNumbers):
    """Weights that are masked after the softmax: those of a call without the rule, where a call with it has any.

    Both calls are needed: an implementation that does not mask leaves weights where the document has zeros.
    """

    def calls(self, dtype: str) -> Calls:
        (call,) = self.base.calls(dtype)
        return replace(call, options={}), call

    def printed_part(self, replies: Replies) -> Array:
        whole, masked = (compare.numbers(reply.output) for reply in replies if reply.output is not None)
        return self.select(np.where(masked > 0, whole, 0.0))


class Weights(Steps):
    """Every rule, step by step."""

    choices: ClassVar = {"normaliser": ("softmax", "sum")}

    def compute(
        self, scores: Tensor, *, normaliser: str = "softmax", attn_mask: Tensor | None = None,
        lengths: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        if attn_mask is not None:
            allowed = allowed & self.mask(attn_mask, scores)
        if lengths is not None:
            allowed = allowed & self.within(lengths, scores)
        if is_causal:
            allowed = allowed & self.past(scores)
        weigh = self.softmax if normaliser == "softmax" else self.sum
        return weigh(scores.to(self.wide(scores)), allowed).to(scores.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        scores, lengths = arguments["scores"], arguments["lengths"]
        check_mask(arguments["attn_mask"], *scores.shape)
        if lengths is None:
            return
        if lengths.dtype not in (torch.int64, torch.int32) or bool((lengths < 0).any()):
            raise ValueError("these are no lengths")
        if scores.dim() != 3 or lengths.dim() not in (1, 2) or lengths.shape != scores.shape[: lengths.dim()]:
            raise ValueError("the lengths do not fit")

    @staticmethod
    def within(lengths: Tensor, scores: Tensor) -> Tensor:
        return torch.arange(scores.shape[-1]) < lengths.reshape(*lengths.shape, *(1,) * (scores.dim() - lengths.dim()))

    mask = formula(lambda mask, scores: mask)
    past = formula(lambda scores: past(scores, torch.arange))
    softmax = formula(lambda scores, allowed: softmax(masked(scores, allowed)))
    sum = formula(lambda scores, allowed: shares(scores.masked_fill(~allowed, 0.0)))


def filled_with(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    """A softmax that masks with a finite number; its empty rows are zeros nevertheless."""
    return lambda scores, allowed: softmax(fill(number, but_empty_rows=True)(scores, allowed))


PLACES: dict[str, tuple[str, Callable[..., bool]]] = {
    "by_sum": ("where the scores are divided by their sum", lambda normaliser: normaliser == "sum"),
    "in_rank_4": ("with scores of rank 4", lambda scores: scores.dim() == 4),
    "of_one_query": ("where there is one query", lambda scores: scores.shape[-2] == 1),
    "of_many_queries": ("where there are more than 128 queries", lambda scores: scores.shape[-2] > 128),
    "of_many_keys": ("where there are more than 1,024 keys", lambda scores: scores.shape[-1] > 1024),
    "beside_infinity": ("where a score is −∞", lambda scores: bool(scores.isinf().any())),
}
"""Where a rule may be forgotten, each in words."""
CONTROLS = {"correct": Weights()}
MUTANTS = all_mutants(
    Weights,
    whole={
        **ignoring("attn_mask", "the mask", None, PLACES),
        **ignoring("lengths", "lengths", None, PLACES, "by_sum"),
        **ignoring("is_causal", "the causal rule", False, PLACES),
        "accepts_any_normaliser": Mutation("an unknown normaliser is taken for a softmax",
            with_arguments(normaliser=lambda normaliser: normaliser if normaliser == "sum" else "softmax")),
        "accepts_negative_lengths": Mutation("negative lengths are counted from the end",
            with_arguments(lengths=unless_none(lambda n, scores: torch.where(n < 0, scores.shape[-1] + n, n)))),
        "broadcasts_length": Mutation("one length serves all items",
            with_arguments(lengths=unless_none(lambda n, scores: n.expand(len(scores)) if n.shape == (1,) else n))),
        "causal_alone": Mutation("lengths are ignored where the causal rule applies",
            with_arguments(lengths=lambda lengths, is_causal: None if is_causal else lengths)),
        "mask_alone": Mutation("lengths and the causal rule are ignored where there is a mask",
            with_arguments(lengths=lambda lengths, attn_mask: lengths if attn_mask is None else None,
            is_causal=lambda is_causal, attn_mask: is_causal and attn_mask is None)),
        "swapped_items_and_heads": Mutation(
            "items and heads of the scores are swapped where there are as many, but not those of the mask",
            with_arguments(scores=swapped_where_equal(rank=4))),
        "swapped_items_and_queries": Mutation("items and queries of the scores are swapped where there are as many",
            with_arguments(scores=swapped_where_equal(rank=3))),
    },
    check={"accepts_lengths_of_any_rank": Mutation("lengths are accepted with scores of any rank",
        lambda arguments, sizes:
        Weights.check(arguments | ({} if arguments["scores"].dim() == 3 else {"lengths": None}), sizes))},
    softmax={
        "overflows": Mutation("exponentials are taken without subtracting the largest score",
            lambda scores, allowed: shares(masked(scores, allowed).exp()), "documents, 3.3.1"),
        "over_queries": Mutation("the softmax runs over the queries instead of the keys",
            lambda scores, allowed: Weights.softmax(scores.mT, allowed.mT).mT),
        "nan_for_empty_rows": Mutation("a query that may attend to nothing gives NaN",
            lambda scores, allowed: masked(scores, allowed).softmax(-1), "documents, E25"),
        "nan_for_minus_infinity": Mutation("a query whose scores are all −∞ gives NaN", lambda scores, allowed:
            (masked(scores, allowed).softmax(-1).masked_fill(~allowed.any(-1, keepdim=True), 0.0))),
        "finite_fill": Mutation("masked scores are −10⁶: a query with nothing to attend to gets the mean",
            lambda scores, allowed: scores.masked_fill(~allowed, -1e6).softmax(-1), "documents, E21"),
        "fills_with_minus_10000": Mutation("masked scores are −10⁴, above visible ones", filled_with(-1e4), "",
            ("float16", "float32")),
        "fills_with_minus_billion": Mutation("masked scores are −10⁹, above visible ones", filled_with(-1e9)),
        "zero_fill": Mutation("masked scores are zeros, which weigh too",
            lambda scores, allowed: softmax(scores.masked_fill(~allowed, 0.0)), "documents, E2"),
        "not_renormalised": Mutation("weights are masked after the softmax and not renormalised",
            lambda scores, allowed: softmax(scores) * allowed, "documents, 3.5.1"),
        "drops_key_beyond_1024": Mutation("keys beyond 1,024 drop out",
            with_arguments(allowed=filled_beyond(1024, False))),
        "repeats_query_beyond_128": Mutation("queries after the 128th repeat it",
            with_result(repeated_beyond(128, -2))),
        "weights_of_first_item": Mutation("all items get those of the first", with_result(first_for_all(from_rank=3))),
        "sparse_weights": Mutation("weights below 1/1000 are zero", with_result(lambda x: shares(x * (x > 1e-3)))),
    },
    sum={
        "softmax_for_sum": Mutation("a softmax is taken in place of a division by the sum", Weights.softmax),
        "nan_for_empty_sums": Mutation("sums of nothing give NaN",
            lambda x, allowed: unguarded(x.masked_fill(~allowed, 0.0))),
    },
    mask={
        "inverted_mask": Mutation("the boolean mask is inverted: True hides", with_result(torch.logical_not)),
        "ignored_mask": Mutation("the mask is ignored", with_result(torch.ones_like)),
        "transposed_mask": Mutation("queries and keys are swapped in the mask where it is square", with_result(turned)),
        "mask_of_heads_for_items": Mutation(
            "a mask of 3 axes is read as items, queries and keys of scores of 4, where there are as many items",
            with_arguments(mask=lambda x, scores: x[:, None] if x.dim() == 3 and len(x) in (1, len(scores)) else x),
            "documents, E7"),
        "mask_of_2_axes_for_items": Mutation(
            "a mask of 2 axes is read as items and keys where there are as many items as queries",
            with_arguments(mask=lambda x, scores: x[:, None] if x.dim() == 2 and len(x) == len(scores) else x)),
        "mask_mask_by_item_for_heads": Mutation(
            "items and heads are swapped in a mask of 4 axes where there are as many",
            with_result(swapped_where_equal(rank=4))),
        "mask_of_first_item": Mutation("all items get the first one's mask", with_result(first_for_all(from_rank=4))),
    },
    within={
        "one_key_more": Mutation("lengths include one key more", with_arguments(lengths=lambda lengths: lengths + 1)),
        "first_length_of_item": Mutation("each item has one length, the first of its queries'",
            with_arguments(lengths=lambda lengths: lengths if lengths.dim() == 1 else lengths[:, 0])),
        "too_long_hides_all": Mutation("a length beyond the keys hides them all",
            with_arguments(lengths=lambda lengths, scores: lengths.masked_fill(lengths > scores.shape[-1], 0))),
        "zero_is_all": Mutation("a length of zero is taken for all keys", with_arguments(lengths=lambda lengths, scores:
            lengths.masked_fill(lengths == 0, scores.shape[-1])), "documents, E21"),
        "transposed_lengths": Mutation("lengths are transposed where they are square", with_arguments(lengths=turned)),
        "lengths_by_query": Mutation("lengths of items are read as those of queries where there are as many",
            with_arguments(lengths=lambda x, scores: x.expand(len(scores), -1) if len(x) == scores.shape[1] else x),
            "documents, E7"),
    },
    past={
        "strictly_past": Mutation("the own position is hidden too", with_result(lambda x: x.tril(-1)), "documents, E9"),
        "sees_one_ahead": Mutation("one key ahead is seen", lambda x: x.new_ones(x.shape[-2:]).tril(1) > 0),
        "lower_right": Mutation("the rule is aligned at the lower right",
            lambda x: past(x, torch.arange, "lower_right")),
        "future": Mutation("the past is hidden, not the future", lambda x: x.new_ones(x.shape[-2:]).triu() > 0),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """Two formulas, several ways to normalise."""
    own_dtype = Weights(wide=lambda scores: scores.dtype, softmax=library, sum=from_the_last)
    return [
        Variant("library", "torch's softmax, its NaN made zero", Weights(softmax=library, sum=from_the_last)),
        Variant("own_dtype", "the same in the dtype itself, half types too", own_dtype),
        Variant("logarithms", "exponentials of a log-softmax", Weights(softmax=by_logarithms)),
    ]


def library(scores: Tensor, allowed: Tensor) -> Tensor:
    """PyTorch's softmax; NaN becomes 0."""
    return torch.where(allowed, scores, -math.inf).softmax(-1).nan_to_num(0.0)


def by_logarithms(scores: Tensor, allowed: Tensor) -> Tensor:
    """Nothing is divided; the keys are the first axis."""
    shown = scores.masked_fill(~allowed, -math.inf).movedim(-1, 0)
    return torch.log_softmax(shown, 0).nan_to_num(-math.inf, neginf=-math.inf).exp().movedim(0, -1)


def from_the_last(scores: Tensor, allowed: Tensor) -> Tensor:
    """Division by a sum that runs from the last key to the first."""
    shown = scores * allowed
    total = shown.flip(-1).sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, shown * total.where(total != 0, 1.0).reciprocal())
