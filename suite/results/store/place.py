"""Which folder of results/ is a machine's: two of one model that differ in what times depend on have one each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Machine, UsageError
from attnsuite.results.store import together
from attnsuite.results.store.files import parsed_rows
from attnsuite.results.store.runs import RUNS
from attnsuite.results.store.typed import object_of, typed

LEAST_DIFFERENCE = 0.05
"""By how much, relative to the larger, memories differ that are not one: a kernel keeps a few MB more or less for
itself from boot to boot, and modules of memory come in steps of an eighth and more."""


def place(results: Path, machine: Machine) -> tuple[Machine, str]:
    """The machine, called like its folder, and a note where that is not its own name.

    Its folder is one whose runs are all of a machine like it; else a new one, which says in its name how the machine
    differs from the one that has the plain name already.
    """
    folders = [results / machine.name, *sorted(results.glob(f"{machine.name}-*"))]
    there = {folder.name: machines for folder in folders if (machines := known(folder))}
    mine = [name for name, others in there.items() if unlike(machine, others) is None]
    name = mine[0] if mine else beside(machine.name, machine, there)
    if name == machine.name:
        return machine, ""
    namesake = unlike(machine, there.get(machine.name, ()))
    other = f"{results / machine.name} is of {said(namesake, machine)}: " if namesake else ""
    return replace(machine, name=name), f"{other}results of this machine are in {results / name}"


def known(folder: Path) -> list[Machine]:
    """The machines of the runs in a folder, the newest last; those that cannot be read are left to who reads it."""
    try:
        rows = [row for _, row in parsed_rows(folder / RUNS, together.content(folder, RUNS), appended=True)]
        return [typed(Machine, object_of("machine", row["machine"])) for row in rows]
    except (UsageError, ValueError, KeyError, TypeError):
        return []


def unlike(machine: Machine, others: Sequence[Machine]) -> Machine | None:
    """The last of the others that cannot be this machine, if any. What one of two does not know tells none apart."""
    return next((other for other in reversed(others) if any(differences(machine, other))), None)


def beside(name: str, machine: Machine, there: Mapping[str, Sequence[Machine]]) -> str:
    """A name for the machine's folder, which says how it differs from those whose folders are called like the rest."""
    while (other := unlike(machine, there.get(name, ()))) is not None:
        name = _slug(" ".join((name, *(mine for mine, _ in differences(machine, other)))))
    return name


def said(one: Machine, other: Machine) -> str:
    """What one machine has that another has not, and what that has: "a machine with L3 300 MiB, not 260 MiB"."""
    return "a machine with " + " and ".join(f"{mine}, not {its}" for mine, its in differences(one, other))


def differences(one: Machine, other: Machine) -> Iterator[tuple[str, str]]:
    """Each fact in which they differ, as it is of the one and of the other."""
    if one.processor != other.processor:
        yield one.processor, other.processor
    for what in ("cores", "threads"):
        mine, its = getattr(one, what), getattr(other, what)
        if mine != its:
            yield f"{mine} {what}", f"{its}"
    for level in sorted(one.caches.keys() & other.caches.keys()):
        if one.caches[level] != other.caches[level]:
            yield f"{level} {_size(one.caches[level])}", _size(other.caches[level])
    larger = max(one.memory_bytes, other.memory_bytes)
    if abs(one.memory_bytes - other.memory_bytes) > LEAST_DIFFERENCE * larger:
        yield f"{_size(one.memory_bytes)} of memory", _size(other.memory_bytes)
    if sorted(one.accelerators) != sorted(other.accelerators):
        yield ", ".join(one.accelerators) or "no accelerator", ", ".join(other.accelerators) or "none"


def _size(count: int) -> str:
    """Bytes in the largest unit that leaves a number above 1."""
    unit, factor = next(((u, f) for u, f in _UNITS if count >= f), _UNITS[-1])
    return f"{count / factor:.3g} {unit}"


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-")
