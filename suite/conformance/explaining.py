"""Explains a check that failed: where it does, and the smallest input that shows it. One that passes pays nothing."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from attnsuite.cases import Call, Case, Mutant
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.contract import Reproducer
from attnsuite.cases.returned_weights import WEIGHTS_NOT_JUDGED, WEIGHTS_RIGHT
from attnsuite.conformance.diagnosis.conventions import names_one
from attnsuite.conformance.diagnosis.separation import Asked, where
from attnsuite.conformance.diagnosis.shrinking import Budget, GaveUp, Shrinking
from attnsuite.conformance.diagnosis.threshold import MOST_RIGHT, threshold
from attnsuite.conformance.hinting import plain
from attnsuite.conformance.questions import Question
from attnsuite.conformance.runner import Check, answer, judge
from attnsuite.model import FAILURES, SILENT, Explanation, Outcome, Reproduction, Status
from attnsuite.worker import ask
from attnsuite.worker.sandbox import in_short

CAUSES = 2
"""Causes of which a reproduction is printed: each takes ten lines, and one repair may be what several need."""
MOST_LINES = 10
"""The lines of a reproduction: what is pasted without a second thought."""
TRIED = 4
"""Failing questions of one cause that are tried: of some no single call fails, as where calls are compared."""
NAMES = 8
"""Named mistakes that are held against a question without a name: each takes a millisecond."""
LOOKED_THROUGH = 400
"""Failing questions without a name that are looked through for one that a named mistake fails as well; of more, it is
not said where they fail, for it takes a millisecond each."""
Cause = tuple[Status, str, tuple[str, ...]]
"""The status, the kind of failure, and the known mistakes."""


@dataclass
class Explainer:
    """What a check's failures have in common, and how to see them with the smallest input."""

    check: Check
    budget: Budget = field(default_factory=Budget)
    told: set[Cause] = field(default_factory=set)
    """The causes that have a reproduction."""

    def explanation(self, outcomes: Sequence[Outcome]) -> Explanation:
        """Of all outcomes of the check."""
        adapted = tuple(filter(None, (self.check.subject.style, _pairs(outcomes))))
        failing = [outcome for outcome in outcomes if outcome.fails and self._key(outcome) in self._cases]
        walls = "" if self.check.subject.walls is None else in_short(self.check.subject.walls)
        if not failing:
            return Explanation(adapted, walls=walls)
        plainest = plain(self.check, outcomes)
        passes = any(each.status == Status.PASSED for each in plainest)
        where = tuple(self._where(outcomes)) if passes else ()  # else "only" would be about what else fails
        always = bool(plainest) and all(each.status == Status.RAISED for each in plainest)  # whatever its input
        shown = [each for each in failing if not (always and each.status == Status.RAISED)]
        reproductions, uncompared = tuple(self._reproductions(shown)), self._uncompared(failing)
        return Explanation(adapted, where, reproductions, walls=walls, uncompared=uncompared)

    def reproduction(self, outcome: Outcome) -> Reproduction | None:
        """The smallest input of an outcome that fails; None for causes that have one, and where there is none."""
        cause = _cause(outcome)
        if outcome.status in SILENT:  # no call alone could be seen to fail so
            return None
        if cause in self.told or len(self.told) >= CAUSES or self._key(outcome) not in self._cases:
            return None
        if (found := self._reproduced(outcome)) is not None:
            self.told.add(cause)
        return found

    # Where

    def _where(self, outcomes: Sequence[Outcome]) -> Iterator[str]:
        """A sentence for each kind of failure that no known mistake explains, with their number if there are others."""
        passed = [self._asked(outcome) for outcome in outcomes if outcome.status == Status.PASSED]
        unnamed = [o for o in outcomes if o.fails and not _is_named(o) and self._key(o) in self._cases]
        failures = sum(outcome.fails for outcome in outcomes)
        kinds = Counter((_kind(outcome), str(outcome.status)) for outcome in unnamed if _kind(outcome))
        for (kind, status), _ in kinds.most_common() if len(unnamed) <= LOOKED_THROUGH else ():
            alike = [o for o in unnamed if _kind(o) == kind and not self._explained(o, outcomes)]
            tests = [*passed, *map(self._asked, alike)]
            said = threshold(tests, status) or where(tests, status) or threshold(tests, status, MOST_RIGHT)
            if said:
                yield self.check.subject.contract.words(f"{_which(len(alike), failures, kind)}{said}")

    def _asked(self, outcome: Outcome) -> Asked:
        case = self._cases.get(self._key(outcome))
        if case is None:
            return Asked(outcome.case, {}, outcome.fails)
        return Asked(outcome.case, case.traits(outcome.dtype), outcome.fails, case.lengths())

    def _explained(self, outcome: Outcome, outcomes: Sequence[Outcome]) -> bool:
        """Whether a mistake that is named elsewhere fails this question, too."""
        question = self._question(outcome)
        for deviation in self._named(outcomes):
            verdict = question.case.verdict(question.calls, ask(deviation.function, question.calls), question.truth)
            if verdict.status in FAILURES:
                return True
        return False

    def _named(self, outcomes: Sequence[Outcome]) -> list[Mutant]:
        """The mistakes that have a name here, the commonest first: it explains most of the others' questions."""
        counts = Counter(name for o in outcomes for names in o.diagnosis[:1] for name in names.split(" + "))
        commonest = [name for name, _ in counts.most_common(NAMES)]
        return sorted(
            (each for each in self._deviations if each.name in commonest), key=lambda each: commonest.index(each.name)
        )

    def _uncompared(self, failing: Sequence[Outcome]) -> str:
        """How many failures have no name because there was no more work for it, and how one of them is to have one."""
        left = [o for o in failing if not o.diagnosis and self._key(o) in self.check.diagnostician.uncompared]
        if not left:
            return ""
        said = "1 failure was" if len(left) == 1 else f"{len(left):,} failures were"
        smallest = min(left, key=self._size)
        alone = shlex.join(("--case", smallest.case, "--dtype", smallest.dtype))
        return f"{said} not compared with all known mistakes, to save time; this compares one: {alone}"

    def _size(self, outcome: Outcome) -> tuple[bool, int]:
        """A key to sort by what comparing with all known mistakes takes; unknown sizes come last."""
        lengths = self._cases[self._key(outcome)].lengths()
        return not lengths, math.prod(lengths.values())

    # The smallest input

    def _reproductions(self, failing: Sequence[Outcome]) -> Iterator[Reproduction]:
        """Of the commonest causes, in the plainest questions that show them."""
        by_cause = Counter(map(_cause, failing))
        for cause, _ in by_cause.most_common():
            alike = sorted((o for o in failing if _cause(o) == cause), key=lambda o: o.dtype != "float32")
            found = (self.reproduction(outcome) for outcome in alike[:TRIED])
            yield from (each for each in (next(filter(None, found), None),) if each)

    def _reproduced(self, outcome: Outcome) -> Reproduction | None:
        if self._reproducing is None or not self.check.subject.imported:
            return None
        question = self._question(outcome)
        is_bad = isinstance(question.case, BadInputCase)
        kind = Accepted if is_bad else Shown
        for each in question.calls[:1] if is_bad else question.calls:  # the other calls have the same bad inputs
            call = replace(each, backward_of=None)  # alone it has a forward of its own
            found = kind(self.check, question, self._reproducing, outcome).smallest(call, self.budget)
            if found:
                lines, gave_up = found
                return Reproduction(
                    outcome.case, outcome.dtype, _in_few((*self.check.subject.imported, *lines)), gave_up
                )
        return None

    # What they are about

    def _question(self, outcome: Outcome) -> Question:
        case = self._cases[self._key(outcome)]
        return self.check.questions.question(case, outcome.dtype, self.check.subject.understood)

    @cached_property
    def _cases(self) -> dict[tuple[str, str], Case]:
        return {(case.name, dtype): case for case, dtype in self.check.asked}

    @cached_property
    def _reproducing(self) -> Reproducer | None:
        return self.check.subject.contract.reproducing()

    @cached_property
    def _deviations(self) -> Sequence[Mutant]:
        return [each.under(self.check.subject.understood) for each in self.check.subject.contract.mutants()]

    @staticmethod
    def _key(outcome: Outcome) -> tuple[str, str]:
        return outcome.case, outcome.dtype


@dataclass(frozen=True)
class Shown:
    """A failing call that is made smaller as long as it fails in the same way."""

    check: Check
    question: Question
    of: Reproducer
    outcome: Outcome

    def smallest(self, call: Call, budget: Budget) -> tuple[Sequence[str], bool] | None:
        """Its lines, and whether the budget was used up; None where the call alone does not fail so."""
        shrinking = Shrinking(call, self.fails, budget)
        try:
            if not budget.spend(self.fails, call):
                return None
        except GaveUp:
            return None
        smallest = shrinking.through(self.of.simpler)
        posed = self.posed(smallest)
        replies = answer(self.check.subject, posed)
        if not isinstance(replies, tuple) or self.means_otherwise(posed):
            return None
        lines = self.of.written(smallest, replies[0], posed.truth[0], posed.conventions)
        return (lines, shrinking.gave_up) if lines else None

    def posed(self, call: Call) -> Question:
        case, conventions = self.of.posed((call,)), self.check.subject.understood
        needs = self.check.subject.contract.needs((call,))
        return Question(case, self.question.dtype, (call,), needs, conventions).with_truth()

    def fails(self, call: Call) -> tuple[bool, float]:
        """Whether a call fails as the outcome does, and how long its answer took. GaveUp if the process ended."""
        posed = self.posed(call)
        replies = answer(self.check.subject, posed)
        if not isinstance(replies, tuple):
            raise GaveUp
        found = judge(self.check.subject, posed, replies)
        return self.alike(found), sum(reply.seconds for reply in replies)

    def alike(self, found: Outcome) -> bool:
        """Whether an outcome is like the one to be shown: the same status, error, and kind of wrong number."""
        return found.status == self.outcome.status and _kind(found) == _kind(self.outcome)

    def means_otherwise(self, posed: Question) -> bool:
        """Whether a declared convention changes the question, or what is due in a way that the lines cannot say."""
        subject = self.check.subject
        if not subject.understood:
            return False
        (call,) = posed.calls
        said = {point: chosen for point, chosen in subject.understood.items() if point in self.of.said}
        usual = posed.case.expected(posed.calls, said)[0].numbers
        return subject.contract.adapt(call, subject.understood) != call or str(usual) != str(posed.truth[0].numbers)


class Accepted(Shown):
    """Bad input that was accepted."""

    def smallest(self, call: Call, budget: Budget) -> tuple[Sequence[str], bool] | None:
        plain = self.of.blank(call)
        question = replace(self.question, calls=(plain,))
        replies = answer(self.check.subject, question)
        if not isinstance(replies, tuple) or replies[0].output is None:
            return None
        lines = self.of.written(plain, replies[0], None, question.conventions)
        return (lines, False) if lines else None


def _pairs(outcomes: Sequence[Outcome]) -> str:
    """What was made of the pairs that came back; empty where none did."""
    judged, alone = (
        [o for o in outcomes if o.status == Status.PASSED and o.detail == says]
        for says in (WEIGHTS_RIGHT, WEIGHTS_NOT_JUDGED)
    )
    if not judged and not alone:
        return ""
    return "it returns (output, weights): the first is taken as the output, and the second is judged beside it"


def _in_few(lines: Sequence[str]) -> tuple[str, ...]:
    """At most so many lines: the shortest neighbours are joined."""
    found = list(lines)
    while len(found) > MOST_LINES:
        place = min(range(len(found) - 1), key=lambda place: len(found[place]) + len(found[place + 1]))
        found[place : place + 2] = ["; ".join(found[place : place + 2])]
    return tuple(found)


def _cause(outcome: Outcome) -> Cause:
    return outcome.status, _kind(outcome), outcome.diagnosis


def _which(count: int, failures: int, kind: str) -> str:
    """Which failures a sentence is about; empty if it is about all of them."""
    if count == failures:
        return ""
    how = {"numbers": "are wrong in numbers", "infinite": "are not finite"}.get(kind, f"raise {kind}")
    return f"{count:,} of {failures:,} failures {how} and equal no known mistake: "


def _is_named(outcome: Outcome) -> bool:
    """Whether a known mistake, or a convention, explains it."""
    return bool(outcome.diagnosis) or names_one(outcome.detail)


def _kind(outcome: Outcome) -> str:
    """What is wrong: numbers, not a number, or an error by its type; empty for what is neither."""
    if outcome.status == Status.RAISED:
        return outcome.detail.partition(":")[0]
    if outcome.error_ratio is None:
        return ""
    return "infinite" if outcome.error_ratio == math.inf else "numbers"
