"""The Transformer exported to ONNX and run by onnxruntime.

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
from implementations._greedy import by_whole_targets, check_greedy
from implementations.transformer._checks import check_decoder, check_inputs, check_model
from implementations.transformer.eager import decode_full, encode, padding_mask
from suite import implementation

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[..., Tensor]


@implementation(
    variant="opset18",
    requires=["onnx", "onnxruntime", "onnxscript"],
    lacks={
        "cached": "the graph decodes the whole target",
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
        "cuda": "the session runs on the CPU",
    },
)
def opset18(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With attention as many operators."""
    return _model(config, weights, 18, greedy)


@implementation(
    variant="opset23",
    requires=["onnx", "onnxruntime", "onnxscript"],
    lacks={
        "cached": "the graph decodes the whole target",
        "float64": "attributes of ONNX operators are float32: epsilon of the normalisation, scale of the attention",
        "bfloat16": "onnxruntime multiplies no bfloat16 matrices on a CPU",
        "cuda": "the session runs on the CPU",
    },
)
def opset23(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """With attention as the one operator `Attention`."""
    return _model(config, weights, 23, greedy)


def _model(config: Config, weights: Weights, opset: int, greedy: Mapping[str, int] | None) -> Model:
    """Make the model, of logits or of translations. Raises ValueError for what does not go together."""
    check_model(config, weights)
    if config.get("decoding") == "cached":
        raise NotImplementedError("the graph decodes the whole target")
    if greedy is not None:
        check_decoder(config)
        check_greedy(greedy, config["target_vocab"])
    names, dtype = tuple(sorted(weights)), weights["source_embedding"].dtype
    shapes = tuple(tuple(weights[name].shape) for name in names)
    given = _graph(tuple(sorted(config.items())), names, shapes, dtype, opset)
    session, making = _export.session(given, weights)

    def model(source: Tensor, lengths: Tensor, target: Tensor | None = None) -> Tensor:
        check_inputs(config, source, lengths, target)
        if target is not None and not target.numel():  # onnxruntime reshapes no empty target
            return weights["b_logits"].new_empty(*target.shape, config["target_vocab"])
        inputs = {"source": source, "lengths": lengths, "target": target}
        (output,) = session.run(None, {name: given.numpy() for name, given in inputs.items() if given is not None})
        return torch.from_numpy(output)

    model.making = making  # type: ignore[attr-defined]
    return model if greedy is None else by_whole_targets(model, greedy)


class _Exported(nn.Module):
    """The eager model with PyTorch's own attention, its weights given with each call."""

    def __init__(self, config: Config, names: Sequence[str]) -> None:
        super().__init__()
        self.config, self.names = config, names

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor | None, weights: Sequence[Tensor]) -> Tensor:
        named, within = dict(zip(self.names, weights, strict=True)), padding_mask(lengths, source.shape[1])
        states = encode(self.config, named, _attention, source, within)
        return states if target is None else decode_full(self.config, named, _attention, states, within, target)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """PyTorch's attention, with the mask expanded over queries: onnxruntime's operator does not broadcast them."""
    if attn_mask is not None:
        attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)
    return scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal)


@_export.kept
def _graph(
    config: tuple[tuple[str, Any], ...],
    names: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    opset: int,
) -> _export.Graph:
    """The graph with source, lengths, target and weights as inputs, all sizes dynamic."""
    decodes = dict(config)["decoder_blocks"] > 0
    weights = [torch.zeros(shape, dtype=dtype) for shape in shapes]
    source, lengths, target = torch.zeros(3, 7, dtype=torch.int64), torch.tensor([7, 4, 2]), torch.zeros(3, 5).long()
    batch, given, due = Dim("batch"), Dim("source_length"), Dim("target_length")
    return _export.graph(
        _Exported(dict(config), names),
        (source, lengths, target if decodes else None, weights),
        ["source", "lengths", *(["target"] if decodes else []), *names],
        ({0: batch, 1: given}, {0: batch}, {0: batch, 1: due} if decodes else None, [None] * len(names)),
        opset,
    )
