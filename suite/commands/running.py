"""`attnsuite run`, the main job: check everything, write results/ row by row, make the tables."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from suite import machine, registry
from suite.commands import benching
from suite.commands.checking import asked_again, chosen, single_threaded, status
from suite.commands.progress import Steps
from suite.commands.reporting import report
from suite.records import Outcome, UsageError
from suite.registry import Declaration
from suite.report import summary_lines
from suite.store import Results, RunWriter


def run(
    targets: Sequence[str],
    device: str,
    results: Path,
    isolate: bool,
    leave_out: Sequence[str] = (),
    contract: str | None = None,
) -> int:
    """Check the targets (all by default), time them in the quick profile, write the tables; an interrupted run goes on.

    Returns the exit status of both together.
    """
    declarations = chosen(targets, leave_out, contract)
    single_threaded()
    from suite.conformance.session import Request

    request = Request(device=device, isolate=isolate)
    quick = benching.Options(profile="quick", device=device).request()
    can_be_timed = any(not each.broken and registry.absent(each) is None for each in declarations)
    timed = benching.with_baseline(benching.with_workloads(declarations), leave_out) if can_be_timed else []
    try:
        benchmarks = benching.benchmarks_of(timed, quick)
    except UsageError:  # the profile has nothing of them
        benchmarks = []
    sources = {each.full_name: registry.source_hash(each) for each in (*declarations, *timed)}
    again = asked_again(declarations, request)
    told = facts(declarations, device) | {"again": again} | benching.facts(benchmarks)
    new = replace(machine.new_run(sources, machine.suite_hash(), f"run on {device}"), notes={"facts": told})
    with Results(results).open_run(new) as writer:
        benching.say_how_it_starts(writer)
        outcomes = _checked(declarations, request, writer, again)
        for benchmark in benchmarks:
            benchmark.earlier = by_implementation(outcomes)
        measurements = benching.measured(benchmarks, writer, sys.stdout)
        writer.finish(
            whole=[declaration.full_name for declaration in declarations],
            workloads=benching.workloads_of(benchmarks),
            notes=benching.spent(benchmarks, quick),
        )
    report(results, new.machine.name)
    alone = bool(targets) and len(declarations) == 1
    return max(status(outcomes, alone), benching.status(measurements))


def by_implementation(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each implementation."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.implementation].append(outcome)
    return found


def _checked(
    declarations: Sequence[Declaration], request: Any, writer: RunWriter, again: Mapping[str, Sequence[str]]
) -> list[Outcome]:
    from suite.conformance.session import Session

    earlier = by_implementation(writer.recorded)
    session = Session(request, several=len(declarations) > 1)
    outcomes = list(writer.recorded)
    with Steps(sum(map(session.count, declarations)), sys.stdout) as steps:
        for declaration in declarations:
            steps.heading(declaration.full_name)
            found = list(earlier.get(declaration.full_name, ()))
            steps.step(len(found))
            for outcome in session.run(declaration, found):
                if outcome.key not in writer.done:
                    writer.write(outcome)
                    outcomes.append(outcome)
                    found.append(outcome)
                steps.step()
            for line in summary_lines(found, again):
                steps.line(line)
    return outcomes


def facts(declarations: Sequence[Declaration], device: str) -> dict[str, Any]:
    """What tables say beside outcomes: kept with the run, so that a report needs neither torch nor implementations."""
    from suite.conformance import findings
    from suite.contracts import contract, names

    contracts: dict[str, Mapping[str, Any]] = {}
    examples: list[Any] = []
    known: dict[str, str] = {}
    for name in dict.fromkeys(d.contract for d in declarations if d.contract in names()):
        of = contract(name)
        needs = {case.name: sorted(of.needs(case.calls(case.dtypes[0]))) for case in of.cases()}
        contracts[name] = {"features": dict(of.features), "cases": needs}
        examples += [asdict(example) for example in of.examples()]
        known |= {f.id: f"{f.says} {f.judgement}" for f in findings.load(of.findings, machine.versions())}
    return {
        "contracts": contracts,
        "gaps": {d.full_name: dict(d.lacks) for d in declarations if d.lacks},
        "conventions": {d.full_name: dict(d.conventions) for d in declarations if d.conventions},
        "findings": known,
        "examples": examples,
    }
