"""Mutants as tables of mistakes: each row makes one step of a correct computation go wrong.

    MUTANTS = mutants(
        Network,
        first={
            "no_first_bias": Mutation("the first bias is left out", with_arguments(b1=torch.zeros_like)),
            "from_the_other_side": Mutation("x is multiplied from the other side", lambda x, w1, b1: w1 @ x + b1),
        },
        second={
            "rectified_output": Mutation("the output is rectified too", with_result(torch.relu), "documents, E5"),
        },
    )

A row has the name of the mutant and its mutation: a sentence, and what replaces the step. That is another function, or
the step itself with its arguments changed before (`with_arguments`) or its result after (`with_result`). A mutation may
end with its source, and with the dtypes of the audit if the mistake depends on the dtype.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases.call import Call, Reply
from attnsuite.cases.changes import as_it_lies, is_tensor
from attnsuite.cases.contract import Mutant

if TYPE_CHECKING:  # `attnsuite list` reads contracts without PyTorch
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
        """The computation with a step replaced or changed, as a function with the contract's signature."""
        raise NotImplementedError


def together(first: Function, second: Function) -> Function | None:
    """A computation with two mistakes; None where they exclude each other, as when both replace one step."""
    join = getattr(first, "joined", None)
    joined: Function | None = join(second) if join else None
    return joined


@dataclass(frozen=True)
class StepChange:
    """A step whose arguments are changed before it, by name, and whose result is changed after it."""

    before: Mapping[str, Function] = field(default_factory=dict)
    after: Function = lambda result: result

    def applied_to(self, step: Function) -> Function:
        """This step with the changes."""
        signature = inspect.signature(step)
        before = {name: _with_arguments(change, signature, name) for name, change in self.before.items()}
        after = _with_arguments(self.after, signature)

        @wraps(step)
        def changed(*arguments: Any, **named: Any) -> Any:
            bound = signature.bind(*arguments, **named)
            bound.apply_defaults()
            before_all = dict(bound.arguments)
            bound.arguments.update({name: change(before_all[name], before_all) for name, change in before.items()})
            return after(step(*bound.args, **bound.kwargs), before_all)

        return changed


def with_arguments(**changes: Function) -> StepChange:
    """The step with changed arguments: `with_arguments(key=lambda key, query: …)`.

    A change gets the argument first; its further parameters are named like other arguments of the step.
    """
    return StepChange(before=changes)


def with_result(change: Function) -> StepChange:
    """The step with a changed result: `with_result(lambda weights, mask: …)`; further parameters as before."""
    return StepChange(after=change)


def unless_none(change: Function) -> Function:
    """The change of an optional argument, which stays None."""

    @wraps(change)
    def changed(subject: Any, *others: Any) -> Any:
        return None if subject is None else change(subject, *others)

    return changed


def _with_arguments(
    change: Function, step: inspect.Signature, *subject: str
) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The change as a function of its subject and of the step's arguments by name."""
    try:
        _, *further = inspect.signature(change).parameters.values()
    except ValueError:  # a builtin, whose signature cannot be read
        further = []
    names = [p.name for p in further if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if unknown := {*names, *subject} - set(step.parameters):
        raise TypeError(f"a step with the parameters {step} has no {' and no '.join(sorted(unknown))}")
    return lambda subject, arguments: change(subject, *(arguments[name] for name in names))


class Mutation(NamedTuple):
    """A mistake in a step, as a row of a table."""

    says: str
    """The mistake in words, for diagnosis."""
    replacement: Function | StepChange
    source: str = ""
    """Where the mistake happened: a project and its issue, a document's erratum."""
    dtypes: tuple[str, ...] = ("float32",)
    """The dtypes of the audit."""
    others: tuple[Function | StepChange, ...] = ()
    """Other replacements that are the same mistake with other numbers."""
    fit: Callable[[Call, Reply], Mapping[str, Any]] | None = None
    """Rows of the same mistake at the sizes or numbers that a wrong reply suggests, by name."""
    family: str = ""


def at_sizes(
    name: str,
    says: str,
    change: Callable[..., Function | StepChange],
    *sizes: Any,
    source: str = "",
    fit: Callable[[Call, Reply], Iterable[Any]] | None = None,
) -> dict[str, Mutation]:
    """One mistake at many sizes, which fill the braces of its name and words; a size may be several numbers.

    The audit runs these sizes. Diagnosis also tries those that `fit` returns for a wrong reply.
    """

    def row(size: Any) -> tuple[str, Mutation]:
        numbers = size if isinstance(size, tuple) else (size,)
        words = says.format(*numbers).removesuffix(" plus 0")
        return name.format(*numbers), Mutation(words, change(*numbers), source, family=name)

    rows = dict(map(row, sizes))
    if fit is not None:
        suggest = fit
        rows = {
            text: mutation._replace(fit=lambda call, reply: dict(map(row, suggest(call, reply))))
            for text, mutation in rows.items()
        }
    return rows


def mutants(steps: type[Stepwise], **by_step: Mapping[str, Mutation]) -> list[Mutant]:
    """The mutants of a table: mutations by name, by the step that they replace, or `whole`."""
    return [
        Mutant(
            name,
            row.says,
            steps.wrong(step, row.replacement),
            row.dtypes,
            row.source,
            tuple(steps.wrong(step, other) for other in row.others),
            row.fit and partial(_fitted, steps, step, row.fit),
            row.family,
        )
        for step, mutations in by_step.items()
        for name, row in mutations.items()
    ]


def _fitted(steps: type[Stepwise], step: str, fit: Callable[..., Any], call: Call, reply: Reply) -> list[Mutant]:
    return mutants(steps, **{step: fit(call, reply)})


def careless_mutants(function: Function) -> list[Mutant]:
    """A correct function that ignores strides, and two that leave something for the next call."""
    return [reads_in_memory_order(function), reuses_output(function), remembers_tensors(function)]


def reads_in_memory_order(function: Function) -> Mutant:
    """A correct function that gets its numbers in the order in which they lie in memory."""

    def read(argument: Any) -> Any:
        return as_it_lies(argument) if is_tensor(argument) else argument

    def mutant(*arguments: Any, **named: Any) -> Any:
        return function(*map(read, arguments), **{name: read(argument) for name, argument in named.items()})

    return Mutant("reads_in_memory_order", "numbers are read in memory's order, whatever the strides", mutant)


def reuses_output(function: Function) -> Mutant:
    """A correct function that writes its outputs over earlier ones of the same shape."""
    buffers: dict[tuple[Any, ...], Tensor] = {}

    def written(output: Tensor) -> Tensor:
        return buffers.setdefault((output.shape, output.dtype), output.new_empty(output.shape)).copy_(output)

    def mutant(*arguments: Any, **named: Any) -> Any:
        output = function(*arguments, **named)
        return (written(output[0]), *output[1:]) if isinstance(output, tuple) else written(output)

    says = "outputs of one shape share their memory: an earlier one changes with the next call"
    return Mutant("reuses_output", says, mutant)


def remembers_tensors(function: Function) -> Mutant:
    """A correct function that does not read the tensors of the call before again."""
    before: list[Any] = []

    def equal(argument: Any, earlier: Any) -> bool:
        if is_tensor(argument) or is_tensor(earlier):
            return argument is earlier
        return bool(argument == earlier)

    def mutant(*arguments: Any, **named: Any) -> Any:
        inputs = [*arguments, *named.values()]
        if not before or len(inputs) != len(before[0]) or not all(map(equal, inputs, before[0])):
            before[:] = [inputs, function(*arguments, **named)]
        output = before[1]
        return tuple(tensor.clone() for tensor in output) if isinstance(output, tuple) else output.clone()

    says = "the tensors of the call before are not read again, whatever has been written into them"
    return Mutant("remembers_tensors", says, mutant)
