"""How well a contract's diagnosis describes mistakes that are not in its list.

    python tests/unlisted.py attention 11

Every eleventh mutant runs as an implementation. It is left out of the list, with all mutants that fail the same tests.
Diagnosis and explanation get half of its tests; the other half judge them.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from attnsuite.cases import Contract, Mutant, list_tests
from attnsuite.cases.contract import Variant
from attnsuite.conformance.audit import failure, variant_implementation
from attnsuite.conformance.case_tests import CaseTests
from attnsuite.conformance.check import Check
from attnsuite.conformance.explanation import Explainer, kind_of
from attnsuite.conformance.request import CaseDtype
from attnsuite.conformance.session import single_threaded
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Outcome, Status

SMALL = 6_000
"""Queries times keys of the largest test: larger ones take most of the time."""
SEEN = 12
"""Failing tests that diagnosis gets. A check sees all; the more it sees here, the fewer are left as judges."""
FEW = 20
"""Failing and passing tests that tell most mutants apart."""
JUDGES = 8
"""Failing tests of the other half that judge a name."""
MOSTLY = 0.8
"""The share of the other tests on which a name or a rule must hold to be right."""
MANY = 0.25
"""The share of the passing tests that may have a rule which says that some pass."""
SHARE = re.compile(r"in \d+ of \d+ ")
"""How a rule says so."""
KINDS = "name", "place", "none", "wrong"


class Measured(NamedTuple):
    """The diagnosis of one mutant: how many of its failing tests got a right name, a right place, none, a wrong one."""

    mutant: str
    counts: Mapping[str, int]
    wrong: tuple[str, ...]
    """The names and sentences that are wrong."""


def is_right_name(check: Check, mutant: Mutant, name: str, failing: Sequence[Outcome]) -> bool:
    """Whether a name is that of the same mistake: of the same family, or with the same result in other tests."""
    known = check.diagnostician.mutants.get(name)
    if known and (known.family or known.name) == (mutant.family or mutant.name):
        return True
    others = [outcome for outcome in failing if (outcome.case, outcome.dtype) in check.failures][:JUDGES]
    tests = [check.test(check.cases[outcome.case, outcome.dtype], outcome.dtype) for outcome in others]
    same = [
        check.diagnostician.explains(
            name, test.case, test.calls, check.failures[test.case.name, test.dtype].replies, test.expected
        )
        for test in tests
    ]
    return len(same) > 1 and sum(same) >= MOSTLY * len(same)


def measured(contract: Contract, inputs: CaseTests, tests: Sequence[CaseDtype], mutant: Mutant) -> Measured | None:
    """The diagnosis of one mutant; None where it fails fewer than two of the tests."""
    implementation = variant_implementation(Variant(mutant.name, mutant.says, mutant.function), contract)
    check = Check(implementation, inputs, tests)
    outcomes = list(check.outcomes(tests))
    failing = [outcome for outcome in outcomes if outcome.fails]
    if len(failing) < 2:
        return None
    remaining = tuple(other for other in contract.mutants() if not is_twin(other, mutant, check, outcomes))
    check.implementation = replace(implementation, contract=replace(contract, mutants=lambda: remaining))
    every = max(2, math.ceil(len(failing) / SEEN))
    passing = [outcome for outcome in outcomes if outcome.status == Status.PASSED]
    shown = {outcome.key for outcome in failing[::every]}
    half = shown | {outcome.key for outcome in passing[::2]}
    seen = [outcome for outcome in outcomes if outcome.key in half]
    diagnosed = {outcome.key: outcome for outcome in chain(seen, check.diagnosed(seen))}
    others = [outcome for outcome in failing if outcome.key not in shown]
    counts, wrong = Counter[str](), list[str]()
    right: dict[str, bool] = {}
    explained = dict(_explained(check, list(diagnosed.values()), others, passing[1::2]))
    for outcome in (diagnosed[key] for key in shown):
        for name in outcome.diagnosis:
            right.setdefault(name, is_right_name(check, mutant, name, others))
        if outcome.diagnosis:
            kind, says = "name" if any(right[n] for n in outcome.diagnosis) else "wrong", " or ".join(outcome.diagnosis)
        else:
            kind, says = explained.get(outcome.key, ("none", ""))
        counts[kind] += 1
        if kind == "wrong" and says not in wrong:
            wrong.append(says)
    return Measured(mutant.name, counts, tuple(wrong))


def is_twin(other: Mutant, mutant: Mutant, check: Check, outcomes: Sequence[Outcome]) -> bool:
    """Whether a mutant is this one or fails exactly the same tests."""
    if other.name == mutant.name:
        return True
    outcomes = sorted(outcomes, key=lambda o: math.prod(check.cases[o.case, o.dtype].lengths().values()))  # cheap first
    failing = [outcome for outcome in outcomes if outcome.fails]
    passing = [outcome for outcome in outcomes if outcome.status == Status.PASSED]
    few = [
        outcome
        for pair in zip(failing[:FEW], passing[:: max(1, len(passing) // FEW)], strict=False)
        for outcome in pair
    ]
    for outcome in (*few, *failing, *passing):  # a few of both tell most mutants apart
        test = check.test(check.cases[outcome.case, outcome.dtype], outcome.dtype)
        if bool(failure(test.case, test.calls, test.expected, other.function)) != outcome.fails:
            return False
    return True


def _explained(
    check: Check, seen: Sequence[Outcome], failing: Sequence[Outcome], passing: Sequence[Outcome]
) -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
    """By key of a failure without a name, `place` or `wrong`, and the sentence that says where."""
    explainer = Explainer(check)
    for unnamed in explainer.unnamed(seen):
        alike = [o for o in failing if kind_of(o) == unnamed.kind and not explainer.is_explained(o, seen)]
        right: list[bool] = []
        if unnamed.rule.says:
            held = sum(unnamed.rule.holds(explainer.feature_test(outcome)) for outcome in alike)
            passed = sum(unnamed.rule.holds(explainer.feature_test(outcome)) for outcome in passing)
            limit = MANY * len(passing) if SHARE.search(unnamed.rule.says) else (1 - MOSTLY) * (passed + held)
            right.append(held >= MOSTLY * len(alike) and passed <= limit)
        if unnamed.places:
            right.append(explainer.places([*unnamed.outcomes, *alike]) == unnamed.places)
        says = "; ".join(filter(None, (unnamed.rule.says, unnamed.places)))
        yield from ((o.key, ("place" if all(right) else "wrong", says)) for o in unnamed.outcomes if right)


def main(name: str, every: int, first: int = 0) -> None:
    """Print the diagnosis of every n-th mutant of a contract, and the shares of all."""
    contract = contract_named(name)
    tests = [
        (case, dtype)
        for case, dtype in list_tests(contract.cases(), "cpu", ("float32",))
        if math.prod(case.lengths().get(size, 0) for size in ("queries", "keys")) <= SMALL
        and case.family not in ("bad_input", "documents")
        and not case.in_worker
    ]
    inputs, shares, unmeasured = CaseTests(contract, keep=True), [], []
    with single_threaded("cpu"):
        for mutant in contract.mutants()[first::every]:
            result = measured(contract, inputs, tests, mutant)
            if result is None:
                unmeasured.append(mutant.name)
                continue
            total = sum(result.counts.values())
            shares.append({kind: result.counts[kind] / total for kind in KINDS})
            print(mutant.name, dict(result.counts), *result.wrong, sep="  ", flush=True)
    means = {kind: sum(share[kind] for share in shares) / len(shares) for kind in KINDS}
    print(f"{len(shares)} mutants: {', '.join(f'{kind} {share:.1%}' for kind, share in means.items())}")
    print(f"{len(unmeasured)} fail fewer than two of the {len(tests)} tests: {', '.join(unmeasured)}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
