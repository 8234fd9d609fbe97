"""What goes in, what each block does, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suite.asking.staged import Mistake, instead_of, mistakes
from suite.contracts.models.eager import Part
from suite.contracts.models.transformer.deviations.staged import Layer, Transformer

IN_PLACE = mistakes(
    Transformer.place,
    unscaled_embedding=Mistake("the embeddings are not multiplied by √d", lambda rows, positions: rows + positions),
    scaled_positions=Mistake(
        "the positions are multiplied by √d with the embeddings",
        lambda rows, positions: (rows + positions) * math.sqrt(rows.shape[-1]),
        source="documents, E32",
    ),
    no_positions=Mistake("no positions are added", lambda rows, positions: rows * math.sqrt(rows.shape[-1])),
)


@instead_of(Transformer.positions, "sines and cosines have changed columns", source="documents, E32")
def cosines_first(offset: int, length: int, width: int) -> Tensor:
    found: Tensor = Transformer.positions(offset, length, width).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return found


@instead_of(Transformer.positions, "all sines come first, then all cosines")
def sines_then_cosines(offset: int, length: int, width: int) -> Tensor:
    found: Tensor = Transformer.positions(offset, length, width).unflatten(-1, (-1, 2)).mT.flatten(-2)
    return found


@instead_of(Transformer.positions, "positions are counted from 1")
def positions_from_one(offset: int, length: int, width: int) -> Tensor:
    return Transformer.positions(offset + 1, length, width)


@instead_of(Transformer.positions, "the table of positions ends at 5,000 and begins anew")
def positions_modulo_5000(offset: int, length: int, width: int) -> Tensor:
    return Transformer.positions(0, 5000, width)[torch.arange(offset, offset + length) % 5000]


@instead_of(Transformer.positions, "angles are computed in the dtype of the weights", dtypes=("bfloat16",))
def half_angles(offset: int, length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.bfloat16) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.bfloat16)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


@instead_of(Transformer.activate, "the networks have GELU, not ReLU", of=Transformer)
def gelu_networks(features: Tensor) -> Tensor:
    return torch.nn.functional.gelu(features)


@instead_of(Transformer.arrange, "normalisation comes before each layer, not after it: pre-norm")
def pre_norm(x: Tensor, layer: Layer, norm: Layer, add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return add(x, layer(norm(x)))


@instead_of(Transformer.finish, "the encoder's states are normalised once more")
def final_norm(states: Tensor) -> Tensor:
    return (states - states.mean(-1, keepdim=True)) / (states.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


@instead_of(Transformer.block, "every block of the encoder has the first one's weights")
def shared_blocks(number: int) -> int:
    return 0


@instead_of(Transformer.logits, "the logits have no bias")
def no_logits_bias(hidden: Tensor, weights: Part) -> Tensor:
    return hidden @ weights["w_logits"]


@instead_of(Transformer.logits, "softmax is applied to the logits")
def probabilities(hidden: Tensor, weights: Part) -> Tensor:
    return Transformer.logits(hidden, weights).softmax(-1)
