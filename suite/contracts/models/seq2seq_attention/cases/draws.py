"""What the questions are made of: weights, tokens, and what is usual."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attnsuite.cases.model import Config, Model, Weights
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.models.seq2seq_attention import oracle
from attnsuite.contracts.models.seq2seq_attention.contract import POSITIONAL, shapes
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Recurrent

USUAL: Config = {
    "source_vocab": 11,
    "target_vocab": 13,
    "embedding": 6,
    "hidden": 8,
    "layers": 1,
    "score": "additive",
    "cell": "gru",
    "window": None,
}
WATCHED = {"need_weights": True}
"""What a factory is given where the attention weights of its models are wanted."""


def weights(config: Config, random: Generator, peak: float = 4.0) -> Weights:
    """Weights that peak the attention, and give every gate an effect."""

    def tensor(name: str, shape: tuple[int, ...]) -> Array:
        size = peak / math.sqrt(shape[0]) if name.endswith("w_score") else 0.5
        if len(shape) == 2:
            size = 1.0 if name.endswith("embedding") else 1.5 / math.sqrt(shape[0])
        return size * random.normal(size=shape)

    return {name: tensor(name, shape) for name, shape in shapes(config).items()}


def drawn(
    random: Generator,
    *,
    config: Config = USUAL,
    batch: int = 3,
    source: int = 7,
    target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:
    """Tokens; all of a source may be attended to where no lengths are given."""
    return {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths or [source] * batch),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }


model = Model(oracle.seq2seq_attention, Recurrent(), weights, drawn, POSITIONAL, USUAL)
