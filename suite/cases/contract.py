"""A contract: its features, cases, mutants, correct variants and workloads, and how a package declares one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attnsuite.cases.call import Call, Calls, Conventions, Reply
from attnsuite.cases.case import Case
from attnsuite.cases.covering import Meeting, Row, Space, drawn
from attnsuite.cases.workload import Workload
from attnsuite.model import DTYPES, SHAPE, Outcome, UsageError
from attnsuite.model.limits import COMBINED

if TYPE_CHECKING:
    from attnsuite.cases.expected import Expected

COMMON = {**{dtype: dtype for dtype in DTYPES}, "cpu": "the CPU", "cuda": "CUDA devices"}
"""The features of every contract."""
QUICK, FULL = PROFILES = COMBINED
"""In `quick` every pair of levels meets; in `full` every triple of the factors that kernels fuse does, too."""
Needs = Callable[[Calls], frozenset[str]]
Test = Callable[[Call], bool]
Simpler = Callable[[Call], Iterator[Call]]
"""Calls that are simpler than a call in one respect, the simplest first."""


@dataclass(frozen=True)
class Mutant:
    """An implementation with exactly one named mistake."""

    name: str
    says: str
    """The mistake in words, for diagnosis: "the scores are not divided by √d"."""
    function: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32",)
    """The dtypes of the audit; more than one only for a mistake that depends on the dtype."""
    source: str = ""
    """Where the mistake happened: a project's issue, an erratum, a paper."""
    others: tuple[Callable[..., Any], ...] = ()
    """Other ways to write the mistake, with other numbers. Only diagnosis runs them."""
    fitted: Callable[[Call, Reply], Iterable[Mutant]] | None = None
    """The same mistake at the sizes or numbers that a wrong reply suggests. Only diagnosis runs them."""
    family: str = ""
    """The name that mutants of one mistake at different numbers share."""

    def under(self, conventions: Conventions) -> Mutant:
        """The same mistake under declared conventions, if its computation knows any."""
        if not conventions:
            return self
        function, *others = (_under(conventions, way) for way in (self.function, *self.others))
        return replace(self, function=function, others=tuple(others))


def _under(conventions: Conventions, function: Callable[..., Any]) -> Callable[..., Any]:
    adapt = getattr(function, "under", None)
    adapted: Callable[..., Any] = adapt(conventions) if adapt else function
    return adapted


@dataclass(frozen=True)
class Variant:
    """A correct implementation in another style, which must pass."""

    name: str
    says: str
    """The style in words."""
    function: Callable[..., Any]
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)


@dataclass(frozen=True)
class Contract:
    """What one kind of implementation promises. Its lists are made when they are called for."""

    name: str
    features: Mapping[str, str]
    """What a case may need, each in words."""
    parameter_features: Mapping[str, tuple[str, ...]]
    """The features that a function does not support if it lacks a parameter."""
    cases: Callable[[], Sequence[Case]]
    mutants: Callable[[], Sequence[Mutant]]
    controls: Callable[[], Mapping[str, Callable[..., Any]]]
    """The mutants' computations without a mistake, by name: they must pass every test."""
    needs: Needs
    """The features that calls need."""
    array: Callable[[], CoveringArray] | None = None
    """The covering array, if the contract has one; `cases` has its cases of the profile `quick`."""
    core: str = "plain"
    """The core family: every implementation must support those of its cases that need no feature."""
    strict_core: bool = False
    """Whether the core, like other families, must kill a mutant that no other family kills."""
    core_dtypes: Mapping[str, str] = field(default_factory=lambda: {"cpu": "float32", "cuda": "float32"})
    """The dtype of the core by kind of device."""
    core_needs: frozenset[str] = frozenset()
    """Features that the core needs as well."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names that a user may type for a family."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The points on which honest libraries differ, and what may be declared; the first is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same call under declared conventions."""
    undefined_reason: Callable[[Any, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a case or a workload has no defined result under these conventions, or empty."""
    known_bugs: Path | None = None
    """The file of known bugs in shipped libraries, if there is one."""
    variants: Callable[[], Sequence[Variant]] = tuple
    workloads: Callable[[], Sequence[Workload]] = tuple
    make_workload: Callable[[str], Workload] | None = None
    """Makes the workload of `--shape`, or raises UsageError. None where a contract has no such workloads."""
    baseline: str = "matmul"
    """The implementation with which times are compared."""
    is_model: bool = False
    """Whether an implementation is a factory, `factory(config, weights)`."""
    reproducer: Callable[[], Reproducer | None] = lambda: None
    """How to reduce and write a failing call, if the contract can."""
    rephrase: Callable[[str], str] = lambda text: text
    """A sentence in the words of the implementation's own signature."""
    rephrase_outcome: Callable[[Outcome, Calls], Outcome] = lambda outcome, calls: outcome
    """An outcome of these calls in the same words."""
    page: str = ""
    """The contract's documentation: its second paragraph is the signature."""

    def workload(self, name: str) -> Workload:
        """The workload of this name, or of the shape in it. UsageError for an unknown name."""
        if name.startswith(SHAPE):
            return self.workload_of_shape(name.removeprefix(SHAPE))
        for workload in self.workloads():
            if workload.name == name:
                return workload
        raise UsageError(f"there is no workload {name!r} of {self.name}")

    def workload_of_shape(self, text: str) -> Workload:
        """The workload of `--shape`. UsageError if the contract has none, or the shape is malformed."""
        if self.make_workload is None:
            raise UsageError(f"--shape {text!r}: {self.name} has no workloads of chosen shapes; attention has")
        return self.make_workload(text)

    @property
    def signature(self) -> str:
        """The signature in the contract's docstring, in one line."""
        return signature_in(self.page)

    @property
    def optional(self) -> frozenset[str]:
        """The parameters that have a default: the core does not need them."""
        return optional_in(self.signature)


def signature_in(page: str) -> str:
    """The signature in a contract's docstring, in one line."""
    return " ".join(page.split("\n\n")[1].split())


def optional_in(signature: str) -> frozenset[str]:
    """The parameters with a default in a contract's signature."""
    return frozenset(re.findall(r"(\w+)=", signature))


@dataclass(frozen=True)
class Reproducer:
    """How a contract finds and writes the smallest failing call."""

    case_of: Callable[[Calls], Case]
    """A case of these very calls, each judged by itself."""
    simplifications: Sequence[Simpler]
    """The ways to make a call simpler, in the order in which they are tried."""
    script: Callable[[Call, Reply, Expected | None, Conventions], Sequence[str]]
    """Lines of plain torch that make the call, compute the expected result, and print both; empty where plain torch
    cannot say it. Without an `Expected`, an error is expected."""
    conventions: frozenset[str]
    """The conventions that these lines can follow."""
    blank: Callable[[Call], Call]
    """The same call with plain numbers, for bad input that must raise whatever the numbers are."""
    harmless: frozenset[str]
    """The features that a simpler call may need although the failing one does not."""
    equal_calls: Calls
    """Equal calls, whose outputs show the weights."""
    noise: Callable[[Sequence[Reply]], str]
    """How the replies to them differ, in words; empty where they are equal."""


@dataclass(frozen=True)
class LocalMutant:
    """A mutant whose mistake an implementation may make only where some levels meet."""

    mutant: Mutant
    where: frozenset[str] = frozenset()
    """The mistake is possible in rows that have one of these levels; empty: in all rows."""
    never: frozenset[str] = frozenset()
    """The levels with which it changes nothing."""

    def made_in(self, levels: Iterable[str]) -> bool:
        """Whether the mistake is made in a row of these levels."""
        levels = set(levels)
        return self.never.isdisjoint(levels) and (not self.where or not self.where.isdisjoint(levels))


@dataclass(frozen=True, eq=False)
class CoveringArray:
    """The covering array of a contract, the case of each row, and the mutants that measure how much it kills."""

    space: Space
    case: Callable[[Row], Case]
    mistakes: Callable[[], Sequence[LocalMutant]]
    folder: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """The stored array, a row in each line: that of the profile `quick`, and what `full` adds."""
        return self.folder / "pairs.txt", self.folder / "triples.txt"

    def rows(self, profile: str = FULL, seed: int = 0) -> list[Row]:
        """The rows: seed 0 is the stored array, another seed draws another. ValueError if the files do not fit."""
        if seed:
            return list(_drawn(self, seed, profile == FULL))
        files = self.files[: 1 + (profile == FULL)]
        return [self.space.read(line) for file in files for line in file.read_text().splitlines()]

    def cases(self, profile: str, seed: int) -> list[Case]:
        """Return the cases of a profile."""
        return [self.case(row) for row in self.rows(profile, seed)]

    def named(self, names: Sequence[str]) -> list[Case] | None:
        """The cases of exactly these names, in any array; None where a name is not that of a row."""
        try:
            cases = [self.case(self.space.read(name.partition("/")[2])) for name in names]
        except ValueError:
            return None
        return cases if [case.name for case in cases] == list(names) else None

    def wrong_only_where(self, fused: bool) -> dict[str, list[Meeting]]:
        """By mutant, the pairs of levels, or the fused triples, that alone could show its mistake."""
        possible = sorted(filter(self.space.possible, self.space.meetings(fused)))
        return {
            local.mutant.name: [met for met in possible if local.made_in(level for _, level in met)]
            for local in self.mistakes()
        }


@lru_cache(maxsize=4)  # drawing takes seconds, and one check needs the same array several times
def _drawn(array: CoveringArray, seed: int, fused: bool) -> tuple[Row, ...]:
    return tuple(drawn(array.space, seed, fused=fused))


def declare(
    module: str,
    features: Mapping[str, str] | None = None,
    parameters: Mapping[str, tuple[str, ...]] | None = None,
    *,
    by_value: Sequence[str] = (),
    also: Mapping[str, Test] | None = None,
    everywhere: Mapping[str, str] = COMMON,
    lists: Mapping[str, str] | None = None,
    **others: Any,
) -> Contract:
    """The contract of a module, the `__name__` of its file: a file of its own, or `contract.py` of its folder.

    `features` are added to `everywhere`; `parameters` maps a parameter to the features that need it. A call needs the
    features of its arguments; of a parameter in `by_value` only the feature that its value names. `also` are tests of
    a call by feature. `lists` are further lists as in `lists_in`, `others` further fields of Contract.
    """
    parameters = parameters or {}
    fields: dict[str, Any] = {
        "name": module.removesuffix(".contract").rpartition(".")[2],
        "features": {**(features or {}), **everywhere},
        "parameter_features": parameters,
        "needs": needed_by(parameters, by_value, also or {}),
        **lists_in(module, **{"variants": "variants.variants", **(lists or {})}),
    }
    declared = Contract(**(fields | others))
    if complaint := _declaration_error(declared, also or {}):
        raise ValueError(f"contract {declared.name}: {complaint}")
    return declared


def _declaration_error(contract: Contract, also: Mapping[str, Test]) -> str:
    """What is wrong with a declaration, or empty."""
    paragraphs = contract.page.split("\n\n")
    if len(paragraphs) < 2 or (not contract.signature.startswith(f"{contract.name}(") and not contract.is_model):
        return f"the second paragraph of the file's docstring is not the signature `{contract.name}(…) -> …`"
    for parameter, features in contract.parameter_features.items():
        if unknown := [feature for feature in features if feature not in contract.features]:
            return (
                f"parameter {parameter} needs the feature {unknown[0]!r}; declared are {', '.join(contract.features)}"
            )
        if not contract.is_model and parameter not in re.findall(r"\w+", contract.signature):
            return f"the signature has no parameter {parameter!r}: {contract.signature}"
    if unknown := [feature for feature in also if feature not in contract.features]:
        return f"`also` tests the feature {unknown[0]!r}; declared are {', '.join(contract.features)}"
    return ""


def lists_in(module: str, mutants: str = "mutants", **others: str) -> dict[str, Any]:
    """The page of a contract, and its lists by field, which are made when they are called for.

    In a file of its own, the function `cases` makes the cases, mutants are all that stand in lists of the file, and
    `CONTROLS` has the computations without a mistake. Of a contract in a folder, the same stand in its modules or
    packages `cases` and `mutants`; the latter may have another name. `others` names the functions of further lists,
    `workloads="workloads.workloads"`: the first word is a module of the folder, and is ignored in a single file.
    """
    folder = module.removesuffix("contract") if module.endswith(".contract") else ""

    def home(name: str) -> str:
        return f"{folder}{name}" if folder else module

    def made(path: str) -> Callable[[], Any]:
        name, function = path.rsplit(".", 1)
        return lambda: getattr(import_module(home(name)), function)()

    @cache
    def usual_cases() -> tuple[Case, ...]:
        return tuple(made("cases.cases")())

    def cases() -> list[Case]:
        from attnsuite.cases.tensors import seeded  # needs torch, as cases do

        return list(made("cases.cases")() if seeded() else usual_cases())

    lists: dict[str, Any] = {
        "page": import_module(module).__doc__,
        "cases": cases,
        "mutants": lambda: mutants_in(home(mutants)),
        "controls": lambda: controls_in(home(mutants)),
    }
    return lists | {name: made(path) for name, path in others.items()}


def needed_by(parameters: Mapping[str, tuple[str, ...]], by_value: Sequence[str], also: Mapping[str, Test]) -> Needs:
    """The function that reads the needed features from calls: dtypes, and the features that `declare` describes."""

    def features_of(call: Call) -> Iterator[str]:
        for tensor in (*call.tensors.values(), *call.weights.values()):
            if tensor.dtype.is_floating_point:
                yield str(tensor.dtype).removeprefix("torch.")
        for name in call.arguments:
            features, value = parameters.get(name, ()), str(call.options.get(name))
            yield from (feature for feature in features if name not in by_value or feature == value)
        yield from (feature for feature, test in also.items() if test(call))

    return lambda calls: frozenset(feature for call in calls for feature in features_of(call))


def configured(name: str, *values: Any) -> Test:
    """Tests whether a call makes a model whose config has one of these values under `name`."""
    return lambda call: call.config is not None and call.config[name] in values


def mutants_in(package: str) -> list[Mutant]:
    """The mutants that a module, or a module of a package, defines, sorted by name."""
    return collected(thing for module in _modules(package) for thing in vars(module).values())


def collected(things: Iterable[Any]) -> list[Mutant]:
    """The mutants among these things and in lists among them, sorted by name. ValueError if two share a name."""
    mutants: dict[str, Mutant] = {}
    for thing in things:
        for mutant in thing if isinstance(thing, list) else [thing]:
            if isinstance(mutant, Mutant) and mutants.setdefault(mutant.name, mutant) is not mutant:
                raise ValueError(f"two mutants are named {mutant.name}")
    return [mutants[name] for name in sorted(mutants)]


def controls_in(package: str) -> Mapping[str, Callable[..., Any]]:
    """The computations without a mistake: CONTROLS of a module, or of the modules of a package."""
    return {name: made for module in _modules(package) for name, made in getattr(module, "CONTROLS", {}).items()}


def _modules(package: str) -> list[ModuleType]:
    home = import_module(package)
    inner = [import_module(f"{package}.{module.name}") for module in iter_modules(getattr(home, "__path__", []))]
    return [home, *inner]
