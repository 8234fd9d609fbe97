"""`attnsuite bench`: measurements to the terminal, to results/ row by row, and, if asked, to a JSON file."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from suite import machine, registry
from suite.commands.checking import JsonRows, chosen
from suite.commands.progress import Steps
from suite.commands.reporting import report
from suite.records import Measurement, Outcome, UsageError, baseline
from suite.registry import Declaration
from suite.report import benchmark_lines
from suite.statistics import interval
from suite.store import Results, RunWriter

if TYPE_CHECKING:
    from suite.benchmark import Benchmark, Request


@dataclass(frozen=True)
class Options:
    """What the command line says about a benchmark; the fields of `suite.benchmark.Request`."""

    workloads: Sequence[str] = ()
    profile: str | None = None
    device: str = "cpu"
    backward: bool = False
    cache: str | None = None
    threads: Sequence[int] = ()
    time_limit: float = 60.0
    budget: float | None = None

    def request(self) -> Request:
        """The request that these options make. Raises UsageError for what does not exist."""
        from suite.benchmark import Request

        return Request(
            tuple(self.workloads), self.profile, self.device, self.backward, self.cache, tuple(self.threads),
            self.time_limit, self.budget,
        )  # fmt: skip


def bench(
    targets: Sequence[str],
    contract: str | None,
    options: Options,
    json_file: str | None,
    results: Path,
    leave_out: Sequence[str] = (),
) -> int:
    """Time the targets (all by default) beside the baseline, resuming an interrupted run; return the exit status."""
    named = chosen(targets, leave_out, contract)
    if len(named) == 1 and targets and (missing := registry.absent(named[0])):
        raise UsageError(f"{named[0].full_name} is missing: {missing.reason}")
    timed = with_workloads(named)
    if not timed:
        raise UsageError(f"nothing is timed of {', '.join(dict.fromkeys(each.contract for each in named))}")
    declarations = with_baseline(timed, leave_out)
    request = options.request()
    benchmarks = benchmarks_of(declarations, request)
    benchmarks[0].expect()
    for benchmark in benchmarks:
        benchmark.earlier = known_outcomes(results, declarations, request.device)
    sources = {declaration.full_name: registry.source_hash(declaration) for declaration in declarations}
    new = replace(machine.new_run(sources, machine.suite_hash(), request.words), notes={"facts": facts(benchmarks)})
    with JsonRows(json_file) as rows, Results(results).open_run(new) as writer:
        say_how_it_starts(writer)
        found = measured(benchmarks, writer, sys.stderr if json_file == "-" else sys.stdout, rows)
        writer.finish(workloads=workloads_of(benchmarks), notes=spent(benchmarks, request))
    report(results, new.machine.name)
    return status(found)


def with_workloads(declarations: Sequence[Declaration]) -> list[Declaration]:
    """The implementations of contracts of which something is timed."""
    from suite.contracts import contract, names

    known = names()
    return [each for each in declarations if each.contract not in known or contract(each.contract).workloads()]


def with_baseline(declarations: Sequence[Declaration], leave_out: Sequence[str]) -> list[Declaration]:
    """The implementations and, for each contract, the one that others are compared with, unless it is left out."""
    found = list(declarations)
    unwanted = {declaration.full_name for declaration in registry.find(leave_out)} if leave_out else set()
    for contract in dict.fromkeys(declaration.contract for declaration in declarations):
        name = f"{contract}/{baseline(contract)}"
        registered = {declaration.full_name: declaration for declaration in registry.discover()}
        if name in registered and name not in unwanted and name not in {d.full_name for d in found}:
            found.append(registered[name])
    return found


def benchmarks_of(declarations: Sequence[Declaration], request: Request) -> list[Benchmark]:
    """A benchmark for each contract that has such workloads. UsageError where none has."""
    from suite.benchmark import Benchmark
    from suite.contracts import contract as contract_named

    by_contract: dict[str, list[Declaration]] = defaultdict(list)
    for declaration in declarations:
        by_contract[declaration.contract].append(declaration)
    found, problems = [], []
    for name, members in by_contract.items():
        benchmark = Benchmark(contract_named(name), members, request)
        try:
            benchmark.tables()  # a workload that does not exist is said before anything is started
            found.append(benchmark)
        except UsageError as error:
            problems.append(error)
    if problems and not found:
        raise problems[0]
    return found


def known_outcomes(results: Path, declarations: Sequence[Declaration], device: str) -> Mapping[str, list[Outcome]]:
    """What results/ knows of the very sources, versions and machine at hand, of implementations that ship here."""
    here = machine.new_run({}, machine.suite_hash())
    store = Results(results)
    if here.machine.name not in store.machines():
        return {}
    recorded = store.read(here.machine.name)
    hashes = {d.full_name: registry.source_hash(d) for d in declarations if d.module.startswith("implementations.")}
    found: dict[str, list[Outcome]] = defaultdict(list)
    for identity, outcome in recorded.rows:
        run, name = recorded.runs[identity], outcome.implementation
        alike = run.suite == here.suite and dict(run.versions) == dict(here.versions)
        if alike and outcome.device == device and name in hashes and run.sources.get(name) == hashes[name]:
            found[name].append(outcome)
    return found


def measured(
    benchmarks: Sequence[Benchmark], writer: RunWriter, lines: TextIO, rows: JsonRows | None = None
) -> list[Measurement]:
    """Measure what the run does not have yet, write each row as it comes, and return all rows."""
    again = set[tuple[str, ...]]().union(*(benchmark.again(writer.measured) for benchmark in benchmarks))
    found = [measurement for measurement in writer.recorded_measurements if measurement.key not in again]
    total = sum(len(benchmark.tables()) for benchmark in benchmarks)
    with Steps(total, lines) as steps:
        for measurement in found:
            if rows is not None:
                rows.write(row(measurement))
        for benchmark in benchmarks:
            benchmark.tell = steps.heading
            for table, news in benchmark.run(writer.measured):
                for measurement in news:
                    writer.write(measurement)
                    if rows is not None:
                        rows.write(row(measurement))
                found += news
                says = "" if table is None else table.workload.shape
                for line in benchmark_lines(news, says, baseline(benchmark.contract.name)):
                    steps.line(line)
                if table is not None:
                    steps.step()
    return found


def row(measurement: Measurement) -> dict[str, object]:
    """A measurement as a JSON row: its fields, and beside the samples their median and its 99 % interval."""
    data = asdict(measurement)
    if measurement.seconds:
        data |= {
            name: value if isfinite(value) else None for name, value in asdict(interval(measurement.seconds)).items()
        }
    return {**data, "peak": measurement.peak}


def say_how_it_starts(writer: RunWriter) -> None:
    """What was mended in results/, and whether an interrupted run goes on."""
    for note in writer.notes:
        print(note, file=sys.stderr)
    if writer.resumed:
        there = f"{len(writer.recorded)} outcomes and {len(writer.recorded_measurements)} measurements"
        print(f"resuming the run of {writer.run.started}: {there} are there already", file=sys.stderr)


def facts(benchmarks: Sequence[Benchmark]) -> dict[str, Any]:
    """What tables say beside measurements: kept with the run, so that a report needs no torch."""
    return {
        "workloads": {
            benchmark.contract.name: {
                workload.name: {name: getattr(workload, name) for name in ("group", "shape", "why", "length")}
                for workload in benchmark.contract.workloads()
            }
            for benchmark in benchmarks
        }
    }


def workloads_of(benchmarks: Sequence[Benchmark]) -> dict[str, list[str]]:
    """The names of all workloads that there are, by contract."""
    contracts = [benchmark.contract for benchmark in benchmarks]
    return {contract.name: [workload.name for workload in contract.workloads()] for contract in contracts}


def spent(benchmarks: Sequence[Benchmark], request: Request) -> dict[str, Any]:
    """Where the time went, in seconds by activity."""
    total: dict[str, float] = defaultdict(float)
    for benchmark in benchmarks:
        for activity, seconds in benchmark.seconds.items():
            total[activity] += round(seconds, 3)
    return {"seconds": dict(total), "profile": request.timed_as or ""}


def status(found: Sequence[Measurement]) -> int:
    """The exit status: 1 when a row fails."""
    return int(any(row.fails for row in found))
