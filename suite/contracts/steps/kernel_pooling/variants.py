"""Correct kernel pooling in foreign styles."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Variant
from attnsuite.cases.computations import in_numpy, widened
from attnsuite.contracts.steps.kernel_pooling.mutants import Pooling

Array = np.ndarray[Any, Any]


def _weighted(query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0) -> Tensor:
    """Weights are normalised first: the Gaussian's by softmax, the others by their sum."""
    apart = torch.sub(query[:, None], key) / width
    if kernel == "gaussian":
        return torch.softmax(apart * apart / -2, -1) @ value
    weights = _compact(kernel, apart)
    return weights.div(weights.sum(-1, keepdim=True)).nan_to_num(0.0) @ value


def _divided_last(query: Tensor, key: Tensor, value: Tensor, *, kernel: str = "gaussian", width: float = 1.0) -> Tensor:
    """A column of ones beside the values collects the sum of the kernels, which divides at the end."""
    apart = (key[:, None] - query) / width  # s l
    if kernel == "gaussian":
        nearest = apart.square().amin(0) if len(key) else apart.new_zeros(len(query))
        powers = ((nearest - apart.square()) / 2).exp()
    else:
        powers = _compact(kernel, apart)
    sums = torch.einsum("sl,sv->lv", powers, torch.cat([value, value.new_ones(len(value), 1)], 1))
    return sums[:, :-1] / sums[:, -1:].masked_fill(sums[:, -1:] == 0, 1.0)


def _compact(kernel: str, apart: Tensor) -> Tensor:
    """The kernels that are zero far away, and the constant one."""
    size = apart.abs()
    if kernel == "constant":
        return torch.ones_like(size)
    inside = (size < 1).to(size.dtype)
    by_name = {"boxcar": inside, "triangular": inside * (1 - size), "epanechikov": inside * (1 - size) * (1 + size)}
    return by_name[kernel]


def _query_by_query(query: Array, key: Array, value: Array, *, kernel: str = "gaussian", width: float = 1.0) -> Array:
    """Keys in the order of their distance, farthest first."""
    found = np.zeros((len(query), value.shape[1]))
    for number, place in enumerate(query):
        order = np.argsort(-abs(place - key))
        apart = (place - key[order]) / width
        if kernel == "gaussian":
            weights = np.exp(-(apart**2 - (apart[-1] ** 2 if len(key) else 0.0)) / 2)
        else:
            weights = _compact(kernel, torch.from_numpy(apart)).numpy()
        found[number] = sum(weights[:, None] * value[order]) / (weights.sum() or 1.0)
    return found


def variants() -> list[Variant]:
    """Five kernels, many ways to take their mean."""
    last, numpy = widened(Pooling, _divided_last), in_numpy(Pooling, _query_by_query)
    return [
        Variant("weighted", "weights are normalised before the mean", widened(Pooling, _weighted)),
        Variant("own_dtype", "the same in the dtype itself, half types too", Pooling.checked(_weighted)),
        Variant("divided_last", "one einsum gives the sum and what divides it", last),
        Variant("query_by_query", "numpy in float64, the farthest key first", numpy),
    ]
