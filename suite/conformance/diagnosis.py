"""Names the mistake behind a wrong answer: the deviation that gives the same answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from suite.asking import Call, Case, Contract, Conventions, Deviation, Reply
from suite.records import Status
from suite.worker import ask

EXAMINED = 12
"""The number of wrong answers that are compared with every deviation. Later ones are compared only with deviations that
matched before: an implementation seldom makes many mistakes, and comparing all takes seconds."""
CLEARLY_WRONG = 10.0
"""The error in bounds that a deviation's own answer must have on the case. Of a deviation that is nearly right there,
agreement proves little."""
MOST_NAMED = 2
"""The mistakes that are named where several explain as many answers: a reader can look at two."""
SECONDS = 30.0
"""Seconds of CPU time for the diagnosis of one implementation: someone waits for it. It is CPU time, so that a loaded
machine diagnoses as much as an idle one."""


@dataclass(frozen=True)
class Diagnosis:
    """The deviations that give the same wrong answer, the likeliest first, by name and in words. Both may be empty."""

    deviations: tuple[str, ...] = ()
    says: str = ""


class Diagnostician:
    """Diagnoses the wrong answers of one implementation, preferring the mistake that explains most of them.

    `budget` is in seconds of CPU time; when it is used up, wrong answers get no diagnosis.
    """

    def __init__(self, contract: Contract, conventions: Conventions, budget: float = SECONDS) -> None:
        self.contract, self.conventions, self.budget = contract, conventions, budget
        self.matches: Counter[str] = Counter()
        self.examined = 0
        self.seconds = 0.0
        self._deviations: list[Deviation] | None = None

    def diagnose(self, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Diagnosis:
        """The mistake that a wrong answer shows: `equals "unscaled": the scores are not divided by √e`.

        There is no diagnosis if the bounds of the case are so loose that many mistakes would agree.
        """
        if not case.counts(truth):
            return Diagnosis()
        if self.conventions and self._by_the_contract(case, calls, replies, truth):
            declared = ", ".join(f"{point} is {chosen}" for point, chosen in self.conventions.items())
            return Diagnosis((), f"answers by the contract's own rule, not by the convention declared ({declared})")
        if self._deviations is None:
            self._deviations = list(self.contract.deviations())
        everyone = self.examined < EXAMINED
        candidates = [d for d in self._deviations if everyone or d.name in self.matches]
        found = [d for d in self._in_time(candidates) if self._reproduces(d, case, calls, replies, truth)]
        self.examined += 1
        self.matches.update(deviation.name for deviation in found)
        if not found:
            return Diagnosis()
        most = max(self.matches[deviation.name] for deviation in found)
        likeliest = [deviation for deviation in found if self.matches[deviation.name] == most]
        if len(likeliest) > MOST_NAMED and not _has_numbers(replies):
            return Diagnosis()  # NaN everywhere is what many mistakes end in
        likeliest = likeliest[:MOST_NAMED]
        says = " or ".join(f'equals "{deviation.name}": {deviation.says}' for deviation in likeliest)
        return Diagnosis(tuple(deviation.name for deviation in likeliest), says)

    def _by_the_contract(self, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> bool:
        """Whether a computation without any mistake gives this answer: then only the declared convention is wrong."""
        for control in self.contract.controls().values():
            theirs = ask(control, calls)
            if all(reply.output is not None for reply in theirs) and case.alike(calls, replies, theirs, truth):
                return True
        return False

    def _in_time(self, candidates: Iterable[Deviation]) -> Iterator[Deviation]:
        """The candidates, until the work done with them has used up the budget."""
        for candidate in candidates:
            if self.seconds >= self.budget:
                return
            started = time.process_time()
            yield candidate
            self.seconds += time.process_time() - started

    def _reproduces(
        self, deviation: Deviation, case: Case, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any
    ) -> bool:
        theirs = ask(deviation.function, calls)
        if any(reply.output is None for reply in theirs):
            return False
        verdict = case.verdict(calls, theirs, truth)
        clear = verdict.error_ratio is None or verdict.error_ratio >= CLEARLY_WRONG
        return verdict.status != Status.PASSED and clear and case.alike(calls, replies, theirs, truth)


def _has_numbers(replies: tuple[Reply, ...]) -> bool:
    """Whether any number of the outputs is finite."""
    return any(bool(reply.output.isfinite().any()) for reply in replies if reply.output is not None)
