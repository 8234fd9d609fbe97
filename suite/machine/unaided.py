"""The names of NVIDIA devices where pynvml is absent: as the driver's own tool tells them, else as PyTorch does."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from attnsuite.machine import system

TOOL = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
"""It comes with the driver and asks NVML, so that the names are those which pynvml gives."""
DEVICES = tuple(map(Path, ("/dev/nvidiactl", "/dev/dxg")))
"""Files that Linux has where it has an NVIDIA driver, of its own or of the Windows below it. Without one PyTorch, which
takes seconds to import, is not asked."""
ASKED = "import torch; print(*map(torch.cuda.get_device_name, range(torch.cuda.device_count())), sep='\\n')"
"""PyTorch is asked in a process of its own: where it has looked at a device, no process can be forked any more."""


@cache
def names() -> tuple[str, ...]:
    """The names, in the order of whoever tells them; empty where nobody does. Asked once in a process."""
    return _lines(*TOOL) or (_lines(sys.executable, "-c", ASKED) if any(map(Path.exists, DEVICES)) else ())


def _lines(*command: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in system.answer(*command).splitlines() if line.strip())
