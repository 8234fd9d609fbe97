"""Correct patch embeddings in foreign styles."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.cases.computations import backwards, bias_first, in_numpy, widened
from attnsuite.contracts.blocks.patch_embedding.mutants import Patches

Array = np.ndarray[Any, Any]


def _convolution(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The kernel is its own stride."""
    return functional.conv2d(image, weight, bias, stride=weight.shape[-1]).flatten(2).mT.contiguous()


def _unfolded(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Columns of `unfold`, summed from the last number to the first."""
    side = weight.shape[-1]
    count = image.shape[2] // side * (image.shape[3] // side)
    columns = (
        functional.unfold(image, side, stride=side) if len(image) else image.new_zeros(0, weight[0].numel(), count)
    )
    return backwards(columns.mT, weight.flatten(1).mT, bias)


def _patch_by_patch(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Slices of the image, one at a time, each beginning with the bias."""
    side = weight.shape[-1]
    tops, lefts = range(0, image.shape[2], side), range(0, image.shape[3], side)
    patches = [image[:, :, top : top + side, left : left + side].flatten(1) for top in tops for left in lefts]
    return torch.stack([bias_first(patch, weight.flatten(1).mT, bias) for patch in patches], 1)


def _pixel_by_pixel(image: Array, weight: Array, bias: Array) -> Array:
    """Every pixel of a patch adds its part to all patches."""
    side = weight.shape[-1]
    rows, columns = image.shape[2] // side, image.shape[3] // side
    total = np.zeros((len(image), rows, columns, len(weight)))
    for row, column in np.ndindex(side, side):
        total += np.einsum("bchw,ec->bhwe", image[:, :, row::side, column::side], weight[:, :, row, column])
    return total.reshape(len(image), rows * columns, len(weight)) + bias


def variants() -> list[Variant]:
    """One formula, many ways to cut."""
    unfolded, pixels = widened(Patches, _unfolded), in_numpy(Patches, _pixel_by_pixel)
    return [
        Variant("convolution", "torch's conv2d, whose kernel is its stride", widened(Patches, _convolution)),
        Variant("unfolded", "torch's unfold, summed from the last to the first", unfolded),
        Variant("patch_by_patch", "one patch at a time, the bias first", widened(Patches, _patch_by_patch)),
        Variant("pixel_by_pixel", "numpy in float64, one pixel of all patches at a time", pixels),
    ]
