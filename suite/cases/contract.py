"""What a contract is: its words, its cases, its deviations, its strangers and its workloads.

What contracts have in common, so that each declares what is its own: where its lists lie, what its calls need.

What a contract combines: the array of its levels, the case of each row, and mistakes made only where levels meet.

How a contract makes a failing call smaller, and writes it down as a few lines of Python to paste.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attnsuite.cases.call import Call, Calls, Conventions, Reply
from attnsuite.cases.case import Case
from attnsuite.cases.covering import Meeting, Row, Space
from attnsuite.cases.workload import Workload
from attnsuite.model import DTYPES, SHAPE, Example, Outcome, UsageError
from attnsuite.model.options import COMBINED

if TYPE_CHECKING:
    from attnsuite.cases.expected import Expected


@dataclass(frozen=True)
class Mutant:
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

    def under(self, conventions: Conventions) -> Mutant:
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
class Variant:
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
    mutants: Callable[[], Sequence[Mutant]]
    controls: Callable[[], Mapping[str, Callable[..., Any]]]
    """The deviations' own computations without any mistake, by name: they must pass everything."""
    needs: Callable[[Calls], frozenset[str]]
    """The features that these calls need, read off the calls themselves."""
    array: Callable[[], CoveringArray] | None = None
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
    variants: Callable[[], Sequence[Variant]] = tuple
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
    reproducing: Callable[[], Reproducer | None] = lambda: None
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


COMMON = {**{dtype: dtype for dtype in DTYPES}, "cpu": "the CPU", "cuda": "CUDA devices"}
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
    everywhere: Mapping[str, str] = COMMON,
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
        **lists_in(package, variants="strangers.strangers", **(lists or {})),
    }
    return Contract(**(fields | others))


def lists_in(package: str, **others: str) -> dict[str, Any]:
    """The lists of a contract, by its field. A room is imported when its list is asked for.

    Cases are made by the function `cases` of the room `cases`, deviations and controls are collected from the room
    `deviations`; `others` says what makes further lists, `workloads="workloads.workloads"`. Examples are those of the
    cases that have one.
    """

    def made(path: str) -> Callable[[], Any]:
        room, function = path.rsplit(".", 1)
        return lambda: getattr(import_module(f"{package}.{room}"), function)()

    @cache
    def usual() -> tuple[Case, ...]:
        """The cases of seed 0, made once: a check asks for them several times."""
        return tuple(made("cases.cases")())

    def cases() -> list[Case]:
        from attnsuite.cases.tensors import seeded  # needs torch, as cases do

        return list(made("cases.cases")() if seeded() else usual())

    found: dict[str, Any] = {
        "page": import_module(f"{package}.contract").__doc__,
        "cases": cases,
        "mutants": lambda: mutants_in(f"{package}.deviations"),
        "controls": lambda: controls_in(f"{package}.deviations"),
        "examples": lambda: [example for case in cases() if (example := case.example())],
    }
    return found | {name: made(path) for name, path in others.items()}


def mutants_in(package: str) -> list[Mutant]:
    """All deviations that a module defines, or the modules of a package."""
    return collected(thing for module in _modules(package) for thing in vars(module).values())


def controls_in(package: str) -> Mapping[str, Callable[..., Any]]:
    """The computations without any mistake: what a module, or one of a package's, calls CONTROLS."""
    return {name: made for module in _modules(package) for name, made in getattr(module, "CONTROLS", {}).items()}


def _modules(package: str) -> list[ModuleType]:
    home = import_module(package)
    inner = [import_module(f"{package}.{each.name}") for each in iter_modules(getattr(home, "__path__", []))]
    return [home, *inner]


def collected(things: Iterable[Any]) -> list[Mutant]:
    """The deviations among these things, those in lists too, sorted by name. ValueError where two have one name."""
    found: dict[str, Mutant] = {}
    for thing in things:
        for each in thing if isinstance(thing, list) else [thing]:
            if isinstance(each, Mutant) and found.setdefault(each.name, each) is not each:
                raise ValueError(f"two deviations are named {each.name}")
    return [found[name] for name in sorted(found)]


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


QUICK, FULL = PROFILES = COMBINED
"""`quick`: every pair of levels meets. `full`: so does every triple of the factors that kernels fuse."""


@dataclass(frozen=True)
class LocalMutant:
    """A mistake that an implementation may make only where some levels meet."""

    deviation: Mutant
    """The mistake, made everywhere."""
    where: frozenset[str] = frozenset()
    """It can be made only in rows that have one of these levels; none: in all rows."""

    def made_in(self, levels: Iterable[str]) -> bool:
        return not self.where or not self.where.isdisjoint(levels)


@dataclass(frozen=True)
class CoveringArray:
    """The rows that a contract asks, and what is needed to judge how much they catch."""

    space: Space
    rows: Callable[[str, int], Sequence[Row]]
    """`rows(profile, seed)`; seed 0 is the array that is kept."""
    case: Callable[[Row], Case]
    mistakes: Callable[[], Sequence[LocalMutant]]
    files: tuple[Path, Path]
    """Where the kept array lies, a row in each line: that of the profile `quick`, and what `full` has beyond it."""

    def cases(self, profile: str, seed: int) -> list[Case]:
        """The cases of a profile, in the order of the rows."""
        return [self.case(row) for row in self.rows(profile, seed)]

    def named(self, names: Sequence[str]) -> list[Case] | None:
        """The cases that have exactly these names, whatever array they are in; None where one is no name of a row."""
        try:
            cases = [self.case(self.space.read(name.partition("/")[2])) for name in names]
        except ValueError:
            return None
        return cases if [case.name for case in cases] == list(names) else None

    def wrong_only_where(self, fused: bool) -> dict[str, list[Meeting]]:
        """By mistake, the pairs of levels, or the fused triples, where alone it could be made."""
        possible = sorted(filter(self.space.possible, self.space.meetings(fused)))
        return {
            each.deviation.name: [met for met in possible if each.made_in(level for _, level in met)]
            for each in self.mistakes()
        }


Simpler = Callable[[Call], Iterator[Call]]
"""Calls that are simpler than one in some respect, those that are most so first."""


@dataclass(frozen=True)
class Reproducer:
    """What a contract knows of its calls, so that the smallest failing one can be found and written."""

    posed: Callable[[Calls], Case]
    """The case that asks these very calls, each judged by itself."""
    simpler: Sequence[Simpler]
    """What may be simpler about a call, in the order in which it is tried."""
    written: Callable[[Call, Reply, Expected | None, Conventions], Sequence[str]]
    """Lines that make the call of a function named as the contract is, compute what is due in plain torch, and print
    both; none where that cannot be said in plain torch. Without a `Expected`, an error was due."""
    said: frozenset[str]
    """The conventions that these lines follow where they are declared."""
    blank: Callable[[Call], Call]
    """The same call with plain numbers, for one that must raise whatever the numbers are."""
