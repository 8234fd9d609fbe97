"""What is recorded of one machine: of each question the newest row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from attnsuite.model import EVERY_CASE, Claimed, Learned, Measurement, Outcome, Run

Record = TypeVar("Record", Outcome, Measurement, Learned, Claimed)


@dataclass(frozen=True)
class Recorded:
    """What results/ holds of one machine: the newest row of each question, and the runs that the rows came from.

    `runs` are by id, the newest last; `rows` pair a run's id with an outcome, `measured` with a measurement, `trained`
    with what was learned, `examined` with what became of a claim, and all are sorted by what was asked.
    """

    machine: str
    runs: Mapping[str, Run]
    rows: tuple[tuple[str, Outcome], ...]
    measured: tuple[tuple[str, Measurement], ...] = ()
    trained: tuple[tuple[str, Learned], ...] = ()
    examined: tuple[tuple[str, Claimed], ...] = ()

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self.rows]

    @property
    def measurements(self) -> list[Measurement]:
        return [measurement for _, measurement in self.measured]

    @property
    def learned(self) -> list[Learned]:
        return [learned for _, learned in self.trained]

    @property
    def claimed(self) -> list[Claimed]:
        return [claimed for _, claimed in self.examined]

    @property
    def run(self) -> Run:
        """The newest run."""
        return list(self.runs.values())[-1]

    @property
    def checked_runs(self) -> list[Run]:
        """The runs that have outcomes here, the newest last."""
        return self.runs_of(identity for identity, _ in self.rows)

    @property
    def measured_runs(self) -> list[Run]:
        """The runs that have measurements here, the newest last."""
        return self.runs_of(identity for identity, _ in self.measured)

    @property
    def trained_runs(self) -> list[Run]:
        """The runs in which something was learned, the newest last."""
        return self.runs_of(identity for identity, _ in self.trained)

    @property
    def examined_runs(self) -> list[Run]:
        """The runs in which claims were measured, the newest last."""
        return self.runs_of(identity for identity, _ in self.examined)

    @property
    def checked_run(self) -> Run | None:
        """The newest run that has outcomes here."""
        return next(reversed(self.checked_runs), None)

    @property
    def measured_run(self) -> Run | None:
        """The newest run that has measurements here."""
        return next(reversed(self.measured_runs), None)

    @property
    def earlier(self) -> dict[str, Run]:
        """Each implementation that has outcomes of an older run than `checked_run`, with the oldest such run."""
        oldest: dict[str, str] = {}
        age = ages(self.runs)
        for identity, outcome in self.rows:
            name = outcome.implementation
            oldest[name] = min(identity, oldest.get(name, identity), key=age.__getitem__)
        newest = self.checked_run
        return {name: self.runs[identity] for name, identity in sorted(oldest.items()) if self.runs[identity] != newest}

    def runs_of(self, identities: Iterable[str]) -> list[Run]:
        """The runs of these ids, the newest last."""
        wanted = set(identities)
        return [run for identity, run in self.runs.items() if identity in wanted]


def newest(runs: Mapping[str, Run], recorded: Iterable[tuple[str, Record]]) -> tuple[tuple[str, Record], ...]:
    """Of each question the newest run's row, sorted by what was asked.

    A row about all cases or workloads (a missing library) outdates all before it, and is outdated by any after it: per
    implementation and device.
    """
    age = ages(runs)
    found: dict[tuple[str, ...], tuple[str, Record]] = {}
    about: dict[tuple[str, str, bool], int] = {}
    for identity, record in sorted(recorded, key=lambda row: age[row[0]]):
        found[record.key] = identity, record
        about[record.implementation, record.device, _is_about_all(record)] = age[identity]
    kept = (
        (identity, record)
        for identity, record in found.values()
        if age[identity] >= about.get((record.implementation, record.device, not _is_about_all(record)), -1)
    )
    return tuple(sorted(kept, key=lambda row: row[1].key))


def ages(runs: Mapping[str, Run]) -> dict[str, int]:
    """Each run's place in the order of runs: the newest has the largest."""
    return {identity: position for position, identity in enumerate(runs)}


def _is_about_all(record: Outcome | Measurement | Learned | Claimed) -> bool:
    if isinstance(record, Learned | Claimed):
        return False
    return (record.case if isinstance(record, Outcome) else record.workload) == EVERY_CASE
