"""`attnsuite run`, the main job: check everything, write results/ row by row, make the tables."""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import suite
from suite import machine, registry
from suite.commands.checking import chosen, single_threaded, status
from suite.commands.progress import Steps
from suite.commands.reporting import report
from suite.records import Outcome
from suite.registry import Declaration
from suite.report import summary_lines
from suite.results import Results, RunWriter


def run(targets: Sequence[str], device: str, results: Path, isolate: bool, leave_out: Sequence[str] = ()) -> int:
    """Check the targets (all by default), resuming an interrupted run, write the tables, return the exit status."""
    declarations = chosen(targets, leave_out)
    single_threaded()
    from suite.checking import Request

    request = Request(device=device, isolate=isolate)
    sources = {declaration.full_name: registry.source_hash(declaration) for declaration in declarations}
    new = replace(
        machine.new_run(sources, suite_hash(), f"run on {device}"), notes={"facts": facts(declarations, device)}
    )
    with Results(results).open_run(new) as writer:
        for note in writer.notes:
            print(note, file=sys.stderr)
        if writer.resumed:
            print(f"resuming the run of {writer.run.started}: {len(writer.recorded)} outcomes are there already")
        outcomes = _checked(declarations, request, writer)
        writer.finish(whole=list(sources))
    report(results)
    return status(outcomes, alone=bool(targets) and len(declarations) == 1)


def _checked(declarations: Sequence[Declaration], request: Any, writer: RunWriter) -> list[Outcome]:
    from suite.checking import Session

    earlier: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in writer.recorded:
        earlier[outcome.implementation].append(outcome)
    session = Session(request, several=len(declarations) > 1)
    outcomes = list(writer.recorded)
    with Steps(sum(map(session.count, declarations)), sys.stdout) as steps:
        for declaration in declarations:
            steps.heading(declaration.full_name)
            found = list(earlier[declaration.full_name])
            steps.step(len(found))
            for outcome in session.run(declaration, found):
                if outcome.key not in writer.done:
                    writer.write(outcome)
                    outcomes.append(outcome)
                    found.append(outcome)
                steps.step()
            for line in summary_lines(found):
                steps.line(line)
    return outcomes


def suite_hash() -> str:
    """The first 12 hexadecimal digits of a SHA-256 over the suite's own sources and data."""
    folder = Path(suite.__file__).parent
    hashed = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".json", ".toml"):
            hashed.update(str(file.relative_to(folder)).encode())
            hashed.update(file.read_bytes())
    return hashed.hexdigest()[:12]


def facts(declarations: Sequence[Declaration], device: str) -> dict[str, Any]:
    """What tables say beside outcomes: kept with the run, so that a report needs neither torch nor implementations."""
    from suite import findings
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
