"""The cases of the contract `attention_scores`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Array, Generator, Inputs, Printed, Question, Refused, Shaped, numbers
from suite.contracts.steps.attention_scores.contract import POSITIONAL, SCORES
from suite.contracts.steps.attention_scores.oracle import attention_scores
from suite.records import DTYPES
from suite.sources import documents

Given = tuple[str, str, str, Inputs]
"""An example, the quantity it gives, the function that computes it, and the inputs."""
Select = Callable[[Array], Array]

PRODUCT = "doc-004/11.3.3-bmm-shape"
"""A product of matrices of which the document asserts the shape alone."""


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *functions(), *ranks(), *sizes(), *numerics(), *layouts(), *bad_input()]


def drawn(
    random: Generator,
    *,
    lead: tuple[int, ...] = (),
    queries: int = 5,
    keys: int = 7,
    width: int = 6,
    key_width: int | None = None,
    features: int = 8,
    weights: tuple[str, ...] = (),
    size: float = 1.0,
    shift: float = 0.0,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs with a mean of their own, so that no term cancels. A name with a shape replaces that tensor."""
    key_width = width if key_width is None else key_width
    sizes = {
        "query": (*lead, queries, width),
        "key": (*lead, keys, key_width),
        "w": (width, key_width),
        "w_query": (width, features),
        "w_key": (key_width, features),
        "w_score": (features,),
    }
    wanted = ("query", "key", *weights, *shapes)
    inputs = {name: size * random.normal(size=(sizes | shapes)[name]) for name in dict.fromkeys(wanted)}
    return inputs | {name: inputs[name] + shift for name in POSITIONAL}


def question(name: str, why: str, score: str = "", dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options = {"score": score} if score else {}
    draw = partial(drawn, weights=SCORES.get(score, ()), **unusual)
    return Question(name, why, attention_scores, draw, POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """Scaled dot products."""
    yield question("plain/usual", "more keys than queries")
    yield question("plain/square", "all sizes equal: axes that were swapped still fit", queries=6, keys=6)
    yield question("plain/one_of_each", "one number each", queries=1, keys=1, width=1)


def functions() -> Iterator[Question]:
    """Every function by its name."""
    yield question("function/scaled_dot", "the default, spelled out", "scaled_dot")
    yield question("function/dot", "products without a scale", "dot")
    yield question("function/bilinear", "query and key of different widths", "bilinear", key_width=4)
    yield question("function/bilinear_square", "a matrix that could be transposed", "bilinear")
    yield question("function/additive", "query, key and features of different widths", "additive", key_width=4)
    yield question("function/additive_square", "matrices that could be swapped or transposed", "additive", features=6)
    yield question("function/distance", "half the squared distance, negative", "distance", shift=0.5)


def ranks() -> Iterator[Question]:
    """Leading axes."""
    for score in ("scaled_dot", "additive", "distance"):
        yield question(f"rank/3_{score}", "items of their own", score, lead=(3,))
        yield question(f"rank/4_{score}", "items and heads of their own", score, lead=(2, 3), features=6)


def sizes() -> Iterator[Question]:
    """Sizes that tiles do not divide, and none at all."""
    yield question("size/keys", "a last key among many", keys=129)
    yield question("size/queries", "a last query among many", queries=129)
    yield question("size/width", "a width in which single precision shows", width=301)
    yield question("size/no_keys", "no key to score", keys=0)
    yield question("size/no_queries", "no query to score", queries=0)


def numerics() -> Iterator[Question]:
    """Large and small numbers."""
    yield question("numerics/small", "features where tanh is its argument", "additive", size=1e-2)
    yield question("numerics/saturated", "features where tanh is 1 up to rounding", "additive", size=4.0)
    yield question("numerics/near", "distances of nearly equal vectors", "distance", ("float64", "float32"), size=0.01)
    yield question("numerics/half_sums", "sums that float16 and bfloat16 lose unless they are made in float32", "dot",
                   ("float16", "bfloat16"), width=256, size=0.5, shift=0.5)  # fmt: skip


def layouts() -> Iterator[asking.Case]:
    """Inputs and weights that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))
    for score in ("bilinear", "additive"):
        yield Scattered(question(f"layout/{score}", "weights that lie so too", score))


def bad_input() -> Iterator[Refused]:
    """What no function is defined for."""
    bilinear, additive = ("w",), SCORES["additive"]
    asked: list[tuple[str, str, Mapping[str, Any], str]] = [
        ("widths", "a query of width 6 and keys of width 4", {"key_width": 4}, ""),
        ("leading_axes", "2 items of queries and 3 of keys", {"query": (2, 5, 6), "key": (3, 7, 6)}, ""),
        ("one_item", "keys of 1 item, which would broadcast to 2", {"query": (2, 5, 6), "key": (1, 7, 6)}, ""),
        ("ranks", "a query of rank 3 and keys of rank 2", {"query": (2, 5, 6)}, ""),
        ("unknown_function", "a function that does not exist", {}, "cosine"),
        ("bilinear_without_w", "bilinear scores without their matrix", {}, "bilinear"),
        ("bilinear_matrix", "a matrix of 6 by 5 between widths 6 and 4",
         {"key_width": 4, "weights": bilinear, "w": (6, 5)}, "bilinear"),
        ("additive_without_weights", "additive scores without their network", {}, "additive"),
        ("additive_features", "8 features of a query and 7 of a key",
         {"weights": additive, "w_key": (6, 7)}, "additive"),
        ("additive_score", "weights for 9 features where there are 8",
         {"weights": additive, "w_score": (9,)}, "additive"),
        ("weight_of_another", "a matrix beside dot products, which take none", {"weights": bilinear}, "dot"),
    ]  # fmt: skip
    for name, why, unusual, score in asked:
        options = {"score": score} if score else {}
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' scores, wherever they give any, and products of matrices, which dot products are."""
    shown: dict[str, Select] = {"masked_scores": _lower, "query_2": _second}
    for id, quantity, score, inputs in given():
        example = documents.examples()[id]
        values = np.atleast_2d(numbers((example["derived"] | example["expected"])[quantity]))
        if quantity == "masked_scores":
            values = _lower(values)
        yield Printed(
            f"documents/{id}/{quantity}", _why(example, quantity), attention_scores, partial(_as_given, inputs),
            POSITIONAL, {"score": score}, printed=values, decimals=example["printed_decimals"].get(quantity),
            select=shown.get(quantity, np.asarray),
        )  # fmt: skip
    example = documents.examples()[PRODUCT]
    (items, queries, width), (_, _, keys) = (example["inputs"][name] for name in ("a_shape", "b_shape"))
    draw = partial(drawn, lead=(items,), queries=queries, keys=keys, width=width)
    yield Shaped(f"documents/{PRODUCT}", _why(example, "shape"), attention_scores, draw, POSITIONAL, {"score": "dot"},
                 shape=tuple(example["expected"]["output_shape"]))  # fmt: skip


def given() -> Iterator[Given]:
    for id, example in documents.examples().items():
        inputs, expected, parameters = example["inputs"], example["expected"], example["parameters"]
        if example["contract"] == "batch_matmul" and "a" in inputs:
            yield id, "output", "dot", {"query": numbers(inputs["a"]), "key": numbers(inputs["b"]).swapaxes(-1, -2)}
        if example["kind"] != "values":
            continue
        if parameters.get("stage") == "projection":
            yield id, "query_2", "dot", {"query": numbers(inputs["x"]), "key": numbers(inputs["w_query"]).T}
        elif example["contract"] in ("attention", "masked_softmax") and "query" in inputs:
            asked = {name: np.atleast_2d(numbers(inputs[name])) for name in POSITIONAL}
            if parameters.get("score") == "-||q-k||^2/2":
                yield id, "scores", "distance", asked
            elif "m" in inputs:
                yield id, "scores", "bilinear", asked | {"w": numbers(inputs["m"])}
            elif "scores" in expected:
                yield id, "scores", "dot", asked
            elif "masked_scores" in expected and parameters["mask_fill"] == "-inf":
                yield id, "masked_scores", "dot", asked
            elif "scaled_scores" in expected:
                yield id, "scaled_scores", "scaled_dot", asked
        elif example["contract"] in ("additive_attention", "seq2seq_attention") and "scores" in expected:
            query, key = ("query", "key") if "query" in inputs else ("previous_decoder_state", "encoder_states")
            names = {"query": query, "key": key, "w_query": "w_query", "w_key": "w_key", "w_score": "w_v"}
            yield id, "scores", "additive", {name: numbers(inputs[theirs]) for name, theirs in names.items()}


def _why(example: Mapping[str, Any], quantity: str) -> str:
    return f"{example['document']}, section {example['section']}: {quantity}"


def _as_given(inputs: Inputs, random: Generator) -> Inputs:
    return inputs


def _lower(scores: Array) -> Array:
    """What the causal rule allows."""
    chosen: Array = scores[np.tril_indices(len(scores))]
    return chosen


def _second(rows: Array) -> Array:
    return rows[1:2]
