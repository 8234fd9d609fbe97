"""What documents call the same, or need to be alike: ways to compute attention, keys and values, what dropout keeps."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations

import torch
from torch import Generator, Tensor
from torch.nn import functional

from suite.claims.claim import Claim, Measured, at_least, at_most, exactly, number
from suite.records import Evidence
from suite.sources import documents

ROUNDING = 1e-6
"""Beyond this, relative to numbers of about 10, two results in single precision are not the same but for rounding."""
WIDTHS = (1, 2, 3, 5, 8)
KEEP_MASK = torch.ones(2, 2).tril()


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
    """How far three ways to hide what comes later lie apart: a mask of 1 and −∞ by hand, by the library, and its flag."""
    query, key, value = example()
    mask = KEEP_MASK.double().masked_fill(KEEP_MASK == 0, -math.inf)
    by_hand = (query @ key.mT / math.sqrt(query.shape[-1]) + mask).softmax(-1) @ value
    ways = (
        by_hand,
        functional.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        functional.scaled_dot_product_attention(query, key, value, is_causal=True),
    )
    return number(max(float((one - other).abs().max()) for one, other in combinations(ways, 2)))


def accepted(of: str) -> Measured:
    """How many widths of values, or how many numbers of them, go with 3 keys of width 3."""
    query = key = torch.randn(3, 3, generator=Generator().manual_seed(7))
    found = []
    for size in WIDTHS:
        value = torch.ones(3, size) if of == "widths" else torch.ones(size, 3)
        try:
            found.append(len((query @ key.mT).softmax(-1) @ value) > 0)
        except RuntimeError:
            found.append(False)
    return number(sum(found), f"of {', '.join(map(str, WIDTHS))} for 3 keys of width 3")


def kept(p: float) -> Measured:
    """What dropout multiplies by what it keeps of ones."""
    with torch.random.fork_rng():
        torch.manual_seed(123)
        found = functional.dropout(torch.ones(1000), p)
    return number(float(found.max()), f"at p = {p:g}")


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
    Claim("sameness/unscaled", "doc-000", "1.2", "the product without scaling equals the library's result up to rounding",
          "largest difference in the document's example", at_most(ROUNDING), Evidence.EXACT, unscaled),
    Claim("sameness/causal_ways", "doc-000", "2.1-2.3", "an added mask of 1 and −∞, by hand or by the library, equals the causal flag",
          "largest difference between the three in the document's example", at_most(ROUNDING), Evidence.EXACT, causal_ways),
    Claim("sameness/widths_of_values", "doc-001", "sdpa", "keys and values must have the same size",
          f"widths of values that are accepted, of {len(WIDTHS)} of which one is the keys'", exactly(1), Evidence.EXACT,
          partial(accepted, "widths")),
    Claim("sameness/numbers_of_values", "doc-001", "sdpa", "keys and values must be as many",
          f"numbers of values that are accepted, of {len(WIDTHS)} of which one is the keys'", exactly(1), Evidence.EXACT,
          partial(accepted, "counts")),
    Claim("sameness/dropout_one_over_p", "doc-003", "3.5.2", "dropout multiplies what it keeps by 1/p",
          "factor at p = 0.1", exactly(10, 1e-5), Evidence.EXACT, partial(kept, 0.1)),
    Claim("sameness/dropout_factor", "doc-003", "3.5.2", "dropout multiplies what it keeps by 1/(1 − p)",
          "factor at p = 0.1", exactly(1 / 0.9, 1e-6), Evidence.EXACT, partial(kept, 0.1)),
    Claim("sameness/layer_norm_of_batch", "doc-004", "11.7.3", "layer normalisation is across all samples of a batch",
          "largest change of one sample's numbers with another sample", at_least(0.01), Evidence.EXACT,
          partial(by_another_sample, "layer")),
    Claim("sameness/batch_norm_of_batch", "doc-004", "11.7.3", "batch normalisation is across the samples of a batch",
          "largest change of one sample's numbers with another sample", at_least(0.01), Evidence.EXACT,
          partial(by_another_sample, "batch")),
)  # fmt: skip
