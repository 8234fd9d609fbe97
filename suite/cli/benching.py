"""`attnsuite bench`: measurements to the terminal, to results/ row by row, and, if asked, to a JSON file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import structs

from attnsuite import registry
from attnsuite.cli import campaign, sharding
from attnsuite.cli.checking import chosen, refuse_broken, told
from attnsuite.cli.json_rows import JsonRows
from attnsuite.cli.progress import Shown, say_how_it_starts
from attnsuite.cli.reporting import report
from attnsuite.contracts import contract as contract_named
from attnsuite.model import EVERY_CASE, RESULTS, SHAPE, STEP, Measurement, UsageError, command_line, escaped
from attnsuite.model.statistics import interval
from attnsuite.model.uncollected import importing
from attnsuite.registry import Declaration
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store import Results

if TYPE_CHECKING:
    from attnsuite.benchmark import Benchmark, Request

SAID = 8
"""The most rows for which the command is printed that times each again; whoever times more knows his own command."""


def bench(
    targets: Sequence[str],
    contract: str | None,
    asked: Callable[[str], Request],
    json_file: str | None,
    results: Path,
    leave_out: Sequence[str] = (),
    signature: str = "",
    baseline: str = "",
    anew: bool = False,
    dry_run: bool = False,
    foresee: Callable[[Sequence[Declaration]], None] = lambda named: None,
) -> int:
    """Time the targets (all by default) beside the baseline, resuming an interrupted run; return the exit status.

    `asked` makes the request, of the name of the baseline where one is given. It loads torch, and so is called late: a
    target that does not exist is said at once. `foresee` is called before, and may begin in the background what takes
    as long. With `anew` no verdict that was kept is believed. A `dry_run` starts and writes nothing.
    """
    named = there(targets, leave_out, contract, signature)
    refuse_foreign_index(results)
    foresee(named)
    with importing():
        timed = with_workloads(named)
        beside = base_of(baseline, timed) if baseline else None
        declarations = campaign.with_baseline(timed, leave_out, beside)
        request = asked(beside.name if beside else "")
    benchmarks = campaign.benchmarks_of(declarations, request)
    here = in_shard(benchmarks, request)
    if dry_run:
        say_plan(here)
        return 0
    folder = sharding.place(results, request.shard)
    facts = campaign.benchmark_facts(benchmarks)
    new = sharding.of(campaign.new_run(declarations, request.words, facts), request.shard)
    if (answered := sharding.measurements_there(folder, new)) is not None:
        told(sharding.said_of_answered(folder, new, len(answered)))
        return status(answered)
    campaign.prepare(here, folder, declarations, request, believed=not anew)
    total = sum(len(benchmark.tables()) for benchmark in here)
    lines = sys.stderr if json_file == "-" else sys.stdout
    with JsonRows(json_file) as rows, Results(folder).open_run(new) as writer:
        say_how_it_starts(writer)
        with Shown(total, lines, questions=False, measurement=lambda each: rows.write(row(each))) as shown:
            found = campaign.bench(here, writer, shown)
        campaign.finish(writer, benchmarks, request)
    if request.shard is None:
        report(results, writer.run.machine.name, lines, draws=total > 1)  # one table is no chart
    say([*said_of_load(here), *repeated(found, declarations, request, signature, beside, results)], lines)
    return status(found)


def say(text: Sequence[str], lines: TextIO) -> None:
    """Print lines, commands that may be pasted among them."""
    for line in text:
        print(escaped(line), file=lines)


def said_of_load(benchmarks: Sequence[Benchmark]) -> list[str]:
    """What the summary says where the machine was busy while some tables were timed."""
    busy = [each for benchmark in benchmarks for each in benchmark.busy]
    if not busy:
        return []
    tables = sum(len(benchmark.tables()) for benchmark in benchmarks)
    many = f"in {len(busy)} of {tables} tables " if tables > 1 else ""
    return [
        f"{many}{busy[-1]}: times there are longer and intervals wider than on an idle machine, so that a verdict may "
        "be unclear, and a time not bounded, for that reason alone; run it again when the machine is idle"
    ]


def there(
    targets: Sequence[str], leave_out: Sequence[str], contract: str | None, signature: str
) -> Sequence[Declaration]:
    """What the targets name. UsageError where it cannot be read, or is one that is missing."""
    named = chosen(targets, leave_out, contract, signature=signature)
    refuse_broken(targets, named)
    if len(named) == 1 and targets and (missing := registry.absent(named[0])):
        raise UsageError(f"{named[0].full_name} is missing: {missing.reason}")
    return named


def with_workloads(named: Sequence[Declaration]) -> list[Declaration]:
    """The implementations that can be timed. UsageError where none can be."""
    timed = campaign.with_workloads(named)
    if not timed:
        contracts = ", ".join(dict.fromkeys(each.contract for each in named))
        raise UsageError(f"there are no workloads of {contracts}: `attnsuite list --workloads` shows what can be timed")
    return timed


def in_shard(benchmarks: Sequence[Benchmark], request: Request) -> list[Benchmark]:
    """The benchmarks of which any table falls into the shard that is asked; all where none is."""
    found = [benchmark for benchmark in benchmarks if benchmark.tables()]
    if not found:
        whole = replace(request, shard=None)
        units = sum(len({table.workload.name for table in whole.tables(each.contract)}) for each in benchmarks)
        told(sharding.said_of_none(request.shard, "workloads", units))
    return found


def repeated(
    found: Sequence[Measurement],
    declarations: Sequence[Declaration],
    request: Request,
    signature: str,
    baseline: Declaration | None,
    results: Path,
) -> list[str]:
    """The command that times a row again beside its baseline, for each row that has a time or fails, at most SAID."""
    names = registry.spelled(declarations)
    own = {contract_named(each).baseline for each in {of.contract for of in found}}
    base = baseline.name if baseline else ""
    rows = [of for of in found if of.workload != EVERY_CASE and of.implementation.partition("/")[2] not in (base, *own)]
    options = ["--baseline", names[baseline.full_name][0]] if baseline else []
    options += ["--signature", signature] if signature else []
    options += ["--device", request.device] if request.device != "cpu" else []
    options += ["--results", str(results)] if results != RESULTS else []
    lines = [["attnsuite", "bench", *names[of.implementation], *options, *_again(of, request)] for of in rows]
    return [f"again: {command_line(words)}" for words in lines] if 0 < len(rows) <= SAID else []


def _again(of: Measurement, request: Request) -> list[str]:
    """The options that choose the table of a row."""
    shape = of.workload.startswith(SHAPE)
    words = ["--shape", of.workload.removeprefix(SHAPE)] if shape else ["--workload", of.workload]
    words += ["--dtype", of.dtype, *(["--threads", str(of.threads)] if of.threads else []), "--cache", of.cache]
    words += ["--step"] if of.direction == STEP else ["--backward"] if of.direction != "forward" else []
    return words + (["--budget", f"{request.budget:g}"] if request.budget is not None else [])


def base_of(target: str, timed: Sequence[Declaration]) -> Declaration:
    """The one implementation that the others are compared with. UsageError where it is none, or cannot be."""
    contracts = list(dict.fromkeys(each.contract for each in timed))
    if len(contracts) > 1:
        raise UsageError(
            f"--baseline {target}: it is of one contract, and {', '.join(contracts)} are timed; name targets"
        )
    found = registry.find([target], contracts[0])
    if len(found) != 1:
        names = ", ".join(each.full_name for each in found)
        raise UsageError(f"--baseline {target} names {len(found)} implementations; name one of {names}")
    (base,) = found
    refuse_broken([target], found)
    if missing := registry.absent(base):
        raise UsageError(f"--baseline {base.full_name} is missing: {missing.reason}")
    for other in timed:
        if other.full_name == base.full_name and _place(other) != _place(base):
            raise UsageError(f"--baseline {target} and what is timed are both called {base.full_name}; rename one file")
    return base


def _place(declaration: Declaration) -> tuple[str, str]:
    return str(Path(declaration.file).resolve()) or declaration.module, declaration.function


def say_plan(benchmarks: Sequence[Benchmark]) -> None:
    """Print what would be timed, and about how long that takes."""
    from attnsuite.benchmark.plan import plan_lines

    for line in plan_lines(benchmarks) if benchmarks else ():
        print(escaped(line))


def row(measurement: Measurement) -> dict[str, object]:
    """A measurement as a JSON row: its fields, and beside the samples their median and its interval."""
    data = structs.asdict(measurement)
    if measurement.seconds:
        data |= {
            name: value if isfinite(value) else None for name, value in asdict(interval(measurement.seconds)).items()
        }
    return {**data, "peak": measurement.peak}


def status(found: Sequence[Measurement]) -> int:
    """The exit status: 1 if a row fails."""
    return int(any(row.fails for row in found))
