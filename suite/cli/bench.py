"""`attnsuite bench`: time implementations; print measurements, store them row by row, write them as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from attnsuite import registry
from attnsuite.cli import campaign
from attnsuite.cli.ending import FAILED, heed
from attnsuite.cli.options import words
from attnsuite.cli.outputs import JsonRows
from attnsuite.cli.progress import Display
from attnsuite.cli.report import report
from attnsuite.cli.requests import Bench
from attnsuite.cli.targets import chosen, print_hint, print_start, refuse_broken
from attnsuite.contracts import contract as contract_named
from attnsuite.model import SHAPE, STEP, Measurement, UsageError, command_line, escaped
from attnsuite.model.garbage_collection import gc_paused_for_imports
from attnsuite.model.statistics import interval
from attnsuite.registry import Declaration
from attnsuite.report import refuse_foreign_index
from attnsuite.results import open_run
from attnsuite.results.recorded import is_about_all

if TYPE_CHECKING:
    from attnsuite.benchmark.request import Request
    from attnsuite.benchmark.series import Benchmark

MOST_COMMANDS = 8
"""The most rows for which the command is printed that times each again."""


def run(options: Bench) -> int:
    """Time the targets (all by default) next to the baseline, resuming an interrupted run; return the exit status."""
    _foresee(options)
    named = _named(options)
    refuse_foreign_index(options.results)
    _foresee(options, named)
    with gc_paused_for_imports():  # torch: a target that does not exist is reported before
        timed = _with_workloads(named)
        base = _base_of(options.baseline, timed) if options.baseline else None
        declarations = campaign.with_baseline(timed, options.except_, base)
        from attnsuite.benchmark.request import Request
        from attnsuite.benchmark.verdict_cache import VerdictCache

        heed()
        request = campaign.request_of(Request, options, baseline=base.name if base else "")
    benchmarks = campaign.benchmarks_of(declarations, request)
    here = _in_shard(benchmarks, request)
    if options.dry_run:
        print_plan(here, options.results)
        return 0
    new = campaign.new_run(declarations, request.words, campaign.benchmark_facts(benchmarks))
    new = structs.replace(new, shard=str(options.shard or ""))
    if (stored := campaign.complete_shard(options.results, new, Measurement, print_hint)) is not None:
        return status(stored)
    folder = campaign.results_folder(options.results, options.shard)
    for benchmark in here:
        benchmark.cache = VerdictCache(request.device, reads=not options.recheck)
    tables = sum(len(benchmark.tables()) for benchmark in here)
    lines = sys.stderr if options.json == "-" else sys.stdout
    with JsonRows(options.json) as rows, open_run(folder, new) as writer:
        print_start(writer)
        with Display(tables, lines, what="tables", row=lambda measurement: rows.write(row(measurement))) as display:
            measured = campaign.bench(here, writer, display)
        writer.finish()
    busy = [load for benchmark in here for load in benchmark.busy]
    if options.shard is None:
        report(options.results, writer.run.machine.name, lines, draws=tables > 1)  # one table is no chart
    for line in (*load_lines(busy), *_repeating(options, measured, declarations, base)):
        print(escaped(line), file=lines)
    return status(measured)


def _foresee(options: Bench, named: Sequence[Declaration] = ()) -> None:
    """In the background, import what timed processes need, and determine the sandbox of submissions."""
    if options.dry_run:
        return
    if not all(declaration.shipped for declaration in named):
        from attnsuite.worker.sandbox import begin_detection

        begin_detection()
    if options.device == "cpu":
        from attnsuite.benchmark.processes import prewarm_benchmark

        gradients = options.backward or options.step or options.profile in ("standard", "full")
        contracts = [declaration.contract for declaration in named]
        prewarm_benchmark(next(iter(options.threads), 1), contracts, gradients=gradients)


def _named(options: Bench) -> list[Declaration]:
    """The targets. UsageError where the only one cannot be read, or is missing."""
    named = chosen(options.targets, options.except_, options.contract, options.signature)
    refuse_broken(options.targets, named)
    if len(named) == 1 and options.targets and (missing := registry.missing_library(named[0])):
        raise UsageError(f"{named[0].full_name} is missing: {missing.reason}")
    return named


def _with_workloads(named: Sequence[Declaration]) -> list[Declaration]:
    if timed := campaign.with_workloads(named):
        return timed
    contracts = ", ".join(dict.fromkeys(declaration.contract for declaration in named))
    raise UsageError(f"no workloads of {contracts} exist; `attnsuite list --workloads` lists what can be timed")


def _base_of(target: str, timed: Sequence[Declaration]) -> Declaration:
    """The one implementation that the others are compared with. UsageError where it cannot be."""
    contracts = list(dict.fromkeys(declaration.contract for declaration in timed))
    named = registry.find([target], contracts[0])
    if len(contracts) > 1 or len(named) != 1:
        names = ", ".join(declaration.full_name for declaration in named)
        raise UsageError(f"--baseline names one implementation of one timed contract; {target} names {names}")
    (base,) = named
    refuse_broken([target], named)
    if missing := registry.missing_library(base):
        raise UsageError(f"--baseline {base.full_name} is missing: {missing.reason}")
    for other in timed:
        if other.full_name == base.full_name and _place(other) != _place(base):
            raise UsageError(f"--baseline {target} and what is timed are both called {base.full_name}; rename one file")
    return base


def _place(declaration: Declaration) -> tuple[str, str]:
    return str(Path(declaration.file).resolve()) or declaration.module, declaration.function


def _in_shard(benchmarks: Sequence[Benchmark], request: Request) -> list[Benchmark]:
    """The benchmarks with any table in the shard; all without --shard."""
    here = [benchmark for benchmark in benchmarks if benchmark.tables()]
    if not here:
        whole = replace(request, shard=None)
        units = sum(len({table.workload.name for table in whole.tables(item.contract)}) for item in benchmarks)
        print_hint(campaign.empty_shard(request.shard, "workloads", units))
    return here


def load_lines(busy: Sequence[str]) -> list[str]:
    """A warning where the machine was busy while tables were timed; `busy` has a line for each such table."""
    if not busy:
        return []
    return [
        f"{len(busy)} table{'s' * (len(busy) != 1)} may be inaccurate because {busy[-1]}: times are longer and "
        "intervals wider than on an idle machine, so more verdicts may be inconclusive; run this again "
        "when the machine is idle"
    ]


def _repeating(
    options: Bench, measured: Sequence[Measurement], declarations: Sequence[Declaration], base: Declaration | None
) -> list[str]:
    """The commands that repeat each row next to its baseline; none for baselines, and none for more than a few rows."""
    names = registry.command_words(declarations)
    baselines = {contract_named(declaration.contract).baseline for declaration in declarations}
    baselines |= {base.name} if base else set()
    rows = [row for row in measured if not (is_about_all(row) or row.implementation.partition("/")[2] in baselines)]
    if len(rows) > MOST_COMMANDS:
        return []
    if base:
        options = replace(options, baseline=names[base.full_name][0])
    return [f"again: {command_line(_command(options, row, names[row.implementation]))}" for row in rows]


def _command(options: Bench, row: Measurement, name: Sequence[str]) -> list[str]:
    is_shape = row.workload.startswith(SHAPE)
    table = replace(
        options,
        shapes=(row.workload.removeprefix(SHAPE),) if is_shape else (),
        workloads=() if is_shape else (row.workload,),
        dtypes=(row.dtype,),
        threads=(row.threads,) if row.threads else (),
        cache=row.cache,
        step=row.direction == STEP,
        backward=row.direction not in ("forward", STEP),
    )
    every = ("baseline", "signature", "device", "results", "workloads", "shapes", "dtypes", "threads", "cache", "step")
    return ["attnsuite", "bench", *name, *words(table, *every, "backward", "budget")]


def print_plan(benchmarks: Sequence[Benchmark], results: Path) -> None:
    """Print what would be timed, and about how long that takes by the times in these results."""
    from attnsuite.benchmark.plan import plan_lines, recorded_rates

    for line in plan_lines(benchmarks, recorded_rates(results, benchmarks[0].request.kind)) if benchmarks else ():
        print(escaped(line))


def row(measurement: Measurement) -> dict[str, object]:
    """A measurement as a JSON row: its fields, and the median of the samples with its interval."""
    data = structs.asdict(measurement)
    if measurement.seconds:
        numbers = asdict(interval(measurement.seconds))
        data |= {name: value if isfinite(value) else None for name, value in numbers.items()}
    return {**data, "peak": measurement.peak}


def status(measured: Iterable[Measurement]) -> int:
    """The exit status: 1 if a row fails."""
    return FAILED if any(row.fails for row in measured) else 0
