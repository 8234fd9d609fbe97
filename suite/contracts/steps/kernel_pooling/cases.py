"""The cases of the contract `kernel_pooling`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import CasePair, DocumentedNumbers
from attnsuite.cases.expected import Expected
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.kernel_pooling.contract import KERNELS, POSITIONAL
from attnsuite.contracts.steps.kernel_pooling.oracle import kernel_pooling
from attnsuite.model import Figures, Source

DATA = Path(documents.__file__).with_name("nadaraya_watson.json")
PROCESS = "doc-004/11.2-data-process"
"""What the document says of these points, and what the constant kernel makes of them."""
NO_SUPPORT = "doc-004/11.2-no-support"
"""A query beyond the reach of all keys: the document's code divides zero by zero."""
DECIDED = "where the document's own code gives NaN, zeros are due unless the convention empty_row is declared"
GRID = 16
"""Keys and queries lie on a grid of sixteenths, which every dtype holds; queries halfway, so that none is at an edge unless asked."""


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *forty_points(), *kernels(), *widths(), *support(), *sizes(), *asked.layouts(), *asked.again(), *bad_input(),
    ]  # fmt: skip


def drawn(
    random: Generator,
    *,
    queries: int = 5,
    keys: int = 9,
    value_width: int = 3,
    reach: float = 2.0,
    away: float = 0.0,
    on_grid: bool = False,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Points within ± reach; queries `away` from them; values with a non-zero mean. A name with a shape replaces it."""
    steps = int(reach * GRID)
    inputs: dict[str, Array] = {
        "query": (random.integers(-steps, steps, size=queries) + (0.0 if on_grid else 0.5)) / GRID + away,
        "key": random.integers(-steps, steps, size=keys) / GRID,
        "value": random.normal(size=(keys, value_width)) + 0.5,
    }
    return inputs | {name: random.normal(size=shape) for name, shape in shapes.items()}


asked = Formula(
    kernel_pooling, POSITIONAL, drawn, options=("kernel", "width"), conventions=("empty_row",), values="value"
)


def plain() -> Iterator[Case]:
    """Gaussians of width 1."""
    yield asked("plain/usual", "more keys than queries")
    yield asked("plain/square", "as many keys as queries and numbers in a value", queries=6, keys=6, value_width=6)
    yield asked("plain/by_name", "the default, spelled out", kernel="gaussian")


def kernels() -> Iterator[Case]:
    """Every kernel by its name."""
    for kernel in KERNELS[1:]:
        yield asked(f"kernel/{kernel}", "near and far keys on both sides", kernel=kernel, keys=40)
    yield asked("kernel/narrow_epanechikov", "a parabola of a half", kernel="epanechikov", width=0.5, keys=40)


def widths() -> Iterator[Case]:
    """Narrower and wider kernels."""
    yield asked("width/narrow", "a Gaussian of a tenth", width=0.1)
    yield asked("width/wide", "a Gaussian of three", width=3.0)
    yield asked("width/boxcar", "a box of three quarters", kernel="boxcar", width=0.75, keys=40)
    yield asked("width/triangular", "a triangle of two", kernel="triangular", width=2.0)
    yield asked("width/barely", "keys that a triangle barely reaches", PRECISE, kernel="triangular",
                   width=1 / 32 + 1e-5, keys=40)  # fmt: skip


def support() -> Iterator[Case]:
    """Queries far from every key."""
    for kernel in ("boxcar", "triangular", "epanechikov"):
        yield asked(f"support/no_{kernel}", "no key within reach gives zeros", kernel=kernel, away=8.0)
    yield asked("support/edge", "keys on the edge of a box, which is outside", kernel="boxcar", width=0.5, keys=40,
                   reach=1.0, on_grid=True)  # fmt: skip
    yield asked("support/far_gaussian", "every exponential underflows, yet the nearest keys decide",
                   PRECISE, away=60.0)  # fmt: skip
    yield asked("support/far_constant", "a constant reaches everywhere", kernel="constant", away=60.0)


def sizes() -> Iterator[Case]:
    """Many points, one, and none."""
    yield asked("size/keys", "a last key among many", keys=129, reach=0.5, queries=3)
    yield asked("size/queries", "a last query among many", queries=129)
    yield asked("size/one", "one key, whose value it is", keys=1)
    yield asked("size/no_keys", "nothing to attend to gives zeros", keys=0)
    for kernel in KERNELS[1:]:
        yield asked(f"size/no_keys_{kernel}", "nothing to attend to gives zeros", keys=0, kernel=kernel)
    yield asked("size/no_queries", "nobody asks", queries=0)


def bad_input() -> Iterator[BadInputCase]:
    """What is not defined."""
    return asked.refused(
        ("kernel", "a kernel that does not exist", {"kernel": "cosine"}),
        ("zero_width", "a width of 0", {"width": 0.0}),
        ("negative_width", "a width of −1", {"width": -1.0}),
        ("lengths", "9 keys beside 8 values", {"value": (8, 3)}),
        ("query_rank", "queries of rank 2", {"query": (5, 1)}),
        ("value_rank", "values of rank 1", {"value": (9,)}),
    )


class Curve(DocumentedNumbers):
    """A kernel's curve: of each query, the weight of the key at 0 over that of its own, which is the kernel's largest."""

    def room(self, due: Expected) -> Array:
        """A quotient's error: what both weights may be off by, over the one that it is divided by."""
        (_, own), (of_zero, of_own) = _pair(due.numbers), _pair(due.room)
        room: Array = (of_zero + self.select(due.numbers) * of_own) / (own - of_own)
        return room


def printed() -> Iterator[Case]:
    """The documents' small examples: estimates, weights read through identity values, and the kernels' curves."""
    alone = documents.examples()[NO_SUPPORT]
    for example in (*documents.of("kernel_pooling", kind="values"), alone):
        if "u" in example.inputs:
            inputs = _curve(numbers(example.inputs["u"]))
            for kernel in KERNELS[:4]:
                case = asked.given(*example.named(kernel), inputs, kernel=kernel)
                yield Curve(case, example.gives(kernel), _ratio)
            continue
        points = tuple(numbers(example.inputs[name]) for name in ("x_val", "x_train", "y_train"))
        options = _named(example.parameters["kernel"])
        for quantity, of in (("y_hat", "estimates"), ("weights", "weights")):
            case = asked.given(*example.named(quantity), _points(points, of), **options)
            found = DocumentedNumbers(
                case, example.gives(quantity, _rows(example.expected[quantity])), where_decided=DECIDED
            )
            yield found if example is not alone else CasePair(found, _within_reach(example, quantity, points, of))


def _within_reach(example: Excerpt, quantity: str, points: tuple[Array, ...], of: str) -> Case:
    """The same points, asked for a query among them: where there is no support zeros are due, which prove nothing."""
    _, keys, values = points
    return asked.given(*example.named(quantity), _points((keys[:1] + 0.5, keys, values), of), kernel="boxcar")


def forty_points() -> Iterator[DocumentedNumbers]:
    """The run of doc-004, section 11.2: 40 points, 50 estimates by each of seven kernels, and corners of the weights."""
    data = _data()
    points = tuple(numbers(data[name]) for name in ("x_val", "x_train", "y_train"))
    corner = np.ix_(data["corner_cols"], data["corner_rows"])  # rows of the output are queries
    for kernel, given in data["kernels"].items():
        id = f"{data['document']}/11.2.2-forty-points-{kernel}"
        for quantity, of in (("y_hat", "estimates"), ("attention_weights", "weights")):
            fixed = given[f"{quantity}_format"] == "fixed4"
            digits = {"decimals": 4} if fixed else {"significant": 5}
            figures = Figures(
                Source(id, data["document"], data["section"], quantity, "digits"), _rows(given[quantity]), **digits
            )
            why = f"{data['document']}, section {data['section']}: {quantity}"
            case = asked.given(f"documents/{id}/{quantity}", why, _points(points, of), **_named(kernel))
            yield DocumentedNumbers(case, figures, partial(_corner, corner) if of == "weights" else np.asarray)
    process = documents.examples()[PROCESS]
    for quantity, of, shape in (("constant_estimate", "estimates", (50, 1)), ("constant_weight", "weights", (50, 40))):
        case = asked.given(*process.named(quantity), _points(points, of), kernel="constant")
        yield DocumentedNumbers(case, process.gives(quantity, np.full(shape, process.expected[quantity])))


@cache
def _data() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def _named(kernel: str) -> dict[str, Any]:
    """`gaussian_0.1` as options."""
    name, _, width = kernel.partition("_")
    return {"kernel": name, **({"width": float(width)} if width else {})}


def _rows(values: Any) -> Array:
    """Estimates as a column; weights with a row for each query, where the documents have a column."""
    array = numbers(values)
    return array[:, None] if array.ndim == 1 else array.T


def _points(points: tuple[Array, ...], of: str) -> Inputs:
    query, key, value = points
    return {"query": query, "key": key, "value": value[:, None] if of == "estimates" else np.eye(len(key))}


def _curve(u: Array) -> Inputs:
    """Queries at u, each with a key of its own there and one key at 0 for all."""
    return {"query": u, "key": np.concatenate([[0.0], u]), "value": np.eye(len(u) + 1)}


def _ratio(output: Array) -> Array:
    of_zero, own = _pair(output)
    return of_zero / own


def _pair(output: Array) -> tuple[Array, Array]:
    """What belongs to the key at 0, and to each query's own key."""
    return output[:, 0], np.diagonal(output, offset=1)


def _corner(corner: Any, output: Array) -> Array:
    chosen: Array = output[corner]
    return chosen
