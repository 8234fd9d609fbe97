"""Mutants of the contract `vision_transformer`, and its correct variants."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from attnsuite.cases import Variant
from attnsuite.cases.changes import as_it_lies, as_they_lie, first_for_all, repeated_beyond, swapped_where_equal, turned
from attnsuite.cases.computations import bias_first, imprecise_mutants, linear
from attnsuite.cases.mutants import Mutation, formula, mutants, with_arguments, with_result
from attnsuite.contracts.models.mutants import CHECK_WEIGHTS, first_of_shape, mutants_of_blocks
from attnsuite.contracts.models.variants import HeadByHead, Library, without_backend
from attnsuite.contracts.models.vision_transformer.model import VisionTransformer
from attnsuite.contracts.softmax import unguarded

CONTROLS = {"correct": VisionTransformer()}
COMMON = [*mutants_of_blocks(VisionTransformer), *imprecise_mutants(VisionTransformer)]
ACCEPTED = mutants(
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
)  # fmt: skip
COMPUTED = mutants(
    VisionTransformer,
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


class _Library(Library, VisionTransformer):
    activate = formula(gelu)
    embed = formula(lambda patches, weights: linear(patches, weights["w_patch"], weights["b_patch"]))


class _HeadByHead(HeadByHead, VisionTransformer):
    embed = formula(lambda patches, weights: bias_first(patches, weights["w_patch"], weights["b_patch"]))
    mean = formula(lambda x: torch.einsum("bnd->bd", x) / x.shape[1])

    @staticmethod
    def patches(images: Tensor, side: int, order: tuple[int, ...] = ()) -> Tensor:
        """One patch at a time."""
        corners = [(i, j) for i in range(0, images.shape[2], side) for j in range(0, images.shape[3], side)]
        return torch.stack([images[:, :, i : i + side, j : j + side].flatten(1) for i, j in corners], 1)


def variants() -> list[Variant]:
    """The model with other blocks, and in other precisions."""
    in_float64 = without_backend(_Library(wide=lambda numbers: torch.float64))
    return [
        Variant("library", "PyTorch's own functions in the dtype itself", _Library()),
        Variant("head_by_head", "one head and one patch after the other, biases first", without_backend(_HeadByHead())),
        Variant("float64", "PyTorch's own functions in float64", in_float64),
    ]
