"""Patch embeddings with exactly one named mistake each."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, usual_mutants
from attnsuite.cases.mutants import (
    Mutation,
    first_for_all,
    formula,
    mutants,
    only_first,
    repeated_beyond,
    swapped_where_equal,
    turned,
    with_arguments,
    with_result,
)


class Patches(Steps):
    """The formula, step by step."""

    axes = Axes(image="b c h w", weight="e c p p", bias="e")

    def compute(self, image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        dtype, wide = image.dtype, self.wide(image)
        cut = self.cut(image.to(wide), weight.shape[-1])  # b rows columns c p p
        ordered = self.order(cut)  # b n cpp
        return self.map(ordered, self.flatten(weight.to(wide)), bias.to(wide)).to(dtype)

    @staticmethod
    def check(given: Arguments, sizes: Sizes) -> None:
        if sizes["h"] % sizes["p"] or sizes["w"] % sizes["p"]:
            raise ValueError("the patches do not divide the image")

    @staticmethod
    def cut(image: Tensor, side: int) -> Tensor:
        batch, channels, height, width = image.shape
        cut = image.reshape(batch, channels, height // side, side, width // side, side)
        return cut.permute(0, 2, 4, 1, 3, 5)

    @staticmethod
    def order(cut: Tensor) -> Tensor:
        batch, rows, columns, *patch = cut.shape
        return cut.reshape(batch, rows * columns, patch[0] * patch[1] * patch[2])

    flatten = formula(lambda weight: weight.flatten(1))
    map = formula(lambda patches, weight, bias: patches @ weight.mT + bias)


def strided(image: Tensor, side: int) -> Tensor:
    batch, channels, height, width = image.shape
    cut = image.reshape(batch, channels, side, height // side, side, width // side)
    return cut.permute(0, 3, 5, 1, 2, 4)


def cropped(image: Tensor, weight: Tensor) -> Tensor:
    side = weight.shape[-1]
    height, width = (size // side * side for size in image.shape[-2:])
    return image[..., :height, :width] if height and width else image


CONTROLS = {"correct": Patches()}
GENERAL_MUTANTS = usual_mutants(Patches)
MUTANTS = mutants(
    Patches,
    whole={
        "crops": Mutation(
            "what the patch side does not divide is cut off in silence", with_arguments(image=cropped), "documents, E40"
        ),
        "transposed_image": Mutation(
            "rows and columns of the image are swapped where it is square", with_arguments(image=turned)
        ),
        "swapped_items_and_channels": Mutation(
            "items and channels of the image are swapped where there are as many",
            with_arguments(image=swapped_where_equal(of_rank=4)),
        ),
        "swapped_features_and_channels": Mutation(
            "features and channels of the weight are swapped where there are as many, as in a transposed convolution",
            with_arguments(weight=swapped_where_equal(of_rank=4)),
        ),
        "broadcasts_bias": Mutation(
            "a bias of one number is broadcast",
            with_arguments(bias=lambda bias, weight: bias.expand(len(weight)) if len(bias) == 1 else bias),
        ),
    },
    cut={
        "transposed_pixels": Mutation("rows and columns are swapped within a patch", with_result(lambda cut: cut.mT)),
        "reversed_channels": Mutation(
            "the channels are taken in reverse, as BGR for RGB", with_arguments(image=lambda x: x.flip(1))
        ),
        "first_channel_only": Mutation(
            "only the first channel is looked at",
            with_arguments(image=lambda image: torch.cat([image[:, :1], torch.zeros_like(image[:, 1:])], 1)),
            "documents, E41",
        ),
        "strided_pixels": Mutation("a patch's pixels stand far apart: every h/p-th row and w/p-th column", strided),
    },
    order={
        "column_by_column": Mutation(
            "patches run column by column instead of row by row", with_arguments(cut=lambda cut: cut.transpose(1, 2))
        ),
        "reversed_patches": Mutation("patches run from the last to the first", with_result(lambda x: x.flip(1))),
        "patches_of_first_item": Mutation(
            "the patches of the first item serve all items", with_arguments(cut=first_for_all())
        ),
        "repeats_patch_beyond_128": Mutation(
            "patches beyond the 128th are taken for the 128th", with_result(repeated_beyond(128, -2))
        ),
    },
    flatten={
        "channels_last": Mutation(
            "the weight's channels come last, as images are stored elsewhere",
            with_arguments(weight=lambda weight: weight.permute(0, 2, 3, 1)),
        ),
        "flipped_weight": Mutation(
            "the weight is flipped, as a convolution in signal processing flips it",
            with_arguments(weight=lambda weight: weight.flip(2, 3)),
        ),
    },
    map={
        "no_bias": Mutation("the bias is left out", lambda patches, weight, bias: patches @ weight.mT),
        "drops_pixels_beyond_256": Mutation(
            "pixels beyond the 256th of a patch are left out",
            with_arguments(patches=only_first(256, -1), weight=only_first(256, -1)),
        ),
        "features_first": Mutation(
            "features come before patches where there are as many, as a convolution leaves them", with_result(turned)
        ),
        "averaged": Mutation(
            "patches are averaged instead of summed",
            lambda patches, weight, bias: patches @ weight.mT / patches.shape[-1] + bias,
        ),
    },
)
