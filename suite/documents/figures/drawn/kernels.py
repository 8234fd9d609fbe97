"""The kernels themselves, as curves."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.implementations import function
from attnsuite.documents.figures.picture import Curves, Panel, series
from attnsuite.documents.figures.pooling import BY, KERNELS

TITLE = "Kernels of the distance between query and key"


def distances() -> Tensor:
    """u from −2.5 to 2.4 in steps of 0.1; whole numbers are divided, so that 1 is exactly 1."""
    return torch.arange(-25, 25, dtype=torch.float64) / 10


def heights(kernel: str) -> Tensor:
    """K(u), read off pooling itself.

    A query at u has two keys: one at u with the value 0, whose kernel is K(0) = 1, and one at 0 with the value 1. Their
    mean is m = K(u) / (1 + K(u)), so that K(u) is m / (1 − m).
    """
    pool, value = function("kernel_pooling/eager"), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    means = [pool(u[None], torch.stack([u, torch.zeros_like(u)]), value, kernel=kernel) for u in distances()]
    mean = torch.cat(means)[:, 0]
    return mean / (1 - mean)


def picture() -> Curves:
    """A panel for each kernel."""
    at = distances().tolist()
    panels = [Panel(title, (series("K(u)", at, heights(kernel)),)) for kernel, title in KERNELS.items()]
    return Curves(TITLE, BY, tuple(panels), 4, "distance u", "K(u)")


FIGURE = DrawnFigure(TITLE, "doc-004, section 11.2", picture)
