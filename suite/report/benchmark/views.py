"""Which tables stand beside each other, in what order, and which of them say most in little room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from suite.records import EVERY_CASE, MODELS, Run
from suite.report.benchmark.speed import Setting, Subject, Table, is_baseline, natural
from suite.report.benchmark.wording import ATTENTION
from suite.store import Recorded

ANY = ""
"""Where a run does not tell of which contract a workload is."""


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
    """What a machine's runs say of each contract's workloads, in the order of the newest run that names them.

    What is noted of ANY contract is said of those that have no notes of their own.
    """

    def __init__(self, noted: Mapping[str, Mapping[str, Shape]]) -> None:
        self._noted = noted
        self._places = {contract: {name: place for place, name in enumerate(of)} for contract, of in noted.items()}

    def __getitem__(self, subject: Subject) -> Shape:
        contract, workload = subject
        return self._noted.get(contract, self._noted.get(ANY, {})).get(workload) or _unnoted(workload)

    def place(self, subject: Subject) -> tuple[object, ...]:
        """A key to sort the workloads of a contract by: those that no run names come last, 2k before 16k."""
        contract, workload = subject
        places = self._places.get(contract, self._places.get(ANY, {}))
        return places.get(workload, len(places)), natural(workload)


def shapes(recorded: Recorded) -> Shapes:
    """What the runs say of their workloads. Notes that are missing or of another form say nothing."""
    noted: dict[str, dict[str, Shape]] = defaultdict(dict)
    for run in reversed(list(recorded.runs.values())):
        for (contract, workload), of in _noted(run):
            noted[contract].setdefault(workload, _shape(workload, of))
    return Shapes(dict(noted))


def by_group(tables: Iterable[Table], named: Shapes) -> dict[tuple[str, str], list[Table]]:
    """The tables by contract and group of workloads."""
    found: dict[tuple[str, str], list[Table]] = defaultdict(list)
    for table in sorted(tables, key=lambda table: (table.setting.contract, named.place(table.subject))):
        found[table.setting.contract, named[table.subject].group].append(table)
    return dict(found)


def by_setting(tables: Iterable[Table], named: Shapes) -> dict[Setting, list[Table]]:
    """The tables by how they were measured, each setting's in the order of workloads."""
    found: dict[Setting, list[Table]] = defaultdict(list)
    for table in tables:
        found[table.setting].append(table)
    return {
        setting: sorted(found[setting], key=lambda table: named.place(table.subject))
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
    """A view for each contract and device, none where nothing was measured: attention first and whole models last,
    and of each contract accelerators first.
    """
    places = {(table.setting.contract, table.setting.device) for table in tables if table.measured}
    found = [_view([t for t in tables if (t.setting.contract, t.setting.device) == place], named) for place in places]
    return sorted(found, key=_rank)


def _rank(view: View) -> tuple[object, ...]:
    contract, device = view.setting.contract, view.setting.device
    return contract != ATTENTION, contract in MODELS, contract, device == "cpu", -view.measured, device


def _view(tables: Sequence[Table], named: Shapes) -> View:
    settings = by_setting((table for table in tables if table.measured), named)
    first = min(settings, key=lambda setting: (*_plainness(setting), -_measured(settings[setting]), setting.order))
    related = [
        table
        for table in tables
        if replace(table.setting, threads=0, direction="") == replace(first, threads=0, direction="")
    ]
    mine = sorted((table for table in related if table.setting == first), key=lambda table: named.place(table.subject))
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


def _noted(run: Run) -> Iterator[tuple[Subject, object]]:
    """What a run notes of each workload. Runs of former versions do not tell whose it is."""
    facts = run.notes.get("facts")
    workloads = facts.get("workloads") if isinstance(facts, Mapping) else None
    for name, of in workloads.items() if isinstance(workloads, Mapping) else ():
        if isinstance(of, Mapping) and any(isinstance(each, Mapping) for each in of.values()):
            yield from (((name, workload), each) for workload, each in of.items())
        else:
            yield (ANY, name), of


def _unnoted(workload: str) -> Shape:
    """What the name alone says."""
    group, _, short = workload.rpartition("/")
    return Shape(group or workload, short)


def _shape(name: str, of: object) -> Shape:
    plain = _unnoted(name)
    if not isinstance(of, Mapping) or name == EVERY_CASE:
        return plain
    group, length = str(of.get("group") or plain.group), of.get("length")
    whole = length if isinstance(length, int) and length > 0 else None
    return Shape(group, name.removeprefix(f"{group}/"), str(of.get("shape", "")), str(of.get("why", "")), whole)
