"""Correct computations in steps, which mutants replace, and the parts that correct variants share.

    class Network(Steps):
        axes = Axes(x="… e", w1="e f", b1="f", w2="f v", b2="v")
        choices: ClassVar = {"activation": ("relu", "gelu")}

        def compute(self, x, w1, b1, w2, b2, *, activation="relu"): ...

Axes and choices are checked before `compute` begins; its steps are static methods. A letter of the axes is one size
wherever it stands; `…` at the front is any number of axes, the same for all tensors.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from attnsuite.cases.contract import Mutant
from attnsuite.cases.mutants import Mutation, StepChange, Stepwise, careless_mutants, mutants

Function = Callable[..., Any]
Step = TypeVar("Step", bound=Function)
Arguments = Mapping[str, Any]
"""All arguments of a call by name, defaults included."""
ANY = "…"
Sizes = dict[str, Any]
"""The size of each letter; for `…` a tuple of sizes."""
WHOLE = "whole"
"""In a table of mistakes, the whole computation in place of a step."""


class Axes:
    """The axes of each tensor by its name, as letters with spaces between them."""

    def __init__(self, **axes: str) -> None:
        self.axes = axes

    def check(self, arguments: Arguments) -> Sizes:
        """The size of each letter. ValueError where a tensor does not fit; missing tensors are not checked."""
        sizes: Sizes = {}
        for name, axes in self.axes.items():
            tensor = arguments.get(name)
            if tensor is not None and not _fits(axes.split(), tuple(tensor.shape), sizes):
                raise ValueError(f"{name} is {tuple(tensor.shape)}, not {axes} with {sizes}")
        return sizes


def _fits(letters: list[str], shape: tuple[int, ...], sizes: Sizes) -> bool:
    """Whether a shape has these axes in the known sizes; new sizes are added."""
    if letters[0] == ANY:
        front = len(shape) - len(letters) + 1
        if front < 0 or sizes.setdefault(ANY, shape[:front]) != shape[:front]:
            return False
        letters, shape = letters[1:], shape[front:]
    return len(letters) == len(shape) and all(
        sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True)
    )


def broadcasts(mask: Tensor, *shape: int) -> bool:
    """Whether the mask broadcasts to this shape."""
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    return mask.dim() <= len(shape) and all(size in (1, whole) for size, whole in pairs)


def check_mask(mask: Tensor | None, *shape: int) -> None:
    """Raise unless a mask, if there is one, is boolean and broadcasts to this shape."""
    if mask is not None and (mask.dtype != torch.bool or not broadcasts(mask, *shape)):
        raise ValueError(f"the mask is {mask.dtype}, {tuple(mask.shape)}; expected boolean for {shape}")


class Steps(Stepwise):
    """A computation of steps, all of them static methods. `Dense(factor=other)` has one step replaced."""

    axes: ClassVar[Axes] = Axes()
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The allowed words of each option."""
    compute: Function
    """The formula, with the contract's signature."""

    def __init__(self, **replacements: Function) -> None:
        self.replaced = replacements
        for name, step in replacements.items():
            self.step_named(name)
            setattr(self, name, step)
        self.__signature__ = inspect.signature(self.compute)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.validate(*arguments, **named)
        return self.compute(*arguments, **named)

    def joined(self, other: Any) -> Function | None:
        """The computation with the replaced steps of both; None where both replace one step."""
        if type(other) is not type(self) or self.replaced.keys() & other.replaced.keys():
            return None
        return type(self)(**self.replaced, **other.replaced)

    def validate(self, *arguments: Any, **named: Any) -> None:
        """Raise for what the contract calls bad input."""
        bound = self.__signature__.bind(*arguments, **named)
        bound.apply_defaults()
        for option, words in self.choices.items():
            if bound.arguments[option] not in words:
                raise ValueError(f"{option} is {bound.arguments[option]!r}, none of {', '.join(words)}")
        self.check(bound.arguments, self.axes.check(bound.arguments))

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        """Raise for bad input that axes and choices do not describe."""

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        """The dtype of the computation: half types widen to float32."""
        return torch.float32 if numbers.dtype.itemsize < 4 else numbers.dtype

    def step_named(self, name: str) -> Function:
        """The step of this name. ValueError for an unknown name."""
        if not callable(step := getattr(self, name, None)):
            raise ValueError(f"{type(self).__name__} has no step {name!r}")
        return step  # type: ignore[no-any-return]

    @classmethod
    def wrong(cls, step: str, replacement: Function | StepChange) -> Function:
        correct = cls()
        if isinstance(replacement, StepChange):
            replacement = replacement.applied_to(correct if step == WHOLE else correct.step_named(step))
        return replacement if step == WHOLE else cls(**{step: replacement})

    @classmethod
    def validated(cls, core: Step) -> Step:
        """Another computation behind this one's check of its input."""
        validate = cls().validate

        @wraps(core)
        def validated(*arguments: Any, **named: Any) -> Any:
            validate(*arguments, **named)
            return core(*arguments, **named)

        return validated  # type: ignore[return-value]


def all_mutants(steps: type[Steps], *, exact: bool = False, **by_step: Mapping[str, Mutation]) -> list[Mutant]:
    """The mutants of a table, careless ones, and imprecise ones unless the computation is exact."""
    precision = [] if exact else imprecise_mutants(steps)
    return [*careless_mutants(steps()), *precision, *mutants(steps, **by_step)]


def imprecise_mutants(steps: type[Steps]) -> list[Mutant]:
    """The computation in less precision than its dtype has."""
    in_float32 = steps(wide=lambda _: torch.float32)
    return [
        Mutant("bfloat16_throughout", "everything is computed in bfloat16", steps(wide=lambda _: torch.bfloat16)),
        Mutant("float32_inside", "float64 is computed in float32", in_float32, dtypes=("float64",)),
    ]


def widened(steps: type[Steps], core: Function) -> Function:
    """Computes half types in float32 and returns the dtype of the first argument."""

    def converted(argument: Any) -> Any:
        numbers = isinstance(argument, Tensor) and argument.is_floating_point()
        return argument.to(Steps.wide(argument)) if numbers else argument

    @wraps(core)
    def converting(*arguments: Any, **options: Any) -> Any:
        output = core(*map(converted, arguments), **{name: converted(option) for name, option in options.items()})
        back = arguments[0].dtype
        return tuple(tensor.to(back) for tensor in output) if isinstance(output, tuple) else output.to(back)

    return steps.validated(converting)


def linear(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """x weights + bias by torch's own function."""
    return functional.linear(x, weights.mT, bias)


def bias_first(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weights + bias, column by column, beginning with the bias."""
    total = x.new_zeros(()) if bias is None else bias
    total = total.expand(*x.shape[:-1], weights.shape[1]).clone()
    for column, row in zip(x.unbind(-1), weights, strict=True):
        total = torch.addcmul(total, column[..., None], row)
    return total


def backwards(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """x weights + bias by einsum, its terms from the last to the first."""
    return torch.einsum("...e,ef->...f", x.flip(-1), weights.flip(0)) + bias
