"""Checks of the implementations of `vision_transformer`, and the shapes of its weights."""

from torch import Tensor

from attnsuite.implementations._checks import (
    Config,
    Weights,
    check_choice,
    check_integers,
    check_mappings,
    check_tensor,
    check_weights,
)

SIZES = ("image_height", "image_width", "patch", "channels", "width", "heads", "mlp_width")
COUNTS = ("blocks", "classes")


def check_model(config: Config, weights: Weights) -> None:
    """Raise ValueError for a config and weights that do not fit together."""
    check_mappings(config=config, weights=weights)
    check_config(config)
    check_weights(weights, shapes(config), "w_patch")


def check_config(config: Config) -> None:
    """Raise ValueError for a config that no model can be made of."""
    check_integers(config, SIZES)
    check_integers(config, COUNTS, 0)
    if config["width"] % config["heads"]:
        raise ValueError(f"{config['heads']} heads do not divide the width of {config['width']}")
    for side in ("image_height", "image_width"):
        if config[side] % config["patch"]:
            raise ValueError(f"patches of {config['patch']} do not divide the {side} of {config[side]}")
    check_choice("pooling", config.get("pooling"), ("class", "mean"))


def check_images(config: Config, weights: Weights, images: Tensor) -> None:
    """Raise ValueError for images of other sizes, channels or dtypes than the model's."""
    check_tensor("images", images)
    expected = (config["channels"], config["image_height"], config["image_width"])
    if images.dim() != 4 or tuple(images.shape[1:]) != expected:
        sizes = ", ".join(map(str, ("b", *expected)))
        raise ValueError(f"images has shape {tuple(images.shape)}, expected ({sizes})")
    if images.dtype != weights["w_patch"].dtype:
        raise ValueError(f"images is {images.dtype}, expected {weights['w_patch'].dtype} as the weights are")


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The expected shapes of the weights by name."""
    width, inner, side = config["width"], config["mlp_width"], config["patch"]
    token = config["pooling"] == "class"
    positions = config["image_height"] * config["image_width"] // side**2 + token
    expected: dict[str, tuple[int, ...]] = {
        "w_patch": (config["channels"] * side**2, width),
        "b_patch": (width,),
        "positions": (positions, width),
    }
    if token:
        expected["class_token"] = (width,)
    for number in range(config["blocks"]):
        block = f"blocks.{number}"
        for role in ("query", "key", "value", "output"):
            expected[f"{block}.attention.w_{role}"] = (width, width)
        expected |= {f"{block}.mlp.w1": (width, inner), f"{block}.mlp.b1": (inner,)}
        expected |= {f"{block}.mlp.w2": (inner, width), f"{block}.mlp.b2": (width,)}
        for norm in ("norm1", "norm2"):
            expected |= {f"{block}.{norm}.weight": (width,), f"{block}.{norm}.bias": (width,)}
    if config["classes"]:
        expected |= {"norm.weight": (width,), "norm.bias": (width,)}
        expected |= {"w_head": (width, config["classes"]), "b_head": (config["classes"],)}
    return expected
