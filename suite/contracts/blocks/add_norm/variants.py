"""Correct residual connections with normalisation in foreign styles."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import in_numpy, widened
from attnsuite.contracts.blocks.add_norm.mutants import Residual

Array = np.ndarray[Any, Any]


def _library(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5) -> Tensor:
    """Torch's normalisations in the dtype itself."""
    both = x + y
    if norm == "layer":
        return functional.layer_norm(both, weight.shape, weight, bias, eps)
    rows = both.flatten(0, -2)
    return functional.batch_norm(rows, None, None, weight, bias, training=True, eps=eps).view_as(both)


def _folded(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, *, norm: str = "layer", eps: float = 1e-5) -> Tensor:
    """a · sum + (bias − a · mean), with a = weight / √(variance + eps)."""
    both = x + y
    over = (-1,) if norm == "layer" else tuple(range(both.dim() - 1))
    variance, mean = torch.var_mean(both, over, correction=0, keepdim=True)
    slope = weight * torch.rsqrt(variance + eps)
    return torch.addcmul(bias - slope * mean, slope, both)


def _running(x: Array, y: Array, weight: Array, bias: Array, *, norm: str = "layer", eps: float = 1e-5) -> Array:
    """Mean and squared differences updated number by number, as Welford does."""
    both = x + y
    rows = both if norm == "layer" else both.reshape(-1, both.shape[-1]).T
    mean, squares = np.zeros(rows.shape[:-1]), np.zeros(rows.shape[:-1])
    for count in range(rows.shape[-1]):
        apart = rows[..., count] - mean
        mean = mean + apart / (count + 1)
        squares = squares + apart * (rows[..., count] - mean)
    found = (rows - mean[..., None]) / np.sqrt(squares / rows.shape[-1] + eps)[..., None]
    normalised = found if norm == "layer" else found.T.reshape(both.shape)
    return np.asarray(normalised * weight + bias)


def variants() -> list[Variant]:
    """One formula, many ways to normalise."""
    folded, running = widened(Residual, _folded), in_numpy(Residual, _running)
    return [
        Variant("library", "torch's layer_norm and batch_norm in the dtype itself", Residual.checked(_library)),
        Variant("folded", "a slope and an offset, into which mean and bias are folded", folded),
        Variant("running", "mean and variance updated number by number, numpy in float64", running),
    ]
