"""The folder of a machine in results/: two machines of one model that differ in what times depend on have one each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Machine, UsageError
from attnsuite.results.format import RUN, read_run

LEAST_DIFFERENCE = 0.05
"""The least relative difference of the memories of two machines: a kernel keeps a few MB more or less for itself from
boot to boot, and modules of memory come in steps of an eighth and more."""


def place(results: Path, machine: Machine) -> tuple[Machine, str]:
    """The machine, called like its folder, and a note where that is not its own name.

    The folder is one whose runs are all of a machine like it; else a new one, which is named by the difference from
    the machine that has the plain name already.
    """
    folders = [results / machine.name, *sorted(results.glob(f"{machine.name}-*"))]
    there = {folder.name: machines for folder in folders if (machines := known(folder))}
    mine = [name for name, others in there.items() if unlike(machine, others) is None]
    name = mine[0] if mine else _free_name(machine, there)
    if name == machine.name:
        return machine, ""
    other = unlike(machine, there.get(machine.name, ()))
    reason = f"{results / machine.name} belongs to {in_words(other, machine)}; " if other else ""
    return replace(machine, name=name), f"{reason}results of this machine are in {results / name}"


def known(folder: Path) -> list[Machine]:
    """The machines of the runs in a folder, the newest last; runs that cannot be read are left to their reader."""
    try:
        return [read_run(path.parent).machine for path in sorted(folder.glob(f"*/{RUN}"))]
    except UsageError:
        return []


def unlike(machine: Machine, others: Sequence[Machine]) -> Machine | None:
    """The last of the others that cannot be this machine. A fact that one of two lacks does not tell them apart."""
    return next((other for other in reversed(others) if any(differences(machine, other))), None)


def _free_name(machine: Machine, there: Mapping[str, Sequence[Machine]]) -> str:
    """A name that says how the machine differs from those whose folders are called like the rest of it."""
    name = machine.name
    while (other := unlike(machine, there.get(name, ()))) is not None:
        words = " ".join((name, *(mine for mine, _ in differences(machine, other))))
        name = re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")
    return name


def in_words(machine: Machine, other: Machine) -> str:
    """What a machine has that another has not, and what that has: "a machine with L3 300 MiB, not 260 MiB"."""
    return "a machine with " + " and ".join(f"{mine}, not {its}" for mine, its in differences(machine, other))


def differences(machine: Machine, other: Machine) -> Iterator[tuple[str, str]]:
    """Each fact in which two machines differ, as it is of the first and of the second."""
    if machine.processor != other.processor:
        yield machine.processor, other.processor
    for what in ("cores", "threads"):
        mine, its = getattr(machine, what), getattr(other, what)
        if mine != its:
            yield f"{mine} {what}", f"{its}"
    for level in sorted(machine.caches.keys() & other.caches.keys()):
        if machine.caches[level] != other.caches[level]:
            yield f"{level} {_size(machine.caches[level])}", _size(other.caches[level])
    larger = max(machine.memory_bytes, other.memory_bytes)
    if abs(machine.memory_bytes - other.memory_bytes) > LEAST_DIFFERENCE * larger:
        yield f"{_size(machine.memory_bytes)} of memory", _size(other.memory_bytes)
    if sorted(machine.accelerators) != sorted(other.accelerators):
        yield ", ".join(machine.accelerators) or "no accelerator", ", ".join(other.accelerators) or "none"


def _size(count: int) -> str:
    """Bytes in the largest unit that leaves a number above 1."""
    unit, factor = next(((u, f) for u, f in _UNITS if count >= f), _UNITS[-1])
    return f"{count / factor:.3g} {unit}"


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
