"""The cases of the contract `attention_scores`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.attention_scores.contract import POSITIONAL, SCORES
from attnsuite.contracts.steps.attention_scores.oracle import attention_scores

Mask = Callable[[Generator], Array]
MASK = "doc-000/2-neg-inf-mask"
"""A causal mask of −∞ above ones: what scores of one become."""
PRODUCT = "doc-004/11.3.3-bmm-shape"
"""A product of matrices; the document asserts nothing but its shape."""


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(),
        *printed(),
        *functions(),
        *heads(),
        *masks(),
        *sizes(),
        *numerics(),
        *layouts(),
        *asked.again(),
        *bad_input(),
    ]


def drawn(
    random: Generator,
    *,
    lead: tuple[int, ...] = (),
    queries: int = 5,
    keys: int = 7,
    width: int = 6,
    key_width: int | None = None,
    features: int = 8,
    score: str = "scaled_dot",
    weights: tuple[str, ...] | None = None,
    size: float = 1.0,
    shift: float = 0.0,
    mask: Mask | None = None,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs with a mean of their own, so that no term cancels; the function's weights, unless others are named.

    A name with a shape replaces that tensor.
    """
    key_width = width if key_width is None else key_width
    sizes = {
        "query": (*lead, queries, width),
        "key": (*lead, keys, key_width),
        "w": (width, key_width),
        "w_query": (width, features),
        "w_key": (key_width, features),
        "w_score": (features,),
    }
    wanted = ("query", "key", *(SCORES.get(score, ()) if weights is None else weights), *shapes)
    inputs = {name: size * random.normal(size=(sizes | shapes)[name]) for name in dict.fromkeys(wanted)}
    hiding = {} if mask is None else {"attn_mask": mask(random)}
    return inputs | {name: inputs[name] + shift for name in POSITIONAL} | hiding


asked = Formula(attention_scores, POSITIONAL, drawn, shared=("score",))


def plain() -> Iterator[Case]:
    """Scaled dot products."""
    yield asked("plain/usual", "more keys than queries")
    yield asked("plain/square", "all sizes equal: axes that were swapped still fit", queries=6, keys=6)
    yield asked("plain/one_of_each", "one number each", queries=1, keys=1, width=1)


def functions() -> Iterator[Case]:
    """Every function by its name."""
    yield asked("function/scaled_dot", "the default, spelled out", score="scaled_dot")
    yield asked("function/dot", "products without a scale", score="dot")
    yield asked("function/bilinear", "query and key of different widths", score="bilinear", key_width=4)
    yield asked("function/bilinear_square", "a matrix that could be transposed", score="bilinear")
    yield asked("function/additive", "query, key and features of different widths", score="additive", key_width=4)
    yield asked(
        "function/additive_square", "matrices that could be swapped or transposed", score="additive", features=6
    )
    for score in SCORES:
        yield asked(f"function/{score}_items", "as many items as queries, keys and numbers", PRECISE, score=score,
                    lead=(3,), **_all(3))  # fmt: skip
    yield asked("function/distance", "half the squared distance, negative", score="distance", shift=0.5)


def of(*shape: int) -> Mask:
    """Some of the keys, for each query others."""
    return lambda random: random.random(shape) < 0.6


def masks() -> Iterator[Case]:
    """Boolean masks, which leave −∞."""

    def with_an_empty_row(random: Generator) -> Array:
        mask = random.random((5, 7)) < 0.6
        mask[1] = False
        return mask

    yield asked("mask/whole", "each query has keys of its own", mask=of(5, 7))
    yield asked("mask/square", "a mask whose queries and keys could be swapped", queries=6, keys=6, mask=of(6, 6))
    yield asked("mask/by_key", "the same for all queries", mask=of(7))
    yield asked("mask/empty_row", "a query that may attend to nothing: −∞ alone", mask=with_an_empty_row)
    yield asked("mask/by_head", "a mask of each head, the same for all items", lead=(2, 3), mask=of(3, 5, 7))
    for score in SCORES:
        yield asked(f"mask/{score}", "items that have masks of their own", PRECISE, score=score, lead=(2,),
                    mask=of(2, 5, 7))  # fmt: skip


def _all(size: int) -> dict[str, int]:
    """Every size is the same: axes that were swapped still fit."""
    return dict.fromkeys(("queries", "keys", "width", "features"), size)


def heads() -> Iterator[Case]:
    """Every function in rank 4."""
    for score in SCORES:
        yield asked(f"function/{score}_heads", "items and heads of their own", score=score, lead=(2, 3))
        yield asked(f"function/{score}_square_heads", "as many items and heads as queries, keys and numbers", PRECISE,
                    score=score, lead=(3, 3), **_all(3))  # fmt: skip


def sizes() -> Iterator[Case]:
    """Sizes that tiles do not divide, and none at all."""
    yield asked("size/keys", "a last key among many", keys=129)
    yield asked("size/queries", "a last query among many", queries=129)
    yield asked("size/width", "a width in which single precision shows", width=301)
    yield asked("size/no_keys", "no key to score", keys=0)
    yield asked("size/no_queries", "no query to score", queries=0)


def numerics() -> Iterator[Case]:
    """Large and small numbers."""
    yield asked("numerics/small", "features where tanh is its argument", score="additive", size=1e-2)
    yield asked("numerics/saturated", "features where tanh is 1 up to rounding", score="additive", size=4.0)
    yield asked("numerics/near", "distances of nearly equal vectors", PRECISE, score="distance", size=0.01)
    yield asked("numerics/half_sums", "sums that float16 and bfloat16 lose unless they are made in float32", ("float16", "bfloat16"),
                   score="dot", width=256, size=0.5, shift=0.5)  # fmt: skip


def layouts() -> Iterator[Case]:
    """Inputs and weights that do not lie in memory row by row."""
    return asked.layouts(*((score, "weights that lie so too", {"score": score}) for score in ("bilinear", "additive")))


def bad_input() -> Iterator[BadInputCase]:
    """What no function is defined for."""
    return asked.refused(
        ("widths", "a query of width 6 and keys of width 4", {"key_width": 4}),
        ("leading_axes", "2 items of queries and 3 of keys", {"query": (2, 5, 6), "key": (3, 7, 6)}),
        ("one_item", "keys of 1 item, which would broadcast to 2", {"query": (2, 5, 6), "key": (1, 7, 6)}),
        ("ranks", "a query of rank 3 and keys of rank 2", {"query": (2, 5, 6)}),
        ("unknown_function", "a function that does not exist", {"score": "cosine"}),
        ("bilinear_without_w", "bilinear scores without their matrix", {"score": "bilinear", "weights": ()}),
        ("bilinear_matrix", "a matrix of 6 by 5 between widths 6 and 4",
         {"score": "bilinear", "key_width": 4, "w": (6, 5)}),
        ("additive_without_weights", "additive scores without their network", {"score": "additive", "weights": ()}),
        ("additive_features", "8 features of a query and 7 of a key", {"score": "additive", "w_key": (6, 7)}),
        ("additive_score", "weights for 9 features where there are 8", {"score": "additive", "w_score": (9,)}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": of(5, 6)}),
        ("mask_rank", "a mask of a higher rank than the scores", {"mask": of(2, 5, 7)}),
        ("float_mask", "a mask of numbers", {"mask": lambda random: random.normal(size=(5, 7))}),
        ("weight_of_another", "a matrix beside dot products, which take none", {"score": "dot", "weights": ("w",)}),
    )  # fmt: skip


def printed() -> Iterator[Case]:
    """The documents' scores, wherever they give any, and products of matrices, which dot products are."""
    shown: dict[str, Callable[[Array], Array]] = {"query_2": _second}
    for example, quantity, score, inputs in given():
        values = np.atleast_2d(numbers(example.quantities[quantity]))
        case = asked.given(*example.named(quantity), inputs, score=score)
        yield DocumentedNumbers(case, example.gives(quantity, values), shown.get(quantity, np.asarray))
    product = documents.examples()[PRODUCT]
    (items, queries, width), (_, _, keys) = (product.inputs[name] for name in ("a_shape", "b_shape"))
    case = asked(*product.named(), score="dot", lead=(items,), queries=queries, keys=keys, width=width)
    yield DocumentedShape(case, product.at(), product.output_shape)


def given() -> Iterator[tuple[Excerpt, str, str, Inputs]]:
    """An example, the quantity that it gives, the function that computes it, and the inputs."""
    for example in documents.examples().values():
        inputs, attending = example.inputs, example.contract in ("attention", "masked_softmax")
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
        elif attending and "query" in inputs:
            yield from _of_attention(example)
        elif example.contract in ("additive_attention", "seq2seq_attention") and "scores" in example.expected:
            query, key = ("query", "key") if "query" in inputs else ("previous_decoder_state", "encoder_states")
            names = {"query": query, "key": key, "w_query": "w_query", "w_key": "w_key", "w_score": "w_v"}
            yield example, "scores", "additive", {name: numbers(inputs[theirs]) for name, theirs in names.items()}


def _of_attention(example: Excerpt) -> Iterator[tuple[Excerpt, str, str, Inputs]]:
    """The scores on the way to an attention, where the document gives any."""
    expected, parameters = example.expected, example.parameters
    points = {name: np.atleast_2d(numbers(example.inputs[name])) for name in POSITIONAL}
    if parameters.get("score") == "-||q-k||^2/2":
        yield example, "scores", "distance", points
    elif "m" in example.inputs:
        yield example, "scores", "bilinear", points | {"w": numbers(example.inputs["m"])}
    elif "scores" in expected:
        yield example, "scores", "dot", points
    elif "masked_scores" in expected and parameters["mask_fill"] == "-inf":
        causal = np.tri(len(points["query"]), len(points["key"]), dtype=bool)
        yield example, "masked_scores", "dot", points | {"attn_mask": causal}
    elif "scaled_scores" in expected:
        yield example, "scaled_scores", "scaled_dot", points


def _second(rows: Array) -> Array:
    return rows[1:2]
