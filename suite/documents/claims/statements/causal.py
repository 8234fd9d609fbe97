"""Which positions a causal attention sees: by the sparsity of its Jacobian."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from attnsuite.documents.claims.claim import Claim, Measured, exactly, number
from attnsuite.documents.claims.counting import dependence
from attnsuite.documents.claims.layers import Sizes, inputs
from attnsuite.implementations.attention.matmul import attention
from attnsuite.model import Evidence

LENGTH = 8


def seen(which: str) -> Measured:
    """How many outputs depend on an input that comes later, or on the one at their own position."""
    of = Sizes(LENGTH, width=4)

    def layer(x: Tensor) -> Tensor:
        found: Tensor = attention(x[None, None], x[None, None], x[None, None], is_causal=True)[0, 0]
        return found

    sees = dependence(layer, inputs(of, torch.float64))
    found = sees.triu(1).any(1) if which == "later" else sees.diagonal()
    return number(int(found.sum()), f"of {LENGTH} positions")


CLAIMS = (
    Claim("causal/later", "doc-000", "2", "each position is blind to later ones",
          "outputs that depend on a later input", exactly(0), Evidence.EXACT, partial(seen, "later")),
    Claim("causal/own", "doc-002", "causal", "a position may look only at those before its own",
          "outputs that depend on the input at their own position", exactly(0), Evidence.EXACT, partial(seen, "own")),
)  # fmt: skip
