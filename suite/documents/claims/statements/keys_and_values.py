"""What keys and values need to have in common: their number, not their size."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator

from attnsuite.documents.claims.claim import Claim, Measured, exactly, number
from attnsuite.model import Evidence

KEYS = 3
"""Keys, and their width."""
SIZES = (1, 2, 3, 5, 8)


def accepted(of: str) -> Measured:
    """How many widths of values, or how many numbers of them, the product of weights and values takes."""
    query = key = torch.randn(KEYS, KEYS, generator=Generator().manual_seed(7))
    weights = (query @ key.mT).softmax(-1)
    found = []
    for size in SIZES:
        value = torch.ones(KEYS, size) if of == "widths" else torch.ones(size, KEYS)
        try:
            found.append((weights @ value).shape == (KEYS, value.shape[1]))
        except RuntimeError:
            found.append(False)
    return number(sum(found), f"of {', '.join(map(str, SIZES))} for {KEYS} keys of width {KEYS}")


CLAIMS = (
    Claim("keys_and_values/widths", "doc-001", "sdpa", "keys and values must have the same size",
          f"widths of values that are accepted, of {len(SIZES)} of which one is the keys'", exactly(1), Evidence.EXACT,
          partial(accepted, "widths")),
    Claim("keys_and_values/counts", "doc-001", "sdpa", "keys and values must be as many",
          f"numbers of values that are accepted, of {len(SIZES)} of which one is the keys'", exactly(1), Evidence.EXACT,
          partial(accepted, "counts")),
)  # fmt: skip
