"""The checks that every factory of Vision Transformers makes: that config, weights and images go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]

NUMBERS = ("image_height", "image_width", "patch", "channels", "width", "heads", "mlp_width", "blocks", "classes")


def check_model(config: Config, weights: Weights) -> None:
    """Raise ValueError, naming the tensor or number, what came and what was due."""
    for given, of in ((config, "config"), (weights, "weights")):
        if not isinstance(given, Mapping):
            raise ValueError(f"{of} is of type {_kind(given)}, due is a mapping by name")
    check_config(config)
    due = shapes(config)
    for name, shape in due.items():
        if name not in weights:
            raise ValueError(f"the weights lack {name}, due with shape {shape}")
        if not isinstance(weights[name], Tensor):
            raise ValueError(f"{name} is {_kind(weights[name])}, due is torch.Tensor with shape {shape}")
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(weights[name].shape)}, due is {shape}")
    if not weights["w_patch"].dtype.is_floating_point:
        raise ValueError(f"w_patch is {weights['w_patch'].dtype}, due is a floating dtype, as torch.float32 is")
    for name, tensor in weights.items():
        if name not in due:
            raise ValueError(f"the weights have {name}, which is not one of the {len(due)} due")
        if tensor.dtype != weights["w_patch"].dtype:
            raise ValueError(f"{name} is {tensor.dtype}, w_patch {weights['w_patch'].dtype}")


def check_config(config: Config) -> None:
    """Raise ValueError for a config that no model can be made of."""
    for name in NUMBERS:
        least = 0 if name in ("blocks", "classes") else 1
        if type(config.get(name)) is not int or config[name] < least:
            raise ValueError(f"{name} is {config.get(name)!r}, due is a whole number from {least} on")
    if config["width"] % config["heads"]:
        raise ValueError(f"{config['heads']} heads do not divide the width of {config['width']}")
    for side in ("image_height", "image_width"):
        if config[side] % config["patch"]:
            raise ValueError(f"patches of {config['patch']} do not divide the {side} of {config[side]}")
    if config.get("pooling") not in ("class", "mean"):
        raise ValueError(f"pooling is {config.get('pooling')!r}, due is one of 2 ways, class or mean")


def check_images(config: Config, weights: Weights, images: Tensor) -> None:
    """Raise ValueError for images of other sizes, channels or dtypes than the model's."""
    due = ("b", config["channels"], config["image_height"], config["image_width"])
    if not isinstance(images, Tensor):
        raise ValueError(f"images are {_kind(images)}, due is torch.Tensor with shape ({', '.join(map(str, due))})")
    if images.dim() != 4 or tuple(images.shape[1:]) != due[1:]:
        raise ValueError(f"images have shape {tuple(images.shape)}, due is ({', '.join(map(str, due))})")
    if images.dtype != weights["w_patch"].dtype:
        raise ValueError(f"images are {images.dtype}, the weights {weights['w_patch'].dtype}")


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The weights that are due, by name."""
    width, inner, side = config["width"], config["mlp_width"], config["patch"]
    token = config["pooling"] == "class"
    positions = config["image_height"] * config["image_width"] // side**2 + token
    due: dict[str, tuple[int, ...]] = {
        "w_patch": (config["channels"] * side**2, width),
        "b_patch": (width,),
        "positions": (positions, width),
    }
    if token:
        due["class_token"] = (width,)
    for number in range(config["blocks"]):
        block = f"blocks.{number}"
        for role in ("query", "key", "value", "output"):
            due[f"{block}.attention.w_{role}"] = (width, width)
        due |= {f"{block}.mlp.w1": (width, inner), f"{block}.mlp.b1": (inner,)}
        due |= {f"{block}.mlp.w2": (inner, width), f"{block}.mlp.b2": (width,)}
        for norm in ("norm1", "norm2"):
            due |= {f"{block}.{norm}.weight": (width,), f"{block}.{norm}.bias": (width,)}
    if config["classes"]:
        due |= {"norm.weight": (width,), "norm.bias": (width,)}
        due |= {"w_head": (width, config["classes"]), "b_head": (config["classes"],)}
    return due
