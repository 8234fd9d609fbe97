"""The Vision Transformer exported to ONNX and run by onnxruntime.

A graph depends on the config and the dtype alone: it is exported once, with the weights as inputs, and becomes a model
when a factory's weights are made its constants. Attention is one operator from opset 23 on, and many before.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import implementation
from attnsuite.implementations import _export
from attnsuite.implementations._export import Config, Exports, Model, Part, PartModule, Run, Weights
from attnsuite.implementations.vision_transformer._checks import check_config, check_images, check_model, shapes
from attnsuite.implementations.vision_transformer.eager import classified

FASHION = {
    "image_height": 96,
    "image_width": 96,
    "patch": 16,
    "channels": 1,
    "width": 512,
    "heads": 8,
    "mlp_width": 2048,
    "blocks": 2,
    "classes": 10,
    "pooling": "class",
}
"""The documents' classifier of Fashion-MNIST."""


@implementation(
    variant="opset18",
    requires=["onnx", "onnxruntime", "onnxscript"],
    compiles="an ONNX graph for each config",
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
    },
)
def opset18(config: Config, weights: Weights) -> Model:
    """With attention as many operators."""
    return _model(config, weights, opset18.exports)


@implementation(
    variant="opset23",
    requires=["onnx", "onnxruntime", "onnxscript"],
    compiles="an ONNX graph for each config",
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
    },
)
def opset23(config: Config, weights: Weights) -> Model:
    """With attention as the one operator `Attention`."""
    return _model(config, weights, opset23.exports)


@implementation(variant="int8", requires=["onnx", "onnxruntime", "onnxscript"], conventions={"accuracy": "measured"})
def int8(config: Config, weights: Weights) -> Model:
    """With matrix products by weights rounded to 8 bits: no limit of its errors is promised, they are measured."""
    return _model(config, weights, int8.exports)


def _model(config: Config, weights: Weights, exports: Exports) -> Model:
    """Make the model. Raises ValueError for a config, weights or images that do not go together."""
    check_model(config, weights)
    like = weights["w_patch"]
    run, making = exports.opened(_graph(tuple(sorted(config.items())), like.dtype, exports.opset), weights, like.device)
    model = assemble(config, weights, {"full": run})
    model.making = making  # type: ignore[attr-defined]
    return model


def assemble(config: Config, weights: Weights, runs: Mapping[str, Run]) -> Model:
    """The model that runs the graph."""

    def model(images: Tensor) -> Tensor:
        check_images(config, weights, images)
        (output,) = runs["full"](images=images)
        return output

    return model


class _Full(PartModule):
    """The eager model with PyTorch's own attention, whose weights are inputs."""

    shapes = staticmethod(shapes)

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        return (classified(self.config, weights, scaled_dot_product_attention, inputs["images"]),)


def _part(config: Config, dtype: torch.dtype, part: str) -> Part:
    """The complete model, whose batch may have any size."""
    sizes = [config[name] for name in ("channels", "image_height", "image_width")]
    output = "logits" if config["classes"] else "states"
    numbers = [config["classes"]] if config["classes"] else shapes(config)["positions"]
    axes = {"images": ("batch", *sizes), output: ("batch", *numbers)}
    return Part(_Full(config, ["images"]), {"images": torch.zeros(3, *sizes, dtype=dtype)}, [output], axes)


@_export.cached
def _graph(config: tuple[tuple[str, Any], ...], dtype: torch.dtype, opset: int, part: str = "full") -> _export.Graph:
    """The graph with images and the weights as inputs."""
    return opset18.exports.graph(dict(config), dtype, opset, part)


def _exports(opset: int, quantised: bool = False) -> Exports:
    parts = {"full": "images in, logits out"}
    return Exports(FASHION, check_config, shapes, parts, _part, assemble, opset, quantised)


opset18.exports, opset23.exports, int8.exports = _exports(18), _exports(23), _exports(18, quantised=True)
