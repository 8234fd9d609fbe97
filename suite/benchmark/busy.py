"""Whether other processes kept the machine busy while a table was timed, so that honest calls took longer than claimed.

A submission cannot make the machine busy: its processes descend from this one, and their work does not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.benchmark.processes import cores
from attnsuite.model.statistics import interval

BUSY = 1.25
"""The machine is busy where a call takes this many times as long on what other processes leave of the cores. Daemons
and a desktop take a few per cent; the system counts processor time in ticks of up to 10 ms, which is some per cent
of a short table."""
LEAST_LEFT = 0.02
"""The share of the cores that is assumed to be left in any case: beyond 50 processes a core nothing is explained."""
IDLE = ("idle", "iowait", "guest", "guest_nice")
"""Times of a core in which it does nothing, or which the system counts twice."""


@dataclass(frozen=True)
class Load:
    """The use of the cores by other processes, on average over a table."""

    share: float = 0.0
    """Of all cores' time, from 0 to 1."""
    cores: int = 1
    average: float = 0.0
    """The system's load average: processes that run or wait for a core, the suite's among them."""

    def slowdown(self, threads: int) -> float:
        """How many times as long a call on so many threads takes on the cores that are left; 1 on an idle machine."""
        left = max(1 - self.share, LEAST_LEFT) * self.cores
        times = min(max(1, threads), self.cores) / left
        return times if times >= BUSY else 1.0

    def says(self, threads: int) -> str:
        """That the machine was busy, in words; empty where it was not."""
        if self.slowdown(threads) == 1:
            return ""
        return f"the machine was busy (load {self.average:.0f} on {self.cores} core{'s' * (self.cores != 1)})"


@dataclass(frozen=True)
class Disturbance:
    """Why an honest call may have taken longer than claimed: other processes, or a machine of unsteady speed."""

    load: Callable[[], Load] = Load
    """Measures the load since the table began."""
    baseline: Sequence[float] = ()
    """Samples of the trusted baseline, in seconds."""

    def explains(self, times: float, most: float, threads: int) -> str:
        """Why a true claim may be off by so many times, where `most` are allowed on an idle machine; empty if nothing
        explains it.
        """
        load = self.load()
        return load.says(threads) if times <= most * load.slowdown(threads) else self._unsteady(times)

    def busy(self, threads: int) -> str:
        """That the machine was busy, in words; empty where it was not."""
        return self.load().says(threads)

    def _unsteady(self, times: float) -> str:
        if len(self.baseline) < 2:
            return ""
        own = interval(self.baseline)
        if own.low <= 0 or times > own.high / own.low:  # too few samples bound nothing, and so explain nothing
            return ""
        below, above = 1 - own.low / own.median, own.high / own.median - 1
        return f"the machine was unsteady (the baseline's own interval is −{100 * below:.0f} % +{100 * above:.0f} %)"


class LoadMeter:
    """Measures the use of the cores by other processes from now on: all processor time but the suite's own.

    Processor time that the hypervisor gave to another machine counts, too.
    """

    def __init__(self) -> None:
        self._logical = _allowed()
        self._began, self._before = monotonic(), self._others()

    def load(self) -> Load:
        """The load since then; none where the system does not tell."""
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        whole = (monotonic() - self._began) * len(self._logical)
        share = (self._others() - self._before) / whole if whole > 0 else 0.0
        return Load(min(1.0, max(0.0, share)), len(cores()), average)

    def _others(self) -> float:
        """Seconds of processor time on these cores that other processes have used since the system started."""
        every = psutil.cpu_times(percpu=True)
        used = [every[core] for core in self._logical if core < len(every)]
        return sum(sum(each) - sum(getattr(each, name, 0.0) for name in IDLE) for each in used) - _own()


def _allowed() -> list[int]:
    """The logical cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(psutil.cpu_count() or 1))


def _own() -> float:
    """Seconds of processor time of this process and all that descend from it, those that have ended included."""
    process, seconds = psutil.Process(), 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            times = each.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
