"""Which of NVML's devices a CUDA device is: NVML lists all, CUDA those that it was told to, in an order of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from suite.machine.telemetry import Absent

_NUMBERED = re.compile(r"cuda(?::(\d+))?")
_UUID = re.compile(r"(GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_OLD_INSTANCE = re.compile(r"MIG-GPU-[0-9a-f-]{36}/\d+/\d+", re.IGNORECASE)


def addressed(device: str) -> bool:
    """Whether `device` names a CUDA device: `cuda`, `cuda:N`, or a UUID with or without `GPU-` or `MIG-`."""
    return any(pattern.fullmatch(device) for pattern in (_NUMBERED, _UUID, _OLD_INSTANCE))


def uuid_of(device: str, uuids: Sequence[str], names: Sequence[str], environment: Mapping[str, str]) -> str:
    """NVML's UUID of `device`: one of `uuids`, or that of a MIG instance, which begins with `MIG-`.

    A UUID is unmistakable; torch tells it, without `GPU-`, in `torch.cuda.get_device_properties(index).uuid`. A number
    counts among those that CUDA_VISIBLE_DEVICES shows. `uuids` and `names` are in NVML's order, that of the PCI bus.
    Raises Absent where there is no such device, or no telling.
    """
    numbered = _NUMBERED.fullmatch(device)
    if numbered:
        return _numbered(int(numbered[1] or 0), uuids, names, environment)
    if device.upper().startswith("MIG-"):
        return device
    known = {uuid.lower(): uuid for uuid in uuids}
    whole = "gpu-" + device.lower().removeprefix("gpu-")
    if whole in known:
        return known[whole]
    if device.lower() == whole:
        raise Absent(f"NVML has no device {device}")
    return f"MIG-{device}"  # a bare UUID that is no GPU's may be an instance's: NVML is asked


def _numbered(number: int, uuids: Sequence[str], names: Sequence[str], environment: Mapping[str, str]) -> str:
    shown = _shown(environment.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(len(uuids))))), uuids)
    if number >= len(shown):
        raise Absent(f"CUDA is shown {len(shown)} devices, and cuda:{number} is none of them")
    entry, uuid = shown[number]
    if entry[0].isdigit() and len(set(names)) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise Absent("CUDA numbers unlike devices by speed, NVML by bus: give the UUID, or set CUDA_DEVICE_ORDER")
    return uuid


def _shown(setting: str, uuids: Sequence[str]) -> list[tuple[str, str]]:
    """What CUDA_VISIBLE_DEVICES shows, each as it is written and its UUID.

    As CUDA reads it: an entry is a number or the start of a UUID, nothing counts from the first on that names no device
    or several, and naming a device twice shows none.
    """
    shown: list[tuple[str, str]] = []
    for entry in map(str.strip, setting.split(",")):
        found = _matching(entry, uuids)
        if len(found) != 1:
            break
        shown.append((entry, found[0]))
    return shown if len({uuid for _, uuid in shown}) == len(shown) else []


def _matching(entry: str, uuids: Sequence[str]) -> Sequence[str]:
    if entry.startswith("MIG-"):
        return [entry]
    if entry.startswith("GPU-"):
        return [uuid for uuid in uuids if uuid.startswith(entry)]
    number = re.match(r"\d+", entry)
    return uuids[int(number[0]) : int(number[0]) + 1] if number else []
