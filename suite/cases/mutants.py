"""Mistakes as rows of a table: each makes one step of a correct computation go wrong.

    MISTAKES = mistakes(
        Network,
        first=rows(
            no_first_bias=Wrong("the first bias is left out", given(b1=torch.zeros_like)),
            from_the_other_side=Wrong("x is multiplied from the other side", lambda x, w1, b1: w1 @ x + b1),
        ),
        second=rows(
            rectified_output=Wrong("the output is rectified too", then(torch.relu), "documents, E5"),
        ),
    )

A row has the mistake's name; says it in words; and has what replaces the step: another function, or the step itself
with its arguments changed before (`given`) or its result after (`then`). Changes that many contracts need are in
[changes.py](changes.py). A row may end with where the mistake happened, and, where the mistake depends on the dtype,
with the dtypes in which the audit asks it.

Changes of tensors that mistakes of many contracts have in common.

Mistakes that are made from one call to the next, whatever is computed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attnsuite.cases.contract import Mutant

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]


def formula(step: Callable[..., Tensor]) -> staticmethod[..., Tensor]:
    """A step that is one expression.

    second = formula(lambda hidden, w2, b2: hidden @ w2 + b2)
    """
    return staticmethod(step)


class Stepwise:
    """A computation in steps that can be replaced."""

    @classmethod
    def wrong(cls, step: str, replacement: Function | StepChange) -> Function:
        """The computation with a step that is replaced or changed, as a function with the contract's signature."""
        raise NotImplementedError


def together(first: Function, second: Function) -> Function | None:
    """A computation in which both of two mistakes are made; None where they cannot be, as when one step has both."""
    join = getattr(first, "joined", None)
    found: Function | None = join(second) if join else None
    return found


@dataclass(frozen=True)
class StepChange:
    """A step whose arguments are changed before it, by name, and whose result is changed after it."""

    before: Mapping[str, Function] = field(default_factory=dict)
    after: Function = lambda result: result

    def of(self, step: Function) -> Function:
        """This step with the changes."""
        signature = inspect.signature(step)
        before = {name: _told(change, signature, name) for name, change in self.before.items()}
        after = _told(self.after, signature)

        @wraps(step)
        def changed(*arguments: Any, **named: Any) -> Any:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            given = dict(bound.arguments)
            bound.arguments.update({name: change(given[name], given) for name, change in before.items()})
            return after(step(*bound.args, **bound.kwargs), given)

        return changed


def given(**changes: Function) -> StepChange:
    """The step with changed arguments: `given(key=lambda key, query: …)`.

    A change is called with the argument. Its further parameters are named like other arguments of the step, which they
    are given.
    """
    return StepChange(before=changes)


def then(change: Function) -> StepChange:
    """The step with a changed result: `then(lambda weights, mask: …)`; further parameters as with `given`."""
    return StepChange(after=change)


def if_given(change: Function) -> Function:
    """The change of an optional argument, which stays None where it is None."""

    @wraps(change)
    def changed(subject: Any, *others: Any) -> Any:
        return None if subject is None else change(subject, *others)

    return changed


def _told(change: Function, step: inspect.Signature, *subject: str) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The change as a function of what it changes and of the step's arguments by name."""
    try:
        _, *further = inspect.signature(change).parameters.values()
    except ValueError:  # a builtin, whose signature cannot be read
        further = []
    names = [each.name for each in further if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    if unknown := {*names, *subject} - set(step.parameters):
        raise TypeError(f"a step with the parameters {step} has no {' and no '.join(sorted(unknown))}")
    return lambda subject, given: change(subject, *(given[name] for name in names))


class Wrong(NamedTuple):
    """What is wrong with a step, as a row of a table."""

    says: str
    """The mistake in words, as a diagnosis quotes it."""
    replacement: Function | StepChange
    source: str = ""
    """Where it happened: a project and its issue, a document's erratum."""
    dtypes: tuple[str, ...] = ("float32",)
    """The dtypes in which the audit asks it."""
    others: tuple[Function | StepChange, ...] = ()
    """What else may stand in the step's place and is the same mistake, though it gives other numbers."""


def rows(**by_name: Wrong) -> Mapping[str, Wrong]:
    """The mistakes in one step, by name."""
    return by_name


def mutants(of: type[Stepwise], **by_step: Mapping[str, Wrong]) -> list[Mutant]:
    """The deviations of a table: rows by the step that they replace, or `whole`."""
    return [
        Mutant(
            name,
            row.says,
            of.wrong(step, row.replacement),
            row.dtypes,
            row.source,
            tuple(of.wrong(step, each) for each in row.others),
        )
        for step, rows in by_step.items()
        for name, row in rows.items()
    ]


Change = Callable[[Tensor], Tensor]


def turned(x: Tensor) -> Tensor:
    """Transposed where it is square."""
    return x.mT if x.dim() > 1 and x.shape[-1] == x.shape[-2] else x


def swapped_where_equal(axis: int = 0, other: int = 1, *, of_rank: int) -> Change:
    """Two axes are swapped in tensors of this rank where they are equally long."""
    return lambda x: x.transpose(axis, other) if x.dim() == of_rank and x.shape[axis] == x.shape[other] else x


def first_for_all(axis: int = 0, *, from_rank: int = 0) -> Change:
    """The first entry along an axis stands in place of all; tensors of fewer axes than `from_rank` are left alone."""
    return lambda x: x.narrow(axis, 0, 1).expand_as(x) if x.dim() >= from_rank and x.shape[axis] else x


def reversed_along(axis: int) -> Change:
    """The entries along an axis in reverse order."""
    return lambda x: x.flip(axis)


def only_first(count: int, axis: int) -> Change:
    """Only the first `count` entries along an axis."""
    return lambda x: x.narrow(axis, 0, min(count, x.shape[axis]))


def repeated_beyond(count: int, axis: int) -> Change:
    """The entries along an axis beyond the first `count` are copies of the last of these."""

    def change(x: Tensor) -> Tensor:
        few = x.dim() < -axis or x.shape[axis] <= count
        return x if few else x.index_select(axis, torch.arange(x.shape[axis], device=x.device).clamp_max(count - 1))

    return change


def filled_beyond(count: int, number: float) -> Change:
    """The entries of the last axis beyond the first `count` become another number."""
    return lambda x: x.masked_fill(torch.arange(x.shape[-1], device=x.device) >= count, number)


def hidden_last(count: int) -> Change:
    """The last score becomes −∞ where there are more than `count`."""
    return lambda scores: filled_beyond(scores.shape[-1] - 1, -math.inf)(scores) if scores.shape[-1] > count else scores


def as_it_lies(x: Tensor) -> Tensor:
    """Read in the order in which it lies in memory, whatever the strides."""
    return x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride())


def as_they_lie(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Several tensors, each read in the order in which it lies in memory."""
    return {name: as_it_lies(tensor) for name, tensor in tensors.items()}


def rounded(dtype: torch.dtype) -> Change:
    """Rounded to a dtype, and back again."""
    return lambda x: x.to(dtype).to(x.dtype)


def for_all_items(x: Tensor, query: Tensor) -> Tensor:
    """A single item is repeated for all items of the query."""
    return x.expand(len(query), *x.shape[1:]) if len(x) == 1 else x


def reuses_output(function: Callable[..., Any]) -> Mutant:
    """A correct function that writes its answers over earlier ones of the same shape."""
    kept: dict[tuple[Any, ...], Tensor] = {}

    def written(found: Tensor) -> Tensor:
        return kept.setdefault((found.shape, found.dtype), torch.empty_like(found)).copy_(found)

    def deviating(*arguments: Any, **named: Any) -> Any:
        found = function(*arguments, **named)
        return (written(found[0]), *found[1:]) if isinstance(found, tuple) else written(found)

    says = "answers of one shape are written over each other: an earlier one changes with the next call"
    return Mutant("reuses_output", says, deviating)


def remembers_tensors(function: Callable[..., Any]) -> Mutant:
    """A correct function that does not look again at the tensors of the call before."""
    before: list[Any] = []

    def deviating(*arguments: Any, **named: Any) -> Any:
        given = [*arguments, *named.values()]
        if not before or not _same(given, before[0]):
            before[:] = [given, function(*arguments, **named)]
        found = before[1]
        return tuple(each.clone() for each in found) if isinstance(found, tuple) else found.clone()

    says = "the tensors of the call before are not read again, whatever has been written into them"
    return Mutant("remembers_tensors", says, deviating)


def reads_in_memory_order(function: Callable[..., Any]) -> Mutant:
    """A correct function that is handed numbers in the order in which they lie in memory."""

    def read(argument: Any) -> Any:
        return as_it_lies(argument) if isinstance(argument, Tensor) else argument

    def deviating(*arguments: Any, **named: Any) -> Any:
        return function(*map(read, arguments), **{name: read(argument) for name, argument in named.items()})

    return Mutant("reads_in_memory_order", "numbers are read in memory's order, whatever the strides", deviating)


def _same(given: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether these are the very tensors of the call before, and equal options."""
    pairs = zip(given, before, strict=False)
    return len(given) == len(before) and all(
        one is other if isinstance(one, Tensor) or isinstance(other, Tensor) else one == other for one, other in pairs
    )
