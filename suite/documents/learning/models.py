"""The contracts' models with dropout, for training. Without dropout they equal the contracts' models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from attnsuite.contracts.models.eager import Part, part
from attnsuite.contracts.models.seq2seq_attention.contract import shapes as recurrent_shapes
from attnsuite.contracts.models.seq2seq_attention.model import Recurrent
from attnsuite.contracts.models.transformer.contract import shapes as transformer_shapes
from attnsuite.contracts.models.transformer.model import Transformer
from attnsuite.contracts.models.vision_transformer.contract import shapes as vision_shapes
from attnsuite.contracts.models.vision_transformer.model import VisionTransformer
from attnsuite.documents.learning.engine import Attention

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[..., Tensor]
Drop = Callable[[Tensor], Tensor]

SHAPES = {"transformer": transformer_shapes, "seq2seq_attention": recurrent_shapes, "vision_transformer": vision_shapes}
"""By contract, a function from a config to the shapes of its weights."""


def dropout(p: float, random: torch.Generator | None) -> Drop:
    """Dropout: numbers become 0 with probability p, others are divided by 1 − p. Without `random`, the identity."""

    def drop(x: Tensor) -> Tensor:
        if random is None or p == 0:
            return x
        mask = torch.rand(x.shape, generator=random, dtype=x.dtype) >= p
        return x * mask / (1 - p)

    return drop


def normalise(x: Tensor, weights: Weights) -> Tensor:
    """Layer normalisation over the last axis."""
    return layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"], 1e-5)


def transformer(
    config: Config, weights: Weights, attention: Attention, p: float = 0.0, random: torch.Generator | None = None
) -> Model:
    """The model `transformer` with dropout after each layer, after positions, and on attention's weights."""
    drop, options = dropout(p, random), {"dropout_p": p} if random is not None and p > 0 else {}
    model_of_contract = Transformer(
        place=lambda rows, positions: drop(Transformer.place(rows, positions)),
        arrange=lambda x, layer, norm, add: norm(add(x, drop(layer(x)))),
        needed=lambda allowed: hidden(allowed) | options,
        norm=normalise,
    )
    model: Model = model_of_contract(config, weights, attention=attention)
    return model


def vision_transformer(
    config: Config, weights: Weights, attention: Attention, p: float = 0.0, random: torch.Generator | None = None
) -> Model:
    """The model `vision_transformer` with dropout after positions and mlp layers, and on attention's weights."""
    drop, options = dropout(p, random), {"dropout_p": p} if random is not None and p > 0 else {}
    model_of_contract = _Vision(
        drop=drop,
        place=lambda x, positions: drop(x + positions),
        activate=lambda features: drop(gelu(features)),
        needed=lambda allowed: options,
        norm=normalise,
    )
    model: Model = model_of_contract(config, weights, attention=attention)
    return model


class _Vision(VisionTransformer):
    """The contract's model with dropout after each mlp."""

    drop = staticmethod(lambda x: x)

    def feed_forward(self, x: Tensor, weights: Weights) -> Tensor:
        dropped: Tensor = self.drop(super().feed_forward(x, weights))
        return dropped


def hidden(allowed: Tensor | None) -> dict[str, Any]:
    """Attention's arguments for a mask of allowed positions; a mask with the axes l s is causal."""
    if allowed is None or bool(allowed.all()):
        return {}
    return {"is_causal": True} if allowed.dim() == 2 else {"attn_mask": allowed}


def seq2seq_attention(config: Config, weights: Weights, p: float = 0.0, random: torch.Generator | None = None) -> Model:
    """The model `seq2seq_attention` with dropout on attention's weights and between the layers of both networks."""
    drop = dropout(p, random)
    model: Model = _Recurrent(between=drop, softmax=lambda scores, allowed: drop(Recurrent.softmax(scores, allowed)))(
        config, weights
    )
    return model


class _Recurrent(Recurrent):
    """The contract's model with dropout between layers."""

    between = staticmethod(lambda x: x)

    def stack(self, config: Config, weights: Part, x: Tensor, states: Tensor) -> Tensor:
        cell, after = self.gru if config["cell"] == "gru" else self.lstm, []
        for layer, state in enumerate(states):
            after.append(cell(self.between(x) if layer else x, state, part(weights, str(layer))))
            x = after[-1][0]
        return torch.stack(after)


def initial(shapes: Mapping[str, tuple[int, ...]], random: torch.Generator) -> dict[str, Tensor]:
    """Initial weights as in documents, chapter 11: PyTorch's defaults, and Xavier's for recurrent networks.

    Embeddings are standard normal. A matrix and its bias are uniform within ±1/√(rows of the matrix), matrices of
    recurrent networks within ±√(6/(rows + columns)). Normalisations are the identity.
    """

    def weight(name: str, shape: tuple[int, ...]) -> Tensor:
        if name.endswith("_embedding"):
            return torch.randn(shape, generator=random)
        if name.endswith((".weight", ".bias")):
            return torch.full(shape, float(name.endswith(".weight")))
        if name.endswith((".w_input", ".w_hidden")):
            bound = math.sqrt(6 / sum(shape))
        else:
            bound = 1 / math.sqrt(shapes.get(_matrix_of(name), shape)[0])
        return (2 * torch.rand(shape, generator=random) - 1) * bound

    return {name: weight(name, shape).requires_grad_() for name, shape in shapes.items()}


def _matrix_of(name: str) -> str:
    """The matrix of a bias; in a recurrent network, the matrix of the states."""
    above, _, last = name.rpartition(".")
    matrix = "w_hidden" if last in ("b_input", "b_hidden") else last.replace("b", "w", 1) if last[0] == "b" else last
    return f"{above}.{matrix}".strip(".")
