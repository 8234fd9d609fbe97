"""The contract `patch_embedding`: an image cut into square patches, each mapped to a vector.

    patch_embedding(image, weight, bias) -> patches

    patches[b, i·w/p + j] = Σ weight · image[b, :, ip:(i+1)p, jp:(j+1)p] + bias

Axes: `b c h w` image, `e c p p` weight, `e` bias, `b n e` patches (c channels, h height, w width, p patch side,
n = h/p · w/p patches, row by row). A convolution whose kernel is its stride. Dosovitskiy and others, "An image is worth
16x16 words" (arXiv 2010.11929).

    sides            the patch side divides both; what a convolution would cut off in silence is bad input
    rounding         sums may run in any order, the bias first or last; half types sum in float32
    inputs           of any strides, as are weights; never modified; the output aliases none, and outlives later calls
    output           the image's dtype and device
    bad input        raises: sides that the patch does not divide, other channels, a bias of another width, patches that
                     are not square
"""

from __future__ import annotations

from attnsuite.cases import declare

POSITIONAL = ("image", "weight", "bias")

CONTRACT = declare(__name__, {})
