"""The machine of a run: processor, memory, system, accelerators; versions, commit, and a hash of the sources."""

from __future__ import annotations

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

import attnsuite
from attnsuite.machine import nvml as nvml
from attnsuite.machine import system as system
from attnsuite.model import Machine, Run

DISTRIBUTIONS = (
    "attnsuite", "torch", "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxscript", "jax", "jaxlib", "triton",
    "flash-attn", "xformers", "mlx", "scipy", "mpmath",
)  # fmt: skip
"""Packages on which an output or a time may depend."""
_MARKETING = re.compile(
    r"\((?:R|TM|C)\)|@[^,]*|\b\d+-Core\b|\bw/.*|\bwith Radeon.*|\b(?:CPU|Processor)\b", re.IGNORECASE
)


def here() -> Machine:
    """This machine. Its name consists of processor, cores and accelerators, without host or user."""
    processor = system.processor()
    threads = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or threads
    accelerators = nvml.devices()
    return Machine(
        name=_name(processor, cores, accelerators),
        processor=processor,
        cores=cores,
        threads=threads,
        memory_bytes=psutil.virtual_memory().total,
        system=system.system(),
        accelerators=accelerators,
        caches=system.caches(),
        accelerator_facts=nvml.facts(),
    )


def versions() -> dict[str, str]:
    """The versions of the installed packages, without importing any of them."""
    installed = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


@cache
def suite_hash() -> str:
    """The first 12 hexadecimal digits of a SHA-256 over the suite's own sources and data.

    They are read once per process, which keeps its imported modules.
    """
    hashed, folder = hashlib.sha256(), Path(attnsuite.__file__).parent
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if file.suffix in (".py", ".json", ".toml") and path.parts[0] != "implementations":  # each has its own hash
            hashed.update(str(path).encode())
            hashed.update(file.read_bytes())
    return hashed.hexdigest()[:12]


def commit(folder: Path | str = ".") -> str:
    """The checked-out commit of `folder`, with "-dirty" if anything but results/ differs; empty without git."""
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    changes = _git(folder, "status", "--porcelain", "--", ":/", ":(top,exclude)results")
    return head + "-dirty" if changes else head


def differs(folder: Path) -> bool:
    """Whether git shows changes in a folder, new files included; False outside a checkout and without git."""
    return bool(_git(folder, "status", "--porcelain", "--", "."))


def new_run(sources: Mapping[str, str], suite: str, request: str = "") -> Run:
    """A run that starts now, on this machine; `Results.open_run` may resume an older one in its place."""
    started = datetime.now(UTC)
    return Run(
        id=started.strftime("%Y%m%dT%H%M%S%f")[:-3],
        started=started.isoformat(timespec="seconds"),
        machine=here(),
        versions=versions(),
        commit=commit(),
        sources=dict(sources),
        suite=suite,
        request=request,
    )


def _name(processor: str, cores: int, accelerators: Iterable[str]) -> str:
    words = [_MARKETING.sub(" ", processor), f"{cores} core{'' if cores == 1 else 's'}"]
    for accelerator, count in Counter(accelerators).items():
        words.append(accelerator if count == 1 else f"{count} {accelerator}")
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")


def _git(folder: Path | str, *arguments: str) -> str:
    return system.output("git", "-C", str(folder), *arguments)
