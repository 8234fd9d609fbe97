"""Whether a normalisation looks at the other samples of a batch."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional

from attnsuite.documents.claims.claim import Claim, Measured, at_least, number
from attnsuite.model import Evidence

LEAST = 0.01
"""A change that is no rounding: normalised numbers are about 1."""


def by_another_sample(norm: str) -> Measured:
    """How much one sample's normalised numbers change with another sample of its batch."""
    given = torch.tensor([[1.0, 2.0], [2.0, 3.0], [4.0, 1.0]])
    other = given.clone()
    other[2] *= 10
    found = [
        functional.layer_norm(x, (2,)) if norm == "layer" else functional.batch_norm(x, None, None, training=True)
        for x in (given, other)
    ]
    return number(float((found[0] - found[1])[0].abs().max()))


CLAIMS = (
    Claim("normalisation/layer", "doc-004", "11.7.3", "layer normalisation is across all samples of a batch",
          "largest change of one sample's numbers with another sample", at_least(LEAST), Evidence.EXACT,
          partial(by_another_sample, "layer")),
    Claim("normalisation/batch", "doc-004", "11.7.3", "batch normalisation is across the samples of a batch",
          "largest change of one sample's numbers with another sample", at_least(LEAST), Evidence.EXACT,
          partial(by_another_sample, "batch")),
)  # fmt: skip
