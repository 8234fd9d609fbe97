"""The cases of the contract `vision_transformer`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.model import (
    Config,
    Kind,
    Plugged,
    Posed,
    Printed,
    Refused,
    Remade,
    Shaped,
    Weights,
    instead,
    without,
)
from suite.asking.question import Generator, Inputs, generator, numbers
from suite.contracts.models.vision_transformer import oracle
from suite.contracts.models.vision_transformer.contract import POSITIONAL, shapes
from suite.contracts.models.vision_transformer.deviations import VisionTransformer
from suite.sources import documents

Array = np.ndarray[Any, Any]

USUAL: Config = {
    "image_height": 8,
    "image_width": 12,
    "patch": 4,
    "channels": 3,
    "width": 16,
    "heads": 4,
    "mlp_width": 24,
    "blocks": 2,
    "classes": 10,
    "pooling": "class",
}
MEAN = {**USUAL, "pooling": "mean"}
STATES = {**USUAL, "classes": 0}
MANY = {**USUAL, "image_height": 12, "image_width": 16, "patch": 1, "channels": 1}
BASE = {
    **USUAL,
    "image_height": 224,
    "image_width": 224,
    "patch": 16,
    "width": 768,
    "heads": 12,
    "mlp_width": 3072,
    "blocks": 12,
    "classes": 1000,
}
"""ViT-B/16."""
SURE = ("float64", "float32")
"""Half types are asked of a few configs: each is exported anew."""


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [*plain(), *printed(), *mean(), *states(), *sizes(), *layout(), *numerics(), *plug(), *bad_input()]


def weights(config: Config, random: Generator) -> Weights:
    """Weights of which attention is peaked, and no block without effect."""
    return {name: _tensor(name, shape, random) for name, shape in shapes(config).items()}


def _tensor(name: str, shape: tuple[int, ...], random: Generator) -> Array:
    size = 1 / math.sqrt(shape[0]) if len(shape) == 2 else 0.3
    if name.endswith(("w_query", "w_key")):
        size *= 1.5
    if name in ("positions", "class_token"):
        size = 1.0
    return size * random.normal(size=shape) + ("norm" in name and name.endswith("weight"))


def faint(config: Config, random: Generator) -> Weights:
    """Weights with which ε tells: what enters the first block varies by about √ε."""
    small = ("w_patch", "b_patch", "positions", "class_token")
    return {name: tensor * (3e-3 if name in small else 1.0) for name, tensor in weights(config, random).items()}


def sharp(config: Config, random: Generator) -> Weights:
    """Weights with which scores are some hundreds."""
    return {
        name: tensor * (30.0 if name.endswith("w_query") else 1.0) for name, tensor in weights(config, random).items()
    }


KIND = Kind(oracle.vision_transformer, VisionTransformer(), weights, POSITIONAL)


def drawn(random: Generator, *, config: Config = USUAL, batch: int = 3) -> Inputs:
    shape = (batch, *(config[name] for name in ("channels", "image_height", "image_width")))
    return {"images": random.normal(size=shape) + 0.3}


def posed(name: str, why: str, config: Config = USUAL, *, batch: int = 3, **unusual: Any) -> Posed:
    """A question with one call."""
    return Posed(name, why, KIND, config, lambda random: [drawn(random, config=config, batch=batch)], **unusual)


def plain() -> Iterator[Posed]:
    """Whole models with a class token."""
    yield posed("plain/usual", "six patches in two rows, of three channels")
    yield posed("plain/one_patch", "the whole image is a patch", {**USUAL, "image_height": 4, "image_width": 4}, batch=1,
                dtypes=SURE)  # fmt: skip
    yield posed("plain/single_numbers", "patches of one number each", {**USUAL, "image_height": 2, "image_width": 3,
                "patch": 1, "channels": 1}, dtypes=SURE)  # fmt: skip
    faintly = Posed("plain/faint", "variances as small as ε, which is added to them before the root", KIND, USUAL,
                    lambda random: [drawn(random)], dtypes=SURE)  # fmt: skip
    yield replace(faintly, weights=faint(USUAL, generator(faintly.name)))
    yield Remade("plain/other_weights", "two models of one config are there at once, each with weights of its own", KIND,
                 USUAL, lambda random: [drawn(random)], dtypes=SURE)  # fmt: skip


def mean() -> Iterator[Posed]:
    """No class token: the mean of the patches is read."""
    yield posed("mean/usual", "the mean of six patches", MEAN)
    config = {**MEAN, "image_height": 4, "classes": 1}
    yield Posed("mean/one_class", "three patches and one class, with batches of 1 and 7", KIND, config,
                lambda random: [drawn(random, config=config, batch=batch) for batch in (1, 7)], dtypes=SURE)  # fmt: skip
    yield posed("mean/many_patches", "patches beyond the 128th count too", {**MANY, "pooling": "mean"}, batch=1,
                dtypes=SURE)  # fmt: skip


def states() -> Iterator[Posed]:
    """No classes: the states of all positions are returned."""
    yield posed("states/class_token", "the class token's comes first", STATES)
    yield posed("states/no_blocks", "patches and positions alone", {**STATES, "pooling": "mean", "blocks": 0},
                dtypes=SURE)  # fmt: skip


def sizes() -> Iterator[Posed]:
    """Batches, sequences and models of several sizes."""

    def batches(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, batch=batch) for batch in (1, 7, 17)]

    def again(random: Generator) -> Sequence[Inputs]:
        return [drawn(random), drawn(random)]

    yield Posed("sizes/again", "other images are written into the same tensor", KIND, USUAL, again, same_storage=True)
    yield Posed("sizes/batches", "one model with batches of 1, 7 and 17", KIND, USUAL, batches)
    yield posed("sizes/many_patches", "keys beyond the 128th", MANY, batch=1, dtypes=SURE)
    yield posed("sizes/vit_b_16", "ViT-B/16: 86 million weights, twelve blocks", BASE, batch=1, dtypes=("float32",))


def layout() -> Iterator[Scattered]:
    """Tensors that do not lie in memory row by row."""
    yield Scattered(posed("layout/columns", "weights and images lie column by column, with gaps"))


def numerics() -> Iterator[Posed]:
    """Large numbers."""
    yield posed("numerics/large_scores", "scores of which a naive exponential overflows", dtypes=("float32",),
                weights=sharp(USUAL, generator("sharp")))  # fmt: skip


def plug() -> Iterator[Plugged]:
    """An attention that is plugged in."""
    yield Plugged("plug/called", "the attention that is given computes all heads, and in the weights' dtype", KIND, USUAL,
                  lambda random: [drawn(random)])  # fmt: skip


def bad_input() -> Iterator[Refused]:
    """Configs, weights and images that do not go together."""
    for name, why, unusual in (
        ("missing", "weights without blocks.1.mlp.w2", without("blocks.1.mlp.w2")),
        ("extra", "weights with blocks.2.mlp.w2, which is not due", instead("blocks.2.mlp.w2", np.zeros((24, 16)))),
        ("misshapen", "w_head of shape 10 × 16, which is transposed", instead("w_head", np.zeros((10, 16)))),
        ("positions", "positions for 6 of 7, without the class token's", instead("positions", np.zeros((6, 16)))),
        ("one_position", "one position, which would serve all of 7", instead("positions", np.zeros((1, 16)))),
        ("dtypes", "a bias of integers among weights of numbers", instead("b_head", np.zeros(10, np.int64))),
        (
            "half_bias",
            "a bias in float16 among weights in float32",
            instead("b_head", torch.zeros(10, dtype=torch.float16)),
        ),
        ("half_weights", "weights in float16 for images in float32", halved),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, drawn, unusual)
    for name, why, config in (
        ("heads", "3 heads, which do not divide the width of 16", {"heads": 3}),
        ("patch", "patches of 5, which divide neither 8 nor 12", {"patch": 5}),
        ("patch_height", "an image of height 10, which patches of 4 do not divide", {"image_height": 10}),
        ("patch_width", "an image of width 14, which patches of 4 do not divide", {"image_width": 14}),
    ):
        unfit = {**USUAL, **config}
        yield Refused(f"bad_input/{name}", why, KIND, unfit, partial(drawn, config=unfit))
    for name, why, shape in (
        ("larger_image", "images of 12 × 12 where 8 × 12 are due", (3, 3, 12, 12)),
        ("turned_image", "images of 12 × 8 where 8 × 12 are due", (3, 3, 12, 8)),
        ("channels", "images of 1 channel where 3 are due", (3, 1, 8, 12)),
        ("no_batch", "a single image without the axis of a batch", (3, 8, 12)),
    ):
        yield Refused(f"bad_input/{name}", why, KIND, USUAL, partial(_shaped_images, shape))
    integers = {"images": np.ones((3, 3, 8, 12), np.int64)}
    yield Refused(
        "bad_input/integers", "images of integers where the weights are numbers", KIND, USUAL, lambda _: integers
    )


def halved(weights: dict[str, Array]) -> dict[str, Tensor]:
    """The same in float16, whatever else is asked."""
    return {name: torch.from_numpy(array).half() for name, array in weights.items()}


def printed() -> Iterator[Posed]:
    """The documents' examples. A sequence passes as an image of one row, each patch one number of many channels."""
    for id, example in documents.of("vision_transformer").items():
        why = f"{example['document']}, section {example['section']}: {{}}"
        given = example["inputs"]
        if "image" in given:
            yield _patches(f"documents/{id}/output", why.format("output"), example)
        elif "x" in given:
            yield _block(f"documents/{id}/output", why.format("output"), example)
        elif "image_shape" in given:
            yield _shaped(f"documents/{id}", why.format("shape"), example)
        elif "x_shape" in given:
            yield _shaped_block(f"documents/{id}", why.format("shape"), example)
        elif "patches" in given:
            yield _figure(f"documents/{id}", why.format("shape"), example)


def _patches(name: str, why: str, example: dict[str, Any]) -> Printed:
    """Patches and their map alone: no blocks, no positions, no head."""
    image, weight = numbers(example["inputs"]["image"]), numbers(example["inputs"]["weight"])  # b c h w, d c p p
    config = {**USUAL, "image_height": image.shape[2], "image_width": image.shape[3], "channels": image.shape[1]}
    config |= {
        "patch": weight.shape[-1],
        "width": len(weight),
        "heads": 1,
        "blocks": 0,
        "classes": 0,
        "pooling": "mean",
    }
    found = {tensor: np.zeros(shape) for tensor, shape in shapes(config).items()}
    found |= {"w_patch": weight.reshape(len(weight), -1).T, "b_patch": numbers(example["inputs"]["bias"])}
    return Printed(name, why, KIND, config, lambda _: [{"images": image}], found, printed=example["expected"]["output"])


def _block(name: str, why: str, example: dict[str, Any]) -> Printed:
    """One block with the example's weights; its input is the image, through a map that changes nothing."""
    given = example["inputs"]
    x, inner = numbers(given["x"]), numbers(given["w1"]).shape[-1]
    config = {**_sequence(*x.shape[1:]), "heads": example["parameters"]["num_heads"], "mlp_width": inner}
    found = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    found["w_patch"] = np.eye(x.shape[-1])
    roles = ("w_query", "w_key", "w_value", "w_output")
    found |= {f"blocks.0.attention.{role}": numbers(given[role]) for role in roles}
    found |= {f"blocks.0.mlp.{role}": numbers(given[role]) for role in ("w1", "b1", "w2", "b2")}
    images = x.swapaxes(1, 2)[:, :, None]  # b d 1 n
    return Printed(
        name, why, KIND, config, lambda _: [{"images": images}], found, printed=example["expected"]["output"]
    )


def _shaped(name: str, why: str, example: dict[str, Any]) -> Shaped:
    batch, channels, height, width = example["inputs"]["image_shape"]
    parameters = example["parameters"]
    config = {**USUAL, "image_height": height, "image_width": width, "channels": channels}
    config |= {"patch": parameters["patch_size"], "width": parameters["num_hiddens"], "heads": 1}
    config |= {"blocks": 0, "classes": 0, "pooling": "mean"}
    return Shaped(name, why, KIND, config, lambda random: [drawn(random, config=config, batch=batch)],
                  shape=tuple(example["expected"]["output_shape"]))  # fmt: skip


def _shaped_block(name: str, why: str, example: dict[str, Any]) -> Shaped:
    batch, length, width = example["inputs"]["x_shape"]
    parameters = example["parameters"]
    config = {**_sequence(length, width), "heads": parameters["num_heads"], "mlp_width": parameters["mlp_num_hiddens"]}
    return Shaped(name, why, KIND, config, lambda random: [drawn(random, config=config, batch=batch)],
                  shape=tuple(example["expected"]["output_shape"]))  # fmt: skip


def _figure(name: str, why: str, example: dict[str, Any]) -> Shaped:
    """A class token and so many patches."""
    patches, length = example["inputs"]["patches"], example["expected"]["sequence_length"]
    config = {**STATES, "image_height": 4, "image_width": 4 * patches}
    return Shaped(name, why, KIND, config, lambda random: [drawn(random, config=config, batch=1)],
                  shape=(1, length, config["width"]))  # fmt: skip


def _sequence(length: int, width: int) -> dict[str, Any]:
    """One block whose states are returned, over a sequence that comes as an image of one row."""
    config = {**USUAL, "image_height": 1, "image_width": length, "patch": 1, "channels": width, "width": width}
    return {**config, "blocks": 1, "classes": 0, "pooling": "mean"}


def _shaped_images(shape: tuple[int, ...], random: Generator) -> Inputs:
    return {"images": random.normal(size=shape)}
