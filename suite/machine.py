"""What machine this is: processor, memory, system, accelerators, versions and commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from suite.records import Machine, Run

DISTRIBUTIONS = (
    "attnsuite", "torch", "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxscript", "jax", "jaxlib", "triton",
    "flash-attn", "xformers", "scipy", "mpmath",
)  # fmt: skip
"""What an answer or a time may depend on."""

_MARKETING = re.compile(r"\((?:R|TM|C)\)|@.*|\b\d+-Core\b|\bw/.*|\bwith Radeon.*|\b(?:CPU|Processor)\b", re.IGNORECASE)


def here() -> Machine:
    """This machine. Its name is made of processor, cores and accelerators: no host and no user stands in it."""
    processor = _processor()
    threads = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or threads
    accelerators = _nvidia()
    return Machine(
        name=_name(processor, cores, accelerators),
        processor=processor,
        cores=cores,
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
        system=_system(),
        accelerators=accelerators,
    )


def versions() -> dict[str, str]:
    """The versions of what is installed, without importing any of it. What is absent is left out."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def commit(folder: Path | str = ".") -> str:
    """The commit that `folder` stands at, "-dirty" after it if anything but results/ differs; empty without git."""
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    changes = _git(folder, "status", "--porcelain", "--", ":/", ":(top,exclude)results")
    return head + "-dirty" if changes else head


def new_run(sources: Mapping[str, str], suite: str, asked: str = "") -> Run:
    """A run that starts now, on this machine; `Results.open_run` may resume an older one in its place."""
    now = datetime.now(UTC)
    return Run(
        id=now.strftime("%Y%m%dT%H%M%S%f")[:-3],
        started=now.isoformat(timespec="seconds"),
        machine=here(),
        versions=versions(),
        commit=commit(),
        sources=dict(sources),
        suite=suite,
        asked=asked,
    )


def _name(processor: str, cores: int, accelerators: Iterable[str]) -> str:
    words = [_MARKETING.sub(" ", processor), f"{cores} core{'' if cores == 1 else 's'}"]
    for accelerator, count in Counter(accelerators).items():
        words.append(accelerator if count == 1 else f"{count} {accelerator}")
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def _system() -> str:
    release = ".".join(platform.release().split(".")[:2])  # beyond that it names a build, not a system
    system = f"{platform.system()} {release} {platform.machine()}"
    with suppress(OSError):
        return f"{system}, {platform.freedesktop_os_release()['PRETTY_NAME']}"
    return system


def _processor() -> str:
    """The processor's model: /proc/cpuinfo names it on x86, lscpu on ARM, sysctl on a Mac."""
    with suppress(OSError):
        named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if named:
            return " ".join(named[1].split())
    listed = re.search(r"^Model name:\s*(.+)$", _answer("lscpu"), re.MULTILINE)
    if listed and listed[1].strip() != "-":
        return " ".join(listed[1].split())
    apple = _answer("sysctl", "-n", "machdep.cpu.brand_string")
    return apple or platform.processor() or platform.machine() or "unknown processor"


def _nvidia() -> tuple[str, ...]:
    """The names of NVIDIA's accelerators; none without NVML, without a driver or without a device."""
    try:
        import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]  # optional
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # the library is there, the driver is not
        return ()
    try:
        devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [pynvml.nvmlDeviceGetName(device) for device in devices]
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    except pynvml.NVMLError:
        return ("NVIDIA device that does not answer",)
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _git(folder: Path | str, *arguments: str) -> str:
    return _answer("git", "-C", str(folder), *arguments)


def _answer(*command: str) -> str:
    """What a command prints, or nothing where it is absent, fails or takes too long."""
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=10, env=surroundings, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
