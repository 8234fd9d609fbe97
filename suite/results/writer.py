"""The writer of the runs of a machine, and the folder of the machine. A finished run is immutable."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from msgspec.structs import replace

from attnsuite.model import Facts, Machine, Run, UsageError
from attnsuite.model.files import file_errors, replace_bytes
from attnsuite.model.garbage_collection import gc_paused
from attnsuite.results.format import (
    FACTS,
    KINDS,
    RUN,
    SUFFIXES,
    AnyRow,
    facts_text,
    hashes,
    line_of,
    packed,
    read_rows,
    read_run,
    run_text,
)
from attnsuite.results.recorded import runs_of

LOCK = ".lock"
"""The file in a machine's folder that its writer locks and removes."""
PACKED, JOURNAL = SUFFIXES
NAMES = {kind: name for name, kind in KINDS.items()}
Row = TypeVar("Row", bound=AnyRow)


@gc_paused()
def open_run(results: Path, run: Run) -> RunWriter:
    """Resume the newest unfinished run that is like `run`, or start `run`, in the folder of its machine.

    Raises UsageError if another process writes there, or if the folder cannot be read or written.
    """
    name = run.machine.name
    if not name or name.startswith(".") or Path(name).name != name:
        raise UsageError(f"a machine's name is also its folder, which {name!r} cannot be")
    machine, note = place(results, run.machine)
    folder = results / machine.name
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"another attnsuite is writing to {folder}: wait until it ends, or stop it") from None
    try:
        return RunWriter(results, replace(run, machine=machine), lock, note)
    except BaseException:
        _unlock(lock)
        raise


class RunWriter:
    """Writes the rows of one run. A crash loses at most the row that is being written.

    `run` is the run (an older one if it is `resumed`), `folder` its folder, and `notes` are lines for the user.
    """

    def __init__(self, results: Path, run: Run, lock: FileLock, note: str = "") -> None:
        self._lock: FileLock | None = lock
        self._files: dict[str, int] = {}
        known = runs_of(results, run.machine.name)
        alike = [(folder, old) for folder, old in known.items() if not old.finished and identity(old) == identity(run)]
        self.resumed = bool(alike)
        if alike:
            self.folder, self.run = alike[-1]
        else:
            name = _unused(run.id, lambda name: (results / run.machine.name / name).exists())
            self.folder, self.run = results / run.machine.name / name, replace(run, id=name, finished="")
        with file_errors(self.folder, "written"):
            self.folder.mkdir(exist_ok=True)
        self.notes = tuple(filter(None, (note, *map(self._mend, KINDS))))
        self._rows = {row: {row.key: row for row in read_rows(self.folder, kind)} for kind, row in KINDS.items()}
        if not self.resumed:
            replace_bytes(self.folder / FACTS, facts_text(self.run.facts))
            replace_bytes(self.folder / RUN, run_text(self.run))

    def stored(self, kind: type[Row]) -> dict[tuple[str, ...], Row]:
        """The rows of this type that the run has, by key."""
        return self._rows[kind]  # type: ignore[index, return-value]

    def write(self, row: AnyRow) -> None:
        """Append a row to the journal; it replaces a row of the same key in this run.

        Raises UsageError when the disk is full (the rows before it stay), and ValueError for a row that could not be
        read again.
        """
        if self._lock is None:
            raise ValueError("this run is closed")
        line, name = line_of(row), NAMES[type(row)]
        path = self.folder / f"{name}{JOURNAL}"
        with file_errors(path, "written"):
            if name not in self._files:
                self._files[name] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            _append(self._files[name], line)
        self._rows[type(row)][row.key] = row

    def finish(self, facts: Facts | None = None) -> Run:
        """Compress the rows sorted by key, write the hashes of all files into run.json, and close the run.

        `facts` replace those of the start.
        """
        self._close_files()
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        replace_bytes(self.folder / FACTS, facts_text(facts or self.run.facts))
        for name, kind in KINDS.items():
            if rows := self._rows[kind]:
                lines = b"".join(line_of(rows[key]) for key in sorted(rows))
                replace_bytes(self.folder / f"{name}{PACKED}", packed(lines))
            (self.folder / f"{name}{JOURNAL}").unlink(missing_ok=True)
        run = replace(self.run, finished=finished, facts=facts or self.run.facts, files=hashes(self.folder))
        replace_bytes(self.folder / RUN, run_text(run))
        self.run = run
        self.close()
        return run

    def close(self) -> None:
        """Release the lock. A run that is closed before it is finished can be resumed."""
        self._close_files()
        if self._lock is not None:
            _unlock(self._lock)
            self._lock = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _close_files(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _mend(self, kind: str) -> str:
        """Remove the end of a last row that a crash cut off; return a note about it."""
        path = self.folder / f"{kind}{JOURNAL}"
        with file_errors(path, "written"):
            if not path.exists():
                return ""
            with path.open("rb+") as file:
                data = file.read()
                end = data.rfind(b"\n") + 1
                file.truncate(end)
        return f"{path}: the last row was cut off by a crash and is dropped" if end < len(data) else ""


def named(results: Path, machine: Machine) -> Machine:
    """The machine, named like its folder in these results."""
    return place(results, machine)[0]


@gc_paused()
def finished_shard(results: Path, run: Run) -> list[AnyRow] | None:
    """The rows of a finished run with the same request, sources, versions and machine, or None."""
    like = identity(replace(run, machine=named(results, run.machine)))
    known = runs_of(results, named(results, run.machine).name).items()
    alike = [folder for folder, old in known if old.finished and identity(old) == like]
    return [row for kind in KINDS for row in read_rows(alike[-1], kind)] if alike else None


def identity(run: Run) -> tuple[Any, ...]:
    """The facts that must be equal to resume a run. Memory is not one: a virtual machine's differs between boots."""
    machine = replace(run.machine, memory_bytes=0)
    return run.suite, dict(run.sources), dict(run.versions), machine, run.request, run.shard


def _unused(name: str, is_taken: Callable[[str], bool]) -> str:
    """The name, with a number appended if it is taken."""
    number, free = 1, name
    while is_taken(free):
        number += 1
        free = f"{name}-{number}"
    return free


def _append(file: int, data: bytes) -> None:
    """Append the data, or nothing if the disk is full."""
    size = os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def _unlock(lock: FileLock) -> None:
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)  # while locked, so no other process holds it
    lock.release()


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
