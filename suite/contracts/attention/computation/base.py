"""What all computations share: steps that can be replaced, and how a replacement becomes a deviation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from attnsuite.cases import Conventions, Mutant
from attnsuite.cases.mutants import StepChange, Stepwise, formula
from attnsuite.contracts.attention.computation.asked import Asked, as_attention
from attnsuite.contracts.attention.feature import Computed, Visible, features

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.contracts.attention.feature import Grid

Replacement = Callable[..., Any]
WHOLE = "answer"
"""The step of `Whole` that is the whole computation."""


@cache
def computed() -> tuple[Computed, ...]:
    """What the features compute, in order."""
    return tuple(each.computed for each in features())


@cache
def named_steps() -> Mapping[str, Callable[..., Any]]:
    """The features' own steps that may be replaced, by name."""
    return {name: step for each in computed() for name, step in each.steps.items()}


class Computation(Stepwise):
    """Attention in steps. `Dense(softmax=other)` has one step replaced: its own, or one that a feature names."""

    own_gradient = False
    """Whether its mistakes are in the gradient, beside a forward pass that is right."""

    def __init__(self, **replaced: Replacement) -> None:
        self.replaced = replaced

    def __getattribute__(self, name: str) -> Any:
        replaced = object.__getattribute__(self, "__dict__").get("replaced", {})
        return replaced[name] if name in replaced else object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in named_steps():
            raise AttributeError(f"{type(self).__name__} has no step {name}")
        return named_steps()[name]

    def __call__(self, asked: Asked) -> Any:
        raise NotImplementedError

    def spread(self, key: Tensor, value: Tensor, asked: Asked) -> tuple[Tensor, Tensor]:
        """The keys and values that each query head reads."""
        for each in computed():
            if each.source:
                key, value = each.source(self, key, value, asked)
        return key, value

    def score(self, products: Tensor, asked: Asked, grid: Grid) -> Tensor:
        """The scores of the queries and keys of a grid, −∞ where a query may not attend."""
        for each in computed():
            if each.score:
                products = each.score(self, products, asked, grid)
        for each in computed():
            if each.hide:
                products = each.hide(self, products, asked, grid)
        return products

    fill = formula(lambda scores, seen: scores.masked_fill(~seen, -math.inf))  # hidden by position

    @classmethod
    def instead(
        cls, step: str, says: str, *, source: str = "", dtypes: Sequence[str] = ("float32",)
    ) -> Callable[[Replacement], Mutant]:
        """Turn a replacement of `step` into the deviation that bears the replacement's name."""
        return lambda replacement: Mutant(
            replacement.__name__, says, cls.wrong(step, replacement), tuple(dtypes), source
        )

    @classmethod
    def wrong(cls, step: str, replacement: Replacement | StepChange) -> Callable[..., Any]:
        """The computation with a step replaced or changed, made at its first call, when all features are loaded."""
        return Late(cls, {step: replacement})


@dataclass(frozen=True, eq=False)
class Late:
    """A computation with steps replaced, called with the contract's signature."""

    of: type[Computation]
    replacements: Mapping[str, Replacement | StepChange]
    around: tuple[StepChange, ...] = ()
    """Changes of the computation as a whole."""
    conventions: Conventions = field(default_factory=dict)
    """What it answers by where libraries differ."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.function(*inputs, **options)

    @cached_property
    def function(self) -> Callable[..., Any]:
        answer: Any = self.of(**{step: self._step(step, how) for step, how in self.replacements.items()})
        for change in self.around:
            answer = change.of(answer)
        return as_attention(answer, conventions=self.conventions)

    def _step(self, step: str, replacement: Replacement | StepChange) -> Replacement:
        own = getattr(self.of(), step)
        assert callable(own), step
        return replacement.of(own) if isinstance(replacement, StepChange) else replacement

    def joined(self, other: Any) -> Late | None:
        """The computation in which the mistakes of both are made; None where one step would have to make both.

        A step of a feature is the same in every computation, so it goes along with steps of another.
        """
        if not isinstance(other, Late) or (self.replacements.keys() & other.replacements.keys()):
            return None
        if self.whole or other.whole:
            return other.within(self) if self.whole else self.within(other)
        if self.of is not other.of and (self.of.own_gradient or other.of.own_gradient or not self.of_features):
            return other.joined(self) if other.of_features and not self.of_features else None
        return replace(
            other, replacements={**self.replacements, **other.replacements}, around=self.around + other.around
        )

    def within(self, whole: Late) -> Late | None:
        """This computation with a change of the whole around it."""
        changes = [each for each in whole.replacements.values() if isinstance(each, StepChange)]
        return None if self.whole or not changes else replace(self, around=(*self.around, *changes))

    def under(self, conventions: Conventions) -> Late:
        """The same mistakes of who has declared these conventions: those about positions are kept."""
        return replace(self, conventions=conventions)

    @property
    def whole(self) -> bool:
        """Whether its mistake is one of the answer as a whole."""
        return WHOLE in self.replacements

    @property
    def of_features(self) -> bool:
        """Whether all its mistakes are made by steps that features name, in the forward pass."""
        return self.replacements.keys() <= named_steps().keys()


def unless(due: Callable[[Grid, Asked], Any]) -> Callable[[Callable[[Asked], Any]], Callable[[Grid, Asked], Any]]:
    """A mistake that ignores a rule of visibility: `unless(due)(ignored)` shows everything where `ignored(asked)`."""
    return lambda ignored: lambda grid, asked: due(grid, asked) | bool(ignored(asked))


def by_position(name: str, argument: str, visible: Visible) -> Computed:
    """What a feature computes that hides keys by position. Its step `name` says what is seen, from (grid, asked).

    The positions of the grid are aligned by the convention of that name.
    """

    def hide(of: Computation, scores: Tensor, asked: Asked, grid: Grid) -> Tensor:
        value = asked[argument]
        if value is None or value is False:
            return scores
        return of.fill(scores, getattr(of, name)(grid.aligned(asked.conventions.get(name)), asked))

    return Computed(hide=hide, steps={name: lambda grid, asked: visible(grid, asked[argument], asked.conventions)})
