"""The audit: every submission is checked and timed as a stranger's file is, and must get its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from attnsuite import registry
from attnsuite.benchmark import Benchmark, Request
from attnsuite.benchmark.cheats.catalogue import FOLDER, HONEST, catalogue
from attnsuite.benchmark.cheats.verdicts import of_bench, of_check
from attnsuite.cases import list_tests
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session, alone
from attnsuite.contracts import contract
from attnsuite.model import Cheat, CheatsAudit, Measurement, Outcome, Status, Trial
from attnsuite.model.temporary import temporary
from attnsuite.registry import Declaration
from attnsuite.worker.sandbox import detected

CONTRACT = "attention"
CASES = ("plain", "behaviour", "state", "order", "threads", "metamorphic")
"""The families that are asked: plain answers, and all that is asked around a call and between calls."""
DTYPES = ("float32",)
CAUGHT = 4
"""Failures after which no more is asked: each may end a process."""
WORKLOAD = "vit/b16"
"""What is timed: calls of some 2 ms, so that a sample's calls can be told apart. Two or three make a sample, and
on a slow machine one: what gains in more of them alone is true there, and no cheat."""
BUDGET = 0.1
"""Seconds of timed calls for each."""
GROUP = 7
"""How many are timed beside each other, with the honest control and the baseline: more would wait for each other."""

Ceilings = dict[tuple[str, int], dict[str, float]]
"""What the machine reaches, by dtype and threads: measured with the first group, which takes seconds, for all."""
HOME = "cheats-"
"""Of what kind the folder is in which they are submitted: those that write behind the suite's back look for it."""


def audit(progress: Callable[[str], None] = lambda _: None, names: Sequence[str] = ()) -> CheatsAudit:
    """Submit all of them, or those of these names, in an empty folder that is removed afterwards.

    They are asked as any file is that is named on the command line, in processes of their own.
    """
    started = perf_counter()
    chosen = [each for each in catalogue() if not names or each.name in names]
    with temporary(HOME) as folder, chdir(folder):
        session = Session(CheckRequest(CASES, DTYPES, isolate=True))
        checked = [of_check(cheat, _checked(cheat, session, progress)) for cheat in chosen]
        ceilings = Ceilings()
        benched = [trial for group in _groups(chosen) for trial in _benched(group, folder, ceilings, progress)]
    found = {(trial.cheat.name, trial.command): trial for trial in (*checked, *benched)}
    both = [found[cheat.name, command] for cheat in chosen for command in ("check", "bench")]
    return CheatsAudit(both, perf_counter() - started)


def _declared(cheat: str) -> Declaration:
    return registry.find([str(FOLDER / f"{cheat}.py")])[0]


def _checked(cheat: Cheat, session: Session, progress: Callable[[str], None]) -> list[Outcome]:
    """Its outcomes, until it has failed often enough. Mistakes get no names here, which would take long."""
    found: list[Outcome] = []
    with ExitStack() as stack:
        check = session.check(_declared(cheat.name), stack, foresee=False)
        if isinstance(check, Outcome):
            return [check]
        stack.enter_context(alone(session.request.device))
        for outcome in check.outcomes(check.tests):
            found.append(outcome)
            if sum(outcome.fails for outcome in found) >= CAUGHT:
                break
    progress(f"check {cheat.name}: {sum(outcome.fails for outcome in found)} of {len(found)} fail")
    return found


def _groups(chosen: Sequence[Cheat]) -> Iterator[Sequence[Cheat]]:
    others = [cheat for cheat in chosen if cheat.name != HONEST]
    control = [cheat for cheat in chosen if cheat.name == HONEST]
    yield from (
        [*(control if not start else []), *others[start : start + GROUP]] for start in range(0, len(others), GROUP)
    )


def _benched(
    group: Sequence[Cheat], home: Path, ceilings: Ceilings, progress: Callable[[str], None]
) -> Iterator[Trial]:
    """Time a group beside the honest control."""
    rows = _timed(list(dict.fromkeys([HONEST, *(cheat.name for cheat in group)])), ceilings)
    for cheat in group:
        row = rows[cheat.name]
        progress(f"bench {cheat.name}: {row.status}")
        yield of_bench(cheat, row, rows.get(HONEST), home, detected())


def _timed(names: Sequence[str], ceilings: Ceilings) -> dict[str, Measurement]:
    """The row of each, whether it is about this workload or about all.

    Times of what fails the contract are refused without timing; here everybody counts as one who keeps it, so that what
    is seen is what the timing itself finds.
    """
    of = contract(CONTRACT)
    declared = [*map(_declared, names), *registry.find([f"{CONTRACT}/{of.baseline}"])]
    asked = [(case.name, dtype) for case, dtype in list_tests(of.cases(), "cpu", DTYPES)]
    kept = {
        each.full_name: [Outcome(each.full_name, CONTRACT, *key, "cpu", Status.PASSED) for key in asked]
        for each in declared
    }
    benchmark = Benchmark(of, declared, Request((WORKLOAD,), threads=(1,), budget=BUDGET), kept, ceilings=ceilings)
    found = {row.implementation.rpartition("/")[2]: row for _, rows in benchmark.run() for row in rows}
    lost = replace(found[of.baseline], status=Status.MISSING, detail="no row came", seconds=())
    return {name: found.get(name, lost) for name in names}
