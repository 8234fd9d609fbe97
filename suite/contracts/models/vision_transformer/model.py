"""The oracle of the contract `vision_transformer`, and the eager model in steps, its mutants and correct variants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from attnsuite.cases import Variant
from attnsuite.cases.changes import as_it_lies, as_they_lie, first_for_all, repeated_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import bias_first, imprecise_mutants, linear
from attnsuite.cases.mutants import Mutation, formula, mutants, with_arguments, with_result
from attnsuite.contracts.models import oracle as blocks
from attnsuite.contracts.models.eager import Blocks, Config, Part, Storage, part
from attnsuite.contracts.models.mutants import CHECK_WEIGHTS, first_of_shape, mutants_of_blocks, variants_of
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.shared import unguarded
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


CONTROLS = {"correct": VisionTransformer()}
COMMON = [*mutants_of_blocks(VisionTransformer), *imprecise_mutants(VisionTransformer)]
MUTANTS = mutants(
    VisionTransformer,
    check_config={
        "crops": Mutation("images are cropped to whole patches", lambda config: None, "documents, E40"),
    },
    check_weights=CHECK_WEIGHTS,
    check_images={
        "converts_images": Mutation("images are converted to the weights' dtype",
            with_arguments(images=lambda images, dtype: images.to(dtype) if images.is_floating_point() else images)),
        "images_as_they_lie": Mutation("images are read in memory order", with_result(as_it_lies)),
    },
    widened={"weights_as_they_lie": Mutation("weights are read in memory order", with_arguments(weights=as_they_lie))},
    patches={
        "transposed_images": Mutation("rows and columns of square images are swapped", with_arguments(images=turned)),
        "swapped_items_and_channels": Mutation("items and channels are swapped where the two axes have one size",
            with_arguments(images=swapped_where_equal(rank=4))),
        "patches_by_column": Mutation("patches run column by column",
            partial(VisionTransformer.patches, order=(0, 3, 2, 1, 4, 5))),
        "channels_last": Mutation("the channel is the fastest axis of a patch",
            partial(VisionTransformer.patches, order=(0, 2, 3, 4, 5, 1))),
        "reshaped_patches": Mutation("images are cut into strips of rows",
            lambda images, side: images.reshape(len(images), -1, images.shape[1] * side * side)),
    },
    keep={
        "stale_patches": Mutation("images of the first ones' shape are not read", first_of_shape),
        "repeats_image_beyond_16": Mutation("images beyond the 16th repeat the 16th",
            with_result(repeated_beyond(16, 0))),
    },
    with_token={"token_last": Mutation("the class token comes last", lambda x, token: torch.cat([x, token], 1))},
    place={
        "no_positions": Mutation("no positions are added", lambda x, positions: x.clone()),
        "one_position_for_all": Mutation("all tokens have the first one's position",
            with_arguments(positions=first_for_all()), "pytorch/examples issue 1178"),
    },
    arrange={"post_norm": Mutation("normalisation comes after each layer instead of before it",
        lambda x, layer, norm, add: norm(add(x, layer(x))))},
    block={"shared_blocks": Mutation("all blocks have the first one's weights", lambda number: 0)},
    activate={
        "tanh_gelu": Mutation("GELU is approximated with tanh", lambda x: gelu(x, approximate="tanh"),
            "documents, E45"),
        "relu_mlp": Mutation("the mlp has ReLU, not GELU", torch.relu),
    },
    softmax={"overflowing_softmax": Mutation("exponentials overflow: the largest score is not subtracted",
        lambda scores: unguarded(scores.exp()))},
    states={
        "squeezed_states": Mutation("the states of a batch of one lose its axis", lambda x: x.squeeze(0)),
        "normalised_states": Mutation("the states are normalised", lambda x: layer_norm(x, x.shape[-1:])),
    },
    first={"reads_last": Mutation("the last position is classified, not the class token", lambda x: x[:, -1])},
    mean={
        "reads_first_patch": Mutation("the first patch is classified, not the mean", VisionTransformer.first),
        "mean_without_batch": Mutation("the mean of a batch of one loses its axis", lambda x: x.squeeze(0).mean(-2)),
    },
    head={
        "no_head_bias": Mutation("the head has no bias",
            lambda pooled, norm, weights: norm(pooled) @ weights["w_head"]),
        "squeezed_class": Mutation("a single class loses its axis", with_result(lambda logits: logits.squeeze(1))),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """The model with other blocks, and in other precisions."""
    return variants_of(
        VisionTransformer,
        {"activate": gelu, "embed": lambda patches, weights: linear(patches, weights["w_patch"], weights["b_patch"])},
        {"embed": lambda patches, weights: bias_first(patches, weights["w_patch"], weights["b_patch"]),
            "mean": lambda x: torch.einsum("bnd->bd", x) / x.shape[1]},
    )  # fmt: skip
