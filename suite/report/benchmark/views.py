"""Which tables are shown side by side, in what order, and which few of them represent the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from suite.records import ContractFacts, WorkloadFacts
from suite.report import facts
from suite.report.benchmark.speed import BASELINE, Setting, Subject, Table, natural, tables
from suite.report.benchmark.wording import ATTENTION
from suite.store import Recorded


class Workloads:
    """What a machine's runs say of each contract's workloads, in the order of the newest run that names them."""

    def __init__(self, noted: Mapping[str, Mapping[str, WorkloadFacts]]) -> None:
        self._noted = noted
        self._places = {contract: {name: place for place, name in enumerate(of)} for contract, of in noted.items()}

    def __getitem__(self, subject: Subject) -> WorkloadFacts:
        """What is noted of a workload, or what its name alone says."""
        contract, workload = subject
        group, _, _ = workload.rpartition("/")
        return self._noted.get(contract, {}).get(workload) or WorkloadFacts(group or workload, "", "", 0)

    def short(self, subject: Subject) -> str:
        """The name without its group."""
        return subject[1].removeprefix(f"{self[subject].group}/")

    def place(self, subject: Subject) -> tuple[object, ...]:
        """A key to sort the workloads of a contract by: those that no run names come last, 2k before 16k."""
        contract, workload = subject
        places = self._places.get(contract, {})
        return places.get(workload, len(places)), natural(workload)


def workloads(recorded: Recorded) -> Workloads:
    """What the runs say of their workloads, the newest first."""
    noted: dict[str, dict[str, WorkloadFacts]] = defaultdict(dict)
    for run in reversed(list(recorded.runs.values())):
        for contract, of in run.facts.workloads.items():
            noted[contract] = {**noted[contract], **of, **noted[contract]}
    return Workloads(dict(noted))


def by_group(tables: Iterable[Table], named: Workloads) -> dict[tuple[str, str], list[Table]]:
    """The tables by contract and group of workloads."""
    found: dict[tuple[str, str], list[Table]] = defaultdict(list)
    for table in sorted(tables, key=lambda table: (table.setting.contract, named.place(table.subject))):
        found[table.setting.contract, named[table.subject].group].append(table)
    return dict(found)


def by_setting(tables: Iterable[Table], named: Workloads) -> dict[Setting, list[Table]]:
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
    """What is shown first of one contract on one device: the tables of one setting, and related ones.

    Related tables differ from that setting only in direction and number of threads.
    """

    setting: Setting
    tables: tuple[Table, ...]
    related: tuple[Table, ...]
    is_model: bool
    """Whether an implementation makes a whole model."""
    representatives: tuple[Table, ...]
    """Of each group, the table with most work among those in which more than half of all have a time."""

    @property
    def measured(self) -> int:
        return sum(len(table.measured) for table in self.tables)


def views(tables: Sequence[Table], named: Workloads, contracts: Mapping[str, ContractFacts]) -> list[View]:
    """A view for each contract and device, none where nothing was measured: attention first and whole models last,
    and of each contract accelerators first.
    """
    places: dict[tuple[str, str], list[Table]] = defaultdict(list)
    for table in tables:
        places[table.setting.contract, table.setting.device].append(table)
    found = [
        _view(of, named, contracts.get(contract, ContractFacts()).is_model)
        for (contract, _), of in places.items()
        if any(table.measured for table in of)
    ]
    return sorted(found, key=_rank)


def _rank(view: View) -> tuple[object, ...]:
    contract, device = view.setting.contract, view.setting.device
    return contract != ATTENTION, view.is_model, contract, device == "cpu", -view.measured, device


def _view(tables: Sequence[Table], named: Workloads, is_model: bool) -> View:
    settings = by_setting((table for table in tables if table.measured), named)
    first = min(settings, key=lambda setting: (*_plainness(setting), -_measured(settings[setting]), setting.order))
    related = [
        table
        for table in tables
        if replace(table.setting, threads=0, direction="") == replace(first, threads=0, direction="")
    ]
    mine = sorted((table for table in related if table.setting == first), key=lambda table: named.place(table.subject))
    groups = by_group((table for table in mine if table.measured), named)
    return View(first, tuple(mine), tuple(related), is_model, tuple(map(_representative, groups.values())))


def _representative(group: Sequence[Table]) -> Table:
    most = max(len(table.measured) for table in group)
    of_many = [table for table in group if 2 * len(table.measured) > most]
    return max(of_many, key=lambda table: (any(row.verdict == BASELINE for row in table.measured), _work(table)))


def _plainness(setting: Setting) -> tuple[bool, bool]:
    return setting.direction != "forward", setting.threads > 1


def _measured(tables: Iterable[Table]) -> int:
    return sum(len(table.measured) for table in tables)


def _work(table: Table) -> float:
    return max(row.of.work.get("attended") or 0.0 for row in table.measured)


@dataclass(frozen=True)
class Material:
    """What is measured on a machine, as the page, the index and the charts need it."""

    recorded: Recorded
    tables: Sequence[Table]
    named: Workloads
    views: Sequence[View]


def material(recorded: Recorded) -> Material:
    """What pages and charts are made of, from what is recorded."""
    contracts, named = facts.contracts(recorded), workloads(recorded)
    found = tables(recorded.measured, contracts)
    return Material(recorded, found, named, views(found, named, contracts))
