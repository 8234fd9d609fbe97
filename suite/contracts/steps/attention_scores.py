"""The contract `attention_scores`: the first step of attention, by a named function.

    attention_scores(query, key, *, score="scaled_dot", w=None, w_query=None, w_key=None, w_score=None,
        attn_mask=None) -> scores

    dot         query_i · key_j
    scaled_dot  query_i · key_j / √e
    bilinear    query_iᵀ w key_j                                        w: q k
    additive    tanh(query_i w_query + key_j w_key) · w_score           w_query: q f, w_key: k f, w_score: f
    distance    −‖query_i − key_j‖² / 2, the logarithm of a Gaussian kernel of width 1

Axes: `… l q` query, `… s k` key, `… l s` scores (l queries, s keys, f features). Widths q and k are equal, e (the
head width, d in the literature), except for bilinear and additive. Rank 2, 3 and 4; leading axes are equal.

    weights          only those that the function names
    attn_mask        boolean, True means may attend; broadcastable to … l s. Whatever the function, a masked score is
                     −∞ itself: a finite number in its place is wrong, however far below
    rounding         sums may run in any order, in half types in float32; each step's result may be rounded to the
                     dtype. 1/√e may be applied to the products, before them to query or key, or its root to both;
                     bilinear may be (q w) kᵀ or q (w kᵀ), and additive's maps one product of query and key
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           query's dtype and device; scores that overflow the dtype are not tested
    distance         may be computed as query · key − ‖query‖²/2 − ‖key‖²/2: the bound allows what that loses
    bad input        raises: an unknown function, a weight that is missing or not named by the function, widths that do
                     not chain, leading axes that differ, a mask that cannot broadcast or is not boolean

Not tested:

    gradients        the contract `attention` tests those of a whole attention
    overflow         scores beyond the range of the dtype
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.bad_input import Row
from attnsuite.cases.changes import first_for_all, repeated_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import ANY, Arguments, Axes, Sizes, Steps, all_mutants, check_mask
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.shared import OF_MASKS, fill, masked
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.additive_attention import Mask, random_mask
from attnsuite.contracts.steps.additive_attention import scores as additive
from attnsuite.judging.running_error import WithError, whichever

POSITIONAL = ("query", "key")
SCORES = {"dot": (), "scaled_dot": (), "bilinear": ("w",), "additive": ("w_query", "w_key", "w_score"), "distance": ()}
"""The functions, and the weights that each takes."""
WEIGHTS: dict[str, tuple[str, ...]] = {"w": ("bilinear",), **dict.fromkeys(SCORES["additive"], ("additive",))}


FUNCTIONS = {
    "dot": "dot products without a scale",
    "bilinear": "a matrix between query and key",
    "additive": "a small network of query and key",
    "distance": "squared distances",
}
CONTRACT = declare(
    __name__,
    {**FUNCTIONS, "bool_mask": "boolean masks", "rank3": "inputs of rank 3", "rank4": "inputs of rank 4"},
    {"score": tuple(FUNCTIONS), **WEIGHTS, "attn_mask": ("bool_mask",)},
    by_value=("score", *WEIGHTS),  # the function's name says what is needed; weights, which are no words, say nothing
    also={f"rank{rank}": partial(lambda rank, call: call.tensors["query"].dim() == rank, rank) for rank in (3, 4)},
)


def oracle(
    query: WithError, key: WithError, *, score: str = "scaled_dot", attn_mask: Array | None = None, **weights: WithError
) -> WithError:
    """The score of each key for each query, … l s; −∞ where the query may not attend to the key."""
    if score == "bilinear":
        scores = whichever((query @ weights["w"]) @ key.T, query @ (weights["w"] @ key.T))
    elif score == "additive":
        scores = additive(query, key, **weights)
    elif score == "distance":
        scores = distance(query, key)
    else:
        scores = scaled_dot(query, key) if score == "scaled_dot" else query @ key.T
    if attn_mask is None:
        return scores
    value, bound = (np.broadcast_to(array, scores.shape) for array in (scores.value, np.asarray(scores.bound)))
    return WithError(np.where(attn_mask, value, -np.inf), np.where(attn_mask, bound, 0.0), query.precision)


def scaled_dot(query: WithError, key: WithError) -> WithError:
    """query keyᵀ / √e, … l s. The scale may be applied to the products, to query or key, or its root to both."""
    scale = 1 / math.sqrt(query.shape[-1])
    root = math.sqrt(scale)
    return whichever(
        (query @ key.T) * scale, (query * scale) @ key.T, query @ (key * scale).T, (query * root) @ (key * root).T
    )


def distance(query: WithError, key: WithError) -> WithError:
    """−‖query − key‖² / 2, … l s; its bound allows the expanded form, which loses more."""
    difference = query[..., :, None, :] - key[..., None, :, :]  # … l s e
    direct = (difference * difference).sum() * -0.5
    expanded = (query @ key.T).with_rounding_error() - (query * query).sum(keepdims=True) * 0.5
    expanded = expanded - (key * key).sum(keepdims=True).T * 0.5
    return WithError(direct.value, expanded.bound + direct.bound, query.precision)


def draw(
    random: Generator, *, lead: tuple[int, ...] = (), queries: int = 5, keys: int = 7, width: int = 6,
    key_width: int | None = None, features: int = 8, score: str = "scaled_dot", weights: tuple[str, ...] | None = None,
    size: float = 1.0, shift: float = 0.0, mask: Mask | None = None, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Inputs with a mean; the function's weights, unless others are named; a tensor's name gives it another shape."""
    key_width = width if key_width is None else key_width
    usual = {"query": (*lead, queries, width), "key": (*lead, keys, key_width), "w": (width, key_width)}
    usual |= {"w_query": (width, features), "w_key": (key_width, features), "w_score": (features,)}
    names = (*POSITIONAL, *(SCORES.get(score, ()) if weights is None else weights), *shapes)
    inputs = {name: size * random.normal(size=(usual | shapes)[name]) for name in dict.fromkeys(names)}
    hidden = {} if mask is None else {"attn_mask": mask(random)}
    return inputs | {name: inputs[name] + shift for name in POSITIONAL} | hidden


def with_an_empty_row(random: Generator) -> Array:
    """A mask by which the second query may attend to nothing."""
    mask = random.random((5, 7)) < 0.6
    mask[1] = False
    return mask


BAD_INPUT: list[Row] = [
    ("widths", "a query of width 6 and keys of width 4", {"key_width": 4}),
    ("leading_axes", "2 items of queries and 3 of keys", {"query": (2, 5, 6), "key": (3, 7, 6)}),
    ("one_item", "keys of 1 item for 2 items of queries", {"query": (2, 5, 6), "key": (1, 7, 6)}),
    ("ranks", "a query of rank 3 and keys of rank 2", {"query": (2, 5, 6)}),
    ("unknown_function", "a function that does not exist", {"score": "cosine"}),
    ("bilinear_without_w", "bilinear scores without their matrix", {"score": "bilinear", "weights": ()}),
    ("bilinear_matrix", "a matrix of 6 by 5 for widths of 6", {"score": "bilinear", "w": (6, 5)}),
    ("additive_without_weights", "additive scores without their network", {"score": "additive", "weights": ()}),
    ("additive_features", "8 features of a query and 7 of a key", {"score": "additive", "w_key": (6, 7)}),
    ("additive_score", "weights for 9 features where there are 8", {"score": "additive", "w_score": (9,)}),
    ("mask_keys", "a mask for 6 of 7 keys", {"mask": random_mask(5, 6)}),
    ("mask_rank", "a mask of a higher rank than the scores", {"mask": random_mask(2, 5, 7)}),
    ("float_mask", "a mask of floating-point numbers", {"mask": lambda random: random.normal(size=(5, 7))}),
    ("weight_of_another", "a matrix with dot products, which take none", {"score": "dot", "weights": ("w",)}),
]

case = Formula(oracle, POSITIONAL, draw, shared=("score",))


def cases() -> list[Case]:
    """All cases, the plainest first."""
    six: dict[str, Any] = {"queries": 6, "keys": 6}
    three: dict[str, Any] = dict.fromkeys(("queries", "keys", "width", "features"), 3)
    half_sums = {"score": "dot", "width": 256, "size": 0.5, "shift": 0.5}
    return [
        case("plain/usual", "more keys than queries"),
        case("plain/square", "all sizes equal: axes that were swapped still fit", **six),
        *documented(),
        *(case(f"function/{score}", "query and key of their own widths", score=score, key_width=width, shift=shift)
            for score, width, shift in (("dot", 6, 0), ("bilinear", 4, 0), ("additive", 4, 0), ("distance", 6, 0.5))),
        *(case(f"function/{score}_{name}", "as many of everything", PRECISE, score=score, lead=lead, **three)
            for score in SCORES for name, lead in (("items", (3,)), ("square_heads", (3, 3)))),
        case("mask/square", "a mask whose queries and keys could be swapped", **six, mask=random_mask(6, 6)),
        case("mask/empty_row", "a query that may attend to nothing: −∞ alone", mask=with_an_empty_row),
        *(case(f"mask/{score}", "a mask of each item", PRECISE, score=score, lead=(2,), mask=random_mask(2, 5, 7))
            for score in SCORES),
        case("size/keys", "129 keys, one more than a tile of 128", keys=129),
        case("size/width", "a width in which single precision shows", width=301),
        case("size/no_keys", "no key to score", keys=0),
        case("size/no_queries", "no query to score", queries=0),
        case("numerics/small", "features where tanh is its argument", score="additive", size=1e-2),
        case("numerics/saturated", "features where tanh is 1 up to rounding", score="additive", size=4.0),
        case("numerics/half_sums", "sums that half types lose unless in float32", ("float16", "bfloat16"), **half_sums),
        *case.layouts(("bilinear", "weights that lie so too", {"score": "bilinear"})),
        *case.repeated(),
        *case.bad_input(*BAD_INPUT),
    ]  # fmt: skip


MASK = "doc-000/2-neg-inf-mask"
"""A causal mask of −∞ above ones: what scores of one become."""
PRODUCT = "doc-004/11.3.3-bmm-shape"
"""A product of matrices; the document asserts nothing but its shape."""


def documented() -> Iterator[Case]:
    """The documents' scores, wherever they give any, and products of matrices, which are dot products."""
    for example, quantity, score, inputs in _examples():
        figures = example.gives(quantity, np.atleast_2d(numbers(example.quantities[quantity])))
        numeric = case.with_inputs(*example.named(quantity), inputs, score=score)
        yield DocumentedNumbers(numeric, figures, (lambda rows: rows[1:2]) if quantity == "query_2" else np.asarray)
    for example in documents.examples().values():
        if "scores_shape" in example.expected:  # of several heads
            *lead, queries, keys = shape = example.expected["scores_shape"]
            sizes = {"lead": tuple(lead), "queries": queries, "keys": keys, "width": _head_width(example)}
            drawn = case(*example.named("scores_shape"), score="scaled_dot", **sizes)
            yield DocumentedShape(drawn, example.at("scores_shape"), shape)
    product = documents.examples()[PRODUCT]
    (items, queries, width), (_, _, keys) = (product.inputs[name] for name in ("a_shape", "b_shape"))
    shaped = case(*product.named(), score="dot", lead=(items,), queries=queries, keys=keys, width=width)
    yield DocumentedShape(shaped, product.at(), product.output_shape)


def _examples() -> Iterator[tuple[Excerpt, str, str, Inputs]]:
    """An example, the quantity that it gives, the function that computes it, and the inputs."""
    for example in documents.examples().values():
        inputs = example.inputs
        if example.contract == "batch_matmul" and "a" in inputs:
            product = {"query": numbers(inputs["a"]), "key": numbers(inputs["b"]).swapaxes(-1, -2)}
            yield example, "output", "dot", product
        if example.id == MASK:
            ones = np.ones((len(example.expected["mask"]), 1))
            yield example, "mask", "dot", {"query": ones, "key": ones, "attn_mask": np.tri(len(ones), dtype=bool)}
        if example.kind != "values":
            continue
        if example.parameters.get("stage") == "projection":
            yield example, "query_2", "dot", {"query": numbers(inputs["x"]), "key": numbers(inputs["w_query"]).T}
        elif example.contract in ("attention", "masked_softmax", "multi_head_attention"):
            yield from _of_attention(example)
        elif example.contract in ("additive_attention", "seq2seq_attention") and "scores" in example.expected:
            query, key = POSITIONAL if "query" in inputs else ("previous_decoder_state", "encoder_states")
            arrays = example.numbers((query, key, "w_query", "w_key", "w_v")).values()
            named = dict(zip((*POSITIONAL, *SCORES["additive"]), arrays, strict=True))
            yield example, "scores", "additive", named


def _of_attention(example: Excerpt) -> Iterator[tuple[Excerpt, str, str, Inputs]]:
    """The scores on the way to an attention, where the document or its definition gives any."""
    given, parameters = example.quantities, example.parameters
    if not {"scores", "scaled_scores", "masked_scores"} & set(given):
        return
    points = {role: _points(example, role) for role in POSITIONAL}
    if parameters.get("score") == "-||q-k||^2/2":
        yield example, "scores", "distance", points
        norm = (points["key"] ** 2).sum(-1, keepdims=True)
        halves = {"query": np.ones_like(points["query"][..., :1]), "key": -norm / 2}  # a column of its own
        columns = {role: np.concatenate([points[role], halves[role]], -1) for role in POSITIONAL}
        yield example, "scores_without_query_norm", "dot", columns
    elif "scores" in given:
        matrix = {"w": numbers(example.inputs["m"])} if "m" in example.inputs else {}
        yield example, "scores", "bilinear" if matrix else "dot", points | matrix
    if "masked_scores" in given and parameters["mask_fill"] == "-inf":
        causal = np.tri(len(points["query"]), len(points["key"]), dtype=bool)
        yield example, "masked_scores", "dot", points | {"attn_mask": causal}
    if "scaled_scores" in given:
        factor = parameters["scale"] * math.sqrt(points["query"].shape[-1])
        usual = math.isclose(factor, 1)  # else the document divides by another number than √e
        yield example, "scaled_scores", "scaled_dot", points | ({} if usual else {"query": factor * points["query"]})


def _points(example: Excerpt, role: str) -> Array:
    """Queries or keys, mapped and divided into heads where the example has maps and heads."""
    inputs = example.inputs
    x = np.atleast_2d(numbers(next(inputs[name] for name in (role, f"x_{role}", "x") if name in inputs)))
    if f"w_{role}" in inputs:
        x = x @ numbers(inputs[f"w_{role}"]) + numbers(inputs.get(f"b_{role}", 0.0))
    if "num_heads" in example.parameters:
        x = x.reshape(*x.shape[:-1], -1, _head_width(example)).swapaxes(1, 2)  # b h l p
    return x


def _head_width(example: Excerpt) -> int:
    width = example.parameters.get("d_feat") or len(example.inputs["w_query"][0])
    return int(width) // int(example.parameters["num_heads"])


AXES = {
    **dict.fromkeys(("dot", "scaled_dot", "distance"), Axes(query="… l e", key="… s e")),
    "bilinear": Axes(query="… l q", key="… s k", w="q k"),
    "additive": Axes(query="… l q", key="… s k", w_query="q e", w_key="k e", w_score="e"),
}


class Scores(Steps):
    """Every function, step by step."""

    choices: ClassVar = {"score": tuple(SCORES)}

    def compute(
        self, query: Tensor, key: Tensor, *, score: str = "scaled_dot", attn_mask: Tensor | None = None,
        **weights: Tensor,
    ) -> Tensor:  # fmt: skip
        tensors = (query, key, *(weights[name] for name in SCORES[score]))
        scores: Tensor = getattr(self, score)(*(tensor.to(self.wide(query)) for tensor in tensors))
        return (scores if attn_mask is None else self.mask(scores, attn_mask)).to(query.dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        score, weights = arguments["score"], arguments.get("weights", {})
        if set(weights) != set(SCORES[score]):
            raise ValueError(f"{score} with {sorted(weights)}")
        lead = AXES[score].check({**arguments, **weights})[ANY]
        check_mask(arguments["attn_mask"], *lead, arguments["query"].shape[-2], arguments["key"].shape[-2])

    dot = formula(lambda query, key: query @ key.mT)
    scaled_dot = formula(lambda query, key: query @ key.mT / math.sqrt(query.shape[-1]))
    bilinear = formula(lambda query, key, w: query @ w @ key.mT)
    additive = formula(
        lambda query, key, w_query, w_key, w_score: features(query @ w_query, key @ w_key).tanh() @ w_score
    )
    distance = formula(lambda query, key: -features(query, -key).square().sum(-1) / 2)
    mask = staticmethod(masked)


def features(query: Tensor, key: Tensor) -> Tensor:
    """The sum of each query and each key, … l s e."""
    return query.unsqueeze(-2) + key.unsqueeze(-3)


CONTROLS = {"correct": Scores()}
MUTANTS = all_mutants(
    Scores,
    whole={
        "accepts_weights_of_another": Mutation("weights that the function does not take are accepted in silence",
            with_arguments(weights=lambda weights, score: {name: weights[name] for name in SCORES[score]})),
        "keys_of_first_item": Mutation("the first item's keys serve all",
            with_arguments(key=first_for_all(from_rank=3))),
        "swapped_items_and_heads": Mutation("items and heads of the keys are swapped where there are as many",
            with_arguments(key=swapped_where_equal(rank=4))),
        "swapped_items_and_queries": Mutation("items are taken for queries where there are as many",
            with_arguments(query=swapped_where_equal(rank=3))),
        "swapped_beside_scaled_dot": Mutation(
            "queries and keys are swapped where there are as many, by all functions but scaled_dot",
            with_result(lambda scores, score: scores if score == "scaled_dot" else turned(scores))),
        "broadcasts_items": Mutation("keys of one item serve all items of the query", with_arguments(
            key=lambda key, query: key.expand(*query.shape[:-2], *key.shape[-2:]) if len(key) == 1 else key)),
    },
    scaled_dot={
        "unscaled": Mutation("the scores are not divided by √d", Scores.dot, "documents, E1"),
        "scaled_by_keys": Mutation("the scores are divided by √s, the number of keys",
            lambda query, key: query @ key.mT / math.sqrt(max(1, key.shape[-2]))),
        "swapped": Mutation("queries and keys are swapped where there are as many of both", with_result(turned)),
        "repeats_key_beyond_64": Mutation("keys beyond the 64th repeat it", with_result(repeated_beyond(64, -1))),
    },
    dot={"scaled_dots": Mutation("dot products are divided by √d", Scores.scaled_dot)},
    bilinear={
        "transposed_matrix": Mutation("the matrix is transposed where it is square", with_arguments(w=turned)),
        "scaled_bilinear": Mutation("bilinear scores are divided by √d",
            with_result(lambda scores, query: scores / math.sqrt(query.shape[-1]))),
    },
    additive={
        "overflowing_tanh": Mutation("tanh is (e²ˣ − 1) / (e²ˣ + 1), which overflows to NaN",
            lambda query, key, w_query, w_key, w_score:
            (lambda powers: (powers - 1) / (powers + 1))((2 * features(query @ w_query, key @ w_key)).exp()) @ w_score),
        "tanh_of_each_term": Mutation("tanh is taken of the query's part and of the key's, and then they are added",
            lambda query, key, w_query, w_key, w_score:
            (features((query @ w_query).tanh(), (key @ w_key).tanh()) @ w_score)),
        "keys_by_query_weights": Mutation("the query's weights serve the keys too where their shapes allow it",
            with_arguments(w_key=lambda w_key, w_query: w_query if w_query.shape == w_key.shape else w_key)),
        "transposed_weights": Mutation("the weights are transposed where they are square, as linear layers store them",
            with_arguments(w_query=turned, w_key=turned)),
    },
    distance={"distance_without_query_norm": Mutation("the query's norm is left out, as a softmax allows",
        lambda query, key: query @ key.mT - (key**2).sum(-1).unsqueeze(-2) / 2, "documents, 11.3.1")},
    mask={
        **OF_MASKS,
        "fills_with_minus_billion": Mutation("masked scores are −10⁹, not −∞", fill(-1e9), "documents, E8"),
        "adds_zeros_and_ones": Mutation("the mask is added as zeros and ones, which hides nothing",
            lambda scores, allowed: scores + allowed, "documents, E2"),
        "leaves_empty_rows": Mutation("a query that may attend to nothing keeps its scores",
            with_arguments(allowed=lambda allowed: allowed | ~allowed.any(-1, keepdim=True))),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """Five formulas, in two other orders."""
    queries_first = Scores(
        wide=lambda query: query.dtype,
        scaled_dot=lambda query, key: (query * query.shape[-1] ** -0.5) @ key.mT,
        additive=_additive_of_pairs,
    )
    keys_first = Scores(
        dot=lambda query, key: (key @ query.mT).mT.contiguous(),
        scaled_dot=lambda query, key: query @ (key / math.sqrt(key.shape[-1])).mT,
        bilinear=lambda query, key, w: query @ (w @ key.mT),
        additive=lambda query, key, w_query, w_key, w_score: (
            (key @ w_key)[..., None, :, :] + (query @ w_query)[..., :, None, :]).tanh() @ w_score,
        distance=lambda query, key: (query @ key.mT - (key * key).sum(-1)[..., None, :] / 2
            - (query * query).sum(-1, keepdim=True) / 2),
    )  # fmt: skip
    return [
        Variant("own_dtype", "queries are mapped first, in the dtype itself", queries_first),
        Variant("keys_first", "keys are mapped and scaled, distances expanded", keys_first),
    ]


def _additive_of_pairs(query: Tensor, key: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor) -> Tensor:
    lead = (*query.shape[:-1], key.shape[-2])
    pairs = (query[..., :, None, :].expand(*lead, -1), key[..., None, :, :].expand(*lead, -1))
    return (torch.cat(pairs, -1) @ torch.cat([w_query, w_key])).tanh() @ w_score
