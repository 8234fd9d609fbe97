"""The cases of the contract `additive_attention`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, identity_values, numbers, valid
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.additive_attention import oracle
from attnsuite.contracts.steps.additive_attention.contract import POSITIONAL

Mask = Callable[[Generator], Array]


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *masks(), *numerics(), *layouts(), *asked.again(), *bad_input()]


def drawn(
    random: Generator,
    *,
    batch: int = 2,
    queries: int = 5,
    keys: int = 7,
    query_width: int = 6,
    key_width: int = 4,
    value_width: int = 3,
    features: int = 8,
    size: float = 1.0,
    peak: float = 3.0,
    mask: Mask | None = None,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs whose scores differ by several units, so that a mistake shows; values with a non-zero mean.

    A name with a shape replaces that tensor.
    """
    inputs = {
        "query": size * random.normal(size=(batch, queries, query_width)),
        "key": size * random.normal(size=(batch, keys, key_width)),
        "value": random.normal(size=(batch, keys, value_width)) + 0.5,
        "w_query": random.normal(size=(query_width, features)) / np.sqrt(query_width),
        "w_key": random.normal(size=(key_width, features)) / np.sqrt(key_width),
        "w_score": peak * random.normal(size=features) / np.sqrt(features),
    }
    inputs |= {name: random.normal(size=shape) for name, shape in shapes.items()}
    return inputs if mask is None else inputs | {"attn_mask": mask(random)}


asked = Formula(oracle.additive_attention, POSITIONAL, drawn, values="value")


def plain() -> Iterator[Case]:
    """No mask."""
    yield asked("plain/usual", "queries, keys, values and features of different widths")
    yield asked("plain/one_of_each", "one query, one key, one feature", queries=1, keys=1, features=1)
    yield asked("plain/square", "all sizes equal: axes that were swapped still fit", batch=4, queries=4, keys=4,
                   query_width=4, key_width=4, value_width=4, features=4)  # fmt: skip
    yield asked("plain/many_keys", "a last key among many", queries=2, keys=129)
    yield asked("plain/many_queries", "more queries than keys", queries=67, keys=3)
    yield asked("plain/no_keys", "nothing to attend to gives zeros", keys=0)
    yield asked("plain/no_queries", "nobody asks", queries=0)
    yield asked("plain/wide", "features in which single precision shows", features=300)


def of(*shape: int) -> Mask:
    """A mask of that shape, by which a query may attend to most keys."""
    return lambda random: random.random(shape) < 0.6


def masks() -> Iterator[Case]:
    """Boolean masks, broadcast along every axis."""

    def with_empty_rows(random: Generator) -> Array:
        mask = random.random((2, 5, 7)) < 0.6
        mask[0, 1] = mask[1, 4] = False
        return mask

    yield asked("mask/whole", "each query of each item has keys of its own", mask=of(2, 5, 7))
    yield asked("mask/by_item", "lengths: the same keys for all queries of an item",
                   mask=lambda _: np.arange(7) < np.array([3, 6])[:, None, None])  # fmt: skip
    yield asked("mask/by_query", "the same for all items", mask=of(5, 7))
    yield asked("mask/by_key", "the same for all", mask=of(7))
    yield asked("mask/as_many_items", "two axes are those of queries and keys, though there are as many items",
                   queries=2, mask=of(2, 7))  # fmt: skip
    yield asked("mask/no_keys", "a mask for no keys", keys=0, mask=of(2, 5, 0))
    yield asked("mask/square", "a mask whose queries and keys could be swapped", queries=7, mask=of(2, 7, 7))
    yield asked("mask/all", "a mask that hides nothing", mask=lambda _: np.ones((2, 5, 7), bool))
    yield asked("mask/empty_rows", "queries that may attend to nothing give zeros", mask=with_empty_rows)


def numerics() -> Iterator[Case]:
    """Large and small numbers."""
    yield asked("numerics/saturated", "features where tanh is 1 up to rounding", size=40.0)
    yield asked("numerics/small", "features where tanh is its argument", size=1e-3)
    yield asked("numerics/low_scores", "scores of what may be attended to lie below −10⁴, where some put what may not",
                   PRECISE, peak=1e5, mask=lambda _: valid([1, 2], 7))  # fmt: skip
    yield asked("numerics/very_low_scores", "the same below −10⁹", PRECISE, peak=1e11,
                   mask=lambda _: valid([1, 2], 7))  # fmt: skip
    yield asked("numerics/large_scores", "scores of which a naive exponential overflows", PRECISE, peak=400.0)


def layouts() -> Iterator[Case]:
    """Inputs, weights and masks that do not lie in memory row by row."""
    return asked.layouts(("masked", "a mask that lies so too", {"mask": of(2, 5, 7)}))


def bad_input() -> Iterator[BadInputCase]:
    """Shapes that do not fit."""
    return asked.refused(
        ("query_width", "queries of width 5 beside weights for 6", {"query": (2, 5, 5)}),
        ("key_width", "keys of width 6 beside weights for 4", {"key": (2, 7, 6)}),
        ("one_feature", "weights for 8 features of a query and 1 of a key, which would broadcast", {"w_key": (4, 1)}),
        ("features", "weights for 8 features of a query and 7 of a key", {"w_key": (4, 7)}),
        ("scores", "weights for 9 features where there are 8", {"w_score": (9,)}),
        ("lengths", "7 keys beside 8 values", {"value": (2, 8, 3)}),
        ("batches", "2 items of queries and 3 of keys", {"key": (3, 7, 4), "value": (3, 7, 3)}),
        ("one_item", "keys of 1 item, which would broadcast to 2", {"key": (1, 7, 4), "value": (1, 7, 3)}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": of(2, 5, 6)}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": of(2, 4, 7)}),
        ("mask_items", "a mask for 3 items where there is 1", {"batch": 1, "mask": of(3, 5, 7)}),
        ("float_mask", "a mask of numbers", {"attn_mask": (2, 5, 7)}),
    )


def printed() -> Iterator[Case]:
    """The documents' examples: outputs, and weights read through identity values; and shapes, of unseeded draws."""
    for example in documents.of("additive_attention", kind="shape"):
        yield _shaped(example)
    for example in documents.of("additive_attention", kind="values"):
        for quantity in ("output", "weights"):
            case = asked.given(*example.named(quantity), _given(example, quantity))
            yield DocumentedNumbers(case, example.gives(quantity))


def _shaped(example: Excerpt) -> DocumentedShape:
    batch, keys, key_width = example.inputs["key_shape"]
    _, queries, query_width = example.inputs["query_shape"]
    case = asked(
        *example.named(), batch=batch, queries=queries, keys=keys, query_width=query_width, key_width=key_width,
        value_width=example.inputs["value_shape"][2], features=example.parameters["num_hiddens"],
        mask=partial(_valid, example.inputs["valid_lens"], keys),
    )  # fmt: skip
    return DocumentedShape(case, example.at(), example.output_shape)


def _given(example: Excerpt, quantity: str) -> Inputs:
    inputs = example.inputs
    given = {name: numbers(inputs[name]) for name in ("query", "key", "value", "w_query", "w_key")}
    given["w_score"] = numbers(inputs["w_v"])
    items, keys = given["key"].shape[:2]
    if quantity == "weights":
        given["value"] = identity_values(items, keys)
    return given | ({"attn_mask": valid(inputs["valid_lens"], keys)} if "valid_lens" in inputs else {})


def _valid(lengths: list[int], keys: int, random: Generator) -> Array:
    return valid(lengths, keys)
