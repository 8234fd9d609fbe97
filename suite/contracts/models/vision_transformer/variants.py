"""Correct Vision Transformers in foreign styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases import Variant
from attnsuite.contracts.models.eager import part
from attnsuite.contracts.models.foreign import STYLES, Style
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.models.vision_transformer.mutants import VisionTransformer

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Embed = Callable[[Config, Weights, Tensor], Tensor]


def _factory(style: Style, embed: Embed) -> Callable[..., Callable[[Tensor], Any]]:
    def factory(config: Config, given: Weights, *, need_weights: bool = False) -> Callable[[Tensor], Any]:
        VisionTransformer.check_config(config)
        VisionTransformer.check_weights(given, shapes(config))
        dtype, weights = given["positions"].dtype, style.converted(given)

        def model(images: Tensor) -> Any:
            VisionTransformer.check_images(config, images, dtype)
            output, shown = _run(style, config, weights, embed(config, weights, images.to(weights["positions"])))
            if not need_weights:
                return output.to(dtype)
            found = {f"blocks.{number}.attention": show().to(dtype) for number, show in enumerate(shown)}
            return output.to(dtype), found

        return model

    return factory


def _run(style: Style, config: Config, weights: Weights, x: Tensor) -> tuple[Tensor, list[Callable[[], Tensor]]]:
    """The output, and what shows the weights of every block, b h n n."""
    shown = []
    for number in range(config["blocks"]):
        block = part(weights, f"blocks.{number}")
        seen = style.norm(x, part(block, "norm1"))
        attended, show = style.heads(seen, seen, part(block, "attention"), config["heads"], None)
        shown.append(show)
        x = x + attended
        x = x + style.feed_forward(style.norm(x, part(block, "norm2")), part(block, "mlp"), functional.gelu)
    if not config["classes"]:
        return x, shown
    read = x[:, 0] if config["pooling"] == "class" else torch.einsum("bnd->bd", x) / x.shape[1]
    return style.affine(style.norm(read, part(weights, "norm")), weights["w_head"], weights["b_head"]), shown


def _convolved(config: Config, weights: Weights, images: Tensor) -> Tensor:
    """Patches by a convolution whose kernel is its stride; the token's position is added before they are joined."""
    side = config["patch"]
    kernels = weights["w_patch"].mT.reshape(-1, config["channels"], side, side)
    patches = functional.conv2d(images, kernels, weights["b_patch"], stride=side).flatten(2).mT
    return _with_token(config, weights, patches)


def _unfolded(config: Config, weights: Weights, images: Tensor) -> Tensor:
    """Patches as columns of torch's unfold."""
    columns = functional.unfold(images, config["patch"], stride=config["patch"])  # b ccpp m
    patches = torch.einsum("bkm,kd->bmd", columns, weights["w_patch"]) + weights["b_patch"]
    return _with_token(config, weights, patches)


def _sliced(config: Config, weights: Weights, images: Tensor) -> Tensor:
    """One patch at a time, the bias first."""
    side, found = config["patch"], []
    for top in range(0, images.shape[2], side):
        for left in range(0, images.shape[3], side):
            patch = images[:, :, top : top + side, left : left + side].flatten(1)
            found.append(torch.addmm(weights["b_patch"], patch, weights["w_patch"]))
    return _with_token(config, weights, torch.stack(found, 1))


def _with_token(config: Config, weights: Weights, patches: Tensor) -> Tensor:
    if config["pooling"] != "class":
        return patches + weights["positions"]
    token = (weights["class_token"] + weights["positions"][0]).expand(len(patches), 1, -1)
    return torch.cat([token, patches + weights["positions"][1:]], 1)


def variants() -> list[Variant]:
    """One model, many styles."""
    embeds = {"library": _convolved, "head_by_head": _sliced, "backwards": _unfolded}
    return [
        Variant(name, f"blocks in the style {name}", _factory(style, embeds[name])) for name, style in STYLES.items()
    ]
