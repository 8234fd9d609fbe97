"""The three layers that doc-004, section 11.6.2, compares: each maps n vectors of width d to n vectors of width d."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sizes:
    """How large a layer is."""

    length: int = 64
    width: int = 64
    kernel: int = 3


def inputs(of: Sizes, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers that every layer takes, n d."""
    return torch.randn(of.length, of.width, generator=Generator().manual_seed(1), dtype=dtype)


def convolution(of: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """Each output is a linear map of `kernel` neighbours, padded with zeros at both ends."""
    weights = _positive(of.width, of.width, of.kernel, dtype=dtype) / (of.width * of.kernel)

    def layer(x: Tensor) -> Tensor:
        return functional.conv1d(x.mT[None], weights, padding=of.kernel // 2)[0].mT

    return layer


def recurrence(of: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """h_t = tanh(x_t W + h_{t−1} U), step by step."""
    w_input, w_state = (_positive(of.width, of.width, dtype=dtype) / of.width for _ in range(2))

    def layer(x: Tensor) -> Tensor:
        state, states = x.new_zeros(1, of.width), []
        for row in x.unsqueeze(1).unbind():
            state = (row @ w_input + state @ w_state).tanh()
            states.append(state)
        return torch.cat(states)

    return layer


def self_attention(of: Sizes, dtype: torch.dtype = torch.float32) -> Layer:
    """softmax(x xᵀ / √d) x: without maps of queries, keys and values, which would each add n d²."""
    return lambda x: (x @ x.mT / math.sqrt(of.width)).softmax(-1) @ x


def _positive(*shape: int, dtype: torch.dtype) -> Tensor:
    """Weights above 0, so that no two ways from an input to an output cancel."""
    return torch.rand(*shape, generator=Generator().manual_seed(2), dtype=dtype) + 0.5


LAYERS = {"convolution": convolution, "recurrence": recurrence, "self_attention": self_attention}
WORDS = {"convolution": "a convolution", "recurrence": "a recurrent layer", "self_attention": "self-attention"}
