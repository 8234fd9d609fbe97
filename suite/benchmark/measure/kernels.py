"""The operators or kernels that a call runs, from PyTorch's profiler."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile  # torch.profiler is the same, and takes a second to start

NAMED, SMALLEST_SHARE = 3, 0.05
"""Operators or kernels that are named at most, to fit into a cell of a table, and the smallest share of one."""
SMALLEST_SEEN = 0.3
"""If a CPU's operators take less than this share of the call, another library did the work, which the profiler does
not record."""
PROFILED_SECONDS, MAX_PROFILES = 0.1, 20
"""Seconds of profiled calls, and their largest number. The shortest call counts, because an interruption may take
longer than a call."""


def kernels(call: Callable[[], Any], device: str) -> str:
    """The operators or kernels with the longest own time, in descending order, with their shares.

    Empty if the profiler records nothing. On CUDA it is Kineto's: PyTorch's own times operators by events, and records
    only PyTorch's kernels.
    """
    profiles = [_profiled(call, device)]
    while sum(elapsed for elapsed, _ in profiles) < PROFILED_SECONDS and len(profiles) < MAX_PROFILES:
        profiles.append(_profiled(call, device))
    elapsed, seen = min(profiles, key=lambda pair: pair[0])
    on_cuda = torch.device(device).type == "cuda"
    events = seen.kineto_results.events() if seen.kineto_results else ()
    times = device_times(events) if on_cuda else own_times(events)
    total = sum(times.values())
    if not total or (not on_cuda and total < SMALLEST_SEEN * elapsed * 1e6):
        return ""
    longest = sorted(times, key=lambda name: -times[name])[:NAMED]
    return ", ".join(f"{name} {times[name] / total:.0%}" for name in longest if times[name] >= SMALLEST_SHARE * total)


def _profiled(call: Callable[[], Any], device: str) -> tuple[float, profile]:
    """The seconds of a call, and its profile."""
    on_cuda = torch.device(device).type == "cuda"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(use_device="cuda", use_kineto=True) if on_cuda else profile() as seen:
            started = perf_counter()
            call()
            if on_cuda:
                torch.cuda.synchronize(device)
            elapsed = perf_counter() - started
    return elapsed, seen


def device_times(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds of each kernel, by name, without the operators that launch them and marks around them."""
    times: dict[str, float] = defaultdict(float)
    for event in events:
        if event.device_type() == DeviceType.CUDA and not event.is_user_annotation():
            times[_short(event.name())] += event.duration_ns() / 1000
    return times


def _short(kernel: str) -> str:
    """The kernel's name without C++'s return type, templates and parameters."""
    name = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return name.partition("<")[0].partition("(")[0].strip() or kernel


def own_times(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds of operators, by name, without those that they called.

    The profiler's own table has the same numbers. With many operators it takes longer than the call.
    """
    times: dict[str, float] = defaultdict(float)
    within: list[tuple[int, int, str]] = []  # the operators that are running: thread, end, name
    spans = [(event.start_thread_id(), event.start_ns(), -event.duration_ns(), event.name()) for event in events]
    for thread, start, minus, name in sorted(spans):
        while within and (within[-1][0] != thread or within[-1][1] <= start):
            within.pop()
        if within:
            times[within[-1][2]] += minus / 1000
        times[name] -= minus / 1000
        within.append((thread, start - minus, name))
    return times
