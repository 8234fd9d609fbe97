"""Patch embedding as PyTorch's convolution, whose kernel is its stride."""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes


@implementation
def patch_embedding(
    image: Tensor,  # b c h w
    weight: Tensor,  # e c p p
    bias: Tensor,  # e
) -> Tensor:
    """Return each patch's vector, row by row, of shape b n e and the image's dtype.

    Raises ValueError, before any work, for sides that the patch does not divide and for shapes that differ.
    """
    side = check_axes(image=(image, "b c h w"), weight=(weight, "e c p p"), bias=(bias, "e"))["p"]
    if image.shape[2] % side or image.shape[3] % side:
        sides = f"{image.shape[2]} by {image.shape[3]}"
        raise ValueError(f"the sides of image should be multiples of the patch's, {side}, not {sides}")
    wide = torch.float32 if image.dtype in (torch.float16, torch.bfloat16) else image.dtype
    mapped = conv2d(image.to(wide), weight.to(wide), bias.to(wide), stride=side)  # b e rows columns
    return mapped.flatten(2).mT.contiguous().to(image.dtype)
