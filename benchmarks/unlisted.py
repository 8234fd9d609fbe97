"""How well a contract's diagnosis describes mistakes that are not in its list.

    python benchmarks/unlisted.py attention 9

Every ninth mutant runs as an implementation. It is left out of the list, with all mutants that fail the same tests.
As in a check, diagnosis and explanation see the results of all tests, here the small ones in float32. None of these can
judge what they led to, so the tests of other covering arrays do: the check has not seen their inputs. To show fewer
tests, and to judge by the others, would measure a check that nobody runs.
"""

import argparse
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from attnsuite.cases import Call, Case, Contract, Mutant, Reply, draws, list_tests
from attnsuite.cases.contract import QUICK, Variant
from attnsuite.cases.tensors import seed
from attnsuite.conformance import audit, diagnosis, explanation
from attnsuite.conformance.audit import array_of, failure, variant_implementation
from attnsuite.conformance.case_tests import CaseTests
from attnsuite.conformance.check import Check
from attnsuite.conformance.diagnosis import WrongResult
from attnsuite.conformance.explanation import Explainer, kind_of
from attnsuite.conformance.hints import plain_outcomes
from attnsuite.conformance.request import CaseDtype
from attnsuite.conformance.session import single_threaded
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Outcome, Status
from attnsuite.worker.calling import run_calls

SMALL = 2_000
"""Queries times keys of the largest test: larger ones take most of the time."""
ARRAYS = (1, 2)
"""The covering arrays whose tests are judges."""
JUDGES = 8
"""Failing tests that judge a name."""
MOSTLY = 0.8
"""The share of the judges on which a name or a rule must hold to be right."""
MANY = 0.25
"""A count, `failed in 78 of 98 tests with a mask, in no other`, is right where most failing judges have a mask, and
this share of the passing ones at most, or where as many of those with a mask fail, within 1 − MOSTLY."""
MAX_REPLIES = 50_000
"""Replies that are kept at most, some gigabytes."""
KINDS = "name", "place", "none", "wrong", "unjudged"


class Replies:
    """The replies of mutants, which many diagnoses need: each mutant runs once on the same inputs."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], tuple[object, object, tuple[Reply, ...]]] = {}

    def __call__(self, function: Callable[..., object], calls: Sequence[Call]) -> tuple[Reply, ...]:
        key = id(function), id(calls)
        if draws._REPLAYED:
            return run_calls(function, calls)
        if key not in self.known:
            if len(self.known) >= MAX_REPLIES:
                self.known.clear()
            self.known[key] = function, calls, run_calls(function, calls)  # with both, no other ones get their ids
        return self.known[key][-1]


class Measured(NamedTuple):
    """The diagnosis of one mutant: how many of its failing tests got a right name, a right place, none, a wrong one."""

    mutant: str
    counts: Mapping[str, int]
    wrong: tuple[str, ...]
    """The names and sentences that are wrong or have no judge."""


class Tests(NamedTuple):
    """The tests that a check sees, those that judge, and the seen cases with other numbers."""

    seen: Sequence[CaseDtype]
    judges: Sequence[CaseDtype]
    redrawn: Mapping[str, Case]


def tests_of(contract: Contract) -> Tests:
    """The small tests of a contract in float32, and those of other covering arrays."""
    seen = _small(contract.cases())
    names = {case.name for case, _ in seen}
    place: dict[str, int] = {}
    others = (case for number in ARRAYS for case in array_of(contract.name).cases(QUICK, number))
    judges = {case.name: case for case in others if case.name not in names}
    turns = Counter[str]()
    for case, _ in seen:
        turns[case.family] += 1
        place[case.name] = turns[case.family]
    seen.sort(key=lambda test: place[test[0].name])  # the first of each family tell most mutants apart
    with seed(ARRAYS[0]):
        return Tests(seen, _small(judges.values()), {case.name: case for case in contract.cases()})


def _small(cases: Iterable[Case]) -> list[CaseDtype]:
    return [
        (case, dtype)
        for case, dtype in list_tests(cases, "cpu", ("float32",))
        if math.prod(case.lengths().get(size, 0) for size in ("queries", "keys")) <= SMALL
        and case.family not in ("bad_input", "documents")
        and not case.in_worker
    ]


class Judge:
    """Judges names and places by tests that diagnosis and explanation have not seen."""

    def __init__(self, check: Check, tests: Tests, mutant: Mutant, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        self.check, self.tests, self.mutant = check, tests, mutant
        self.failing, self.passing, self.seen = outcomes["failing"], outcomes["passing"], outcomes["seen"]

    def is_right_name(self, name: str) -> bool:
        """Whether a name is that of the same mistake: of the same family, or with the same result in other tests."""
        known = self.check.diagnostician.mutants.get(name)
        if known and (known.family or known.name) == (self.mutant.family or self.mutant.name):
            return True
        same = [self._explains(name, case, dtype) for case, dtype in self._name_judges()]
        return len(same) > 1 and sum(same) >= MOSTLY * len(same)

    def _name_judges(self) -> list[CaseDtype]:
        """Failing tests: of other arrays, or if these do not show the mistake the seen ones with other numbers."""
        unseen = [(self.check.cases[o.case, o.dtype], o.dtype) for o in self.failing]
        redrawn = [(self.tests.redrawn[o.case], o.dtype) for o in self.seen if o.fails and o.case in self.tests.redrawn]
        judges = unseen if len(unseen) >= JUDGES else [*unseen, *redrawn]
        return judges[:: max(1, len(judges) // JUDGES)]

    def _explains(self, name: str, case: Case, dtype: str) -> bool:
        calls = case.calls(dtype)
        expected, replies = case.expected(calls, {}), run_calls(self.mutant.function, calls)
        return self.check.diagnostician.explains(name, WrongResult(case, calls, replies, expected))

    def explained(self, seen: Sequence[Outcome]) -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
        """By key of a failure without a name, whether its place is right, and the sentence."""
        explainer = Explainer(self.check)
        plain = plain_outcomes(self.check, self.seen)
        for unnamed in explainer.unnamed(seen, any(outcome.status == Status.PASSED for outcome in plain)):
            alike = [o for o in self.failing if kind_of(o) == unnamed.kind and not explainer.is_explained(o, seen)]
            right: list[bool] = []
            if unnamed.rule.says:
                passing = explainer.comparable(explainer.wrong(unnamed.outcomes), self.passing)
                held = sum(unnamed.rule.holds(explainer.feature_test(outcome)) for outcome in alike)
                passed = sum(map(unnamed.rule.holds, passing))
                rare = unnamed.rule.share < 1 and passed <= MANY * len(passing)
                as_said = held >= (unnamed.rule.share + MOSTLY - 1) * (held + passed)
                right.append(held >= MOSTLY * len(alike) and (rare or as_said))
            if unnamed.places:
                every = max(1, len(alike) // JUDGES)
                others = [explainer.places([*unnamed.outcomes, outcome]) for outcome in alike[::every]]
                same = sum(claim(other) == claim(unnamed.places) for other in others)
                right.append(same >= MOSTLY * len(others))
            says = "; ".join(filter(None, (unnamed.rule.says, unnamed.places)))
            verdict = ("place" if all(right) else "wrong") if len(alike) > 1 else "unjudged"
            yield from ((o.key, (verdict, says)) for o in unnamed.outcomes if right)


def claim(places: str) -> str | set[str]:
    """What a sentence about places says of other tests: of gradients that differ, their inputs without counts."""
    return set(re.findall(r"that of (\w+)", places)) or places


def measured(contract: Contract, inputs: CaseTests, tests: Tests, mutant: Mutant) -> Measured | None:
    """The diagnosis of one mutant; None where it fails fewer than two of the tests."""
    implementation = variant_implementation(Variant(mutant.name, mutant.says, mutant.function), contract)
    check = Check(implementation, inputs, [*tests.seen, *tests.judges])
    outcomes = list(check.outcomes(tests.seen))
    if sum(outcome.fails for outcome in outcomes) < 2:
        return None
    unseen = list(check.outcomes(tests.judges))
    remaining = tuple(other for other in contract.mutants() if not is_twin(other, mutant, check, outcomes))
    check.implementation = replace(implementation, contract=replace(contract, mutants=lambda: remaining))
    diagnosed = {outcome.key: outcome for outcome in chain(outcomes, Explainer(check).named(outcomes))}
    failing, passing = [o for o in unseen if o.fails], [o for o in unseen if o.status == Status.PASSED]
    judge = Judge(check, tests, mutant, {"failing": failing, "passing": passing, "seen": outcomes})
    explained = dict(judge.explained(list(diagnosed.values())))
    counts, doubtful = Counter[str](), Counter[str]()
    right: dict[str, bool] = {}
    for outcome in (outcome for outcome in diagnosed.values() if outcome.fails):
        for name in outcome.diagnosis:
            right.setdefault(name, judge.is_right_name(name))
        if outcome.diagnosis:
            kind, says = "name" if any(right[n] for n in outcome.diagnosis) else "wrong", " or ".join(outcome.diagnosis)
        else:
            kind, says = explained.get(outcome.key, ("none", ""))
        counts[kind] += 1
        if kind in ("wrong", "unjudged"):
            doubtful[f"{kind} {says}"] += 1
    return Measured(mutant.name, counts, tuple(f"{count} {says}" for says, count in doubtful.items()))


def is_twin(other: Mutant, mutant: Mutant, check: Check, outcomes: Sequence[Outcome]) -> bool:
    """Whether a mutant is this one or fails exactly the same tests."""
    return other.name == mutant.name or all(fails(other, check, o.case, o.dtype) == o.fails for o in outcomes)


FAILS: dict[tuple[str, str, str], bool] = {}
"""Whether a mutant fails a case in a dtype."""


def fails(mutant: Mutant, check: Check, case: str, dtype: str) -> bool:
    """Whether a mutant fails a test."""
    key = mutant.name, case, dtype
    if key not in FAILS:
        test = check.test(check.cases[case, dtype], dtype)
        FAILS[key] = bool(failure(test.case, test.calls, test.expected, mutant.function))
    return FAILS[key]


def main(name: str, every: int, first: int = 0) -> None:
    """Print the diagnosis of every n-th mutant of a contract, and the shares of all."""
    contract = contract_named(name)
    mutants = contract.mutants()
    contract = replace(contract, mutants=lambda: mutants)
    tests, inputs = tests_of(contract), CaseTests(contract, keep=True)
    replies = Replies()
    vars(audit)["run_calls"] = vars(explanation)["run_calls"] = replies
    vars(diagnosis)["tries"] = lambda calls: partial(replies, calls=calls)
    shares, unmeasured = [], []
    with single_threaded("cpu"):
        for mutant in mutants[first::every]:
            started = time.process_time()
            result = measured(contract, inputs, tests, mutant)
            if result is None:
                unmeasured.append(mutant.name)
                continue
            total = sum(result.counts.values())
            shares.append({kind: result.counts[kind] / total for kind in KINDS})
            seconds = f"{time.process_time() - started:.0f} s"
            print(mutant.name, dict(result.counts), seconds, *result.wrong, sep="  ", flush=True)
    means = {kind: sum(share[kind] for share in shares) / len(shares) for kind in KINDS}
    print(f"{len(shares)} mutants: {', '.join(f'{kind} {share:.1%}' for kind, share in means.items())}")
    print(f"{len(unmeasured)} fail fewer than two of the {len(tests.seen)} tests: {', '.join(unmeasured)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a contract")
    parser.add_argument("every", type=int, help="run each n-th of its mutants")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the number of the first one")
    main(**vars(parser.parse_args()))
