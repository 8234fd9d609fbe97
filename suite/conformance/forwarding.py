"""Which failures of a submission are a library's: found where an implementation that ships gives the same answers.

A submission forwards to an implementation if more than half of its answers to the plain questions of the contract are
the same, bit for bit. (Not all need be: a library may sum in another order where tensors are laid out otherwise.) A
failure is then the library's if a finding records it of that implementation at the installed version, and the failing
answer is the same, bit for bit: the same numbers, NaN in the same places, the same error in the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

import torch
from msgspec.structs import replace
from torch import Tensor

from attnsuite.cases import Case, Reply
from attnsuite.conformance.findings import Finding
from attnsuite.conformance.runner import Check, answer
from attnsuite.model import SILENT, Borrowed, BorrowedFinding, Outcome
from attnsuite.worker import Hung

MOST_ASKED = 12
"""Plain questions of which answers are compared: some milliseconds, and no chance that all are alike by accident."""
Opened = Callable[[str], Check | None]
"""Gets an implementation that ships ready to be asked, by full name; None where it cannot be."""


class _Hangs(Exception):
    """The submission does not answer: each further question might take the whole time limit."""


@dataclass
class Forwarding:
    """Compares a submission that fails with the implementations that are recorded to fail so."""

    check: Check
    findings: Sequence[Finding]
    """Those that apply to the installed versions."""
    shipped: Sequence[str]
    """The full names of the implementations of the contract that ship."""
    opened: Opened
    versions: Mapping[str, str]
    _others: dict[str, tuple[Check, tuple[int, int]] | None] = field(default_factory=dict)
    """By name what `_forwards` found; kept, for a test run asks failure by failure."""

    def borrowed(self, outcomes: Sequence[Outcome]) -> Borrowed | None:
        """The failures that are those of an implementation that ships; None where there are none."""
        failing = [outcome for outcome in outcomes if outcome.fails and (outcome.case, outcome.dtype) in self._cases]
        answered = [outcome for outcome in failing if outcome.status not in SILENT]
        try:
            found = [each for name, pairs in self._recorded(answered) if (each := self._alike(name, pairs, failing))]
        except _Hangs:
            return None
        return max(found, key=lambda each: len(each.questions), default=None)

    def _recorded(self, failing: Sequence[Outcome]) -> Iterator[tuple[str, list[tuple[Outcome, Finding]]]]:
        """By the implementation that ships, the failures that findings record of it, beside the finding."""
        for name in self.shipped:
            pairs = ((outcome, _recording(self.findings, replace(outcome, implementation=name))) for outcome in failing)
            if recorded := [(outcome, finding) for outcome, finding in pairs if finding]:
                yield name, recorded

    def _alike(
        self, name: str, recorded: Sequence[tuple[Outcome, Finding]], failing: Sequence[Outcome]
    ) -> Borrowed | None:
        if name not in self._others:
            self._others[name] = self._forwards(name)
        found = self._others[name]
        if found is None:
            return None
        other, plain = found
        alike = [(outcome, finding) for outcome, finding in recorded if self._same(other, outcome.case, outcome.dtype)]
        if not alike:
            return None
        libraries = dict.fromkeys(library for _, finding in alike for library in finding.versions)
        return Borrowed(
            name,
            ", ".join(f"{library} {self.versions[library]}" for library in libraries),
            _counted([finding for _, finding in alike]),
            frozenset((outcome.case, outcome.dtype) for outcome, _ in alike),
            len(failing),
            *plain,
            str(self.check.subject.contract.findings),
        )

    def _forwards(self, name: str) -> tuple[Check, tuple[int, int]] | None:
        """An implementation to which the submission forwards, with the number of plain questions to which both give the
        same answer, and of all that were asked; None if it does not forward to it.
        """
        other = self.opened(name)
        if other is None:
            return None
        same = [self._same(other, case.name, dtype) for case, dtype in self._plain]
        return (other, (sum(same), len(same))) if 2 * sum(same) > len(same) else None

    def _same(self, other: Check, case: str, dtype: str) -> bool:
        """Whether both answer a question alike."""
        question = self.check.question(self._cases[case, dtype], dtype)
        ours = answer(self.check.subject, question)
        if isinstance(ours, Hung):
            raise _Hangs
        theirs = answer(other.subject, question)
        return isinstance(ours, tuple) and isinstance(theirs, tuple) and all(map(alike, *_evened(ours, theirs)))

    @cached_property
    def _plain(self) -> Sequence[tuple[Case, str]]:
        contract = self.check.subject.contract
        dtype = contract.core_dtypes[self.check.device]
        plain = [case for case in contract.cases() if case.family == contract.core and dtype in case.dtypes]
        return [(case, dtype) for case in plain[:MOST_ASKED]]

    @cached_property
    def _cases(self) -> dict[tuple[str, str], Case]:
        return {(case.name, dtype): case for case, dtype in (*self._plain, *self.check.asked)}


def alike(one: Reply | None, other: Reply | None) -> bool:
    """Whether two replies to one call are the same, bit for bit."""
    if one is None or other is None:
        return False
    said = [(each.raised, each.declined, each.kind, each.device, sorted(each.gradients)) for each in (one, other)]
    gradients = [(one.gradients[name], other.gradients.get(name)) for name in one.gradients]
    return said[0] == said[1] and all(equal(*pair) for pair in ((one.output, other.output), *gradients))


def equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors have the same numbers, NaN in the same places; None is like None alone."""
    if one is None or other is None:
        return one is other
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    nowhere = one.isnan()
    same = torch.equal(nowhere, other.isnan()) and torch.equal(one.nan_to_num(nan=0.0), other.nan_to_num(nan=0.0))
    return bool(same)


def _counted(findings: Sequence[Finding]) -> tuple[BorrowedFinding, ...]:
    """Each finding once, the commonest first."""
    known, counts = {each.id: each for each in findings}, Counter(each.id for each in findings)
    return tuple(BorrowedFinding(name, known[name].says, known[name].upstream, n) for name, n in counts.most_common())


def _evened(ours: Sequence[Reply], theirs: Sequence[Reply]) -> tuple[list[Reply | None], list[Reply | None]]:
    pairs = list(zip_longest(ours, theirs))
    return [one for one, _ in pairs], [other for _, other in pairs]


def _recording(findings: Sequence[Finding], outcome: Outcome) -> Finding | None:
    return next((finding for finding in findings if finding.covers(outcome)), None)
