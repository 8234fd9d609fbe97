"""Implementations × cases → outcomes. Asking and judging are separate steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from msgspec.structs import replace

from attnsuite.cases import Calls, Case, Reply, list_tests
from attnsuite.conformance import findings
from attnsuite.conformance.diagnosis import Diagnosis, Diagnostician
from attnsuite.conformance.findings import Known
from attnsuite.conformance.patience import Patience
from attnsuite.conformance.questions import Answer, Meanwhile, Question, Questions, Subject
from attnsuite.conformance.settling import Settling
from attnsuite.model import EVERY_CASE, Outcome, Reason, Status
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.worker import Hung

OTHER_GAPS = "What no feature means, a call declines by raising NotImplementedError with the reason"
UNCHECKED = ("large",)
"""Declared gaps that are not rechecked. `large` says that something takes too long, and so would rechecking it."""
CORE_DECLINED = "declines the core, which nobody may"
"""How the detail of an outcome begins if an implementation declines the core of its contract."""
MARGINAL = "close to the tolerance, so no known mistake is named"
"""How the detail of an outcome ends whose errors are small and few."""
MISCALLED = re.compile(r"TypeError: [\w.<>]+\(\) (takes|missing|got an unexpected|got multiple)")
"""Python's own message about a call that does not fit the signature."""
UNEXPECTED = re.compile(r"TypeError: .*got an unexpected keyword argument '(\w+)'")
"""Python's message about a parameter that a function does not have. A builtin has no signature to read, so the message
is the only way to know."""


def answer(subject: Subject, question: Question, meanwhile: Meanwhile = lambda: None) -> Answer:
    """Ask the implementation, in a process of its own if the case demands it.

    `meanwhile` is done while another process answers, and before this one may.
    """
    calls = [subject.contract.adapt(call, subject.understood) for call in question.calls]
    if subject.ask_meanwhile:
        return subject.ask_meanwhile(calls, meanwhile)
    meanwhile()
    return (subject.ask_apart if question.case.in_worker else subject.ask)(calls)


def judge(subject: Subject, question: Question, given: Answer, diagnostician: Diagnostician | None = None) -> Outcome:
    """The outcome of an answer: declined, failed to come, or compared with the truth."""
    blank = subject.outcome(question.case.name, question.dtype, Status.WRONG)
    if not isinstance(given, tuple):
        seconds = given.seconds if isinstance(given, Hung) else None
        return replace(blank, status=given.status, detail=str(given), seconds=seconds)
    blank = replace(blank, seconds=sum(reply.seconds for reply in given))
    if said := next((reply.declined for reply in given if reply.declined), ""):
        return replace(blank, status=Status.DECLINED, detail=said, reason=Reason.AT_RUN_TIME)
    if untaken := _untaken_as_said(subject, question, given):
        return replace(blank, status=Status.DECLINED, detail=f"takes no {untaken}", reason=Reason.UNTAKEN)
    device = subject.device.split(":")[0]
    if strayed := next((reply.device for reply in given if reply.output is not None and reply.device != device), ""):
        return replace(blank, detail=f"the output is on {strayed}, should be on {device}")
    verdict = question.case.verdict(question.calls, given, question.truth)
    detail, diagnosis = verdict.detail, Diagnosis()
    if verdict.status == Status.RAISED and any(MISCALLED.match(reply.raised) for reply in given):
        detail = f"{detail}; it is called as {subject.contract.signature}"
    if verdict.status == Status.PASSED and diagnostician is not None:
        diagnostician.passed(question.case, question.dtype)
    if verdict.marginal:
        detail = f"{detail}; {MARGINAL}"
    elif verdict.output_wrong and diagnostician is not None:
        diagnosis = diagnostician.diagnose(question.case, question.calls, given, question.truth)
        if not diagnosis.compared:
            diagnostician.uncompared.add((question.case.name, question.dtype))
        if diagnosis.open:
            diagnostician.open[question.case.name, question.dtype] = diagnosis
    reason = Reason.LENIENT if verdict.accepted and subject.lenient else Reason.NONE
    found = replace(blank, status=verdict.status, detail=detail, error_ratio=verdict.error_ratio, reason=reason)
    return named(found, diagnosis)


def named(outcome: Outcome, diagnosis: Diagnosis) -> Outcome:
    """An outcome with the names of mistakes, which are said before all else."""
    detail = f"{diagnosis.says}; {outcome.detail}" if diagnosis.says else outcome.detail
    return replace(outcome, detail=detail, diagnosis=diagnosis.deviations)


def unnamed(outcome: Outcome, diagnosis: Diagnosis) -> Outcome:
    """The outcome without these names."""
    return replace(outcome, detail=outcome.detail.removeprefix(f"{diagnosis.says}; "), diagnosis=())


def _untaken_as_said(subject: Subject, question: Question, replies: Sequence[Reply]) -> str:
    """The parameter that a function without a readable signature says it does not have; empty if it takes all."""
    if subject.parameters is not None:
        return ""
    said = (UNEXPECTED.match(reply.raised) for reply in replies)
    asked = frozenset[str]().union(*(call.arguments for call in question.calls))
    return next((found[1] for found in said if found and found[1] in asked), "")


class Source(Protocol):
    """Who asks the questions of a check: this process, or several others."""

    def outcomes(self, places: Sequence[int]) -> Generator[Outcome]:
        """The outcomes of the questions at these places in `Check.asked`, in this order, each asked when it is due."""

    def drop(self) -> None:
        """Ask nothing more of what `outcomes`, which was closed, has left: there may be no answer."""

    def misdeclared(self) -> Iterable[Outcome]:
        """What `Check.misdeclared` finds."""


@dataclass
class Check:
    """One implementation on all its questions, with the rules that need more than one outcome."""

    subject: Subject
    questions: Questions
    asked: Sequence[tuple[Case, str]]
    known: Sequence[Known] = ()
    """Findings, or the gaps of an implementation that does not ship."""
    earlier: Sequence[Outcome] = ()
    """The outcomes of a run that was interrupted: their questions are not asked again."""
    whole: bool = True
    """Whether this is not one of several shards, which cannot tell of a gap that nothing can fail by it."""
    settles: bool = True
    """Whether outcomes wait for names that later answers settle: not where the first failure ends the check."""
    processes: int = 1
    """How many processes look for the name of a mistake."""
    time_limit: float = TIME_LIMIT
    """Seconds for an answer."""
    _gaps: dict[str, str | None] = field(default_factory=dict)
    """What was found of the declared gaps so far."""
    _unsettled: dict[tuple[str, str], Callable[[], Outcome | None]] = field(default_factory=dict)
    """What settles the names of failures that have several, or none yet, by case and dtype."""

    def run(self, source: Source | None = None) -> Iterator[Outcome]:
        """Yield an outcome for every question not in `earlier`, then those about the implementation as a whole.

        They come from `source`, which asks here, one after the other, unless other processes ask.
        """
        source, line = source or AskedHere(self), Settling(self._settled)
        outcomes: list[Outcome] = list(self.earlier)
        try:
            for outcome in self._answers(source, outcomes):
                yield from line.after(outcome)
        except KeyboardInterrupt:
            yield from line.rest()  # they were found
            raise
        yield from line.rest()
        yield from source.misdeclared()
        yield from self.outdated(outcomes)
        yield from self.idle(outcomes)

    def _answers(self, source: Source, outcomes: list[Outcome]) -> Iterator[Outcome]:
        """The outcomes of all questions, which are added to those before them."""
        left, apart = Patience(self.time_limit), Patience(self.time_limit)  # apart, where hanging is known

        def hear(outcome: Outcome) -> None:
            (apart if outcome.known and outcome.status == Status.HUNG else left).hear(outcome)

        def why_not(place: int) -> str:
            return left.ended or (apart.ended if apart.ended and self._not_asked(place, "").known else "")

        for outcome in outcomes:
            hear(outcome)
        found = source.outcomes([place for place in self.waiting if not why_not(place)])
        for number, place in enumerate(self.waiting, 1):
            if why := why_not(place):
                outcomes.append(self._not_asked(place, why))
            else:
                outcomes.append(next(found))
                before = apart.ended
                hear(outcomes[-1])
                if left.ended or apart.ended != before:
                    found.close()
                    source.drop()
                    found = source.outcomes([other for other in self.waiting[number:] if not why_not(other)])
            yield outcomes[-1]
        found.close()

    def _settled(self, outcome: Outcome) -> Outcome | None:
        """The outcome with the name that it has in the end; None as long as later ones may settle it."""
        settle = self._unsettled.get((outcome.case, outcome.dtype)) if self.settles else None
        return settle() if settle else outcome

    @cached_property
    def waiting(self) -> Sequence[int]:
        """The places in `asked` of the questions that have no outcome yet."""
        done, subject = {outcome.key for outcome in self.earlier}, self.subject
        return [
            place
            for place, (case, dtype) in enumerate(self.asked)
            if (subject.name, case.name, dtype, subject.device) not in done
        ]

    def outcome(self, case: Case, dtype: str, names: bool = True) -> Outcome:
        """Ask one question, unless the implementation declines it beforehand. A mistake gets its name with `names`."""
        return next(self.outcomes([(case, dtype)], lambda question: names))

    def outcomes(
        self, asked: Iterable[tuple[Case, str]], names: Callable[[Question], bool] = lambda question: True
    ) -> Generator[Outcome]:
        """Ask these questions, each when its outcome is due; while another process answers one, the next is made.

        A mistake gets its name where `names` says so of the question, once it is answered.
        """
        due = (self.question(*each) for each in asked)
        made: list[Question | None] = []
        question = next(due, None)
        while question:
            found = self.answered(question, lambda: made.append(next(due, None)))
            yield self.concluded(question, found, self.diagnostician if names(question) else None)
            question = made.pop() if made else next(due, None)

    def question(self, case: Case, dtype: str) -> Question:
        return self.questions.question(case, dtype, self.subject.understood)

    def answered(self, question: Question, meanwhile: Meanwhile = lambda: None) -> Answer | Outcome:
        """What the implementation answers, or the outcome of a question that it declines beforehand.

        The truth is found, and after it `meanwhile` done, before the answer is there; not for who declines.
        """
        return self._declined(question) or answer(self.subject, question, lambda: (question.with_truth(), meanwhile()))

    def concluded(self, question: Question, found: Answer | Outcome, by: Diagnostician | None = None) -> Outcome:
        """What an answer comes to. Mistakes get their names where there is somebody who knows them."""
        if isinstance(found, Outcome):
            outcome, allowed = found, self.device in self.subject.lacks or found.reason == Reason.UNDEFINED
        else:
            outcome = judge(self.subject, question, found, by)
            self._leave_open(question, outcome, by)
            allowed = self.device != "cpu" and outcome.detail.startswith(f"lacks {self.device}: ")
        if outcome.status == Status.DECLINED and self._is_core(question) and not allowed:
            detail = f"{CORE_DECLINED}: {outcome.detail}"
            outcome = replace(outcome, status=Status.WRONG, detail=detail, reason=Reason.CORE)
        return self._told(outcome, question.calls)

    def _told(self, outcome: Outcome, calls: Calls) -> Outcome:
        """An outcome in the words of whoever is asked, marked where it is known."""
        return findings.mark(self.subject.contract.worded(outcome, calls), self.known)

    def _leave_open(self, question: Question, outcome: Outcome, by: Diagnostician | None) -> None:
        """Note what settles the name of a failure, where later answers may."""
        key = question.case.name, question.dtype
        if by is None or key not in by.open:
            return
        diagnosis, calls = by.open[key], question.calls
        plain = unnamed(outcome, diagnosis)

        def settle() -> Outcome | None:
            found = by.settled(diagnosis)
            return None if found is None else self._told(named(plain, found), calls)

        self._unsettled[key] = settle

    def diagnosed(self, question: Question, found: Answer | Outcome) -> Outcome:
        """The same, with the names of mistakes. Questions come in the order in which they are asked."""
        return self.concluded(question, found, self.diagnostician)

    def misdeclared(self) -> Iterator[Outcome]:
        """Outcomes for declarations that the contract does not know, and for declared gaps that are not there."""
        contract = self.subject.contract
        for feature in self.subject.lacks:
            if feature not in contract.features:
                known = ", ".join(contract.features)
                says = f"{feature!r} is not a feature; there are: {known}. {OTHER_GAPS}"
                yield self._about(f"declared/{feature}", says)
            elif self.gap(feature) is None:
                claim = f"declares it lacks {feature}, yet passes every case that needs just that"
                yield self._about(f"declared/{feature}", f"{claim}; remove the declaration")
        for point in self.subject.conventions:
            if problem := self.subject.misunderstood(point):
                yield self._about(f"declared/{point}", problem)

    def outdated(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        """Outcomes for findings and gaps whose cases pass."""
        for each in self.known:
            if passing := findings.passing(each, outcomes):
                names = sorted({f"{outcome.case} ({outcome.dtype})" for outcome in passing})
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                yield self._about(each.about, each.closed(f"{', '.join(names[:3])}{more}"))

    def idle(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        """Outcomes for gaps of which nothing can fail."""
        known = self.known if self.whole else ()
        yield from (self._about(each.about, said) for each in known if (said := each.idle(outcomes)))

    @property
    def device(self) -> str:
        """The device's kind: cpu or cuda."""
        return self.subject.device.split(":")[0]

    def gap(self, feature: str) -> str | None:
        """The reason of a declared gap, or None if the implementation passes all cases that need nothing else.

        A gap is rechecked only if something asked needs it, but then on all cases of the contract: to pass some of them
        does not refute it.
        """
        if feature not in self._gaps:
            needed = feature == self.device or any(feature in self.questions.needs(*each) for each in self.asked)
            self._gaps[feature] = self._rechecked(feature) if needed else self._reason(feature)
        return self._gaps[feature]

    @cached_property
    def _everything(self) -> list[tuple[Case, str]]:
        """All questions of the contract: first those that are asked here, then the others."""
        asked = {(case.name, dtype) for case, dtype in self.asked}
        rest = list_tests(self.subject.contract.cases(), self.device)
        return [*self.asked, *((case, dtype) for case, dtype in rest if (case.name, dtype) not in asked)]

    @cached_property
    def diagnostician(self) -> Diagnostician:
        return Diagnostician(self.subject.contract, self.subject.understood, processes=self.processes)

    def _declined(self, question: Question) -> Outcome | None:
        """The outcome of a question that signature, declarations or conventions decline; None if it is to be asked."""

        def because(reason: Reason, detail: str) -> Outcome:
            return self.subject.outcome(question.case.name, question.dtype, Status.DECLINED, detail, reason)

        if missing := self._untaken(question):
            return because(Reason.UNTAKEN, f"takes no {' and no '.join(missing)}")
        for feature in self._lacking(question.needs):
            return because(Reason.LACKING, self.gap(feature) or self._reason(feature))
        undefined = self._unanswerable(question)
        return because(Reason.UNDEFINED, undefined) if undefined else None

    def _unanswerable(self, question: Question) -> str:
        return self.subject.contract.unanswerable(question.case, question.needs, self.subject.understood)

    def _untaken(self, question: Question) -> list[str]:
        """The parameters that the question needs and the signature does not have."""
        if self.subject.parameters is None:
            return []
        return sorted(frozenset[str]().union(*(call.arguments for call in question.calls)) - self.subject.parameters)

    def _lacking(self, needs: frozenset[str]) -> list[str]:
        return [feature for feature in self.subject.lacks if feature in needs | {self.device}]

    def _rechecked(self, feature: str) -> str | None:
        """None if the implementation passes every question that needs only this gap; else the reason of the gap."""
        refuted = False
        for case, dtype in self._everything if feature not in UNCHECKED and not self.subject.plugged else ():
            if self._lacking(self.questions.needs(case, dtype)) != [feature]:
                continue
            question = self.questions.question(case, dtype, self.subject.understood)
            if self._untaken(question) or self._unanswerable(question):
                continue
            outcome = judge(self.subject, question, answer(self.subject, question, question.with_truth))
            if outcome.reason == Reason.UNTAKEN:
                continue
            if outcome.status != Status.PASSED:
                says_more = outcome.status == Status.DECLINED and outcome.detail != self.subject.lacks[feature]
                words = f"; in its own words: {outcome.detail}" if says_more else ""
                return self._reason(feature) + words
            refuted = True
        return None if refuted else self._reason(feature)

    def _reason(self, feature: str) -> str:
        return f"lacks {feature}: {self.subject.lacks[feature]}"

    def _is_core(self, question: Question) -> bool:
        contract = self.subject.contract
        if self.subject.plugged or question.case.family != contract.core:
            return False
        if any(call.arguments & contract.optional for call in question.calls):
            return False  # a default, spelled out
        return question.needs - contract.core_needs == {contract.core_dtypes[self.device]}

    def _not_asked(self, place: int, why: str) -> Outcome:
        """The outcome of a question that is given up because those before it hung; where that is known, it is said."""
        (case, dtype), says = self.asked[place], f"hung: not asked, because {why}"
        return findings.mark(self.subject.outcome(case.name, dtype, Status.HUNG, says, Reason.NOT_ASKED), self.known)

    def _about(self, case: str, detail: str) -> Outcome:
        """An outcome about the implementation as a whole."""
        return self.subject.outcome(case, EVERY_CASE, Status.WRONG, detail)


@dataclass(frozen=True)
class AskedHere:
    """The `Source` of a check that asks in this process."""

    check: Check

    def outcomes(self, places: Sequence[int]) -> Generator[Outcome]:
        return self.check.outcomes(self.check.asked[place] for place in places)

    def drop(self) -> None:
        """Nothing is asked that is not waited for."""

    def misdeclared(self) -> Iterable[Outcome]:
        return self.check.misdeclared()
