"""What cases are made of: weights, images, and what is usual; always so that a mistake shows."""

from __future__ import annotations

import math

from attnsuite.cases.model import Config, Model, Weights
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.models.vision_transformer import oracle
from attnsuite.contracts.models.vision_transformer.contract import POSITIONAL, shapes
from attnsuite.contracts.models.vision_transformer.mutants import VisionTransformer

USUAL: Config = {
    "image_height": 8,
    "image_width": 12,
    "patch": 4,
    "channels": 3,
    "width": 16,
    "heads": 4,
    "mlp_width": 24,
    "blocks": 2,
    "classes": 10,
    "pooling": "class",
}
MEAN = {**USUAL, "pooling": "mean"}
SQUARE: Config = {
    "image_height": 8,
    "image_width": 8,
    "patch": 2,
    "channels": 4,
    "width": 16,
    "heads": 4,
    "mlp_width": 16,
    "blocks": 2,
    "classes": 16,
    "pooling": "mean",
}
"""All sizes that may be equal are: what was swapped or shared still fits."""
STATES = {**USUAL, "classes": 0}
MANY = {**USUAL, "image_height": 12, "image_width": 16, "patch": 1, "channels": 1}
BASE = {
    **USUAL,
    "image_height": 224,
    "image_width": 224,
    "patch": 16,
    "width": 768,
    "heads": 12,
    "mlp_width": 3072,
    "blocks": 12,
    "classes": 1000,
}
"""ViT-B/16."""
WATCHED = {"need_weights": True}
"""What a factory is given where the attention weights of its models are wanted."""


def weights(config: Config, random: Generator) -> Weights:
    """Weights that peak the attention, and give every block an effect."""
    return {name: _tensor(name, shape, random) for name, shape in shapes(config).items()}


def _tensor(name: str, shape: tuple[int, ...], random: Generator) -> Array:
    size = 1 / math.sqrt(shape[0]) if len(shape) == 2 else 0.3
    if name.endswith(("w_query", "w_key")):
        size *= 1.5
    if name in ("positions", "class_token"):
        size = 1.0
    return size * random.normal(size=shape) + ("norm" in name and name.endswith("weight"))


def faint(config: Config, random: Generator) -> Weights:
    """Weights with which ε tells: what enters the first block varies by about √ε."""
    small = ("w_patch", "b_patch", "positions", "class_token")
    return {name: tensor * (3e-3 if name in small else 1.0) for name, tensor in weights(config, random).items()}


def sharp(config: Config, random: Generator) -> Weights:
    """Weights with which scores are some hundreds."""
    return {
        name: tensor * (30.0 if name.endswith("w_query") else 1.0) for name, tensor in weights(config, random).items()
    }


def drawn(random: Generator, *, config: Config = USUAL, batch: int = 3) -> Inputs:
    """Images with a mean of their own."""
    shape = (batch, *(config[name] for name in ("channels", "image_height", "image_width")))
    return {"images": random.normal(size=shape) + 0.3}


model = Model(oracle.vision_transformer, VisionTransformer(), weights, drawn, POSITIONAL, USUAL)
