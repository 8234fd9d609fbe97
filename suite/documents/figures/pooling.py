"""The data of the documents' kernel regressions, and what `kernel_pooling` makes of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite.contracts.sources import documents
from attnsuite.documents.figures.implementations import function
from attnsuite.documents.figures.picture import (
    Curves,
    HeatMaps,
    Panel,
    Way,
    heat_map,
    numbered,
    rounded,
    series,
)

DATA = Path(documents.__file__).with_name("nadaraya_watson.json")
KERNELS = {
    "gaussian": "Gaussian",
    "boxcar": "boxcar",
    "constant": "constant",
    "triangular": "triangular (called Epanechikov there)",
}
"""The documents' kernels by the names that `kernel_pooling` has for them, and how a panel is called."""
WIDTHS = (0.1, 0.2, 0.5, 1.0)
"""The documents' widths of the Gaussian."""
BY = "computed by kernel_pooling/eager in float64"

Choice = tuple[str, float]
"""A kernel and its width."""
BY_KERNEL: dict[Choice, str] = {(kernel, 1.0): title for kernel, title in KERNELS.items()}
BY_WIDTH: dict[Choice, str] = {("gaussian", width): f"σ = {width:g}" for width in WIDTHS}
"""The panels of the figures, by what is different in each."""


@cache
def data() -> dict[str, Tensor]:
    """The 40 points `x_train` and `y_train`, and the 50 queries `x_val`."""
    read: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return {name: torch.tensor(read[name], dtype=torch.float64) for name in ("x_train", "y_train", "x_val")}


def estimate(kernel: str, width: float) -> Tensor:
    """The estimate at each query, l."""
    of = data()
    value = of["y_train"][:, None]
    found: Tensor = function("kernel_pooling/eager")(of["x_val"], of["x_train"], value, kernel=kernel, width=width)
    return found[:, 0]


def weights(kernel: str, width: float) -> Tensor:
    """The weight of each training point for each query, s l, as the documents lay them out."""
    of = data()
    value = torch.eye(len(of["x_train"]), dtype=torch.float64)
    found: Tensor = function("kernel_pooling/eager")(of["x_val"], of["x_train"], value, kernel=kernel, width=width)
    return found.T


def truth(x: Tensor) -> Tensor:
    """What the training points scatter around."""
    return 2 * x.sin() + x


def regressions(title: str, choices: dict[Choice, str]) -> Curves:
    """A panel for each choice: the truth dashed, the estimate, and the training points."""
    return Curves(title, BY, tuple(_regression(*each, title) for each, title in choices.items()), 4, "x", "y")


def _regression(kernel: str, width: float, title: str) -> Panel:
    of = data()
    queries, points = of["x_val"].tolist(), of["x_train"].tolist()
    return Panel(
        title,
        (
            series("estimate", queries, estimate(kernel, width)),
            series("truth, 2 sin x + x", queries, truth(of["x_val"]), Way.DASHED),
            series("training points", points, of["y_train"], Way.POINTS),
        ),
    )


def weight_maps(title: str, choices: dict[Choice, str]) -> HeatMaps:
    """A map for each choice: training points by queries."""
    maps = {name: weights(*choice) for choice, name in choices.items()}
    of = data()
    return HeatMaps(
        title,
        BY,
        tuple(heat_map(_steps(matrix), name) for name, matrix in maps.items()),
        columns=4,
        across=numbered("query x", of["x_val"].tolist(), 10),
        down=numbered("training point x", of["x_train"].tolist(), 8),
        domain=(0.0, rounded(max(float(matrix.max()) for matrix in maps.values()))),
        cell=4,
        written=False,
    )


SHADES = 250
"""Steps of a weight in large maps: more than the shades of red a reader tells apart, and cells alike share a mark."""


def _steps(matrix: Tensor) -> Tensor:
    return (matrix * SHADES).round() / SHADES
