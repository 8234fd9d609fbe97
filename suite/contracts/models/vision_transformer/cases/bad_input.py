"""Weights, configs and images that must be refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.model import Weights, instead, without
from attnsuite.contracts.models.vision_transformer.cases.draws import USUAL, model


def bad_input() -> Iterator[BadInputCase]:
    """Weights, configs and images that do not go together."""
    return model.refused(*WEIGHTS, *CONFIGS, *IMAGES)


def halved(weights: Weights) -> dict[str, Tensor]:
    """The same in float16, whatever else is asked."""
    return {name: torch.from_numpy(array).half() for name, array in weights.items()}


HALF = torch.zeros(10, dtype=torch.float16)
WEIGHTS: list[Row] = [
    ("missing", "weights without blocks.1.mlp.w2", {"bad_weights": without("blocks.1.mlp.w2")}),
    ("extra", "weights with blocks.2.mlp.w2, which is not due", {"bad_weights": instead("blocks.2.mlp.w2", np.zeros((24, 16)))}),
    ("misshapen", "w_head of shape 10 × 16, which is transposed", {"bad_weights": instead("w_head", np.zeros((10, 16)))}),
    ("positions", "positions for 6 of 7, without the class token's", {"bad_weights": instead("positions", np.zeros((6, 16)))}),
    ("one_position", "one position, which would serve all of 7", {"bad_weights": instead("positions", np.zeros((1, 16)))}),
    ("dtypes", "a bias of integers among weights of numbers", {"bad_weights": instead("b_head", np.zeros(10, np.int64))}),
    ("half_bias", "a bias in float16 among weights in float32", {"bad_weights": instead("b_head", HALF)}),
    ("half_weights", "weights in float16 for images in float32", {"bad_weights": halved}),
]  # fmt: skip
CONFIGS: list[Row] = [
    ("heads", "3 heads, which do not divide the width of 16", {"config": {**USUAL, "heads": 3}}),
    ("patch", "patches of 5, which divide neither 8 nor 12", {"config": {**USUAL, "patch": 5}}),
    ("patch_height", "an image of height 10, which patches of 4 do not divide", {"config": {**USUAL, "image_height": 10}}),
    ("patch_width", "an image of width 14, which patches of 4 do not divide", {"config": {**USUAL, "image_width": 14}}),
]  # fmt: skip
IMAGES: list[Row] = [
    ("larger_image", "images of 12 × 12 where 8 × 12 are due", {"inputs": {"images": np.ones((3, 3, 12, 12))}}),
    ("turned_image", "images of 12 × 8 where 8 × 12 are due", {"inputs": {"images": np.ones((3, 3, 12, 8))}}),
    ("channels", "images of 1 channel where 3 are due", {"inputs": {"images": np.ones((3, 1, 8, 12))}}),
    ("no_batch", "a single image without the axis of a batch", {"inputs": {"images": np.ones((3, 8, 12))}}),
    ("integers", "images of integers where the weights are numbers", {"inputs": {"images": np.ones((3, 3, 8, 12), np.int64)}}),
]  # fmt: skip
