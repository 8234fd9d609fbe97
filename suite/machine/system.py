"""What the processor and the system say of themselves."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_KINDS = {"Data": "d", "Instruction": "i", "Unified": ""}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "": 1}


def processor(told: Path = CPUINFO) -> str:
    """The processor's model: /proc/cpuinfo names it on x86, lscpu on ARM, sysctl on a Mac.

    A virtual machine's "Xeon Processor" may be any of several. Family and model number tell which, and are added to a
    name that has no number of its own.
    """
    with suppress(OSError):
        said = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", told.read_text(), re.MULTILINE))
        if name := " ".join(said.pop("model name", "").split()):
            numbered = re.search(r"\d", name.partition("@")[0])
            return name if numbered else ", ".join([name, *(f"{key.split()[-1]} {said[key]}" for key in sorted(said))])
    listed = re.search(r"^Model name:\s*(.+)$", answer("lscpu"), re.MULTILINE)
    if listed and listed[1].strip() != "-":
        return " ".join(listed[1].split())
    apple = answer("sysctl", "-n", "machdep.cpu.brand_string")
    return apple or platform.processor() or platform.machine() or "unknown processor"


def caches(folder: Path = CACHES) -> dict[str, int]:
    """Bytes by level, `L1d`, `L1i`, `L2`, `L3`: one instance of each, as the first processor sees it. What the system
    does not tell is left out, so outside Linux, and in containers without /sys, nothing is here.
    """
    found = {}
    for cache in sorted(folder.glob("index*")):
        with suppress(OSError, KeyError):  # what is not there, or of a kind that has no letter
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
            told = re.fullmatch(r"(\d+)([KMG]?)", size)
            if told:
                found[f"L{level}{_KINDS[kind]}"] = int(told[1]) * _UNITS[told[2]]
    return found


def system() -> str:
    """The kernel, the architecture and the distribution."""
    release = ".".join(platform.release().split(".")[:2])  # beyond that it names a build, not a system
    named = f"{platform.system()} {release} {platform.machine()}"
    with suppress(OSError):
        return f"{named}, {platform.freedesktop_os_release()['PRETTY_NAME']}"
    return named


def answer(*command: str) -> str:
    """What a command prints, or nothing where it is absent, fails or takes too long."""
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=10, env=surroundings, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
