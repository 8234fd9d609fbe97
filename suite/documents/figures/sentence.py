"""The sentence of doc-003: its six tokens, their embeddings, and the maps of its class SelfAttention_v2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnsuite.contracts.sources.documents import examples
from attnsuite.documents.figures.picture import Axis

WORDS = ("Your", "journey", "starts", "with", "one", "step")
LAYERS = "doc-003/3.4.2-self-attention-v2"
"""The example whose embeddings and maps are used."""


def given(example: str, name: str) -> Tensor:
    """An input of an example, in float64."""
    values: Any = examples()[example].inputs[name]
    return torch.tensor(values, dtype=torch.float64)


def queries_and_keys() -> tuple[Tensor, Tensor]:
    """Queries and keys of the six tokens, l e each."""
    x = given(LAYERS, "x")
    return x @ given(LAYERS, "w_query"), x @ given(LAYERS, "w_key")


def axes(words: tuple[str, ...] = WORDS) -> tuple[Axis, Axis]:
    """Keys across and queries down."""
    return Axis("key", words), Axis("query", words)
