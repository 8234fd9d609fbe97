"""The cases of the contract `kernel_pooling`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Array, Generator, Inputs, Printed, Question, Refused, numbers
from suite.contracts.steps.kernel_pooling.contract import KERNELS, POSITIONAL
from suite.contracts.steps.kernel_pooling.oracle import kernel_pooling
from suite.records import DTYPES
from suite.sources import documents

DATA = Path(documents.__file__).with_name("nadaraya_watson.json")
PROCESS = "doc-004/11.2-data-process"
"""What the document says of these points, and what the constant kernel makes of them."""
GRID = 16
"""Keys and queries lie on a grid of sixteenths, which every dtype holds; queries halfway, so that none is at an edge unless asked."""


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *forty_points(), *kernels(), *widths(), *support(), *sizes(), *layouts(), *bad_input(),
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


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options: dict[str, Any] = {option: unusual.pop(option) for option in ("kernel", "width") if option in unusual}
    return Question(name, why, kernel_pooling, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def plain() -> Iterator[Question]:
    """Gaussians of width 1."""
    yield question("plain/usual", "more keys than queries")
    yield question("plain/square", "as many keys as queries and numbers in a value", queries=6, keys=6, value_width=6)
    yield question("plain/by_name", "the default, spelled out", kernel="gaussian")


def kernels() -> Iterator[Question]:
    """Every kernel by its name."""
    for kernel in KERNELS[1:]:
        yield question(f"kernel/{kernel}", "near and far keys on both sides", kernel=kernel, keys=40)
    yield question("kernel/narrow_epanechikov", "a parabola of a half", kernel="epanechikov", width=0.5, keys=40)


def widths() -> Iterator[Question]:
    """Narrower and wider kernels."""
    yield question("width/narrow", "a Gaussian of a tenth", width=0.1)
    yield question("width/wide", "a Gaussian of three", width=3.0)
    yield question("width/boxcar", "a box of three quarters", kernel="boxcar", width=0.75, keys=40)
    yield question("width/triangular", "a triangle of two", kernel="triangular", width=2.0)
    yield question("width/barely", "keys that a triangle barely reaches", ("float64", "float32"), kernel="triangular",
                   width=1 / 32 + 1e-5, keys=40)  # fmt: skip


def support() -> Iterator[Question]:
    """Queries far from every key."""
    for kernel in ("boxcar", "triangular", "epanechikov"):
        yield question(f"support/no_{kernel}", "no key within reach gives zeros", kernel=kernel, away=8.0)
    yield question("support/edge", "keys on the edge of a box, which is outside", kernel="boxcar", width=0.5, keys=40,
                   reach=1.0, on_grid=True)  # fmt: skip
    yield question("support/far_gaussian", "every exponential underflows, yet the nearest keys decide",
                   ("float64", "float32"), away=60.0)  # fmt: skip
    yield question("support/far_constant", "a constant reaches everywhere", kernel="constant", away=60.0)


def sizes() -> Iterator[Question]:
    """Many points, one, and none."""
    yield question("size/keys", "a last key among many", keys=129, reach=0.5, queries=3)
    yield question("size/queries", "a last query among many", queries=129)
    yield question("size/one", "one key, whose value it is", keys=1)
    yield question("size/no_keys", "nothing to attend to gives zeros", keys=0)
    for kernel in KERNELS[1:]:
        yield question(f"size/no_keys_{kernel}", "nothing to attend to gives zeros", keys=0, kernel=kernel)
    yield question("size/no_queries", "nobody asks", queries=0)


def layouts() -> Iterator[asking.Case]:
    """Points and values that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))


def bad_input() -> Iterator[Refused]:
    """What is not defined."""
    asked: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("kernel", "a kernel that does not exist", {}, {"kernel": "cosine"}),
        ("zero_width", "a width of 0", {}, {"width": 0.0}),
        ("negative_width", "a width of −1", {}, {"width": -1.0}),
        ("lengths", "9 keys beside 8 values", {"value": (8, 3)}, {}),
        ("query_rank", "queries of rank 2", {"query": (5, 1)}, {}),
        ("value_rank", "values of rank 1", {"value": (9,)}, {}),
    ]
    for name, why, unusual, options in asked:
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed]:
    """The documents' small examples: estimates, weights read through identity values, and the kernels' curves."""
    for id, example in documents.of("kernel_pooling", kind="values").items():
        expected, why = example["expected"], f"{example['document']}, section {example['section']}: "
        if "u" in example["inputs"]:
            draw = partial(_curve, numbers(example["inputs"]["u"]))
            for kernel in KERNELS[:4]:
                yield Printed(
                    f"documents/{id}/{kernel}", f"{why}{kernel}", kernel_pooling, draw, POSITIONAL, {"kernel": kernel},
                    printed=expected[kernel], select=_ratio,
                )  # fmt: skip
            continue
        points = tuple(numbers(example["inputs"][name]) for name in ("x_val", "x_train", "y_train"))
        for quantity, of in (("y_hat", "estimates"), ("weights", "weights")):
            yield Printed(
                f"documents/{id}/{quantity}", f"{why}{quantity}", kernel_pooling, partial(_points, points, of),
                POSITIONAL, _named(example["parameters"]["kernel"]),
                printed=_rows(expected[quantity]),
            )  # fmt: skip


def forty_points() -> Iterator[Printed]:
    """The run of doc-004, section 11.2: 40 points, 50 estimates by each of seven kernels, and corners of the weights."""
    data = _data()
    points = tuple(numbers(data[name]) for name in ("x_val", "x_train", "y_train"))
    corner = np.ix_(data["corner_cols"], data["corner_rows"])  # rows of the output are queries
    for kernel, given in data["kernels"].items():
        why = f"{data['document']}, section {data['section']}: "
        for quantity, of, select in (
            ("y_hat", "estimates", np.asarray),
            ("attention_weights", "weights", partial(_corner, corner)),
        ):
            fixed = given[f"{quantity}_format"] == "fixed4"
            yield Printed(
                f"documents/{data['document']}/11.2.2-forty-points-{kernel}/{quantity}", f"{why}{quantity}",
                kernel_pooling, partial(_points, points, of), POSITIONAL, _named(kernel),
                printed=_rows(given[quantity]), select=select,
                decimals=4 if fixed else None, significant=None if fixed else 5,
            )  # fmt: skip
    process = documents.examples()[PROCESS]
    why = f"{process['document']}, section {process['section']}: "
    for quantity, of, shape in (
        ("constant_estimate", "estimates", (50, 1)),
        ("constant_weight", "weights", (50, 40)),
    ):
        yield Printed(
            f"documents/{PROCESS}/{quantity}", f"{why}{quantity}", kernel_pooling, partial(_points, points, of),
            POSITIONAL, _named("constant"), printed=np.full(shape, process["expected"][quantity]),
            decimals=process["printed_decimals"][quantity],
        )  # fmt: skip


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


def _points(points: tuple[Array, ...], of: str, random: Generator) -> Inputs:
    query, key, value = points
    return {"query": query, "key": key, "value": value[:, None] if of == "estimates" else np.eye(len(key))}


def _curve(u: Array, random: Generator) -> Inputs:
    """Queries at u, each with a key of its own there and one key at 0 for all."""
    return {"query": u, "key": np.concatenate([[0.0], u]), "value": np.eye(len(u) + 1)}


def _ratio(output: Array) -> Array:
    """The weight of the key at 0 over that of the query's own, which has the kernel's largest value, 1."""
    chosen: Array = output[:, 0] / np.diagonal(output, offset=1)
    return chosen


def _corner(corner: Any, output: Array) -> Array:
    chosen: Array = output[corner]
    return chosen
