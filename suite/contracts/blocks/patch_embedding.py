"""The contract `patch_embedding`: an image cut into square patches, each mapped to a vector.

    patch_embedding(image, weight, bias) -> patches

    patches[b, i·w/p + j] = Σ weight · image[b, :, ip:(i+1)p, jp:(j+1)p] + bias

Axes: `b c h w` image, `e c p p` weight, `e` bias, `b n e` patches (c channels, h height, w width, p patch side,
n = h/p · w/p patches, row by row). A convolution whose stride is its kernel size. Dosovitskiy et al., "An image is
worth 16x16 words" (arXiv 2010.11929).

    sides            the patch side divides height and width; a convolution would crop the rest silently
    rounding         sums may run in any order, bias first or last; half types accumulate in float32
    inputs           any strides, weights too; never modified; the output shares no memory with them or later outputs
    output           the image's dtype and device
    bad input        raises on sides that the patch does not divide, other channels, a bias of another width, and
                     patches that are not square
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Case, Variant, declare
from attnsuite.cases.changes import first_for_all, only_first, repeated_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, all_mutants, bias_first, widened
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import Mutation, formula, with_arguments, with_result
from attnsuite.cases.tensors import Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.judging.running_error import WithError

CONTRACT = declare(__name__)

POSITIONAL = ("image", "weight", "bias")


def oracle(image: WithError, weight: WithError, bias: WithError) -> WithError:
    """Each patch's numbers times the weight, plus the bias, b n e."""
    side = weight.shape[-1]

    def patches(array: Array) -> Array:
        """b c h w → b n cpp."""
        batch, channels, height, width = array.shape
        cut = array.reshape(batch, channels, height // side, side, width // side, side)
        count = (height // side) * (width // side)
        return cut.transpose(0, 2, 4, 1, 3, 5).reshape(batch, count, channels * side * side)

    return image.each(patches).affine(weight.each(lambda array: array.reshape(len(array), -1).T), bias)


def draw(
    random: Generator, *, batch: int = 2, channels: int = 3, height: int = 6, width: int = 8, side: int = 2,
    features: int = 5, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Images with a non-zero mean. A tensor's name with a shape replaces that tensor."""
    sizes = {"image": (batch, channels, height, width), "weight": (features, channels, side, side), "bias": (features,)}
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    return inputs | {"image": inputs["image"] + 0.5}


case = Formula(oracle, POSITIONAL, draw)


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        case("plain/usual", "wider than high"),
        case("plain/square", "swapped axes still fit", channels=2, height=4, width=4, features=2),
        case("plain/as_many_features", "as many features as patches: swapped axes still fit", features=12),
        case("plain/high", "higher than wide", height=8, width=4),
        *documented(),
        case("size/many", "144 patches: more than a tile of 128", batch=1, height=24, width=24),
        case("size/large_patches", "patches whose sums in half types would show", side=16, height=16, width=32),
        case("size/no_images", "an empty batch", batch=0),
        *case.layouts(),
        *case.repeated(),
        *case.bad_input(
            ("height", "a height of 7 in patches of 2", {"height": 7}),
            ("width", "a width of 9 in patches of 2", {"width": 9}),
            ("channels", "images of 4 channels, weights for 3", {"image": (2, 4, 6, 8)}),
            ("bias", "a bias of 4 for 5 features", {"bias": (4,)}),
            ("one_bias", "a bias of 1, which would broadcast", {"bias": (1,)}),
            ("oblong", "patches of 2 by 4", {"weight": (5, 3, 2, 4)}),
            ("smaller", "an image smaller than a patch", {"height": 2, "width": 2, "side": 4}),
            ("rank", "an image without a batch axis", {"image": (3, 6, 8)}),
        ),
    ]


def documented() -> Iterator[Case]:
    """The documents' examples."""
    for example in documents.examples_of("vision_transformer"):
        inputs, parameters = example.inputs, example.parameters
        if parameters.get("part") != "patch embedding":
            continue
        if example.kind == "values":
            arrays = {name: numbers(inputs[name]) for name in POSITIONAL}
            yield DocumentedNumbers(case.with_inputs(*example.named("output"), arrays), example.gives("output"))
        else:
            sizes = dict(zip(("batch", "channels", "height", "width"), inputs["image_shape"], strict=True))
            sizes |= {"side": parameters["patch_size"], "features": parameters["num_hiddens"]}
            yield DocumentedShape(case(*example.named(), **sizes), example.at(), example.output_shape)


class Patches(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(image="b c h w", weight="e c p p", bias="e")

    def compute(self, image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        dtype, wide = image.dtype, self.wide(image)
        patches = self.order(self.cut(image.to(wide), weight.shape[-1]))
        return self.map(patches, weight.to(wide).flatten(1), bias.to(wide)).to(dtype)

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        if sizes["h"] % sizes["p"] or sizes["w"] % sizes["p"]:
            raise ValueError("the patches do not divide the image")

    @staticmethod
    def cut(image: Tensor, side: int) -> Tensor:
        """b c h w → b rows columns c p p."""
        return image.unfold(2, side, side).unfold(3, side, side).permute(0, 2, 3, 1, 4, 5)

    order = formula(lambda cut: cut.flatten(3).flatten(1, 2))  # b rows columns c p p → b n cpp
    map = formula(lambda patches, weight, bias: patches @ weight.mT + bias)


CONTROLS = {"correct": Patches()}
MUTANTS = all_mutants(
    Patches,
    whole={
        "crops": Mutation("pixels beyond the last whole patch are cropped", with_arguments(image=lambda image,
            weight: image[..., : max(1, image.shape[2] // weight.shape[2]) * weight.shape[2],
            : max(1, image.shape[3] // weight.shape[3]) * weight.shape[3]]), "documents, E40"),
        "transposed_image": Mutation("rows and columns of a square image are swapped",
            with_arguments(image=turned)),
        "swapped_items_and_channels": Mutation("items and channels are swapped where the two axes have one size",
            with_arguments(image=swapped_where_equal(rank=4))),
        "channels_last": Mutation("the weight's channels come last",
            with_arguments(weight=lambda weight: weight.permute(0, 2, 3, 1).reshape(weight.shape))),
        "broadcasts_bias": Mutation("a bias with one entry is broadcast",
            with_arguments(bias=lambda bias, weight: bias.expand(len(weight)) if len(bias) == 1 else bias)),
    },
    cut={
        "first_channel_only": Mutation("only the first channel is read", with_arguments(
            image=lambda image: torch.cat([image[:, :1], torch.zeros_like(image[:, 1:])], 1)), "documents, E41"),
    },
    order={
        "column_by_column": Mutation("patches run column by column",
            with_arguments(cut=lambda cut: cut.transpose(1, 2))),
        "patches_of_first_item": Mutation("the first item's patches serve all items",
            with_arguments(cut=first_for_all())),
        "repeats_patch_beyond_128": Mutation("patches beyond the 128th repeat the 128th",
            with_result(repeated_beyond(128, -2))),
    },
    map={
        "no_bias": Mutation("the bias is left out", lambda patches, weight, bias: patches @ weight.mT),
        "drops_pixels_beyond_256": Mutation("pixels beyond the 256th of a patch are left out",
            with_arguments(patches=only_first(256, -1), weight=only_first(256, -1))),
        "features_first": Mutation(
            "features come before patches where the two axes have one size, as a convolution returns them",
            with_result(turned)),
    },
)  # fmt: skip


def variants() -> list[Variant]:
    """Correct implementations in other orders and precisions."""
    return [
        Variant("convolution", "torch's conv2d", widened(Patches, lambda image, weight, bias:
            functional.conv2d(image, weight, bias, stride=weight.shape[-1]).flatten(2).mT.contiguous())),
        Variant("bias_first", "the bias first", Patches(map=lambda x, weight, bias: bias_first(x, weight.mT, bias))),
        Variant("float64", "everything in float64", Patches(wide=lambda image: torch.float64)),
    ]  # fmt: skip
