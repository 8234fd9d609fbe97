"""The cases of the contract `positional_encoding`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.blocks.positional_encoding.contract import POSITIONAL
from attnsuite.contracts.blocks.positional_encoding.oracle import positional_encoding
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *offset(), *bases(), *sizes(), *asked.layouts(), *asked.again(), *bad_input()]


def drawn(random: Generator, *, shape: tuple[int, ...] = (2, 5, 8), zeros: bool = False) -> Inputs:
    return {"x": np.zeros(shape) if zeros else random.normal(size=shape)}


asked = Formula(positional_encoding, POSITIONAL, drawn, options=("offset", "base"))


def plain() -> Iterator[Case]:
    """From position 0."""
    yield asked("plain/usual", "items, positions and features")
    yield asked("plain/zeros", "the encoding alone", zeros=True)
    yield asked("plain/square", "as many items and positions as features", shape=(6, 6, 6))


def offset() -> Iterator[Case]:
    """From another position on."""
    yield asked("offset/one_token", "the seventh token of a decoder", shape=(2, 1, 8), offset=6)
    yield asked("offset/several", "a continued sequence", offset=3)
    yield asked("offset/zero", "the default, spelled out", offset=0)
    yield asked("offset/far", "positions beyond any table", offset=100_003)


def bases() -> Iterator[Case]:
    """Other bases than 10,000."""
    yield asked("base/other", "faster frequencies", base=500.0)
    yield asked("base/large", "slower frequencies", base=1e6)
    yield asked("base/below_one", "frequencies that rise", base=0.5)


def sizes() -> Iterator[Case]:
    """Widths and lengths at their limits."""
    yield asked("size/odd", "an odd width ends with a sine", shape=(1, 9, 5))
    yield asked("size/odd_continued", "an odd width from another position on", shape=(1, 3, 5), offset=4)
    yield asked("size/one", "a single feature", shape=(2, 4, 1))
    yield asked("size/long", "more positions than tables usually have", shape=(1, 2100, 4))
    yield asked("size/items", "a last item among many", shape=(19, 3, 4))
    yield asked("size/wide", "the slowest of many frequencies", shape=(1, 9, 514))
    yield asked("size/far", "angles in which half precision shows", shape=(1, 300, 6), zeros=True)
    yield asked("size/nothing", "no positions", shape=(2, 0, 8))


def bad_input() -> Iterator[BadInputCase]:
    """What has no encoding."""
    return asked.refused(
        ("rank", "an x without items", {"shape": (5, 8)}),
        ("offset", "a first position of −1", {"offset": -1}),
        ("base", "a base of 0", {"base": 0.0}),
        ("negative_base", "a base of −10", {"base": -10.0}),
    )


def printed() -> Iterator[Case]:
    """The documents' examples: rows and columns of the encoding of zeros."""
    for example in documents.of("positional_encoding"):
        if example.kind == "shape":
            case = asked(*example.named(), shape=tuple(example.inputs["x_shape"]), zeros=True)
            yield DocumentedShape(case, example.at(), example.output_shape)
        elif example.kind == "values":
            given = [each for each in ("values", "pairs", "shifted_pairs") if each in example.expected]
            yield from (_printed(example, quantity) for quantity in given)


def _printed(example: Excerpt, quantity: str) -> DocumentedNumbers:
    given, width = example.inputs, example.inputs["encoding_dim"]
    rows = given.get("positions", list(range(given.get("num_positions", 0))))
    columns = [2 * given["j"], 2 * given["j"] + 1] if "j" in given else given.get("columns", list(range(width)))
    options = {"offset": given["offset"]} if quantity == "shifted_pairs" else {}
    options |= {"base": float(example.parameters["base"])}
    case = asked(*example.named(quantity), shape=(1, max(rows) + 1, width), zeros=True, **options)
    return DocumentedNumbers(case, example.gives(quantity), partial(_chosen, rows, columns))


def _chosen(rows: list[int], columns: list[int], output: Array) -> Array:
    chosen: Array = output[0][np.ix_(rows, columns)]
    return chosen
