"""`attnsuite run`: test all implementations, time a short profile, write results/ and the pages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from attnsuite import registry
from attnsuite.cli import bench, campaign, check
from attnsuite.cli.progress import Display
from attnsuite.cli.report import report
from attnsuite.cli.requests import Check, Run
from attnsuite.cli.targets import chosen, print_hint, print_start, refuse_broken, single_threaded
from attnsuite.machine import differs
from attnsuite.model import Measurement, Outcome, UsageError
from attnsuite.model.garbage_collection import gc_paused_for_imports
from attnsuite.registry import Declaration
from attnsuite.report import refuse_foreign_index
from attnsuite.results import RunWriter, open_run
from attnsuite.worker.allocator import keep_freed_memory

if TYPE_CHECKING:
    from attnsuite.benchmark.request import Request
    from attnsuite.benchmark.series import Benchmark
    from attnsuite.conformance.session import Session

START_AND_END = 24.0
"""Seconds for imports and cases at the start, and for pages, charts and report.html at the end."""
SECONDS_PER_TEST = 0.0035
"""CPU seconds per test of an implementation that compiles nothing, as measured: 26,000 tests took 90."""


@dataclass(frozen=True)
class Job:
    """The work of a run: the tests of its session, then its benchmarks."""

    declarations: Sequence[Declaration]
    session: Session
    benchmarks: Sequence[Benchmark]
    timed: Sequence[Declaration]
    timing: Request
    processes: int

    @property
    def sampled(self) -> dict[str, int]:
        """The number of all tests of each implementation that is tested on a sample."""
        return dict(self.session.request.sampled)

    @property
    def tests(self) -> int:
        """The number of tests of all implementations."""
        return sum(map(self.session.count, self.declarations))


def run(options: Run) -> int:
    """Test the targets (all by default), time them in the profile `quick`, on a GPU in `gpu`, and write the pages.

    An interrupted run is resumed. Returns the exit status of both together.
    """
    declarations = chosen(options.targets, options.except_, options.contract)
    refuse_broken(options.targets, declarations)
    single_threaded()
    keep_freed_memory()
    refuse_foreign_index(options.results)
    with gc_paused_for_imports():
        job = _job(options, declarations)
    for line in _plan(job, options.results):
        print(line, flush=True)
    if options.dry_run:
        bench.print_plan(job.benchmarks, options.results)
        return 0
    again = check.repeating(Check(isolate=options.isolate, strict=True), declarations)
    facts = structs.replace(campaign.conformance_facts(declarations, again), sampled=job.sampled)
    words = f"run on {options.device}{', in full' if options.full else ''}"
    new = campaign.new_run((*declarations, *job.timed), words, campaign.benchmark_facts(job.benchmarks, facts))
    with open_run(options.results, new) as writer:
        print_start(writer)
        try:
            outcomes, measurements = _done(job, writer, again)
        except KeyboardInterrupt:
            stored = len(writer.stored(Outcome)) + len(writer.stored(Measurement))
            print_hint(f"interrupted: results stored: {stored:,}; run the same command to resume")
            raise
    for line in bench.load_lines([load for benchmark in job.benchmarks for load in benchmark.busy]):
        print(line)
    if differs(options.results):
        name = shlex.quote(str(options.results))
        undo = f"git stash push --include-untracked -- {name}"
        print_hint(f"{name} now differs from the commit that is checked out; `{undo}` puts the changes aside")
    report(options.results, writer.run.machine.name)
    alone = bool(options.targets) and len(declarations) == 1
    return max(check.status(outcomes, alone), bench.status(measurements))


def _job(options: Run, declarations: Sequence[Declaration]) -> Job:
    from attnsuite.benchmark.request import Request
    from attnsuite.conformance.parallel import jobs_of, session_of
    from attnsuite.conformance.request import CheckRequest

    request = CheckRequest(device=options.device, isolate=options.isolate, strict=True)
    if not options.full:
        request = campaign.sampled(request, [declaration for declaration in declarations if declaration.compiles])
    timing = Request(profile="quick" if options.device == "cpu" else "gpu", device=options.device)
    can_be_timed = any(not item.broken and registry.missing_library(item) is None for item in declarations)
    named = campaign.with_workloads(declarations)
    timed = campaign.with_baseline(named, options.except_) if can_be_timed else []
    try:
        benchmarks = campaign.benchmarks_of(timed, timing)
    except UsageError:  # the profile has no workload of these contracts
        benchmarks = []
    processes = jobs_of(options.jobs, request, declarations)
    session = session_of(request, len(declarations), processes)
    return Job(declarations, session, benchmarks, timed, timing, processes)


def _plan(job: Job, results: Path) -> Iterator[str]:
    """Lines: the number of tests, the estimated duration, which implementations compile, which are sampled."""
    from attnsuite.benchmark.plan import duration, plan_of, recorded_rates

    rates = recorded_rates(results, job.timing.kind)
    timing = sum(plan_of(benchmark, rates).seconds for benchmark in job.benchmarks)
    about = duration(START_AND_END + SECONDS_PER_TEST * job.tests / job.processes + timing)
    count, cores = len(job.declarations), job.processes
    tests = f"{job.tests:,} tests of {count} implementation{'s' * (count != 1)}"
    yield f"{tests}: about {about} on {cores} core{'s' * (cores != 1)}"
    compiling = [item for item in job.declarations if item.compiles and not item.broken]
    compiling = [item for item in compiling if not registry.missing_library(item)]
    if compiling:
        names = ", ".join(declaration.full_name for declaration in compiling)
        yield f"compilation takes longer, unless kernels are cached: {names}"
    if sampled := [declaration for declaration in job.declarations if declaration.full_name in job.sampled]:
        counts = (f"{job.session.count(item):,} of {job.sampled[item.full_name]:,}" for item in sampled)
        names = ", ".join(f"{item.full_name} ({count})" for item, count in zip(sampled, counts, strict=True))
        yield f"tested on a sample, every feature once (--full tests everything): {names}"


def _done(job: Job, writer: RunWriter, again: dict[str, list[str]]) -> tuple[list[Outcome], list[Measurement]]:
    """Run the tests, then the benchmarks; write each row at once, and return outcomes and measurements."""
    with job.session, Display(job.tests, sys.stdout, again=again, sampled=job.sampled) as display:
        outcomes = campaign.check(job.session, job.declarations, display, writer)
    for benchmark in job.benchmarks:
        benchmark.earlier = campaign.by_implementation(outcomes)
        benchmark.sampled = job.sampled
    tables = sum(len(benchmark.tables()) for benchmark in job.benchmarks)
    with Display(tables, sys.stdout, what="tables") as display:
        measurements = campaign.bench(job.benchmarks, writer, display)
    whole = [declaration for declaration in job.declarations if declaration.full_name not in job.sampled]
    campaign.finish_checked(writer, whole)
    return outcomes, measurements
