"""The memory of one call, by each meter of the machine."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from attnsuite.machine import nvml
from attnsuite.model.rows import METER_ERROR, METERS

KNOWN_ALLOCATIONS = (2**20, 2**22, 2**24, 2**26)
"""Bytes of the allocations that calibrate the resident meter, a factor of 4 apart; the median counts."""
NEGLIGIBLE_SHARE = 0.01
"""Share of its peak up to which memory left by the first call is ignored; beyond it, a second call measures the
peak."""
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_peak(call: Callable[[], Any]) -> int:
    """The peak of the process's resident memory during a call, minus that before it, in bytes (Linux).

    Raises OSError if the system does not report it.
    """
    gc.collect()
    _CLEAR.write_text("5")  # resets the peak to the present resident size
    before = _resident("VmRSS")
    call()
    return max(0, _resident("VmHWM") - before)


def resident() -> int:
    """The process's resident memory in bytes (Linux). Raises OSError if the system does not report it."""
    gc.collect()
    return _resident("VmRSS")


@cache
def calibrated() -> tuple[float, float]:
    """What the resident meter reports for a call without allocations, and for each byte that is allocated and written.

    Measured once in a process.
    """
    _freeze()
    constant = median(resident_peak(lambda: None) for _ in range(5))
    return constant, median((resident_peak(_allocates(size)) - constant) / size for size in KNOWN_ALLOCATIONS)


def memory_of_call(call: Callable[[], Any], device: str, warm: Callable[[], Any]) -> dict[str, float | None]:
    """Bytes of one call by each meter, as in `Measurement.memory`, without the output and the existing inputs.

    `warm` is a small call of the same kind, made first, which loads what every call needs. Memory that the first call
    leaves is `retained`; the peak is that of a second call, or of the first if a negligible share is retained. Pages of
    files, such as libraries' code, do not count: their number depends on the system's cache, and a forked process maps
    them again.
    """
    warm()
    _freeze()
    meters: dict[str, float | None] = dict.fromkeys(METERS - {"output"})
    if torch.device(device).type == "cuda":
        return meters | _cuda_memory(call, device)
    try:
        constant, per_byte = calibrated()
        before, files_before = resident(), _resident("RssFile")
        peak = resident_peak(call)
        retained, files = max(0, resident() - before), _resident("RssFile") - files_before
        peak = max(0, peak - retained) if retained <= max(NEGLIGIBLE_SHARE * peak, METER_ERROR) else resident_peak(call)
    except OSError:  # no /proc: not Linux
        call()
        return meters
    own = float(max(0, retained - files))
    return meters | {"resident": float(peak), "retained": own, "constant": constant, "calibration": per_byte}


def _freeze() -> None:
    """Exempt all present objects from garbage collection, so that later collections take next to no time."""
    gc.collect()
    gc.freeze()


def _cuda_memory(call: Callable[[], Any], device: str) -> dict[str, float | None]:
    """The peak of PyTorch's allocator over one call, and the growth of the driver's used memory over another."""
    torch.cuda.empty_cache()
    used = nvml.used_memory(device_uuid(device) or device)
    call()
    torch.cuda.synchronize(device)
    used_after = nvml.used_memory(device_uuid(device) or device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    taken = None if used is None or used_after is None else float(max(0, used_after - used))
    return {"allocator": float(torch.cuda.max_memory_allocated(device) - before), "driver": taken}


def device_uuid(device: str) -> str:
    """NVML's UUID of a CUDA device; empty for other devices, and for one whose memory another process exhausts."""
    if torch.device(device).type == "cuda":
        with suppress(RuntimeError):
            return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    return ""


def _allocates(size: int) -> Callable[[], Any]:
    return lambda: np.ones(size, np.uint8)  # NumPy, because PyTorch would start threads, which a forked copy lacks


def _resident(field: str) -> int:
    line = re.search(rf"^{field}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if line is None:
        raise OSError(f"{_STATUS} has no {field}")
    return int(line[1]) * 1024
