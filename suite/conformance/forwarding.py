"""Which failures of a submission are a library's: those of a shipped implementation that gives the same results.

A submission forwards to an implementation if more than half of its results of plain tests are the same, bit for bit.
(Not all need be: a library may sum in another order for another memory layout.) A failure is then the library's if a
known bug records it for that implementation and version, and the failing result is the same, bit for bit, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

import torch
from msgspec import structs
from torch import Tensor

from attnsuite.cases import Case, Reply
from attnsuite.conformance.check import Check, run_test
from attnsuite.conformance.known import KnownBug
from attnsuite.conformance.request import CaseDtype
from attnsuite.model import SILENT, Borrowed, BorrowedFinding, Outcome
from attnsuite.worker import Timeout

MAX_PLAIN = 12
"""Plain tests whose results are compared: some milliseconds, and no chance that all are equal by accident."""


class _TimedOut(Exception):
    """The submission timed out: each further test might take the whole time limit."""


@dataclass
class Forwarding:
    """Compares a submission that fails with the shipped implementations that are known to fail so."""

    check: Check
    bugs: Sequence[KnownBug]
    """The known bugs that apply to the installed versions."""
    shipped: Sequence[str]
    """The full names of the shipped implementations of the contract."""
    opened: Callable[[str], Check | None]
    """Returns the check of a shipped implementation by full name; None where it cannot run."""
    versions: Mapping[str, str]
    _others: dict[str, tuple[Check, int] | None] = field(default_factory=dict)

    def borrowed(self, outcomes: Sequence[Outcome]) -> Borrowed | None:
        """The failures that are those of a shipped implementation; None where there are none."""
        failing = [outcome for outcome in outcomes if outcome.fails and (outcome.case, outcome.dtype) in self._cases]
        try:
            borrowed = [each for name in self.shipped if (each := self._borrowed_from(name, failing))]
        except _TimedOut:
            return None
        return max(borrowed, key=lambda each: len(each.questions), default=None)

    def _borrowed_from(self, name: str, failing: Sequence[Outcome]) -> Borrowed | None:
        """The failures that are known of one shipped implementation, to which the submission forwards."""
        pairs = [(outcome, self._bug(name, outcome)) for outcome in failing if outcome.status not in SILENT]
        recorded = [(outcome, bug) for outcome, bug in pairs if bug]
        other = self._forwards_to(name) if recorded else None
        if other is None:
            return None
        check, plain_alike = other
        same = [(outcome, bug) for outcome, bug in recorded if self._same(check, outcome.case, outcome.dtype)]
        if not same:
            return None
        libraries = dict.fromkeys(library for _, bug in same for library in bug.versions)
        bugs, counts = {bug.id: bug for _, bug in same}, Counter(bug.id for _, bug in same)
        return Borrowed(
            name,
            ", ".join(f"{library} {self.versions[library]}" for library in libraries),
            tuple(BorrowedFinding(id, bugs[id].says, bugs[id].upstream, count) for id, count in counts.most_common()),
            frozenset((outcome.case, outcome.dtype) for outcome, _ in same),
            len(failing),
            plain_alike,
            len(self._plain),
            str(self.check.implementation.contract.findings),
        )

    def _bug(self, name: str, outcome: Outcome) -> KnownBug | None:
        """The known bug that records a failure for a shipped implementation."""
        shipped = structs.replace(outcome, implementation=name)
        return next((bug for bug in self.bugs if bug.covers(shipped)), None)

    def _forwards_to(self, name: str) -> tuple[Check, int] | None:
        """The check of an implementation and the number of plain tests with equal results; None if they are too few."""
        if name not in self._others:
            other = self.opened(name)
            same = sum(self._same(other, case.name, dtype) for case, dtype in self._plain) if other else 0
            self._others[name] = (other, same) if other and 2 * same > len(self._plain) else None
        return self._others[name]

    def _same(self, other: Check, case: str, dtype: str) -> bool:
        """Whether both give the same result of a test."""
        test = self.check.test(self._cases[case, dtype], dtype)
        ours = run_test(self.check.implementation, test)
        if isinstance(ours, Timeout):
            raise _TimedOut
        theirs = run_test(other.implementation, test)
        if not (isinstance(ours, tuple) and isinstance(theirs, tuple)):
            return False
        return all(equal_replies(*pair) for pair in zip_longest(ours, theirs))

    @cached_property
    def _plain(self) -> Sequence[CaseDtype]:
        contract = self.check.implementation.contract
        dtype = contract.core_dtypes[self.check.implementation.device_kind]
        plain = [case for case in contract.cases() if case.family == contract.core and dtype in case.dtypes]
        return [(case, dtype) for case in plain[:MAX_PLAIN]]

    @cached_property
    def _cases(self) -> dict[tuple[str, str], Case]:
        return {(case.name, dtype): case for case, dtype in (*self._plain, *self.check.tests)}


def equal_replies(ours: Reply | None, theirs: Reply | None) -> bool:
    """Whether two replies to one call are the same, bit for bit."""
    if ours is None or theirs is None:
        return False
    words = [
        (reply.error, reply.unsupported, reply.kind, reply.device, sorted(reply.gradients)) for reply in (ours, theirs)
    ]
    gradients = [(ours.gradients[name], theirs.gradients.get(name)) for name in ours.gradients]
    return words[0] == words[1] and all(equal_tensors(*pair) for pair in ((ours.output, theirs.output), *gradients))


def equal_tensors(ours: Tensor | None, theirs: Tensor | None) -> bool:
    """Whether two tensors have the same numbers, NaN in the same places; None equals None alone."""
    if ours is None or theirs is None:
        return ours is theirs
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    same_nan = torch.equal(ours.isnan(), theirs.isnan())
    return same_nan and torch.equal(ours.nan_to_num(nan=0.0), theirs.nan_to_num(nan=0.0))
