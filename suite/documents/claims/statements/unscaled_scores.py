"""Ways to compute attention that doc-000 calls the same."""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.contracts.sources import documents
from attnsuite.documents.claims.claim import Claim, Measured, at_most, number
from attnsuite.model import Evidence

ROUNDING = 1e-6
"""Two results of about 10 that lie farther apart differ by more than single precision rounds."""


def example() -> tuple[Tensor, Tensor, Tensor]:
    """The queries, keys and values of doc-000."""
    given = documents.examples()["doc-000/1.2-unscaled"].inputs
    query, key, value = (torch.tensor(given[name], dtype=torch.float64) for name in ("query", "key", "value"))
    return query, key, value


def unscaled() -> Measured:
    """How far the product without scaling lies from the library's."""
    query, key, value = example()
    library = functional.scaled_dot_product_attention(query, key, value)
    return number(float(((query @ key.mT).softmax(-1) @ value - library).abs().max()))


def causal_ways() -> Measured:
    """How far three ways to hide what comes later lie apart: a mask of 1 and −∞, by hand or by the library, its flag."""
    query, key, value = example()
    keep = torch.ones(2, 2, dtype=torch.float64).tril()
    mask = keep.masked_fill(keep == 0, -math.inf)
    by_hand = (query @ key.mT / math.sqrt(query.shape[-1]) + mask).softmax(-1) @ value
    ways = (
        by_hand,
        functional.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        functional.scaled_dot_product_attention(query, key, value, is_causal=True),
    )
    return number(max(float((one - other).abs().max()) for one, other in combinations(ways, 2)))


CLAIMS = (
    Claim("unscaled_scores/same", "doc-000", "1.2", "the product without scaling equals the library's result up to rounding",
          "largest difference in the document's example", at_most(ROUNDING), Evidence.EXACT, unscaled),
    Claim("unscaled_scores/causal_ways", "doc-000", "2.1-2.3", "an added mask of 1 and −∞, by hand or by the library, equals the causal flag",
          "largest difference between the three in the document's example", at_most(ROUNDING), Evidence.EXACT, causal_ways),
)  # fmt: skip
