"""The computations whose cost the documents speak of, and claims about their time: ratios, and powers of a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from attnsuite.benchmark.measure import FEWEST, Stopwatch
from attnsuite.contracts.models.seq2seq_attention.contract import shapes as recurrent_shapes
from attnsuite.contracts.models.vision_transformer.contract import shapes as vision_shapes
from attnsuite.documents.claims import Measured, sampled
from attnsuite.implementations.attention_scores.matmul import attention_scores
from attnsuite.implementations.seq2seq_attention.eager import seq2seq_attention
from attnsuite.implementations.vision_transformer.eager import vision_transformer
from attnsuite.model.statistics import exponent

Layer = Callable[[Tensor], Tensor]

# The stopwatch

BUDGET = 2.0
"""Seconds of rounds for each call. At least FEWEST rounds are made; every call has its turn in each round."""
MOST_ROUNDS = 40
"""Rounds at most: with 40 samples, the interval of a median leaves out a third of the samples on either side."""


def times(calls: Mapping[str, Callable[[], Any]], budget: float = BUDGET) -> dict[str, list[float]]:
    """Seconds of each call, round by round in random order, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        paced = {name: _Paced(call) for name, call in calls.items()}
        random, seconds = Random(0), {name: list[float]() for name in paced}
        end, rounds = perf_counter() + budget * len(paced), 0
        while rounds < FEWEST or (perf_counter() < end and rounds < MOST_ROUNDS):
            for name in random.sample(list(paced), len(paced)):
                seconds[name].append(paced[name].sample())
            rounds += 1
        return seconds
    finally:
        torch.set_num_threads(threads)


class _Paced:
    """A call that is warmed up, and how many calls make a sample."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._stopwatch = Stopwatch(lambda _: call())
        self._stopwatch.first_call()
        self._calls, self._expected = self._stopwatch.pace(self._stopwatch.warm_up()[1])

    def sample(self) -> float:
        self._stopwatch.warm(self._expected)
        return self._stopwatch.sample(self._calls)


def ratio(slower: str, faster: str, seconds: Mapping[str, Sequence[float]]) -> Measured:
    """The time of one call as a multiple of the other's, within each round."""
    pairs = zip(seconds[slower], seconds[faster], strict=True)
    return sampled([one / other for one, other in pairs], numbers=_medians(seconds))


def power_of(sizes: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> Measured:
    """The power of the size by which times grow, fitted within each round. Calls are named by their size."""
    rounds = zip(*(seconds[str(size)] for size in sizes), strict=True)
    powers = [power for round_ in rounds if (power := exponent(sizes, round_)) is not None]
    return sampled(powers, f"sizes {', '.join(map(str, sizes))}", _medians(seconds))


def _medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: sorted(samples)[len(samples) // 2] for name, samples in seconds.items()}


# Three layers that doc-004, section 11.6.2, compares: each maps n vectors of width d to n vectors of width d


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer."""

    length: int = 64
    width: int = 64
    kernel: int = 3


def inputs(sizes: Sizes, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers that every layer takes, n d."""
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
    """Weights above 0, so that no two ways from an input to an output cancel."""
    return torch.rand(*shape, generator=Generator().manual_seed(2), dtype=dtype) + 0.5


LAYERS = {"convolution": convolution, "recurrence": recurrence, "self_attention": self_attention}
TIMED = {
    ("convolution", "length"): (Sizes(width=128), (512, 1024, 2048, 4096)),
    ("convolution", "width"): (Sizes(length=512), (64, 128, 256, 512)),
    ("convolution", "kernel"): (Sizes(length=1024, width=128), (3, 7, 15, 31)),
    ("recurrence", "length"): (Sizes(width=256), (16, 32, 64, 128)),
    ("recurrence", "width"): (Sizes(length=16), (192, 384, 768)),
    ("self_attention", "length"): (Sizes(width=128), (256, 512, 1024, 2048)),
    ("self_attention", "width"): (Sizes(length=768), (128, 256, 512, 1024)),
}
"""The sizes that are timed. Matrix products, and not the calls themselves, take the time; the largest call takes some
tens of milliseconds; its weights, at most 5 MB, stay in a cache."""


def growth_of_time(layer: str, variable: str) -> Measured:
    """The power of a size by which the time of a layer's forward pass grows."""
    base, sizes = TIMED[layer, variable]
    varied = {str(size): replace(base, **{variable: size}) for size in sizes}
    with torch.no_grad():
        calls = {name: partial(LAYERS[layer](size), inputs(size)) for name, size in varied.items()}
        return power_of(sizes, times(calls, budget=0.4))


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


def time_of_scores() -> Measured:
    """The time of additive scores, as a multiple of that of dot products."""
    with torch.no_grad():
        return ratio("additive", "dot", times({score: scores(score) for score in ("additive", "dot")}))


def decoder(waits: bool, steps: int = STEPS) -> Callable[[], Tensor]:
    """A recurrent decoder with dot-product scores, whose weights require gradients.

    With `waits`, each state needs the context that the state before it attends to, as Bahdanau's does. Otherwise all
    states are computed first, and attend together.
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


def time_of_decoders() -> Measured:
    """The time of a decoder whose recurrence waits for the context, as a multiple of one that attends afterwards."""
    with torch.no_grad():
        return ratio("waits", "follows", times({"waits": decoder(True), "follows": decoder(False)}))


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


def time_of_images(variable: str) -> Measured:
    """The power of the side, or of the number of patches, by which the time of a training step grows."""
    sizes = [side if variable == "side" else patches(side) for side in SIDES]
    calls = {str(size): vision_step(side) for size, side in zip(sizes, SIDES, strict=True)}
    return power_of(sizes, times(calls, budget=1.0))


RECURRENT: Mapping[str, Any] = {
    "source_vocab": 200, "target_vocab": 200, "embedding": 128, "hidden": 128, "layers": 2,
    "score": "additive", "cell": "gru", "window": None,
}  # fmt: skip
"""The document's Bahdanau model at half its width; its batch is a quarter of the document's."""


def recurrent_step(**changed: str) -> Callable[[], Tensor]:
    """A training step of Bahdanau's model on 32 sentences of the document's length, 9 tokens."""
    config, random = {**RECURRENT, **changed}, Generator().manual_seed(24)
    weights = _weights(recurrent_shapes(config), random)
    model, lengths = seq2seq_attention(config, weights), torch.full((32,), 9)
    source, target = (torch.randint(200, (32, 9), generator=random) for _ in range(2))
    return _step(weights, lambda: model(source, lengths, target).flatten(0, 1), target.flatten())


def time_of_recurrent(option: str, slower: str, faster: str) -> Measured:
    """The time of a training step of Bahdanau's model with one choice, as a multiple of that with another."""
    return ratio(slower, faster, times({choice: recurrent_step(**{option: choice}) for choice in (slower, faster)}))
