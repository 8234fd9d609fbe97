"""The inputs of a call are read before it, so that in a proof they lie where those of a sample do: in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from suite.measure.clock import largest_cache
from suite.measure.one_thread import one_thread
from suite.uncollected import uncollected

PASSES = 3
"""Times that inputs are fetched to know how long it takes: the median counts."""


def fetch(inputs: Iterable[Tensor]) -> None:
    """Read the inputs of a call on a CPU whose largest cache holds them all: others no sample finds there either."""
    here = [tensor for tensor in inputs if tensor.device.type == "cpu"]
    if sum(tensor.nbytes for tensor in here) <= largest_cache():
        with one_thread(), torch.no_grad():
            for tensor in here:
                tensor.sum()


class Fetching:
    """What it takes to fetch inputs that were not used last, by the clock of this process.

    `inputs` are those that are new in each call, by name; of those without data the sizes are enough.
    """

    def __init__(self, inputs: Mapping[str, Tensor]) -> None:
        self._inputs = inputs
        self._known: dict[int, float] = {}
        """By the number of calls."""

    def seconds(self, calls: int, anew: bool = False) -> float:
        """Seconds for the inputs of one call, where those of so many calls are fetched by turns."""
        if anew or calls not in self._known:
            self._known[calls] = self._measured(calls)
        return self._known[calls]

    def _measured(self, calls: int) -> float:
        with one_thread(), uncollected():
            made = [[torch.ones_like(each, device="cpu") for each in self._inputs.values()] for _ in range(calls)]
            times = []
            for _ in range(PASSES):
                started = perf_counter()
                for inputs in made:
                    fetch(inputs)
                times.append((perf_counter() - started) / calls)
        return median(times)
