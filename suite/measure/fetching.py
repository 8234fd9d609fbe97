"""The inputs of a call are read before it, so that in a proof they lie where those of a sample do: in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from time import perf_counter

import torch
from torch import Tensor

from suite.asking import Workload
from suite.measure.clock import largest_cache
from suite.measure.one_thread import one_thread
from suite.uncollected import uncollected

PASSES = 3
"""Times that inputs are fetched to know how long it takes. The shortest counts: what disturbs one only adds to it."""


def fetch(inputs: Iterable[Tensor]) -> None:
    """Read the inputs of a call on a CPU whose largest cache holds them all: others no sample finds there either."""
    here = [tensor for tensor in inputs if tensor.device.type == "cpu"]
    if sum(tensor.nbytes for tensor in here) <= largest_cache():
        with one_thread(), torch.no_grad():
            for tensor in here:
                tensor.sum()


class Fetching:
    """What it takes to fetch the inputs of a workload that are new in each call, by the clock of this process."""

    def __init__(self, workload: Workload, dtype: str, direction: str) -> None:
        self._workload, self._dtype, self._direction = workload, dtype, direction
        self._known: dict[int, float] = {}
        """By the number of calls."""

    def seconds(self, calls: int, anew: bool = False) -> float:
        """Seconds for the inputs of one call, where those of so many calls are fetched by turns."""
        if anew or calls not in self._known:
            self._known[calls] = self._measured(calls)
        return self._known[calls]

    @cached_property
    def _inputs(self) -> Sequence[Tensor]:
        """Inputs of such sizes: to draw their numbers would take longer, and PyTorch loads its compiler for tensors on
        the device `meta`.
        """
        call = self._workload.call(self._dtype, self._direction, device="meta")
        given = {name: torch.zeros((), dtype=each.dtype).expand(each.shape) for name, each in call.tensors.items()}
        with one_thread():
            return list(self._workload.turned(call.__class__(given, call.options), 0).values())

    def _measured(self, calls: int) -> float:
        inputs = self._inputs
        with one_thread(), uncollected():
            made = [[torch.ones_like(each) for each in inputs] for _ in range(calls)]
            times = []
            for _ in range(PASSES):
                started = perf_counter()
                for each in made:
                    fetch(each)
                times.append((perf_counter() - started) / calls)
        return min(times)
