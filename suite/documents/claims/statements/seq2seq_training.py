"""A training step of Bahdanau's model with another cell and another score: exercises of doc-004."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from attnsuite.contracts.models.seq2seq_attention.contract import shapes
from attnsuite.documents.claims.claim import SLOWER, Claim, Measured
from attnsuite.documents.claims.timing import raced, ratio
from attnsuite.implementations.seq2seq_attention.eager import seq2seq_attention
from attnsuite.model import Evidence

VOCABULARY, BATCH, STEPS = 200, 32, 9
"""Words, and sentences of the document's length; a quarter of its batch."""
CONFIG: Mapping[str, Any] = {
    "source_vocab": VOCABULARY, "target_vocab": VOCABULARY, "embedding": 128, "hidden": 128, "layers": 2,
    "score": "additive", "cell": "gru", "window": None,
}  # fmt: skip
"""The document's model at half its width."""


def step(**changed: str) -> Callable[[], Tensor]:
    """Forward, loss, backward and a step of gradient descent."""
    config, random = {**CONFIG, **changed}, Generator().manual_seed(24)
    weights = {
        name: (0.05 * torch.randn(*shape, generator=random)).requires_grad_() for name, shape in shapes(config).items()
    }
    model, lengths = seq2seq_attention(config, weights), torch.full((BATCH,), STEPS)
    source, target = (torch.randint(VOCABULARY, (BATCH, STEPS), generator=random) for _ in range(2))

    def trained() -> Tensor:
        loss = functional.cross_entropy(model(source, lengths, target).flatten(0, 1), target.flatten())
        for weight, gradient in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            weight.data.sub_(gradient, alpha=0.01)
        return loss

    return trained


def compared(option: str, slower: str, faster: str) -> Measured:
    """How many times as long a step takes with one choice as with another."""
    return ratio(slower, faster, raced({choice: step(**{option: choice}) for choice in (slower, faster)}))


CLAIMS = (
    Claim("seq2seq_training/score", "doc-004", "11.4.5, exercise", "scaled dot products in place of additive scores make training faster",
          "time of a training step with additive scores, as a multiple of that with scaled dot products", SLOWER,
          Evidence.TIMED, partial(compared, "score", "additive", "scaled_dot")),
    Claim("seq2seq_training/cell", "doc-004", "11.4.5, exercise", "LSTM cells in place of GRU cells make training slower",
          "time of a training step with LSTM cells, as a multiple of that with GRU cells", SLOWER, Evidence.TIMED,
          partial(compared, "cell", "lstm", "gru")),
)  # fmt: skip
