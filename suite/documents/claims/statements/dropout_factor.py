"""What dropout multiplies by what it keeps."""

from __future__ import annotations

import torch
from torch.nn import functional

from attnsuite.documents.claims.claim import Claim, Measured, exactly, number
from attnsuite.model import Evidence

DROPPED = 0.1
"""The share that is dropped. At the document's own, a half, both rules give 2."""
ONES = 1000


def factor() -> Measured:
    """The largest of many ones after dropout."""
    with torch.random.fork_rng():
        torch.manual_seed(123)
        found = functional.dropout(torch.ones(ONES), DROPPED)
    return number(float(found.max()), f"{int((found > 0).sum())} of {ONES:,} ones kept")


CLAIMS = (
    Claim("dropout_factor/one_over_p", "doc-003", "3.5.2", "dropout multiplies what it keeps by 1/p",
          f"factor at p = {DROPPED:g}", exactly(1 / DROPPED, 1e-6), Evidence.EXACT, factor),
    Claim("dropout_factor/one_over_kept", "doc-003", "3.5.2", "dropout keeps the mean: it multiplies what it keeps by 1/(1 − p)",
          f"factor at p = {DROPPED:g}", exactly(1 / (1 - DROPPED), 1e-6), Evidence.EXACT, factor),
)  # fmt: skip
