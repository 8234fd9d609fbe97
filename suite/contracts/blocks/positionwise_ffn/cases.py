"""The cases of the contract `positionwise_ffn`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Printed, Question, Refused, Shaped, numbers
from suite.contracts.blocks.positionwise_ffn.contract import POSITIONAL
from suite.contracts.blocks.positionwise_ffn.oracle import positionwise_ffn
from suite.records import DTYPES
from suite.sources import documents


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *gelu(), *sizes(), *layouts(), *bad_input()]


def drawn(
    random: Generator,
    *,
    lead: tuple[int, ...] = (2, 3),
    width: int = 5,
    hidden: int = 9,
    out: int = 4,
    size: float = 1.0,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs of which about half are cut by the activation. A name with a shape replaces that tensor."""
    sizes = {
        "x": (*lead, width), "w1": (width, hidden), "b1": (hidden,), "w2": (hidden, out), "b2": (out,),
    }  # fmt: skip
    return {name: size * random.normal(size=shape) for name, shape in (sizes | shapes).items()}


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, activation: str = "", **unusual: Any) -> Question:
    options = {"activation": activation} if activation else {}
    return Question(name, why, positionwise_ffn, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """Rectified."""
    yield question("plain/usual", "three different widths")
    yield question("plain/square", "matrices that could be transposed", width=6, hidden=6, out=6)
    yield question("plain/narrow", "a hidden width below the others", width=8, hidden=3, out=7)
    yield question("plain/by_name", "the default, spelled out", activation="relu")
    yield question("plain/small", "numbers of hundredths", size=0.03)


def gelu() -> Iterator[Question]:
    """x·Φ(x)."""
    yield question("gelu/usual", "both signs", activation="gelu")
    yield question("gelu/small", "numbers of hundredths, where it is nearly x/2", activation="gelu", size=0.03)
    yield question("gelu/large", "numbers where Φ is 0 or 1 up to rounding", activation="gelu", size=5.0)


def sizes() -> Iterator[Question]:
    """Ranks, and sizes that tiles do not divide."""
    yield question("size/vector", "a single position", lead=())
    yield question("size/matrix", "no items", lead=(4,))
    yield question("size/heads", "more leading axes", lead=(2, 3, 2))
    yield question("size/positions", "a last position among many", lead=(129,))
    yield question("size/hidden", "a hidden width in which sums of float16 and bfloat16 show", hidden=301)
    yield question("size/nothing", "no positions", lead=(2, 0))


def layouts() -> Iterator[asking.Case]:
    """Inputs and weights that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))


def bad_input() -> Iterator[Refused]:
    """What does not chain."""
    asked: list[tuple[str, str, dict[str, Any], str]] = [
        ("width", "positions of width 6 beside weights for 5", {"x": (2, 3, 6)}, ""),
        ("hidden", "a hidden width of 9 and then 8", {"w2": (8, 4)}, ""),
        ("first_bias", "a bias of 8 for a hidden width of 9", {"b1": (8,)}, ""),
        ("second_bias", "a bias of 5 for an output width of 4", {"b2": (5,)}, ""),
        ("one_bias", "a bias of 1, which would broadcast", {"b1": (1,)}, ""),
        ("activation", "an activation that does not exist", {}, "swish"),
    ]
    for name, why, unusual, activation in asked:
        options = {"activation": activation} if activation else {}
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' examples: outputs, and hidden numbers read through an identity; and shapes, of unseeded draws."""
    for id, example in documents.of("positionwise_ffn").items():
        inputs, parameters = example["inputs"], example["parameters"]
        why = f"{example['document']}, section {example['section']}: "
        if example["kind"] == "values":
            options = {} if parameters["activation"] == "relu" else {"activation": "gelu"}
            for quantity in ("hidden", "output"):
                yield Printed(
                    f"documents/{id}/{quantity}", f"{why}{quantity}", positionwise_ffn,
                    partial(_given, inputs, quantity), POSITIONAL, options,
                    printed=example["expected"][quantity], decimals=example["printed_decimals"][quantity],
                )  # fmt: skip
        else:
            draw = partial(
                _ones, tuple(inputs["x_shape"]), parameters["ffn_num_hiddens"], parameters["ffn_num_outputs"]
            )
            shape = tuple(example["expected"]["output_shape"])
            yield Shaped(f"documents/{id}", f"{why}shape", positionwise_ffn, draw, POSITIONAL, shape=shape)


def _given(inputs: dict[str, Any], quantity: str, random: Generator) -> Inputs:
    given = {name: numbers(inputs[name]) for name in POSITIONAL}
    hidden = len(given["b1"])
    return given if quantity == "output" else given | {"w2": np.eye(hidden), "b2": np.zeros(hidden)}


def _ones(shape: tuple[int, ...], hidden: int, out: int, random: Generator) -> Inputs:
    return {**drawn(random, lead=shape[:-1], width=shape[-1], hidden=hidden, out=out), "x": np.ones(shape)}
