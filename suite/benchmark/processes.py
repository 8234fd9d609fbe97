"""What the processes of a benchmark are started with: known before PyTorch is imported, which takes longest of all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.contracts import rooms_of_workloads
from attnsuite.model import UsageError
from attnsuite.worker import expect
from attnsuite.worker.allocator import KEEPS

BENCH, BENCH_OF_GRADIENTS = "attnsuite.benchmark.measure.bench", "attnsuite.benchmark.measure.bench_of_gradients"
"""The modules of what answers in a process that is timed or weighed."""
MEASURED = KEEPS
"""Environment of a process that is timed or weighed. By default glibc starts to reuse freed blocks of up to 32 MiB
sooner or later, depending on how the heap lies: two processes of the same code then differ by up to 2 times, all their
lives. One that is weighed gives freed memory back from its first question on."""
NUMBER = "ATTNSUITE_PROCESS"
"""The variable that says which of an implementation's timed processes one is, of those after the first: each number has
a server of its own to be forked from, so that where PyTorch lies in memory is drawn anew."""


def expect_measured(threads: int, contracts: Iterable[str], processes: int = 1, gradients: bool = False) -> None:
    """Begin in the background to import what processes with so many threads are forked from: the timed and the weighed.

    `contracts` are those of which workloads will be timed, and `gradients` is whether not only forward calls will be.
    """
    rooms = rooms_of_workloads(dict.fromkeys(contracts))
    for place, environment in enumerate(map(timed_as, range(processes))):
        expect({**environment, **with_threads(threads)}, cores_of(threads, place), service(gradients), rooms)


def service(gradients: bool, weighs: bool = False) -> str:
    """What such a process begins with, by whether not only forward calls are timed, and whether it weighs them."""
    return f"{BENCH_OF_GRADIENTS if gradients else BENCH}:{'begin_to_weigh' if weighs else 'begin'}"


def timed_as(number: int) -> Mapping[str, str]:
    """The environment of one of the processes that are timed, counted from 0."""
    return {**MEASURED, NUMBER: str(number)} if number else MEASURED


def check_threads(asked: Iterable[int]) -> None:
    """Raise UsageError for more threads than this machine has cores to give, and for none."""
    for threads in asked:
        if not 1 <= threads <= len(cores()):
            raise UsageError(f"{threads} threads were asked for; this machine has 1 to {len(cores())} cores to give")


def with_threads(threads: int) -> dict[str, str]:
    """The variables that tell libraries how many threads to start; none where their number is not set."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(threads)) if threads else {}


def cores_of(threads: int, place: int) -> list[int]:
    """As many neighbouring cores as there are threads, the last ones for place 0, the ones before for place 1, and so
    on.

    None where the number of threads is not set.
    """
    every = cores()
    first = (place + 1) * threads
    return [every[(each - first) % len(every)] for each in range(threads)]


def taken_by(threads: int) -> list[int]:
    """The cores that processes with so many threads are timed on, then those on which whoever asks them may run."""
    return [*cores_of(threads, 0), *cores()]


def kept_awake(threads: int) -> list[int]:
    """The cores that are kept awake while calls with so many threads are asked for one by one; none for several.

    These wake each other, and where something spins on every core the system lets two of them wait for one: calls of
    0.1 ms on both of two cores took 9 to 27 times as long so, and 1.05 to 1.8 times where the cores may fall asleep.
    """
    return taken_by(threads) if threads == 1 else []


def cores() -> list[int]:
    """The cores that this process may use, one of each physical core's threads, as the system numbers them."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(psutil.cpu_count(logical=False) or psutil.cpu_count() or 1))
    first: dict[str, int] = {}
    for core in sorted(os.sched_getaffinity(0)):
        first.setdefault(_siblings(core), core)
    return list(first.values())


def _siblings(core: int) -> str:
    """The threads of a core's physical core, in the system's words; where it says nothing, the core itself."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)
