"""The Vision Transformer in PyTorch's tensor operations, with any implementation of attention as its backend."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite import implementation
from attnsuite.implementations._attention_weights import Recorder
from attnsuite.implementations.vision_transformer._checks import check_images, check_model

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Attention = Callable[..., Tensor]


@implementation
def vision_transformer(
    config: Config, weights: Weights, *, attention: Attention | None = None, need_weights: bool = False
) -> Callable[[Tensor], Any]:
    """Return model(images) → logits, b k; without classes the states of all positions, b n d.

    With `need_weights` the model returns a pair: that, and the weights of every attention by name, b h n n.
    Raises ValueError for a config, weights or images that do not go together.
    """
    check_model(config, weights)

    def model(images: Tensor) -> Tensor:
        check_images(config, weights, images)
        return classified(config, weights, attention or softmax_attention, images)

    def model_with_weights(images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        check_images(config, weights, images)
        recorder = Recorder(attention or softmax_attention)
        output = classified(config, weights, recorder, images)
        return output, {f"blocks.{number}.attention": rows for number, rows in enumerate(recorder.weights)}

    return model_with_weights if need_weights else model


def classified(config: Config, weights: Weights, attend: Attention, images: Tensor) -> Tensor:
    """The logits, b k, or the states, b n d."""
    side, width = config["patch"], config["width"]
    rows, columns = config["image_height"] // side, config["image_width"] // side
    cut = images.unflatten(3, (columns, side)).unflatten(2, (rows, side))  # b c r p w p
    patches = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # b m cpp
    x = patches @ weights["w_patch"] + weights["b_patch"]
    if config["pooling"] == "class":
        x = torch.cat([weights["class_token"].expand(x.shape[0], 1, width), x], 1)
    x = x + weights["positions"]
    for number in range(config["blocks"]):
        own = {name.removeprefix(f"blocks.{number}."): w for name, w in weights.items() if f"blocks.{number}." in name}
        x = x + _multi_head(own, config["heads"], attend, _norm(own, "norm1", x))
        inner = functional.gelu(_norm(own, "norm2", x) @ own["mlp.w1"] + own["mlp.b1"])
        x = x + inner @ own["mlp.w2"] + own["mlp.b2"]
    if not config["classes"]:
        return x
    read = x[:, 0] if config["pooling"] == "class" else x.mean(1)
    return _norm(weights, "norm", read) @ weights["w_head"] + weights["b_head"]


def softmax_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(query keyᵀ / √p) value, b h n p."""
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1) @ value


def _multi_head(own: Weights, heads: int, attend: Attention, x: Tensor) -> Tensor:
    query, key, value = (
        (x @ own[f"attention.w_{role}"]).unflatten(-1, (heads, -1)).transpose(1, 2)
        for role in ("query", "key", "value")
    )
    return attend(query, key, value).transpose(1, 2).flatten(-2) @ own["attention.w_output"]


def _norm(own: Weights, name: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], own[f"{name}.weight"], own[f"{name}.bias"])
