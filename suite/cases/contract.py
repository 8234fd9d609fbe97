"""What a contract is: its words, its cases, its deviations, its strangers and its workloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite.cases.call import Call, Calls, Conventions
from attnsuite.cases.case import Case
from attnsuite.cases.workload import Workload
from attnsuite.model import SHAPE, Example, Outcome, UsageError

if TYPE_CHECKING:
    from attnsuite.cases.combined import Array
    from attnsuite.cases.reproduction import Reproducing


@dataclass(frozen=True)
class Deviation:
    """An implementation with exactly one named mistake."""

    name: str
    says: str
    """The mistake in words, as a diagnosis quotes it: "the scores are not divided by √e"."""
    function: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32",)
    """Where the audit asks it; more than one only for a mistake that depends on the dtype."""
    source: str = ""
    """Where it happened: a project's issue, an erratum, a paper."""
    others: tuple[Callable[..., Any], ...] = ()
    """The same mistake as others write it, where that gives other numbers. Only diagnosis asks them."""

    def under(self, conventions: Conventions) -> Deviation:
        """The same mistake of who has declared these conventions; itself where its computation knows none."""
        if not conventions:
            return self
        function, *others = (_under(conventions, each) for each in (self.function, *self.others))
        return replace(self, function=function, others=tuple(others))


def _under(conventions: Conventions, function: Callable[..., Any]) -> Callable[..., Any]:
    known = getattr(function, "under", None)
    found: Callable[..., Any] = known(conventions) if known else function
    return found


@dataclass(frozen=True)
class Stranger:
    """A correct implementation in a foreign style."""

    name: str
    says: str
    """The style in words."""
    function: Callable[..., Any]
    requires: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)


@dataclass(frozen=True)
class Contract:
    """A kind of implementation: its words, its cases and its deviations. Lists are made when asked for."""

    name: str
    features: Mapping[str, str]
    """What a case may need, and each in words."""
    parameter_features: Mapping[str, tuple[str, ...]]
    """The features that a function declines by not taking a parameter."""
    cases: Callable[[], Sequence[Case]]
    deviations: Callable[[], Sequence[Deviation]]
    controls: Callable[[], Mapping[str, Callable[..., Any]]]
    """The deviations' own computations without any mistake, by name: they must pass everything."""
    needs: Callable[[Calls], frozenset[str]]
    """The features that these calls need, read off the calls themselves."""
    array: Callable[[], Array] | None = None
    """The cases that combine what the contract has, where it has such; `cases` has them in the profile `quick`."""
    core: str = "plain"
    """The family that asks the core: no implementation may decline those of its cases that need no feature."""
    strict_core: bool = False
    """Whether the core, too, has to catch a mistake that no other family catches."""
    core_dtypes: Mapping[str, str] = field(default_factory=lambda: {"cpu": "float32", "cuda": "float32"})
    """The dtype of the core by kind of device."""
    core_needs: frozenset[str] = frozenset()
    """Features that the core needs besides."""
    also_called: Mapping[str, str] = field(default_factory=dict)
    """Words of the field, each with the family of cases that asks it: what a user may type in place of that."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where libraries honestly differ, and what may be declared there; the first is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same question in the words of a declared convention."""
    unanswerable: Callable[[Any, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a case or a workload has no defined answer under these conventions, or empty."""
    findings: Path | None = None
    """The file of what shipping libraries really get wrong, where there is one."""
    strangers: Callable[[], Sequence[Stranger]] = tuple
    """Correct implementations in foreign styles, which must never be accused."""
    workloads: Callable[[], Sequence[Workload]] = tuple
    """What is timed."""
    shaped: Callable[[str], Workload] | None = None
    """The workload that a user types; UsageError for what it cannot be. None where a contract has no such thing."""
    baseline: str = "matmul"
    """The implementation that others are compared with when they are timed."""
    is_model: bool = False
    """Whether an implementation is a factory, `factory(config, weights)`, of what is called."""
    examples: Callable[[], Sequence[Example]] = tuple
    """The documents' examples among the cases, printed beside what the oracle computes."""
    reproducing: Callable[[], Reproducing | None] = lambda: None
    """How the smallest failing input is found and written, where the contract can say it."""
    words: Callable[[str], str] = lambda text: text
    """A sentence in the words of whoever is asked, where these are not the contract's."""
    worded: Callable[[Outcome, Calls], Outcome] = lambda outcome, calls: outcome
    """The same of an outcome of these calls."""
    page: str = ""
    """What the contract says of itself: under its first line, how it is called."""

    def workload(self, name: str) -> Workload:
        """The workload of this name, of those that there are or of a shape. UsageError where none has it."""
        if name.startswith(SHAPE):
            return self.of_shape(name.removeprefix(SHAPE))
        for each in self.workloads():
            if each.name == name:
                return each
        raise UsageError(f"there is no workload {name!r} of {self.name}")

    def of_shape(self, text: str) -> Workload:
        """The workload that a user types. UsageError where the contract has no shapes, and for what is none."""
        if self.shaped is None:
            raise UsageError(f"--shape {text!r}: {self.name} has no shapes of one's own to time; attention has")
        return self.shaped(text)

    @property
    def signature(self) -> str:
        """How it is called, as its module says under the first line."""
        return " ".join(self.page.split("\n\n")[1].split())

    @property
    def optional(self) -> frozenset[str]:
        """The parameters that have a default: who does without one of them does without nothing of the core."""
        return frozenset(re.findall(r"(\w+)=", self.signature))
