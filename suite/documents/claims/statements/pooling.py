"""What attention does to values and distances: convex combinations, and terms that cancel in the softmax."""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor
from torch.nn import functional

from attnsuite.documents.claims.claim import Claim, Measured, at_most, number
from attnsuite.implementations.attention.matmul import attention
from attnsuite.implementations.attention_scores.matmul import attention_scores
from attnsuite.model import Evidence

QUERIES, KEYS, WIDTH = 20, 12, 16
ROUNDING = 1e-12
"""More than float64 loses of numbers of about 10, less than a mistake."""
NEARLY = 0.05
"""Norms that vary by less than this share are nearly constant."""


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, in float64."""
    random = Generator().manual_seed(20)
    query, key, value = (
        torch.randn(1, 1, rows, WIDTH, generator=random, dtype=torch.float64) for rows in (QUERIES, KEYS, KEYS)
    )
    return query, key, value


def outside() -> Measured:
    """How far an output lies outside the values, number by number of a vector."""
    query, key, value = drawn()
    output = attention(3 * query, key, value)
    beyond = torch.maximum(output - value.amax(-2, keepdim=True), value.amin(-2, keepdim=True) - output)
    return number(float(beyond.max()))


def average() -> Measured:
    """How far the output of equal scores lies from the mean of the values."""
    query, key, value = drawn()
    return number(float((attention(query * 0, key, value) - value.mean(-2, keepdim=True)).abs().max()))


def without_the_query() -> Measured:
    """How far weights by distance lie from those without the query's norm."""
    query, key, _ = drawn()
    distance = attention_scores(query, key, score="distance")
    shorter = attention_scores(query, key, score="dot") - key.square().sum(-1)[..., None, :] / 2
    return number(float((distance.softmax(-1) - shorter.softmax(-1)).abs().max()))


def key_norms(normalised: bool) -> Measured:
    """The standard deviation of keys' norms over their mean."""
    key = drawn()[1] * torch.linspace(0.5, 2.0, KEYS, dtype=torch.float64)[:, None]
    norms = (functional.layer_norm(key, (WIDTH,)) if normalised else key).norm(dim=-1)
    return number(float(norms.std() / norms.mean()))


CLAIMS = (
    Claim("pooling/convex", "doc-004", "11.1", "attention gives a convex combination of the values",
          "largest distance of an output beyond the values", at_most(ROUNDING), Evidence.EXACT, outside),
    Claim("pooling/average", "doc-004", "11.1", "weights of 1/m are average pooling",
          "largest difference from the mean of the values", at_most(ROUNDING), Evidence.EXACT, average),
    Claim("pooling/query_cancels", "doc-004", "11.3.1", "the query's norm cancels in the softmax",
          "largest difference of weights with and without it", at_most(ROUNDING), Evidence.EXACT, without_the_query),
    Claim("pooling/key_norms", "doc-004", "11.3.1", "keys' norms are nearly constant after a normalisation",
          "standard deviation of the norms over their mean", at_most(NEARLY), Evidence.EXACT, partial(key_norms, True)),
)  # fmt: skip
