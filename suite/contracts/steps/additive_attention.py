"""The contract `additive_attention`: keys and queries of different widths, scored by a small network.

    additive_attention(query, key, value, w_query, w_key, w_score, *, attn_mask=None) -> output

    score_ij = tanh(query_i w_query + key_j w_key) · w_score
    output   = softmax(score) value

Axes: `b l q` query, `b s k` key, `b s v` value, `q e` w_query, `k e` w_key, `e` w_score, `b l v` output (b batch,
l queries, s keys, q query width, k key width, v value width, e features). Bahdanau, Cho and Bengio, "Neural machine
translation by jointly learning to align and translate" (arXiv 1409.0473), without biases.

    scale            none: tanh keeps the scores within Σ|w_score|
    attn_mask        boolean, True means may attend; broadcastable to b l s
    empty row        a query that may attend to nothing gives exact zeros; so does one where there are no keys
    rounding         sums may run in any order, in half types in float32: both maps may be one product of query and key
                     next to each other. Maps, features, scores and weights may each be rounded to the dtype
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device
    bad input        raises: widths that do not chain, keys and values of different lengths, batches that differ, a mask
                     that cannot broadcast or is not boolean

Not tested:

    gradients        training steps of the contract `seq2seq_attention` go through additive attention
    float masks      the documents' additive attention takes valid lengths alone, which are boolean
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import (
    first_for_all,
    for_all_items,
    hidden_last,
    repeated_beyond,
    swapped_where_equal,
    turned,
)
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants, check_mask, widened
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, identity_values, numbers, valid
from attnsuite.contracts.shared import OF_MASKS, fill, masked, over_queries, overflowing, softmax
from attnsuite.contracts.sources import documents
from attnsuite.judging.running_error import WithError, concatenated, whichever

CONTRACT = declare(__name__, {"bool_mask": "boolean masks"}, {"attn_mask": ("bool_mask",)})
POSITIONAL = ("query", "key", "value", "w_query", "w_key", "w_score")


def scores(query: WithError, key: WithError, w_query: WithError, w_key: WithError, w_score: WithError) -> WithError:
    """tanh(query w_query + key w_key) · w_score, … l s.

    The two products may be one, of query and key next to each other with one matrix below the other.
    """
    sums = (query @ w_query)[..., :, None, :] + (key @ w_key)[..., None, :, :]  # … l s e
    pairs = [query[..., :, None, :], key[..., None, :, :]]  # … l 1 q, … 1 s k
    inputs = concatenated(
        [
            pair.each(partial(lambda lead, array: np.broadcast_to(array, (*lead, array.shape[-1])), sums.shape[:-1]))
            for pair in pairs
        ]
    )
    one_product = inputs @ concatenated([w_query, w_key], -2)
    return (whichever(sums, one_product).tanh() @ w_score[:, None])[..., 0]


def oracle(
    query: WithError, key: WithError, value: WithError, w_query: WithError, w_key: WithError, w_score: WithError,
    attn_mask: Array | None = None,
) -> WithError:  # fmt: skip
    """softmax(scores) value, b l v."""
    return scores(query, key, w_query, w_key, w_score).attend(value, attn_mask)


Mask = Callable[[Generator], Array]


def draw(
    random: Generator, *, batch: int = 2, queries: int = 5, keys: int = 7, query_width: int = 6, key_width: int = 4,
    value_width: int = 3, features: int = 8, peak: float = 3.0, mask: Mask | None = None, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Inputs whose scores differ by several units, so that a mistake shows; values with a non-zero mean.

    A tensor's name gives it another shape.
    """
    inputs = {
        "query": random.normal(size=(batch, queries, query_width)),
        "key": random.normal(size=(batch, keys, key_width)),
        "value": random.normal(size=(batch, keys, value_width)) + 0.5,
        "w_query": random.normal(size=(query_width, features)) / np.sqrt(query_width),
        "w_key": random.normal(size=(key_width, features)) / np.sqrt(key_width),
        "w_score": peak * random.normal(size=features) / np.sqrt(features),
    }
    inputs |= {name: random.normal(size=shape) for name, shape in shapes.items()}
    return inputs if mask is None else inputs | {"attn_mask": mask(random)}


def random_mask(*shape: int) -> Mask:
    """A mask of this shape, by which a query may attend to most keys."""
    return lambda random: random.random(shape) < 0.6


def with_empty_rows(random: Generator) -> Array:
    """A mask by which one query of each item may attend to nothing."""
    mask = random.random((2, 5, 7)) < 0.6
    mask[0, 1] = mask[1, 4] = False
    return mask


def length_mask(lengths: list[int], keys: int) -> Mask:
    """The mask of these valid lengths."""
    return lambda _: valid(lengths, keys)


BAD_INPUT: list[Row] = [
    ("query_width", "queries of width 5 with weights for 6", {"query": (2, 5, 5)}),
    ("key_width", "keys of width 6 with weights for 4", {"key": (2, 7, 6)}),
    ("one_feature", "weights for 8 features of a query and 1 of a key", {"w_key": (4, 1)}),
    ("features", "weights for 8 features of a query and 7 of a key", {"w_key": (4, 7)}),
    ("scores", "weights for 9 features where there are 8", {"w_score": (9,)}),
    ("lengths", "7 keys with 8 values", {"value": (2, 8, 3)}),
    ("batches", "2 items of queries and 3 of keys", {"key": (3, 7, 4), "value": (3, 7, 3)}),
    ("one_item", "keys of 1 item for 2 items of queries", {"key": (1, 7, 4), "value": (1, 7, 3)}),
    ("mask_keys", "a mask for 6 of 7 keys", {"mask": random_mask(2, 5, 6)}),
    ("mask_queries", "a mask for 4 of 5 queries", {"mask": random_mask(2, 4, 7)}),
    ("mask_items", "a mask for 3 items where there is 1", {"batch": 1, "mask": random_mask(3, 5, 7)}),
    ("float_mask", "a mask of floating-point numbers", {"attn_mask": (2, 5, 7)}),
]

case = Formula(oracle, POSITIONAL, draw, values="value")


def cases() -> list[Case]:
    """All cases, the plainest first."""
    sizes = ("batch", "queries", "keys", "query_width", "key_width", "value_width", "features")
    four: dict[str, Any] = dict.fromkeys(sizes, 4)
    short = length_mask([1, 2], 7)
    return [
        case("plain/usual", "queries, keys, values and features of different widths"),
        case("plain/square", "all sizes equal: axes that were swapped still fit", **four),
        case("plain/many_keys", "129 keys, one more than a tile of 128", queries=2, keys=129),
        case("plain/many_queries", "more queries than keys", queries=67, keys=3),
        case("plain/no_keys", "nothing to attend to gives zeros", keys=0),
        case("plain/no_queries", "no queries", queries=0),
        *documented(),
        case("mask/by_query", "the same for all items", mask=random_mask(5, 7)),
        case("mask/as_many_items", "a mask of queries and keys, with as many items", queries=2, mask=random_mask(2, 7)),
        case("mask/no_keys", "a mask for no keys", keys=0, mask=random_mask(2, 5, 0)),
        case("mask/square", "a mask whose queries and keys could be swapped", queries=7, mask=random_mask(2, 7, 7)),
        case("mask/empty_rows", "queries that may attend to nothing give zeros", mask=with_empty_rows),
        case("numerics/low_scores", "visible scores below a masked score of −10⁴", PRECISE, peak=1e5, mask=short),
        case("numerics/very_low_scores", "visible scores below one of −10⁹", PRECISE, peak=1e11, mask=short),
        case("numerics/large_scores", "scores whose naive exponential overflows", PRECISE, peak=400.0),
        *case.layouts(("masked", "a mask that lies so too", {"mask": random_mask(2, 5, 7)})),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]


def documented() -> Iterator[Case]:
    """The documents' examples: shapes of unseeded draws, outputs, and weights read through identity values."""
    for example in documents.examples_of("additive_attention", kind="shape"):
        sizes = dict(zip(("batch", "queries", "query_width"), example.inputs["query_shape"], strict=True))
        sizes |= dict(zip(("batch", "keys", "key_width"), example.inputs["key_shape"], strict=True))
        sizes |= {"value_width": example.inputs["value_shape"][2], "features": example.parameters["num_hiddens"]}
        shaped = case(*example.named(), **sizes, mask=length_mask(example.inputs["valid_lens"], sizes["keys"]))
        yield DocumentedShape(shaped, example.at(), example.output_shape)
    for example in documents.examples_of("additive_attention", kind="values"):
        theirs = (*POSITIONAL[:-1], "w_v")
        inputs = dict(zip(POSITIONAL, example.numbers(theirs).values(), strict=True))
        items, keys = inputs["key"].shape[:2]
        if "valid_lens" in example.inputs:
            inputs["attn_mask"] = valid(example.inputs["valid_lens"], keys)
        for quantity, values in (("output", inputs["value"]), ("weights", identity_values(items, keys))):
            numeric = case.with_inputs(*example.named(quantity), inputs | {"value": values})
            yield DocumentedNumbers(numeric, example.gives(quantity))
    # A step of a decoder: its context, the same next to the embedding, and the weights.
    step = documents.examples()["doc-004/11.4-one-step"]
    names = ("previous_decoder_state", "encoder_states", "encoder_states", "w_query", "w_key", "w_v")
    inputs = dict(zip(POSITIONAL, (numbers(step.inputs[name]) for name in names), strict=True))
    inputs["attn_mask"] = valid(step.inputs["valid_lens"], 3)
    embedding, identity = numbers(step.inputs["input_embedding"]), {"value": identity_values(1, 3)}
    joined: Callable[[Array], Array] = lambda context: np.concatenate([context, embedding], -1)  # noqa: E731
    for quantity, select in (("context", np.asarray), ("rnn_input", joined), ("weights", np.asarray)):
        numeric = case.with_inputs(*step.named(quantity), inputs | (identity if quantity == "weights" else {}))
        yield DocumentedNumbers(numeric, step.gives(quantity), select)


class Additive(Steps):
    """The formula, step by step."""

    axes = Axes(query="b l q", key="b s k", value="b s v", w_query="q e", w_key="k e", w_score="e")

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, *,
        attn_mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        wide = self.wide(query)
        queries = self.queries(query.to(wide), w_query.to(wide))  # b l e
        keys = self.keys(key.to(wide), w_key.to(wide))  # b s e
        features = self.activate(self.join(queries, keys))  # b l s e
        scores = self.score(features, w_score.to(wide))  # b l s
        if attn_mask is not None:
            scores = self.mask(scores, attn_mask)
        return self.mix(self.softmax(scores), value.to(wide)).to(query.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        check_mask(arguments["attn_mask"], *(sizes[axis] for axis in "bls"))

    queries = formula(lambda query, w_query: query @ w_query)
    keys = formula(lambda key, w_key: key @ w_key)
    join = formula(lambda queries, keys: queries[:, :, None] + keys[:, None])
    activate = formula(torch.tanh)
    score = formula(lambda features, w_score: features @ w_score)
    mask = staticmethod(masked)
    softmax = staticmethod(softmax)
    mix = formula(lambda weights, value: weights @ value)


CONTROLS = {"correct": Additive()}
MUTANTS = all_mutants(
    Additive,
    whole={
        "tanh_of_each_term": Mutation("tanh is taken of the query's part and of the key's, and then they are added",
            Additive(join=lambda queries, keys: Additive.join(queries.tanh(), keys.tanh()), activate=torch.clone)),
        "accepts_more_values": Mutation("values beyond the keys are cut off instead of refused",
            with_arguments(value=lambda value, key: value[:, : key.shape[1]])),
        "broadcasts_feature": Mutation("one feature of the keys serves all features of the queries", with_arguments(
            w_key=lambda w_key, w_query: w_key.expand(-1, w_query.shape[1]) if w_key.shape[1] == 1 else w_key)),
        "broadcasts_item": Mutation("keys of one item are broadcast",
            with_arguments(key=for_all_items, value=for_all_items)),
        "swapped_items_and_queries": Mutation("items and queries are swapped where equal",
            with_arguments(query=swapped_where_equal(rank=3))),
        "keys_for_values": Mutation("keys are taken for values where they have one shape",
            with_arguments(value=lambda value, key: key if key.shape == value.shape else value)),
    },
    queries={"transposed_query_weights": Mutation("w_query is transposed if square", with_arguments(w_query=turned))},
    join={
        "first_query_only": Mutation("the first query serves all queries", with_arguments(queries=first_for_all(1))),
        "keys_of_first_item": Mutation("the keys of the first item serve all", with_arguments(keys=first_for_all())),
    },
    activate={"linear_features": Mutation("the features are not squashed at all", torch.clone)},
    score={"scaled_scores": Mutation("the scores are divided by the root of the features",
        with_result(lambda scores, w_score: scores / math.sqrt(len(w_score))), "documents, 11.3.4: no scaling")},
    mask={
        **OF_MASKS,
        **{
            f"fills_with_minus_{name}": Mutation(f"masked scores are −{says}, above some that are not masked",
                fill(-number, but_empty_rows=True))
            for name, says, number in (("10000", "10,000", 1e4), ("million", "1,000,000", 1e6))
        },
        "finite_fill": Mutation("masked scores are −10⁶: empty rows get the mean", fill(-1e6), "documents, E21"),
        "mask_of_first_item": Mutation("the first item's mask serves all",
            with_arguments(allowed=first_for_all(from_rank=3))),
        "mask_of_2_axes_for_items": Mutation(
            "a mask of two axes is read as items and keys where there are as many items as queries",
            with_arguments(allowed=lambda x, scores: x[:, None] if x.dim() == 2 and len(x) == len(scores) else x)),
    },
    softmax={
        "nan_for_empty_rows": Mutation("a query with nothing to attend to gives NaN", lambda x: x.softmax(-1)),
        "overflows": Mutation("the largest score is not subtracted: exponentials overflow", overflowing),
        "softmax_over_queries": Mutation("the softmax runs over the queries instead of the keys", over_queries),
        "drops_key_beyond_64": Mutation("the last of over 64 keys is dropped", with_arguments(scores=hidden_last(64))),
    },
    mix={"repeats_query_beyond_64": Mutation("queries beyond the 64th repeat it",
        with_result(repeated_beyond(64, -2)))},
)  # fmt: skip


def variants() -> list[Variant]:
    """One formula, several ways to compare."""
    return [
        Variant("one_product", "one product of every pair of query and key", widened(Additive, _one_product)),
        Variant("own_dtype", "the same in the dtype itself, half types too", Additive.validated(_one_product)),
        Variant("float64", "everything in float64", Additive(wide=lambda query: torch.float64)),
    ]


def _one_product(*tensors: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Every pair of query and key next to each other, times both matrices one below the other."""
    query, key, value, w_query, w_key, w_score = tensors
    lead = (len(query), query.shape[1], key.shape[1])
    pairs = torch.cat([query[:, :, None].expand(*lead, -1), key[:, None].expand(*lead, -1)], -1)
    scores = functional.linear(pairs, torch.cat([w_query, w_key]).mT).tanh() @ w_score
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ value
