"""Which tables are shown side by side, in what order, and which few of them represent the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from attnsuite.model import ContractFacts, WorkloadFacts
from attnsuite.report import facts
from attnsuite.report.benchmark.timed_tables import BASELINE, Setting, TimedTable, Workloads, tables
from attnsuite.report.benchmark.wording import ATTENTION
from attnsuite.results.store import Recorded


def workloads(recorded: Recorded) -> Workloads:
    """What the runs note of each contract's workloads. The newest run that notes a workload counts."""
    noted: dict[str, dict[str, WorkloadFacts]] = defaultdict(dict)
    for run in reversed(list(recorded.runs.values())):
        for contract, of in run.facts.workloads.items():
            noted[contract] = {**noted[contract], **of, **noted[contract]}
    return {(contract, name): facts for contract, of in noted.items() for name, facts in of.items()}


def by_group(tables: Iterable[TimedTable]) -> dict[tuple[str, str], list[TimedTable]]:
    """The tables by contract and group of workloads."""
    found: dict[tuple[str, str], list[TimedTable]] = defaultdict(list)
    for table in sorted(tables, key=lambda table: (table.setting.contract, table.order)):
        found[table.setting.contract, table.facts.group].append(table)
    return dict(found)


def by_setting(tables: Iterable[TimedTable]) -> dict[Setting, list[TimedTable]]:
    """The tables by how they were measured, those of each setting in the order of workloads."""
    found: dict[Setting, list[TimedTable]] = defaultdict(list)
    for table in sorted(tables, key=lambda table: (table.setting.order, table.order)):
        found[table.setting].append(table)
    return dict(found)


@dataclass(frozen=True)
class View:
    """What is shown first of one contract on one device: the tables of one setting, and related ones.

    Related tables differ from that setting only in direction and number of threads.
    """

    setting: Setting
    tables: tuple[TimedTable, ...]
    related: tuple[TimedTable, ...]
    is_model: bool
    """Whether the implementations make whole models."""
    representatives: tuple[TimedTable, ...]
    """Of each group the table with most work, among those with more than half as many times as the fullest one."""


def views(tables: Sequence[TimedTable], contracts: Mapping[str, ContractFacts]) -> list[View]:
    """A view for each contract and device on which something was measured.

    Attention comes first and whole models last; of one contract, accelerators come before the CPU.
    """
    places: dict[tuple[str, str], list[TimedTable]] = defaultdict(list)
    for table in tables:
        places[table.setting.contract, table.setting.device].append(table)
    found = [
        _view(of, contracts.get(contract, ContractFacts()).is_model)
        for (contract, _), of in places.items()
        if any(table.measured for table in of)
    ]
    return sorted(found, key=_rank)


def _rank(view: View) -> tuple[object, ...]:
    contract, device = view.setting.contract, view.setting.device
    return contract != ATTENTION, view.is_model, contract, device == "cpu", -_count(view.tables), device


def _view(tables: Sequence[TimedTable], is_model: bool) -> View:
    settings = by_setting(table for table in tables if table.measured)
    first = min(settings, key=lambda at: (at.direction != "forward", at.threads > 1, -_count(settings[at]), at.order))
    related = [
        table
        for table in tables
        if replace(table.setting, threads=0, direction="") == replace(first, threads=0, direction="")
    ]
    mine = by_setting(related)[first]
    groups = by_group(table for table in mine if table.measured)
    return View(first, tuple(mine), tuple(related), is_model, tuple(map(_representative, groups.values())))


def _representative(group: Sequence[TimedTable]) -> TimedTable:
    most = max(len(table.measured) for table in group)
    of_many = [table for table in group if 2 * len(table.measured) > most]
    return max(of_many, key=lambda table: (any(row.verdict == BASELINE for row in table.measured), _work(table)))


def _count(tables: Iterable[TimedTable]) -> int:
    """How many rows of these tables have a time."""
    return sum(len(table.measured) for table in tables)


def _work(table: TimedTable) -> float:
    return max(row.of.work.get("attended") or 0.0 for row in table.measured)


@dataclass(frozen=True)
class Material:
    """What is measured on a machine, as the page, the index and the charts need it."""

    recorded: Recorded
    workloads: Workloads
    tables: Sequence[TimedTable]
    views: Sequence[View]


def material(recorded: Recorded) -> Material:
    """What pages and charts are made of, from what is recorded."""
    contracts, known = facts.contracts(recorded), workloads(recorded)
    baselines = {(run.id, of): name for run in recorded.runs.values() for of, name in run.facts.baselines.items()}
    found = tables(recorded.measured, contracts, known, baselines)
    return Material(recorded, known, found, views(found, contracts))
