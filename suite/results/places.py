"""The folder of a machine in results/. Machines of one name whose differences affect times have separate folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Machine, UsageError
from attnsuite.results.format import RUN, read_run

LEAST_DIFFERENCE = 0.05
"""The least relative difference between the memories of two machines. A kernel reserves a few MB more or less from boot
to boot, and memory modules come in steps of at least an eighth."""


def place(results: Path, machine: Machine) -> tuple[Machine, str]:
    """The machine, named like its folder, and a note if that is not its own name.

    The folder is one whose runs are all from a machine like it. Otherwise a new folder is named after the difference
    from the machine that has the plain name.
    """
    folders = [results / machine.name, *sorted(results.glob(f"{machine.name}-*"))]
    machines_of = {folder.name: machines for folder in folders if (machines := known(folder))}
    own = [name for name, others in machines_of.items() if unlike(machine, others) is None]
    name = own[0] if own else _free_name(machine, machines_of)
    if name == machine.name:
        return machine, ""
    other = unlike(machine, machines_of.get(machine.name, ()))
    reason = f"{results / machine.name} belongs to {in_words(other, machine)}; " if other else ""
    return replace(machine, name=name), f"{reason}results of this machine are in {results / name}"


def known(folder: Path) -> list[Machine]:
    """The machines of the runs in a folder, the newest last; empty if a run cannot be read."""
    try:
        return [read_run(path.parent).machine for path in sorted(folder.glob(f"*/{RUN}"))]
    except UsageError:
        return []


def unlike(machine: Machine, others: Sequence[Machine]) -> Machine | None:
    """The last of the others that differs from this machine, or None. A fact that one of the two lacks is no
    difference.
    """
    return next((other for other in reversed(others) if any(differences(machine, other))), None)


def _free_name(machine: Machine, there: Mapping[str, Sequence[Machine]]) -> str:
    """A name that adds the differences from machines whose folders have the name so far."""
    name = machine.name
    while (other := unlike(machine, there.get(name, ()))) is not None:
        words = " ".join((name, *(mine for mine, _ in differences(machine, other))))
        name = re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")
    return name


def in_words(machine: Machine, other: Machine) -> str:
    """The differences in words, as "a machine with L3 300 MiB, not 260 MiB"."""
    return "a machine with " + " and ".join(f"{mine}, not {its}" for mine, its in differences(machine, other))


def differences(machine: Machine, other: Machine) -> Iterator[tuple[str, str]]:
    """The facts in which two machines differ, as pairs of the first and the second."""
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
