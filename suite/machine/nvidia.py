"""What NVIDIA devices there are, and what one of them does while something is measured.

A device is a string, so that nobody here imports torch: `cpu`, `cuda`, `cuda:N`, or better the UUID that torch tells
(`suite.machine.visible` says which device each is).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import perf_counter
from types import TracebackType
from typing import Any

from suite.machine import nvml, telemetry
from suite.machine.telemetry import Absent, Window

INTERVAL = 0.05
"""Seconds from sample to sample: drivers renew what they tell every 10 to 100 ms."""

PATIENCE = 5.0
"""Seconds after which a question that NVML has not answered is given up."""

SILENT = "NVIDIA device that does not answer"


def devices() -> tuple[str, ...]:
    """The names of NVIDIA's accelerators; none without NVML, without a driver or without a device."""
    try:
        with nvml.connected() as library:
            return tuple(nvml.texts(library, "nvmlDeviceGetName", SILENT))
    except Absent:
        return ()
    except Exception:  # the driver is there, and cannot even count
        return (SILENT,)


def facts() -> dict[str, Any]:
    """`Machine.accelerator_facts`: only what stays from boot to boot, because a run resumes on an equal machine."""
    found: dict[str, Any] = {}
    if devices():
        with suppress(Absent), nvml.connected() as library:
            _tell(found, "driver", lambda: nvml.text(library.nvmlSystemGetDriverVersion()))
            _tell(found, "cuda", lambda: _cuda_version(library))
            _tell(found, "memory_bytes", lambda: [_memory(library, each) for each in nvml.handles(library)])
            _tell(found, "power_limit", lambda: [_power_limit(library, each) for each in nvml.handles(library)])
    return found


def used_memory(device: str) -> int | None:
    """Bytes in use on the device, by everybody; None where NVML does not tell.

    Connects anew each time, which takes milliseconds and more: not for the inside of a timed window.
    """
    try:
        with nvml.opened(device) as opened:
            return opened.used_memory()
    except Exception:  # a `Meter` says what it was
        return None


def meter(device: str) -> Meter:
    """What samples a device during one window: a context manager, or `start` and `stop`."""
    return Meter(device)


class Meter:
    """Samples a device in a thread from `start` to `stop`, which returns `Measurement.telemetry`, also in `telemetry`.

    It is made of JSON's types, and a field that is None has its reason in `<name>_absent`:

        sm_clock, memory_clock   MHz, each as median, low and high, like the three that follow
        temperature              °C
        power                    W; power_from is instant, or usage, which since Ampere is the average of a second
        used_memory              bytes
        throttle                 a list of reasons in words, empty where nothing held the clocks back
        joules                   of the whole window; joules_from is counter or power samples
        seconds, samples         how long the window was, and how often the device was asked

    All are of the whole card, whoever uses it. A field that fails once is absent, for half a window would pass for a
    whole one. NVML's errors become reasons and are never raised. Where there is no NVIDIA device, no thread is started.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.telemetry: dict[str, Any] = telemetry.told(Window(absent=_all_absent("nothing was measured")))
        self._window = Window()
        self._opened: nvml.Device | None = None
        self._readers: dict[str, Callable[[], float]] = {}
        self._connection = ExitStack()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name=f"NVML {device}", daemon=True)

    def start(self) -> Meter:
        """Begin the window. Raises RuntimeError the second time: the next window needs a meter of its own."""
        if self._window.begin:
            raise RuntimeError("this meter was started before")
        try:
            self._open()
        except Exception as error:  # whatever NVML raises is why there are no numbers
            self._opened, self._window.absent = None, _all_absent(nvml.reason(error))
        self._window.begin = perf_counter()
        return self

    def stop(self) -> dict[str, Any]:
        """End the window, and say what was seen in it. A second call says the same."""
        if self._window.begin and not self._window.end:
            self._close()
            self.telemetry = telemetry.told(self._window)
        return self.telemetry

    def __enter__(self) -> Meter:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _open(self) -> None:
        self._opened = self._connection.enter_context(nvml.opened(self.device))
        self._readers, self._window.power_from = self._opened.readers(), self._opened.power_from
        self._ask("counter", self._opened.joules)
        self._thread.start()

    def _close(self) -> None:
        self._ended.set()
        if self._opened is not None:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():  # in a question that NVML does not answer; NVML stays open for it
                reason = f"NVML has not answered for {PATIENCE:g} s"
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
        """Note what `read` says, or why it says nothing; whether to ask again."""
        try:
            self._window.seen.setdefault(name, []).append((perf_counter(), read()))
        except Exception as error:  # also of a device that was lost in between
            self._window.absent[name] = nvml.reason(error)
        return name not in self._window.absent


def _tell(found: dict[str, Any], name: str, ask: Callable[[], Any]) -> None:
    try:
        found[name] = ask()
    except Exception as error:  # one fact that a driver does not tell leaves the others
        found |= {name: None, f"{name}_absent": nvml.reason(error)}


def _cuda_version(library: Any) -> str:
    version = library.nvmlSystemGetCudaDriverVersion()  # 12080 is 12.8
    return f"{version // 1000}.{version % 1000 // 10}"


def _memory(library: Any, handle: Any) -> int:
    return int(library.nvmlDeviceGetMemoryInfo(handle).total)


def _power_limit(library: Any, handle: Any) -> float:
    """The limit that was set, in W: the enforced one is what the driver makes of it from moment to moment."""
    return float(library.nvmlDeviceGetPowerManagementLimit(handle)) / 1000


def _all_absent(reason: str) -> dict[str, str]:
    return dict.fromkeys(telemetry.FIELDS, reason)
