"""`python -m attnsuite.cli.expecting here|elsewhere check|bench …` prints what a run of that command is of.

`attnsuite sweep` starts it with the interpreter that is to run the command: what it prints tells which runs in a store
answer the request, and a request that cannot be carried out is refused before anything is started. What only the
machine can tell that runs it is not refused `elsewhere`: its devices and cores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

import typer

from attnsuite import machine, registry
from attnsuite.cli import benching, campaign, outcomes
from attnsuite.cli.app import application
from attnsuite.cli.checking import chosen, refuse_broken, told
from attnsuite.cli.declared.bench import Bench
from attnsuite.cli.declared.check import Check
from attnsuite.cli.sweep.command import Expected
from attnsuite.model import UsageError
from attnsuite.registry import Declaration

NOT_UNDERSTOOD: type[Exception] = typer.BadParameter.__bases__[0]
"""What typer raises for a command line that it cannot read."""


class ExpectedCheck(Check):
    """What `check` with these options is of."""

    def run(self) -> int:
        declarations = chosen(self.targets, self.except_, self.contract, self.signature or "")
        refuse_broken(self.targets, declarations)
        outcomes.refuse_places(self)
        return said(declarations, lambda: refuse_check(self, declarations))


class ExpectedBench(Bench):
    """What `bench` with these options is of."""

    def run(self) -> int:
        named = chosen(self.targets, self.except_, self.contract, signature=self.signature or "")
        refuse_broken(self.targets, named)
        timed = benching.with_workloads(named)
        beside = benching.base_of(self.baseline, timed) if self.baseline else None
        declarations = campaign.with_baseline(timed, self.except_, beside)
        name = beside.name if beside else ""
        return said(declarations, lambda: campaign.benchmarks_of(declarations, self.request(name)))


def refuse_check(options: Check, declarations: Sequence[Declaration]) -> None:
    """UsageError for cases, dtypes, devices that do not exist."""
    from attnsuite.conformance.divided import session_of

    request = outcomes.requested(options, declarations, told)
    session = session_of(request, len(declarations), jobs=1)  # it tests nothing
    session.refuse_idle_gaps(outcomes.askable(session, declarations, told))


def said(declarations: Sequence[Declaration], refuse: Callable[[], object]) -> int:
    """Print what a run of these is of, as JSON, after what this machine refuses, if it is to run it."""
    if is_here():
        refuse()
    sources = {each.full_name: registry.source_hash(each) for each in declarations}
    print(json.dumps(asdict(Expected(machine.suite_hash(), sources, machine.versions()))))
    return 0


def is_here() -> bool:
    """Whether the command is to run on this machine."""
    return sys.argv[0] == "here"


def main() -> None:
    """Read where and what, and print; a request that cannot be carried out is one line and exit status 2."""
    del sys.argv[0]  # the next word says where
    try:
        application({"check": ExpectedCheck, "bench": ExpectedBench})(sys.argv[1:], standalone_mode=False)
    except (UsageError, NOT_UNDERSTOOD) as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
