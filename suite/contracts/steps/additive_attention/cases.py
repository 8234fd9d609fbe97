"""The cases of the contract `additive_attention`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Printed, Question, Refused, Shaped, numbers, within
from suite.contracts.steps.additive_attention import oracle
from suite.contracts.steps.additive_attention.contract import POSITIONAL
from suite.records import DTYPES
from suite.sources import documents

Array = np.ndarray[Any, Any]
Mask = Callable[[Generator], Array]


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *masks(), *numerics(), *layouts(), *bad_input()]


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


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    return Question(name, why, oracle.additive_attention, partial(drawn, **unusual), POSITIONAL, dtypes=dtypes)


def plain() -> Iterator[Question]:
    """No mask."""
    yield question("plain/usual", "queries, keys, values and features of different widths")
    yield question("plain/one_of_each", "one query, one key, one feature", queries=1, keys=1, features=1)
    yield question("plain/square", "all sizes equal: axes that were swapped still fit", batch=4, queries=4, keys=4,
                   query_width=4, key_width=4, value_width=4, features=4)  # fmt: skip
    yield question("plain/many_keys", "a last key among many", queries=2, keys=129)
    yield question("plain/many_queries", "more queries than keys", queries=67, keys=3)
    yield question("plain/no_keys", "nothing to attend to gives zeros", keys=0)
    yield question("plain/no_queries", "nobody asks", queries=0)
    yield question("plain/wide", "features in which single precision shows", features=300)


def of(*shape: int) -> Mask:
    """A mask of that shape, by which a query may attend to most keys."""
    return lambda random: random.random(shape) < 0.6


def masks() -> Iterator[Question]:
    """Boolean masks, broadcast along every axis."""

    def with_empty_rows(random: Generator) -> Array:
        mask = random.random((2, 5, 7)) < 0.6
        mask[0, 1] = mask[1, 4] = False
        return mask

    yield question("mask/whole", "each query of each item has keys of its own", mask=of(2, 5, 7))
    yield question("mask/by_item", "lengths: the same keys for all queries of an item",
                   mask=lambda _: np.arange(7) < np.array([3, 6])[:, None, None])  # fmt: skip
    yield question("mask/by_query", "the same for all items", mask=of(5, 7))
    yield question("mask/by_key", "the same for all", mask=of(7))
    yield question("mask/as_many_items", "two axes are those of queries and keys, though there are as many items",
                   queries=2, mask=of(2, 7))  # fmt: skip
    yield question("mask/no_keys", "a mask for no keys", keys=0, mask=of(2, 5, 0))
    yield question("mask/square", "a mask whose queries and keys could be swapped", queries=7, mask=of(2, 7, 7))
    yield question("mask/all", "a mask that hides nothing", mask=lambda _: np.ones((2, 5, 7), bool))
    yield question("mask/empty_rows", "queries that may attend to nothing give zeros", mask=with_empty_rows)


def numerics() -> Iterator[Question]:
    """Large and small numbers."""
    yield question("numerics/saturated", "features where tanh is 1 up to rounding", size=40.0)
    yield question("numerics/small", "features where tanh is its argument", size=1e-3)
    yield question(
        "numerics/large_scores", "scores of which a naive exponential overflows", ("float64", "float32"), peak=400.0
    )


def layouts() -> Iterator[asking.Case]:
    """Inputs, weights and masks that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))
    yield Scattered(question("layout/masked", "a mask that lies so too", mask=of(2, 5, 7)))


def bad_input() -> Iterator[Refused]:
    """Shapes that do not fit."""
    for name, why, unusual in (
        ("query_width", "queries of width 5 beside weights for 6", {"query": (2, 5, 5)}),
        ("key_width", "keys of width 6 beside weights for 4", {"key": (2, 7, 6)}),
        ("one_feature", "weights for 8 features of a query and 1 of a key, which would broadcast", {"w_key": (4, 1)}),
        ("features", "weights for 8 features of a query and 7 of a key", {"w_key": (4, 7)}),
        ("scores", "weights for 9 features where there are 8", {"w_score": (9,)}),
        ("lengths", "7 keys beside 8 values", {"value": (2, 8, 3)}),
        ("batches", "2 items of queries and 3 of keys", {"key": (3, 7, 4), "value": (3, 7, 3)}),
        ("one_item", "keys of 1 item, which would broadcast to 2", {"key": (1, 7, 4), "value": (1, 7, 3)}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": lambda random: random.random((2, 5, 6)) < 0.5}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": lambda random: random.random((2, 4, 7)) < 0.5}),
        ("mask_items", "a mask for 3 items where there is 1", {"batch": 1, "mask": of(3, 5, 7)}),
        ("float_mask", "a mask of numbers", {"attn_mask": (2, 5, 7)}),
    ):
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' examples: outputs, and weights read through identity values; and shapes, of unseeded draws."""
    for id, example in documents.of("additive_attention", kind="shape").items():
        why = f"{example['document']}, section {example['section']}: shape"
        inputs = example["inputs"]
        batch, keys, key_width = inputs["key_shape"]
        _, queries, query_width = inputs["query_shape"]
        draw = partial(
            drawn,
            batch=batch,
            queries=queries,
            keys=keys,
            query_width=query_width,
            key_width=key_width,
            value_width=inputs["value_shape"][2],
            features=example["parameters"]["num_hiddens"],
            mask=partial(_valid, inputs["valid_lens"], keys),
        )
        due = tuple(example["expected"]["output_shape"])
        yield Shaped(f"documents/{id}", why, oracle.additive_attention, draw, POSITIONAL, shape=due)
    for id, example in documents.of("additive_attention", kind="values").items():
        for quantity in ("output", "weights"):
            why = f"{example['document']}, section {example['section']}: {quantity}"
            draw = partial(_given, example["inputs"], quantity)
            printed, decimals = example["expected"][quantity], example["printed_decimals"][quantity]
            yield Printed(f"documents/{id}/{quantity}", why, oracle.additive_attention, draw, POSITIONAL,
                          printed=printed, decimals=decimals)  # fmt: skip


def _given(inputs: dict[str, Any], quantity: str, random: Generator) -> Inputs:
    given = {name: numbers(inputs[name]) for name in ("query", "key", "value", "w_query", "w_key")}
    given["w_score"] = numbers(inputs["w_v"])
    keys = given["key"].shape[1]
    if quantity == "weights":
        given["value"] = np.eye(keys)[None].repeat(len(given["key"]), 0)
    return given | ({"attn_mask": within(inputs["valid_lens"], keys)} if "valid_lens" in inputs else {})


def _valid(lengths: list[int], keys: int, random: Generator) -> Array:
    return within(lengths, keys)
