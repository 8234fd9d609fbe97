"""The operators or kernels that a call really runs, as PyTorch's profiler sees them."""

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
"""Operators or kernels are named at most so many, which fit into a cell of a table, and from this share on."""
SMALLEST_SEEN = 0.3
"""Where a CPU's operators take less than this share of the call, another library did the work, unseen by the
profiler."""
LOOKING, MOST_LOOKS = 0.1, 20
"""Seconds of calls that are profiled, and how many at most; of these the shortest counts, for an interruption may
take longer than a call."""


def kernels(call: Callable[[], Any], device: str) -> str:
    """The operators or kernels that take longest by themselves, the longest first, with their shares.

    Empty where the profiler sees nothing. On CUDA it is Kineto's: PyTorch's own times operators by events, and sees no
    kernel that is not PyTorch's.
    """
    looks = [_look(call, device)]
    while sum(wall for wall, _ in looks) < LOOKING and len(looks) < MOST_LOOKS:
        looks.append(_look(call, device))
    wall, seen = min(looks, key=lambda look: look[0])
    on_cuda = torch.device(device).type == "cuda"
    events = seen.kineto_results.events() if seen.kineto_results else ()
    times = device_times(events) if on_cuda else own_times(events)
    total = sum(times.values())
    if not total or (not on_cuda and total < SMALLEST_SEEN * wall * 1e6):
        return ""
    longest = sorted(times, key=lambda name: -times[name])[:NAMED]
    return ", ".join(f"{name} {times[name] / total:.0%}" for name in longest if times[name] >= SMALLEST_SHARE * total)


def _look(call: Callable[[], Any], device: str) -> tuple[float, profile]:
    """The seconds of a call, and what the profiler saw of it."""
    on_cuda = torch.device(device).type == "cuda"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(use_device="cuda", use_kineto=True) if on_cuda else profile() as seen:
            started = perf_counter()
            call()
            if on_cuda:
                torch.cuda.synchronize(device)
            wall = perf_counter() - started
    return wall, seen


def device_times(events: Iterable[Any]) -> dict[str, float]:
    """Microseconds of each kernel, by name. Operators, which only launch them, and marks around them are left out."""
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
    """Microseconds that operators took without those that they called, by name.

    The profiler's own table says the same, but for many operators it takes longer than the call that ran them.
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
