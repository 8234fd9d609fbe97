"""Comparison with other stopwatches: torch.utils.benchmark on a CPU, Triton's do_bench on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.utils.benchmark import Timer

from attnsuite.benchmark.measure import Stopwatch, calls_per_sample
from attnsuite.cases import Workload
from attnsuite.implementations.attention import matmul, torch_sdpa
from attnsuite.model.audit import Agreement

TORCH, TRITON = "torch.utils.benchmark", "triton.testing.do_bench"
"""The other stopwatches by name."""
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "attention/matmul": matmul.attention,
    "attention/torch_sdpa.flash": torch_sdpa.flash,
}
FEWEST_PAIRS = 12
"""Pairs at least, for any budget: the median of fewer is imprecise."""
BLOCK = 5
"""Milliseconds of calls in one block of Triton's, and of its warm-up before: as long as our samples."""

Time = Callable[[], float]
"""Seconds of one call, timed now."""


def with_torch(workloads: Sequence[Workload], budget: float, random: Random) -> Iterator[Agreement]:
    """Wall time on one thread of this process, caches hot. `budget` is in seconds for each callable."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for workload, name, call in _callables(workloads, "cpu", "float32"):
            stopwatch = Stopwatch(call)
            _, expected = stopwatch.warm_up()
            calls = calls_per_sample(expected)
            timer = Timer("call(None)", globals={"call": call})
            ours, theirs = partial(_warm, stopwatch, calls, expected), partial(_timed, timer, calls)
            yield _agreement(TORCH, "cpu", name, workload.name, pairs(ours, theirs, budget, random))
    finally:
        torch.set_num_threads(before)


def with_triton(workloads: Sequence[Workload], budget: float, random: Random) -> Iterator[Agreement]:
    """Time on a CUDA device, which both measure with events and a flushed cache. See `no_triton`."""
    from triton.testing import do_bench  # type: ignore[import-not-found, unused-ignore]  # it is there with CUDA

    for workload, name, call in _callables(workloads, "cuda", "bfloat16"):
        stopwatch = Stopwatch(call, device="cuda", cache="cold")
        _, expected = stopwatch.warm_up()
        ours = partial(stopwatch.sample, calls_per_sample(expected))
        theirs = partial(_benched, do_bench, partial(call, None))
        yield _agreement(TRITON, "cuda", name, workload.name, pairs(ours, theirs, budget, random))


def no_triton() -> str:
    """Why Triton's stopwatch is unavailable, or empty."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    return "" if find_spec("triton") else "No module named 'triton'"


def pairs(ours: Time, theirs: Time, budget: float, random: Random) -> list[tuple[float, float]]:
    """Pairs of both times, measured in direct succession in random order, until the budget is spent."""
    times: list[tuple[float, float]] = []
    until = perf_counter() + budget
    while len(times) < FEWEST_PAIRS or perf_counter() < until:
        pair = {clock: clock() for clock in random.sample((ours, theirs), 2)}
        times.append((pair[ours], pair[theirs]))
    return times


def _callables(
    workloads: Sequence[Workload], device: str, dtype: str
) -> Iterator[tuple[Workload, str, Callable[[Any], Any]]]:
    """Each workload with each implementation, as a callable with bound inputs that ignores its argument."""
    for workload in workloads:
        call = workload.call(dtype)
        inputs = {name: tensor.to(device) for name, tensor in call.tensors.items()}
        for name, function in FUNCTIONS.items():
            yield workload, name, partial(_called, partial(function, **inputs, **call.options))


def _called(function: Callable[[], Any], _: Any) -> Any:
    with torch.no_grad():
        return function()


def _warm(stopwatch: Stopwatch, calls: int, expected: float) -> float:
    stopwatch.warm(expected)
    return stopwatch.sample(calls)


def _timed(timer: Timer, calls: int) -> float:
    return float(timer.timeit(calls).median)


def _benched(do_bench: Callable[..., float], call: Callable[[], Any]) -> float:
    return float(do_bench(call, warmup=BLOCK, rep=BLOCK)) / 1000


def _agreement(
    tool: str, device: str, implementation: str, workload: str, times: Sequence[tuple[float, float]]
) -> Agreement:
    seconds, ratio = median(ours for ours, _ in times), median(ours / theirs for ours, theirs in times)
    return Agreement(tool, device, implementation, workload, seconds, ratio, len(times))
