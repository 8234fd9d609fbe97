"""The positional encoding that both of its figures show."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.documents.figures.implementations import function

POSITIONS, WIDTH = 60, 32
"""The document's sizes."""
BY = f"positional_encoding/eager in float64, width {WIDTH}"


def encoding() -> Tensor:
    """The encoding itself, positions by columns: what is added to zeros."""
    nothing = torch.zeros(1, POSITIONS, WIDTH, dtype=torch.float64)
    found: Tensor = function("positional_encoding/eager")(nothing)
    return found[0]
