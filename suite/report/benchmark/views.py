"""Which tables stand beside each other, in what order, and which of them say most in little room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from suite.records import EVERY_CASE
from suite.report.benchmark.speed import Setting, Table, is_baseline, natural
from suite.results import Recorded


@dataclass(frozen=True)
class Shape:
    """What a run's notes say of a workload, in words. `length` is None where they do not say it."""

    group: str
    short: str
    """The name without its group."""
    words: str = ""
    why: str = ""
    length: int | None = None


class Shapes:
    """The workloads of a machine's runs, in the order of the newest run that names them."""

    def __init__(self, noted: Mapping[str, Shape]) -> None:
        self._noted = noted
        self._places = {name: place for place, name in enumerate(noted)}

    def __getitem__(self, workload: str) -> Shape:
        if workload in self._noted:
            return self._noted[workload]
        group, _, short = workload.rpartition("/")
        return Shape(group or workload, short)

    def place(self, workload: str) -> tuple[object, ...]:
        """A key to sort workloads by: those that no run names come last, 2k before 16k."""
        return self._places.get(workload, len(self._places)), natural(workload)


def shapes(recorded: Recorded) -> Shapes:
    """What the runs say of their workloads. Notes that are missing or of another form say nothing."""
    noted: dict[str, Shape] = {}
    for run in reversed(list(recorded.runs.values())):
        facts = run.notes.get("facts")
        workloads = facts.get("workloads") if isinstance(facts, Mapping) else None
        if isinstance(workloads, Mapping):
            noted = {**noted, **{name: _shape(name, of) for name, of in workloads.items() if name not in noted}}
    return Shapes(noted)


def by_group(tables: Iterable[Table], named: Shapes) -> dict[tuple[str, str], list[Table]]:
    """The tables by contract and group of workloads."""
    found: dict[tuple[str, str], list[Table]] = defaultdict(list)
    for table in sorted(tables, key=lambda table: (table.setting.contract, named.place(table.workload))):
        found[table.setting.contract, named[table.workload].group].append(table)
    return dict(found)


def by_setting(tables: Iterable[Table], named: Shapes) -> dict[Setting, list[Table]]:
    """The tables by how they were measured, each setting's in the order of workloads."""
    found: dict[Setting, list[Table]] = defaultdict(list)
    for table in tables:
        found[table.setting].append(table)
    return {
        setting: sorted(found[setting], key=lambda table: named.place(table.workload))
        for setting in sorted(found, key=lambda setting: setting.order)
    }


@dataclass(frozen=True)
class View:
    """What is shown first of one contract on one device: one setting, its tables, and those that differ from it only
    in direction and threads.
    """

    setting: Setting
    tables: tuple[Table, ...]
    related: tuple[Table, ...]
    representatives: tuple[Table, ...]
    """Of each group the table with the most work among those in which more than half of all have a time."""

    @property
    def measured(self) -> int:
        return sum(len(table.measured) for table in self.tables)


def views(tables: Sequence[Table], named: Shapes) -> list[View]:
    """A view for each contract and device, accelerators first; none where nothing was measured."""
    places = {(table.setting.contract, table.setting.device) for table in tables if table.measured}
    found = [_view([t for t in tables if (t.setting.contract, t.setting.device) == place], named) for place in places]
    return sorted(
        found,
        key=lambda view: (view.setting.device == "cpu", -view.measured, view.setting.contract, view.setting.device),
    )


def _view(tables: Sequence[Table], named: Shapes) -> View:
    settings = by_setting((table for table in tables if table.measured), named)
    first = min(settings, key=lambda setting: (*_plainness(setting), -_measured(settings[setting]), setting.order))
    related = [
        table
        for table in tables
        if replace(table.setting, threads=0, direction="") == replace(first, threads=0, direction="")
    ]
    mine = sorted((table for table in related if table.setting == first), key=lambda table: named.place(table.workload))
    groups = by_group((table for table in mine if table.measured), named)
    return View(first, tuple(mine), tuple(related), tuple(map(_representative, groups.values())))


def _representative(group: Sequence[Table]) -> Table:
    most = max(len(table.measured) for table in group)
    of_many = [table for table in group if 2 * len(table.measured) > most]
    return max(of_many, key=lambda table: (any(is_baseline(row.of) for row in table.measured), _work(table)))


def _plainness(setting: Setting) -> tuple[bool, bool]:
    return setting.direction != "forward", setting.threads > 1


def _measured(tables: Iterable[Table]) -> int:
    return sum(len(table.measured) for table in tables)


def _work(table: Table) -> float:
    return max(row.of.work.get("attended") or 0.0 for row in table.measured)


def _shape(name: str, of: object) -> Shape:
    plain = Shapes({})[name]
    if not isinstance(of, Mapping) or name == EVERY_CASE:
        return plain
    group, length = str(of.get("group") or plain.group), of.get("length")
    whole = length if isinstance(length, int) and length > 0 else None
    return Shape(group, name.removeprefix(f"{group}/"), str(of.get("shape", "")), str(of.get("why", "")), whole)
