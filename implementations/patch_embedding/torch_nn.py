"""Patch embedding as PyTorch's convolution, whose kernel is its stride."""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from attnsuite import implementation


@implementation
def patch_embedding(
    image: Tensor,  # b c h w
    weight: Tensor,  # e c p p
    bias: Tensor,  # e
) -> Tensor:
    """Return each patch's vector, row by row, of shape b n e and the image's dtype.

    Raises ValueError, before any work, for sides that the patch does not divide and for shapes that differ.
    """
    if image.dim() != 4 or weight.dim() != 4:
        raise ValueError(f"image and weight should have rank 4, not {image.dim()} and {weight.dim()}")
    features, channels, side, other = weight.shape
    if side != other:
        raise ValueError(f"the patches of weight should be square, not {side} by {other}")
    if image.shape[1] != channels:
        raise ValueError(f"image should have the weight's channels, {channels}, not {image.shape[1]}")
    if tuple(bias.shape) != (features,):
        raise ValueError(f"bias should have shape {(features,)}, not {tuple(bias.shape)}")
    if image.shape[2] % side or image.shape[3] % side:
        sides = f"{image.shape[2]} by {image.shape[3]}"
        raise ValueError(f"the sides of image should be multiples of the patch's, {side}, not {sides}")
    wide = torch.float32 if image.dtype in (torch.float16, torch.bfloat16) else image.dtype
    mapped = conv2d(image.to(wide), weight.to(wide), bias.to(wide), stride=side)  # b e rows columns
    return mapped.flatten(2).mT.contiguous().to(image.dtype)
