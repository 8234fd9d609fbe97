"""Explains a check that failed: which features its failures share, and the smallest input that shows each cause."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from attnsuite.cases import Call, Mutant
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.contract import Reproducer, Simpler
from attnsuite.cases.expected import Expected
from attnsuite.cases.returned_weights import WEIGHTS_NOT_JUDGED, WEIGHTS_RIGHT
from attnsuite.conformance.case_tests import CaseTest
from attnsuite.conformance.check import MARGINAL, Check, judge, run_test
from attnsuite.conformance.diagnosis import WrongResult, names_convention
from attnsuite.conformance.hints import plain_outcomes
from attnsuite.conformance.places import Wrong, are_gradients, input_of, wrong_places
from attnsuite.conformance.shared_features import FeatureTest, Rule, where_failing
from attnsuite.model import FAILURES, WITHOUT_RESULT, Explanation, Outcome, Reproduction, Status
from attnsuite.registry import import_lines
from attnsuite.worker.calling import run_calls
from attnsuite.worker.sandbox import in_short

MAX_REPRODUCTIONS = 2
"""Causes whose reproduction is printed: each takes ten lines, and one repair may be what several need."""
MAX_TRIES = 4
"""Failing tests of one cause that are tried: in some no single call fails, because calls are compared."""
MAX_MUTANTS = 8
"""Named mutants that are tried on a test without a name, a millisecond each."""
CHANCE = 0.01
"""The probability up to which a mistake without a name has no part in failures with its features by chance."""
MAX_EXPLAINED = 3_200
"""Runs of named mutants on failures without a name, a millisecond each. With more, no features are reported."""
SECONDS = 5.0
"""Seconds for all reproductions of an implementation: CPU time of this process, or the time of the results."""
MAX_CALLS = 600
"""Calls for all reproductions: one of ordinary size shrinks to its end within 200."""
CALL = re.compile(r"^call (\d+) of \d+: ")
"""How the message of a failure in one of several calls begins."""
STATE = "results depend on earlier calls, or vary"
LATER = "the first call of each test is right, a later one is not"
NOT_FINITE = re.compile(r" is -?(inf|nan)\b|infinite or NaN")
"""A number that is not finite, in a detail. An error is infinite where nothing but 0 is accepted, too."""
CRASH = "a crash"
HOW_THEY_FAIL = {"numbers": "are wrong in numbers", "infinite": "are not finite", CRASH: "are crashes"}
"""The verb of a sentence about some of the failures, by kind; the others raise an error."""
Cause = tuple[Status, str, tuple[str, ...]]
"""The status, the kind of failure, and the mutants."""
Fails = Callable[[Call], tuple[bool, float]]
"""Whether a call fails, and the seconds that its result took."""


class OutOfBudget(Exception):
    """The time or the number of calls is used up."""


class PassesAfresh(Exception):
    """An input that failed after other calls passes in a new process."""


@dataclass
class Budget:
    """What may still be spent on reproductions."""

    seconds: float = SECONDS
    calls: int = MAX_CALLS

    def spend(self, fails: Fails, call: Call) -> bool:
        """Whether the call fails. Raises OutOfBudget where nothing is left to find out."""
        if self.seconds <= 0 or self.calls <= 0:
            raise OutOfBudget
        started = time.process_time()
        failed, waited = fails(call)
        self.seconds -= max(time.process_time() - started, waited)
        self.calls -= 1
        return failed


def shrunk(call: Call, fails: Fails, simpler: Sequence[Simpler], budget: Budget) -> tuple[Call, bool]:
    """The smallest call that fails, and whether the budget was used up before it was found.

    Each way to make a call simpler is tried until no simpler one fails, and all of them again until none helps.
    """
    before = None
    try:
        while before is not call:
            before = call
            for step in simpler:
                while smaller := next((candidate for candidate in step(call) if budget.spend(fails, candidate)), None):
                    call = smaller
    except OutOfBudget:
        return call, True
    return call, False


@dataclass(frozen=True)
class Unnamed:
    """Failures of one kind that no mutant explains, and what they share: their tests, and their wrong elements."""

    kind: str
    outcomes: Sequence[Outcome]
    rule: Rule
    places: str


@dataclass
class Explainer:
    """What a check's failures have in common, and the smallest inputs that show them."""

    check: Check
    budget: Budget = field(default_factory=Budget)
    reproduced: set[Cause] = field(default_factory=set)
    """The causes that have a reproduction, or whose smallest input passes in a new process."""
    passes_afresh: str = ""
    """A failing case whose smallest input passes in a new process."""

    def named(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes that a mutant explains, with its name.

        Not where it explains a part of the failures that have one cause: `ignores a scale of 0`, where every test with
        a scale fails.
        """
        named = list(self.check.diagnosed(outcomes))
        names = Counter(outcome.diagnosis for outcome in named if outcome.diagnosis)
        parts: set[tuple[str, ...]] = set()
        last = {outcome.key: outcome for outcome in (*outcomes, *named)}.values()
        for unnamed in self.unnamed(list(last)) if names else ():
            for names_of, count in names.items():
                alike = [o for o in named if o.diagnosis == names_of]
                if count < len(unnamed.outcomes) and self._share_the_cause(alike, unnamed):
                    parts.add(names_of)
        return [outcome for outcome in named if outcome.diagnosis not in parts]

    def _share_the_cause(self, outcomes: Sequence[Outcome], unnamed: Unnamed) -> bool:
        """Whether what failures without a name share describes other ones as well.

        Where every test with some features fails without a name, those with a name would have both mistakes.
        """
        if any(kind_of(outcome) != unnamed.kind for outcome in outcomes):
            return False
        without = (1 - unnamed.rule.share) ** len(outcomes) if unnamed.rule.says else 1.0
        if without < CHANCE and all(map(unnamed.rule.holds, map(self.feature_test, outcomes))):
            return True
        return bool(unnamed.places) and self.places([*unnamed.outcomes, *outcomes]) == unnamed.places

    def explanation(self, outcomes: Sequence[Outcome]) -> Explanation:
        """The explanation of all outcomes of the check."""
        implementation = self.check.implementation
        adapted = tuple(filter(None, (implementation.declaration.conversion, _pairs(outcomes))))
        sandbox = "" if implementation.mechanisms is None else in_short(implementation.mechanisms)
        failing = [outcome for outcome in outcomes if outcome.fails and _key(outcome) in self.check.cases]
        if not failing:
            return Explanation(adapted, sandbox=sandbox)
        plain = plain_outcomes(self.check, outcomes)
        # "only" means nothing where no plain test passes; nor does an input where every plain test raises
        some_pass = any(outcome.status == Status.PASSED for outcome in plain)
        all_raise = bool(plain) and all(outcome.status == Status.ERROR for outcome in plain)
        if noise := self._noise(failing):
            return Explanation(adapted, (noise,), sandbox=sandbox)
        where = tuple(self._where(outcomes, some_pass))
        explained = [outcome for outcome in failing if not (all_raise and outcome.status == Status.ERROR)]
        reproductions, uncompared = tuple(self._reproductions(explained)), self._uncompared(failing)
        if self.passes_afresh:
            where = (*where, f"the smallest input of {self.passes_afresh} passes in a new process: {STATE}")
        return Explanation(adapted, where, reproductions, sandbox=sandbox, uncompared=uncompared)

    def reproduction(self, outcome: Outcome) -> Reproduction | None:
        """The smallest input of a failure; None for a cause that has a reproduction, and where no call alone fails.

        A crash or a timeout has no minimal input, because a single call cannot reproduce it.
        """
        cause = _cause(outcome)
        done = cause in self.reproduced or len(self.reproduced) >= MAX_REPRODUCTIONS
        if outcome.status in WITHOUT_RESULT or done or _key(outcome) not in self.check.cases:
            return None
        if reproduction := self._smallest(outcome):
            self.reproduced.add(cause)
        return reproduction

    def _noise(self, failing: Sequence[Outcome]) -> str:
        """How results differ from call to call, where that may be why plain tests fail; else empty."""
        contract = self.check.implementation.contract
        core = [o for o in failing if o.case.startswith(f"{contract.core}/") and not _is_named(o) and kind_of(o)]
        core = [o for o in core if o.status not in WITHOUT_RESULT]
        reproducing = contract.reproducer()
        if not core or reproducing is None:
            return ""
        test = self._test(core[0])
        calls = reproducing.equal_calls
        replies = run_test(self.check.implementation, replace(test, calls=calls, case=reproducing.case_of(calls)))
        return reproducing.noise(replies) if isinstance(replies, tuple) else ""

    # Features that failures share

    def _where(self, outcomes: Sequence[Outcome], some_pass: bool) -> Iterator[str]:
        """A sentence for each kind of failure that no mutant explains: in which tests, and in which elements."""
        failures = sum(outcome.fails for outcome in outcomes)
        for unnamed in self.unnamed(outcomes, some_pass):
            if sentence := "; ".join(filter(None, (unnamed.rule.says, unnamed.places))):
                which = _which(len(unnamed.outcomes), failures, unnamed.kind)
                yield self.check.implementation.contract.rephrase(f"{which}{sentence}")

    def unnamed(self, outcomes: Sequence[Outcome], some_pass: bool = True) -> Iterator[Unnamed]:
        """The kinds of failure that no mutant explains; without a rule about tests unless `some_pass`."""
        passed = [outcome for outcome in outcomes if outcome.status == Status.PASSED]
        unnamed = [o for o in outcomes if o.fails and not _is_named(o) and _key(o) in self.check.cases]
        kinds = Counter((kind_of(outcome), str(outcome.status)) for outcome in unnamed if kind_of(outcome))
        runs = len(unnamed) * len(self._named_mutants(outcomes))
        for (kind, status), _ in kinds.most_common() if runs <= MAX_EXPLAINED else ():
            alike = [o for o in unnamed if kind_of(o) == kind and not self.is_explained(o, outcomes)]
            known = [o for o in alike if self.check.cases[_key(o)].lengths()] or alike
            wrong = self.wrong(alike)
            tests = [*self.comparable(wrong, passed), *map(self.feature_test, known)]
            verb = "raised" if status == Status.ERROR else status
            rule = where_failing(tests, verb) if some_pass else Rule()
            if rule.says and len(known) < len(alike):
                rule = rule._replace(
                    says=f"{rule.says} (not counting {len(alike) - len(known)} in tests of several sizes)"
                )
            yield Unnamed(kind, alike, rule, self.places(alike))

    def wrong(self, outcomes: Sequence[Outcome]) -> list[Wrong]:
        """The judged tensors of these outcomes' wrong results."""
        results: list[Wrong] = []
        for outcome in outcomes:
            failure, test = self.check.failures.get(_key(outcome)), self._test(outcome)
            for expected, reply in zip(_each(test.expected), failure.replies if failure else (), strict=False):
                judged = expected.wrong_elements(reply)
                if "output" in judged and any(places.any() for places, *_ in judged.values()):
                    results.append(judged)
        return results

    def places(self, outcomes: Sequence[Outcome]) -> str:
        """Which calls or elements of wrong results are wrong; or empty."""
        later = len(outcomes) > 1 and all(map(_in_later_call, outcomes))
        return LATER if later else wrong_places(self.wrong(outcomes))

    def comparable(self, wrong: Sequence[Wrong], passed: Sequence[Outcome]) -> list[FeatureTest]:
        """The passed tests that might show what is wrong: where gradients alone are, tests of one of them."""
        if are_gradients(wrong):
            inputs = {input_of(name) for result in wrong for name, (places, *_) in result.items() if places.any()}
            passed = [o for o in passed if any(inputs & {*call.gradient_of} for call in self._test(o).calls)]
        return list(map(self.feature_test, passed))

    def feature_test(self, outcome: Outcome) -> FeatureTest:
        """The features of an outcome's test."""
        case = self.check.cases.get(_key(outcome))
        if case is None:
            return FeatureTest(outcome.case, {}, outcome.fails)
        return FeatureTest(outcome.case, case.traits(outcome.dtype), outcome.fails, case.lengths())

    def is_explained(self, outcome: Outcome, outcomes: Sequence[Outcome]) -> bool:
        """Whether a mutant that is named elsewhere fails this test, too."""
        test = self._test(outcome)
        replies = (run_calls(mutant.function, test.calls) for mutant in self._named_mutants(outcomes))
        return any(test.case.verdict(test.calls, wrong, test.expected).status in FAILURES for wrong in replies)

    def _named_mutants(self, outcomes: Sequence[Outcome]) -> list[Mutant]:
        """The mutants that explain outcomes, the most frequent first: it explains most of the others."""
        counts = Counter(name for o in outcomes for names in o.diagnosis[:1] for name in names.split(" + "))
        mutants = self.check.diagnostician.mutants
        return [mutants[name] for name, _ in counts.most_common(MAX_MUTANTS) if name in mutants]

    def _uncompared(self, failing: Sequence[Outcome]) -> str:
        """How many failures were not compared with every mutant, and the options that compare one."""
        left = [o for o in failing if not o.diagnosis and _key(o) in self.check.diagnostician.uncompared]
        if not left:
            return ""
        count = "1 failure was" if len(left) == 1 else f"{len(left):,} failures were"
        options = shlex.join(("--case", left[0].case, "--dtype", left[0].dtype))
        return f"{count} not compared with all known mistakes, to save time; this compares one: {options}"

    # The smallest input

    def _reproductions(self, failing: Sequence[Outcome]) -> Iterator[Reproduction]:
        """Reproductions of the most frequent causes."""
        clear = [outcome for outcome in failing if not outcome.detail.endswith(MARGINAL)]
        for cause, _ in Counter(map(_cause, clear or failing)).most_common():
            alike = [o for o in failing if _cause(o) == cause]
            # cases that combine few features first, then short names
            outcomes = sorted(alike, key=lambda o: (o.dtype != "float32", o.case.count("+"), len(o.case)))
            reproductions = filter(None, map(self.reproduction, outcomes[:MAX_TRIES]))
            yield from [first] if (first := next(reproductions, None)) else []

    def _smallest(self, outcome: Outcome) -> Reproduction | None:
        declaration, contract = self.check.implementation.declaration, self.check.implementation.contract
        reproducing = contract.reproducer()
        imported = () if declaration.rewrites_calls else import_lines(declaration)
        if reproducing is None or not imported:
            return None
        failing = FailingTest(self.check, self._test(outcome), reproducing, outcome)
        try:
            for lines, gave_up in failing.reproductions(self.budget):
                return Reproduction(outcome.case, outcome.dtype, (*imported, *lines), gave_up)
        except PassesAfresh:
            self.reproduced.add(_cause(outcome))
            self.passes_afresh = self.passes_afresh or outcome.case
        return None

    def _test(self, outcome: Outcome) -> CaseTest:
        return self.check.test(self.check.cases[_key(outcome)], outcome.dtype)


@dataclass(frozen=True)
class FailingTest:
    """A failing test, whose calls are made smaller as long as they fail in the same way."""

    check: Check
    test: CaseTest
    reproducing: Reproducer
    outcome: Outcome

    def reproductions(self, budget: Budget) -> Iterator[tuple[Sequence[str], bool]]:
        """For each call that fails alone: lines that show it, and whether the budget was used up."""
        if isinstance(self.test.case, BadInputCase):  # the other calls have the same bad inputs
            yield from self._accepted(self.test.calls[0])
            return
        for call in self.test.calls:
            # alone it has a forward of its own, and each gradient is that of one role
            shared = () if call.gradient_of else call.same_tensor
            yield from self._smallest(replace(call, backward_of=None, same_tensor=shared), budget)

    def _smallest(self, call: Call, budget: Budget) -> Iterator[tuple[Sequence[str], bool]]:
        try:
            if not budget.spend(self._fails, call):
                return
        except OutOfBudget:
            return
        smallest, gave_up = shrunk(call, self._fails, self.reproducing.simplifications, budget)
        test = self._alone(smallest)
        replies = run_test(self.check.implementation, test)
        if not isinstance(replies, tuple) or self._depends_on_conventions(test):
            return
        if not self._fails_afresh(test):
            raise PassesAfresh
        if lines := self.reproducing.script(smallest, replies[0], test.expected[0], test.conventions):
            yield lines, gave_up

    def _accepted(self, call: Call) -> Iterator[tuple[Sequence[str], bool]]:
        """Lines that show that bad input is accepted."""
        plain = self.reproducing.blank(call)
        replies = run_test(self.check.implementation, replace(self.test, calls=(plain,)))
        if not isinstance(replies, tuple) or replies[0].output is None:
            return
        if lines := self.reproducing.script(plain, replies[0], None, self.test.conventions):
            yield lines, False

    def _alone(self, call: Call) -> CaseTest:
        implementation = self.check.implementation
        needs = implementation.contract.needs((call,))
        case = self.reproducing.case_of((call,))
        return CaseTest(case, self.test.dtype, (call,), needs, implementation.understood).prepared()

    def _fails(self, call: Call) -> tuple[bool, float]:
        """Whether a call fails with the same status, kind and diagnosis, and the seconds that its result took.

        A call that needs a feature which the failing test does not need, such as an empty row, may fail for it.
        """
        if self.check.implementation.contract.needs((call,)) - self.test.needs - self.reproducing.harmless:
            return False, 0.0
        test = self._alone(call)
        replies = run_test(self.check.implementation, test)
        if not isinstance(replies, tuple):  # its process has ended, and might again
            raise OutOfBudget
        outcome, _ = judge(self.check.implementation, test, replies)
        same = outcome.status == self.outcome.status and kind_of(outcome) == kind_of(self.outcome)
        if same and (names := self.outcome.diagnosis):
            wrong = WrongResult(test.case, test.calls, replies, test.expected)
            same = any(self.check.diagnostician.explains(name, wrong) for name in names)
        return same, sum(reply.seconds for reply in replies)

    def _fails_afresh(self, test: CaseTest) -> bool:
        """Whether a test also fails in a new process, as it does where its lines are pasted."""
        if (run := self.check.implementation.run_afresh) is None:
            return True
        implementation = replace(self.check.implementation, run=run, run_isolated=run, run_overlapped=None)
        outcome, _ = judge(implementation, test, run_test(implementation, test))
        return outcome.fails

    def _depends_on_conventions(self, test: CaseTest) -> bool:
        """Whether a declared convention changes the call, or the expected values in a way that lines cannot show."""
        implementation, (call,) = self.check.implementation, test.calls
        understood = implementation.understood
        choices = {point: choice for point, choice in understood.items() if point in self.reproducing.conventions}
        if not understood or implementation.contract.adapt(call, understood) != call:
            return bool(understood)
        return str(test.case.expected(test.calls, choices)[0].numbers) != str(test.expected[0].numbers)


def _in_later_call(outcome: Outcome) -> bool:
    """Whether the first wrong call is not the first of its test."""
    call = CALL.match(outcome.detail)
    return call is not None and call[1] != "1"


def _key(outcome: Outcome) -> tuple[str, str]:
    return outcome.case, outcome.dtype


def _pairs(outcomes: Sequence[Outcome]) -> str:
    """How pairs (output, weights) were judged; empty where none was returned."""
    judged = WEIGHTS_RIGHT, WEIGHTS_NOT_JUDGED
    if not any(outcome.status == Status.PASSED and outcome.detail in judged for outcome in outcomes):
        return ""
    return "it returns (output, weights): the first is judged as the output, the second as its weights"


def _each(expected: object) -> Sequence[Expected]:
    """The expected results of the calls of a test; empty for a case that compares calls in another way."""
    each = expected if isinstance(expected, tuple) else ()
    return each if all(isinstance(result, Expected) for result in each) else ()


def _cause(outcome: Outcome) -> Cause:
    return outcome.status, kind_of(outcome), outcome.diagnosis


def _which(count: int, failures: int, kind: str) -> str:
    """Which failures a sentence is about; empty if it is about all of them."""
    if count == failures:
        return ""
    how = HOW_THEY_FAIL.get(kind, f"raise {kind}")
    return f"{count:,} of {failures:,} failures {how} and equal no known mistake: "


def _is_named(outcome: Outcome) -> bool:
    """Whether a mutant or a convention explains it."""
    return bool(outcome.diagnosis) or names_convention(outcome.detail)


def kind_of(outcome: Outcome) -> str:
    """`numbers`, `infinite`, `a crash`, or the type of an error; empty for other failures, and for marginal errors."""
    if outcome.status == Status.CRASHED:
        return CRASH
    if outcome.status == Status.ERROR:
        return CALL.sub("", outcome.detail).partition(":")[0].partition(" ")[0]
    if outcome.error_ratio is None or outcome.detail.endswith(MARGINAL):
        return ""
    return "infinite" if outcome.error_ratio == math.inf and NOT_FINITE.search(outcome.detail) else "numbers"
