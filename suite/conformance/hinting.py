"""What helps the author of a function that answers none of the plain questions: how it is called, or should be."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from attnsuite.asking import Case
from attnsuite.asking.refused import Refused
from attnsuite.conformance.runner import Check
from attnsuite.records import Outcome, Status
from attnsuite.signatures import SIGNATURES_OF, names, signature

Opened = Callable[[str], Check | None]
"""Gets the same function ready to be asked in the signature of this name; None where it cannot be."""


@dataclass(frozen=True)
class Hinting:
    """Asks a function that answers no plain question one of them in each signature whose arrays are not PyTorch's.
    Where it answers none of these either, how the contract calls it is what helps.
    """

    check: Check
    opened: Opened

    def hint(self, outcomes: Sequence[Outcome]) -> str:
        """`… given arrays of numpy it answers plain/small rightly: ask it with --signature numpy`, or how it is called;
        empty where it answers a plain question.
        """
        subject = self.check.subject
        if subject.signature or not self._answers_nothing(outcomes):
            return ""
        other = self._in_other_arrays() if subject.contract.name == SIGNATURES_OF else ""
        return other or self._how_it_is_called()

    def _in_other_arrays(self) -> str:
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

    def _how_it_is_called(self) -> str:
        """The signature, and what the plainest question gives; empty of a model, whose author writes a factory."""
        contract, (case, dtype) = self.check.subject.contract, self._plainest
        if contract.is_model:
            return ""
        call = case.calls(dtype)[0]
        given = [f"{name} {_word(tensor)}" for name, tensor in call.tensors.items()]
        given += [f"{name} {value!r}" for name, value in call.options.items()]
        called = contract.signature.partition(" -> ")[0]
        return f"no plain question is answered; {case.name} calls {called} with {', '.join(given)}"

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


def _word(tensor: Tensor) -> str:
    """`int64 (9,)`."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _unanswered(outcome: Outcome) -> bool:
    gave_none = outcome.status == Status.WRONG and outcome.error_ratio is None
    return outcome.status == Status.RAISED or gave_none


def _others() -> Iterator[tuple[str, str]]:
    """The signatures whose arrays are of another library that is installed, and that library."""
    for name in sorted(names(), key=lambda name: name != "numpy"):  # the commonest first
        library = signature(name).arrays.name
        if library != "torch" and importlib.util.find_spec(library) is not None:
            yield name, library
