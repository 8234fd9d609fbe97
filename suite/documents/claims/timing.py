"""Several calls timed side by side by the suite's stopwatch, and what their times say: ratios and powers of a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import perf_counter
from typing import Any

import torch

from attnsuite.benchmark.measure import FEWEST, Stopwatch
from attnsuite.documents.claims.claim import Measured, sampled
from attnsuite.model.statistics import exponent

BUDGET = 2.0
"""Seconds of rounds for each call; at least FEWEST rounds are made, in which every call has its turn."""
MOST_ROUNDS = 40
"""Rounds at most: by then the interval of a median leaves out a third of the samples on either side."""
Timed = Mapping[str, Sequence[float]]
"""Seconds by call: sample i of each is of round i."""


def raced(calls: Mapping[str, Callable[[], Any]], budget: float = BUDGET) -> dict[str, list[float]]:
    """Seconds of each call, round by round in random order, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _raced({name: _Paced(call) for name, call in calls.items()}, budget)
    finally:
        torch.set_num_threads(threads)


def _raced(paced: Mapping[str, _Paced], budget: float) -> dict[str, list[float]]:
    random, found = Random(0), {name: list[float]() for name in paced}
    until, rounds = perf_counter() + budget * len(paced), 0
    while rounds < FEWEST or (perf_counter() < until and rounds < MOST_ROUNDS):
        for name in random.sample(list(paced), len(paced)):
            found[name].append(paced[name].sample())
        rounds += 1
    return found


class _Paced:
    """A call that is warmed up, and how many of it make a sample."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._stopwatch = Stopwatch(lambda _: call())
        self._stopwatch.first_call()
        self._calls, self._expected = self._stopwatch.pace(self._stopwatch.warm_up()[1])

    def sample(self) -> float:
        self._stopwatch.warm(self._expected)
        return self._stopwatch.sample(self._calls)


def ratio(slower: str, faster: str, times: Timed) -> Measured:
    """How many times as long one takes as the other, within each round."""
    pairs = zip(times[slower], times[faster], strict=True)
    return sampled([one / other for one, other in pairs], numbers=fastest(times))


def power_of(sizes: Sequence[int], times: Timed) -> Measured:
    """The power of the size by which times grow, fitted within each round. Calls are named by their size."""
    rounds = zip(*(times[str(size)] for size in sizes), strict=True)
    powers = [found for seconds in rounds if (found := exponent(sizes, seconds)) is not None]
    return sampled(powers, f"sizes {', '.join(map(str, sizes))}", fastest(times))


def fastest(times: Timed) -> dict[str, float]:
    """The median seconds of each call."""
    return {name: sorted(seconds)[len(seconds) // 2] for name, seconds in times.items()}
