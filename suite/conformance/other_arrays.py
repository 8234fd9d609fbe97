"""Whether a function that answers none of the plain questions was written for arrays of another library."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from suite.asking import Case
from suite.asking.refused import Refused
from suite.conformance.runner import Check
from suite.records import Outcome, Status
from suite.signatures import SIGNATURES_OF, names, signature

Opened = Callable[[str], Check | None]
"""Gets the same function ready to be asked in the signature of this name; None where it cannot be."""


@dataclass(frozen=True)
class OtherArrays:
    """Asks a function one plain question in each signature whose arrays are not PyTorch's, where it answers none."""

    check: Check
    opened: Opened

    def hint(self, outcomes: Sequence[Outcome]) -> str:
        """`… given arrays of numpy it answers plain/small rightly: ask it with --signature numpy`; or empty."""
        subject = self.check.subject
        if subject.contract.name != SIGNATURES_OF or subject.signature or not self._answers_nothing(outcomes):
            return ""
        case, dtype = self._plainest
        for name, arrays in _others():
            other = self.opened(name)
            found = other.outcome(case, dtype, names=False) if other else None
            if found is not None and (found.status == Status.PASSED or found.error_ratio is not None):
                how = "rightly" if found.status == Status.PASSED else "with numbers, if not rightly"
                return (
                    f"no plain question is answered with tensors of PyTorch; given arrays of {arrays} it answers "
                    f"{case.name} {how}: ask it with --signature {name}"
                )
        return ""

    def _answers_nothing(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether of the plainest questions that were asked and not declined each one raised, or gave no tensor."""
        cases = {(case.name, dtype): case for case, dtype in self.check.asked if not isinstance(case, Refused)}
        asked = [o for o in outcomes if (o.case, o.dtype) in cases and o.status != Status.DECLINED]
        core = [o for o in asked if cases[o.case, o.dtype].family == self.check.subject.contract.core]
        plain = core or asked
        return bool(plain) and all(_unanswered(outcome) for outcome in plain)

    @property
    def _plainest(self) -> tuple[Case, str]:
        contract = self.check.subject.contract
        case = next(case for case in contract.cases() if case.family == contract.core)
        return case, contract.core_dtypes[self.check.device]


def _unanswered(outcome: Outcome) -> bool:
    gave_none = outcome.status == Status.WRONG and outcome.error_ratio is None
    return outcome.status == Status.RAISED or gave_none


def _others() -> Iterator[tuple[str, str]]:
    """The signatures whose arrays are of another library that is installed, and that library."""
    for name in sorted(names(), key=lambda name: name != "numpy"):  # the commonest first
        library = signature(name).arrays.name
        if library != "torch" and importlib.util.find_spec(library) is not None:
            yield name, library
