"""How the numbers of a case are drawn: always so that a mistake shows."""

from __future__ import annotations

import numpy as np

from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts.steps.recurrent_gradient import oracle
from attnsuite.contracts.steps.recurrent_gradient.contract import POSITIONAL


def drawn(
    random: Generator,
    *,
    steps: int = 6,
    inputs: int = 3,
    hidden: int = 4,
    outputs: int = 2,
    growth: float = 0.9,
    turning: bool = False,
    **shapes: tuple[int, ...],
) -> Inputs:
    """Weights by which hidden states grow by about the factor `growth` a step. A name with a shape replaces that tensor.

    Where w_hh is `turning` it hands each hidden number on to the next: many steps are well conditioned.
    """
    w_hh = random.normal(size=(hidden, hidden)) / np.sqrt(hidden)
    if turning:
        w_hh = np.roll(np.diag([-1.0, *[1.0] * (hidden - 1)]), 1, axis=0)
    found = {
        "x": random.normal(size=(steps, inputs)),
        "y": random.normal(size=(steps, outputs)) + 0.5,
        "h0": random.normal(size=hidden),
        "w_hx": random.normal(size=(hidden, inputs)) / np.sqrt(inputs),
        "w_hh": growth * w_hh,
        "w_qh": random.normal(size=(outputs, hidden)) / np.sqrt(hidden),
    }
    return found | {name: random.normal(size=shape) for name, shape in shapes.items()}


asked = Formula(oracle.recurrent_gradient, POSITIONAL, drawn, options=("of", "truncate", "keep"))
