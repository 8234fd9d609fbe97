"""The NVIDIA devices of this machine, and a meter of what one of them does while something is measured.

A device is a string, so that torch is not needed: `cpu`, `cuda`, `cuda:N`, or better the UUID that torch gives
(`attnsuite.machine.visible` finds the device of each).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import perf_counter
from typing import Any

from attnsuite.machine import nvml, telemetry, unaided
from attnsuite.machine.telemetry import Absent, Window

INTERVAL = 0.05
"""Seconds from sample to sample: drivers refresh their readings every 10 to 100 ms."""

LONGEST_ANSWER = 5.0
"""Seconds to wait for an answer of NVML that is overdue: answers take milliseconds, so after this none will come."""

SILENT = "NVIDIA device that does not answer"
"""The name of a device that NVML lists but cannot name."""


def devices() -> tuple[str, ...]:
    """The names of the NVIDIA devices, without pynvml too; empty without a driver or without a device."""
    try:
        with nvml.connected() as library:
            return tuple(nvml.texts(library, "nvmlDeviceGetName", SILENT))
    except Absent:
        return unaided.names()
    except Exception:  # the driver is there, but cannot count its devices
        return (SILENT,)


def facts() -> dict[str, Any]:
    """`Machine.accelerator_facts`: only what a reboot leaves as it is, for a run resumes only on the same machine."""
    found: dict[str, Any] = {}
    if devices():
        with suppress(Absent), nvml.connected() as library:
            _tell(found, "driver", lambda: nvml.text(library.nvmlSystemGetDriverVersion()))
            _tell(found, "cuda", lambda: _cuda_version(library))
            _tell(found, "memory_bytes", lambda: [_memory(library, each) for each in nvml.handles(library)])
            _tell(found, "power_limit", lambda: [_power_limit(library, each) for each in nvml.handles(library)])
    return found


def used_memory(device: str) -> int | None:
    """Bytes in use on the device, by all processes; None if NVML does not say.

    Each call opens NVML, which takes milliseconds or more: do not call this inside a timed window.
    """
    try:
        with nvml.opened(device) as opened:
            return opened.used_memory()
    except Exception:  # a `Meter` would say why
        return None


def meter(device: str) -> Meter:
    """A meter of a device for one window: a context manager, or `start` and `stop`."""
    return Meter(device)


class Meter:
    """Samples a device in a thread from `start` to `stop`, which returns `Measurement.telemetry`.

    That holds JSON's types alone, and a field that is None has its reason in `<name>_absent`:

        sm_clock, memory_clock   MHz, each as median, low and high, like the three that follow
        temperature              °C
        power                    W; power_from is instant, or usage: since Ampere the average over a second
        used_memory              bytes
        throttle                 a list of reasons in words; empty if the clocks were not held back
        joules                   of the whole window; joules_from is counter or power samples
        seconds, samples         the length of the window, and the number of samples

    All fields are about the whole card, with every process on it. A field that fails once is absent, because half a
    window would look like a whole one. NVML's errors become reasons, and are never raised. Without an NVIDIA device no
    thread is started.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.telemetry: dict[str, Any] = telemetry.summarised(Window(absent=_all_absent("nothing was measured")))
        self._window = Window()
        self._opened: nvml.Device | None = None
        self._readers: dict[str, Callable[[], float]] = {}
        self._connection = ExitStack()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name=f"NVML {device}", daemon=True)

    def start(self) -> Meter:
        """Begin the window. Raises RuntimeError if it was begun before: each window needs a meter of its own."""
        if self._window.begin:
            raise RuntimeError("this meter was started before")
        try:
            self._open()
        except Exception as error:  # an error of NVML is the reason for having no numbers
            self._opened, self._window.absent = None, _all_absent(nvml.reason(error))
        self._window.begin = perf_counter()
        return self

    def stop(self) -> dict[str, Any]:
        """End the window and return its telemetry. A second call returns the same."""
        if self._window.begin and not self._window.end:
            self._close()
            self.telemetry = telemetry.summarised(self._window)
        return self.telemetry

    def __enter__(self) -> Meter:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> None:
        self._opened = self._connection.enter_context(nvml.opened(self.device))
        self._readers, self._window.power_from = self._opened.readers(), self._opened.power_from
        self._ask("counter", self._opened.joules)
        self._thread.start()

    def _close(self) -> None:
        self._ended.set()
        if self._opened is not None:
            self._thread.join(LONGEST_ANSWER)
            if self._thread.is_alive():  # it waits for NVML, which therefore stays open
                reason = f"NVML has not answered for {LONGEST_ANSWER:g} s"
                self._window = Window(self._window.begin, perf_counter(), absent=_all_absent(reason))
                return
            self._ask("counter", self._opened.joules)
        self._window.end = perf_counter()
        self._connection.close()

    def _sample(self) -> None:
        readers = self._readers
        while readers:
            readers = {name: read for name, read in readers.items() if self._ask(name, read)}
            if self._ended.wait(INTERVAL):
                return

    def _ask(self, name: str, read: Callable[[], float]) -> bool:
        """Note the reading, or the reason for having none. Returns whether to ask again."""
        try:
            self._window.seen.setdefault(name, []).append((perf_counter(), read()))
        except Exception as error:  # also if the device was lost in the meantime
            self._window.absent[name] = nvml.reason(error)
        return name not in self._window.absent


def _tell(found: dict[str, Any], name: str, ask: Callable[[], Any]) -> None:
    try:
        found[name] = ask()
    except Exception as error:  # the other facts may still be had
        found |= {name: None, f"{name}_absent": nvml.reason(error)}


def _cuda_version(library: Any) -> str:
    version = library.nvmlSystemGetCudaDriverVersion()  # 12080 means 12.8
    return f"{version // 1000}.{version % 1000 // 10}"


def _memory(library: Any, handle: Any) -> int:
    return int(library.nvmlDeviceGetMemoryInfo(handle).total)


def _power_limit(library: Any, handle: Any) -> float:
    """The power limit that was set, in W; the driver may enforce a lower one from moment to moment."""
    return float(library.nvmlDeviceGetPowerManagementLimit(handle)) / 1000


def _all_absent(reason: str) -> dict[str, str]:
    return dict.fromkeys(telemetry.FIELDS, reason)
