"""One callable → raw samples: its first call, warm-up until stable, then samples until their median is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from suite.measure.clock import Before, Call, Escaped, clock
from suite.statistics import LEVEL, interval

__all__ = ["Escaped", "Samples", "Stopwatch", "measure"]

SAMPLE = 0.005
"""Seconds that a sample should take at least: shorter calls are repeated within it."""
WARM = 0.02
"""Calls shorter than this are repeated once, untimed, before a hot sample: whatever ran in between has the cache."""
MOST_CALLS = 100_000
STABLE = 0.97
"""Warm-up ends when the last three calls are no faster than this, as a share of the fastest three before."""
LONGEST_WARM_UP = 1.0
"""Seconds; but one call at least."""
NARROW = 0.015
"""The half-width, relative, of an interval that needs no more samples: half the margin within which all is the same."""
PACING = 3
"""Samples that decide how many calls make one."""
LOOK = 4
"""Samples between two looks at the interval."""


@dataclass(frozen=True)
class Samples:
    """Raw samples of one callable, in seconds per call, and how they came about. Fields as in `Measurement`."""

    seconds: tuple[float, ...]
    calls: int
    first_call: float
    warm_up: float
    stopped: str


class Stopwatch:
    """Times one callable on one device.

    `before`, where there is one, makes what each call takes, and is not timed. A sample has `length` seconds of calls.
    `result` is what the last call of the last one returned, and `made` the seconds of all that `before` made for it.
    """

    def __init__(
        self,
        call: Call,
        *,
        before: Before | None = None,
        device: str = "cpu",
        cache: str = "hot",
        length: float = SAMPLE,
    ) -> None:
        self._call, self._before, self._device, self._cache = call, before, device, cache
        self._length = length
        self._clock = clock(device, cache)
        self.result: Any = None
        self.made = 0.0

    def first_call(self) -> float:
        """Seconds of the very first call, compiling and building sessions included, until the device is idle."""
        made = self._before() if self._before else None
        self.wait()
        started = perf_counter()
        self._call(made)
        self.wait()
        return perf_counter() - started

    def warm_up(self) -> tuple[float, float]:
        """Call until calls get no faster. Returns the seconds spent and those that one call takes now."""
        times: list[float] = []
        started = perf_counter()
        while True:
            times.append(self.time_once())
            spent = perf_counter() - started
            settled = len(times) >= 6 and min(times[-3:]) >= STABLE * min(times[:-3])
            if spent > LONGEST_WARM_UP or (settled and spent > SAMPLE):
                return spent, min(times[-3:])

    def time_once(self) -> float:
        """Seconds of one call."""
        return self._clock.time(1, self._before, self._call)[0]

    def warm(self, expected: float) -> float:
        """Fill the cache by a call, where one of so many seconds should find it hot; the seconds that were spent."""
        return self.time_once() if self._cache == "hot" and expected < WARM else 0.0

    def sample(self, calls: int) -> float:
        """Seconds per call over so many calls."""
        self.result = None
        seconds, self.result = self._clock.time(calls, self._before, self._call)
        self.made = self._clock.made if self._before else 0.0
        return seconds

    def pace(self, expected: float) -> tuple[int, float]:
        """How many calls make a sample, and what one takes in it: the warm-up's word, held against whole samples.

        Identical callables should come to the same: samples of unlike length lose unlike shares to whatever interrupts.
        """
        for _ in range(PACING if expected < self._length else 0):
            self.warm(expected)
            expected = min(expected, self.sample(calls_per_sample(expected, self._length)))
        return calls_per_sample(expected, self._length), expected

    def wait(self) -> None:
        """Until the device is idle."""
        if torch.device(self._device).type == "cuda":
            torch.cuda.synchronize(self._device)


def calls_per_sample(expected: float, length: float = SAMPLE) -> int:
    """How many calls of this many seconds make a sample."""
    return max(1, min(MOST_CALLS, round(length / max(expected, 1e-9))))


def measure(
    call: Callable[[], Any],
    *,
    device: str = "cpu",
    cache: str = "hot",
    budget: float = 2.0,
    fewest: int = 12,
) -> Samples:
    """Sample a callable in this process until the 99 % interval of its median is within ±1.5 %, or the budget is spent.

    `budget` is in seconds of timed calls; at least `fewest` samples are taken all the same. To compare two callables,
    do not measure one after the other: `suite.benchmark` interleaves them. Raises what the callable raises.
    """
    stopwatch = Stopwatch(lambda _: call(), device=device, cache=cache)
    first = stopwatch.first_call()
    warm_up, expected = stopwatch.warm_up()
    calls, expected = stopwatch.pace(expected)
    seconds: list[float] = []
    stopped = ""
    while not stopped:
        stopwatch.warm(expected)
        seconds.append(stopwatch.sample(calls))
        if len(seconds) >= fewest and len(seconds) % LOOK == 0:
            of = interval(seconds, LEVEL)
            if of.high - of.low < 2 * NARROW * of.median:
                stopped = "narrow"
            elif sum(seconds) * calls > budget:
                stopped = "budget"
    return Samples(tuple(seconds), calls, first, warm_up, stopped)
