"""The documents' examples. A sequence passes as an image of one row, each patch one number of many channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.model import Config
from attnsuite.cases.tensors import Array, numbers
from attnsuite.contracts.models.vision_transformer.cases.draws import STATES, USUAL, model
from attnsuite.contracts.models.vision_transformer.contract import shapes
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt

ROLES = ("w_query", "w_key", "w_value", "w_output")


def printed() -> Iterator[Case]:
    """The documents' examples."""
    made: dict[str, Callable[[Excerpt], Case]] = {
        "image": _patches,
        "x": _block,
        "image_shape": _shaped,
        "x_shape": _shaped_block,
        "patches": _figure,
    }
    for example in documents.of("vision_transformer"):
        if given := next((given for given in made if given in example.inputs), ""):
            yield made[given](example)


def _patches(example: Excerpt) -> DocumentedNumbers:
    """Patches and their map alone: no blocks, no positions, no head."""
    image, weight = numbers(example.inputs["image"]), numbers(example.inputs["weight"])  # b c h w, d c p p
    config = _patched(*image.shape[1:], patch=weight.shape[-1], width=len(weight))
    found = {tensor: np.zeros(shape) for tensor, shape in shapes(config).items()}
    found |= {"w_patch": weight.reshape(len(weight), -1).T, "b_patch": numbers(example.inputs["bias"])}
    case = model.given(*example.named("output"), config, {"images": image}, found)
    return DocumentedNumbers(case, example.gives("output"))


def _block(example: Excerpt) -> DocumentedNumbers:
    """One block with the example's weights; its input is the image, through a map that changes nothing."""
    given = example.inputs
    x, inner = numbers(given["x"]), numbers(given["w1"]).shape[-1]
    config = {**_sequence(*x.shape[1:]), "heads": example.parameters["num_heads"], "mlp_width": inner}
    found = {
        tensor: np.ones(shape) if tensor.endswith("weight") else np.zeros(shape)
        for tensor, shape in shapes(config).items()
    }
    found["w_patch"] = np.eye(x.shape[-1])
    found |= {f"blocks.0.attention.{role}": numbers(given[role]) for role in ROLES}
    found |= {f"blocks.0.mlp.{role}": numbers(given[role]) for role in ("w1", "b1", "w2", "b2")}
    images: Array = x.swapaxes(1, 2)[:, :, None]  # b d 1 n
    case = model.given(*example.named("output"), config, {"images": images}, found)
    return DocumentedNumbers(case, example.gives("output"))


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
    return DocumentedShape(model(*example.named(), config, batch=1), example.at(), shape)


def _patched(channels: int, rows: int, columns: int, *, patch: int, width: int) -> Config:
    """Patches and their map alone: no blocks, no class token, no head."""
    sizes = {"image_height": rows, "image_width": columns, "channels": channels, "patch": patch, "width": width}
    return {**USUAL, **sizes, "heads": 1, "blocks": 0, "classes": 0, "pooling": "mean"}


def _sequence(length: int, width: int) -> Config:
    """One block whose states are returned, over a sequence that comes as an image of one row."""
    config = {**USUAL, "image_height": 1, "image_width": length, "patch": 1, "channels": width, "width": width}
    return {**config, "blocks": 1, "classes": 0, "pooling": "mean"}
