"""The cases of the contract `add_norm`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Printed, Question, Refused, Shaped, numbers
from suite.contracts.blocks.add_norm.contract import POSITIONAL
from suite.contracts.blocks.add_norm.oracle import add_norm
from suite.records import DTYPES
from suite.sources import documents


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *batch(), *eps(), *sizes(), *numerics(), *layouts(), *bad_input()]


def drawn(
    random: Generator,
    *,
    lead: tuple[int, ...] = (2, 3),
    width: int = 6,
    size: float = 1.0,
    shift: float = 0.0,
    constant: bool = False,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs with a mean of their own, weights and biases of several sizes. A name with a shape replaces that tensor."""
    sizes = {"x": (*lead, width), "y": (*lead, width), "weight": (width,), "bias": (width,)}
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    inputs["x"] = size * inputs["x"] + shift
    inputs["y"] = size * inputs["y"] + 0.5 * size
    return inputs | ({"x": np.ones_like(inputs["x"]), "y": np.ones_like(inputs["y"])} if constant else {})


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options: dict[str, Any] = {option: unusual.pop(option) for option in ("norm", "eps") if option in unusual}
    return Question(name, why, add_norm, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """Over the features of each position."""
    yield question("plain/usual", "items and positions")
    yield question("plain/square", "as many items, positions and features", lead=(4, 4), width=4)
    yield question("plain/two", "two features, whose normalised values are ±1", width=2)
    yield question("plain/constant", "equal features, of which only the bias is left", constant=True)


def batch() -> Iterator[Question]:
    """Over all positions for each feature."""
    yield question("batch/usual", "items and positions together", norm="batch")
    yield question("batch/matrix", "no items", norm="batch", lead=(5,))
    yield question("batch/heads", "more leading axes", norm="batch", lead=(2, 3, 2))
    yield question("batch/one_item", "all positions of a single item", norm="batch", lead=(1, 5))
    yield question("batch/positions", "many positions, the last of which counts too", norm="batch", lead=(129,))
    yield question("batch/far_mean", "a mean of many standard deviations", ("float64", "float32"), norm="batch",
                   shift=300.0)  # fmt: skip
    yield question("plain/by_name", "the default, spelled out", norm="layer")


def eps() -> Iterator[Question]:
    """What keeps the division from zero."""
    yield question("eps/large", "an eps that shows", eps=0.5)
    yield question("eps/batch", "the same for batch normalisation", norm="batch", eps=0.5)
    yield question("eps/tiny", "features of hundredths beside a tiny eps", ("float64", "float32"), eps=1e-12, size=0.01)


def sizes() -> Iterator[Question]:
    """Ranks, and sizes that tiles do not divide."""
    yield question("size/matrix", "no items", lead=(4,))
    yield question("size/heads", "more leading axes", lead=(2, 3, 2))
    yield question("size/wide", "a width in which sums of float16 and bfloat16 show", lead=(3,), width=1025)
    yield question("size/positions", "a last position among many", lead=(129,))
    yield question("size/nothing", "no positions", lead=(2, 0))


def numerics() -> Iterator[Question]:
    """A mean far from zero, which a variance by E[x²] − E[x]² loses."""
    yield question("numerics/far_mean", "a mean of many standard deviations", ("float64", "float32"), shift=300.0)
    yield question("numerics/large", "squares that overflow float16", size=900.0)


def layouts() -> Iterator[asking.Case]:
    """Inputs and weights that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))
    yield Scattered(question("layout/batch", "the same for batch normalisation", norm="batch"))


def bad_input() -> Iterator[Refused]:
    """What is not defined."""
    asked: list[tuple[str, str, dict[str, Any], str]] = [
        ("shapes", "x of 3 positions and y of 4", {"y": (2, 4, 6)}, ""),
        ("broadcast", "y of 1 position, which would broadcast", {"y": (2, 1, 6)}, ""),
        ("one_item", "y of 1 item, which would broadcast", {"y": (1, 3, 6)}, ""),
        ("rank", "y without items, which would broadcast", {"y": (3, 6)}, ""),
        ("weight", "a weight of 5 for 6 features", {"weight": (5,)}, ""),
        ("bias", "a bias of 7 for 6 features", {"bias": (7,)}, ""),
        ("one_weight", "a weight of 1, which would broadcast", {"weight": (1,)}, ""),
        ("norm", "a norm that does not exist", {}, "group"),
        ("batch_of_one", "batch normalisation of a single position", {"lead": (1,)}, "batch"),
        ("one_of_one_item", "the same, of a single item", {"lead": (1, 1)}, "batch"),
    ]
    for name, why, unusual, norm in asked:
        options = {"norm": norm} if norm else {}
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' examples: normalisation is a residual connection to zeros."""
    for id, example in (documents.of("normalization") | documents.of("add_norm")).items():
        inputs, parameters = example["inputs"], example["parameters"]
        why = f"{example['document']}, section {example['section']}: "
        if example["kind"] == "values":
            options = {"norm": "batch"} if parameters.get("type") == "batch" else {}
            draw = partial(_given, inputs, parameters)
            yield Printed(
                f"documents/{id}/output", f"{why}output", add_norm, draw, POSITIONAL, options,
                printed=example["expected"]["output"], decimals=example["printed_decimals"]["output"],
            )  # fmt: skip
        else:
            draw, shape = partial(_ones, tuple(inputs["x_shape"])), tuple(example["expected"]["output_shape"])
            yield Shaped(f"documents/{id}", f"{why}shape", add_norm, draw, POSITIONAL, shape=shape)


def _given(inputs: dict[str, Any], parameters: dict[str, Any], random: Generator) -> Inputs:
    x = numbers(inputs["x"])
    y = numbers(inputs["y"]) if "y" in inputs else np.zeros_like(x)
    if "keep" in inputs:
        y = y * numbers(inputs["keep"]) / (1 - parameters["dropout"])
    return {"x": x, "y": y, "weight": np.ones(x.shape[-1]), "bias": np.zeros(x.shape[-1])}


def _ones(shape: tuple[int, ...], random: Generator) -> Inputs:
    ones, width = np.ones(shape), shape[-1]
    return {"x": ones, "y": ones, "weight": np.ones(width), "bias": np.zeros(width)}
