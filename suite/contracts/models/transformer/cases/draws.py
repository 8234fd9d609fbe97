"""What cases are made of: weights, tokens, and what is usual; always so that a mistake shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attnsuite.cases.model import Config, Model, Weights
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.models.transformer import oracle
from attnsuite.contracts.models.transformer.contract import POSITIONAL, shapes
from attnsuite.contracts.models.transformer.mutants.staged import Transformer

USUAL: Config = {
    "source_vocab": 11,
    "target_vocab": 13,
    "width": 16,
    "heads": 4,
    "ffn_width": 24,
    "encoder_blocks": 2,
    "decoder_blocks": 2,
    "decoding": "full",
}
ENCODER = {**USUAL, "decoder_blocks": 0}
SQUARE = {**USUAL, "source_vocab": 16, "target_vocab": 16, "ffn_width": 16}
"""All sizes that may be equal are: what was swapped or shared still fits."""
CACHED = {**USUAL, "decoding": "cached"}
WATCHED = {"need_weights": True}
"""What a factory is given where the attention weights of its models are wanted."""


def weights(config: Config, random: Generator) -> Weights:
    """Weights that peak the attention, and give every block an effect."""
    return {name: _tensor(name, shape, random) for name, shape in shapes(config).items()}


def _tensor(name: str, shape: tuple[int, ...], random: Generator) -> Array:
    size = 1 / math.sqrt(shape[-1] if name.endswith("embedding") else shape[0])
    if name.endswith(("w_query", "w_key")):
        size *= 1.5
    if len(shape) == 1:
        size = 0.3
    return size * random.normal(size=shape) + ("norm" in name and name.endswith("weight"))


def faint(config: Config, random: Generator) -> Weights:
    """Weights with which ε tells: what is normalised inside a block varies by about √ε."""
    small = ("w_output", "ffn.w2", "ffn.b2", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
    return {name: tensor * (3e-3 if name.endswith(small) else 1.0) for name, tensor in weights(config, random).items()}


def far_apart(config: Config, random: Generator) -> Weights:
    """Weights that make scores of tens of thousands in the first head and of billions in the others, of either sign."""
    sizes = np.where(np.arange(config["width"]) < config["width"] // config["heads"], 3e4, 3e10)
    return {
        name: tensor * (sizes if name.endswith("w_query") else 1.0) for name, tensor in weights(config, random).items()
    }


def drawn(
    random: Generator,
    *,
    config: Config = USUAL,
    batch: int = 3,
    source: int = 7,
    target: int = 5,
    lengths: Sequence[int] | None = None,
) -> Inputs:
    """Tokens, and lengths; the first is that of the whole source."""
    inputs = {
        "source": random.integers(config["source_vocab"], size=(batch, source)),
        "lengths": np.array(lengths) if lengths else np.append(source, random.integers(1, source + 1, size=batch - 1)),
        "target": random.integers(config["target_vocab"], size=(batch, target)),
    }
    if not config["decoder_blocks"]:
        del inputs["target"]
    return inputs


model = Model(oracle.transformer, Transformer(), weights, drawn, POSITIONAL, USUAL)
