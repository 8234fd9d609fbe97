"""Implementations × cases → outcomes. Asking and judging are separate steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from suite.asking import Call, Case, Contract, Conventions, Reply, Unanswered, questions
from suite.conformance import findings
from suite.conformance.diagnosis import Diagnosis, Diagnostician
from suite.conformance.findings import Finding
from suite.records import EVERY_CASE, Outcome, Reason, Status

Answer = tuple[Reply, ...] | Unanswered
"""The replies to the calls of a question, or the reason why there are none."""
Ask = Callable[[Sequence[Call]], Answer]
"""Makes the calls of a question."""

UNCHECKED = ("large",)
"""Declared gaps that are not rechecked. `large` says that something takes too long, and so would rechecking it."""
HUNG_IN_A_ROW = 4
"""The number of answers in a row that hang before the remaining questions are given up: each would take the whole time
limit, a minute."""
CORE_DECLINED = "declines the core, which nobody may"
"""How the detail of an outcome begins if an implementation declines the core of its contract."""
MISCALLED = re.compile(r"TypeError: [\w.<>]+\(\) (takes|missing|got an unexpected|got multiple)")
"""Python's own message about a call that does not fit the signature."""
UNEXPECTED = re.compile(r"TypeError: .*got an unexpected keyword argument '(\w+)'")
"""Python's message about a parameter that a function does not have. A builtin has no signature to read, so the message
is the only way to know."""


@dataclass(frozen=True)
class Subject:
    """An implementation as the runner sees it: something to ask, and what it declares.

    `ask` may answer in this process; `ask_apart` always answers in another one. `parameters` are the names its
    signature takes, None when it takes everything.
    """

    name: str
    contract: Contract
    ask: Ask
    ask_apart: Ask
    parameters: frozenset[str] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)
    device: str = "cpu"
    plugged: bool = False
    """Whether another implementation is plugged into it, whose gaps it shares."""
    imported: tuple[str, ...] = ()
    """Lines of Python that import it under the name of its contract; none where no other process can."""

    def outcome(self, case: str, dtype: str, status: Status, detail: str = "", reason: Reason = Reason.NONE) -> Outcome:
        """An outcome of this implementation."""
        return Outcome(self.name, self.contract.name, case, dtype, self.device, status, detail, reason=reason)

    @cached_property
    def understood(self) -> Conventions:
        """The declared conventions that the contract knows. Questions are asked under these."""
        return {point: chosen for point, chosen in self.conventions.items() if not self.misunderstood(point)}

    def misunderstood(self, point: str) -> str:
        """What is wrong with the declaration of a convention, or empty."""
        chosen, known = self.conventions[point], self.contract.conventions
        if point not in known:
            return f"{point!r} is not a convention; there are: {', '.join(known)}"
        kinds = chosen if isinstance(chosen, Mapping) else {}
        if unknown := [kind for kind in kinds if kind not in self.contract.features]:
            return f"{point} cannot be declared for {unknown[0]!r}, which is not a feature"
        for value in kinds.values() if kinds else (chosen,):
            if value not in known[point]:
                return f"{point} cannot be {value!r}; it can be: {', '.join(known[point])}"
        return ""


@dataclass(frozen=True)
class Question:
    """A case in one dtype under one set of conventions. Its truth is computed before any implementation is asked."""

    case: Case
    dtype: str
    calls: tuple[Call, ...]
    needs: frozenset[str]
    truth: Any


class Questions:
    """Makes the questions of a contract, and keeps them (`keep`) if several implementations will be asked the same."""

    def __init__(self, contract: Contract, keep: bool) -> None:
        self.contract, self.keep = contract, keep
        self._kept: dict[tuple[str, str, str], Question] = {}
        self._needs: dict[tuple[str, str], frozenset[str]] = {}

    def question(self, case: Case, dtype: str, conventions: Conventions) -> Question:
        key = (case.name, dtype, repr(sorted(conventions.items())))
        if key not in self._kept:
            calls = case.calls(dtype)
            needs = self._needs[case.name, dtype] = self.contract.needs(calls)
            question = Question(case, dtype, calls, needs, case.truth(calls, conventions))
            if not self.keep:
                return question
            self._kept[key] = question
        return self._kept[key]

    def needs(self, case: Case, dtype: str) -> frozenset[str]:
        """The features that a question needs, found without computing its truth."""
        if (case.name, dtype) not in self._needs:
            self._needs[case.name, dtype] = self.contract.needs(case.calls(dtype))
        return self._needs[case.name, dtype]


def answer(subject: Subject, question: Question) -> Answer:
    """Ask the implementation, in a process of its own if the case demands it."""
    calls = [subject.contract.adapt(call, subject.understood) for call in question.calls]
    return (subject.ask_apart if question.case.in_worker else subject.ask)(calls)


def judge(subject: Subject, question: Question, given: Answer, diagnostician: Diagnostician | None = None) -> Outcome:
    """The outcome of an answer: declined, failed to come, or compared with the truth."""
    blank = subject.outcome(question.case.name, question.dtype, Status.WRONG)
    if not isinstance(given, tuple):
        return replace(blank, status=given.status, detail=str(given))
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
    if verdict.output_wrong and diagnostician is not None:
        diagnosis = diagnostician.diagnose(question.case, question.calls, given, question.truth)
        detail = f"{diagnosis.says}; {detail}" if diagnosis.says else detail
    return replace(
        blank, status=verdict.status, detail=detail, error_ratio=verdict.error_ratio, diagnosis=diagnosis.deviations
    )


def _untaken_as_said(subject: Subject, question: Question, replies: Sequence[Reply]) -> str:
    """The parameter that a function without a readable signature says it does not have; empty if it takes all."""
    if subject.parameters is not None:
        return ""
    said = (UNEXPECTED.match(reply.raised) for reply in replies)
    asked = frozenset[str]().union(*(call.arguments for call in question.calls))
    return next((found[1] for found in said if found and found[1] in asked), "")


@dataclass
class Check:
    """One implementation on all its questions, with the rules that need more than one outcome."""

    subject: Subject
    questions: Questions
    asked: Sequence[tuple[Case, str]]
    findings: Sequence[Finding] = ()
    earlier: Sequence[Outcome] = ()
    """The outcomes of a run that was interrupted: their questions are not asked again."""

    def run(self) -> Iterator[Outcome]:
        """Yield an outcome for every question not in `earlier`, then those about the implementation as a whole."""
        done = {outcome.key for outcome in self.earlier}
        outcomes = list(self.earlier)
        for case, dtype in self.asked:
            if (self.subject.name, case.name, dtype, self.subject.device) in done:
                continue
            if [outcome.status for outcome in outcomes[-HUNG_IN_A_ROW:]] == [Status.HUNG] * HUNG_IN_A_ROW:
                outcomes.append(self._not_asked(case, dtype))
            else:
                outcomes.append(self.outcome(case, dtype))
            yield outcomes[-1]
        yield from self.misdeclared()
        yield from self.outdated_findings(outcomes)

    def outcome(self, case: Case, dtype: str) -> Outcome:
        """Ask one question, unless the implementation declines it beforehand."""
        question = self.questions.question(case, dtype, self.subject.understood)
        if declined := self._declined(question):
            outcome, allowed = declined, self.device in self.subject.lacks
        else:
            outcome, allowed = judge(self.subject, question, answer(self.subject, question), self._diagnostician), False
        if outcome.status == Status.DECLINED and self._is_core(question) and not allowed:
            detail = f"{CORE_DECLINED}: {outcome.detail}"
            outcome = replace(outcome, status=Status.WRONG, detail=detail, reason=Reason.CORE)
        return findings.mark(outcome, self.findings)

    def misdeclared(self) -> Iterator[Outcome]:
        """Outcomes for declarations that the contract does not know, and for declared gaps that are not there."""
        contract = self.subject.contract
        for feature in self.subject.lacks:
            if feature not in contract.features:
                known = ", ".join(contract.features)
                yield self._about(f"declared/{feature}", f"{feature!r} is not a feature; there are: {known}")
            elif self.gaps[feature] is None:
                claim = f"declares it lacks {feature}, yet passes every case that needs just that"
                yield self._about(f"declared/{feature}", f"{claim}; remove the declaration")
        for point in self.subject.conventions:
            if problem := self.subject.misunderstood(point):
                yield self._about(f"declared/{point}", problem)

    def outdated_findings(self, outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
        """Outcomes for findings whose cases pass."""
        for finding in self.findings:
            if passing := findings.passing(finding, outcomes):
                names = sorted({f"{outcome.case} ({outcome.dtype})" for outcome in passing})
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                complaint = f"the finding says these fail, but they pass: {', '.join(names[:3])}{more}"
                yield self._about(f"finding/{finding.id}", f"{complaint}; remove or narrow it")

    @property
    def device(self) -> str:
        """The device's kind: cpu or cuda."""
        return self.subject.device.split(":")[0]

    @cached_property
    def gaps(self) -> dict[str, str | None]:
        """The reason of each declared gap, or None if the implementation passes all cases that need nothing else.

        A gap is rechecked only if something asked needs it, but then on all cases of the contract: to pass some of them
        does not refute it.
        """
        needed = {self.device}.union(*(self.questions.needs(case, dtype) for case, dtype in self.asked))
        lacks = self.subject.lacks
        return {gap: self._rechecked(gap) if gap in needed else self._reason(gap) for gap in lacks}

    @cached_property
    def _everything(self) -> list[tuple[Case, str]]:
        """All questions of the contract: first those that are asked here, then the others."""
        asked = {(case.name, dtype) for case, dtype in self.asked}
        rest = questions(self.subject.contract.cases(), self.device)
        return [*self.asked, *((case, dtype) for case, dtype in rest if (case.name, dtype) not in asked)]

    @cached_property
    def _diagnostician(self) -> Diagnostician:
        return Diagnostician(self.subject.contract, self.subject.understood)

    def _declined(self, question: Question) -> Outcome | None:
        """The outcome of a question that signature, declarations or conventions decline; None if it is to be asked."""

        def because(reason: Reason, detail: str) -> Outcome:
            return self.subject.outcome(question.case.name, question.dtype, Status.DECLINED, detail, reason)

        if missing := self._untaken(question):
            return because(Reason.UNTAKEN, f"takes no {' and no '.join(missing)}")
        for feature in self._lacking(question.needs):
            return because(Reason.LACKING, self.gaps[feature] or self._reason(feature))
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
            outcome = judge(self.subject, question, answer(self.subject, question))
            if outcome.reason == Reason.UNTAKEN:
                continue
            if outcome.status != Status.PASSED:
                words = f"; in its own words: {outcome.detail}" if outcome.status == Status.DECLINED else ""
                return self._reason(feature) + words
            refuted = True
        return None if refuted else self._reason(feature)

    def _reason(self, feature: str) -> str:
        return f"lacks {feature}: {self.subject.lacks[feature]}"

    def _is_core(self, question: Question) -> bool:
        contract = self.subject.contract
        if self.subject.plugged or question.case.family != contract.core:
            return False
        return question.needs - contract.core_needs == {contract.core_dtypes[self.device]}

    def _not_asked(self, case: Case, dtype: str) -> Outcome:
        """The outcome of a question that is given up because those before it hung."""
        says = f"hung: not asked, because the {HUNG_IN_A_ROW} answers before it did not come"
        return self.subject.outcome(case.name, dtype, Status.HUNG, says, Reason.NOT_ASKED)

    def _about(self, case: str, detail: str) -> Outcome:
        """An outcome about the implementation as a whole."""
        return self.subject.outcome(case, EVERY_CASE, Status.WRONG, detail)
