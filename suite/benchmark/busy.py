"""The load by other processes while a table was timed, which makes calls longer than truthful claims.

A submission cannot add to it: its processes descend from this one, and their work does not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.benchmark.processes import cores, cpu_seconds
from attnsuite.model.statistics import interval

BUSY = 1.25
"""Slow-down by other processes from which a machine counts as busy. Daemons and a desktop take a few per cent; the
system counts processor time in ticks of up to 10 ms, some per cent of a short table."""
LEAST_FREE = 0.02
"""The share of the cores that is assumed to be free in any case: beyond 50 processes a core the load explains
nothing."""
IDLE = ("idle", "iowait", "guest", "guest_nice")
"""Idle times of a core, and times that the system counts twice."""


@dataclass(frozen=True)
class Load:
    """The average use of the cores by other processes while a table is timed."""

    share: float = 0.0
    """Share of all cores' time, from 0 to 1."""
    cores: int = 1
    average: float = 0.0
    """The system's load average: processes that run or wait for a core, the suite's included."""

    def slowdown(self, threads: int) -> float:
        """The slow-down of a call on `threads` threads by the load; 1 on an idle machine."""
        free = max(1 - self.share, LEAST_FREE) * self.cores
        times = min(max(1, threads), self.cores) / free
        return times if times >= BUSY else 1.0

    def note(self, threads: int) -> str:
        """A note that the machine was busy; empty if it was not."""
        if self.slowdown(threads) == 1:
            return ""
        return f"the machine was busy (load {self.average:.0f} on {self.cores} core{'s' * (self.cores != 1)})"


@dataclass(frozen=True)
class Disturbance:
    """Why a call may take longer than a truthful claim: other processes, or a machine of unsteady speed."""

    load: Callable[[], Load] = Load
    """Measures the load since the table began."""
    baseline: Sequence[float] = ()
    """Samples of the trusted baseline, in seconds."""

    def explains(self, times: float, most: float, threads: int) -> str:
        """Why a true claim may be off by a factor of `times`, if `most` is allowed on an idle machine; or empty."""
        load = self.load()
        return load.note(threads) if times <= most * load.slowdown(threads) else self._unsteady(times)

    def busy(self, threads: int) -> str:
        """A note that the machine was busy; empty if it was not."""
        return self.load().note(threads)

    def _unsteady(self, times: float) -> str:
        if len(self.baseline) < 2:
            return ""
        own = interval(self.baseline)
        if own.low <= 0 or times > own.high / own.low:  # too few samples explain nothing
            return ""
        below, above = 1 - own.low / own.median, own.high / own.median - 1
        return f"the machine was unsteady (the baseline's own interval is −{100 * below:.0f} % +{100 * above:.0f} %)"


class LoadMeter:
    """Measures the use of the cores by other processes from now on: all processor time but the suite's own.

    Processor time that the hypervisor gives to another machine counts, too.
    """

    def __init__(self) -> None:
        self._logical = _allowed()
        self._started, self._used_before = monotonic(), self._used_by_others()

    def load(self) -> Load:
        """The load since construction; no load if the system does not report it."""
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        whole = (monotonic() - self._started) * len(self._logical)
        share = (self._used_by_others() - self._used_before) / whole if whole > 0 else 0.0
        return Load(min(1.0, max(0.0, share)), len(cores()), average)

    def _used_by_others(self) -> float:
        """Seconds of processor time on these cores that other processes have used since the system started."""
        cores_times = psutil.cpu_times(percpu=True)
        used = [cores_times[core] for core in self._logical if core < len(cores_times)]
        return sum(sum(times) - sum(getattr(times, name, 0.0) for name in IDLE) for times in used) - cpu_seconds()


def _allowed() -> list[int]:
    """The logical cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(psutil.cpu_count() or 1))
