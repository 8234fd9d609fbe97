"""Cases of a contract that is one formula, whose oracle bounds its own errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from attnsuite.cases.attention_weights import AttentionWeights, WithWeights
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.call import Call, Calls, Conventions
from attnsuite.cases.case import Case, Traits
from attnsuite.cases.expected import Expected, Form, PerCallCase, WithinBounds
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.returned_weights import identity_values_of
from attnsuite.cases.tensors import PRECISE, Array, Draw, Inputs, as_tensors, dtype_of, generator
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, widest
from attnsuite.judging.rounded import Rounded
from attnsuite.model import DTYPES

EMPTY_ROW = "empty_row"
"""The convention that says what a query answers that may attend to nothing."""
Oracle = Callable[..., Rounded]
"""A formula in the contract's words: numbers come as `Rounded`, masks and integers as arrays, options as they are."""


@dataclass(frozen=True)
class Formula:
    """What all cases of a contract have in common. `formula("family/what", "why", **unusual)` makes one."""

    oracle: Oracle | None
    """None where every answer is drawn, and judged by counts."""
    positional: tuple[str, ...]
    """The arguments that are passed by position, in order."""
    draw: Callable[..., Inputs]
    """`draw(random, **unusual)` makes the inputs; each of its arguments has a plain default."""
    weights: Oracle | None = None
    """Of what attends and shows its attention weights, these, … l s."""
    hidden: Callable[[Call], Array] | None = None
    """Where, of the same, a query may not attend to a key; … l s."""
    options: tuple[str, ...] = ()
    """Which unusual arguments are given to the function, and not to `draw`."""
    shared: tuple[str, ...] = ()
    """Which are given to both."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Options of every call, where a case does not say otherwise."""
    conventions: tuple[str, ...] = ()
    """The conventions that the oracle takes by keyword, as they are declared."""
    values: str = ""
    """The input, … s v, of which the output, … l v, is a weighted mean; those weights may come along with it."""

    def __call__(self, name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> FormulaCase:
        given = {option: unusual[option] for option in (*self.options, *self.shared) if option in unusual}
        drawn = {size: value for size, value in unusual.items() if size not in self.options}
        return FormulaCase(name, why, self, partial(self.draw, **drawn), {**self.always, **given}, dtypes)

    def given(self, name: str, why: str, inputs: Inputs, **options: Any) -> FormulaCase:
        """A case with these very inputs."""
        return FormulaCase(name, why, self, lambda random: inputs, {**self.always, **options})

    def refused(self, *rows: Row) -> Iterator[BadInputCase]:
        """Cases of the family `bad_input`, of what is unusual in each row."""
        for what, why, unusual in rows:
            yield BadInputCase(self(f"bad_input/{what}", why, **unusual))

    def layouts(self, *rows: Row) -> Iterator[Case]:
        """Cases of the family `layout`, whose tensors lie otherwise in memory: the usual one, and one of each row."""
        for what, why, unusual in (("scattered", "in memory from the last axis to the first, with gaps", {}), *rows):
            yield out_of_order(self(f"layout/{what}", why, **unusual))

    def again(self, *rows: Row) -> Iterator[FormulaCase]:
        """Cases of the family `again`, of calls one after the other: the usual one, and one of each row."""
        for what, why, unusual in (("usual", "other numbers, and others yet in the same tensors", {}), *rows):
            yield repeated(self(f"again/{what}", why, PRECISE, **unusual))

    def dues(self, calls: Calls, conventions: Conventions, **told: Any) -> tuple[Expected, ...]:
        """What is due of calls, attention weights too where they are wanted."""
        return tuple((self.seen if call.need_weights else self.due)(call, conventions, **told) for call in calls)

    def seen(self, call: Call, conventions: Conventions, **told: Any) -> WithWeights:
        """What is due of a call whose attention weights are wanted; what is hidden has no bound."""
        assert self.weights is not None
        assert self.hidden is not None
        plain = replace(call, options={name: each for name, each in call.options.items() if name != "need_weights"})
        due, hidden = replace(self, oracle=self.weights).due(plain, conventions), self.hidden(call)
        exact = Bounded(due.output.value, np.where(hidden, 0.0, due.output.bound))
        return WithWeights(
            self.due(plain, conventions, **told), {"": AttentionWeights(replace(due, output=exact), hidden)}
        )

    def due(self, call: Call, conventions: Conventions, **told: Any) -> WithinBounds:
        """What is due of a call. `told` is what the oracle has to know besides, such as what a draw has kept."""
        assert self.oracle is not None
        dtype = dtype_of(call)
        declared = {point: conventions[point] for point in self.conventions if point in conventions}
        told = {**call.options, **declared, **told}
        asked = {
            name: Rounded.exact(compare.numbers(tensor), PRECISIONS[dtype], widest(dtype))
            if tensor.dtype.is_floating_point
            else tensor.numpy()
            for name, tensor in call.tensors.items()
        }
        with np.errstate(all="ignore"):
            answer = self.oracle(**asked, **told).bounded
            decided = self._decided(asked, told)
        if not self.values:
            form = Form(answer.value.shape, getattr(torch, dtype), pair=self.weights is not None)
            return WithinBounds(form, answer, decided=decided)
        keys = call.tensors[self.values].shape[-2]
        form = Form(answer.value.shape, getattr(torch, dtype), weights=(*answer.value.shape[:-1], keys))
        return WithinBounds(form, answer, weights=partial(self._weights, asked, told, dtype), decided=decided)

    def _decided(self, asked: Mapping[str, Any], told: Mapping[str, Any]) -> Array | None:
        """The numbers of empty rows, which a convention decides: NaN where that is declared. None without such."""
        if EMPTY_ROW not in self.conventions:
            return None
        assert self.oracle is not None
        found: Array = np.isnan(self.oracle(**asked, **{**told, EMPTY_ROW: "nan"}).value.astype(np.float64))
        return found

    def _weights(self, asked: Mapping[str, Any], options: Mapping[str, Any], dtype: str) -> Bounded:
        """The weights, which are the answer over the identity."""
        assert self.oracle is not None
        *lead, keys, _ = asked[self.values].shape
        over = Rounded.exact(identity_values_of(lead, keys), PRECISIONS[dtype], widest(dtype))
        with np.errstate(all="ignore"):
            return self.oracle(**{**asked, self.values: over}, **options).bounded


@dataclass(frozen=True)
class FormulaCase(PerCallCase):
    """One call. `draw` makes its inputs."""

    name: str
    why: str
    formula: Formula
    draw: Draw
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> Calls:
        return (Call(as_tensors(self.draw(generator(self.name)), dtype), self.options, self.formula.positional),)

    def traits(self, dtype: str) -> Traits:
        """Its dtype and its options; what it is drawn from is not known."""
        return {"dtype": (dtype,), **{name: (f"{name} {value}",) for name, value in self.options.items()}}

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        return self.formula.dues(calls, conventions)


@dataclass(frozen=True)
class RepeatedCase(FormulaCase):
    """Three calls of equal sizes. Each has numbers of its own, those of the third in the tensors of the second."""

    def calls(self, dtype: str) -> Calls:
        draws = (self.draw(generator(f"{self.name} {number}")) for number in (1, 2, 3))
        first, second, third = (Call(as_tensors(each, dtype), self.options, self.formula.positional) for each in draws)
        return first, second, replace(third, same_storage=True)


def repeated(case: FormulaCase) -> RepeatedCase:
    """The same case, of three calls."""
    return RepeatedCase(**vars(case))
