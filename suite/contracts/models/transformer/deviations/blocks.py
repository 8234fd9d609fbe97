"""What goes in, what each block does, and what comes out."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import gelu

from suite.asking.mistakes import Wrong, given, mistakes, rows, then
from suite.contracts.models.transformer.deviations.staged import Transformer


def half_angles(offset: int, length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2, dtype=torch.bfloat16) / width)
    angles = torch.arange(offset, offset + length, dtype=torch.bfloat16)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def modulo_5000(offset: int, length: int, width: int) -> Tensor:
    return Transformer.positions(0, 5000, width)[torch.arange(offset, offset + length) % 5000]


def normalised(states: Tensor) -> Tensor:
    return (states - states.mean(-1, keepdim=True)) / (states.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


MISTAKES = mistakes(
    Transformer,
    place=rows(
        unscaled_embedding=Wrong("the embeddings are not multiplied by √d", lambda rows, positions: rows + positions),
        scaled_positions=Wrong(
            "the positions are multiplied by √d with the embeddings",
            lambda rows, positions: (rows + positions) * math.sqrt(rows.shape[-1]),
            "documents, E32",
        ),
        no_positions=Wrong("no positions are added", lambda rows, positions: rows * math.sqrt(rows.shape[-1])),
    ),
    positions=rows(
        cosines_first=Wrong(
            "sines and cosines have changed columns",
            then(lambda found: found.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)),
            "documents, E32",
        ),
        sines_then_cosines=Wrong(
            "all sines come first, then all cosines", then(lambda found: found.unflatten(-1, (-1, 2)).mT.flatten(-2))
        ),
        positions_from_one=Wrong("positions are counted from 1", given(offset=lambda offset: offset + 1)),
        positions_modulo_5000=Wrong("the table of positions ends at 5,000 and begins anew", modulo_5000),
        half_angles=Wrong("angles are computed in the dtype of the weights", half_angles, dtypes=("bfloat16",)),
    ),
    activate=rows(gelu_networks=Wrong("the networks have GELU, not ReLU", gelu)),
    arrange=rows(
        pre_norm=Wrong(
            "normalisation comes before each layer, not after it: pre-norm",
            lambda x, layer, norm, add: add(x, layer(norm(x))),
        ),
    ),
    finish=rows(final_norm=Wrong("the encoder's states are normalised once more", normalised)),
    block=rows(shared_blocks=Wrong("every block of the encoder has the first one's weights", lambda number: 0)),
    logits=rows(
        no_logits_bias=Wrong("the logits have no bias", lambda hidden, weights: hidden @ weights["w_logits"]),
        probabilities=Wrong("softmax is applied to the logits", then(lambda logits: logits.softmax(-1))),
    ),
)
