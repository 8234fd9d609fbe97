"""Patch embeddings with exactly one named mistake each."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.layouts import in_memory_order
from suite.asking.staged import Mistake, Staged, imprecise, instead_of, mistakes


class Patches(Staged):
    """The formula, step by step."""

    def __call__(self, image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        image, weight, bias = self.check(image, weight, bias)
        dtype, wide = image.dtype, self.wide(image)
        cut = self.cut(image.to(wide), weight.shape[-1])  # b rows columns c p p
        ordered = self.order(cut)  # b n cpp
        return self.map(ordered, self.flatten(weight.to(wide)), bias.to(wide)).to(dtype)

    @staticmethod
    def check(image: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raise for what does not fit."""
        side = weight.shape[-1]
        if image.dim() != 4 or image.shape[1] != weight.shape[1] or weight.shape[2] != side:
            raise ValueError("channels or patches differ")
        if image.shape[2] % side or image.shape[3] % side or bias.shape != weight.shape[:1]:
            raise ValueError("sides or bias do not fit")
        return image, weight, bias

    @staticmethod
    def cut(image: Tensor, side: int) -> Tensor:
        batch, channels, height, width = image.shape
        cut = image.reshape(batch, channels, height // side, side, width // side, side)
        return cut.permute(0, 2, 4, 1, 3, 5)

    @staticmethod
    def order(cut: Tensor) -> Tensor:
        batch, rows, columns, *patch = cut.shape
        return cut.reshape(batch, rows * columns, patch[0] * patch[1] * patch[2])

    @staticmethod
    def flatten(weight: Tensor) -> Tensor:
        return weight.flatten(1)

    @staticmethod
    def map(patches: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return patches @ weight.mT + bias


IN_ORDER = mistakes(
    Patches.order,
    column_by_column=Mistake(
        "patches run column by column instead of row by row", lambda cut: Patches.order(cut.transpose(1, 2))
    ),
    reversed_patches=Mistake("patches run from the last to the first", lambda cut: Patches.order(cut).flip(1)),
    patches_of_first_item=Mistake(
        "the patches of the first item serve all items", lambda cut: Patches.order(cut[:1].expand_as(cut))
    ),
)


@instead_of(Patches.order, "patches beyond the 128th are taken for the 128th")
def repeats_patch_beyond_128(cut: Tensor) -> Tensor:
    patches = Patches.order(cut).clone()
    patches[:, 128:] = patches[:, 127:128]
    return patches


IN_CUT = mistakes(
    Patches.cut,
    transposed_pixels=Mistake(
        "rows and columns are swapped within a patch", lambda image, side: Patches.cut(image, side).mT
    ),
    reversed_channels=Mistake(
        "the channels are taken in reverse, as BGR for RGB", lambda image, side: Patches.cut(image.flip(1), side)
    ),
    first_channel_only=Mistake(
        "only the first channel is looked at",
        lambda image, side: Patches.cut(torch.cat([image[:, :1], torch.zeros_like(image[:, 1:])], 1), side),
        source="documents, E41",
    ),
)


@instead_of(Patches.cut, "a patch's pixels stand far apart: every h/p-th row and w/p-th column")
def strided_pixels(image: Tensor, side: int) -> Tensor:
    batch, channels, height, width = image.shape
    cut = image.reshape(batch, channels, side, height // side, side, width // side)
    return cut.permute(0, 3, 5, 1, 2, 4)


@instead_of(Patches.flatten, "the weight's channels come last, as images are stored elsewhere")
def channels_last(weight: Tensor) -> Tensor:
    return weight.permute(0, 2, 3, 1).flatten(1)


@instead_of(Patches.flatten, "the weight is flipped, as a convolution in signal processing flips it")
def flipped_weight(weight: Tensor) -> Tensor:
    return weight.flip(2, 3).flatten(1)


IN_MAP = mistakes(
    Patches.map,
    no_bias=Mistake("the bias is left out", lambda patches, weight, bias: patches @ weight.mT),
    drops_pixels_beyond_256=Mistake(
        "pixels beyond the 256th of a patch are left out",
        lambda patches, weight, bias: patches[..., :256] @ weight[:, :256].mT + bias,
    ),
    averaged=Mistake(
        "patches are averaged instead of summed",
        lambda patches, weight, bias: patches @ weight.mT / patches.shape[-1] + bias,
    ),
)


@instead_of(Patches.check, "what the patch side does not divide is cut off in silence", source="documents, E40")
def crops(image: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    side = weight.shape[-1]
    height, width = (size // side * side for size in image.shape[-2:])
    return (
        Patches.check(image[..., :height, :width], weight, bias)
        if height and width
        else Patches.check(image, weight, bias)
    )


@instead_of(Patches.check, "a bias of one number is broadcast")
def broadcasts_bias(image: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return Patches.check(image, weight, bias.expand(len(weight)) if len(bias) == 1 else bias)


CONTROLS = {"correct": Patches()}
OTHERS = [in_memory_order(Patches()), *imprecise(Patches)]
