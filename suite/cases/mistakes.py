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
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases.contract import Deviation

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
    def wrong(cls, step: str, replacement: Function | Changed) -> Function:
        """The computation with a step that is replaced or changed, as a function with the contract's signature."""
        raise NotImplementedError


def together(first: Function, second: Function) -> Function | None:
    """A computation in which both of two mistakes are made; None where they cannot be, as when one step has both."""
    join = getattr(first, "joined", None)
    found: Function | None = join(second) if join else None
    return found


@dataclass(frozen=True)
class Changed:
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


def given(**changes: Function) -> Changed:
    """The step with changed arguments: `given(key=lambda key, query: …)`.

    A change is called with the argument. Its further parameters are named like other arguments of the step, which they
    are given.
    """
    return Changed(before=changes)


def then(change: Function) -> Changed:
    """The step with a changed result: `then(lambda weights, mask: …)`; further parameters as with `given`."""
    return Changed(after=change)


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
    replacement: Function | Changed
    source: str = ""
    """Where it happened: a project and its issue, a document's erratum."""
    dtypes: tuple[str, ...] = ("float32",)
    """The dtypes in which the audit asks it."""
    others: tuple[Function | Changed, ...] = ()
    """What else may stand in the step's place and is the same mistake, though it gives other numbers."""


def rows(**by_name: Wrong) -> Mapping[str, Wrong]:
    """The mistakes in one step, by name."""
    return by_name


def mistakes(of: type[Stepwise], **by_step: Mapping[str, Wrong]) -> list[Deviation]:
    """The deviations of a table: rows by the step that they replace, or `whole`."""
    return [
        Deviation(
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


def collected(things: Iterable[Any]) -> list[Deviation]:
    """The deviations among these things, those in lists too, sorted by name. ValueError where two have one name."""
    found: dict[str, Deviation] = {}
    for thing in things:
        for each in thing if isinstance(thing, list) else [thing]:
            if isinstance(each, Deviation) and found.setdefault(each.name, each) is not each:
                raise ValueError(f"two deviations are named {each.name}")
    return [found[name] for name in sorted(found)]
