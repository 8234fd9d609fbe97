"""Vision Transformers with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from attnsuite.cases.computations import imprecise_mutants
from attnsuite.cases.mutants import (
    Mutation,
    as_it_lies,
    as_they_lie,
    formula,
    mutants,
    repeated_beyond,
    swapped_where_equal,
    turned,
    with_arguments,
    with_result,
)
from attnsuite.contracts.models import common
from attnsuite.contracts.models.common import EXTRA_WEIGHTS, MIXED_DTYPES, of_due_shapes
from attnsuite.contracts.models.eager import Blocks, Config, Part, part
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.softmax import unguarded

Layer = Callable[[Tensor], Tensor]


class VisionTransformer(Blocks):
    """The model, step by step."""

    shapes = staticmethod(shapes)

    def run(self, config: Config, weights: Part, kept: dict[str, Tensor], dtype: torch.dtype, images: Tensor) -> Tensor:
        images = self.check_images(config, images, dtype).to(weights["positions"].dtype)
        patches = self.patches(images, config["patch"])  # b m cpp
        x = self.keep(kept, patches @ weights["w_patch"] + weights["b_patch"])
        if config["pooling"] == "class":
            x = self.with_token(x, weights["class_token"].expand(len(x), 1, -1))
        x = self.blocks(config, weights, self.place(x, weights["positions"]))
        if not config["classes"]:
            return self.states(x).to(dtype)
        read = self.first(x) if config["pooling"] == "class" else self.mean(x)
        return self.head(read, partial(self.norm, weights=part(weights, "norm")), weights).to(dtype)

    def blocks(self, config: Config, weights: Part, x: Tensor) -> Tensor:
        for number in range(config["blocks"]):
            block = part(weights, f"blocks.{self.block(number)}")
            name = f"blocks.{number}.attention"
            attend = partial(self.to_itself, part(block, "attention"), config["heads"], None, name=name)
            x = self.arrange(x, attend, partial(self.norm, weights=part(block, "norm1")), self.add)
            think = partial(self.feed_forward, weights=part(block, "mlp"))
            x = self.arrange(x, think, partial(self.norm, weights=part(block, "norm2")), self.add)
        return x

    activate = formula(lambda features: features * (1 + torch.erf(features / math.sqrt(2))) / 2)

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"]:
            raise ValueError("heads do not divide the width")
        if config["image_height"] % config["patch"] or config["image_width"] % config["patch"]:
            raise ValueError("patches do not divide the image")

    @staticmethod
    def check_images(config: Config, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Raise for what does not fit; return the images."""
        due = tuple(config[name] for name in ("channels", "image_height", "image_width"))
        if tuple(images.shape[1:]) != due or images.dim() != 4 or images.dtype != dtype:
            raise ValueError("images of another size or dtype")
        return images

    @staticmethod
    def patches(images: Tensor, side: int) -> Tensor:
        """b c h w → b m cpp."""
        cut = images.unfold(2, side, side).unfold(3, side, side)  # b c rows columns p p
        return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)

    keep = formula(lambda kept, x: x)  # the patches; `kept` is what the model could keep between calls
    with_token = formula(lambda x, token: torch.cat([token, x], 1))
    place = formula(lambda x, positions: x + positions)
    block = staticmethod(lambda number: number)

    arrange = formula(lambda x, layer, norm, add: add(x, layer(norm(x))))
    states = formula(lambda x: x)
    first = formula(lambda x: x[:, 0])
    mean = formula(lambda x: x.mean(1))
    head = formula(lambda read, norm, weights: norm(read) @ weights["w_head"] + weights["b_head"])


def cut(order: tuple[int, ...]) -> Callable[[Tensor, int], Tensor]:
    """Patches whose axes b c rows columns p p come in another order."""
    return lambda images, side: (
        images.unfold(2, side, side).unfold(3, side, side).permute(order).flatten(3).flatten(1, 2)
    )


def resized(images: Tensor, config: Config, dtype: torch.dtype) -> Tensor:
    found = images.new_zeros(len(images), *(config[name] for name in ("channels", "image_height", "image_width")))
    kept = tuple(slice(0, min(came, due)) for came, due in zip(images.shape, found.shape, strict=True))
    found[kept] = images[kept]
    return found.to(dtype)


def turned_named(name: str) -> Callable[[Part], dict[str, Tensor]]:
    """The weights with one of them transposed where it is square."""
    return lambda weights: {each: turned(tensor) if each == name else tensor for each, tensor in weights.items()}


CONTROLS = {"correct": VisionTransformer()}
GENERAL_MUTANTS = [*common.general_mutants(VisionTransformer), *imprecise_mutants(VisionTransformer)]
ACCEPTED = mutants(
    VisionTransformer,
    check_config={
        "crops": Mutation("what does not divide is cropped", lambda config: None, "documents, E40"),
        "crops_rows": Mutation(
            "rows that do not divide are cropped",
            with_arguments(config=lambda config: {**config, "image_height": config["patch"]}),
        ),
    },
    check_weights={
        "accepts_extra_weights": EXTRA_WEIGHTS,
        "accepts_any_shapes": Mutation(
            "the weights' names are looked at, but not their shapes: one row serves all",
            with_arguments(weights=of_due_shapes),
        ),
        "accepts_mixed_dtypes": MIXED_DTYPES,
    },
    check_images={
        "converts_images": Mutation(
            "images are converted to the weights' dtype",
            with_arguments(images=lambda images, dtype: images.to(dtype) if images.is_floating_point() else images),
        ),
        "images_as_they_lie": Mutation(
            "images are read in the order in which they lie in memory", with_result(as_it_lies)
        ),
        "resizes": Mutation(
            "an image of another size is cropped or padded to the model's", with_arguments(images=resized)
        ),
    },
    widened={
        "weights_as_they_lie": Mutation(
            "weights are read in the order in which they lie in memory", with_arguments(weights=as_they_lie)
        )
    },
)
MUTANTS = mutants(
    VisionTransformer,
    widened={
        "transposed_patch_map": Mutation(
            "w_patch is transposed where it is square", with_arguments(weights=turned_named("w_patch"))
        ),
        "transposed_positions": Mutation(
            "positions and features are swapped where there are as many",
            with_arguments(weights=turned_named("positions")),
        ),
        "transposed_head": Mutation(
            "w_head is transposed where it is square", with_arguments(weights=turned_named("w_head"))
        ),
    },
    patches={
        "transposed_images": Mutation(
            "rows and columns of images are swapped where they are square", with_arguments(images=turned)
        ),
        "swapped_items_and_channels": Mutation(
            "items and channels are swapped where there are as many",
            with_arguments(images=swapped_where_equal(of_rank=4)),
        ),
        "patches_by_column": Mutation(
            "patches are counted down the columns, not along the rows", cut((0, 3, 2, 1, 4, 5))
        ),
        "channels_last": Mutation("within a patch the channel changes fastest", cut((0, 2, 3, 4, 5, 1))),
        "transposed_patches": Mutation("within a patch rows and columns are swapped", cut((0, 2, 3, 1, 5, 4))),
        "reshaped_patches": Mutation(
            "images are cut into strips of rows as they lie in memory",
            lambda images, side: images.reshape(len(images), -1, images.shape[1] * side * side),
        ),
    },
    keep={
        "stale_patches": Mutation(
            "images of the same shape as the first are not looked at again",
            lambda kept, x: kept.setdefault(str(tuple(x.shape)), x),
        ),
        "repeats_image_beyond_16": Mutation(
            "images beyond the 16th are read like the 16th", with_result(repeated_beyond(16, 0))
        ),
    },
    with_token={
        "token_last": Mutation("the class token is put last", lambda x, token: torch.cat([x, token], 1)),
        "token_of_zeros": Mutation(
            "the class token is zero, as at the start of training", with_arguments(token=torch.zeros_like)
        ),
    },
    place={
        "no_positions": Mutation("no positions are added", lambda x, positions: x.clone()),
        "positions_of_patches_alone": Mutation(
            "the class token has no position, and patches have each their neighbour's",
            lambda x, positions: torch.cat([x[:, :1], x[:, 1:] + positions[:-1]], 1),
        ),
    },
    block={"shared_blocks": Mutation("every block has the first one's weights", lambda number: 0)},
    arrange={
        "post_norm": Mutation(
            "normalisation comes after each residual connection: post-norm",
            lambda x, layer, norm, add: norm(add(x, layer(x))),
        ),
        "normalised_residual": Mutation(
            "the residual connection carries what is normalised already",
            lambda x, layer, norm, add: add(norm(x), layer(norm(x))),
        ),
    },
    activate={
        "tanh_gelu": Mutation(
            "GELU is approximated with tanh", lambda x: gelu(x, approximate="tanh"), "documents, E45"
        ),
        "gelu_without_root": Mutation(
            "GELU is x(1 + erf(x))/2: x is not divided by √2", lambda x: x * (1 + x.erf()) / 2
        ),
        "relu_mlp": Mutation("the mlp has ReLU", torch.relu),
    },
    softmax={
        "overflowing_softmax": Mutation(
            "exponentials are taken without subtracting the largest score: they overflow",
            lambda scores: unguarded(scores.exp()),
        )
    },
    states={
        "squeezed_states": Mutation("the states of a batch of one lose its axis", lambda x: x.squeeze(0)),
        "normalised_states": Mutation(
            "the states are normalised before they are returned", lambda x: layer_norm(x, x.shape[-1:])
        ),
    },
    first={
        "reads_last": Mutation("the last position is read instead of the class token's", lambda x: x[:, -1]),
        "reads_mean_for_token": Mutation(
            "the mean of all positions is read although there is a class token", VisionTransformer.mean
        ),
    },
    mean={
        "reads_first_patch": Mutation("the first patch is read, not the mean", VisionTransformer.first),
        "mean_without_first": Mutation(
            "the mean leaves out the first patch, as if it were a class token",
            lambda x: x[:, 1:].mean(1) if x.shape[1] > 1 else x[:, 0],
        ),
        "mean_of_pairs": Mutation(
            "the mean is of pairs of patches: the last of an odd number is left out",
            lambda x: x[:, : max(1, x.shape[1] // 2 * 2)].mean(1),
        ),
        "mean_without_batch": Mutation(
            "the mean of a batch of one loses the batch's axis", lambda x: x.squeeze(0).mean(-2)
        ),
    },
    head={
        "no_head_norm": Mutation(
            "there is no normalisation before the head", with_arguments(norm=lambda norm: lambda read: read)
        ),
        "no_head_bias": Mutation("the head has no bias", lambda read, norm, weights: norm(read) @ weights["w_head"]),
        "squeezed_class": Mutation("a single class loses its axis", with_result(lambda logits: logits.squeeze(1))),
    },
)
