"""How gradients flow back through time in three schemes, as `recurrent_gradient` computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnsuite.documents.figures.implementations import function


def gradient(name: str, *tensors: Tensor, seed: int | None = None, **options: Any) -> Tensor:
    """A quantity of an implementation's gradient; with a seed, what it draws is drawn from that seed."""
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        found: Tensor = function(f"recurrent_gradient/{name}")(*tensors, **options)
    return found


def flow(steps: int, seed: int | None = None, **scheme: Any) -> Tensor:
    """By what factor the gradient of each step's loss reaches each step's hidden state, losses by states.

    The network has one unit and the weight 1, so that nothing but the scheme changes what flows. A row is the gradient
    of the hidden states where all steps but one are predicted without an error.
    """
    zeros, zero, one = torch.zeros(steps, 1).double(), torch.zeros(1).double(), torch.ones(1, 1).double()
    rows = []
    for step in range(steps):
        due = zeros.clone()
        due[step] = -steps  # the loss is a mean over steps: its gradient at this one is then 1
        tensors = (zeros, due, zero, one, one, one)
        rows.append(gradient("autograd", *tensors, seed=seed, of="d_hidden", **scheme)[:, 0])
    return torch.stack(rows)
