"""One implementation on all its tests: run, judge, give up after timeouts, then diagnose the failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from attnsuite.cases import Case, Reply, list_tests
from attnsuite.conformance import known as known_failures
from attnsuite.conformance.case_tests import CaseTest, CaseTests, Implementation, Meanwhile, Result
from attnsuite.conformance.diagnosis import Diagnostician, WrongResult
from attnsuite.conformance.known import Known
from attnsuite.conformance.request import CaseDtype
from attnsuite.model import EVERY_CASE, Outcome, Reason, Status
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.worker.worker import Timeout

MAX_CONSECUTIVE_TIMEOUTS = 4
"""After this many timeouts in a row the remaining tests are skipped; each would cost a full time limit."""
MAX_TIMEOUTS = 10
"""After this many timeouts in total the remaining tests are skipped: of thousands of tests a third may time out. They
count at the usual time limit: with a shorter one more are allowed, with a longer one (of a compiler) fewer."""
OTHER_GAPS = "For any other gap, raise NotImplementedError with the reason in the call"
CORE_UNSUPPORTED = "does not support the core, which is required"
"""How the detail of an outcome begins if an implementation does not support the core of its contract."""
MARGINAL = "close to the tolerance, so no known mistake is named"
"""How the detail of an outcome ends whose errors are small and few."""
MISCALLED = re.compile(r"TypeError: [\w.<>]+\(\) (takes|missing|got an unexpected|got multiple)")
"""Python's own message about a call that does not fit the signature."""
WIDER = re.compile(r"(call \d+ of \d+: )?output is float\d+, should be \w+")
"""The detail of an outcome with right numbers in a wider dtype."""
UNEXPECTED = re.compile(r"TypeError: .*got an unexpected keyword argument '(\w+)'")
"""Python's message about a parameter that a function lacks: the only way to learn the parameters of a builtin."""

OutcomesAt = Callable[[Sequence[int]], Generator[Outcome]]
"""Runs the tests at some places in `Check.tests`; once it is closed, it runs no more of them."""


@dataclass
class Timeouts:
    """Counts the timeouts of one implementation, and decides when its remaining tests are skipped."""

    time_limit: float = TIME_LIMIT
    counted: Collection[Status] = (Status.TIMEOUT,)
    """The statuses that count as consecutive timeouts."""
    consecutive: int = 0
    total: int = 0
    seconds: float = 0.0
    """The time that all of them took."""

    def add(self, outcome: Outcome) -> None:
        """Count an outcome, in the order of tests."""
        if outcome.reason == Reason.SKIPPED:
            return
        self.consecutive = self.consecutive + 1 if outcome.status in self.counted else 0
        if outcome.status == Status.TIMEOUT:
            self.total += 1
            self.seconds += outcome.seconds or self.time_limit  # rows of older versions have no seconds

    @property
    def reason(self) -> str:
        """Why the remaining tests are skipped; empty as long as they are not."""
        if self.consecutive >= MAX_CONSECUTIVE_TIMEOUTS:
            return f"the {self.consecutive} tests before it timed out"
        if self.seconds >= MAX_TIMEOUTS * max(self.time_limit, TIME_LIMIT):
            return f"{self.total} tests before it timed out"
        return ""


@dataclass(frozen=True)
class Failure:
    """Wrong numbers that a mutant may explain: the outcome in the contract's own words, the replies, and the test."""

    outcome: Outcome
    replies: tuple[Reply, ...]
    test: CaseTest | None = None
    """None where another process ran it: it is made again."""


def run_test(implementation: Implementation, test: CaseTest, meanwhile: Meanwhile = lambda: None) -> Result:
    """The result of a test, computed in another process if the case demands it.

    `meanwhile` runs while another process computes, and before this one does.
    """
    calls = [implementation.contract.adapt(call, implementation.understood) for call in test.calls]
    if implementation.run_overlapped:
        return implementation.run_overlapped(calls, meanwhile)
    meanwhile()
    return (implementation.run_isolated if test.case.in_worker else implementation.run)(calls)


def judge(implementation: Implementation, test: CaseTest, result: Result) -> tuple[Outcome, bool]:
    """The outcome of a result, and whether it has wrong numbers that a mutant may explain."""
    blank = implementation.outcome(test.case.name, test.dtype, Status.FAILED)
    if not isinstance(result, tuple):
        seconds = result.seconds if isinstance(result, Timeout) else None
        return replace(blank, status=result.status, detail=str(result), seconds=seconds), False
    blank = replace(blank, seconds=sum(reply.seconds for reply in result))
    if words := next((reply.unsupported for reply in result if reply.unsupported), ""):
        return replace(blank, status=Status.UNSUPPORTED, detail=words, reason=Reason.AT_RUN_TIME), False
    if untaken := _untaken_parameter(implementation, test, result):
        return replace(blank, status=Status.UNSUPPORTED, detail=f"takes no {untaken}", reason=Reason.UNTAKEN), False
    device = implementation.device_kind
    if other := next((reply.device for reply in result if reply.output is not None and reply.device != device), ""):
        return replace(blank, detail=f"the output is on {other}, should be on {device}"), False
    verdict = test.case.verdict(test.calls, result, test.expected)
    detail = verdict.detail
    if verdict.status == Status.ERROR and any(MISCALLED.match(reply.error) for reply in result):
        detail = f"{detail}; it is called as {implementation.contract.signature}"
    detail = f"{detail}; {MARGINAL}" if verdict.marginal else detail
    reason = Reason.LENIENT if verdict.accepted and implementation.lenient else Reason.NONE
    outcome = replace(blank, status=verdict.status, detail=detail, error_ratio=verdict.error_ratio, reason=reason)
    return outcome, verdict.output_wrong and not verdict.marginal


def lacks_name(outcome: Outcome) -> bool:
    """Whether an outcome of an interrupted check may not have been diagnosed: a resumed one runs its test again."""
    wrong_numbers = outcome.status == Status.FAILED and outcome.error_ratio is not None
    return wrong_numbers and not outcome.diagnosis and not outcome.detail.endswith(MARGINAL)


def _untaken_parameter(implementation: Implementation, test: CaseTest, replies: Sequence[Reply]) -> str:
    """The parameter that a function without a readable signature reports not to have; empty if it takes all."""
    if implementation.declaration.parameters is not None:
        return ""
    messages = (UNEXPECTED.match(reply.error) for reply in replies)
    arguments = frozenset[str]().union(*(call.arguments for call in test.calls))
    return next((message[1] for message in messages if message and message[1] in arguments), "")


@dataclass
class Check:
    """One implementation on all its tests, with the rules that need more than one outcome."""

    implementation: Implementation
    inputs: CaseTests
    tests: Sequence[CaseDtype]
    known: Sequence[Known] = ()
    """Known bugs, or the expected failures of a submission."""
    earlier: Sequence[Outcome] = ()
    """The outcomes of an interrupted run: their tests are not run again."""
    whole: bool = True
    """Whether this is not one of several shards, which cannot tell that no test can fail by an expected failure."""
    time_limit: float = TIME_LIMIT
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    """By case and dtype, the failures that can be diagnosed."""
    _gaps: dict[str, str | None] = field(default_factory=dict)
    """The declared gaps that were rechecked."""

    def __post_init__(self) -> None:
        self.earlier = [outcome for outcome in self.earlier if not lacks_name(outcome)]
        self._timeouts, self._known_timeouts = Timeouts(self.time_limit), Timeouts(self.time_limit)

    # All tests

    def run(self, outcomes_at: OutcomesAt | None = None) -> Iterator[Outcome]:
        """Yield an outcome of every test not in `earlier`, without a diagnosis, then those about the implementation.

        `outcomes_at` runs the tests at some places in `tests`, by default in this process.
        """
        outcomes_at = outcomes_at or (lambda places: self.outcomes(self.tests[place] for place in places))
        outcomes = list(self.earlier)
        for outcome in self._run_tests(outcomes_at):
            outcomes.append(outcome)
            yield outcome
        yield from self.misdeclared()
        yield from self.outdated(outcomes)
        yield from self._idle(outcomes)

    def _run_tests(self, outcomes_at: OutcomesAt) -> Iterator[Outcome]:
        for outcome in self.earlier:
            self._count(outcome)
        waiting = self._waiting()
        running = outcomes_at([place for place in waiting if not self._reason_to_skip(place)])
        for number, place in enumerate(waiting, 1):
            if reason := self._reason_to_skip(place):
                yield self._skipped(place, reason)
                continue
            outcome = next(running)
            if self._count(outcome):
                running.close()
                running = outcomes_at([place for place in waiting[number:] if not self._reason_to_skip(place)])
            yield outcome
        running.close()

    def _count(self, outcome: Outcome) -> bool:
        """Count a timeout; whether it reaches a limit. Known timeouts end only the tests that are known to time out."""
        timeouts = self._known_timeouts if outcome.known and outcome.status == Status.TIMEOUT else self._timeouts
        before = timeouts.reason
        timeouts.add(outcome)
        return timeouts.reason != before

    def _reason_to_skip(self, place: int) -> str:
        if self._timeouts.reason or not self._known_timeouts.reason:
            return self._timeouts.reason
        return self._known_timeouts.reason if self._skipped(place, "").known else ""

    def _waiting(self) -> list[int]:
        """The places in `tests` of those that have no outcome yet."""
        own = self.implementation.name, self.implementation.device
        done = {(o.case, o.dtype) for o in self.earlier if (o.implementation, o.device) == own}
        return [place for place, (case, dtype) in enumerate(self.tests) if (case.name, dtype) not in done]

    def _skipped(self, place: int, reason: str) -> Outcome:
        case, dtype = self.tests[place]
        detail = f"timeout: skipped, because {reason}"
        outcome = self.implementation.outcome(case.name, dtype, Status.TIMEOUT, detail, Reason.SKIPPED)
        return known_failures.mark(outcome, self.known)

    # One test

    def outcomes(self, tests: Iterable[CaseDtype]) -> Generator[Outcome]:
        """Run these tests, each when its outcome is needed, without a diagnosis.

        While another process computes a result, the next test is made here.
        """
        remaining = (self.test(case, dtype) for case, dtype in tests)
        made: list[CaseTest | None] = []
        test = next(remaining, None)
        while test:
            result = self.result(test, lambda: made.append(next(remaining, None)))
            yield self.judged(test, result)
            test = made.pop() if made else next(remaining, None)

    def outcome(self, case: Case, dtype: str) -> Outcome:
        """Run one test, with its diagnosis."""
        return self.diagnosed_alone(next(self.outcomes([(case, dtype)])))

    def test(self, case: Case, dtype: str) -> CaseTest:
        """The test of a case in a dtype, under the declared conventions."""
        return self.inputs.test(case, dtype, self.implementation.understood)

    def result(self, test: CaseTest, meanwhile: Meanwhile = lambda: None) -> Result | Outcome:
        """The result of a test, or the outcome of one that is unsupported beforehand.

        The expected values are computed, and `meanwhile` runs, before the result is there; not for an unsupported test.
        """
        return self._unsupported(test) or run_test(self.implementation, test, lambda: (test.prepared(), meanwhile()))

    def judged(self, test: CaseTest, result: Result | Outcome) -> Outcome:
        """The outcome of a result, without a diagnosis."""
        kind = self.implementation.device_kind
        if isinstance(result, Outcome):
            outcome, may_lack = result, kind in self.implementation.lacks or result.reason == Reason.UNDEFINED
        else:
            outcome, diagnosable = judge(self.implementation, test, result)
            may_lack = kind != "cpu" and outcome.detail.startswith(f"lacks {kind}: ")
            if diagnosable and isinstance(result, tuple):
                self.failures[test.case.name, test.dtype] = Failure(outcome, result, test)
        if outcome.status == Status.UNSUPPORTED and self._is_core(test) and not may_lack:
            detail = f"{CORE_UNSUPPORTED}: {outcome.detail}"
            outcome = replace(outcome, status=Status.FAILED, detail=detail, reason=Reason.CORE)
        return self._reported(outcome, test)

    def _reported(self, outcome: Outcome, test: CaseTest) -> Outcome:
        """An outcome in the words of the implementation's signature, marked where it is known."""
        return known_failures.mark(self.implementation.contract.rephrase_outcome(outcome, test.calls), self.known)

    # Diagnosis

    @cached_property
    def diagnostician(self) -> Diagnostician:
        """The diagnosis of failures under the declared conventions."""
        return Diagnostician(self.implementation.contract, self.implementation.understood, self.inputs)

    def diagnosed(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Those of all `outcomes`, in the order of tests, that get a name, with it."""
        outcomes = list(outcomes)
        # right numbers in a wider dtype tell mutants apart, too
        passed = [o for o in outcomes if o.status == Status.PASSED or WIDER.fullmatch(o.detail)]
        tests = [(self.cases[key], key[1]) for o in passed if (key := (o.case, o.dtype)) in self.cases]
        failing = {key: self._failing(key) for o in outcomes if (key := (o.case, o.dtype)) in self.failures}
        results = {
            key: WrongResult(test.case, test.calls, self.failures[key].replies, test.expected)
            for key, test in failing.items()
        }
        diagnoses = self.diagnostician.diagnoses(results, tests)
        for key, diagnosis in diagnoses.items():
            outcome = self.failures[key].outcome
            named = replace(outcome, detail=f"{diagnosis.says}; {outcome.detail}", diagnosis=diagnosis.mutants)
            yield self._reported(named, failing[key])

    def diagnosed_alone(self, outcome: Outcome) -> Outcome:
        """An outcome with the diagnosis that it and earlier outcomes give it."""
        return next(self.diagnosed([outcome]), outcome)

    def _failing(self, key: tuple[str, str]) -> CaseTest:
        return self.failures[key].test or self.test(self.cases[key], key[1])

    @cached_property
    def cases(self) -> dict[tuple[str, str], Case]:
        """The cases of the tests, by their names and dtypes."""
        return {(case.name, dtype): case for case, dtype in self.tests}

    # The implementation as a whole

    def misdeclared(self) -> Iterator[Outcome]:
        """Outcomes for declarations that the contract does not know, and for declared gaps that do not exist."""
        implementation, features = self.implementation, self.implementation.contract.features
        for feature in implementation.lacks:
            if feature not in features:
                detail = f"{feature!r} is not a feature; there are: {', '.join(features)}. {OTHER_GAPS}"
                yield self._about(f"declared/{feature}", detail)
            elif self.gap(feature) is None:
                claim = f"declares it lacks {feature}, yet passes every case that needs just that"
                yield self._about(f"declared/{feature}", f"{claim}; remove the declaration")
        for point in implementation.declaration.conventions:
            if problem := implementation.misunderstood(point):
                yield self._about(f"declared/{point}", problem)

    def outdated(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        """Outcomes for known failures whose tests pass."""
        for known in self.known:
            if passing := known_failures.passing(known, outcomes):
                names = sorted({f"{outcome.case} ({outcome.dtype})" for outcome in passing})
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                yield self._about(known.about, known.closed(f"{', '.join(names[:3])}{more}"))

    def _idle(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        """Outcomes for expected failures by which no test can fail."""
        for known in self.known if self.whole else ():
            if complaint := known.idle(outcomes):
                yield self._about(known.about, complaint)

    def _about(self, case: str, detail: str) -> Outcome:
        return self.implementation.outcome(case, EVERY_CASE, Status.FAILED, detail)

    # Unsupported beforehand

    def gap(self, feature: str) -> str | None:
        """The reason of a declared gap, or None if the implementation passes all cases that need nothing else.

        It is rechecked only if a test needs it, but then on all cases of the contract: passing some does not refute it.
        """
        if feature not in self._gaps:
            needed = feature == self.implementation.device_kind or any(
                feature in self.inputs.needs(case, dtype) for case, dtype in self.tests
            )
            self._gaps[feature] = self._rechecked(feature) if needed else self._reason(feature)
        return self._gaps[feature]

    def _rechecked(self, feature: str) -> str | None:
        """None if the implementation passes every test that needs only this gap; else the reason of the gap."""
        refuted = False
        # `large` says that something takes too long, and so would rechecking it; a backend's gaps are its own
        unchecked = feature == "large" or self.implementation.declaration.backend
        for case, dtype in () if unchecked else self._all_tests:
            if self._lacking(self.inputs.needs(case, dtype)) != [feature]:
                continue
            test = self.test(case, dtype)
            if self._untaken(test) or self._undefined(test):
                continue
            outcome, _ = judge(self.implementation, test, run_test(self.implementation, test, test.prepared))
            if outcome.reason == Reason.UNTAKEN:
                continue
            if outcome.status != Status.PASSED:
                more = outcome.status == Status.UNSUPPORTED and outcome.detail != self.implementation.lacks[feature]
                words = f"; in its own words: {outcome.detail}" if more else ""
                return self._reason(feature) + words
            refuted = True
        return None if refuted else self._reason(feature)

    @cached_property
    def _all_tests(self) -> list[CaseDtype]:
        """All tests of the contract: first those of this check, then the others."""
        others = list_tests(self.implementation.contract.cases(), self.implementation.device_kind)
        return [*self.tests, *((case, dtype) for case, dtype in others if (case.name, dtype) not in self.cases)]

    def _unsupported(self, test: CaseTest) -> Outcome | None:
        """The outcome of a test that signature, declarations or conventions do not support; None if it has to run."""

        def because(reason: Reason, detail: str) -> Outcome:
            return self.implementation.outcome(test.case.name, test.dtype, Status.UNSUPPORTED, detail, reason)

        if missing := self._untaken(test):
            return because(Reason.UNTAKEN, f"takes no {' and no '.join(missing)}")
        for feature in self._lacking(test.needs):
            return because(Reason.LACKING, self.gap(feature) or self._reason(feature))
        undefined = self._undefined(test)
        return because(Reason.UNDEFINED, undefined) if undefined else None

    def _undefined(self, test: CaseTest) -> str:
        return self.implementation.contract.undefined_reason(test.case, test.needs, self.implementation.understood)

    def _untaken(self, test: CaseTest) -> list[str]:
        """The parameters that the test needs and the signature does not have."""
        parameters = self.implementation.declaration.parameters
        arguments = frozenset[str]().union(*(call.arguments for call in test.calls))
        return [] if parameters is None else sorted(arguments.difference(parameters))

    def _lacking(self, needs: frozenset[str]) -> list[str]:
        lacks = self.implementation.lacks
        return [feature for feature in lacks if feature in needs | {self.implementation.device_kind}]

    def _reason(self, feature: str) -> str:
        return f"lacks {feature}: {self.implementation.lacks[feature]}"

    def _is_core(self, test: CaseTest) -> bool:
        contract = self.implementation.contract
        declaration = self.implementation.declaration
        if declaration.backend or declaration.owns_weights or test.case.family != contract.core:
            return False
        if any(call.arguments & contract.optional for call in test.calls):
            return False  # a default, spelled out
        return test.needs - contract.core_needs == {contract.core_dtypes[self.implementation.device_kind]}
