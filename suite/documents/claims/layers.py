"""Computations whose cost the documents compare: layers, scores, decoders, and a training step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from attnsuite.contracts.models.vision_transformer.contract import shapes as vision_shapes
from attnsuite.implementations.attention_scores.matmul import attention_scores
from attnsuite.implementations.vision_transformer.eager import vision_transformer

Layer = Callable[[Tensor], Tensor]

# Three layers that doc-004, section 11.6.2, compares: each maps n vectors of width d to n vectors of width d


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer."""

    length: int = 64
    width: int = 64
    kernel: int = 3


def inputs(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Tensor:
    """The input of a layer, n d."""
    return torch.randn(sizes.length, sizes.width, generator=Generator().manual_seed(1), dtype=dtype)


def convolution(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """Each output is a linear map of `kernel` neighbours, padded with zeros at both ends."""
    weights = _positive(sizes.width, sizes.width, sizes.kernel, dtype=dtype) / (sizes.width * sizes.kernel)
    return lambda x: functional.conv1d(x.mT[None], weights, padding=sizes.kernel // 2)[0].mT


def recurrence(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """h_t = tanh(x_t W + h_{t−1} U), step by step."""
    w_input, w_state = (_positive(sizes.width, sizes.width, dtype=dtype) / sizes.width for _ in range(2))

    def layer(x: Tensor) -> Tensor:
        state, states = x.new_zeros(1, sizes.width), []
        for row in x.unsqueeze(1).unbind():
            state = (row @ w_input + state @ w_state).tanh()
            states.append(state)
        return torch.cat(states)

    return layer


def self_attention(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """softmax(x xᵀ / √d) x: without maps of queries, keys and values, which would each add n d²."""
    return lambda x: (x @ x.mT / math.sqrt(sizes.width)).softmax(-1) @ x


def _positive(*shape: int, dtype: torch.dtype) -> Tensor:
    """Weights above 0, so that no two paths from an input to an output cancel."""
    return torch.rand(*shape, generator=Generator().manual_seed(2), dtype=dtype) + 0.5


LAYERS = {"convolution": convolution, "recurrence": recurrence, "self_attention": self_attention}

# Scores, and decoders that attend

ITEMS, LENGTH, WIDTH = 8, 128, 64
"""Sentences in a batch; tokens in each; the width of queries, keys and features."""
STEPS = 48
"""Steps of a decoder."""


def scores(score: str) -> Callable[[], Tensor]:
    """The scores of every query with every key."""
    random = Generator().manual_seed(3)
    query, key = (torch.randn(ITEMS, LENGTH, WIDTH, generator=random) for _ in range(2))
    weights = {name: torch.randn(WIDTH, WIDTH, generator=random) for name in ("w_query", "w_key")}
    weights["w_score"] = torch.randn(WIDTH, generator=random)
    return partial(attention_scores, query, key, score=score, **(weights if score == "additive" else {}))


def decoder(waits: bool, steps: int = STEPS) -> Callable[[], Tensor]:
    """A recurrent decoder with dot-product scores, whose weights require gradients.

    With `waits`, each state needs the context of the state before it, as in Bahdanau's decoder. Otherwise all states
    are computed first, and attend together.
    """
    random = Generator().manual_seed(4)
    keys, tokens = (torch.randn(ITEMS, length, WIDTH, generator=random) for length in (LENGTH, steps))
    w_token, w_state, w_context = (
        (torch.randn(WIDTH, WIDTH, generator=random) / WIDTH).requires_grad_() for _ in range(3)
    )

    def attend(query: Tensor) -> Tensor:
        return (query @ keys.mT).softmax(-1) @ keys

    def decode() -> Tensor:
        state, states = keys.new_zeros(ITEMS, 1, WIDTH), []
        for row in tokens.unsqueeze(2).unbind(1):
            context = attend(state) @ w_context if waits else 0.0
            state = (row @ w_token + state @ w_state + context).tanh()
            states.append(state)
        outputs = torch.cat(states, 1)
        return outputs if waits else torch.cat([outputs, attend(outputs) @ w_context], -1)

    return decode


# Training steps: forward, loss, backward, and a step of gradient descent


def _weights(shapes: Mapping[str, tuple[int, ...]], random: Generator) -> dict[str, Tensor]:
    return {name: (0.05 * torch.randn(*shape, generator=random)).requires_grad_() for name, shape in shapes.items()}


def _step(weights: Mapping[str, Tensor], logits: Callable[[], Tensor], labels: Tensor) -> Callable[[], Tensor]:
    def step() -> Tensor:
        loss = functional.cross_entropy(logits(), labels)
        for weight, gradient in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            weight.data.sub_(gradient, alpha=0.01)
        return loss

    return step


VISION: Mapping[str, Any] = {
    "patch": 8, "channels": 1, "width": 128, "heads": 8, "mlp_width": 512, "blocks": 2, "classes": 10,
    "pooling": "class",
}  # fmt: skip
"""The document's vision transformer at a quarter of its width: its network is four times as wide as the model, too."""
SIDES = (32, 48, 64, 96)
"""Images of 16 to 144 patches: 144 are the document's 96 × 96 pixels in patches finer than its 16."""


def vision_step(side: int) -> Callable[[], Tensor]:
    """A training step of a vision transformer on four images of this side."""
    random, config = Generator().manual_seed(side), {**VISION, "image_height": side, "image_width": side}
    weights = _weights(vision_shapes(config), random)
    model, images = vision_transformer(config, weights), torch.randn(4, 1, side, side, generator=random)
    return _step(weights, lambda: model(images), torch.randint(10, (4,), generator=random))


def patches(side: int) -> int:
    """The number of patches of an image."""
    return int((side // VISION["patch"]) ** 2)
