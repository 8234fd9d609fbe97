"""The cases of the contract `vision_transformer`, and its workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Case
from attnsuite.cases.backends import BackendCase, ExpectedBackendCall, Script
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.model import Config, Model, Weights, two_models, without
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, dtype_of, generator, numbers
from attnsuite.cases.training import class_loss
from attnsuite.contracts.models.shared_cases import bad_tensor, bad_weight, drawn_weights
from attnsuite.contracts.models.vision_transformer.contract import POSITIONAL, shapes
from attnsuite.contracts.models.vision_transformer.model import VisionTransformer, oracle
from attnsuite.contracts.models.workloads import TRAINED, ModelWorkload
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt

USUAL: Config = {
    "image_height": 8, "image_width": 12, "patch": 4, "channels": 3, "width": 16, "heads": 4, "mlp_width": 24,
    "blocks": 2, "classes": 10, "pooling": "class",
}  # fmt: skip
MEAN = {**USUAL, "pooling": "mean"}
SQUARE = {**MEAN, "image_width": 8, "patch": 2, "channels": 4, "mlp_width": 16, "classes": 16}
"""Equal sizes: swapped axes and shared weights still fit."""
STATES = {**USUAL, "classes": 0}
MANY = {**USUAL, "image_height": 12, "image_width": 16, "patch": 1, "channels": 1}
BASE = {
    **USUAL, "image_height": 224, "image_width": 224, "patch": 16, "width": 768, "heads": 12, "mlp_width": 3072,
    "blocks": 12, "classes": 1000,
}  # fmt: skip
"""ViT-B/16."""
WATCHED = {"need_weights": True}
ROLES = ("w_query", "w_key", "w_value", "w_output")


def draw_weights(config: Config, random: Generator) -> Weights:
    """Weights that peak the attention, and make every block matter."""
    return drawn_weights(shapes(config), random)


def _sharp(config: Config, random: Generator) -> Weights:
    """Weights for scores of some hundreds."""
    weights = draw_weights(config, random)
    return {name: tensor * (30.0 if name.endswith("w_query") else 1.0) for name, tensor in weights.items()}


def draw(random: Generator, *, config: Config = USUAL, batch: int = 3) -> Inputs:
    """Images with a non-zero mean."""
    shape = (batch, *(config[name] for name in ("channels", "image_height", "image_width")))
    return {"images": random.normal(size=shape) + 0.3}


model = Model(oracle, VisionTransformer(), draw_weights, draw, POSITIONAL, USUAL)


def batches(*sizes: int, config: Config = USUAL) -> Callable[[Generator], Sequence[Inputs]]:
    """The inputs of calls with batches of these sizes."""
    return lambda random: [draw(random, config=config, batch=size) for size in sizes]


def cases() -> list[Case]:
    """All cases, the plainest first."""
    watched, one_class = partial(model, factory_options=WATCHED), {**MEAN, "image_height": 4, "classes": 1}
    single_head = {**STATES, "pooling": "mean", "heads": 1}
    other_weights = model("plain/other_weights", "two models of one config with different weights", dtypes=PRECISE)
    sharp = _sharp(USUAL, generator("sharp"))
    return [
        model("plain/usual", "six patches in two rows, three channels"),
        model("plain/square", "equal sizes: swapped axes and shared weights still fit", SQUARE, batch=4),
        two_models(other_weights),
        *documented(),
        model("mean/usual", "the mean of six patches", MEAN),
        model("mean/one_class", "three patches, one class, batches of 1 and 7", one_class, PRECISE,
            calls=batches(1, 7, config=one_class)),
        model("mean/many_patches", "192 patches, more than a tile of 128", {**MANY, "pooling": "mean"}, PRECISE,
            batch=1),
        model("states/class_token", "the class token's state comes first", STATES),
        model("states/mean", "no class token, a single item and a single head", single_head, PRECISE, batch=1),
        model("sizes/again", "other images in the same tensor", calls=batches(3, 3), same_storage=True),
        model("sizes/batches", "one model with batches of 1, 7 and 17", calls=batches(1, 7, 17)),
        model("sizes/many_patches", "193 keys, more than a tile of 128", MANY, PRECISE, batch=1),
        model("sizes/vit_b_16", "ViT-B/16: 86 million weights, twelve blocks", BASE, batch=1, dtypes=("float32",)),
        watched("weights/usual", "every block and head, the class token's too"),
        watched("weights/square", "as many items as heads, as many patches as the width", SQUARE, PRECISE, batch=4),
        watched("weights/again", "two calls", dtypes=PRECISE, calls=batches(3, 3)),
        out_of_order(model("layout/columns", "weights and images with reversed axes and gaps")),
        model("numerics/large_scores", "scores whose exponentials overflow", dtypes=("float32",), weights=sharp),
        *backend(),
        *bad_input(),
    ]  # fmt: skip


def backend() -> Iterator[BackendCase]:
    """A backend that records how it is called."""
    cases = (
        model("plug/called", "called once in every block for all heads, in the weights' dtype, without options"),
        model("plug/again", "batches of 4 and 1, without a class token", MEAN, PRECISE,
            calls=batches(4, 1, config=MEAN)),
        model("plug/weights", "the backend's weights are read off it", dtypes=PRECISE, factory_options=WATCHED),
    )  # fmt: skip
    return (BackendCase(case, scripts) for case in cases)


def scripts(call: Call, first: Call) -> list[Script]:
    """The expected calls: one in every block, each followed by those that read its weights if they are requested."""
    config = first.config or {}
    positions = shapes(config)["positions"][0]
    tokens = (len(call.tensors["images"]), config["heads"], positions, config["width"] // config["heads"])
    reading = -(-positions // tokens[-1]) if call.need_weights else 0
    return [[ExpectedBackendCall(tokens, tokens, tokens, dtype_of(first))] * config["blocks"] * (1 + reading)]


def bad_input() -> Iterator[BadInputCase]:
    """Weights, configs and images that must raise an error."""

    def bad_images(what: str, why: str, *shape: int, dtype: Any = np.float64) -> Row:
        return bad_tensor(what, why, "images", np.ones(shape, dtype))

    def bad_config(what: str, why: str, **changed: int) -> Row:
        return what, why, {"config": {**USUAL, **changed}}

    def halved(weights: Weights) -> Mapping[str, torch.Tensor]:
        return {name: torch.from_numpy(array).half() for name, array in weights.items()}

    return model.bad_input(
        ("missing", "weights without blocks.1.mlp.w2", {"bad_weights": without("blocks.1.mlp.w2")}),
        bad_weight("extra", "weights with an unexpected blocks.2.mlp.w2", "blocks.2.mlp.w2", np.zeros((24, 16))),
        bad_weight("misshapen", "a transposed w_head", "w_head", np.zeros((10, 16))),
        bad_weight("positions", "6 positions of 7, without the class token's", "positions", np.zeros((6, 16))),
        bad_weight("one_position", "1 position, which would broadcast to 7", "positions", np.zeros((1, 16))),
        bad_weight("dtypes", "a bias of integers", "b_head", np.zeros(10, np.int64)),
        bad_weight("half_bias", "a bias in float16 with weights in float32", "b_head", torch.zeros(10).half()),
        ("half_weights", "weights in float16 for images in float32", {"bad_weights": halved}),
        bad_config("heads", "3 heads for a width of 16", heads=3),
        bad_config("patch", "patches of 5 for images of 8 × 12", patch=5),
        bad_config("patch_height", "an image of height 10 in patches of 4", image_height=10),
        bad_config("patch_width", "an image of width 14 in patches of 4", image_width=14),
        bad_images("larger_image", "images of 12 × 12, expected 8 × 12", 3, 3, 12, 12),
        bad_images("turned_image", "images of 12 × 8, expected 8 × 12", 3, 3, 12, 8),
        bad_images("channels", "images of 1 channel, expected 3", 3, 1, 8, 12),
        bad_images("no_batch", "an image without a batch axis", 3, 8, 12),
        bad_images("integers", "images of integers", 3, 3, 8, 12, dtype=np.int64),
    )


def documented() -> Iterator[Case]:
    """The documents' examples. A sequence becomes an image of one row whose patches are numbers of many channels."""
    makers: dict[str, Callable[[Excerpt], Case]] = {
        "image": _patches, "x": _block, "image_shape": _shaped, "x_shape": _shaped_block, "patches": _figure,
    }  # fmt: skip
    for example in documents.examples_of("vision_transformer"):
        if name := next((name for name in makers if name in example.inputs), ""):
            yield makers[name](example)
        if "after_attention" in example.expected:
            yield _block(example, "after_attention")


def _patches(example: Excerpt) -> DocumentedNumbers:
    """Patches and their map alone: no blocks, no positions, no head."""
    image, weight = numbers(example.inputs["image"]), numbers(example.inputs["weight"])  # b c h w, d c p p
    config = _patched(*image.shape[1:], patch=weight.shape[-1], width=len(weight))
    weights = {tensor: np.zeros(shape) for tensor, shape in shapes(config).items()}
    weights |= {"w_patch": weight.reshape(len(weight), -1).T, "b_patch": numbers(example.inputs["bias"])}
    case = model.with_inputs(*example.named("output"), config, {"images": image}, weights)
    return DocumentedNumbers(case, example.gives("output"))


def _block(example: Excerpt, quantity: str = "output") -> DocumentedNumbers:
    """One block with the example's weights; its input is the image, mapped by the identity.

    Before its network, it has the output of a block whose network gives 0.
    """
    inputs = example.inputs
    x, inner = numbers(inputs["x"]), numbers(inputs["w1"]).shape[-1]
    config = {**_sequence(*x.shape[1:]), "heads": example.parameters["num_heads"], "mlp_width": inner}
    weights = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    weights["w_patch"] = np.eye(x.shape[-1])
    weights |= {f"blocks.0.attention.{role}": numbers(inputs[role]) for role in ROLES}
    network = ("w1", "b1", "w2", "b2") if quantity == "output" else ()
    weights |= {f"blocks.0.mlp.{role}": numbers(inputs[role]) for role in network}
    images: Array = x.swapaxes(1, 2)[:, :, None]  # b d 1 n
    case = model.with_inputs(*example.named(quantity), config, {"images": images}, weights)
    return DocumentedNumbers(case, example.gives(quantity))


def _shaped(example: Excerpt) -> DocumentedShape:
    batch, channels, height, width = example.inputs["image_shape"]
    parameters = example.parameters
    config = _patched(channels, height, width, patch=parameters["patch_size"], width=parameters["num_hiddens"])
    return DocumentedShape(model(*example.named(), config, batch=batch), example.at(), example.output_shape)


def _shaped_block(example: Excerpt) -> DocumentedShape:
    batch, length, width = example.inputs["x_shape"]
    heads, inner = example.parameters["num_heads"], example.parameters["mlp_num_hiddens"]
    config = {**_sequence(length, width), "heads": heads, "mlp_width": inner}
    return DocumentedShape(model(*example.named(), config, batch=batch), example.at(), example.output_shape)


def _figure(example: Excerpt) -> DocumentedShape:
    """A class token and the patches of a figure."""
    config = {**STATES, "image_height": 4, "image_width": 4 * example.inputs["patches"]}
    shape = (1, example.expected["sequence_length"], config["width"])
    return DocumentedShape(model(*example.named(), config, batch=1), example.at("sequence_length"), shape)


def _patched(channels: int, rows: int, columns: int, *, patch: int, width: int) -> Config:
    """Patches and their map alone: no blocks, no class token, no head."""
    sizes = {"image_height": rows, "image_width": columns, "channels": channels, "patch": patch, "width": width}
    return {**USUAL, **sizes, "heads": 1, "blocks": 0, "classes": 0, "pooling": "mean"}


def _sequence(length: int, width: int) -> Config:
    """One block whose states are returned, over a sequence in the form of an image of one row."""
    config = {**USUAL, "image_height": 1, "image_width": length, "patch": 1, "channels": width, "width": width}
    return {**config, "blocks": 1, "classes": 0, "pooling": "mean"}


# Workloads

FASHION = {**USUAL, "image_height": 96, "image_width": 96, "patch": 16, "channels": 1, "width": 512, "heads": 8}
FASHION |= {"mlp_width": 2048}
"""The documents' classifier of Fashion-MNIST, 6,457,866 weights."""


def workloads() -> list[ModelWorkload]:
    """The documents' classifier, forward and in training, and ViT-B/16."""
    documents_model = "the documents' classifier of Fashion-MNIST"
    return [
        _workload("vit/fashion", documents_model, FASHION, 16, profiles=TRAINED, learns=class_loss),
        _workload("vit/b16", "ViT-B/16 at 224 × 224", BASE, 1),
    ]


def _workload(name: str, why: str, config: Config, batch: int, **training: Any) -> ModelWorkload:
    length, side, blocks = shapes(config)["positions"][0], config["image_height"], config["blocks"]
    sizes = f"{side} × {config['image_width']}, {blocks} blocks of width {config['width']}, {config['heads']} heads"
    common: dict[str, Any] = {"model": model, "shapes": shapes, "inputs": _images, "flops": _flops}
    return ModelWorkload(
        name=name, why=why, config=config, batch=batch, length=length, sizes=sizes, **common, **training
    )


def _images(config: Config, batch: int, length: int, random: torch.Generator) -> Mapping[str, torch.Tensor]:
    size = (batch, config["channels"], config["image_height"], config["image_width"])
    return {"images": torch.randn(size, generator=random) + 0.25}


def _flops(config: Config, length: int) -> float:
    """Of one image: products with weights, and two products of attention."""
    width = config["width"]
    attention = 2.0 * length * 4 * width * width + 4.0 * length * length * width
    network = 2.0 * length * 2 * width * config["mlp_width"]
    patches = 2.0 * (length - 1) * config["channels"] * config["patch"] ** 2 * width
    return float(patches + config["blocks"] * (attention + network) + 2.0 * width * config["classes"])
