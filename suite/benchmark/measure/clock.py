"""Clocks of calls: perf_counter on a CPU, events on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import ceil
from pathlib import Path
from statistics import median
from time import perf_counter  # bound before a submission is imported, which may replace it
from typing import Any

import torch

from attnsuite.model.garbage_collection import gc_paused

LARGEST_FLUSH = 2**27
"""Bytes written at most to flush a CPU's cache: a server's last level may be larger, but several cores share it."""
ASSUMED_CACHE = 2**25
"""Bytes of the largest cache if the system does not report it."""
LATEST_END = 1e-4
"""Seconds for which a device may seem busy after the end of a call: the query itself takes as long."""
FLUSHES = 5
"""Timed flushes of a device's cache; the median counts."""
HEAD_START = 2e-4
"""Seconds of cache flushes before a cold call, at least, which hide its launch, estimated at 10 µs an operator.
Writing an H100's cache twice takes 35 µs by its bandwidth. Calls of 0.1 ms after that alone took up to 2.1 times as
long as by Triton's stopwatch, which writes 256 MB (on a busy machine). After this they took up to 1.009 times as
long (on an idle one)."""
TRIES = 3
"""Attempts at a sample after whose end the device seems busy: an interruption of this thread looks the same, but
does not happen three times in a row."""

Before = Callable[[], Any]
"""Makes the argument of a call."""
Call = Callable[[Any], Any]
"""The timed call; it takes the result of `Before`."""


class EscapedWork(Exception):
    """Work of the device after the end of a call, on a stream that events do not cover; the message gives its time."""


class CpuClock:
    """Wall time on this thread. A cold call begins with the last-level cache full of other numbers.

    `made` is the seconds of `before` for all calls of the last sample. `head_start` is the seconds of launching that
    are hidden, because the device flushes its cache meanwhile.
    """

    head_start = 0.0

    def __init__(self, cache: str) -> None:
        self._other = torch.zeros(flush_bytes() // 8, dtype=torch.int64) if cache == "cold" else None
        self.made = 0.0

    def time(self, calls: int, before: Before | None, call: Call) -> tuple[float, Any]:
        """Seconds per call, and the output of the last call. `before` is untimed."""
        self.made = 0.0
        with gc_paused():
            if before is None and self._other is None:
                started = perf_counter()
                for _ in range(calls - 1):
                    call(None)
                result = call(None)
                return (perf_counter() - started) / calls, result
            total, result = 0.0, None
            for _ in range(calls):
                began = perf_counter()
                made = before() if before else None
                self.made += perf_counter() - began
                if self._other is not None:
                    self._other.add_(1)
                started = perf_counter()
                result = call(made)
                total += perf_counter() - started
            return total / calls, result


class CudaClock:
    """Time between events on the current stream. A cold call begins with the L2 cache full of zeros.

    A cold call is launched while the device flushes its cache, so its time excludes launching, up to the `HEAD_START`
    seconds of the flushes. Raises `EscapedWork` if the device is still busy after the last event: work on another
    stream.
    """

    def __init__(self, device: str, cache: str) -> None:
        self._device = torch.device(device)
        size = torch.cuda.get_device_properties(self._device).L2_cache_size
        self._other = torch.empty(2 * size, dtype=torch.int8, device=device) if cache == "cold" else None
        self.made = 0.0
        flush = self._flush_seconds()
        self._times = ceil(HEAD_START / flush) if flush else 1
        self.head_start = self._times * flush

    def _flush_seconds(self) -> float:
        """Seconds of a flush; 0 for a hot cache."""
        if self._other is None:
            return 0.0
        times: list[float] = []
        with torch.cuda.device(self._device):
            for _ in range(FLUSHES):
                torch.cuda.synchronize()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                self._other.zero_()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end) / 1000)
        return median(times)

    def time(self, calls: int, before: Before | None, call: Call) -> tuple[float, Any]:
        """Return the seconds of a call and its result. Raises EscapedWork if the device works on afterwards."""
        busy_after = 0.0
        for _ in range(TRIES):
            seconds, result, busy_after = self._timed(calls, before, call)
            if busy_after <= max(LATEST_END, 0.05 * seconds * calls):
                return seconds, result
        raise EscapedWork(f"the device worked for {busy_after * 1e6:.0f} µs after the call's end, on another stream")

    def _timed(self, calls: int, before: Before | None, call: Call) -> tuple[float, Any, float]:
        """Seconds per call, the output of the last one, and the seconds for which the device was busy afterwards."""
        together = before is None and self._other is None
        events, result, self.made = [], None, 0.0
        with torch.cuda.device(self._device), gc_paused():
            torch.cuda.synchronize()
            for _ in range(1 if together else calls):
                began = perf_counter()
                made = before() if before else None
                self.made += perf_counter() - began
                if self._other is not None:
                    for _ in range(self._times):
                        self._other.zero_()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                for _ in range(calls if together else 1):
                    result = call(made)
                end.record()
                events.append((start, end))
            events[-1][1].synchronize()
            ended = perf_counter()
            torch.cuda.synchronize()
            busy_after = perf_counter() - ended
        total = sum(start.elapsed_time(end) for start, end in events) / 1000
        return total / calls, result, busy_after


def clock_of(device: str, cache: str) -> CpuClock | CudaClock:
    """The clock of a device. `cache` is `hot` or `cold`."""
    return CudaClock(device, cache) if torch.device(device).type == "cuda" else CpuClock(cache)


def flush_bytes() -> int:
    """Bytes to write to fill a core's caches: twice the largest of them."""
    return min(LARGEST_FLUSH, 2 * largest_cache())


@cache
def largest_cache() -> int:
    """Bytes of the largest of a core's caches, as the system reports it."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1))
    return max(sizes, default=ASSUMED_CACHE)


@contextmanager
def one_thread() -> Iterator[None]:
    """Have PyTorch compute on this thread alone within the block.

    Its threads spin for some 5 ms after each task, which blocks other pools: when PyTorch's pool copied results, calls
    of an onnxruntime session on two cores took 8 ms instead of 0.6 ms.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
