"""The two translators of the contracts, with dropout, as they are trained: the eager models with some steps replaced.

With dropout 0 they are the contracts' models, number for number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnsuite.contracts.models.eager import Part, part
from attnsuite.contracts.models.seq2seq_attention.contract import shapes as recurrent_shapes
from attnsuite.contracts.models.seq2seq_attention.deviations.staged import Recurrent
from attnsuite.contracts.models.transformer.contract import shapes as transformer_shapes
from attnsuite.contracts.models.transformer.deviations.staged import Transformer
from attnsuite.documents.learning.task import Attention

Config = Mapping[str, Any]
Weights = Mapping[str, Tensor]
Model = Callable[..., Tensor]
Drop = Callable[[Tensor], Tensor]

SHAPES = {"transformer": transformer_shapes, "seq2seq_attention": recurrent_shapes}
"""By contract, the weights that are due for a config."""


def dropout(p: float, random: torch.Generator | None) -> Drop:
    """Sets numbers to 0 with probability p and divides the others by 1 − p; without a generator it changes nothing."""

    def drop(x: Tensor) -> Tensor:
        if random is None or p == 0:
            return x
        kept = torch.rand(x.shape, generator=random, dtype=x.dtype) >= p
        return x * kept / (1 - p)

    return drop


def transformer(
    config: Config, weights: Weights, attention: Attention, p: float = 0.0, random: torch.Generator | None = None
) -> Model:
    """The model `transformer`: dropout follows each layer, the positions, and (by the attention) its weights."""
    drop = dropout(p, random)
    options = {"dropout_p": p} if random is not None and p > 0 else {}
    made = Transformer(
        place=lambda rows, positions: drop(Transformer.place(rows, positions)),
        arrange=lambda x, layer, norm, add: norm(add(x, drop(layer(x)))),
        needed=lambda allowed: hidden(allowed) | options,
        norm=lambda x, weights: torch.nn.functional.layer_norm(
            x, x.shape[-1:], weights["weight"], weights["bias"], 1e-5
        ),
    )
    model: Model = made(config, weights, attention=attention)
    return model


def hidden(allowed: Tensor | None) -> dict[str, Any]:
    """The arguments that say what is hidden: causal where the mask is one of queries and keys alone, l s."""
    if allowed is None or bool(allowed.all()):
        return {}
    return {"is_causal": True} if allowed.dim() == 2 else {"attn_mask": allowed}


def seq2seq_attention(config: Config, weights: Weights, p: float = 0.0, random: torch.Generator | None = None) -> Model:
    """The model `seq2seq_attention`: dropout on attention's weights, and between the layers of both networks."""
    drop = dropout(p, random)
    model: Model = _Recurrent(between=drop, softmax=lambda scores, allowed: drop(Recurrent.softmax(scores, allowed)))(
        config, weights
    )
    return model


class _Recurrent(Recurrent):
    """The contract's model with a step between layers."""

    between = staticmethod(lambda x: x)

    def stack(self, config: Config, weights: Part, x: Tensor, states: Tensor) -> Tensor:
        cell, after = self.gru if config["cell"] == "gru" else self.lstm, []
        for layer, state in enumerate(states):
            after.append(cell(self.between(x) if layer else x, state, part(weights, str(layer))))
            x = after[-1][0]
        return torch.stack(after)


def initial(shapes: Mapping[str, tuple[int, ...]], random: torch.Generator) -> dict[str, Tensor]:
    """Weights to begin with, as documents, chapter 11, begins: PyTorch's usual, but Xavier's for recurrent networks.

    Embeddings are standard normal; a matrix and the bias beside it are uniform within ±1/√(rows of the matrix), those
    of recurrent networks' matrices within ±√(6/(rows + columns)); normalisations are the identity.
    """
    return {name: _initial(name, shape, shapes, random).requires_grad_() for name, shape in shapes.items()}


def _initial(
    name: str, shape: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]], random: torch.Generator
) -> Tensor:
    if name.endswith("_embedding"):
        return torch.randn(shape, generator=random)
    if name.endswith((".weight", ".bias")):
        return torch.full(shape, float(name.endswith(".weight")))
    if name.endswith((".w_input", ".w_hidden")):
        bound = math.sqrt(6 / sum(shape))
    else:
        bound = 1 / math.sqrt(shapes.get(_beside(name), shape)[0])
    return (2 * torch.rand(shape, generator=random) - 1) * bound


def _beside(name: str) -> str:
    """The matrix that a bias belongs to; of a recurrent network's both, the states'."""
    above, _, last = name.rpartition(".")
    matrix = "w_hidden" if last in ("b_input", "b_hidden") else last.replace("b", "w", 1) if last[0] == "b" else last
    return f"{above}.{matrix}".strip(".")
