"""Caches of int8: how new keys and values are stored, what they stand for, and the error that this leaves."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call
from attnsuite.cases.tensors import Array, dtype_of
from attnsuite.contracts.attention.feature import Grid, visible
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS

SCALES = {"key_cache": "key_scales", "value_cache": "value_scales"}
"""The scales of each cache."""
LARGEST = 127.0
"""The int8 number of the largest feature of a vector; -128 is not used."""


def quantised(new: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors … e as int8 numbers … e and float32 scales …; zeros where the scale is 0 or no finite number."""
    vectors = new.float()
    scales = vectors.abs().amax(-1) / torch.tensor(LARGEST, device=vectors.device)
    return (vectors / scales[..., None]).nan_to_num(0.0).round().to(torch.int8), scales


def dequantised(numbers: Tensor, scales: Tensor) -> Tensor:
    """The vectors … e that int8 numbers and their scales stand for: exact, since 8 and 24 bits fit into float64."""
    return numbers.double() * scales.double()[..., None]


def rounding_error(item: Call, conventions: dict[str, str]) -> Array:
    """The error of an output, h l e, if each product of a number and its scale is rounded once to the query's dtype.

    A relative error u of all features of keys moves a score by at most u m, with m = |scale| Σ |q| |k|. If D is the
    largest of a query's keys, its weights change by factors between exp(-2 u D) and exp(2 u D), and values by 1 + u.
    """
    query, key, value = (compare.numbers(item.tensors[name]) for name in ("query", "key", "value"))  # h l e, g t e
    groups = len(query) // max(len(key), 1)
    key, value = key.repeat(groups, 0).swapaxes(1, 2), value.repeat(groups, 0)
    seen = visible(item.options, Grid.make(query.shape[1], key.shape[2], None), conventions)
    seen = np.ones((query.shape[1], key.shape[2]), dtype=bool) if seen is None else seen
    scale, unit = item.options.get("scale", query.shape[2] ** -0.5), PRECISIONS[dtype_of(item)].unit
    scores = np.where(seen, scale * query @ key, -np.inf)
    powers = np.exp(scores - np.max(scores, -1, keepdims=True, initial=np.finfo(float).min))
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), np.finfo(float).tiny)
    sizes = np.where(seen, abs(scale) * abs(query) @ abs(key), 0.0).max(-1, keepdims=True, initial=0.0)
    growth, mean = np.expm1(2 * unit * sizes), weights @ abs(value)
    return np.asarray(growth * (mean + abs(weights @ value)) + unit * (1 + growth) * mean)
