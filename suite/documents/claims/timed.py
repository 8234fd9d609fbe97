"""Claims about time: two computations in alternating rounds on one thread, and the median of the rounds' ratios."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from attnsuite.benchmark.measure import Stopwatch
from attnsuite.contracts.sources import documents
from attnsuite.documents.claims import MeasuredValue, sampled
from attnsuite.documents.claims.layers import scores
from attnsuite.implementations.attention_scores import loops, matmul
from attnsuite.implementations.multi_head_attention import split_heads, stacked_heads

ROUNDS = 25
"""Rounds: the interval of a median leaves out six of them on either side."""
Call = Callable[[], Any]


def ratio(slower: Call, faster: Call) -> MeasuredValue:
    """The time of one call as a multiple of the other's, round by round; the order of the two alternates."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            clocks = [Stopwatch(partial(_called, call)) for call in (slower, faster)]
            pace = [clock.pace(clock.warm_up()[1]) for clock in clocks]
            seconds = [_round(clocks, pace, number % 2 == 1) for number in range(ROUNDS)]
    finally:
        torch.set_num_threads(threads)
    medians = [sorted(column)[ROUNDS // 2] for column in zip(*seconds, strict=True)]
    detail = f"{ROUNDS} rounds, {medians[0] * 1e6:.3g} and {medians[1] * 1e6:.3g} µs on one thread"
    return sampled([one / other for one, other in seconds], detail)


def _called(call: Call, _: Any) -> Any:
    return call()


def _round(clocks: list[Stopwatch], pace: list[tuple[int, float]], reverse: bool) -> tuple[float, float]:
    seconds = [0.0, 0.0]
    for place in (1, 0) if reverse else (0, 1):
        calls, expected = pace[place]
        clocks[place].warm(expected)
        seconds[place] = clocks[place].sample(calls)
    return seconds[0], seconds[1]


def distances() -> MeasuredValue:
    """Scores by distance ÷ scores by dot products, at the sizes of layers.py.

    Distances are computed in the cheapest known way, from the dot products and both norms.
    """
    dot = scores("dot")
    query, key = dot.args  # type: ignore[attr-defined]

    def distance() -> Tensor:
        norms = key.square().sum(-1)[..., None, :] + query.square().sum(-1, keepdim=True)
        return dot() - norms / 2  # type: ignore[no-any-return]

    return ratio(distance, dot)


def python_loops() -> MeasuredValue:
    """The document's 6 × 6 scores in Python's loops ÷ those of one matrix product."""
    x = torch.tensor(documents.examples()["doc-003/3.3.2-simple-self-attention"].inputs["query"])
    return ratio(*(partial(module.attention_scores, x, x, score="dot") for module in (loops, matmul)))


BATCH, LENGTH, WIDTH, HEADS = 8, 64, 64, 8
"""The sizes of heads: eight of width 8, for eight sentences of 64 tokens."""


def heads() -> MeasuredValue:
    """Heads one after the other ÷ heads that share one product, both causal."""
    random = Generator().manual_seed(6)
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=random)
    maps = [torch.randn(WIDTH, WIDTH, generator=random) / WIDTH**0.5 for _ in range(3)]
    modules = (stacked_heads, split_heads)
    return ratio(*(partial(m.multi_head_attention, x, x, x, *maps, num_heads=HEADS, is_causal=True) for m in modules))
