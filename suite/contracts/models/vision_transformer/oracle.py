"""The slow, obvious answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnsuite.contracts.models.layers import Attention, Attentions, Part, feed_forward, multi_head, norm, part
from attnsuite.judging.rounded import Rounded, concatenated

Array = np.ndarray[Any, Any]


def vision_transformer(config: Mapping[str, Any], weights: Part, images: Rounded) -> tuple[Rounded, Attentions]:
    """The logits, b k, or without classes the states of all positions, b n d; and the weights of every attention."""
    attentions: dict[str, Attention] = {}

    def patches(array: Array) -> Array:
        """b c h w → b m ccpp."""
        side = config["patch"]
        rows = [
            array[:, :, top : top + side, left : left + side].reshape(len(array), -1)
            for top in range(0, array.shape[2], side)
            for left in range(0, array.shape[3], side)
        ]
        return np.stack(rows, 1)

    x = images.each(patches).affine(weights["w_patch"], weights["b_patch"])
    if config["pooling"] == "class":
        token = weights["class_token"].each(lambda array: np.broadcast_to(array, (images.shape[0], 1, len(array))))
        x = concatenated([token, x], 1)
    x = x + weights["positions"]
    for number in range(config["blocks"]):
        block = part(weights, f"blocks.{number}")
        seen = norm(x, part(block, "norm1"))
        read, attentions[f"blocks.{number}.attention"] = multi_head(
            seen, seen, part(block, "attention"), config["heads"]
        )
        x = x + read
        x = x + feed_forward(norm(x, part(block, "norm2")), part(block, "mlp"), "gelu")
    if not config["classes"]:
        return x, attentions
    read = x[:, 0] if config["pooling"] == "class" else x.mean(1)
    return norm(read, part(weights, "norm")).affine(weights["w_head"], weights["b_head"]), attentions
