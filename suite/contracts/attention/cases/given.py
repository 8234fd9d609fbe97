"""Cases whose tensors a document gives, or of which just the shapes are given."""

from __future__ import annotations

from typing import Any

from attnsuite.cases import Call, Conventions
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.formula import Formula
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import Generator, Inputs
from attnsuite.contracts.attention.cases.case import due


class Attention(Formula):
    """The contract as a formula, whose oracle is not written in `Rounded` numbers."""

    def due(self, call: Call, conventions: Conventions, **told: Any) -> WithinBounds:
        return due(call, conventions, decided=True)


def drawn(random: Generator, **shapes: tuple[int, ...]) -> Inputs:
    """Tensors of these shapes; a mask is boolean and shows most keys."""
    tensors = {name: random.normal(size=shape) for name, shape in shapes.items()}
    return {name: array > -0.5 if name == "attn_mask" else array for name, array in tensors.items()}


attention = Attention(None, INPUTS, drawn)
