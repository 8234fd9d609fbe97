"""The cases of the contract `positional_encoding`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Array, Generator, Inputs, Printed, Question, Refused, Shaped
from suite.contracts.blocks.positional_encoding.contract import POSITIONAL
from suite.contracts.blocks.positional_encoding.oracle import positional_encoding
from suite.records import DTYPES
from suite.sources import documents


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *offset(), *bases(), *sizes(), *layouts(), *bad_input()]


def drawn(random: Generator, *, shape: tuple[int, ...] = (2, 5, 8), zeros: bool = False) -> Inputs:
    return {"x": np.zeros(shape) if zeros else random.normal(size=shape)}


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options: dict[str, Any] = {option: unusual.pop(option) for option in ("offset", "base") if option in unusual}
    return Question(name, why, positional_encoding, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """From position 0."""
    yield question("plain/usual", "items, positions and features")
    yield question("plain/zeros", "the encoding alone", zeros=True)
    yield question("plain/square", "as many items and positions as features", shape=(6, 6, 6))


def offset() -> Iterator[Question]:
    """From another position on."""
    yield question("offset/one_token", "the seventh token of a decoder", shape=(2, 1, 8), offset=6)
    yield question("offset/several", "a continued sequence", offset=3)
    yield question("offset/zero", "the default, spelled out", offset=0)
    yield question("offset/far", "positions beyond any table", offset=100_003)


def bases() -> Iterator[Question]:
    """Other bases than 10,000."""
    yield question("base/other", "faster frequencies", base=500.0)
    yield question("base/large", "slower frequencies", base=1e6)
    yield question("base/below_one", "frequencies that rise", base=0.5)


def sizes() -> Iterator[Question]:
    """Widths and lengths at their limits."""
    yield question("size/odd", "an odd width ends with a sine", shape=(1, 9, 5))
    yield question("size/odd_continued", "an odd width from another position on", shape=(1, 3, 5), offset=4)
    yield question("size/one", "a single feature", shape=(2, 4, 1))
    yield question("size/long", "more positions than tables usually have", shape=(1, 2100, 4))
    yield question("size/items", "a last item among many", shape=(19, 3, 4))
    yield question("size/wide", "the slowest of many frequencies", shape=(1, 9, 514))
    yield question("size/far", "angles in which half precision shows", shape=(1, 300, 6), zeros=True)
    yield question("size/nothing", "no positions", shape=(2, 0, 8))


def layouts() -> Iterator[asking.Case]:
    """Vectors that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))


def bad_input() -> Iterator[Refused]:
    """What has no encoding."""
    asked: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("rank", "an x without items", {"shape": (5, 8)}, {}),
        ("offset", "a first position of −1", {}, {"offset": -1}),
        ("base", "a base of 0", {}, {"base": 0.0}),
        ("negative_base", "a base of −10", {}, {"base": -10.0}),
    ]
    for name, why, unusual, options in asked:
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' examples: rows and columns of the encoding of zeros."""
    for id, example in documents.of("positional_encoding").items():
        inputs, parameters, expected = example["inputs"], example["parameters"], example["expected"]
        why = f"{example['document']}, section {example['section']}: "
        if example["kind"] == "shape":
            draw = partial(drawn, shape=tuple(inputs["x_shape"]), zeros=True)
            shape = tuple(expected["output_shape"])
            yield Shaped(f"documents/{id}", f"{why}shape", positional_encoding, draw, POSITIONAL, shape=shape)
        elif example["kind"] == "values":
            rows = inputs.get("positions", list(range(inputs.get("num_positions", 0))))
            columns = inputs.get("columns", list(range(inputs["encoding_dim"])))
            columns = [2 * inputs["j"], 2 * inputs["j"] + 1] if "j" in inputs else columns
            draw = partial(drawn, shape=(1, max(rows) + 1, inputs["encoding_dim"]), zeros=True)
            for quantity in {"values", "pairs", "shifted_pairs"} & set(expected):
                shift = {"offset": inputs["offset"]} if quantity == "shifted_pairs" else {}
                yield Printed(
                    f"documents/{id}/{quantity}", f"{why}{quantity}", positional_encoding, draw, POSITIONAL,
                    shift | {"base": float(parameters["base"])}, printed=expected[quantity],
                    decimals=example["printed_decimals"][quantity], select=partial(_chosen, rows, columns),
                )  # fmt: skip


def _chosen(rows: list[int], columns: list[int], output: Array) -> Array:
    chosen: Array = output[0][np.ix_(rows, columns)]
    return chosen
