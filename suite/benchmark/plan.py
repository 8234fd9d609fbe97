"""The plan of a benchmark: its tables and an estimate of their time, before a process is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from attnsuite import registry
from attnsuite.benchmark.request import Table, declaration_of
from attnsuite.benchmark.series import Benchmark

ROUNDS = 2.0
"""Seconds of rounds per second of timed calls: they include new inputs, requests and proofs."""
ANOTHER = 0.5
"""Seconds of an import in each further process of an implementation."""
ESTIMATES = {"cpu": (3.0, 0.2, 0.2, "an estimate"), "cuda": (10.0, 2.0, 3.0, "an estimate that no GPU has confirmed")}
"""By kind of device: seconds to import and test an implementation, to prepare a row, and to verify it and measure
its memory; and the name of the estimate. A CPU's numbers fit the profiles `quick` and `standard` on a Xeon with two
cores."""


@dataclass(frozen=True)
class BenchmarkPlan:
    """The plan of one contract: its tables, implementations with rows, the reasons of the others, and its rows."""

    benchmark: Benchmark
    tables: Sequence[Table]
    members: Sequence[str]
    skipped: Sequence[str]
    rows: int

    @property
    def seconds(self) -> float:
        """The estimated time in seconds: imports; preparation, rounds and verification of each row."""
        request = self.benchmark.request
        start, making, weighing, _ = ESTIMATES[request.kind]
        processes = request.in_processes
        row = processes * making + ROUNDS * request.seconds + weighing
        return len(self.members) * (start + (processes - 1) * ANOTHER) + self.rows * row


def plan_of(benchmark: Benchmark) -> BenchmarkPlan:
    """The plan of a benchmark, without importing an implementation."""
    tables, kind = benchmark.tables(), benchmark.request.kind
    members, skipped, rows = list[str](), list[str](), 0
    for declaration in map(declaration_of, benchmark.implementations):
        missing = registry.missing_library(declaration)
        unsupported = [table.unsupported(declaration, benchmark.contract, kind) for table in tables]
        broken = declaration.broken or (missing.reason if missing else "")
        timed = 0 if broken else unsupported.count(None)
        rows += timed
        if timed:
            members.append(declaration.full_name)
        else:
            reason = broken or next(str(reason) for reason in unsupported if reason)
            skipped.append(f"{declaration.full_name}: {reason}")
    return BenchmarkPlan(benchmark, tables, members, skipped, rows)


def plan_lines(benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """The plan as lines: one for each group of workloads, and the estimated time of all."""
    plans = [plan_of(benchmark) for benchmark in benchmarks]
    for plan in plans:
        members = counted(len(plan.members), "implementation")
        yield f"{plan.benchmark.contract.name}: {counted(len(plan.tables), 'table')}, {members}, {plan.rows} rows"
        for group in dict.fromkeys(table.workload.group for table in plan.tables):
            yield f"  {group}: {_group_summary([table for table in plan.tables if table.workload.group == group])}"
        yield f"  of {', '.join(name.partition('/')[2] for name in plan.members)}"
        yield from (f"  without {reason}" for reason in plan.skipped)
    request = benchmarks[0].request
    about = duration(sum(plan.seconds for plan in plans))
    words = f"about {about} on {request.device}, {ESTIMATES[request.kind][3]}: "
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
