"""The only place that imports pynvml: NVML opened, and one of its devices asked one question at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from suite.machine.telemetry import Absent
from suite.machine.visible import addressed, uuid_of

_SM, _MEMORY, _DIE, _INSTANT_POWER, _FUNCTION_NOT_FOUND = 1, 2, 0, 186, 13  # NVML's own numbers, which stay


@dataclass(frozen=True)
class Device:
    """One device that NVML knows. Each question is asked anew, and raises whatever NVML raises.

    A MIG instance shares its card's power with the other instances; its clocks and memory are NVML's to tell.
    """

    library: Any
    handle: Any
    instance: bool

    def readers(self) -> dict[str, Callable[[], float]]:
        """The questions that a sample asks, by the names of `telemetry.SUMMARIES`."""
        return {
            "sm_clock": lambda: self._clock(_SM),
            "memory_clock": lambda: self._clock(_MEMORY),
            "temperature": self._temperature,
            "power": self._instant_power if self.power_from == "instant" else self._power_usage,
            "used_memory": self.used_memory,
            "throttle": self._throttle,
        }

    @cached_property
    def power_from(self) -> str:
        """`instant` where the driver tells the momentary power (Ampere and newer), else `usage`."""
        try:
            self._instant_power()
        except Exception:  # this library, driver or device does not tell it
            return "usage"
        return "instant"

    def joules(self) -> float:
        """What the card took since its driver was loaded."""
        return float(self._of_the_card("nvmlDeviceGetTotalEnergyConsumption")) / 1000

    def used_memory(self) -> int:
        return int(self.library.nvmlDeviceGetMemoryInfo(self.handle).used)

    def _clock(self, domain: int) -> int:
        return int(self.library.nvmlDeviceGetClockInfo(self.handle, domain))

    def _temperature(self) -> int:
        return int(self._either("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", _DIE))

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
        """What one function says, or the other where this pynvml or this driver does not have the one."""
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
    """The library, with NVML open. Raises Absent without the library or its driver."""
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
    """The device, with NVML open. Raises Absent where NVML has no such device, and whatever NVML raises."""
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
    """All devices, in NVML's order. Raises what NVML raises when one of them does not answer."""
    return [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]


def texts(library: Any, question: str, otherwise: str) -> list[str]:
    """What each device answers, in NVML's order, and `otherwise` for one that does not."""
    answers = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            answers.append(text(getattr(library, question)(library.nvmlDeviceGetHandleByIndex(index))))
        except library.NVMLError:
            answers.append(otherwise)
    return answers


def text(answer: str | bytes) -> str:
    """Older pynvml answers in bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def reason(error: Exception) -> str:
    """Why there is no number, in a line."""
    return str(error) if isinstance(error, Absent) else f"NVML: {str(error) or type(error).__name__}"


def _divided(library: Any, handle: Any) -> bool:
    try:
        return bool(library.nvmlDeviceGetMigMode(handle)[0])
    except (AttributeError, library.NVMLError):  # a library, a driver or a device that has no MIG
        return False
