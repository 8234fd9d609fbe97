"""Environment, cores and services of a benchmark's processes, available before the slow import of PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.contracts import modules_of_workloads
from attnsuite.model import UsageError
from attnsuite.worker.allocator import KEEPS
from attnsuite.worker.forkserver import prewarm

BENCH = "attnsuite.benchmark.measure.bench"
"""The module of the services of timed processes, and of those that measure memory."""
FOR_GRADIENTS = "torch.fx.experimental.symbolic_shapes"
"""The module that PyTorch imports for its first gradient, with sympy: it takes 0.4 s, for which forward calls need not
wait."""
MEASURED = KEEPS
"""Environment of these processes. By default glibc begins to reuse freed blocks of up to 32 MiB at a time that
depends on the heap: two processes of the same code then differ by up to 2 times. Measurements of memory return freed
blocks instead."""
NUMBER = "ATTNSUITE_PROCESS"
"""The variable that numbers the timed processes of an implementation after the first. Each number has a fork server
of its own, and so other memory addresses of PyTorch."""


def prewarm_benchmark(threads: int, contracts: Iterable[str], processes: int = 1, gradients: bool = False) -> None:
    """Begin, in the background, the imports of the fork servers for processes with `threads` threads.

    `contracts` are those whose workloads will be timed, `gradients` whether gradients will be.
    """
    modules = [*modules_of_workloads(dict.fromkeys(contracts)), *[FOR_GRADIENTS] * gradients]
    for place, environment in enumerate(map(timed_as, range(processes))):
        prewarm({**environment, **with_threads(threads)}, cores_of(threads, place), BENCH, modules)


def timed_as(number: int) -> Mapping[str, str]:
    """The environment of one of the timed processes, counted from 0."""
    return {**MEASURED, NUMBER: str(number)} if number else MEASURED


def check_threads(counts: Iterable[int]) -> None:
    """Raise UsageError for more threads than this machine has available cores, and for 0."""
    for threads in counts:
        if not 1 <= threads <= len(cores()):
            raise UsageError(
                f"--threads {threads} is out of range; this machine has 1 to {len(cores())} available cores"
            )


def with_threads(threads: int) -> dict[str, str]:
    """The variables that set libraries' numbers of threads; none for 0."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) if threads else {}


def cores_of(threads: int, place: int) -> list[int]:
    """As many neighbouring cores as threads: the last ones for place 0, those before them for place 1, and so on."""
    available = cores()
    first = (place + 1) * threads
    return [available[(number - first) % len(available)] for number in range(threads)]


def cores() -> list[int]:
    """The system's numbers of the cores that this process may use, one thread of each physical core."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(psutil.cpu_count(logical=False) or psutil.cpu_count() or 1))
    first: dict[str, int] = {}
    for core in sorted(os.sched_getaffinity(0)):
        first.setdefault(_siblings(core), core)
    return list(first.values())


def _siblings(core: int) -> str:
    """The system's name of the physical core of a logical core; the core's own number if unknown."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)


def cpu_seconds(process: int | None = None) -> float:
    """Processor time in seconds of a process (by default this one) and its descendants, ended ones included."""
    seconds = 0.0
    with suppress(psutil.Error):  # it has ended
        parent = psutil.Process(process)
        for relative in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                times = relative.cpu_times()
                seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
