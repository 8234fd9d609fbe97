"""Vision Transformers with exactly one named mistake each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from suite.asking.staged import Mistake, imprecise, instead_of, mistakes
from suite.contracts.models import eager
from suite.contracts.models.eager import Attention, Blocks, Part, part
from suite.contracts.models.vision_transformer.contract import shapes

Config = Mapping[str, Any]
Layer = Callable[[Tensor], Tensor]


class VisionTransformer(Blocks):
    """The model, step by step."""

    def __call__(self, config: Config, weights: Part, *, attention: Attention | None = None) -> Callable[..., Tensor]:
        self.check_config(config)
        self.check_weights(weights, shapes(config))
        return partial(
            self.plugged(attention).run, config, self.widened(config, weights), {}, next(iter(weights.values())).dtype
        )

    def run(self, config: Config, weights: Part, kept: dict[str, Tensor], dtype: torch.dtype, images: Tensor) -> Tensor:
        images = self.check_images(config, images, dtype).to(weights["positions"].dtype)
        patches = self.patches(images, config["patch"])  # b m cpp
        x = self.keep(kept, patches @ weights["w_patch"] + weights["b_patch"])
        if config["pooling"] == "class":
            x = self.with_token(x, weights["class_token"].expand(len(x), 1, -1))
        x = self.place(x, weights["positions"])
        for number in range(config["blocks"]):
            block = part(weights, f"blocks.{self.block(number)}")
            attend = partial(self.to_itself, part(block, "attention"), config["heads"])
            x = self.arrange(x, attend, partial(self.norm, weights=part(block, "norm1")), self.add)
            think = partial(self.feed_forward, weights=part(block, "mlp"))
            x = self.arrange(x, think, partial(self.norm, weights=part(block, "norm2")), self.add)
        if not config["classes"]:
            return self.states(x).to(dtype)
        read = self.first(x) if config["pooling"] == "class" else self.mean(x)
        return self.head(read, partial(self.norm, weights=part(weights, "norm")), weights).to(dtype)

    def to_itself(self, weights: Part, heads: int, x: Tensor) -> Tensor:
        return self.multi_head(x, x, weights, heads, None)

    @staticmethod
    def activate(features: Tensor) -> Tensor:
        return features * (1 + torch.erf(features / math.sqrt(2))) / 2

    @staticmethod
    def check_config(config: Config) -> None:
        if config["width"] % config["heads"]:
            raise ValueError("heads do not divide the width")
        if config["image_height"] % config["patch"] or config["image_width"] % config["patch"]:
            raise ValueError("patches do not divide the image")

    @staticmethod
    def check_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
        eager.check(weights, due)

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

    @staticmethod
    def keep(kept: dict[str, Tensor], x: Tensor) -> Tensor:
        """The patches; `kept` is what the model could keep between calls."""
        return x

    @staticmethod
    def with_token(x: Tensor, token: Tensor) -> Tensor:
        return torch.cat([token, x], 1)

    @staticmethod
    def place(x: Tensor, positions: Tensor) -> Tensor:
        return x + positions

    @staticmethod
    def block(number: int) -> int:
        return number

    @staticmethod
    def arrange(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        return add(x, layer(norm(x)))

    @staticmethod
    def states(x: Tensor) -> Tensor:
        return x

    @staticmethod
    def first(x: Tensor) -> Tensor:
        return x[:, 0]

    @staticmethod
    def mean(x: Tensor) -> Tensor:
        return x.mean(1)

    @staticmethod
    def head(read: Tensor, norm: Layer, weights: Part) -> Tensor:
        return norm(read) @ weights["w_head"] + weights["b_head"]


@instead_of(VisionTransformer.patches, "patches are counted down the columns, not along the rows")
def patches_by_column(images: Tensor, side: int) -> Tensor:
    cut = images.unfold(2, side, side).unfold(3, side, side)
    return cut.permute(0, 3, 2, 1, 4, 5).flatten(3).flatten(1, 2)


@instead_of(VisionTransformer.patches, "within a patch the channel changes fastest")
def channels_last(images: Tensor, side: int) -> Tensor:
    cut = images.unfold(2, side, side).unfold(3, side, side)
    return cut.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


@instead_of(VisionTransformer.patches, "within a patch rows and columns are swapped")
def transposed_patches(images: Tensor, side: int) -> Tensor:
    cut = images.unfold(2, side, side).unfold(3, side, side)
    return cut.permute(0, 2, 3, 1, 5, 4).flatten(3).flatten(1, 2)


@instead_of(VisionTransformer.patches, "images are cut into strips of rows as they lie in memory")
def reshaped_patches(images: Tensor, side: int) -> Tensor:
    channels = images.shape[1]
    return images.reshape(len(images), -1, channels * side * side)


@instead_of(VisionTransformer.keep, "images of the same shape as the first are not looked at again")
def stale_patches(kept: dict[str, Tensor], x: Tensor) -> Tensor:
    return kept.setdefault(str(tuple(x.shape)), x)


@instead_of(VisionTransformer.with_token, "the class token is put last")
def token_last(x: Tensor, token: Tensor) -> Tensor:
    return torch.cat([x, token], 1)


@instead_of(VisionTransformer.with_token, "the class token is zero, as at the start of training")
def token_of_zeros(x: Tensor, token: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(token), x], 1)


@instead_of(VisionTransformer.place, "no positions are added")
def no_positions(x: Tensor, positions: Tensor) -> Tensor:
    return x.clone()


@instead_of(VisionTransformer.place, "the class token has no position, and patches have each their neighbour's")
def positions_of_patches_alone(x: Tensor, positions: Tensor) -> Tensor:
    return torch.cat([x[:, :1], x[:, 1:] + positions[:-1]], 1)


@instead_of(VisionTransformer.arrange, "normalisation comes after each residual connection: post-norm")
def post_norm(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return norm(add(x, layer(x)))


@instead_of(VisionTransformer.arrange, "the residual connection carries what is normalised already")
def normalised_residual(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return add(norm(x), layer(norm(x)))


@instead_of(VisionTransformer.activate, "GELU is approximated with tanh", source="documents, E45")
def tanh_gelu(features: Tensor) -> Tensor:
    return torch.nn.functional.gelu(features, approximate="tanh")


@instead_of(VisionTransformer.activate, "the mlp has ReLU")
def relu_mlp(features: Tensor) -> Tensor:
    return features.relu()


@instead_of(VisionTransformer.block, "every block has the first one's weights")
def shared_blocks(number: int) -> int:
    return 0


@instead_of(VisionTransformer.first, "the last position is read instead of the class token's")
def reads_last(x: Tensor) -> Tensor:
    return x[:, -1]


@instead_of(VisionTransformer.first, "the mean of all positions is read although there is a class token")
def reads_mean_for_token(x: Tensor) -> Tensor:
    return x.mean(1)


IN_MEAN = mistakes(
    VisionTransformer.mean,
    reads_first_patch=Mistake("the first patch is read, not the mean", lambda x: x[:, 0]),
    mean_without_first=Mistake(
        "the mean leaves out the first patch, as if it were a class token",
        lambda x: x[:, 1:].mean(1) if x.shape[1] > 1 else x[:, 0],
    ),
    mean_of_pairs=Mistake(
        "the mean is of pairs of patches: the last of an odd number is left out",
        lambda x: x[:, : max(1, x.shape[1] // 2 * 2)].mean(1),
    ),
    mean_without_batch=Mistake("the mean of a batch of one loses the batch's axis", lambda x: x.squeeze(0).mean(-2)),
)


@instead_of(VisionTransformer.states, "the states are normalised before they are returned")
def normalised_states(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


IN_HEAD = mistakes(
    VisionTransformer.head,
    no_head_norm=Mistake(
        "there is no normalisation before the head",
        lambda read, norm, weights: read @ weights["w_head"] + weights["b_head"],
    ),
    no_head_bias=Mistake("the head has no bias", lambda read, norm, weights: norm(read) @ weights["w_head"]),
    squeezed_class=Mistake(
        "a single class loses its axis",
        lambda read, norm, weights: VisionTransformer.head(read, norm, weights).squeeze(1),
    ),
)


@instead_of(
    Blocks.softmax,
    "exponentials are taken without subtracting the largest score: they overflow",
    of=VisionTransformer,
)
def overflowing_softmax(scores: Tensor) -> Tensor:
    powers = scores.exp()
    return powers / powers.sum(-1, keepdim=True)


@instead_of(VisionTransformer.check_config, "what does not divide is cropped", source="documents, E40")
def crops(config: Config) -> None:
    pass


@instead_of(VisionTransformer.check_config, "rows that do not divide are cropped")
def crops_rows(config: Config) -> None:
    VisionTransformer.check_config({**config, "image_height": config["patch"]})


@instead_of(VisionTransformer.check_images, "images are converted to the weights' dtype")
def converts_images(config: Config, images: Tensor, dtype: torch.dtype) -> Tensor:
    return VisionTransformer.check_images(config, images.to(dtype) if images.is_floating_point() else images, dtype)


@instead_of(VisionTransformer.check_images, "images are read in the order in which they lie in memory")
def images_as_they_lie(config: Config, images: Tensor, dtype: torch.dtype) -> Tensor:
    return _as_it_lies(VisionTransformer.check_images(config, images, dtype))


@instead_of(VisionTransformer.check_images, "an image of another size is cropped or padded to the model's")
def resizes(config: Config, images: Tensor, dtype: torch.dtype) -> Tensor:
    found = images.new_zeros(len(images), *(config[name] for name in ("channels", "image_height", "image_width")))
    kept = tuple(slice(0, min(came, due)) for came, due in zip(images.shape, found.shape, strict=True))
    found[kept] = images[kept]
    return found.to(dtype)


@instead_of(VisionTransformer.check_weights, "weights that are not due are accepted")
def accepts_extra_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    eager.check({name: tensor for name, tensor in weights.items() if name in due}, due)


@instead_of(
    VisionTransformer.check_weights, "the weights' names are looked at, but not their shapes: one row serves all"
)
def accepts_any_shapes(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    eager.check({name: tensor.new_zeros(due.get(name, ())) for name, tensor in weights.items()}, due)


@instead_of(VisionTransformer.check_weights, "weights of several floating dtypes are accepted")
def accepts_mixed_dtypes(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    same = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    eager.check(same, due)


_WIDENED: Callable[..., dict[str, Tensor]] = Blocks.widened


@instead_of(_WIDENED, "weights are read in the order in which they lie in memory", of=VisionTransformer)
def weights_as_they_lie(config: Config, weights: Part) -> dict[str, Tensor]:
    return {name: _as_it_lies(tensor) for name, tensor in weights.items()}


def _as_it_lies(tensor: Tensor) -> Tensor:
    return tensor.as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride())


CONTROLS = {"correct": VisionTransformer()}
OTHERS = [*eager.deviations(VisionTransformer), *imprecise(VisionTransformer)]
