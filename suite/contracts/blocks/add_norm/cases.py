"""The cases of the contract `add_norm`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import CasePair, DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.blocks.add_norm.contract import POSITIONAL
from attnsuite.contracts.blocks.add_norm.oracle import add_norm
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *batch(), *eps(), *sizes(), *numerics(), *layouts(), *asked.again(), *bad_input()]


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


asked = Formula(add_norm, POSITIONAL, drawn, options=("norm", "eps"))


def plain() -> Iterator[Case]:
    """Over the features of each position."""
    yield asked("plain/usual", "items and positions")
    yield asked("plain/square", "as many items, positions and features", lead=(4, 4), width=4)
    yield asked("plain/two", "two features, whose normalised values are ±1", width=2)
    yield asked("plain/constant", "equal features, of which only the bias is left", constant=True)


def batch() -> Iterator[Case]:
    """Over all positions for each feature."""
    yield asked("batch/usual", "items and positions together", norm="batch")
    yield asked("batch/matrix", "no items", norm="batch", lead=(5,))
    yield asked("batch/heads", "more leading axes", norm="batch", lead=(2, 3, 2))
    yield asked("batch/one_item", "all positions of a single item", norm="batch", lead=(1, 5))
    yield asked("batch/positions", "many positions, the last of which counts too", norm="batch", lead=(129,))
    yield asked("batch/far_mean", "a mean of many standard deviations", PRECISE, norm="batch",
                   shift=300.0)  # fmt: skip
    yield asked("plain/by_name", "the default, spelled out", norm="layer")


def eps() -> Iterator[Case]:
    """What keeps the division from zero."""
    yield asked("eps/large", "an eps that shows", eps=0.5)
    yield asked("eps/batch", "the same for batch normalisation", norm="batch", eps=0.5)
    yield asked("eps/tiny", "features of hundredths beside a tiny eps", PRECISE, eps=1e-12, size=0.01)


def sizes() -> Iterator[Case]:
    """Ranks, and sizes that tiles do not divide."""
    yield asked("size/matrix", "no items", lead=(4,))
    yield asked("size/heads", "more leading axes", lead=(2, 3, 2))
    yield asked("size/wide", "a width in which sums of float16 and bfloat16 show", lead=(3,), width=1025)
    yield asked("size/positions", "a last position among many", lead=(129,))
    yield asked("size/nothing", "no positions", lead=(2, 0))


def numerics() -> Iterator[Case]:
    """A mean far from zero, which a variance by E[x²] − E[x]² loses."""
    yield asked("numerics/far_mean", "a mean of many standard deviations", PRECISE, shift=300.0)
    yield asked("numerics/large", "squares that overflow float16", size=900.0)


def layouts() -> Iterator[Case]:
    """Inputs and weights that do not lie in memory row by row."""
    return asked.layouts(("batch", "the same for batch normalisation", {"norm": "batch"}))


def bad_input() -> Iterator[BadInputCase]:
    """What is not defined."""
    return asked.refused(
        ("shapes", "x of 3 positions and y of 4", {"y": (2, 4, 6)}),
        ("broadcast", "y of 1 position, which would broadcast", {"y": (2, 1, 6)}),
        ("one_item", "y of 1 item, which would broadcast", {"y": (1, 3, 6)}),
        ("rank", "y without items, which would broadcast", {"y": (3, 6)}),
        ("weight", "a weight of 5 for 6 features", {"weight": (5,)}),
        ("bias", "a bias of 7 for 6 features", {"bias": (7,)}),
        ("one_weight", "a weight of 1, which would broadcast", {"weight": (1,)}),
        ("norm", "a norm that does not exist", {"norm": "group"}),
        ("batch_of_one", "batch normalisation of a single position", {"lead": (1,), "norm": "batch"}),
        ("one_of_one_item", "the same, of a single item", {"lead": (1, 1), "norm": "batch"}),
    )


def printed() -> Iterator[Case]:
    """The documents' examples: normalisation is a residual connection to zeros."""
    for example in documents.of("normalization", "add_norm"):
        if example.kind == "values":
            options = {"norm": "batch"} if example.parameters.get("type") == "batch" else {}
            yield DocumentedNumbers(
                asked.given(*example.named("output"), _given(example), **options), example.gives("output")
            )
        else:
            shape = tuple(example.inputs["x_shape"])
            ones = asked.given(*example.named(), _normalised(np.ones(shape), np.ones(shape)))
            drawn_too = asked(*example.named(), lead=shape[:-1], width=shape[-1])
            yield CasePair(
                DocumentedShape(ones, example.at(), example.output_shape), drawn_too
            )  # of ones the norm is 0


def _given(example: Excerpt) -> Inputs:
    x = numbers(example.inputs["x"])
    y = numbers(example.inputs["y"]) if "y" in example.inputs else np.zeros_like(x)
    if "keep" in example.inputs:
        y = y * numbers(example.inputs["keep"]) / (1 - example.parameters["dropout"])
    return _normalised(x, y)


def _normalised(x: Array, y: Array) -> Inputs:
    """Neither weighed nor moved afterwards."""
    return {"x": x, "y": y, "weight": np.ones(x.shape[-1]), "bias": np.zeros(x.shape[-1])}
