"""The slow, obvious answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.judging.rounded import Rounded

Array = np.ndarray[Any, Any]


def patch_embedding(image: Rounded, weight: Rounded, bias: Rounded) -> Rounded:
    """Each patch's numbers times the weight, plus the bias, b n e."""
    side = weight.shape[-1]

    def patches(array: Array) -> Array:
        """b c h w → b n cpp."""
        batch, channels, height, width = array.shape
        cut = array.reshape(batch, channels, height // side, side, width // side, side)
        patches = (height // side) * (width // side)
        return cut.transpose(0, 2, 4, 1, 3, 5).reshape(batch, patches, channels * side * side)

    return image.each(patches).affine(weight.each(lambda array: array.reshape(len(array), -1).T), bias)
