"""NVML: names and facts of the NVIDIA devices, and readings of one of them. The only module that imports pynvml.

A device is named by the UUID that torch gives, `torch.cuda.get_device_properties(index).uuid`, with or without `GPU-`
or `MIG-`, because CUDA's numbers depend on the environment. Torch is not needed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from attnsuite.machine import system

SM, MEMORY, DIE, INSTANT_POWER = 1, 2, 0, 186
"""NVML's numbers of two clocks, a sensor and a field. They are part of its interface, and do not change."""
SILENT = "NVIDIA device that does not respond"
"""The name of a device that NVML lists but cannot name."""
TOOL = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
"""The driver's own tool, which uses NVML, so that it gives the same names."""
UUID = re.compile(r"(GPU-|MIG-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""The UUID of a device."""


class Absent(Exception):
    """A number or a device is unavailable; the message gives the reason."""


def devices() -> tuple[str, ...]:
    """The names of the NVIDIA devices, without pynvml too; empty without a driver or without a device."""
    try:
        with connected() as library:
            return tuple(_texts(library, "nvmlDeviceGetName", SILENT))
    except Absent:
        return names_without_nvml()
    except Exception:  # the driver cannot count its devices
        return (SILENT,)


@cache
def names_without_nvml() -> tuple[str, ...]:
    """The names that the driver's tool gives, in their order. Determined once in a process."""
    return tuple(line.strip() for line in system.output(*TOOL).splitlines() if line.strip())


def facts() -> dict[str, Any]:
    """`Machine.accelerator_facts`: only facts that survive a reboot, because a run resumes on an equal machine."""
    known: dict[str, Any] = {}
    if not devices():
        return known
    with suppress(Absent), connected() as library:
        for name, read in (
            ("driver", lambda: _text(library.nvmlSystemGetDriverVersion())),
            ("cuda", lambda: _cuda_version(library)),
            ("memory_bytes", lambda: [int(library.nvmlDeviceGetMemoryInfo(h).total) for h in _handles(library)]),
            ("power_limit", lambda: [library.nvmlDeviceGetPowerManagementLimit(h) / 1000 for h in _handles(library)]),
        ):
            try:
                known[name] = read()
            except Exception as error:  # the other facts may still be available
                known |= {name: None, f"{name}_absent": reason(error)}
    return known


def _cuda_version(library: Any) -> str:
    version = library.nvmlSystemGetCudaDriverVersion()  # 12080 means 12.8
    return f"{version // 1000}.{version % 1000 // 10}"


def used_memory(device: str) -> int | None:
    """Bytes in use on the device, by all processes; None if NVML does not report it.

    Each call opens NVML, which takes milliseconds or more: do not call this inside a timed window.
    """
    try:
        with opened(device) as connection:
            return connection.used_memory()
    except Exception:  # a `Meter` gives the reason
        return None


@dataclass(frozen=True)
class Device:
    """One device of NVML. Each reading raises what NVML raises.

    `instance`: a MIG instance, whose power is only measured for the whole card.
    """

    library: Any
    handle: Any
    instance: bool

    def readers(self) -> dict[str, Callable[[], float]]:
        """The readings of a sample, by the names of `telemetry.SUMMARIES`."""
        return {
            "sm_clock": lambda: int(self.library.nvmlDeviceGetClockInfo(self.handle, SM)),
            "memory_clock": lambda: int(self.library.nvmlDeviceGetClockInfo(self.handle, MEMORY)),
            "temperature": lambda: int(self.library.nvmlDeviceGetTemperature(self.handle, DIE)),
            "power": self._instant_power if self.power_from == "instant" else self._power_usage,
            "used_memory": self.used_memory,
            "throttle": lambda: int(self.library.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle)),
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
        """The energy of the card since its driver was loaded."""
        return float(self._card_reading("nvmlDeviceGetTotalEnergyConsumption")) / 1000

    def used_memory(self) -> int:
        """Return the used memory of the device in bytes."""
        return int(self.library.nvmlDeviceGetMemoryInfo(self.handle).used)

    def _power_usage(self) -> float:
        return float(self._card_reading("nvmlDeviceGetPowerUsage")) / 1000

    def _instant_power(self) -> float:
        (field,) = self._card_reading("nvmlDeviceGetFieldValues", [INSTANT_POWER])
        if field.nvmlReturn:
            raise self.library.NVMLError(field.nvmlReturn)
        return float(field.value.uiVal) / 1000

    def _card_reading(self, name: str, *arguments: Any) -> Any:
        if self.instance:
            raise Absent("a MIG instance has no power meter of its own")
        return getattr(self.library, name)(self.handle, *arguments)


@contextmanager
def connected() -> Iterator[Any]:
    """Open NVML and yield the library. Raises Absent if the library or its driver is missing."""
    try:
        import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]  # optional

        pynvml.nvmlInit()
    except Exception as error:  # the library, or its driver, is missing
        raise Absent(f"no NVML: {error}") from None
    try:
        yield pynvml
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


@contextmanager
def opened(device: str) -> Iterator[Device]:
    """Open NVML and yield a device. Raises Absent if NVML has no such device, or what NVML raises."""
    if not UUID.fullmatch(device):
        raise Absent(f"{device} has no NVML device: a UUID is expected")
    with connected() as library:
        uuids = [uuid.lower().removeprefix("gpu-") for uuid in _texts(library, "nvmlDeviceGetUUID", "")]
        uuid = device.lower().removeprefix("gpu-")
        if uuid not in uuids and device.lower().startswith("gpu-"):
            raise Absent(f"NVML has no device {device}")
        if uuid not in uuids:  # not a whole card, perhaps an instance
            instance = library.nvmlDeviceGetHandleByUUID(f"MIG-{device.removeprefix('MIG-')}")
            yield Device(library, instance, instance=True)
            return
        handle = library.nvmlDeviceGetHandleByIndex(uuids.index(uuid))
        if _divided(library, handle):
            raise Absent(f"GPU-{uuid} is divided by MIG, and {device} names no instance: give its UUID, MIG-…")
        yield Device(library, handle, instance=False)


def _divided(library: Any, handle: Any) -> bool:
    try:
        return bool(library.nvmlDeviceGetMigMode(handle)[0])
    except (AttributeError, library.NVMLError):  # this library, driver or device does not have MIG
        return False


def _handles(library: Any) -> list[Any]:
    return [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]


def _texts(library: Any, function: str, otherwise: str) -> list[str]:
    """The text of each device in NVML's order; `otherwise` for one that does not respond."""
    texts = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            texts.append(_text(getattr(library, function)(library.nvmlDeviceGetHandleByIndex(index))))
        except library.NVMLError:
            texts.append(otherwise)
    return texts


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)  # older versions return bytes


def reason(error: Exception) -> str:
    """The error as the reason for having no number, in one line."""
    return str(error) if isinstance(error, Absent) else f"NVML: {str(error) or type(error).__name__}"
