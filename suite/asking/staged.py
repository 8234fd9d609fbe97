"""Correct computations of small steps, each of which a deviation may replace.

class Additive(Staged):
    def __call__(self, query, key, ...): ...

@instead_of(Additive.activate, "the features are rectified, not squashed by tanh")
def relu_features(features: Tensor) -> Tensor:
    return features.relu()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        return torch.float32 if numbers.dtype in (torch.float16, torch.bfloat16) else numbers.dtype

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
    """The deviations among these things, sorted by name. ValueError where two have one name."""
    found: dict[str, Deviation] = {}
    for thing in things:
        if isinstance(thing, Deviation) and found.setdefault(thing.name, thing) is not thing:
            raise ValueError(f"two deviations are named {thing.name}")
    return [found[name] for name in sorted(found)]
