"""The processor, its caches, and the operating system."""

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


def processor(cpuinfo: Path = CPUINFO) -> str:
    """The processor's model: /proc/cpuinfo names it on x86, lscpu on ARM, sysctl on a Mac.

    A virtual machine's "Xeon Processor" is ambiguous: family and model number are added to a name without a number.
    """
    with suppress(OSError):
        facts = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE))
        if name := " ".join(facts.pop("model name", "").split()):
            numbered = re.search(r"\d", name.partition("@")[0])
            return (
                name if numbered else ", ".join([name, *(f"{key.split()[-1]} {facts[key]}" for key in sorted(facts))])
            )
    listed = re.search(r"^Model name:\s*(.+)$", output("lscpu"), re.MULTILINE)
    if listed and listed[1].strip() != "-":
        return " ".join(listed[1].split())
    apple = output("sysctl", "-n", "machdep.cpu.brand_string")
    return apple or platform.processor() or platform.machine() or "unknown processor"


def caches(folder: Path = CACHES) -> dict[str, int]:
    """Bytes of one cache of each level, `L1d`, `L1i`, `L2`, `L3`, of the first processor.

    Unknown levels are omitted: all of them outside Linux, and in containers without /sys.
    """
    sizes = {}
    for cache in sorted(folder.glob("index*")):
        with suppress(OSError, KeyError):  # missing, or of a kind that has no letter
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
            if number := re.fullmatch(r"(\d+)([KMG]?)", size):
                sizes[f"L{level}{_KINDS[kind]}"] = int(number[1]) * _UNITS[number[2]]
    return sizes


def system() -> str:
    """The kernel, the architecture and the distribution."""
    release = ".".join(platform.release().split(".")[:2])  # beyond that it names a build, not a system
    named = f"{platform.system()} {release} {platform.machine()}"
    with suppress(OSError):
        return f"{named}, {platform.freedesktop_os_release()['PRETTY_NAME']}"
    return named


def output(*command: str) -> str:
    """The output of a command; empty if it is missing, fails or takes more than 10 s."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=10, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
