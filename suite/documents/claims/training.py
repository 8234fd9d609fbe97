"""A small Transformer whose norms and positions vary, and how it is trained to say the token before each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

SEEDS = 8
"""Trainings of each kind: the fewest from which one interval of a median can be told, `rounds_needed(1)`."""
TOKENS, LENGTH, BATCH = 8, 12, 64
CLIPPED = 4
"""Distances beyond which relative positions are alike, as of Shaw and others (arXiv 1803.02155)."""


Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Small:
    """What is varied."""

    positions: str = "sinusoids"
    """none, sinusoids, learned (a table of LENGTH rows), or relative (a learned number for each distance and score)."""
    norms: str = "pre"
    """pre: before attention, network and head, as in doc-004, section 11.8; post: after sums, as in section 11.7."""
    blocks: int = 1
    width: int = 32


class Block(nn.Module):
    """Attention of one head and a network of two layers, each around a sum."""

    def __init__(self, of: Small) -> None:
        super().__init__()
        self.of = of
        self.maps = nn.ModuleDict({name: nn.Linear(of.width, of.width, bias=False) for name in "qkvo"})
        self.network = nn.Sequential(nn.Linear(of.width, 2 * of.width), nn.ReLU(), nn.Linear(2 * of.width, of.width))
        self.norms = nn.ModuleList(nn.LayerNorm(of.width) for _ in range(2))
        self.distances = nn.Parameter(torch.zeros(2 * CLIPPED + 1))

    def forward(self, x: Tensor) -> Tensor:
        steps: tuple[Step, Step] = (self.attend, self.network)
        for norm, step in zip(self.norms, steps, strict=True):
            x = x + step(norm(x)) if self.of.norms == "pre" else norm(x + step(x))
        return x

    def attend(self, x: Tensor) -> Tensor:
        scores = self.maps["q"](x) @ self.maps["k"](x).mT / math.sqrt(self.of.width)  # b l l
        if self.of.positions == "relative":
            place = torch.arange(x.shape[1])
            scores = scores + self.distances[(place[:, None] - place).clamp(-CLIPPED, CLIPPED) + CLIPPED]
        mixed: Tensor = self.maps["o"](scores.softmax(-1) @ self.maps["v"](x))
        return mixed


class Model(nn.Module):
    """Tokens b l → logits b l v."""

    def __init__(self, of: Small) -> None:
        super().__init__()
        self.of = of
        self.embedding = nn.Embedding(TOKENS, of.width)
        self.learned = nn.Parameter(torch.randn(2 * LENGTH, of.width))
        self.blocks = nn.ModuleList(Block(of) for _ in range(of.blocks))
        self.last = nn.LayerNorm(of.width) if of.norms == "pre" else nn.Identity()
        self.head = nn.Linear(of.width, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.places(tokens.shape[1])
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.last(x))
        return logits

    def places(self, length: int) -> Tensor:
        if self.of.positions == "learned":
            return self.learned[:length]
        if self.of.positions != "sinusoids":
            return torch.zeros(length, self.of.width)
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, self.of.width, 2) / self.of.width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


@contextmanager
def seeded(seed: int) -> Iterator[Generator]:
    """Models that are made inside have the weights of this seed; the generator draws what they learn from."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield Generator().manual_seed(seed + 1000)


def sequences(random: Generator, length: int = LENGTH, count: int = BATCH) -> Tensor:
    """Tokens at random, b l: at each place the one before it is to be said."""
    return torch.randint(TOKENS, (count, length), generator=random)


def loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """The cross-entropy of the token before each, in nats."""
    logits = model(tokens)[:, 1:]
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, :-1].flatten())


def train(model: nn.Module, random: Generator, steps: int, rate: float, batch: int = BATCH) -> list[float]:
    """Adam on fresh sequences; the loss of each step."""
    optimiser, found = torch.optim.Adam(model.parameters(), rate), []
    for _ in range(steps):
        of_step = loss(model, sequences(random, count=batch))
        optimiser.zero_grad()
        of_step.backward()
        optimiser.step()
        found.append(float(of_step.detach()))
    return found


def accuracy(model: nn.Module, random: Generator, length: int = LENGTH) -> float:
    """The share of tokens that are right, on sequences that were not trained on."""
    tokens = sequences(random, length, 256)
    with torch.no_grad():
        return float((model(tokens)[:, 1:].argmax(-1) == tokens[:, :-1]).double().mean())
