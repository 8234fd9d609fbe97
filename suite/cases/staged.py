"""Correct computations of small steps, each of which a deviation may replace.

    class Network(Staged):
        axes = Axes(x="… e", w1="e f", b1="f", w2="f v", b2="v")
        choices: ClassVar = {"activation": ("relu", "gelu")}

        def compute(self, x, w1, b1, w2, b2, *, activation="relu"): ...

Axes and choices are checked before `compute` begins; its steps are static methods. Mistakes in them are rows of tables:
[mistakes.py](mistakes.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from attnsuite.cases.axes import Axes, Sizes
from attnsuite.cases.contract import Deviation
from attnsuite.cases.layouts import in_memory_order
from attnsuite.cases.leftovers import remembered_tensors, reused_output
from attnsuite.cases.mistakes import Changed, Stepwise, collected

Step = TypeVar("Step", bound=Callable[..., Any])
Given = Mapping[str, Any]
"""All arguments of a call by name, those that were left out by their default."""
WHOLE = "whole"
"""In a table of mistakes, stands for the whole computation where otherwise a step is named."""


class Staged(Stepwise):
    """A computation of steps, all of them static methods. `Dense(factor=other)` has one step replaced."""

    axes: ClassVar[Axes] = Axes()
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By option, the words that it may be."""
    compute: Callable[..., Any]
    """The formula, with the contract's signature."""

    def __init__(self, **replacements: Callable[..., Any]) -> None:
        self.replaced = replacements
        for name, step in replacements.items():
            assert callable(getattr(type(self), name)), name
            setattr(self, name, step)
        self.__signature__ = inspect.signature(self.compute)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.refuse(*arguments, **named)
        return self.compute(*arguments, **named)

    def joined(self, other: Any) -> Callable[..., Any] | None:
        """The computation in which the steps of both are replaced; None where one step is replaced in both."""
        if type(other) is not type(self) or self.replaced.keys() & other.replaced.keys():
            return None
        return type(self)(**self.replaced, **other.replaced)

    def refuse(self, *arguments: Any, **named: Any) -> None:
        """Raise for what the contract calls bad input."""
        bound = self.__signature__.bind(*arguments, **named)
        bound.apply_defaults()
        given = bound.arguments
        for option, known in self.choices.items():
            if given[option] not in known:
                raise ValueError(f"{option} is {given[option]!r}, none of {', '.join(known)}")
        self.check(given, self.axes.check(given))

    @staticmethod
    def check(given: Given, sizes: Sizes) -> None:
        """Raise for what is bad beside axes and choices."""

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        """What to compute in: half types widen to float32."""
        return torch.float32 if numbers.dtype.itemsize < 4 else numbers.dtype

    @classmethod
    def wrong(cls, step: str, replacement: Callable[..., Any] | Changed) -> Callable[..., Any]:
        correct = cls()
        if isinstance(replacement, Changed):
            replacement = replacement.of(correct if step == WHOLE else getattr(correct, step))
        return replacement if step == WHOLE else cls(**{step: replacement})

    @classmethod
    def checked(cls, core: Step) -> Step:
        """Another computation behind this one's check of its input."""
        refuse = cls().refuse

        @wraps(core)
        def answer(*arguments: Any, **named: Any) -> Any:
            refuse(*arguments, **named)
            return core(*arguments, **named)

        return answer  # type: ignore[return-value]


def usual(of: type[Staged]) -> list[Deviation]:
    """The mistakes that every computation can make.

    Strides are ignored, something is left from one call to the next, or too little precision is kept.
    """
    return [in_memory_order(of()), reused_output(of()), remembered_tensors(of()), *imprecise(of)]


def imprecise(of: type[Staged]) -> list[Deviation]:
    """The computation in less precision than its dtype has."""
    return [
        Deviation("bfloat16_throughout", "everything is computed in bfloat16", of(wide=lambda _: torch.bfloat16)),
        Deviation(
            "float32_inside", "float64 is computed in float32", of(wide=lambda _: torch.float32), dtypes=("float64",)
        ),
    ]


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
