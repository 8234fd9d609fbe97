"""The memory of one call, by each meter that the machine has."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from attnsuite.machine import nvml
from attnsuite.model.rows import METER_ERROR, METERS

KNOWN_ALLOCATIONS = (2**20, 2**22, 2**24, 2**26)
"""Bytes of the allocations by which the resident meter is calibrated, a factor of 4 apart; the median counts."""
NEGLIGIBLE_SHARE = 0.01
"""Where a first call leaves behind no more than this share of its peak, the call is not made again for another peak."""
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_peak(call: Callable[[], Any]) -> int:
    """By how many bytes the process's resident memory rose at most during a call (Linux).

    Raises OSError where the system does not tell.
    """
    gc.collect()
    _CLEAR.write_text("5")  # resets the high-water mark to what is resident now
    before = _resident("VmRSS")
    call()
    return max(0, _resident("VmHWM") - before)


def resident() -> int:
    """Bytes of the process that are resident now (Linux). Raises OSError where the system does not tell."""
    gc.collect()
    return _resident("VmRSS")


@cache
def calibrated() -> tuple[float, float]:
    """What the resident meter reports of a call that allocates nothing, and of each byte that is allocated and written.

    Measured once in a process.
    """
    _freeze()
    constant = median(resident_peak(lambda: None) for _ in range(5))
    return constant, median((resident_peak(_allocates(size)) - constant) / size for size in KNOWN_ALLOCATIONS)


def of_call(call: Callable[[], Any], device: str, warm: Callable[[], Any]) -> dict[str, float | None]:
    """Bytes of one call by each meter, as in `Measurement.memory`, without the output. Inputs exist already.

    `warm` is a small call of the same kind, made first, which loads what every call needs. What stays after a first
    call is `retained`, and what a second call takes is the peak; where a negligible share stays, the first call's peak
    counts. Pages of files, such as libraries' code, are left out: how many the system maps at once depends on how the
    file lies in its cache, and a forked copy of a process maps them anew.
    """
    warm()
    _freeze()
    meters: dict[str, float | None] = dict.fromkeys(METERS - {"output"})
    if torch.device(device).type == "cuda":
        return meters | _of_cuda(call, device)
    try:
        constant, of_each = calibrated()
        before, files_before = resident(), _resident("RssFile")
        peak = resident_peak(call)
        stays, files = max(0, resident() - before), _resident("RssFile") - files_before
        peak = max(0, peak - stays) if stays <= max(NEGLIGIBLE_SHARE * peak, METER_ERROR) else resident_peak(call)
    except OSError:  # no /proc: not Linux
        call()
        return meters
    retained = float(max(0, stays - files))
    return meters | {"resident": float(peak), "retained": retained, "constant": constant, "calibration": of_each}


def _freeze() -> None:
    """Tell the garbage collector that all present objects stay, so that later collections take next to no time."""
    gc.collect()
    gc.freeze()


def _of_cuda(call: Callable[[], Any], device: str) -> dict[str, float | None]:
    """The peak of PyTorch's allocator over one call, and by how much the driver's used memory grew over another."""
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
    """The name by which NVML knows a CUDA device; empty for others."""
    if torch.device(device).type != "cuda":
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))


def _allocates(size: int) -> Callable[[], Any]:
    return lambda: np.ones(size, np.uint8)  # not by PyTorch, which would start threads that a forked copy lacks


def _resident(field: str) -> int:
    line = re.search(rf"^{field}:\s*(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if line is None:
        raise OSError(f"{_STATUS} has no {field}")
    return int(line[1]) * 1024
