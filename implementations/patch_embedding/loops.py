"""Patch embedding one number at a time, in Python's own arithmetic."""

import math
from itertools import chain

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes


@implementation
def patch_embedding(
    image: Tensor,  # b c h w
    weight: Tensor,  # e c p p
    bias: Tensor,  # e
) -> Tensor:
    """Return each patch's vector, row by row, of shape b n e and the image's dtype.

    Raises ValueError for sides that the patch does not divide and for shapes that differ.
    """
    check_axes(image=(image, "b c h w"), weight=(weight, "e c p p"), bias=(bias, "e"))
    (batch, _, height, width), (features, _, side, _) = image.shape, weight.shape
    if height % side or width % side:
        raise ValueError(f"an image of {height} by {width} cannot be cut into patches of {side}")
    filters = [list(chain.from_iterable(chain.from_iterable(kernel))) for kernel in weight.tolist()]
    vectors = [
        [
            _mapped(item, row, column, side, filters, bias.tolist())
            for row in range(0, height, side)
            for column in range(0, width, side)
        ]
        for item in image.tolist()
    ]
    patches = (height // side) * (width // side)
    return torch.tensor(vectors, dtype=torch.float64).reshape(batch, patches, features).to(image.device, image.dtype)


def _mapped(
    item: list[list[list[float]]], row: int, column: int, side: int, filters: list[list[float]], bias: list[float]
) -> list[float]:
    """The vector of the patch with this upper left pixel."""
    pixels = [
        number for channel in item for line in channel[row : row + side] for number in line[column : column + side]
    ]
    return [
        math.fsum([b, *(p * w for p, w in zip(pixels, numbers, strict=True))])
        for numbers, b in zip(filters, bias, strict=True)
    ]
