"""An implementation ready to be tested, and the tests of a contract with their inputs and expected values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attnsuite.cases import Call, Case, Contract, Conventions, NoReply, Reply
from attnsuite.cases.tensors import seeded
from attnsuite.model import Outcome, Reason, Status
from attnsuite.registry import Declaration

Result = tuple[Reply, ...] | NoReply
"""The replies to the calls of a test, or why it has no reply."""
Run = Callable[[Sequence[Call]], Result]
"""Makes the calls of a test."""
Meanwhile = Callable[[], object]
"""Work for this process while another one computes a result."""


@dataclass(frozen=True)
class Implementation:
    """An implementation that can run, as its import declares it.

    `run` may run in this process, `run_isolated` never does.
    """

    declaration: Declaration
    contract: Contract
    run: Run
    run_isolated: Run
    run_overlapped: Callable[[Sequence[Call], Meanwhile], Result] | None = None
    """The same as `run` where that runs in another process, with work for this one until the result is there."""
    run_afresh: Run | None = None
    """The same in a new process, which has made no other calls; None for code that runs in this process."""
    device: str = "cpu"
    mechanisms: tuple[str, ...] | None = None
    """The mechanisms of its sandbox; None for trusted code."""
    lenient: bool = False
    """Whether it may accept bad input without failing."""

    @property
    def name(self) -> str:
        """Its full name."""
        return self.declaration.full_name

    @property
    def lacks(self) -> Mapping[str, str]:
        """Its declared gaps, with reasons."""
        return self.declaration.lacks

    def outcome(self, case: str, dtype: str, status: Status, detail: str = "", reason: Reason = Reason.NONE) -> Outcome:
        """An outcome of this implementation."""
        return Outcome(self.name, self.contract.name, case, dtype, self.device, status, detail, reason=reason)

    @property
    def device_kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @cached_property
    def understood(self) -> Conventions:
        """The declared conventions that the contract knows. Tests run under these."""
        return {
            point: choice for point, choice in self.declaration.conventions.items() if not self.misunderstood(point)
        }

    def misunderstood(self, point: str) -> str:
        """What is wrong with the declaration of a convention; or empty."""
        choice, known = self.declaration.conventions[point], self.contract.conventions
        if point not in known:
            return f"{point!r} is not a convention; there are: {', '.join(known)}"
        kinds = choice if isinstance(choice, Mapping) else {}
        if unknown := [kind for kind in kinds if kind not in self.contract.features]:
            return f"{point} cannot be declared for {unknown[0]!r}, which is not a feature"
        for value in kinds.values() if kinds else (choice,):
            if value not in known[point]:
                return f"{point} cannot be {value!r}; it can be: {', '.join(known[point])}"
        return ""


@dataclass(frozen=True)
class CaseTest:
    """A case in one dtype under one set of conventions: its calls, the features they need, and the expected values."""

    case: Case
    dtype: str
    calls: tuple[Call, ...]
    needs: frozenset[str]
    conventions: Conventions = field(default_factory=dict)

    @cached_property
    def expected(self) -> Any:
        """The expected values. They take longer than most results, so they are computed once and only where needed."""
        return self.case.expected(self.calls, self.conventions)

    def prepared(self) -> CaseTest:
        """The test, once its expected values are computed."""
        _ = self.expected
        return self


_NEEDS: dict[tuple[int, int, str, int], tuple[Case, Contract, frozenset[str]]] = {}
"""What a case of a contract needs, by both of them, dtype and seed: to draw all inputs for that alone takes seconds.
The case and the contract are stored, too, so that no others get their ids."""


def _needs(contract: Contract, case: Case, dtype: str, calls: tuple[Call, ...] = ()) -> frozenset[str]:
    """The features that a case needs, read off these calls, or off new ones."""
    key = (id(contract), id(case), dtype, seeded())
    if key not in _NEEDS:
        _NEEDS[key] = case, contract, contract.needs(calls or case.calls(dtype))
    return _NEEDS[key][-1]


class CaseTests:
    """Makes the tests of a contract, and stores them (`keep`) if several implementations will run the same ones."""

    def __init__(self, contract: Contract, keep: bool) -> None:
        self.contract, self.keep = contract, keep
        self._stored: dict[tuple[str, str, str], CaseTest] = {}

    def test(self, case: Case, dtype: str, conventions: Conventions) -> CaseTest:
        """The test of a case in a dtype under these conventions."""
        key = (case.name, dtype, repr(sorted(conventions.items())))
        if key in self._stored:
            return self._stored[key]
        calls = case.calls(dtype)
        test = CaseTest(case, dtype, calls, _needs(self.contract, case, dtype, calls), conventions)
        if self.keep:
            self._stored[key] = test
        return test

    def needs(self, case: Case, dtype: str) -> frozenset[str]:
        """The features that a test needs, without its expected values."""
        return _needs(self.contract, case, dtype)
