"""Claims about trained models: a small Transformer that learns a shift, and heads of a translator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from attnsuite.documents.claims import MeasuredValue, sampled
from attnsuite.documents.learning.data import PAD, bleu, greedy, tokens
from attnsuite.documents.learning.tasks import Translator, divided, translator
from attnsuite.implementations.transformer.eager import transformer

# A small Transformer, trained to output the previous token at each position

SEEDS = 8
"""Trainings per kind: the fewest whose median has a bounded interval, `rounds_needed(1)`."""
TOKENS, LENGTH, BATCH = 8, 12, 64
CLIPPED = 4
"""Distances beyond this share one relative position, as in Shaw and others (arXiv 1803.02155)."""


@dataclass(frozen=True)
class SmallConfig:
    """The configuration of a model."""

    positions: str = "sinusoids"
    """none, sinusoids, learned (a table of rows), or relative (a learned bias of scores for each distance)."""
    norms: str = "pre"
    """pre: before attention and network (doc-004, section 11.8); post: after sums (section 11.7); or none."""
    residual: bool = True
    """Whether the input of each step is added to its output."""
    scores: str = "dot"
    """dot: scaled dot products; additive: tanh of query plus key, times a vector."""
    blocks: int = 1
    width: int = 32


class Block(nn.Module):
    """Attention of one head and a network of two layers, with residual connections."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.maps = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in "qkvo"})
        self.network = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.distances = nn.Parameter(torch.zeros(2 * CLIPPED + 1))
        if config.scores == "additive":
            self.scoring = nn.Parameter(torch.randn(width) / math.sqrt(width))

    def forward(self, x: Tensor) -> Tensor:
        for norm, step in zip(self.norms, (self.attend, self.network), strict=True):
            x = step(norm(x) if self.config.norms == "pre" else x) + (x if self.config.residual else 0.0)  # type: ignore[operator]
            x = norm(x) if self.config.norms == "post" else x
        return x

    def attend(self, x: Tensor) -> Tensor:
        """Return the attention of a sequence to itself, b l d."""
        query, key = self.maps["q"](x), self.maps["k"](x)
        if self.config.scores == "additive":
            scores = (query[:, :, None] + key[:, None]).tanh() @ self.scoring  # b l l
        else:
            scores = query @ key.mT / math.sqrt(self.config.width)
        if self.config.positions == "relative":
            place = torch.arange(x.shape[1])
            scores = scores + self.distances[(place[:, None] - place).clamp(-CLIPPED, CLIPPED) + CLIPPED]
        mixed: Tensor = self.maps["o"](scores.softmax(-1) @ self.maps["v"](x))
        return mixed


class Model(nn.Module):
    """Tokens b l → logits b l v."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(TOKENS, config.width)
        self.learned = nn.Parameter(torch.randn(2 * LENGTH, config.width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.last = nn.LayerNorm(config.width) if config.norms == "pre" else nn.Identity()
        self.head = nn.Linear(config.width, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.places(tokens.shape[1])
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.last(x))
        return logits

    def places(self, length: int) -> Tensor:
        """Return the encodings of positions, l d."""
        width = self.config.width
        if self.config.positions == "learned":
            return self.learned[:length]
        if self.config.positions != "sinusoids":
            return torch.zeros(length, width)
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


@contextmanager
def seeded(seed: int) -> Iterator[Generator]:
    """Seed the weights of models that the block makes; the generator is for their training data."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield Generator().manual_seed(seed + 1000)


def sequences(random: Generator, length: int = LENGTH, count: int = BATCH) -> Tensor:
    """Random tokens, b l."""
    return torch.randint(TOKENS, (count, length), generator=random)


def loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """The cross-entropy of previous tokens, in nats."""
    return functional.cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())


def train(model: nn.Module, random: Generator, steps: int, rate: float, batch: int = BATCH) -> list[float]:
    """Train with Adam on fresh sequences, and return the loss of each step."""
    optimiser, losses = torch.optim.Adam(model.parameters(), rate), []
    for _ in range(steps):
        step_loss = loss(model, sequences(random, count=batch))
        optimiser.zero_grad()
        step_loss.backward()
        optimiser.step()
        losses.append(float(step_loss.detach()))
    return losses


def accuracy(model: nn.Module, random: Generator, length: int = LENGTH) -> float:
    """The share of correct tokens, on fresh sequences."""
    tokens = sequences(random, length, 256)
    with torch.no_grad():
        return float((model(tokens)[:, 1:].argmax(-1) == tokens[:, :-1]).double().mean())


STEPS, RATE = 200, 0.01


@cache
def _accuracies(positions: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The accuracy at the training length and at twice that, by seed."""
    shares = []
    for seed in range(SEEDS):
        with seeded(seed) as random:
            model = Model(SmallConfig(positions))
            train(model, random, STEPS, RATE)
            shares.append((accuracy(model, random), accuracy(model, random, 2 * LENGTH)))
    once, twice = zip(*shares, strict=True)
    return once, twice


def shift_learned(positions: str, times: int) -> MeasuredValue:
    """The accuracy at this multiple of the training length."""
    length = f"sequences of {times * LENGTH} (trained on {LENGTH})"
    return sampled(_accuracies(positions)[times - 1], f"{SEEDS} seeds, {STEPS} steps, {TOKENS} tokens, {length}")


@cache
def _mean_loss(config: SmallConfig, seed: int) -> float:
    """The mean loss of 60 steps, with the better of two learning rates."""
    means = []
    for rate in (0.001, 0.003):
        with seeded(seed) as random:
            means.append(fmean(train(Model(config), random, 60, rate, 32)))
    return min(means)


def loss_of_deep_models(**changed: Any) -> MeasuredValue:
    """The mean loss of a changed model of six blocks ÷ that of the usual one, by seed."""
    usual = SmallConfig(blocks=6)
    pairs = [(_mean_loss(replace(usual, **changed), seed), _mean_loss(usual, seed)) for seed in range(SEEDS)]
    other, deep = map(fmean, zip(*pairs, strict=True))
    detail = f"{SEEDS} seeds, 6 blocks, 60 steps, mean loss {other:.3f}, otherwise {deep:.3f}"
    return sampled([first / second for first, second in pairs], detail)


# Heads of a trained translator

CHOOSING = 200
"""Training sentences that choose the least and the most important head; held-out sentences judge them."""
Weights = Mapping[str, Tensor]
Pair = tuple[str, str]
Head = tuple[str, int]
"""The attention and the number of a head."""
Importance = Mapping[Head, tuple[Tensor, Tensor]]
"""The change of losses without a head, in nats: of the sentences that choose heads, and of held-out ones."""


def heads(config: Mapping[str, int]) -> list[Head]:
    """All heads of a Transformer."""
    attentions = [f"encoder.{block}.attention" for block in range(config["encoder_blocks"])]
    for block in range(config["decoder_blocks"]):
        attentions += [f"decoder.{block}.{name}" for name in ("self_attention", "cross_attention")]
    return [(attention, head) for attention in attentions for head in range(config["heads"])]


def without(weights: Weights, attention: str, head: int, count: int) -> dict[str, Tensor]:
    """The weights without one head of `count`: its rows of the output map are 0."""
    name = f"{attention}.w_output"
    changed = weights[name].clone()
    changed.unflatten(0, (count, -1))[head] = 0
    return {**weights, name: changed}


def _losses(config: Mapping[str, int], weights: Weights, rows: Sequence[Tensor], padding: int) -> Tensor:
    """The mean loss of each sentence's tokens, in nats, after the reference's previous tokens."""
    source, lengths, decoder_input, next_tokens = rows
    with torch.no_grad():
        logits = transformer(config, weights)(source, lengths, decoder_input)
    by_token = functional.cross_entropy(logits.mT, next_tokens, ignore_index=padding, reduction="none")  # b t
    return by_token.sum(1) / (next_tokens != padding).sum(1)


def _rows(by: Translator, pairs: Sequence[Pair]) -> list[Tensor]:
    source, lengths = by.source.rows([tokens(sentence) for sentence, _ in pairs], by.steps)
    target, _ = by.target.rows([tokens(sentence) for _, sentence in pairs], by.steps + 1, begin=True)
    return [source, lengths, target[:, :-1], target[:, 1:]]


@cache
def importance() -> Importance:
    """The change of each sentence's loss without each head."""
    by = translator("transformer", 0)
    choosing, judging = divided()
    sets, padding = [_rows(by, pairs) for pairs in (choosing[:CHOOSING], judging)], by.target[PAD]
    whole = [_losses(by.config, by.weights, rows, padding) for rows in sets]
    changes = {}
    for head in heads(by.config):
        weights = without(by.weights, *head, by.config["heads"])
        choosing_change, judging_change = (
            _losses(by.config, weights, rows, padding) - w for rows, w in zip(sets, whole, strict=True)
        )
        changes[head] = choosing_change, judging_change
    return changes


def ranked(importance: Importance) -> list[Head]:
    """The heads by the choosing sentences, the least important first."""
    return sorted(importance, key=lambda head: float(importance[head][0].mean()))


def least_important(changes: Importance | None = None) -> MeasuredValue:
    """The change of held-out sentences' loss without the least important head."""
    changes = changes or importance()
    head = ranked(changes)[0]
    return sampled(changes[head][1].tolist(), f"head {head[1]} of {head[0]}")


def difference_of_heads(changes: Importance | None = None) -> MeasuredValue:
    """The change of held-out sentences' loss without the most important head, minus that without the least."""
    changes = changes or importance()
    first, *_, last = ranked(changes)
    detail = f"head {last[1]} of {last[0]} and head {first[1]} of {first[0]}"
    means = {f"{name} {head}": float(held_out.mean()) for (name, head), (_, held_out) in changes.items()}
    return sampled((changes[last][1] - changes[first][1]).tolist(), detail, means)


def _bleu(by: Translator, weights: Weights, pairs: Sequence[Pair]) -> list[float]:
    """BLEU of each sentence, translated greedily with these weights."""
    source, lengths, _, _ = _rows(by, pairs)
    with torch.no_grad():
        numbers = greedy(transformer(by.config, weights), source, lengths, by.target, by.steps)
    words = [by.target.sentence(row) for row in numbers.tolist()]
    return [bleu(translation, tokens(reference)) for translation, (_, reference) in zip(words, pairs, strict=True)]


def score_without_head() -> MeasuredValue:
    """The change of held-out sentences' BLEU without the least important head."""
    by, (_, pairs), least = translator("transformer", 0), divided(), ranked(importance())[0]
    scores = {h: _bleu(by, without(by.weights, *h, by.config["heads"]), pairs) for h in heads(by.config)}
    whole = _bleu(by, by.weights, pairs)
    means = {"all": fmean(whole)} | {f"without {h[0]} {h[1]}": fmean(values) for h, values in scores.items()}
    changes = [score - baseline for score, baseline in zip(scores[least], whole, strict=True)]
    return sampled(changes, f"head {least[1]} of {least[0]}; mean BLEU of held-out sentences", means)
