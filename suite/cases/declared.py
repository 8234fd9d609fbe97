"""What contracts have in common, so that each declares what is its own: where its lists lie, what its calls need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from attnsuite.cases.call import Call, Calls
from attnsuite.cases.case import Case
from attnsuite.cases.contract import Contract, Deviation
from attnsuite.model import DTYPES

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

    def deviations() -> list[Deviation]:
        from attnsuite.cases.staged import deviations_in  # needs torch, which help and lists do without

        return deviations_in(f"{package}.deviations")

    def controls() -> Mapping[str, Callable[..., Any]]:
        from attnsuite.cases.staged import controls_in

        return controls_in(f"{package}.deviations")

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
        "deviations": deviations,
        "controls": controls,
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
