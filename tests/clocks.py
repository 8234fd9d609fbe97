"""A clock that only the tests turn, and a CUDA device that goes by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class Time:
    """A clock that only the tests turn: it stands in for `perf_counter`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[..., int]:
        """A function whose calls take so long, the last of these for ever, and return their number."""
        calls = iter(range(1_000_000_000))
        rest = list(seconds)

        def function(*_: object) -> int:
            self.now += rest.pop(0) if len(rest) > 1 else rest[0]
            return next(calls)

        return function


class Device:
    """A CUDA device in the terms of `torch.cuda`: a main stream, and others that events do not see."""

    def __init__(self, now: Time) -> None:
        self.now, self.main, self.elsewhere, self.flushed = now, 0.0, 0.0, 0
        self.flushing = 10.0
        """Seconds that a flush of its cache takes."""

    def synchronize(self, device: object = None) -> None:
        self.now.now = max(self.now.now, self.main, self.elsewhere)

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        return Event(self)

    @contextmanager
    def device(self, _: object) -> Iterator[None]:
        yield

    def get_device_properties(self, _: object) -> Any:
        return SimpleNamespace(L2_cache_size=1024)

    def works(self, seconds: float, elsewhere: float = 0.0, launching: float = 0.0) -> Callable[..., str]:
        """A call that returns after its launch and keeps the device busy, perhaps on another stream as well."""

        def launch(*_: object) -> str:
            self.now.now += launching
            self.main = max(self.main, self.now.now) + seconds
            if elsewhere:
                self.elsewhere = max(self.elsewhere, self.now.now) + elsewhere
            return "output"

        return launch

    def flush(self) -> None:
        self.flushed += 1
        self.works(self.flushing)()


class Event:
    """A point in a device's work, as `torch.cuda.Event` is one."""

    def __init__(self, device: Device) -> None:
        self._device, self.at = device, 0.0

    def record(self) -> None:
        self.at = max(self._device.main, self._device.now.now)

    def synchronize(self) -> None:
        self._device.now.now = max(self._device.now.now, self.at)

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.at - self.at)
