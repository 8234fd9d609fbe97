"""What a contract is: its words, its cases, its deviations, its strangers and its workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from suite.asking.call import Call, Calls, Conventions
from suite.asking.case import Case
from suite.asking.workload import Workload
from suite.records import DTYPES, Example


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
    core: str = "plain"
    """The family that asks the core: no implementation may decline those of its cases that need no feature."""
    strict_core: bool = False
    """Whether the core, too, has to catch a mistake that no other family catches."""
    core_dtypes: Mapping[str, str] = field(default_factory=lambda: {"cpu": "float32", "cuda": "float32"})
    """The dtype of the core by kind of device."""
    core_needs: frozenset[str] = frozenset()
    """Features that the core needs besides."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where libraries honestly differ, and what may be declared there; the first is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same question in the words of a declared convention."""
    unanswerable: Callable[[Case, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a question has no defined answer under these conventions, or empty."""
    findings: Path | None = None
    """The file of what shipping libraries really get wrong, where there is one."""
    strangers: Callable[[], Sequence[Stranger]] = tuple
    """Correct implementations in foreign styles, which must never be accused."""
    workloads: Callable[[], Sequence[Workload]] = tuple
    """What is timed."""
    baseline: str = "matmul"
    """The implementation that others are compared with when they are timed."""
    is_model: bool = False
    """Whether an implementation is a factory, `factory(config, weights)`, of what is called."""
    examples: Callable[[], Sequence[Example]] = tuple
    """The documents' examples among the cases, printed beside what the oracle computes."""
    page: str = ""
    """What the contract says of itself: under its first line, how it is called."""

    @property
    def signature(self) -> str:
        """How it is called, as its module says under the first line."""
        return " ".join(self.page.split("\n\n")[1].split())


EVERYWHERE = {**{dtype: dtype for dtype in DTYPES}, "cpu": "the CPU", "cuda": "CUDA devices"}
"""The features of every contract."""
Needs = Callable[[Calls], frozenset[str]]
Test = Callable[[Call], bool]


def declare(
    package: str,
    features: Mapping[str, str],
    parameters: Mapping[str, tuple[str, ...]] | None = None,
    *,
    by_value: Sequence[str] = (),
    also: Mapping[str, Test] | None = None,
    everywhere: Mapping[str, str] = EVERYWHERE,
    lists: Mapping[str, str] | None = None,
    **others: Any,
) -> Contract:
    """The contract that a package keeps, named as the package is, whose rooms bear the usual names.

    `features` are those beside `everywhere`; `parameters` says which of them a function declines by not taking a
    parameter. A call needs the features of the arguments that it has; of those `by_value` just the one that is named as
    their value is. `also` are tests of a call by the feature that it needs. `lists` are rooms beside the usual ones,
    and `others` are fields of Contract.
    """
    parameters = parameters or {}
    fields: dict[str, Any] = {
        "name": package.rpartition(".")[2],
        "features": {**features, **everywhere},
        "parameter_features": parameters,
        "needs": needed_by(parameters, by_value, also or {}),
        **rooms(package, strangers="strangers.strangers", **(lists or {})),
    }
    return Contract(**(fields | others))


def rooms(package: str, **others: str) -> dict[str, Any]:
    """The lists of a contract, by its field. A room is imported when its list is asked for.

    Cases are made by the function `cases` of the room `cases`, deviations and controls are collected from the room
    `deviations`; `others` says what makes further lists, `workloads="workloads.workloads"`. Examples are those of the
    cases that have one.
    """

    def made(path: str) -> Callable[[], Any]:
        room, function = path.rsplit(".", 1)
        return lambda: getattr(import_module(f"{package}.{room}"), function)()

    def collected(collect: str) -> Callable[[], Any]:
        return lambda: getattr(import_module("suite.asking.staged"), collect)(f"{package}.deviations")

    cases = made("cases.cases")
    found = {
        "page": import_module(f"{package}.contract").__doc__,
        "cases": cases,
        "deviations": collected("deviations_in"),
        "controls": collected("controls_in"),
        "examples": lambda: [example for case in cases() if (example := case.example())],
    }
    return found | {name: made(path) for name, path in others.items()}


def needed_by(parameters: Mapping[str, tuple[str, ...]], by_value: Sequence[str], also: Mapping[str, Test]) -> Needs:
    """Reads off calls what they need: the dtypes of their numbers, and the features that `declare` speaks of."""

    def of_argument(call: Call, name: str) -> Iterator[str]:
        value = str(call.options.get(name))
        return (feature for feature in parameters.get(name, ()) if name not in by_value or feature == value)

    def of_call(call: Call) -> Iterator[str]:
        yield from dtypes_of(call)
        for name in call.arguments:
            yield from of_argument(call, name)
        yield from (feature for feature, test in also.items() if test(call))

    return lambda calls: frozenset(feature for call in calls for feature in of_call(call))


def configured(name: str, *values: Any) -> Test:
    """A test of calls that make a model: whether its config has one of these values there."""
    return lambda call: call.config is not None and call.config[name] in values


def dtypes_of(call: Call) -> Iterator[str]:
    """The floating dtypes of a call's tensors and weights."""
    for tensor in (*call.tensors.values(), *call.weights.values()):
        if tensor.dtype.is_floating_point:
            yield str(tensor.dtype).removeprefix("torch.")
