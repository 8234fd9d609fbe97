"""The cases of the contract `positionwise_ffn`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Generator, Inputs, numbers
from attnsuite.contracts.blocks.positionwise_ffn.contract import POSITIONAL
from attnsuite.contracts.blocks.positionwise_ffn.oracle import positionwise_ffn
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *gelu(), *sizes(), *asked.layouts(), *asked.again(), *bad_input()]


def drawn(
    random: Generator,
    *,
    lead: tuple[int, ...] = (2, 3),
    width: int = 5,
    hidden: int = 9,
    out: int = 4,
    size: float = 1.0,
    ones: bool = False,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Inputs such that the activation cuts about half of the hidden numbers. A name with a shape replaces that tensor."""
    sizes = {
        "x": (*lead, width), "w1": (width, hidden), "b1": (hidden,), "w2": (hidden, out), "b2": (out,),
    }  # fmt: skip
    inputs = {name: size * random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    return inputs | ({"x": np.ones_like(inputs["x"])} if ones else {})


asked = Formula(positionwise_ffn, POSITIONAL, drawn, options=("activation",))


def plain() -> Iterator[Case]:
    """Rectified."""
    yield asked("plain/usual", "three different widths")
    yield asked("plain/square", "matrices that could be transposed, and so could each item", lead=(2, 6), width=6, hidden=6,
                   out=6)  # fmt: skip
    yield asked("plain/narrow", "a hidden width below the others", width=8, hidden=3, out=7)
    yield asked("plain/by_name", "the default, spelled out", activation="relu")
    yield asked("plain/small", "numbers of hundredths", size=0.03)


def gelu() -> Iterator[Case]:
    """x·Φ(x)."""
    yield asked("gelu/usual", "both signs", activation="gelu")
    yield asked("gelu/small", "numbers of hundredths, where it is nearly x/2", activation="gelu", size=0.03)
    yield asked("gelu/large", "numbers where Φ is 0 or 1 up to rounding", activation="gelu", size=5.0)


def sizes() -> Iterator[Case]:
    """Ranks, and sizes that tiles do not divide."""
    yield asked("size/vector", "a single position", lead=())
    yield asked("size/matrix", "no items", lead=(4,))
    yield asked("size/heads", "more leading axes", lead=(2, 3, 2))
    yield asked("size/positions", "a last position among many", lead=(129,))
    yield asked("size/hidden", "a hidden width in which sums of float16 and bfloat16 show", hidden=301)
    yield asked("size/nothing", "no positions", lead=(2, 0))


def bad_input() -> Iterator[BadInputCase]:
    """What does not chain."""
    return asked.refused(
        ("width", "positions of width 6 beside weights for 5", {"x": (2, 3, 6)}),
        ("hidden", "a hidden width of 9 and then 8", {"w2": (8, 4)}),
        ("first_bias", "a bias of 8 for a hidden width of 9", {"b1": (8,)}),
        ("second_bias", "a bias of 5 for an output width of 4", {"b2": (5,)}),
        ("one_bias", "a bias of 1, which would broadcast", {"b1": (1,)}),
        ("activation", "an activation that does not exist", {"activation": "swish"}),
    )


def printed() -> Iterator[Case]:
    """The documents' examples: outputs, and hidden numbers read through an identity; and shapes, of unseeded draws."""
    for example in documents.of("positionwise_ffn"):
        yield from [_shaped(example)] if example.kind == "shape" else _printed(example)


def _printed(example: Excerpt) -> Iterator[DocumentedNumbers]:
    options = {} if example.parameters["activation"] == "relu" else {"activation": "gelu"}
    for quantity in ("hidden", "output"):
        case = asked.given(*example.named(quantity), _given(example, quantity), **options)
        yield DocumentedNumbers(case, example.gives(quantity))


def _shaped(example: Excerpt) -> DocumentedShape:
    *lead, width = example.inputs["x_shape"]
    hidden, out = (example.parameters[f"ffn_num_{what}"] for what in ("hiddens", "outputs"))
    case = asked(*example.named(), lead=tuple(lead), width=width, hidden=hidden, out=out, ones=True)
    return DocumentedShape(case, example.at(), example.output_shape)


def _given(example: Excerpt, quantity: str) -> Inputs:
    given = {name: numbers(example.inputs[name]) for name in POSITIONAL}
    hidden = len(given["b1"])
    return given if quantity == "output" else given | {"w2": np.eye(hidden), "b2": np.zeros(hidden)}
