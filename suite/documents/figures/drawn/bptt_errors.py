"""How far truncated and randomised gradients of a linear recurrent network lie from the full one."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.figures.figure import DrawnFigure
from attnsuite.documents.figures.picture import Curves, Panel, series
from attnsuite.documents.figures.through_time import gradient

TITLE = "Errors of truncated and randomised gradients"
STEPS, INPUTS, HIDDEN, OUTPUTS = 24, 4, 8, 3
RADIUS = 0.9
"""The spectral radius of the hidden weights: what flows back fades, and does not vanish within the steps."""
SEED = 0
PROBABILITIES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Below RADIUS², 0.81, the variance grows with every step that is added."""
DRAWS = 200
"""Randomised gradients for each probability: unbiased, their mean is off by a fourteenth of what one is."""


def network() -> tuple[Tensor, ...]:
    """x, y, h0, w_hx, w_hh and w_qh, drawn."""
    draw = torch.Generator().manual_seed(SEED)
    sizes = [(STEPS, INPUTS), (STEPS, OUTPUTS), (HIDDEN,), (HIDDEN, INPUTS), (HIDDEN, HIDDEN), (OUTPUTS, HIDDEN)]
    x, y, h0, w_hx, w_hh, w_qh = (torch.randn(size, generator=draw, dtype=torch.float64) for size in sizes)
    return x, y, h0, w_hx / INPUTS**0.5, w_hh * RADIUS / torch.linalg.eigvals(w_hh).abs().max(), w_qh / HIDDEN**0.5


def truncated() -> list[float]:
    """The error of the truncated gradient of the hidden weights, in norms of the full one, for 1, 2, … steps."""
    tensors = network()
    full = gradient("closed_form", *tensors)
    found = (gradient("closed_form", *tensors, truncate=steps) for steps in range(1, STEPS + 1))
    return [float((each - full).norm() / full.norm()) for each in found]


def randomised() -> tuple[list[float], list[float]]:
    """The errors of one randomised gradient, as their root mean square, and of the mean of all, by probability."""
    tensors = network()
    full = gradient("closed_form", *tensors)
    single, mean = [], []
    for keep in PROBABILITIES:
        drawn = torch.stack([gradient("closed_form", *tensors, seed=seed, keep=keep) for seed in range(DRAWS)])
        off = (drawn - full) / full.norm()
        single.append(float(off.square().sum((1, 2)).mean().sqrt()))
        mean.append(float(off.mean(0).norm()))
    return single, mean


def picture() -> Curves:
    """A panel for each scheme."""
    single, mean = randomised()
    panels = (
        Panel("truncated", (series("truncated", range(1, STEPS + 1), truncated()),), "steps that a gradient passes"),
        Panel(
            f"randomised, {DRAWS} draws",
            (
                series("one draw, root mean square", PROBABILITIES, single),
                series("mean of all draws", PROBABILITIES, mean),
            ),
            "probability π of passing a gradient on",
        ),
    )
    size = f"{STEPS} steps, {HIDDEN} units, spectral radius {RADIUS}"
    by = f"recurrent_gradient/closed_form in float64; {size}; errors of dL/dW_hh in norms of the full gradient"
    return Curves(TITLE, by, panels, 2, "", "error", size=(300, 220))


FIGURE = DrawnFigure(TITLE, "doc-004, section 9.7.1", picture)
