"""The clocks, temperature, power, energy and memory of a GPU while something is measured, sampled in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from attnsuite.machine import nvml
from attnsuite.machine.nvml import Absent

INTERVAL = 0.05
"""Seconds from sample to sample: drivers refresh their readings every 10 to 100 ms."""
LONGEST_READING = 5.0
"""Seconds to wait for NVML at the end. Its calls take milliseconds, so one that takes longer hangs."""
SHORTEST = 1.0
"""The shortest window, in seconds, for which energy is given: drivers refresh the energy counter every 10 to 100 ms, so
that a reading at either end may be 0.1 s old, 10 % of a second."""
THROTTLE_REASONS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""NVML's clocks event reasons by bit, without 0x001: an idle GPU is not throttled. Others become `unknown_0x…`."""


@dataclass
class Window:
    """Readings from `begin` to `end` (each with its time in seconds), and the reasons for missing ones, by name.

    `counter` is the energy counter in joules, read at both ends. `power_from` is `instant` or `usage`.
    """

    begin: float = 0.0
    end: float = 0.0
    readings: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    power_from: str = ""


class Meter:
    """Samples a device from `start` to `stop`, which returns `Measurement.telemetry`.

    The telemetry has JSON's types; a missing field has its reason in `<name>_absent`:

        sm_clock, memory_clock   MHz, each as median, low and high, like the three that follow
        temperature              °C
        power                    W; power_from is instant, or usage: since Ampere the average over a second
        used_memory              bytes
        throttle                 a list of reasons in words; empty if the clocks were not held back
        joules                   of the whole window, by the energy counter
        seconds, samples         the length of the window, and the number of samples

    All fields are about the whole card, with every process on it. A field that fails once is absent, because half a
    window would look like a whole one. NVML's errors become reasons and are never raised. Without an NVIDIA device no
    thread is started.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.telemetry: dict[str, Any] = summarised(Window(absent=_all_absent("nothing was measured")))
        self._window = Window()
        self._opened: nvml.Device | None = None
        self._connection = ExitStack()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name=f"NVML {device}", daemon=True)

    def start(self) -> Meter:
        """Begin the window. Raises RuntimeError on a second call: each window needs a meter of its own."""
        if self._window.begin:
            raise RuntimeError("this meter was started before")
        try:
            self._opened = self._connection.enter_context(nvml.opened(self.device))
            self._window.power_from = self._opened.power_from
            self._read("counter", self._opened.joules)
            self._thread.start()
        except Exception as error:  # an error of NVML is the reason for having no numbers
            self._opened, self._window.absent = None, _all_absent(nvml.reason(error))
        self._window.begin = perf_counter()
        return self

    def stop(self) -> dict[str, Any]:
        """End the window and return its telemetry. A second call returns the same."""
        if self._window.begin and not self._window.end:
            self._close()
            self.telemetry = summarised(self._window)
        return self.telemetry

    def __enter__(self) -> Meter:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _close(self) -> None:
        self._ended.set()
        if self._opened is not None:
            self._thread.join(LONGEST_READING)
            if self._thread.is_alive():  # it still waits for NVML, so the connection stays open
                reason = f"NVML did not respond within {LONGEST_READING:g} s"
                self._window = Window(self._window.begin, perf_counter(), absent=_all_absent(reason))
                return
            self._read("counter", self._opened.joules)
        self._window.end = perf_counter()
        self._connection.close()

    def _sample(self) -> None:
        readers = self._opened.readers() if self._opened else {}
        while readers:
            readers = {name: read for name, read in readers.items() if self._read(name, read)}
            if self._ended.wait(INTERVAL):
                return

    def _read(self, name: str, read: Callable[[], float]) -> bool:
        """Record the reading, or the reason for its absence. Returns whether to read it again."""
        try:
            self._window.readings.setdefault(name, []).append((perf_counter(), read()))
        except Exception as error:  # also if the device was lost in the meantime
            self._window.absent[name] = nvml.reason(error)
        return name not in self._window.absent


# Summaries


def summarised(window: Window) -> dict[str, Any]:
    """The window as `Measurement.telemetry`."""
    telemetry: dict[str, Any] = {}
    for name, summary in SUMMARIES.items():
        try:
            telemetry[name] = summary([value for _, value in _readings(window, name)])
        except Absent as absent:
            telemetry |= {name: None, f"{name}_absent": str(absent)}
    if telemetry["power"]:
        telemetry["power_from"] = window.power_from
    samples = max(len(window.readings.get(name, ())) for name in SUMMARIES)
    return {**telemetry, **_joules(window), "seconds": round(window.end - window.begin, 6), "samples": samples}


def _throttle(masks: Sequence[float]) -> list[str]:
    """The throttle reasons of all samples, in words."""
    together = 0
    for mask in masks:
        together |= int(mask)
    bits = [1 << position for position in range(1, together.bit_length())]
    return [THROTTLE_REASONS.get(bit, f"unknown_{bit:#x}") for bit in bits if together & bit]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {name: round(statistic(values), 3) for name, statistic in (("median", median), ("low", min), ("high", max))}


SUMMARIES: Mapping[str, Callable[[Sequence[float]], Any]] = {
    **dict.fromkeys(("sm_clock", "memory_clock", "temperature", "power", "used_memory"), _spread),
    "throttle": _throttle,
}
"""How the readings of a window are summed up."""


def _all_absent(reason: str) -> dict[str, str]:
    return dict.fromkeys((*SUMMARIES, "counter"), reason)


def _joules(window: Window) -> dict[str, Any]:
    """The energy by the counter, or the reason for its absence."""
    try:
        first, *_, last = (joules for _, joules in _readings(window, "counter"))
        if (seconds := window.end - window.begin) < SHORTEST:
            raise Absent(f"{seconds:.3g} s are too short: energy needs {SHORTEST:g} s")
        if last <= first:  # the driver was reloaded, or its counter does not count
            raise Absent(f"the energy counter went from {first:g} to {last:g} J")
    except Absent as absent:
        return {"joules": None, "joules_absent": str(absent)}
    return {"joules": round(last - first, 3)}


def _readings(window: Window, name: str) -> list[tuple[float, float]]:
    """The readings of a name. Raises Absent without readings."""
    readings = window.readings.get(name, [])
    if name in window.absent or not readings:
        raise Absent(window.absent.get(name, "no sample was taken"))
    return readings
