"""Raw samples of one callable: its first call, warm-up until stable, then samples until their median is precise."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from attnsuite.benchmark.measure.clock import Before, Call, EscapedWork, clock_of, one_thread
from attnsuite.model.faster import MARGIN
from attnsuite.model.statistics import Interval, interval

__all__ = ["EscapedWork", "Stopwatch", "measure", "one_thread"]

MIN_ROUNDS = 12
"""Rounds at least, each one sample of every implementation: the fewest whose interval excludes the fastest and the
slowest one."""
CHECK_EVERY = 4
"""Rounds between two checks whether intervals are narrow: each check may stop by chance, and at most three rounds
more than needed are timed."""
NARROW_INTERVAL = MARGIN / 2
"""Half-width of an interval, as a share of the median, below which no more rounds are needed. It is half of the
margin for "same", so that two such intervals are either separate or the same."""
SAMPLE = 0.005
"""Seconds of a sample at least: shorter calls are repeated within it. It is long compared with the clock's
resolution and a wake-up of the process, and short enough for many samples in a quick profile's 0.3 s."""
LONGEST_WARMED = 0.02
"""Seconds: before a hot sample a shorter call is made once untimed, to fill the cache again."""
LONGEST_REFILLED = 1.0
"""Seconds: on a GPU a shorter call is made once untimed before each sample, because memory is returned to the device
between rounds. Allocating it again should take milliseconds, which has not been measured."""
MOST_CALLS = 100_000
"""Calls in a sample at most: bounds the sample of a function that seems to take no time."""
STABLE = 0.97
"""Warm-up ends when the fastest of the last three calls takes at least this share of the fastest call before them."""
LONGEST_WARM_UP = 1.0
"""Seconds after which warm-up ends in any case; one call is made at least."""
PACING_SAMPLES = 3
"""Samples that determine the number of calls in one; the shortest counts."""


class Stopwatch:
    """Times one callable on one device.

    `before`, if any, makes the argument of each call, untimed. A sample has `length` seconds of calls. `result` is the
    output of the last call of the last sample, and `made` the seconds of `before` in that sample.
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
        self._call, self._before, self._cache, self._length = call, before, cache, length
        self._device = torch.device(device)
        self._clock = clock_of(device, cache)
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
        """Call until calls get no faster. Returns the seconds spent, and the seconds of one call now."""
        times: list[float] = []
        started = perf_counter()
        while True:
            times.append(self.time_once())
            spent = perf_counter() - started
            stable = len(times) >= 6 and min(times[-3:]) >= STABLE * min(times[:-3])
            if spent > LONGEST_WARM_UP or (stable and spent > SAMPLE):
                return spent, min(times[-3:])

    def time_once(self) -> float:
        """Seconds of one call."""
        return self._clock.time(1, self._before, self._call)[0]

    def warm(self, expected: float) -> float:
        """Fill the cache, or allocate a GPU's memory, by one call if a call of `expected` seconds needs that.

        Returns the seconds of that call.
        """
        hot = self._cache == "hot" and expected < LONGEST_WARMED
        needed = expected < LONGEST_REFILLED if self._device.type == "cuda" else hot
        return self.time_once() if needed else 0.0

    def sample(self, calls: int) -> float:
        """Time `calls` calls in a row. Returns the seconds per call."""
        self.result = None
        seconds, self.result = self._clock.time(calls, self._before, self._call)
        self.made = self._clock.made if self._before else 0.0
        return seconds

    def pace(self, expected: float) -> tuple[int, float]:
        """The number of calls in a sample, and the seconds of one call, from a few samples.

        Identical callables should get the same number: an interruption is a larger share of a shorter sample.
        """
        for _ in range(PACING_SAMPLES if expected < self._length else 0):
            self.warm(expected)
            expected = min(expected, self.sample(calls_per_sample(expected, self._length)))
        return calls_per_sample(expected, self._length), expected

    @property
    def head_start(self) -> float:
        """Seconds of launching that a call's time excludes, because the device flushes its cache meanwhile."""
        return self._clock.head_start

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def calls_per_sample(expected: float, length: float = SAMPLE) -> int:
    """The number of calls of `expected` seconds in a sample of `length` seconds."""
    return max(1, min(MOST_CALLS, round(length / max(expected, 1e-9))))


def is_narrow(measured: Interval) -> bool:
    """Whether the interval needs no more samples."""
    return measured.high - measured.low < 2 * NARROW_INTERVAL * measured.median


def measure(
    call: Callable[[], Any], *, device: str = "cpu", budget: float = 2.0, fewest: int = MIN_ROUNDS
) -> list[float]:
    """Sample a callable in this process until the interval of its median is narrow, or the budget is spent.

    Returns the seconds of one call, sample by sample. `budget` is in seconds of timed calls; `fewest` samples are taken
    in any case. To compare two callables use `attnsuite.bench`, which interleaves their samples. Raises what the
    callable raises.
    """
    stopwatch = Stopwatch(lambda _: call(), device=device)
    stopwatch.first_call()
    calls, expected = stopwatch.pace(stopwatch.warm_up()[1])
    seconds: list[float] = []
    while True:
        stopwatch.warm(expected)
        seconds.append(stopwatch.sample(calls))
        enough = is_narrow(interval(seconds)) or sum(seconds) * calls > budget
        if enough and len(seconds) >= fewest and len(seconds) % CHECK_EVERY == 0:
            return seconds
