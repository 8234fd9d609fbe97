"""The oracle of the contract `vision_transformer`, and the eager model in steps that mutants replace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases.mutants import formula
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Blocks, Config, Part, Storage, part
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.judging.running_error import WithError, concatenated

Array = np.ndarray[Any, Any]


def oracle(config: Mapping[str, Any], weights: blocks.Part, images: WithError) -> tuple[WithError, blocks.Attentions]:
    """The logits, b k, or without classes the states of all positions, b n d; and the weights of every attention."""
    attentions: dict[str, blocks.Attention] = {}

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
        block = blocks.part(weights, f"blocks.{number}")
        normed = blocks.norm(x, blocks.part(block, "norm1"))
        output, attentions[f"blocks.{number}.attention"] = blocks.multi_head(
            normed, normed, blocks.part(block, "attention"), config["heads"]
        )
        x = x + output
        normed = blocks.norm(x, blocks.part(block, "norm2"))
        x = x + blocks.feed_forward(normed, blocks.part(block, "mlp"), "gelu")
    if not config["classes"]:
        return x, attentions
    pooled = x[:, 0] if config["pooling"] == "class" else x.mean(1)
    return blocks.norm(pooled, blocks.part(weights, "norm")).affine(weights["w_head"], weights["b_head"]), attentions


class VisionTransformer(Blocks):
    """The model, step by step."""

    shapes = staticmethod(shapes)

    def run(self, config: Config, weights: Part, storage: Storage, dtype: torch.dtype, images: Tensor) -> Tensor:
        images = self.check_images(config, images, dtype).to(weights["positions"].dtype)
        patches = self.patches(images, config["patch"])  # b m cpp
        x = self.keep(storage, self.embed(patches, weights))
        if config["pooling"] == "class":
            x = self.with_token(x, weights["class_token"].expand(len(x), 1, -1))
        x = self.blocks(config, weights, self.place(x, weights["positions"]))
        if not config["classes"]:
            return self.states(x).to(dtype)
        pooled = self.first(x) if config["pooling"] == "class" else self.mean(x)
        return self.head(pooled, partial(self.norm, weights=part(weights, "norm")), weights).to(dtype)

    def blocks(self, config: Config, weights: Part, x: Tensor) -> Tensor:
        for number in range(config["blocks"]):
            block = part(weights, f"blocks.{self.block(number)}")
            name = f"blocks.{number}.attention"
            attend = partial(self.to_itself, part(block, "attention"), config["heads"], None, name=name)
            network = partial(self.feed_forward, weights=part(block, "mlp"))
            x = self.arrange(x, attend, partial(self.norm, weights=part(block, "norm1")), self.add)
            x = self.arrange(x, network, partial(self.norm, weights=part(block, "norm2")), self.add)
        return x

    activate = formula(lambda features: features * (1 + torch.erf(features / math.sqrt(2))) / 2)

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"]:
            raise ValueError("the heads do not divide the width")
        if config["image_height"] % config["patch"] or config["image_width"] % config["patch"]:
            raise ValueError("the patches do not divide the image")

    @staticmethod
    def check_images(config: Config, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Raise for images that do not fit; return the images."""
        expected = tuple(config[name] for name in ("channels", "image_height", "image_width"))
        if tuple(images.shape[1:]) != expected or images.dim() != 4 or images.dtype != dtype:
            raise ValueError("images of another size or dtype")
        return images

    @staticmethod
    def patches(images: Tensor, side: int, order: tuple[int, ...] = (0, 2, 3, 1, 4, 5)) -> Tensor:
        """b c h w → b m cpp; `order` is that of the axes b c rows columns p p."""
        return images.unfold(2, side, side).unfold(3, side, side).permute(order).flatten(3).flatten(1, 2)

    embed = formula(lambda patches, weights: patches @ weights["w_patch"] + weights["b_patch"])
    keep = formula(lambda storage, x: x)  # the mapped patches
    with_token = formula(lambda x, token: torch.cat([token, x], 1))
    place = formula(lambda x, positions: x + positions)
    block = staticmethod(lambda number: number)
    arrange = formula(lambda x, layer, norm, add: add(x, layer(norm(x))))
    states = formula(lambda x: x)
    first = formula(lambda x: x[:, 0])
    mean = formula(lambda x: x.mean(1))
    head = formula(lambda pooled, norm, weights: norm(pooled) @ weights["w_head"] + weights["b_head"])
