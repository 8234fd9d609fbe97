"""The Vision Transformer exported to ONNX and run by onnxruntime.

A graph depends on the config and the dtype alone: it is exported once, with the weights as inputs, and becomes a model
when a factory's weights are made its constants. Attention is one operator from opset 23 on, and many before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.functional import scaled_dot_product_attention

from implementations import _export
from implementations.vision_transformer._checks import check_images, check_model
from implementations.vision_transformer.eager import classified
from suite import implementation

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[[Tensor], Tensor]


@implementation(
    variant="opset18",
    requires=["onnx", "onnxruntime", "onnxscript"],
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
        "cuda": "the session runs on the CPU",
    },
)
def opset18(config: Config, weights: Weights) -> Model:
    """With attention as many operators."""
    return _model(config, weights, 18)


@implementation(
    variant="opset23",
    requires=["onnx", "onnxruntime", "onnxscript"],
    lacks={
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
        "cuda": "the session runs on the CPU",
    },
)
def opset23(config: Config, weights: Weights) -> Model:
    """With attention as the one operator `Attention`."""
    return _model(config, weights, 23)


def _model(config: Config, weights: Weights, opset: int) -> Model:
    """Make the model. Raises ValueError for a config, weights or images that do not go together."""
    check_model(config, weights)
    names = tuple(sorted(weights))
    shapes = tuple(tuple(weights[name].shape) for name in names)
    given = _graph(tuple(sorted(config.items())), names, shapes, weights["w_patch"].dtype, opset)
    session, making = _export.session(given, weights)

    def model(images: Tensor) -> Tensor:
        check_images(config, weights, images)
        (output,) = session.run(None, {"images": images.numpy()})
        return torch.from_numpy(output)

    model.making = making  # type: ignore[attr-defined]
    return model


class _Exported(nn.Module):
    """The eager model with PyTorch's own attention, its weights given with each call."""

    def __init__(self, config: Config, names: Sequence[str]) -> None:
        super().__init__()
        self.config, self.names = config, names

    def forward(self, images: Tensor, weights: Sequence[Tensor]) -> Tensor:
        named = dict(zip(self.names, weights, strict=True))
        return classified(self.config, named, scaled_dot_product_attention, images)


@_export.kept
def _graph(
    config: tuple[tuple[str, Any], ...],
    names: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    opset: int,
) -> _export.Graph:
    """The graph with images and the weights as inputs, whose batch is dynamic."""
    sizes = dict(config)
    weights = [torch.zeros((), dtype=dtype).expand(shape) for shape in shapes]
    images = torch.zeros(3, sizes["channels"], sizes["image_height"], sizes["image_width"], dtype=dtype)
    dynamic = ({0: Dim("batch")}, [None] * len(names))
    return _export.graph(_Exported(sizes, names), (images, weights), ["images", *names], dynamic, opset)
