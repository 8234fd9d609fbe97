"""What helps the author of a function that answers none of the plain questions: how it is called, or should be."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from attnsuite.cases import Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.conformance.runner import Check
from attnsuite.model import Outcome, Status
from attnsuite.registry.signatures import OWN, SIGNATURES_OF, names, signature

FOR_GPU = "it raises in every plain test: is it for a GPU? --device cuda tests it there"
GPU = re.compile(r"cuda|triton|nvidia|rocm|\b[GX]PUs?\b|active driver", re.IGNORECASE)
"""What an error says where a function needs a GPU: `0 active drivers ([]). There should only be one.` is Triton's."""
NOT_INSTALLED = ("ModuleNotFoundError", "ImportError")
Opened = Callable[[str], Check | None]
"""Gets the same function ready to be asked in the signature of this name; None where it cannot be."""

SLOW = 1.0
"""Seconds per test, on average, above which a smaller selection of tests is worth a hint: the usual ones take
milliseconds."""
FIRST_FAMILIES = ("plain", "causal")
"""The families of cases to begin with, where a contract has them."""


def how_to_run_fewer(asked: Sequence[tuple[Case, str]], outcomes: Sequence[Outcome]) -> str:
    """`3.1 s per test on average; …: --case plain --case causal runs 26 tests`; empty where tests are fast or few."""
    seconds = [o.seconds for o in outcomes if o.seconds is not None and o.status != Status.HUNG]
    families = [name for name in FIRST_FAMILIES if any(case.family == name for case, _ in asked)]
    fewer = sum(case.family in families for case, _ in asked)
    if not seconds or sum(seconds) < SLOW * len(seconds) or not 0 < fewer < len(asked) / 2:
        return ""
    words = " ".join(f"--case {name}" for name in families)
    average = f"{sum(seconds) / len(seconds):.2g} s per test on average"
    return f"{average}; if each new shape is compiled, run fewer: {words} runs {fewer:,} of {len(asked):,} tests"


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
        subject, plainest = self.check.subject, plain(self.check, outcomes)
        if self.check.device == "cpu" and _wants_gpu(plainest):
            return FOR_GPU
        if subject.signature not in ("", OWN) or not plainest or not all(map(_unanswered, plainest)):
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

    @property
    def _plainest(self) -> tuple[Case, str]:
        contract = self.check.subject.contract
        case = next(case for case in contract.cases() if case.family == contract.core)
        return case, contract.core_dtypes[self.check.device]


def plain(check: Check, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of the plain tests that were run and not declined; of all valid input where no plain test was."""
    cases = {(case.name, dtype): case for case, dtype in check.asked if not isinstance(case, BadInputCase)}
    run = [each for each in outcomes if (each.case, each.dtype) in cases and each.status != Status.DECLINED]
    return [each for each in run if cases[each.case, each.dtype].family == check.subject.contract.core] or run


def _wants_gpu(plainest: Sequence[Outcome]) -> bool:
    """Whether each plain test raised, and an error speaks of a GPU."""
    raised = [each.detail for each in plainest if each.status == Status.RAISED]
    speaks = any(GPU.search(detail) and not detail.startswith(NOT_INSTALLED) for detail in raised)
    return speaks and len(raised) == len(plainest)


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
