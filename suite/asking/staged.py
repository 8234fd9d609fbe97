"""Correct computations of small steps, each of which a deviation may replace.

    class Additive(Staged):
        def __call__(self, query, key, ...): ...

Mistakes of one line are a table, by the step that they replace:

    IN_ACTIVATE = mistakes(
        Additive.activate,
        relu_features=Mistake("the features are rectified, not squashed by tanh", lambda features: features.relu()),
    )

Longer ones are functions:

    @instead_of(Additive.activate, "features beyond the 128th are left out")
    def drops_features(features: Tensor) -> Tensor:
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor

from suite.asking import Deviation

Step = TypeVar("Step", bound=Callable[..., Any])
_COMPUTATIONS: dict[tuple[str, str], type[Staged]] = {}


class Staged:
    """A computation of steps, all of them static methods. `Dense(factor=other)` has one step replaced."""

    def __init__(self, **replacements: Callable[..., Any]) -> None:
        for name, step in replacements.items():
            assert callable(getattr(type(self), name)), name
            setattr(self, name, step)

    def __init_subclass__(cls) -> None:
        _COMPUTATIONS[cls.__module__, cls.__qualname__] = cls

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        """What to compute in: half types widen to float32."""
        return torch.float32 if numbers.dtype.itemsize < 4 else numbers.dtype

    def as_function(self) -> Callable[..., Any]:
        """The computation as a function with the contract's signature."""
        return self.__call__


def instead_of(
    step: Step,
    says: str,
    *,
    of: type[Staged] | None = None,
    source: str = "",
    dtypes: Sequence[str] = ("float32",),
    name: str = "",
) -> Callable[[Step], Deviation]:
    """Turn a replacement of `step` into the deviation that bears the replacement's name.

    `of` is the computation where the step is one that it inherits.
    """

    def deviation(replacement: Step) -> Deviation:
        computation, _, replaced = step.__qualname__.rpartition(".")
        function = (of or _COMPUTATIONS[step.__module__, computation])(**{replaced: replacement}).as_function()
        return Deviation(name or replacement.__name__, says, function, tuple(dtypes), source)

    return deviation


@dataclass(frozen=True)
class Mistake:
    """A replacement of a step, as a row of a table."""

    says: str
    """The mistake in words, as a diagnosis quotes it."""
    replacement: Callable[..., Any]
    source: str = ""
    """Where it happened."""
    dtypes: Sequence[str] = ("float32",)
    """Where the audit asks it."""


def mistakes(step: Callable[..., Any], *, of: type[Staged] | None = None, **rows: Mistake) -> list[Deviation]:
    """The deviations that replace one step; each row's name is its deviation's."""
    return [
        instead_of(step, row.says, of=of, source=row.source, dtypes=row.dtypes, name=name)(row.replacement)
        for name, row in rows.items()
    ]


def imprecise(computation: type[Staged]) -> list[Deviation]:
    """The computation in less precision than its dtype has."""
    return [
        Deviation(
            "bfloat16_throughout",
            "everything is computed in bfloat16",
            computation(wide=lambda numbers: torch.bfloat16).as_function(),
        ),
        Deviation(
            "float32_inside",
            "float64 is computed in float32",
            computation(wide=lambda numbers: torch.float32).as_function(),
            dtypes=("float64",),
        ),
    ]


def collected(things: Iterable[Any]) -> list[Deviation]:
    """The deviations among these things, those in lists too, sorted by name. ValueError where two have one name."""
    found: dict[str, Deviation] = {}
    for thing in things:
        for each in thing if isinstance(thing, list) else [thing]:
            if isinstance(each, Deviation) and found.setdefault(each.name, each) is not each:
                raise ValueError(f"two deviations are named {each.name}")
    return [found[name] for name in sorted(found)]


def deviations_in(package: str) -> list[Deviation]:
    """All deviations that a module defines, or the modules of a package."""
    return collected(thing for module in _modules(package) for thing in vars(module).values())


def controls_in(package: str) -> Mapping[str, Callable[..., Any]]:
    """The computations without any mistake: what a module, or one of a package's, calls CONTROLS."""
    return {name: made for module in _modules(package) for name, made in getattr(module, "CONTROLS", {}).items()}


def _modules(package: str) -> list[ModuleType]:
    home = import_module(package)
    inner = [import_module(f"{package}.{each.name}") for each in iter_modules(getattr(home, "__path__", []))]
    return [home, *inner]
