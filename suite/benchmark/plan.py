"""The plan of a benchmark: its tables and an estimate of their time, before a process is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import median

import torch
from msgspec.structs import replace

from attnsuite import registry
from attnsuite.benchmark.measure import MIN_ROUNDS
from attnsuite.benchmark.request import Table, declaration_of
from attnsuite.benchmark.series import Benchmark, Key
from attnsuite.machine import here
from attnsuite.model import Measurement
from attnsuite.results import machines
from attnsuite.results.format import read_rows
from attnsuite.results.recorded import runs_of
from attnsuite.results.writer import place

ROUNDS = 2.0
"""Seconds of rounds per second of timed calls: they include new inputs, requests and proofs."""
OTHER_CALLS = 6
"""Calls besides timed ones: for memory, kernels and proofs."""
ANOTHER = 0.5
"""Seconds of an import in each further process of an implementation."""
ESTIMATES = {"cpu": (3.0, 0.2, 0.2, "an estimate"), "cuda": (10.0, 2.0, 3.0, "an estimate that no GPU has confirmed")}
"""By kind of device: seconds to import and test an implementation, to prepare a row, and to verify it and measure
its memory; and the name of the estimate. A CPU's numbers fit the profiles `quick` and `standard` on a Xeon with two
cores."""


@dataclass(frozen=True)
class Rates:
    """The newest measurements of one machine on one kind of device, by key with the kind as the device."""

    machine: str = ""
    rows: Mapping[Key, Measurement] = field(default_factory=dict)


def recorded_rates(results: Path, kind: str) -> Rates:
    """The measurements of this machine in a folder of results, else of the machine that last used such a device."""
    runs = {name: runs_of(results, name) for name in machines(results)}
    own = place(results, here())[0].name
    for name in sorted(runs, key=lambda name: (name == own, max(run.id for run in runs[name].values())), reverse=True):
        rows = (row for folder in runs[name] for row in read_rows(folder, "measurements"))
        timed = [row for row in rows if isinstance(row, Measurement) and torch.device(row.device).type == kind]
        if timed:
            return Rates(name, {row.key: row for row in (replace(row, device=kind) for row in timed)})
    return Rates()


@dataclass(frozen=True)
class BenchmarkPlan:
    """The plan of one contract: its tables, implementations with rows, the reasons of the others, and its rows, each
    with its measurement in an earlier run or None.
    """

    benchmark: Benchmark
    tables: Sequence[Table]
    members: Sequence[str]
    skipped: Sequence[str]
    rows: Sequence[Measurement | None]

    @property
    def seconds(self) -> float:
        """The time in seconds, by recorded rates where there are any."""
        start = ESTIMATES[self.benchmark.request.kind][0]
        processes = self.benchmark.request.in_processes
        return len(self.members) * (start + (processes - 1) * ANOTHER) + sum(map(self._row_seconds, self.rows))

    def _row_seconds(self, recorded: Measurement | None) -> float:
        """The time of one row in seconds: preparation in each process, rounds, and verification."""
        request = self.benchmark.request
        _, making, weighing, _ = ESTIMATES[request.kind]
        if recorded is None or not recorded.seconds:  # a row without a time ended with its preparation
            return request.in_processes * making + (ROUNDS * request.seconds + weighing) * (recorded is None)
        call, spent = median(recorded.seconds), sum(recorded.seconds) * recorded.calls
        making += (recorded.first_call or 0.0) + (recorded.warm_up or 0.0)
        timed = min(request.seconds, spent if recorded.stopped == "narrow" else inf)
        more = max(0.0, MIN_ROUNDS * recorded.calls * call - timed)
        return request.in_processes * making + ROUNDS * timed + more + weighing + OTHER_CALLS * call


def plan_of(benchmark: Benchmark, rates: Rates | None = None) -> BenchmarkPlan:
    """The plan of a benchmark, without importing an implementation; `rates` are those of an earlier run."""
    tables, kind, recorded = benchmark.tables(), benchmark.request.kind, rates.rows if rates else {}
    members, skipped, rows = list[str](), list[str](), list[Measurement | None]()
    for declaration in map(declaration_of, benchmark.implementations):
        missing_library = registry.missing_library(declaration)
        unsupported = [table.unsupported(declaration, benchmark.contract, kind) for table in tables]
        supported = [table for table, reason in zip(tables, unsupported, strict=True) if reason is None]
        timed = [] if declaration.broken or missing_library else supported
        name, contract = declaration.full_name, benchmark.contract.name
        rows += [recorded.get(table.row(name, contract, kind).key) for table in timed]
        if timed:
            members.append(declaration.full_name)
        else:
            reason = declaration.broken or (
                missing_library.reason if missing_library else next(str(reason) for reason in unsupported if reason)
            )
            skipped.append(f"{declaration.full_name}: {reason}")
    return BenchmarkPlan(benchmark, tables, members, skipped, rows)


def plan_lines(benchmarks: Sequence[Benchmark], rates: Rates | None = None) -> Iterator[str]:
    """The plan as lines: one for each group of workloads, and the time of all, by recorded `rates` if possible."""
    plans = [plan_of(benchmark, rates) for benchmark in benchmarks]
    for plan in plans:
        members = counted(len(plan.members), "implementation")
        yield f"{plan.benchmark.contract.name}: {counted(len(plan.tables), 'table')}, {members}, {len(plan.rows)} rows"
        for group in dict.fromkeys(table.workload.group for table in plan.tables):
            yield f"  {group}: {_group_summary([table for table in plan.tables if table.workload.group == group])}"
        yield f"  of {', '.join(name.partition('/')[2] for name in plan.members)}"
        yield from (f"  without {reason}" for reason in plan.skipped)
    request = benchmarks[0].request
    known = [row is not None for plan in plans for row in plan.rows]
    source = ESTIMATES[request.kind][3]
    if rates and any(known):
        counts = f"{sum(known):,} of {len(known):,} rows by times recorded on {rates.machine}"
        source = counts if all(known) else f"{counts}, the others by {source}"
    words = f"about {duration(sum(plan.seconds for plan in plans))} on {request.device}, {source}: "
    yield words + f"{request.seconds:g} s of timed calls a row, calls up to {request.slowest:g} s, nothing is started"


def duration(seconds: float) -> str:
    """Seconds in words, no finer than an estimate is."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def counted(number: int, noun: str) -> str:
    """The number and the noun: `1 table`, `2 tables`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _group_summary(tables: Sequence[Table]) -> str:
    workloads = counted(len({table.workload.name for table in tables}), "workload")
    threads = sorted({table.threads for table in tables} - {0})
    parts = [
        _distinct(table.dtype for table in tables),
        _distinct(table.direction.replace("_", " and ") for table in tables),
    ]
    parts += [counted(count, "thread") for count in threads]
    return f"{counted(len(tables), 'table')} of {workloads}, {'; '.join(parts)}"


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))
