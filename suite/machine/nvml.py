"""NVML, opened and asked about one device. The only place that imports pynvml."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnsuite.machine.telemetry import Absent
from attnsuite.machine.visible import addressed, uuid_of

_SM, _MEMORY, _DIE, _INSTANT_POWER, _FUNCTION_NOT_FOUND = 1, 2, 0, 186, 13
"""NVML's numbers of two clocks, a sensor, a field and an error. They are part of its interface, and do not change."""


@dataclass(frozen=True)
class Device:
    """One device that NVML knows. Each reading asks NVML again, and raises what NVML raises.

    `instance` says that it is a MIG instance, which has no power of its own: that is of the card it shares.
    """

    library: Any
    handle: Any
    instance: bool

    def readers(self) -> dict[str, Callable[[], float]]:
        """The readings of a sample, by the names of `telemetry.SUMMARIES`."""
        return {
            "sm_clock": lambda: self._clock(_SM),
            "memory_clock": lambda: self._clock(_MEMORY),
            "temperature": lambda: int(self._either("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", _DIE)),
            "power": self._instant_power if self.power_from == "instant" else self._power_usage,
            "used_memory": self.used_memory,
            "throttle": self._throttle,
        }

    @cached_property
    def power_from(self) -> str:
        """`instant` if the driver gives the momentary power (Ampere and newer), else `usage`."""
        try:
            self._instant_power()
        except Exception:  # this library, driver or device does not have it
            return "usage"
        return "instant"

    def joules(self) -> float:
        """The energy that the card took since its driver was loaded."""
        return float(self._of_the_card("nvmlDeviceGetTotalEnergyConsumption")) / 1000

    def used_memory(self) -> int:
        return int(self.library.nvmlDeviceGetMemoryInfo(self.handle).used)

    def _clock(self, domain: int) -> int:
        return int(self.library.nvmlDeviceGetClockInfo(self.handle, domain))

    def _throttle(self) -> int:
        return int(self._either("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"))

    def _power_usage(self) -> float:
        return float(self._of_the_card("nvmlDeviceGetPowerUsage")) / 1000

    def _instant_power(self) -> float:
        (answer,) = self._of_the_card("nvmlDeviceGetFieldValues", [_INSTANT_POWER])
        if answer.nvmlReturn:
            raise self.library.NVMLError(answer.nvmlReturn)
        return float(answer.value.uiVal) / 1000

    def _of_the_card(self, name: str, *arguments: Any) -> Any:
        if self.instance:
            raise Absent("a MIG instance has no power meter of its own")
        return getattr(self.library, name)(self.handle, *arguments)

    def _either(self, name: str, other: str, *arguments: Any) -> Any:
        """The answer of one function of NVML, or of the other if this pynvml or driver does not have the first."""
        try:
            return getattr(self.library, name)(self.handle, *arguments)
        except AttributeError:
            pass
        except self.library.NVMLError as error:
            if getattr(error, "value", None) != _FUNCTION_NOT_FOUND:
                raise
        return getattr(self.library, other)(self.handle, *arguments)


@contextmanager
def connected() -> Iterator[Any]:
    """Open NVML and yield the library. Raises Absent if the library or its driver is missing."""
    try:
        import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]  # optional
    except ImportError as error:
        raise Absent(f"no NVML: {error}") from None
    try:
        pynvml.nvmlInit()
    except Exception as error:  # the library is there, the driver is not
        raise Absent(f"no NVML: {error}") from None
    try:
        yield pynvml
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


@contextmanager
def opened(device: str) -> Iterator[Device]:
    """Open NVML and yield a device. Raises Absent if NVML has no such device, or what NVML raises."""
    if not addressed(device):
        raise Absent(f"{device} has no NVML device")
    with connected() as library:
        uuids, names = (texts(library, question, "") for question in ("nvmlDeviceGetUUID", "nvmlDeviceGetName"))
        uuid = uuid_of(device, uuids, names, os.environ)
        if uuid.startswith("MIG-"):
            yield Device(library, library.nvmlDeviceGetHandleByUUID(uuid), instance=True)
            return
        handle = library.nvmlDeviceGetHandleByIndex(uuids.index(uuid))
        if _divided(library, handle):
            raise Absent(f"{uuid} is divided by MIG, and {device} does not say which instance: give its UUID, MIG-…")
        yield Device(library, handle, instance=False)


def handles(library: Any) -> list[Any]:
    """All devices in NVML's order. Raises what NVML raises if one does not answer."""
    return [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]


def texts(library: Any, question: str, otherwise: str) -> list[str]:
    """The answer of each device in NVML's order; `otherwise` for one that does not answer."""
    answers = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            answers.append(text(getattr(library, question)(library.nvmlDeviceGetHandleByIndex(index))))
        except library.NVMLError:
            answers.append(otherwise)
    return answers


def text(answer: str | bytes) -> str:
    """An answer of pynvml as text: older versions answer in bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def reason(error: Exception) -> str:
    """The error as the reason for having no number, in one line."""
    return str(error) if isinstance(error, Absent) else f"NVML: {str(error) or type(error).__name__}"


def _divided(library: Any, handle: Any) -> bool:
    try:
        return bool(library.nvmlDeviceGetMigMode(handle)[0])
    except (AttributeError, library.NVMLError):  # this library, driver or device does not have MIG
        return False
