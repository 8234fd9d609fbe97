"""Which of NVML's devices a CUDA device is. NVML lists all; CUDA lists those it is told to, in an order of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attnsuite.machine.telemetry import Absent

_NUMBERED = re.compile(r"cuda(?::(\d+))?")
_UUID = re.compile(r"(GPU-|MIG-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_OLD_INSTANCE = re.compile(r"MIG-GPU-[0-9a-f-]{36}/\d+/\d+", re.IGNORECASE)
"""The name of a MIG instance in older drivers."""


def addressed(device: str) -> bool:
    """Whether `device` names a CUDA device: `cuda`, `cuda:N`, or a UUID with or without `GPU-` or `MIG-`."""
    return any(pattern.fullmatch(device) for pattern in (_NUMBERED, _UUID, _OLD_INSTANCE))


def uuid_of(device: str, uuids: Sequence[str], names: Sequence[str], environment: Mapping[str, str]) -> str:
    """NVML's UUID of `device`: one of `uuids`, or that of a MIG instance, which begins with `MIG-`.

    A UUID is certain; torch gives it, without `GPU-`, in `torch.cuda.get_device_properties(index).uuid`. A number is a
    place in CUDA_VISIBLE_DEVICES. `uuids` and `names` are in NVML's order, that of the PCI bus. Raises
    Absent if there is no such device, or if it cannot be known which one it is.
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
    return f"MIG-{device}"  # a UUID that is not of a GPU may be of an instance: NVML will say


def _numbered(number: int, uuids: Sequence[str], names: Sequence[str], environment: Mapping[str, str]) -> str:
    shown = _shown(environment.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(len(uuids))))), uuids)
    if number >= len(shown):
        raise Absent(f"CUDA sees {len(shown)} devices, so there is no cuda:{number}")
    entry, uuid = shown[number]
    if entry[0].isdigit() and len(set(names)) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise Absent("CUDA numbers different devices by speed, NVML by bus: give the UUID, or set CUDA_DEVICE_ORDER")
    return uuid


def _shown(setting: str, uuids: Sequence[str]) -> list[tuple[str, str]]:
    """The devices in CUDA_VISIBLE_DEVICES, each as it is written there and its UUID.

    Read as CUDA does: an entry is a number or the start of a UUID. The first entry that does not name exactly one
    device ends the list, and a list that names a device twice is empty.
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
