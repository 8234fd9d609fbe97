"""What is asked of whom: implementations as the runner sees them, and questions beside their truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attnsuite.cases import Call, Case, Contract, Conventions, NoReply, Reply
from attnsuite.cases.tensors import seeded
from attnsuite.model import Outcome, Reason, Status

Answer = tuple[Reply, ...] | NoReply
"""The replies to the calls of a question, or the reason why there are none."""
Ask = Callable[[Sequence[Call]], Answer]
"""Makes the calls of a question."""
Meanwhile = Callable[[], object]
"""What is done here while another process answers."""


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
    ask_meanwhile: Callable[[Sequence[Call], Meanwhile], Answer] | None = None
    """The same as `ask` where that answers in another process, with something to do here until the answer comes."""
    parameters: frozenset[str] | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)
    device: str = "cpu"
    plugged: bool = False
    """Whether another implementation is plugged into it, whose gaps it shares."""
    imported: tuple[str, ...] = ()
    """Lines of Python that import it under the name of its contract; none where no other process can."""
    style: str = ""
    """What was made of a class or a module so that it can be called, in a line; empty for a function."""
    signature: str = ""
    """The signature of the field that it has; empty for the contract's own."""
    signed: str = ""
    """What it was taken for, in a line: its signature, and what to write where that was meant otherwise; or empty."""
    unasked: tuple[str, ...] = ()
    """Its parameters that no test gives."""
    files: Callable[[], list[str] | None] = lambda: None
    """The files that its answers depend on; None where that is not known."""
    walls: tuple[str, ...] | None = None
    """The names of the walls around it; None for what is trusted."""
    shipped: bool = False
    """Whether it comes with attnsuite."""
    lenient: bool = False
    """Whether it may accept bad input: no check of it fails for that."""

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
    """A case in one dtype under one set of conventions."""

    case: Case
    dtype: str
    calls: tuple[Call, ...]
    needs: frozenset[str]
    conventions: Conventions = field(default_factory=dict)

    @cached_property
    def truth(self) -> Any:
        """What is due. It takes longer than most answers, so it is computed once, and not for who declines."""
        return self.case.expected(self.calls, self.conventions)

    def with_truth(self) -> Question:
        """The question once its truth is known."""
        _ = self.truth
        return self


_NEEDED: dict[tuple[int, int, str, int], tuple[Case, Contract, frozenset[str]]] = {}
"""What a case of a contract needs, by both of them, dtype and seed. It is read off calls, whose numbers are drawn for
that alone: seconds for a contract of thousands of questions. Both are kept beside it, so that no others take their
place."""


def _needed(contract: Contract, case: Case, dtype: str, calls: tuple[Call, ...] = ()) -> frozenset[str]:
    """What these calls of the case need, which are made if there are none yet."""
    key = (id(contract), id(case), dtype, seeded())
    if key not in _NEEDED:
        _NEEDED[key] = case, contract, contract.needs(calls or case.calls(dtype))
    return _NEEDED[key][-1]


class Questions:
    """Makes the questions of a contract, and keeps them (`keep`) if several implementations will be asked the same."""

    def __init__(self, contract: Contract, keep: bool) -> None:
        self.contract, self.keep = contract, keep
        self._kept: dict[tuple[str, str, str], Question] = {}

    def question(self, case: Case, dtype: str, conventions: Conventions) -> Question:
        key = (case.name, dtype, repr(sorted(conventions.items())))
        if key not in self._kept:
            calls = case.calls(dtype)
            question = Question(case, dtype, calls, _needed(self.contract, case, dtype, calls), conventions)
            if not self.keep:
                return question
            self._kept[key] = question
        return self._kept[key]

    def needs(self, case: Case, dtype: str) -> frozenset[str]:
        """The features that a question needs, found without computing its truth."""
        return _needed(self.contract, case, dtype)
