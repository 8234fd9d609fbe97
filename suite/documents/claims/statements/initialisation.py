"""Weights drawn uniform in [0, 1) against those of the library's linear layers: how outputs grow with the width."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor, nn

from attnsuite.documents.claims.claim import ABOVE_ONE, Claim, Measured, Range, sampled
from attnsuite.model import Evidence
from attnsuite.model.statistics import exponent

WIDTHS = (16, 64, 256, 1024)
DRAWS, ROWS = 16, 64


def outputs(raw: bool, width: int, random: Generator) -> Tensor:
    """Outputs of one map of this width, of rows of iid inputs."""
    x = torch.randn(ROWS, width, generator=random)
    if raw:
        return x @ torch.rand(width, width, generator=random)
    layer = nn.Linear(width, width, bias=False)
    found: Tensor = layer(x).detach()
    return found


def powers(raw: bool) -> list[float]:
    """The power of the width by which outputs grow, draw by draw."""
    random, found = Generator().manual_seed(18), []
    with torch.random.fork_rng():
        torch.manual_seed(19)
        for _ in range(DRAWS):
            sizes = [float(outputs(raw, width, random).square().mean().sqrt()) for width in WIDTHS]
            value = exponent(WIDTHS, sizes)
            assert value is not None
            found.append(value)
    return found


def power_of_outputs(raw: bool) -> Measured:
    """That power."""
    return sampled(powers(raw), f"{DRAWS} draws, widths {', '.join(map(str, WIDTHS))}")


def growth() -> Measured:
    """How many times as much outputs of raw draws grow from the smallest width to the largest."""
    over = WIDTHS[-1] / WIDTHS[0]
    return sampled([over ** (one - other) for one, other in zip(powers(True), powers(False), strict=True)])


CLAIMS = (
    Claim("initialisation/stable", "doc-003", "3.4.2", "the library's linear layers initialise more stably than raw uniform draws",
          f"growth of outputs from width {WIDTHS[0]} to {WIDTHS[-1]} of raw draws, as a multiple of the library's", ABOVE_ONE,
          Evidence.DRAWN, growth),
    Claim("initialisation/any_width", "doc-003", "3.4.2", "the library's linear layers initialise more stably than raw uniform draws",
          "power of the width in the size of a linear layer's outputs", Range(-0.1, 0.1, "−0.1 to 0.1"), Evidence.DRAWN,
          partial(power_of_outputs, False)),
)  # fmt: skip
